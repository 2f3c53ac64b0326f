//! Sizes and times of an RMC.

use rackmem_rmc::MAX_ITT_CAPACITY;
use rackmem_rmc::qp::MAX_QPS;

use super::page::Format;
use super::slots::MAX_SLOTS;
use crate::section::section;

/// The most entries of the TLB and the CT$, and packets that a lane has room for.
const MAX_ENTRIES: u32 = 1 << 16;

section! {
    /// Sizes and times of an RMC. Those that soNUMA gives (Table 1, §4.3) come first; each other one has its
    /// reason beside its default.
    #[derive(Eq)]
    pub struct RmcSpec {
        /// Memory accesses in the memory access queue (Table 1).
        maq_entries: u32 = 32,
        /// Blocks that the RMC's L1 has asked for and not got (Table 1; §7.1: 32 in flight).
        #[serde(skip)]
        l1_mshrs: u32 = 32,
        /// Accesses that the L1 takes a cycle (Table 1).
        #[serde(skip)]
        l1_ports: u32 = 2,
        /// Time of an L1 hit, tag and data (Table 1).
        #[serde(skip)]
        l1_latency_cycles: u32 = 3,
        /// Translations in the TLB (Table 1).
        tlb_entries: u32 = 32,
        /// Size of a page: 4096 or 8192 (Table 1).
        #[serde(skip)]
        page_bytes: u64 = 8192,

        /// Time in which a load gets the data of a store that is in the MAQ.
        // A comparison of addresses and a multiplexer.
        forward_cycles: u32 = 1,
        /// Width of the word-wide L1 interface; longer accesses take a port for several cycles.
        // The word of a 64-bit core: "a conventional word-wide interface" (§4.3).
        word_bytes: u32 = 8,
        /// Page walks under way.
        // As many as there are pipelines, and one more: misses are rare and far apart.
        walks: u32 = 4,
        /// Contexts in the CT$.
        // "Small" (§4.3). Contexts are applications; a node runs few at a time.
        ct_cache_entries: u32 = 8,
        /// Queue pairs that the RMC can poll: the queue part of the CT$.
        // One for each thread of a socket of the time, with room.
        queue_pairs: u32 = 64,
        /// Work queue entries in flight.
        // One work queue of 128 entries. 10 M operations/s of 300 ns (§7.2) are 3 at a time.
        itt_entries: u32 = 128,
        /// Between two polls of the RGP.
        // The time of the load, so that one register holds the poll that is under way.
        poll_interval_cycles: u32 = 3,
        /// Work queue entries that the RGP has taken and not begun.
        // A block of the work queue holds four.
        rgp_entries: u32 = 4,
        /// Work queue entries that the RGP unrolls in turn.
        // Enough that a short request need not wait for the end of a long one.
        rgp_transfers: u32 = 4,
        /// Lines on their way through the RGP.
        // As many as the MAQ has entries, and half as many before and behind it: the paper's
        // limit is to be the limit.
        rgp_lines: u32 = 48,
        /// Requests on their way through the RRPP.
        rrpp_requests: u32 = 48,
        /// Replies on their way through the RCP.
        rcp_replies: u32 = 48,
        /// Packets of each virtual lane for which there is room on either side of the fabric interface.
        // More than the cycles from a packet to its credit, so that one packet a cycle flows.
        lane_credits: u32 = 16,
    }
}

impl RmcSpec {
    /// Format of the page tables.
    pub const fn format(&self) -> Format {
        Format::new(self.page_bytes)
    }

