//! Counters: atomic additions, notifications at zero.

use proptest::prelude::*;
use rackmem_sim::scratchpad::{Misuse, State};

use super::system::{Choose, InOrder, Random, System, at};

const COUNTER: u32 = 128;

fn counter(system: &mut System, core: u16, offset: u32, reset: i64, sent: u64, to: &[u64]) {
    system.store(core, at(core, offset + 8), reset as u64, &mut InOrder);
    system.store(core, at(core, offset + 16), sent, &mut InOrder);
    for (nth, &address) in (0..).zip(to) {
        system.store(core, at(core, offset + 32 + 8 * nth), address, &mut InOrder);
    }
    system.mark(core, offset / 64, State::Counter);
}

proptest! {
    /// Invariant c: it fires once for every episode, however additions and notifications interleave;
    /// what arrives after zero belongs to the next episode.
    #[test]
    fn a_counter_fires_once_per_episode(
        arrivals in 1u64..40, episode in 1i64..9, cores in 1u16..4, seed: u64,
    ) {
        let mut random = Random(seed);
        let mut system = System::new(4);
        // The notified word counts notifications: it is a counter that never comes to zero.
        counter(&mut system, 3, 256, 1 << 40, 0, &[]);
        counter(&mut system, 0, COUNTER, -episode, 1, &[at(3, 256)]);
        for nth in 0..arrivals {
            let from = (nth % u64::from(cores)) as u16;
            system.store(from, at(0, COUNTER), 1, &mut random);
            for _ in 0..random.choose(4) {
                system.step(&mut random).unwrap();
            }
        }
        system.settle(&mut random);
        let episode = episode as u64;
        prop_assert_eq!(system.word(3, 256) - (1 << 40), arrivals / episode);
        let left = (arrivals % episode).wrapping_sub(episode);
        prop_assert_eq!(system.word(0, COUNTER), left);
    }
}

#[test]
fn all_addresses_get_the_word_and_no_others() {
    let mut system = System::new(2);
    let to = [at(1, 1024), 0, at(0, 1032), at(1, 1048)];
    counter(&mut system, 0, COUNTER, -2, 77, &to);
    system.store(1, at(0, COUNTER), 2, &mut InOrder);
    system.settle(&mut InOrder);
    assert_eq!([1024, 1032, 1040, 1048].map(|at| system.word(1, at)), [77, 0, 0, 77]);
    assert_eq!(system.word(0, 1032), 77);
}

#[test]
fn trees_of_counters_are_barriers() {
    let mut system = System::new(4);
    let mut random = Random(3);
    // Two leaves, a root, a counter that tells all: core n's flag is at 1024.
    let flags: Vec<u64> = (0..4).map(|core| at(core, 1024)).collect();
    counter(&mut system, 3, 256, -1, 9, &flags);
    counter(&mut system, 2, 256, -2, 1, &[at(3, 256)]);
    counter(&mut system, 0, COUNTER, -2, 1, &[at(2, 256)]);
    counter(&mut system, 1, COUNTER, -2, 1, &[at(2, 256)]);
    for round in 0..20 {
        for core in 0..4 {
            let flag = system.word(core, 1024);
            assert_eq!(flag, 0, "round {round}: core {core} is let go before all are there");
            system.store(core, at(core / 2, COUNTER), 1, &mut random);
            if core < 3 {
                system.settle(&mut random);
            }
        }
        system.settle(&mut random);
        for core in 0..4 {
            assert_eq!(system.word(core, 1024), 9, "round {round}");
            system.store(core, at(core, 1024), 0, &mut random);
        }
    }
}

#[test]
fn a_line_that_is_no_scratchpad_takes_nothing() {
    let mut system = System::new(2);
    system.nis[1].convert(5, 0).unwrap();
    let line = at(1, 5 * 64);
    assert_eq!(system.try_store(1, line, 1), Err(Misuse::NotScratchpad(line)));
    system.try_store(0, line, 1).unwrap();
    let arrived = (0..3).find_map(|_| system.step(&mut InOrder).err());
    assert_eq!(arrived, Some(Misuse::NotScratchpad(line)));
}
