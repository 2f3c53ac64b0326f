//! The arbiters between pipelines and MAQ (soNUMA §4.3).

use std::collections::VecDeque;
use std::ops::Range;

use super::maq::{Access, Maq, Response, SOURCES, Source, Tag};
use crate::block::Line;
use crate::engine::Cycle;

/// The event for which the asking stage waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The access is performed.
    Done,
    /// The MAQ has taken it: from then on it comes before all later accesses to its bytes.
    Taken,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Cycle,
    access: Access,
    tag: Tag,
    wait: Wait,
}

/// The arbiters of the three pipelines and of the page walker.
///
/// Each serves the stages of its pipeline in the order in which they have asked, one a cycle. If
/// the MAQ has not room for all four, they have their turns.
#[derive(Clone, Debug)]
pub struct Arbiters {
    queues: [VecDeque<Asked>; SOURCES],
    turn: usize,
}

impl Arbiters {
    /// Arbiters that nobody has asked. None allocates while not more than `accesses` wait.
    pub fn new(accesses: usize) -> Self {
        Self { queues: std::array::from_fn(|_| VecDeque::with_capacity(accesses)), turn: 0 }
    }

    /// A stage asks for an access; it reaches the MAQ in the next cycle at the earliest.
    #[inline]
    pub fn ask(&mut self, now: Cycle, access: Access, tag: Tag, wait: Wait) {
        self.queues[tag.source as usize].push_back(Asked { at: now, access, tag, wait });
    }

    /// Hands the MAQ one access of each arbiter, as far as there is room; appends the answers for
    /// stages that only wait for that.
    #[inline]
    pub fn forward(&mut self, now: Cycle, maq: &mut Maq, out: &mut Vec<Response>) {
        let first = self.turn;
        for step in 0..SOURCES {
            let index = (first + step) % SOURCES;
            let Some(asked) = self.queues[index].front().filter(|asked| asked.at < now) else {
                continue;
            };
            if !maq.has_room() {
                return;
            }
            let (tag, is_waited_for) = (asked.tag, asked.wait == Wait::Done);
            maq.accept(asked.access, is_waited_for.then_some(tag));
            if !is_waited_for {
                out.push(Response { tag, words: [0; 8] });
            }
            self.queues[index].pop_front();
            // The source that has been served is last next time.
            self.turn = (index + 1) % SOURCES;
        }
    }

    /// Whether a source has more accesses waiting than its pipeline should add to.
    #[inline]
    pub fn waiting(&self, source: Source) -> usize {
        self.queues[source as usize].len()
    }

    /// Whether a store to one of these blocks waits.
    pub fn has_store_to(&self, lines: &Range<Line>) -> bool {
        self.queues.iter().flatten().any(|asked| asked.access.stores_to(lines))
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
}
