//! Counters of a running chip besides those that its parts keep for themselves; names are given to them when the run is
//! over.

use crate::figures::Figures;

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $field:ident => $path:literal,)*) => {
        /// Counters of a chip.
        #[derive(Clone, Debug, Default)]
        pub struct Counts {
            $($(#[doc = $doc])* pub $field: u64,)*
        }

        impl Counts {
            /// Adds the counters under their paths.
            pub fn write_to(&self, stats: &mut Figures) {
                $(stats.add($path, self.$field as f64);)*
            }
        }
    };
}

counts! {
    /// Remote reads that software has seen to be complete.
    reads => "core.reads",
    /// Looks at the CQ that missed the L1.
    cq_misses => "core.cq_misses",
    /// Stores that found their block not writable.
    store_misses => "core.store_misses",
    /// Requests that left the chip.
    requests_out => "rmc.requests",
    /// Lines that RCPs stored, or cores loaded.
    rcp_lines => "rcp.lines",
    /// Lines that RRPPs sent.
    rrpp_lines => "rrpp.lines",
    /// Requests that RRPPs got.
    rrpp_requests => "rrpp.requests",
    /// Accesses to memory that RRPPs began.
    rrpp_accesses => "rrpp.accesses",
    /// Hops from RRPP to home, summed.
    rrpp_hops => "rrpp.hops",
    /// RRPP accesses that homes have begun to serve.
    rrpp_served => "rrpp.served",
    /// Those of them for which memory was read.
    rrpp_from_memory => "rrpp.from_memory",
    /// Entries that directories took back.
    recalls => "home.recalls",
    /// Requests for blocks of queues.
    queue_requests => "home.requests_queues",
    /// Blocks of queues that private caches wrote back.
    queue_writebacks => "home.writebacks_queues",
    /// Coherence messages about blocks of WQs.
    wq_messages => "home.messages_wq",
    /// Coherence messages about blocks of CQs.
    cq_messages => "home.messages_cq",
    /// Stores to borrowed memory that went through homes, combined.
    through_writes => "home.through_writes",
    /// Those that dropped a copy.
    through_dropped => "home.through_dropped",
    /// Blocks that homes fetched ahead.
    prefetches => "home.prefetches",
}
