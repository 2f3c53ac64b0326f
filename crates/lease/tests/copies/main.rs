//! Copies of a borrowing in a world from a seed: lenders fall silent, come back, leave and are lost, answers are late,
//! requests of broken lanes take effect long after; and nobody ever reads a byte that was not written.

mod sim;
mod world;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rackmem_lease::Error;
use rackmem_lease::store::mirror::Patience;
use rackmem_lease::store::{MirrorStore, Store};
use sim::{Lender, PAGE};
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

/// Reads from the only copy, whose lender is silent, while `meanwhile` gets what people are told. Returns that and how
/// the read ended.
fn read_of_silent(
    retry: Duration,
    meanwhile: impl FnOnce(&Lender, &MirrorStore, &Mutex<Vec<String>>),
) -> (Vec<String>, Result<(), Error>) {
    let (lender, told) = (Lender::new(1, 1), Arc::new(Mutex::new(Vec::new())));
    let say = told.clone();
    let patience = Patience { limit: Duration::from_secs(3600), retry };
    let tell = Arc::new(move |text: &str| say.lock().unwrap().push(text.to_owned()));
    let store = MirrorStore::new(vec![Arc::new(lender.clone())], patience, tell).unwrap();
    let mut lane = store.lane().unwrap();
    lender.silence(u32::MAX);
    let ended = std::thread::scope(|scope| {
        let read = scope.spawn(move || {
            lane.ask_read(0, PAGE)?;
            lane.take(&mut [0; PAGE])
        });
        meanwhile(&lender, &store, &told);
        read.join().unwrap()
    });
    let told = told.lock().unwrap().clone();
    (told, ended)
}

/// A thread that touches memory of a dead lender, before that is known, is not told to wait.
#[test]
fn nobody_is_told_to_wait_for_a_lender_that_is_lost() {
    let (told, ended) = read_of_silent(Duration::from_secs(3600), |lender, store, _| {
        // The request has failed, and so has the attempt to make a lane anew.
        while u32::MAX - lender.silent() < 2 {
            std::thread::yield_now();
        }
        lender.lose();
        store.check().unwrap_err();
    });
    assert!(matches!(ended, Err(Error::Lost { .. })), "{ended:?}");
    assert_eq!(told, Vec::<String>::new());
}

#[test]
fn a_wait_for_a_silent_lender_is_told_once() {
    let (told, ended) = read_of_silent(Duration::from_millis(1), |lender, _, told| {
        while told.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        let before = lender.silent();
        while before - lender.silent() < 10 {
            std::thread::yield_now();
        }
        lender.silence(0);
    });
    ended.unwrap();
    let [waits, goes_on] = &told[..] else { panic!("{told:?}") };
    assert!(waits.contains("stands still for up to 3600 s"), "{waits}");
    assert!(goes_on.contains("answers again"), "{goes_on}");
}
