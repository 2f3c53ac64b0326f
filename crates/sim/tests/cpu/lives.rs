//! The lives of instructions: all of them, each once, and the same core with and without their record.

use std::ops::Range;

use crate::seeds::seeds;
use rackmem_riscv::Hart;
use rackmem_sim::cpu::{Core, CpuSpec, Life, Lives, Stats, Stretch};
use rackmem_sim::engine::Cycle;

use crate::generate::generate;
use crate::polling::{random_poller, writer};
use crate::rng::Rng;
use crate::system::System;
use rackmem_sim::litmus::memory::Delays;
use rackmem_sim::litmus::node::Node;

fn stretch(cycles: Range<Cycle>) -> Stretch {
    Stretch { cycles, most: usize::MAX }
}

/// The cycles of the stages, in their order.
fn stages(life: &Life) -> [Cycle; 6] {
    [life.fetched, life.decoded, life.dispatched, life.issued, life.completed, life.retired]
}

/// Holds a core's lives, of all its cycles, against its counters. It has stopped.
fn check(lives: &[Life], counted: &Stats, spec: &CpuSpec) {
    let (retired, squashed): (Vec<&Life>, Vec<&Life>) =
        lives.iter().partition(|life| life.retired != 0);
    assert_eq!(retired.len() as u64, counted.retired);
    let dispatched = squashed.iter().filter(|life| life.dispatched != 0);
    assert_eq!(dispatched.count() as u64, counted.squashed);
    assert!(lives.iter().map(|life| life.order).eq(1..=lives.len() as u64), "each once");
    assert!(lives.iter().map(|life| life.fetched).is_sorted());
    for life in lives {
        let mut reached = stages(life).to_vec();
        if life.retired == 0 {
            let count = reached.iter().position(|&at| at == 0).expect("it does not retire");
            assert_eq!(reached.split_off(count).iter().max(), Some(&0), "{life:?}");
        }
        assert!(reached[0] > 0 && reached.is_sorted(), "{life:?}");
        let front_end_cycles = u64::from(spec.front_end_cycles);
        assert!(life.decoded == 0 || life.decoded == life.fetched + front_end_cycles);
        assert!(life.issued == 0 || life.issued > life.dispatched, "{life:?}");
    }
    assert!(retired.is_sorted_by_key(|life| life.retired), "in order");
    let width = spec.retire_width as usize;
    assert!(retired.windows(width + 1).all(|some| some[0].retired < some[width].retired));
    let stored: Vec<_> = retired.iter().filter(|life| life.stored != 0).collect();
    assert_eq!(stored.len() as u64, counted.stores);
    assert!(stored.iter().all(|life| life.stored >= life.retired));
    assert!(squashed.iter().all(|life| life.stored == 0));
}

#[test]
fn every_instruction_of_random_programs_has_one() {
    let specs = [
        CpuSpec { sleeps: false, ..CpuSpec::default() },
        CpuSpec { sleeps: false, rob_entries: 64, retire_width: 8, ..CpuSpec::default() },
    ];
    for (seed, spec) in seeds(0..6).flat_map(|seed| specs.iter().map(move |spec| (seed, spec))) {
        let mut system = System::new(&generate(seed, 3000).0.elf(), spec, Delays::wild(), seed);
        system.node.cores[0].record_retired();
        system.node.cores[0].record_lives(stretch(0..u64::MAX));
        system.run(10_000_000);
        let core = &mut system.node.cores[0];
        let lives = core.take_lives();
        assert_eq!(lives.whole_to, None);
        check(&lives.instructions, core.stats(), spec);
        let retired = lives.instructions.iter().filter(|life| life.retired != 0);
        assert!(retired.map(|life| life.pc).eq(core.take_retired().iter().map(|one| one.pc)));
        let flushed_early = lives.instructions.iter().any(|life| life.dispatched == 0);
        assert!(flushed_early && core.stats().squashed > 500, "wrong paths show");
    }
}

/// Two cores that poll and one that writes.
fn pollers(seed: u64, sleeps: bool, stretch: Option<&Stretch>) -> Node {
    let mut rng = Rng::new(seed);
    let pollers = [random_poller(&mut rng), random_poller(&mut rng)];
    let [one, other] = pollers;
    let programs = [one, other, writer(&[64, 128, 192, 256, 8, 320, 0], 10_000, &mut rng)];
    let spec = CpuSpec { sleeps, ..CpuSpec::default() };
    let delays = Delays { evict: 400 * (seed % 3), ..Delays::wild() };
    let mut node = Node::short(&programs, &spec, delays, seed);
    for core in &mut node.cores {
        stretch.iter().for_each(|&stretch| core.record_lives(stretch.clone()));
    }
    node
}

