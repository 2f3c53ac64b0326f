//! The parts put together: one RMC.

use std::ops::Range;

use rackmem_abi::Packet;
use rackmem_rmc::QpId;
use rackmem_rmc::qp::{Cursor, QpConfig};

use super::common::{Common, Fabric, Lane, Registers, RmcStats};
use super::ct::QueuePair;
use super::maq::{Maq, MaqStats, Response, Source};
use super::memory::L1;
use super::mmu::MmuStats;
use super::rcp::Rcp;
use super::rgp::Rgp;
use super::rrpp::Rrpp;
use super::spec::RmcSpec;
use crate::block::Line;
use crate::engine::Cycle;

/// The remote memory controller of a node.
///
/// In each cycle its owner first tells it what has come ([`Rmc::filled`], [`Rmc::changed`],
/// [`Rmc::deliver`], [`Rmc::credit`]) and then has it [`Rmc::tick`], unless [`Rmc::next`] says that
/// there is nothing to do.
#[derive(Clone, Debug)]
pub struct Rmc {
    common: Common,
    maq: Maq,
    rgp: Rgp,
    rrpp: Rrpp,
    rcp: Rcp,
    lane_credits: usize,
    responses: Vec<Response>,
    written: Vec<Line>,
}

impl Rmc {
    /// The RMC of node `nid` in a rack of `nodes` nodes.
    ///
    /// # Errors
    /// The message of [`RmcSpec::check`].
    pub fn new(spec: &RmcSpec, nid: u16, nodes: u16, registers: Registers) -> Result<Rmc, String> {
        spec.check().map_err(|(setting, problem)| format!("{setting}: {problem}"))?;
        Ok(Rmc {
            common: Common::new(spec, nid, nodes, registers),
            maq: Maq::new(spec),
            rgp: Rgp::new(spec),
            rrpp: Rrpp::new(spec),
            rcp: Rcp::new(spec),
            lane_credits: spec.lane_credits as usize,
            responses: Vec::with_capacity(2 * super::slots::MAX_SLOTS),
            written: Vec::with_capacity(super::slots::MAX_SLOTS),
        })
    }

    /// Registers a queue pair whose rings are empty and zero; its name. `None` if there is no
    /// register for it or the size is out of range.
    pub fn attach(&mut self, ctx_id: u16, queues: QueuePair) -> Option<QpId> {
        self.attach_at(ctx_id, queues, [Cursor::START; 2])
    }

    /// Registers a queue pair whose rings are at these positions and have nothing in flight; its
    /// name. `None` as from [`Rmc::attach`], or if a position is out of range.
    pub fn attach_at(
        &mut self,
        ctx_id: u16,
        queues: QueuePair,
        cursors: [Cursor; 2],
    ) -> Option<QpId> {
        let qp = self.common.queues.attach(ctx_id, queues, cursors);
        self.maq.reserve_poll(!self.common.queues.is_empty());
        qp
    }

    /// Forgets a queue pair. Its operations under way are still answered, but nothing is stored or
    /// completed. `false` if it is not there.
    pub fn detach(&mut self, qp: QpId) -> bool {
        let was_there = self.common.queues.detach(qp);
        self.maq.reserve_poll(!self.common.queues.is_empty());
        was_there
    }

    /// Whether a store to one of these blocks is under way. A queue pair that is gone may have left the store of a
    /// completion: its completion queue cannot be another's before that is done.
    pub fn has_store_to(&self, lines: &Range<Line>) -> bool {
        self.common.arbiters.has_store_to(lines) || self.maq.has_store_to(lines)
    }

    /// Parameters of a queue pair, and the positions in its rings, unless it is gone.
    pub fn position(&self, qp: QpId) -> Option<(QpConfig, [Cursor; 2])> {
        self.common.queues.get(qp).map(|qp| (*qp.config(), qp.cursors()))
    }

    /// Polls of unchanged blocks are made, not left out. It takes longer to simulate and changes
    /// nothing else.
    pub fn keep_awake(&mut self) {
        self.common.queues.keep_awake();
    }

    /// Forgets translations, of an address or all, of an address space or all: the driver has
    /// changed a page table.
    pub fn invalidate_translations(&mut self, asid: Option<u16>, virt: Option<u64>) {
        self.common.mmu.invalidate(asid, virt);
    }

    /// Drops the cached entry of a context: the driver has changed it in the CT.
    pub fn invalidate_context(&mut self, ctx_id: u16) {
        self.common.contexts.invalidate(ctx_id);
    }

    /// Completes everything that waits for a node with `node lost`; replies that come later find
    /// nothing. To be called after [`Fabric::is_up`] has turned `false` for the node.
    pub fn fail_node(&mut self, nid: u16) {
        self.rgp.fail_node(nid, &mut self.common);
        self.rcp.fail_node(nid);
    }

