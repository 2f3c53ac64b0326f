//! Counters of a core.

use serde::{Deserialize, Serialize};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of a core.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Stats { $($(#[$doc])* pub $name: u64),* }

        impl Stats {
            /// All counters with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Instructions, with and without timing.
            pub fn executed(&self) -> u64 {
                self.retired + self.fast_forwarded
            }

            /// The counts since `before`.
            pub(super) fn since(&self, before: &Stats) -> Stats {
                Stats { $($name: self.$name - before.$name),* }
            }

            /// Adds what was counted, `times` over.
            pub(super) fn repeat(&mut self, counted: &Stats, times: u64) {
                $(self.$name += counted.$name * times;)*
            }
        }
    };
}

stats! {
    /// Cycles in which the core was running.
    cycles,
    /// Instructions retired.
    retired,
    /// Instructions executed without timing.
    fast_forwarded,
    /// Branches and jumps retired.
    branches,
    /// Branches and jumps on the right path so far that went elsewhere than predicted.
    mispredictions,
    /// Times that loads were undone because an older store turned out to write what they read.
    store_flushes,
    /// Times that loads were undone because they had overtaken an older one of the same line, and
    /// the line changed in between.
    load_flushes,
    /// Instructions dispatched and thrown away.
    squashed,
    /// Loads retired.
    loads,
    /// Stores retired.
    stores,
    /// Atomics retired: read-modify-writes, load reserved and store conditional.
    atomics,
    /// Store conditionals that failed.
    failed_conditionals,
    /// Loads that got their value from a store that had not left.
    forwarded,
    /// Loads that did not find their line.
    load_misses,
    /// Loads that read again because their line went away in the meantime.
    replays,
    /// Lines that were not writable when stores, those to a line together, or an atomic came to them.
    store_misses,
    /// Lines of instructions that were not there.
    fetch_misses,
    /// Cycles in which nothing was dispatched because the ROB was full.
    rob_full,
    /// Cycles in which nothing was dispatched because a load or store queue was full.
    queue_full,
    /// Cycles in which there was nothing to dispatch.
    starved,
}
