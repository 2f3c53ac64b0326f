//! Combining buffers: what leaves them, in any order of taking, makes memory what the stores say.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rackmem_sim::block::Block;
use rackmem_sim::coherence::Content;
use rackmem_sim::window::combining::Combining;

/// A store, a fence, a read of a line, or that something on its way has been taken.
#[derive(Clone, Debug)]
enum Step {
    Store { line: u64, offset: usize, size: usize, value: u64 },
    Fence,
    Read(u64),
    Taken(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let store = (0u64..6, 0usize..4, 0usize..64, any::<u64>()).prop_map(
        |(line, log_size, offset, value)| {
            let size = 1 << log_size;
            Step::Store { line, offset: offset / size * size, size, value }
        },
    );
    prop_oneof![
        12 => store,
        1 => Just(Step::Fence),
        1 => (0u64..6).prop_map(Step::Read),
        6 => any::<prop::sample::Index>().prop_map(Step::Taken),
    ]
}

type Memory = BTreeMap<u64, Block>;

fn put(memory: &mut Memory, line: u64, change: Block) {
    let old = memory.get(&line).copied().unwrap_or(Block::ZERO);
    memory.insert(line, old.modified(change));
}

/// Everything that is ready leaves, and is on its way until it is taken.
fn send(buffers: &mut Combining, on_way: &mut Vec<(u64, Block)>, capacity: usize) {
    on_way.extend(std::iter::from_fn(|| buffers.send()));
    assert!(on_way.len() <= capacity, "more on its way than there are buffers");
}

proptest! {
    #[test]
    fn memory_becomes_what_was_stored(
        capacity in 1usize..4,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut buffers = Combining::new(capacity);
        let (mut memory, mut expected) = (Memory::new(), Memory::new());
        let mut on_way: Vec<(u64, Block)> = Vec::new();
        for step in steps {
            match step {
                Step::Store { line, offset, size, value } => {
                    let bytes = &value.to_le_bytes()[..size];
                    // As the core does: it tries again when something has been taken.
                    while !buffers.store(line, offset, bytes) {
                        send(&mut buffers, &mut on_way, capacity);
                        prop_assert!(!on_way.is_empty(), "a store waits for nothing");
                        let (taken, block) = on_way.remove(0);
                        put(&mut memory, taken, block);
                        buffers.taken(taken);
                    }
                    put(&mut expected, line, Block::write(offset, bytes));
                }
                Step::Fence => buffers.close_all(),
                Step::Read(line) => {
                    // Nothing of the line is here: memory has all.
                    if !buffers.close(line) {
                        prop_assert_eq!(memory.get(&line), expected.get(&line));
                    }
                }
                Step::Taken(which) if !on_way.is_empty() => {
                    let (line, block) = on_way.swap_remove(which.index(on_way.len()));
                    put(&mut memory, line, block);
                    buffers.taken(line);
                }
                Step::Taken(_) => {}
            }
            send(&mut buffers, &mut on_way, capacity);
        }
        buffers.close_all();
        while !buffers.is_empty() {
            send(&mut buffers, &mut on_way, capacity);
            let (line, block) = on_way.remove(0);
            put(&mut memory, line, block);
            buffers.taken(line);
        }
        prop_assert!(on_way.is_empty());
        prop_assert_eq!(memory, expected);
    }
}

#[test]
fn a_full_line_leaves_by_itself_and_in_one_piece() {
    let mut buffers = Combining::new(2);
    for word in 0..8 {
        assert!(buffers.send().is_none());
        assert!(buffers.store(5, word * 8, &[word as u8; 8]));
    }
    let (line, block) = buffers.send().unwrap();
    assert_eq!((line, block.is_change(), block.written_bytes()), (5, false, 64));
    assert!(!buffers.store(5, 0, &[1]), "the line's buffer is on its way");
    assert!(buffers.taken(5));
    assert!(buffers.store(5, 0, &[1]));
}

#[test]
fn the_oldest_buffer_makes_room() {
    let mut buffers = Combining::new(2);
    assert!(buffers.store(1, 0, &[1; 8]));
    assert!(buffers.store(2, 0, &[2; 8]));
    assert!(!buffers.store(3, 0, &[3; 8]));
    assert_eq!(buffers.send().map(|(line, _)| line), Some(1));
    assert!(buffers.send().is_none());
    assert!(!buffers.store(3, 0, &[3; 8]));
    buffers.taken(1);
    assert!(buffers.store(3, 0, &[3; 8]));
}