    /// Whether an RMC can be made of this.
    ///
    /// # Errors
    /// The name of the first field that cannot be, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        for (name, value, least) in [
            ("rmc.maq_entries", self.maq_entries, 2), // Polling keeps one for itself.
            ("rmc.rgp_entries", self.rgp_entries, 1),
            ("rmc.rgp_transfers", self.rgp_transfers, 1),
            ("rmc.rgp_lines", self.rgp_lines, 1),
            ("rmc.rrpp_requests", self.rrpp_requests, 1),
            ("rmc.rcp_replies", self.rcp_replies, 1),
            ("rmc.walks", self.walks, 1),
        ] {
            if !(least..=MAX_SLOTS as u32).contains(&value) {
                return Err((name, format!("is {value}, must be {least} to {MAX_SLOTS}")));
            }
        }
        for (name, value) in [
            ("l1.mshrs", self.l1_mshrs),
            ("l1.ports", self.l1_ports),
            ("l1.latency_cycles", self.l1_latency_cycles),
            ("rmc.forward_cycles", self.forward_cycles),
            ("rmc.poll_interval_cycles", self.poll_interval_cycles),
        ] {
            if value == 0 {
                return Err((name, "is 0, must be at least 1".to_owned()));
            }
        }
        for (name, value) in [
            ("rmc.tlb_entries", self.tlb_entries),
            ("rmc.ct_cache_entries", self.ct_cache_entries),
            ("rmc.lane_credits", self.lane_credits),
        ] {
            if !(1..=MAX_ENTRIES).contains(&value) {
                return Err((name, format!("is {value}, must be 1 to {MAX_ENTRIES}")));
            }
        }
        let unfit = |name, value: &dyn std::fmt::Display, must: String| {
            Err((name, format!("is {value}, must be {must}")))
        };
        match self {
            _ if self.queue_pairs as usize > MAX_QPS => {
                unfit("rmc.queue_pairs", &self.queue_pairs, format!("at most {MAX_QPS}"))
            }
            _ if !self.itt_entries.is_power_of_two() || self.itt_entries > MAX_ITT_CAPACITY => {
                unfit(
                    "rmc.itt_entries",
                    &self.itt_entries,
                    format!("a power of two up to {MAX_ITT_CAPACITY}"),
                )
            }
            _ if ![4096, 8192].contains(&self.page_bytes) => {
                unfit("system.page_bytes", &self.page_bytes, "4096 or 8192".to_owned())
            }
            _ if !self.word_bytes.is_power_of_two() || !(8..=64).contains(&self.word_bytes) => {
                unfit("rmc.word_bytes", &self.word_bytes, "a power of two from 8 to 64".to_owned())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_made_is_named() {
        assert_eq!(RmcSpec::default().check(), Ok(()));
        let wrong = [
            ("rmc.maq_entries", RmcSpec { maq_entries: 1, ..RmcSpec::default() }),
            ("rmc.rgp_lines", RmcSpec { rgp_lines: 65, ..RmcSpec::default() }),
            ("l1.ports", RmcSpec { l1_ports: 0, ..RmcSpec::default() }),
            ("rmc.itt_entries", RmcSpec { itt_entries: 96, ..RmcSpec::default() }),
            ("system.page_bytes", RmcSpec { page_bytes: 16384, ..RmcSpec::default() }),
            ("rmc.word_bytes", RmcSpec { word_bytes: 4, ..RmcSpec::default() }),
            ("rmc.queue_pairs", RmcSpec { queue_pairs: 5000, ..RmcSpec::default() }),
            ("rmc.tlb_entries", RmcSpec { tlb_entries: 1 << 31, ..RmcSpec::default() }),
            ("rmc.ct_cache_entries", RmcSpec { ct_cache_entries: 1 << 31, ..RmcSpec::default() }),
            ("rmc.lane_credits", RmcSpec { lane_credits: 1 << 31, ..RmcSpec::default() }),
        ];
        for (field, spec) in wrong {
            assert_eq!(spec.check().unwrap_err().0, field);
        }
    }

    #[test]
    fn files_name_what_they_change() {
        let spec: RmcSpec = toml::from_str("maq_entries = 16").unwrap();
        assert_eq!(spec, RmcSpec { maq_entries: 16, ..RmcSpec::default() });
        assert!(toml::from_str::<RmcSpec>("maq = 16").is_err());
    }
}
