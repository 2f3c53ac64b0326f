//! The outstanding request queue: never more than its entries under way, none lost, in order.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use rackmem_sim::window::orq::{Asked, Orq};

proptest! {
    #[test]
    fn reads_leave_in_order_as_entries_are_free(
        capacity in 1usize..6,
        steps in prop::collection::vec((0u8..3, any::<prop::sample::Index>()), 1..200),
    ) {
        let mut orq = Orq::new(capacity);
        let (mut waiting, mut under_way) = (VecDeque::new(), BTreeMap::new());
        let mut most = 0;
        for (now, (step, which)) in steps.into_iter().enumerate() {
            let asked = Asked { line: now as u64 * 3, at: now as u64 };
            match step {
                0 => {
                    orq.ask(asked.line, asked.at);
                    waiting.push_back(asked);
                }
                1 => {
                    let may = under_way.len() < capacity;
                    let expected: Option<Asked> = if may { waiting.pop_front() } else { None };
                    let next = orq.issue();
                    prop_assert_eq!(next.map(|(_, asked)| asked.line), expected.map(|asked| asked.line));
                    if let (Some((tag, _)), Some(asked)) = (next, expected) {
                        prop_assert!(under_way.insert(tag, asked).is_none(), "a tag in use");
                    }
                    most = most.max(under_way.len());
                }
                _ => {
                    let tags: Vec<u32> = under_way.keys().copied().collect();
                    if let Some(&tag) = tags.get(which.index(tags.len().max(1))) {
                        prop_assert_eq!(Some(orq.done(tag)), under_way.remove(&tag));
                    }
                }
            }
            prop_assert_eq!(orq.len(), waiting.len() + under_way.len());
            prop_assert_eq!(orq.most(), most);
        }
        prop_assert!(most <= capacity);
    }
}
