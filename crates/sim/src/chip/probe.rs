//! The breakdown of a synchronous read's latency: parts note when they have done their share, and the
//! differences are the rows of the paper's Table 3.

use crate::engine::Cycle;
use crate::machine::spec::Placement;
use crate::report::Stage;

/// A moment in the life of a read. Of a read of several lines, the first line passes the moments
/// on the way out, and the last line those on the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Software begins.
    Start,
    /// The stores of the WQ entry are performed.
    WqWritten,
    /// The entry is in the NI cache.
    WqInNi,
    /// The RGP, or its frontend, is done with it.
    FrontendDone,
    /// The backend has it.
    AtBackend,
    /// The request has left the chip.
    Out,
    /// An RRPP has the request.
    AtRrpp,
    /// The RRPP has sent the reply.
    RrppDone,
    /// The reply is at the chip.
    Back,
    /// The RCP, or the core, has the reply.
    AtRcp,
    /// The RCP backend is done with it.
    BackendDone,
    /// The RCP frontend has the completion.
    AtFrontend,
    /// The CQ entry is written.
    CqWritten,
    /// Software has seen it.
    End,
}

const MARKS: usize = Mark::End as usize + 1;

/// The moments of the present read, and sums over the measured ones.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    at: [Cycle; MARKS],
    /// Cycles for which the CQ entry was on its way from NI cache to core.
    cq_transfer_cycles: u64,
    sums: Vec<(&'static str, u64)>,
    reads: u64,
}

impl Probe {
    /// A read begins.
    pub fn start(&mut self, now: Cycle) {
        self.at = [now; MARKS];
        self.cq_transfer_cycles = 0;
    }

    /// A moment passes; on the way out only the first time counts.
    #[inline]
    pub fn mark(&mut self, mark: Mark, now: Cycle) {
        let outward = (mark as usize) <= Mark::AtRrpp as usize;
        let passed = self.at[mark as usize] > self.at[Mark::Start as usize];
        if !(outward && passed) {
            self.at[mark as usize] = now;
        }
    }

    /// A reply is back at the chip; the RRPP had its request from the one cycle to the other.
    pub fn back(&mut self, served: (Cycle, Cycle), now: Cycle) {
        self.mark(Mark::AtRrpp, served.0);
        self.mark(Mark::RrppDone, served.1);
        self.mark(Mark::Back, now);
    }

    /// The core's look at the CQ missed its L1 at `since` and is answered now. The CQ entry has
    /// been on its way since it was written, or since it was asked for.
    pub fn cq_transfer(&mut self, since: Cycle, now: Cycle) {
        self.cq_transfer_cycles = now - since.max(self.at[Mark::CqWritten as usize]);
    }

    /// The read is over; it counts if `measured`.
    pub fn end(&mut self, now: Cycle, placement: Placement, measured: bool) {
        self.mark(Mark::End, now);
        if !measured {
            return;
        }
        let stages = self.stages(placement);
        if self.sums.is_empty() {
            self.sums = stages.iter().map(|&(name, _)| (name, 0)).collect();
        }
        for ((_, sum), (_, cycles)) in self.sums.iter_mut().zip(stages) {
            *sum += cycles;
        }
        self.reads += 1;
    }

    /// Means over the measured reads.
    pub fn breakdown(&self) -> Vec<Stage> {
        let mean = |sum: u64| sum as f64 / self.reads.max(1) as f64;
        self.sums.iter().map(|&(name, sum)| Stage { name, mean_cycles: mean(sum) }).collect()
    }

    /// The rows of Table 3 that the placement has.
    fn stages(&self, placement: Placement) -> Vec<(&'static str, u64)> {
        use Mark::{
            AtBackend, AtFrontend, AtRcp, AtRrpp, Back, BackendDone, CqWritten, End, FrontendDone,
            Out, RrppDone, Start, WqInNi, WqWritten,
        };
        let from = |a: Mark, b: Mark| self.at[b as usize].saturating_sub(self.at[a as usize]);
        let mut rows = match placement {
            Placement::Edge => {
                vec![("wq_write", from(Start, WqWritten)), ("wq_read_rgp", from(WqWritten, Out))]
            }
            Placement::PerTile => vec![
                ("wq_write", from(Start, WqWritten)),
                ("wq_transfer", from(WqWritten, WqInNi)),
                ("rgp", from(WqInNi, FrontendDone)),
                ("to_edge", from(FrontendDone, Out)),
            ],
            Placement::Split => vec![
                ("wq_write", from(Start, WqWritten)),
                ("wq_transfer", from(WqWritten, WqInNi)),
                ("rgp_frontend", from(WqInNi, FrontendDone)),
                ("to_backend", from(FrontendDone, AtBackend)),
                ("rgp_backend", from(AtBackend, Out)),
            ],
            Placement::Sonuma | Placement::CacheIntegrated | Placement::Window => vec![],
            Placement::Numa => {
                vec![("load", from(Start, FrontendDone)), ("to_edge", from(FrontendDone, Out))]
            }
        };
        rows.extend([
            ("network_out", from(Out, AtRrpp)),
            ("rrpp", from(AtRrpp, RrppDone)),
            ("network_back", from(RrppDone, Back)),
        ]);
        let transfer = self.cq_transfer_cycles.min(from(CqWritten, End));
        let cq = [("cq_transfer", transfer), ("cq_read", from(CqWritten, End) - transfer)];
        match placement {
            Placement::Edge => rows.extend([
                ("rcp_cq_write", from(Back, CqWritten)),
                ("cq_read", from(CqWritten, End)),
            ]),
            Placement::PerTile => {
                rows.extend([("to_rcp", from(Back, AtRcp)), ("rcp", from(AtRcp, CqWritten))]);
                rows.extend(cq);
            }
            Placement::Split => {
                rows.extend([
                    ("rcp_backend", from(Back, BackendDone)),
                    ("to_rcp_frontend", from(BackendDone, AtFrontend)),
                    ("rcp_frontend", from(AtFrontend, CqWritten)),
                ]);
                rows.extend(cq);
            }
            Placement::Sonuma | Placement::CacheIntegrated | Placement::Window => {}
            Placement::Numa => rows.push(("to_core", from(Back, End))),
        }
        rows
    }
}
