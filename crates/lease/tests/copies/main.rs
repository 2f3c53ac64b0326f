//! Copies of a borrowing in a world from a seed: lenders fall silent, come back, leave and are lost, answers are late,
//! requests of broken lanes take effect long after; and nobody ever reads a byte that was not written.

mod sim;
mod world;

use world::World;

/// Schedules that a run of the tests goes through; `RACKMEM_SCHEDULES` says another number.
const SCHEDULES: u64 = 4_000;

/// Steps of a schedule.
const STEPS: usize = 150;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// One copy, or two: whatever happens, as long as one that has every write can be reached some day, no write that was
/// answered is lost. `RACKMEM_SEED` repeats one schedule.
#[test]
fn no_answered_write_is_lost_and_no_read_is_wrong() {
    if let Some(seed) = number("RACKMEM_SEED") {
        return World::new(seed).run(STEPS);
    }
    let schedules = number("RACKMEM_SCHEDULES").unwrap_or(SCHEDULES);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let seen = std::thread::scope(|scope| {
        let part = |first| move || run_all((first..schedules).step_by(threads as usize));
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
        let mut seen = world::Seen::default();
        for part in parts {
            seen.add(&part.join().expect("a schedule failed: see above"));
        }
        seen
    });
    // The schedules do reach what they are for.
    println!("{seen:?}");
    assert!(seen.rejoined > 0 && seen.replaced > 0 && seen.evacuated > 0, "{seen:?}");
    assert!(seen.waited > 0 && seen.late > 0 && seen.fell_back > 0, "{seen:?}");
}

fn run_all(seeds: impl Iterator<Item = u64>) -> world::Seen {
    let mut seen = world::Seen::default();
    for seed in seeds {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run(STEPS);
            world.seen
        });
        match run {
            Ok(more) => seen.add(&more),
            Err(panic) => {
                eprintln!("repeat this schedule by RACKMEM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    seen
}