fn ended(mut node: Node) -> Node {
    node.run(3_000_000);
    node
}

fn lives(node: &mut Node) -> Vec<Lives> {
    node.cores.iter_mut().map(Core::take_lives).collect()
}

/// The instructions of each core.
fn instructions(node: &mut Node) -> Vec<Vec<Life>> {
    lives(node).into_iter().map(|lives| lives.instructions).collect()
}

fn all_of(node: &Node) -> (Cycle, Vec<Hart>, Vec<Stats>) {
    let harts = node.cores.iter().map(Core::hart).collect();
    (node.now, harts, node.cores.iter().map(|core| *core.stats()).collect())
}

#[test]
fn cores_that_sleep_have_them_too_and_end_the_same() {
    let mut saved = 0.0_f64;
    for seed in seeds(0..4) {
        let alone = ended(pollers(seed, true, None));
        let all = stretch(0..u64::MAX);
        let [mut awake, mut asleep] =
            [false, true].map(|sleeps| ended(pollers(seed, sleeps, Some(&all))));
        assert_eq!(all_of(&alone), all_of(&asleep), "seed {seed}");
        assert_eq!(all_of(&alone), all_of(&awake), "seed {seed}");
        saved = saved.max(awake.ticks as f64 / asleep.ticks as f64);
        let whole = instructions(&mut awake);
        assert!(whole == instructions(&mut asleep), "seed {seed}");
        for (lives, core) in whole.iter().zip(&awake.cores) {
            check(lives, core.stats(), &CpuSpec::default());
        }
    }
    assert!(saved > 1.5, "{saved}: they do sleep");
}

/// Instructions that each core has retired before a cycle.
fn retired_before(seed: u64, cycle: Cycle) -> Vec<u64> {
    let mut node = pollers(seed, true, None);
    while node.run_to_stop(cycle - 1).is_some() {}
    node.now = cycle - 1;
    node.settle();
    node.cores.iter().map(|core| core.stats().retired).collect()
}

#[test]
fn stretches_have_what_ends_in_them() {
    for seed in seeds(0..4) {
        let mut whole = ended(pollers(seed, true, Some(&stretch(0..u64::MAX))));
        let ends = [1, whole.now / 3, whole.now / 2, whole.now + 1];
        let mut found = vec![Vec::new(); whole.cores.len()];
        for (from, to) in ends.into_iter().zip(ends.into_iter().skip(1)) {
            let (before, after) = (retired_before(seed, from), retired_before(seed, to));
            let mut node = ended(pollers(seed, true, Some(&stretch(from..to))));
            for (core, lives) in instructions(&mut node).into_iter().enumerate() {
                let count = lives.iter().filter(|life| life.retired != 0).count() as u64;
                assert_eq!(count, after[core] - before[core], "seed {seed}, {from}..{to}");
                assert!(lives.is_sorted_by_key(|life| life.fetched));
                found[core].extend(lives);
            }
        }
        let mut expected = instructions(&mut whole);
        for lives in found.iter_mut().chain(&mut expected) {
            // Numbers are of a record; the order of fetch is by cycle.
            lives.iter_mut().for_each(|life| life.order = 0);
            lives.sort_by_key(|life| (stages(life), life.pc));
        }
        for (found, expected) in found.iter().zip(&expected) {
            let other = found.iter().zip(expected).find(|(one, other)| one != other);
            assert_eq!((other, found.len()), (None, expected.len()), "seed {seed}");
        }
    }
}

#[test]
fn no_more_are_kept_than_there_is_room_for() {
    let most = 500;
    for seed in seeds(0..4) {
        let whole = instructions(&mut ended(pollers(seed, true, Some(&stretch(0..u64::MAX)))));
        let few = Stretch { cycles: 0..u64::MAX, most };
        let kept = lives(&mut ended(pollers(seed, true, Some(&few))));
        for (kept, whole) in kept.iter().zip(&whole) {
            assert_eq!(kept.instructions.len(), most.min(whole.len()));
            let before = kept.whole_to.unwrap_or(Cycle::MAX);
            let early = |life: &&Life| life.retired != 0 && life.retired < before;
            assert!(kept.instructions.iter().filter(early).eq(whole.iter().filter(early)));
        }
        assert!(kept.iter().any(|lives| lives.whole_to.is_some()));
    }
}
