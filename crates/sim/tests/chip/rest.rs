//! Invariants of all copies of a block: always, and when everything has come to rest.

use rackmem_sim::block::Line;
use rackmem_sim::chip::Chip;
use rackmem_sim::chip::layout::Part;
use rackmem_sim::chip::ni::Ni;
use rackmem_sim::chip::tile::NiCache;
use rackmem_sim::coherence::home::Directory;
use rackmem_sim::coherence::{Party, l1, pair};
use rackmem_sim::figures::Figures;

use super::bench::Bench;
use super::oracle::{Oracle, Words};

/// A cache's right to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    Read,
    Write,
}

/// A copy that may be used.
#[derive(Clone, Copy, Debug)]
struct Copied {
    party: Party,
    right: Right,
    /// Whether it answers for the block.
    owns: bool,
    words: Words,
}

/// The copies of a block that may be read or written just now.
fn copies(chip: &Chip, line: Line) -> Vec<Copied> {
    let mut copies = Vec::new();
    let mut note = |party, state, words| {
        let (right, owns) = match state {
            l1::State::S => (Right::Read, false),
            l1::State::E | l1::State::M => (Right::Write, true),
            _ => return,
        };
        copies.push(Copied { party, right, owns, words });
    };
    for (party, tile) in (0..).zip(&chip.tiles) {
        let (state, block) = tile.l1.peek(line);
        note(party, state, block.words);
    }
    let ni_caches: &[NiCache] = match &chip.ni {
        Ni::QueuePairs(ni) => &ni.ni_caches,
        _ => &[],
    };
    for (n, ni) in (0..).zip(ni_caches) {
        let (state, block) = ni.cache.peek(line);
        note(chip.wires.layout.party_of(Part::NiCache(n)), state, block.words);
    }
    let mut of_pairs = Vec::new();
    for (party, tile) in (0..).zip(&chip.tiles) {
        let Some(ni) = &tile.ni else { continue };
        match ni.cache.peek(line) {
            (pair::State::Plain(state), block) => note(party, state, block.words),
            (pair::State::Owned { .. }, block) => {
                // It may not write before it has taken the other's copy back.
                let (right, words) = (Right::Read, block.words);
                of_pairs.push(Copied { party, right, owns: true, words });
            }
        }
    }
    copies.extend(of_pairs);
    copies
}

/// A block that one may write has no other copy, in another cache or within the pair; one that a
/// pair owns has none outside.
pub fn one_writer(chip: &Chip, line: Line) {
    let copies = copies(chip, line);
    let now = chip.wires.now;
    let writers = copies.iter().filter(|copy| copy.right == Right::Write).count();
    assert!(writers == 0 || copies.len() == 1, "cycle {now}, block {line:#x}: {copies:x?}");
    if let Some(owner) = copies.iter().find(|copy| copy.owns) {
        let strange = copies.iter().any(|copy| copy.party != owner.party);
        assert!(!strange, "cycle {now}, block {line:#x} is owned: {copies:x?}");
    }
}

/// Caches, directory, LLC and memory agree with each other and with the oracle.
fn agrees(chip: &Chip, line: Line, expected: Words) {
    one_writer(chip, line);
    let copies = copies(chip, line);
    let home = &chip.homes[usize::from(chip.wires.layout.home_of(line))];
    let directory = home.directory(line, &chip.wires);
    for copy in &copies {
        assert_eq!(copy.words, expected, "block {line:#x}: {copy:x?}");
        let known = match directory {
            Directory::Uncached => false,
            Directory::Shared(sharers) => sharers >> copy.party & 1 != 0 && !copy.owns,
            Directory::Owned(owner) => owner == copy.party,
        };
        assert!(known, "block {line:#x}: {copy:?}, but {directory:?}");
    }
    let owned = copies.iter().any(|copy| copy.owns);
    assert_eq!(owned, matches!(directory, Directory::Owned(_)), "block {line:#x}: {directory:?}");
    let memory = chip.memories[usize::from(chip.wires.layout.controller_of(line))].peek(line).words;
    let llc = home.peek(line, &chip.wires);
    if let Some((false, block)) = llc {
        assert_eq!(block.words, memory, "block {line:#x} in the LLC is said to be clean");
    }
    if !owned {
        let behind = llc.map_or(memory, |(_, block)| block.words);
        assert_eq!(behind, expected, "block {line:#x}: {llc:x?}, memory {memory:x?}");
    }
}

/// What homes and network interfaces have counted.
pub fn figures(chip: &Chip) -> Figures {
    let mut figures = Figures::default();
    chip.homes.iter().for_each(|home| home.write_stats(&mut figures));
    chip.ni.write_stats(&chip.tiles, &chip.wires, &mut figures);
    figures
}

/// Nothing is left, and all copies of all blocks agree.
pub fn at_rest(bench: &Bench) {
    assert_eq!(bench.chip.left(), Vec::<String>::new(), "in cycle {}", bench.now());
    assert_eq!(bench.missing_stores(), 0, "replies that have not been stored");
    assert_eq!(bench.remote.waiting(), 0, "requests without an answer");
    let oracle: &Oracle = &bench.oracle;
    oracle.lines().for_each(|line| agrees(&bench.chip, line, oracle.current(line)));
    let queues = bench.chip.wires.layout.queue_lines();
    (0..queues).for_each(|line| one_writer(&bench.chip, line));
}