    /// A block has come to the L1, or the right to change it.
    pub fn filled<M: L1>(&mut self, now: Cycle, line: Line, l1: &mut M) {
        self.maq.filled(now, line, l1, &mut self.written);
        self.wake_polls();
    }

    /// A block can no longer be read in the L1.
    pub fn changed(&mut self, line: Line) {
        self.common.queues.changed(line);
    }

    /// A packet has come.
    ///
    /// # Panics
    /// If there is no room: the fabric interface keeps to its credits, which are as many as the
    /// RMC's own.
    pub fn deliver(&mut self, packet: Packet) {
        let waiting = match packet {
            Packet::Request(request) => {
                self.rrpp.input.push_back(request);
                self.rrpp.input.len()
            }
            Packet::Reply(reply) => {
                self.rcp.input.push_back(reply);
                self.rcp.input.len()
            }
        };
        assert!(waiting <= self.lane_credits, "a packet without a credit");
    }

    /// The fabric interface has room for one more packet on this lane.
    pub fn credit(&mut self, lane: Lane) {
        let credits = &mut self.common.credits[lane as usize];
        *credits += 1;
        assert!(*credits as usize <= self.lane_credits, "a credit too many");
    }

    /// One cycle.
    pub fn tick<M: L1, F: Fabric>(&mut self, now: Cycle, l1: &mut M, fabric: &mut F) {
        let Self { common, maq, responses, written, .. } = self;
        responses.clear();
        maq.begin(now);
        maq.collect(now, responses);
        common.queues.poll(now, l1, maq, &mut common.arbiters);
        common.arbiters.forward(now, maq, responses);
        maq.issue(now, l1, written);
        self.wake_polls();
        self.respond(now);
        self.rcp.step(now, &mut self.common, fabric);
        self.rrpp.step(now, &mut self.common, fabric);
        self.rgp.step(now, &mut self.common, fabric);
    }

    /// The first cycle from `from` on in which there is something to do, if nothing comes.
    pub fn next(&self, from: Cycle) -> Option<Cycle> {
        if !self.common.arbiters.is_empty() {
            return Some(from);
        }
        let next = [
            self.maq.next(from),
            self.rcp.next(from, &self.common),
            self.rrpp.next(from),
            self.rgp.next(from),
            self.common.queues.next(from),
        ];
        next.into_iter().flatten().min()
    }

    /// Whether nothing is under way. Queue pairs are polled all the same.
    pub fn is_idle(&self) -> bool {
        let pipelines = self.rgp.under_way() + self.rrpp.under_way() + self.rcp.under_way();
        let shared = self.common.queues.under_way()
            + self.common.local.len()
            + self.common.mmu.walking()
            + self.common.tids.in_use() as usize
            + self.common.queues.in_flight() as usize;
        pipelines + shared == 0 && self.maq.is_empty() && self.common.arbiters.is_empty()
    }

    /// Counters of the pipelines.
    pub const fn stats(&self) -> &RmcStats {
        &self.common.stats
    }

    /// Counters of the memory access queue.
    pub const fn maq_stats(&self) -> &MaqStats {
        self.maq.stats()
    }

    /// Counters of TLB and page walker.
    pub const fn mmu_stats(&self) -> &MmuStats {
        self.common.mmu.stats()
    }

    /// Hits and misses of the CT$.
    pub const fn context_hits_and_misses(&self) -> (u64, u64) {
        self.common.contexts.hits_and_misses()
    }

    /// Packets that it may send on a lane.
    pub fn credits(&self, lane: Lane) -> u32 {
        self.common.credits[lane as usize]
    }

    /// Notifications that have come for a context: the driver's interrupt handler counts them.
    pub fn notifications(&self, ctx_id: u16) -> u64 {
        self.common.notifications.get(usize::from(ctx_id)).copied().unwrap_or(0)
    }

    /// Goes on from so many notifications of each context, as [`Rmc::notifications`] gives them.
    pub fn restore_notifications(&mut self, counts: impl Iterator<Item = u64>) {
        for (count, saved) in self.common.notifications.iter_mut().zip(counts) {
            *count = saved;
        }
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> u32 {
        self.common.tids.in_use()
    }

    fn wake_polls(&mut self) {
        for line in self.written.drain(..) {
            self.common.queues.changed(line);
        }
    }

    /// The arbiters feed answers to the stages that asked.
    fn respond(&mut self, now: Cycle) {
        let Self { common, rgp, rrpp, rcp, responses, .. } = self;
        for response in responses.iter() {
            match response.tag.source {
                Source::Rgp => rgp.respond(now, response, common),
                Source::Rrpp => rrpp.respond(now, response, common),
                Source::Rcp => rcp.respond(now, response, common),
                Source::Walker => {
                    if let Some(walked) = common.mmu.respond(now, response, &mut common.arbiters) {
                        rgp.walked(now, &walked);
                        rrpp.walked(now, &walked);
                        rcp.walked(now, &walked);
                    }
                }
            }
        }
    }
}
