//! Command buffers: messages and RDMA-copies.

use proptest::prelude::*;
use rackmem_sim::scratchpad::region::DRAM;
use rackmem_sim::scratchpad::{MAX_COPY_BYTES, Misuse, State, Stored};

use super::system::{InOrder, Random, System, at};

const COMMAND: u32 = 0;
const ACK: u32 = 64;

/// A system of cores whose lines 0 and 1 are a command buffer and a counter far from zero.
fn system(cores: u16) -> System {
    let mut system = System::new(cores);
    for core in 0..cores {
        system.store(core, at(core, ACK + 8), 1 << 40, &mut InOrder);
        system.mark(core, 0, State::Command);
        system.mark(core, 1, State::Counter);
    }
    system
}

fn fill(system: &mut System, core: u16, offset: u32, bytes: u32) {
    for word in 0..bytes.div_ceil(8) {
        let value = u64::from(word).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(core);
        system.store(core, at(core, offset + 8 * word), value, &mut InOrder);
    }
}

fn copy(source: u64, destination: u64, ack: u64, bytes: u64) -> [(u32, u64); 4] {
    [(0, 2 | bytes << 8), (8, destination), (16, ack), (24, source)]
}

proptest! {
    /// Invariant a: a command starts once, with its last word, in whatever order its words come and
    /// whatever happens in between. Invariant b: the acknowledged sizes add up to the transfer's,
    /// and an acknowledgement causes none.
    #[test]
    fn a_copy_is_made_once_whatever_the_order(
        order in Just([0, 1, 2, 3]).prop_shuffle(),
        source in 0u32..64, destination in 0u32..64, bytes in 1u32..300,
        from in 0u16..3, to in 0u16..3, owner in 0u16..3, seed: u64, steps in 0usize..8,
    ) {
        let mut random = Random(seed);
        let mut system = system(3);
        let (source, destination) = (1024 + source, 4096 + destination);
        fill(&mut system, from, 1024, 512);
        let expected = system.bytes(from, source, bytes);
        let ack = at(owner, ACK);
        let words = copy(at(from, source), at(to, destination), ack, bytes.into());
        for (nth, &word) in order.iter().enumerate() {
            prop_assert_eq!(system.nis[0].has_work(), false, "it has begun after {} words", nth);
            let (offset, value) = words[word];
            system.store(0, at(0, COMMAND + offset), value, &mut random);
            if nth < 3 {
                for _ in 0..steps {
                    system.step(&mut random).unwrap();
                }
            }
        }
        system.settle(&mut random);
        prop_assert_eq!(system.bytes(to, destination, bytes), expected);
        prop_assert_eq!(system.acked_bytes, u64::from(bytes));
        prop_assert_eq!(system.word(owner, ACK), (1 << 40) + u64::from(bytes));
        prop_assert_eq!(system.bytes(to, destination - 1, 1), [0], "nothing before it");
        prop_assert_eq!(system.bytes(to, destination + bytes, 1), [0], "nothing after it");
    }

    #[test]
    fn dram_and_back(seed: u64, bytes in 1u32..600, shift in 0u64..64) {
        let mut random = Random(seed);
        let mut system = system(2);
        fill(&mut system, 0, 1024, 640);
        let expected = system.bytes(0, 1027, bytes);
        for (word, value) in copy(at(0, 1027), DRAM + shift, at(1, ACK), bytes.into()) {
            system.store(0, at(0, word), value, &mut random);
        }
        system.settle(&mut random);
        prop_assert_eq!(system.acked_bytes, u64::from(bytes));
        for (word, value) in copy(DRAM + shift, at(1, 4099), at(0, ACK), bytes.into()) {
            system.store(1, at(1, word), value, &mut random);
        }
        system.settle(&mut random);
        prop_assert_eq!(system.bytes(1, 4099, bytes), expected);
        prop_assert_eq!(system.acked_bytes, 2 * u64::from(bytes));
    }
}

#[test]
fn a_message_brings_its_own_data() {
    let mut system = system(2);
    for (word, value) in [(24, 11), (32, 22), (8, at(1, 2048)), (0, 1 | 16 << 8)] {
        system.store(0, at(0, word), value, &mut InOrder);
    }
    assert!(!system.nis[0].has_work(), "the acknowledgement address is missing");
    system.store(0, at(0, 16), 0, &mut InOrder);
    system.settle(&mut InOrder);
    assert_eq!([system.word(1, 2048), system.word(1, 2056), system.word(1, 2064)], [11, 22, 0]);
    assert_eq!(system.acked_bytes, 0, "nobody was to learn of it");
}

#[test]
fn a_buffer_can_be_used_again_when_its_command_has_left() {
    let mut system = system(2);
    for round in 0..3u64 {
        system.store(0, at(0, 1024), round + 5, &mut InOrder);
        for (word, value) in copy(at(0, 1024), at(1, 2048 + 8 * round as u32), 0, 8) {
            system.store(0, at(0, word), value, &mut InOrder);
        }
        let early = system.try_store(0, at(0, 0), 2);
        assert_eq!(early, Ok(Stored::Wait), "the command waits in the job list");
        system.settle(&mut InOrder);
    }
    assert_eq!([0, 8, 16].map(|at| system.word(1, 2048 + at)), [5, 6, 7]);
}

#[test]
fn short_transfers_are_not_held_up_by_long_ones() {
    let mut system = system(2);
    system.mark(0, 2, State::Command);
    fill(&mut system, 0, 1024, 2048);
    for (word, value) in copy(at(0, 1024), at(1, 1024), 0, 2048) {
        system.store(0, at(0, word), value, &mut InOrder);
    }
    for (word, value) in copy(at(0, 1024), at(1, 4096), 0, 8) {
        system.store(0, at(0, 128 + word), value, &mut InOrder);
    }
    let left = |system: &mut System| system.nis[0].emit(|_| true, true).unwrap().unwrap().to();
    let first: Vec<u64> = (0..3).map(|_| left(&mut system)).collect();
    assert!(first.contains(&at(1, 4096)), "{first:x?}");
}

#[test]
fn what_is_no_command_is_refused() {
    let refused = |words: &[(u32, u64)]| {
        let mut system = system(2);
        let mut result = Ok(Stored::Done);
        for &(word, value) in words {
            assert_eq!(result, Ok(Stored::Done), "only the last word is wrong");
            result = system.try_store(0, at(0, word), value);
        }
        result.unwrap_err()
    };
    assert_eq!(refused(&[(0, 7 | 8 << 8)]), Misuse::Opcode(at(0, 0), 7));
    assert_eq!(refused(&[(0, 1 | 48 << 8)]), Misuse::Size(at(0, 0), 48));
    let long = MAX_COPY_BYTES + 1;
    assert_eq!(refused(&[(0, 2 | u64::from(long) << 8)]), Misuse::Size(at(0, 0), long));
    assert_eq!(refused(&[(8, 1), (8, 2)]), Misuse::DoubleWrite(at(0, 8)));
    let beyond = copy(at(0, 1024), at(1, super::system::BYTES - 8), 0, 16);
    assert!(matches!(refused(&beyond), Misuse::NoRegion(_)));
    let memory = copy(at(0, 1024), 0x1000, 0, 16);
    assert_eq!(refused(&memory), Misuse::NoRegion(0x1000), "cacheable memory is no end of a copy");
    let mut system = system(1);
    let part = system.nis[0].store(8, 4, 1);
    assert_eq!(part, Err(Misuse::PartOfWord(at(0, 8))));
}
