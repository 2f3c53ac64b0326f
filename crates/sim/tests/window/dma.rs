//! The DMA engine: every descriptor is carried out once, in order, and memory is what the copies say.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rackmem_sim::block::{BLOCK_BYTES, Block};
use rackmem_sim::window::dma::{Descriptor, Engine};

const RING: u64 = 1 << 20;
const ENTRIES: u64 = 16;

/// Memory by words.
type Memory = BTreeMap<u64, u64>;

fn line(memory: &Memory, address: u64) -> Block {
    let word = |word: u64| memory.get(&(address + word * 8)).copied().unwrap_or(address + word);
    Block::from_words(std::array::from_fn(|at| word(at as u64)))
}

fn put(memory: &mut Memory, address: u64, block: &Block) {
    for (word, value) in (0..).zip(block.words) {
        memory.insert(address + word * 8, value);
    }
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    // Sources and targets do not overlap: what is read early must not depend on what is written late.
    (0u64..64, 128u64..192, 1u64..24).prop_map(|(from, to, lines)| Descriptor {
        from: from * BLOCK_BYTES,
        to: to * BLOCK_BYTES,
        bytes: lines * BLOCK_BYTES,
    })
}

proptest! {
    #[test]
    fn descriptors_survive_the_ring(
        from in 0u64..1 << 42, to in 0u64..1 << 42, lines in 1u64..1 << 20,
    ) {
        let (from, to) = (from * BLOCK_BYTES, to * BLOCK_BYTES);
        let descriptor = Descriptor { from, to, bytes: lines * BLOCK_BYTES };
        prop_assert!(descriptor.is_valid());
        prop_assert_eq!(Descriptor::of(descriptor.words()), descriptor);
    }

    #[test]
    fn copies_are_made_once_and_in_order(
        descriptors in prop::collection::vec(descriptor(), 1..40),
        max_read in prop::sample::select(vec![64u64, 128, 512]),
        max_payload in prop::sample::select(vec![64u64, 128, 256]),
        choices in prop::collection::vec(0u8..6, 2000),
    ) {
        let mut memory = Memory::new();
        let mut expected = Memory::new();
        let mut engine = Engine::new(RING, ENTRIES, max_payload);
        let mut left = descriptors.into_iter();
        let (mut fetching, mut reads, mut writes) = (None, Vec::new(), Vec::new());
        let mut posted = 0;
        for choice in choices.into_iter().chain((0..6).cycle().take(60_000)) {
            match choice {
                0 if engine.room() > 0 => {
                    let Some(next) = left.next() else { continue };
                    let at = engine.next_address();
                    for (word, value) in (0..).zip(next.words()) {
                        memory.insert(at + word * 8, value);
                    }
                    engine.post();
                    posted += 1;
                    for offset in (0..next.bytes).step_by(BLOCK_BYTES as usize) {
                        let block = line(&expected, next.from + offset);
                        put(&mut expected, next.to + offset, &block);
                    }
                }
                1 if fetching.is_none() => fetching = engine.fetch(),
                2 => {
                    if let Some(address) = fetching.take() {
                        engine.fetched(&line(&memory, address));
                    }
                }
                3 => {
                    if let Some(read) = engine.read(max_read) {
                        prop_assert!(u64::from(read.lines) * BLOCK_BYTES <= max_read);
                        let lines = 0..u64::from(read.lines);
                        reads.extend(lines.map(|at| read.address + at * BLOCK_BYTES));
                    }
                }
                4 if !reads.is_empty() => {
                    if let Some(write) = engine.data(line(&memory, reads.remove(0))) {
                        let bytes = write.blocks.len() as u64 * BLOCK_BYTES;
                        let last = write.to + bytes - 1;
                        prop_assert_eq!(write.to / max_payload, last / max_payload, "one TLP");
                        writes.push(write);
                    }
                }
                5 if !writes.is_empty() => {
                    let write = writes.remove(0);
                    for (at, block) in (0..).zip(&write.blocks) {
                        put(&mut memory, write.to + at * BLOCK_BYTES, block);
                        engine.written();
                    }
                }
                _ => {}
            }
            prop_assert!(engine.done() <= posted);
            if left.len() == 0 && engine.is_idle() {
                break;
            }
        }
        prop_assert!(engine.is_idle(), "{} of {posted} are done", engine.done());
        for (address, value) in &expected {
            prop_assert_eq!(memory.get(address), Some(value), "{:#x}", address);
        }
    }
}

#[test]
fn what_the_engine_cannot_do_is_not_valid() {
    let valid = Descriptor { from: 64, to: 128, bytes: 64 };
    for (wrong, why) in [
        (Descriptor { from: 8, ..valid }, "not aligned"),
        (Descriptor { to: 100, ..valid }, "not aligned"),
        (Descriptor { bytes: 0, ..valid }, "nothing"),
        (Descriptor { bytes: 96, ..valid }, "part of a line"),
        (Descriptor { bytes: 1 << 27, ..valid }, "more than the count has bits for"),
        (Descriptor { from: 1 << 48, ..valid }, "more than addresses have bits for"),
    ] {
        assert!(valid.is_valid() && !wrong.is_valid(), "{why}");
    }
}
