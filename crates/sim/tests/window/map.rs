//! The address map: inside an entry by offset, outside nowhere (invariant i of the specification).

use proptest::prelude::*;
use rackmem_sim::window::map::{AddressMap, Entry, MapError, Target};

/// A small space, so that entries touch and overlap.
fn entry() -> impl Strategy<Value = Entry> {
    (0u64..64, 0u64..24, 0u16..4, 0u64..1000).prop_map(|(base, bytes, node, remote_base)| Entry {
        base,
        bytes,
        node,
        remote_base,
    })
}

/// The target of an access according to the entries, one address at a time.
fn expected(entries: &[Option<Entry>], address: u64, bytes: u64) -> Option<Target> {
    let inside = |at: u64, entry: &Entry| at >= entry.base && at < entry.base + entry.bytes;
    let entry = entries.iter().flatten().find(|entry| inside(address, entry))?;
    let all = (address..address + bytes).all(|at| inside(at, entry));
    let target = Target { node: entry.node, address: entry.remote_base + address - entry.base };
    all.then_some(target)
}

proptest! {
    #[test]
    fn accesses_go_where_their_entry_says_or_nowhere(
        steps in prop::collection::vec((entry(), any::<prop::sample::Index>(), any::<bool>()), 1..24),
    ) {
        const CAPACITY: usize = 4;
        let mut map = AddressMap::new(CAPACITY);
        let mut known = [None; CAPACITY];
        for (entry, number, inserts) in steps {
            if inserts {
                let overlaps = known.iter().flatten().any(|other: &Entry| {
                    (entry.base..entry.base + entry.bytes)
                        .any(|at| at >= other.base && at < other.base + other.bytes)
                });
                let result = map.insert(entry);
                let free = known.iter().position(Option::is_none);
                match (entry.bytes, overlaps, free) {
                    (0, ..) => prop_assert_eq!(result, Err(MapError::Empty)),
                    (_, true, _) => prop_assert_eq!(result, Err(MapError::Overlap)),
                    (_, _, None) => prop_assert_eq!(result, Err(MapError::Full)),
                    (_, _, Some(free)) => {
                        prop_assert_eq!(result, Ok(free));
                        known[free] = Some(entry);
                    }
                }
            } else {
                let number = number.index(CAPACITY);
                prop_assert_eq!(map.remove(number), known[number].take());
            }
            for address in 0..96 {
                for bytes in [1, 2, 9] {
                    let found = map.find(address, bytes);
                    prop_assert_eq!(found, expected(&known, address, bytes), "{}", address);
                }
            }
        }
    }
}

#[test]
fn the_ends_of_all_addresses_are_no_entries() {
    let mut map = AddressMap::new(1);
    let end = Entry { base: u64::MAX - 63, bytes: 64, node: 0, remote_base: 0 };
    assert_eq!(map.insert(end), Err(MapError::Empty));
    let remote = Entry { base: 0, bytes: 64, node: 0, remote_base: u64::MAX - 10 };
    assert_eq!(map.insert(remote), Err(MapError::Empty));
    assert_eq!(map.find(u64::MAX, u64::MAX), None);
}
