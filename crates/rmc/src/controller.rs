//! The three pipelines of a node, composed into polling loops.

use alloc::vec::Vec;

use rackmem_abi::{MAX_NODES, Status};

use crate::itt::Entry;
use crate::qp::{Observed, Qp, Transfer};
use crate::{
    Bounds, ContextTable, Itt, MAX_QPS, Memory, Network, QpConfig, QpId, QpStats, Unroll, Unsent,
    rcp, rgp, rrpp,
};

/// Counters of a controller: its work, and the stalls of its pipelines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stats {
    /// Requests sent (RGP).
    pub requests: u64,
    /// Requests answered (RRPP).
    pub served: u64,
    /// Bytes read or written for other nodes (RRPP).
    pub served_bytes: u64,
    /// Answers with an error status (RRPP).
    pub refused: u64,
    /// Requests of lost nodes, or under a false name, which were not done (RRPP).
    pub dropped: u64,
    /// Replies that answered a line (RCP).
    pub replies: u64,
    /// Replies to nothing that is under way: late, or wrong (RCP).
    pub stale_replies: u64,
    /// Completed work queue entries.
    pub ops: u64,
    /// Bytes of the entries that succeeded.
    pub bytes: u64,
    /// Entries that completed with an error.
    pub errors: u64,
    /// The RGP waited for an ITT entry.
    pub itt_stalls: u64,
    /// The RGP waited for the request lane.
    pub request_lane_stalls: u64,
    /// The RGP waited for a slot's previous operation.
    pub slot_stalls: u64,
    /// The RRPP waited for the reply lane.
    pub reply_lane_stalls: u64,
}

/// The remote memory controller of one node.
///
/// Each `poll_` function does at most `budget` steps and returns how many it did; 0 means that the
/// pipeline has nothing to do or waits for another one. They may be called in any order and ratio.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rmc {
    nid: u16,
    nodes: u16,
    contexts: ContextTable,
    itt: Itt,
    qps: Vec<Place>,
    /// Queue pair that the RGP looks at first.
    turn: usize,
    stats: Observed<Stats>,
}

/// A place for a queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    generation: u16,
    qp: Option<Qp>,
}

impl Rmc {
    /// The controller of node `nid` in a rack of `nodes` nodes.
    ///
    /// # Panics
    /// If the rack is larger than [`MAX_NODES`] or has no such node, or if [`Itt::new`] does.
    pub fn new(nid: u16, nodes: u16, itt_capacity: u32) -> Self {
        assert!(usize::from(nodes) <= MAX_NODES, "{nodes} nodes are more than {MAX_NODES}");
        assert!(nid < nodes, "node {nid} is not in a rack of {nodes} nodes");
        Self {
            nid,
            nodes,
            contexts: ContextTable::new(),
            itt: Itt::new(itt_capacity),
            qps: Vec::new(),
            turn: 0,
            stats: Observed::default(),
        }
    }

    /// Has the destinations share the ITT, so that those that do not answer stall no others; see [`Itt::shared`].
    ///
    /// # Panics
    /// There are transfers already.
    pub fn share_itt(&mut self) {
        assert!(self.is_quiescent(), "an ITT is shared from the beginning");
        self.itt = Itt::shared(self.itt.capacity(), self.nodes);
    }

    /// Registers a queue pair whose rings are empty and zero. `None` if there are [`MAX_QPS`]
    /// already or the size is out of range.
    pub fn add_qp(&mut self, config: QpConfig) -> Option<QpId> {
        let qp = Qp::new(config)?;
        let index = match self.qps.iter().position(|place| place.qp.is_none()) {
            Some(index) => index,
            None if self.qps.len() < MAX_QPS => {
                self.qps.push(Place { generation: 0, qp: None });
                self.qps.len() - 1
            }
            None => return None,
        };
        let place = &mut self.qps[index];
        place.qp = Some(qp);
        Some(QpId { index: index as u16, generation: place.generation })
    }

    /// Forgets a queue pair, at any moment: requests in flight are still answered, but nothing is
    /// stored or completed. Its memory is not touched from here on. `false` if it is not there.
    pub fn remove_qp(&mut self, id: QpId) -> bool {
        let Some(qp) = self.qp_mut(id) else {
            return false;
        };
        let transfer = qp.transfer.take();
        let place = &mut self.qps[id.index()];
        place.qp = None;
        place.generation = place.generation.wrapping_add(1);
        self.itt.orphan(id);
        if let Some(Transfer { tid, unroll, .. }) = transfer {
            // Nobody answers pieces that were never sent.
            self.itt.answer(tid, unroll.pieces(), Status::Ok);
        }
        true
    }

    /// Opens this node's segment of a context to the rack; see [`ContextTable::install`].
    ///
    /// # Errors
    /// [`Status::NoContext`] if the identifier is out of range.
    pub fn install_context(&mut self, ctx_id: u16, bounds: Bounds) -> Result<(), Status> {
        self.contexts.install(ctx_id, bounds)
    }

    /// Closes the segment: later requests are answered `why`; see [`ContextTable::remove`].
    pub fn remove_context(&mut self, ctx_id: u16, why: Status) -> Option<Bounds> {
        self.contexts.remove(ctx_id, why)
    }

    /// RGP: takes new work queue entries, queue pair by queue pair in turn, and sends the requests
    /// of their lines. A step is a request sent or an entry completed with an error.
    ///
    /// A queue pair that has work may use the whole budget; the next call starts with the one after
    /// it.
    #[inline]
    pub fn poll_rgp<M: Memory, N: Network>(
        &mut self,
        mem: &mut M,
        net: &mut N,
        budget: usize,
    ) -> usize {
        let mut done = 0;
        for _ in 0..self.qps.len() {
            if done == budget {
                break;
            }
            let index = self.turn;
            self.turn = if index + 1 < self.qps.len() { index + 1 } else { 0 };
            while done < budget && self.visit(index, mem, net) {
                done += 1;
            }
        }
        done
    }

    /// One step of the RGP for one queue pair. `false` if there is nothing to do, or nothing that
    /// can be done now.
    #[inline]
    fn visit<M: Memory, N: Network>(&mut self, index: usize, mem: &mut M, net: &mut N) -> bool {
        let Self { nid, nodes, itt, qps, stats: Observed(stats), .. } = self;
        let Place { generation, qp: Some(qp) } = &mut qps[index] else {
            return false;
        };
        let id = QpId { index: index as u16, generation: *generation };
        let ctx_id = qp.config().ctx_id;
        let transfer = match &mut qp.transfer {
            Some(transfer) => transfer,
            None => {
                let next = qp.next_entry();
                let Some(entry) = rgp::accept(mem.wq_words(id, next.index), next.phase) else {
                    return false;
                };
                if qp.is_outstanding(next.index) {
                    stats.slot_stalls += 1;
                    return false;
                }
                let work = match rgp::check(&entry, *nodes, qp.config().rights) {
                    Ok(work) if net.is_up(work.dst_nid) => work,
                    refused => {
                        let slot = qp.take_entry(false);
                        let status = refused.err().unwrap_or(Status::NodeLost);
                        finish(id, qp, mem, stats, slot, status, 0);
                        return true;
                    }
                };
                let unroll = Unroll::new(&work, net.unit_bytes(work.dst_nid));
                // Before the ITT entry is taken: a queue pair that cannot send does not need one.
                let (operands, results) = unroll.payload_bytes(work.op);
                if !net.can_send_request(work.dst_nid, operands, results) {
                    stats.request_lane_stalls += 1;
                    return false;
                }
                if !itt.has_room_for(work.dst_nid) {
                    stats.itt_stalls += 1;
                    return false;
                }
                if let Err(status) = mem.check(id, &work) {
                    let slot = qp.take_entry(false);
                    finish(id, qp, mem, stats, slot, status, 0);
                    return true;
                }
                let tid = itt.alloc(id, next.index as u16, &work, unroll.pieces());
                let tid = tid.expect("the table was found not to be full");
                qp.take_entry(true);
                qp.transfer.insert(Transfer { work, tid, unroll })
            }
        };
        let Transfer { work, tid, unroll } = transfer;
        let Some(piece) = unroll.peek() else {
            qp.transfer = None;
            return false;
        };
        let header = rgp::header(work, &piece, *nid, ctx_id, *tid);
        match net.send_request(&header, |out| mem.load(id, piece.buffer, out)) {
            Ok(()) => {
                stats.requests += 1;
                unroll.advance();
                if unroll.pieces() == 0 {
                    qp.transfer = None;
                }
                true
            }
            Err(Unsent::Full) => {
                stats.request_lane_stalls += 1;
                false
            }
            Err(Unsent::Unloaded(status)) => {
                // The unsent pieces count as answered; those under way are waited for.
                let finished = itt.answer(*tid, unroll.pieces(), status);
                qp.transfer = None;
                if let Some(Entry { slot, status, .. }) = finished {
                    finish(id, qp, mem, stats, slot, status, 0);
                }
                true
            }
        }
    }

    /// RRPP: answers requests. A step is a request consumed, which happens only if the reply lane
    /// can take its reply.
    #[inline]
    pub fn poll_rrpp<M: Memory, N: Network>(
        &mut self,
        mem: &mut M,
        net: &mut N,
        budget: usize,
    ) -> usize {
        let Self { nid, nodes, contexts, stats: Observed(stats), .. } = self;
        let mut done = 0;
        while done < budget {
            let Some(header) = net.peek_request() else {
                break;
            };
            // Nobody waits for the reply to a lost node, and nobody would make room for it.
            if header.src_nid >= *nodes || !net.is_up(header.src_nid) {
                net.take_request();
                stats.dropped += 1;
                done += 1;
                continue;
            }
            if !net.can_send_reply(header.src_nid, header.reply_bytes(Status::Ok)) {
                stats.reply_lane_stalls += 1;
                break;
            }
            let sent = rrpp::process(&header, *nid, contexts, mem, net);
            debug_assert!(sent.is_ok(), "the reply lane had room");
            net.take_request();
            stats.served += 1;
            match sent {
                Ok(Status::Ok) => stats.served_bytes += u64::from(header.length),
                _ => stats.refused += 1,
            }
            done += 1;
        }
        done
    }

    /// RCP: takes replies, fills local buffers and completes work queue entries. A step is a reply
    /// consumed. It waits for nothing.
    #[inline]
    pub fn poll_rcp<M: Memory, N: Network>(
        &mut self,
        mem: &mut M,
        net: &mut N,
        budget: usize,
    ) -> usize {
        let mut done = 0;
        while done < budget {
            let Some((header, status)) = net.recv_reply() else {
                break;
            };
            done += 1;
            let tid = header.tid;
            let status = match self.itt.get(tid) {
                Some(entry) if rcp::answers(&header, status, self.nid, entry) => {
                    rcp::store(&header, status, net.result(), entry, mem)
                }
                _ => {
                    self.stats.0.stale_replies += 1;
                    continue;
                }
            };
            self.stats.0.replies += 1;
            if let Some(entry) = self.itt.answer(tid, 1, status) {
                self.end_transfer(&entry, tid);
                self.finish(&entry, mem);
            }
        }
        done
    }

    /// Completes all transfers to a node with [`Status::NodeLost`]; later replies are stale. To be called
    /// after [`Network::is_up`] has turned `false` for the node.
    pub fn fail_node<M: Memory>(&mut self, nid: u16, mem: &mut M) {
        for qp in self.qps.iter_mut().filter_map(|place| place.qp.as_mut()) {
            qp.transfer.take_if(|transfer| transfer.work.dst_nid == nid);
        }
        let mut from = 0;
        while let Some((index, entry)) = self.itt.take_lost(nid, from) {
            self.finish(&entry, mem);
            from = index + 1;
        }
    }

    /// Counters since [`Rmc::new`].
    #[inline]
    pub const fn stats(&self) -> &Stats {
        &self.stats.0
    }

    /// Counters of a queue pair; `None` if it is not there.
    pub fn qp_stats(&self, id: QpId) -> Option<QpStats> {
        self.qp(id).map(|qp| qp.stats.0)
    }

    /// Operations of a queue pair in flight; `None` if it is not there.
    pub fn in_flight(&self, id: QpId) -> Option<u32> {
        self.qp(id).map(Qp::in_flight)
    }

    /// Whether nothing is under way from this node. There may still be new work queue entries.
    #[inline]
    pub const fn is_quiescent(&self) -> bool {
        self.itt.in_use() == 0
    }

    /// This node's number.
    #[inline]
    pub const fn nid(&self) -> u16 {
        self.nid
    }

    /// The context table: the segments of this node that other nodes may reach.
    #[inline]
    pub const fn contexts(&self) -> &ContextTable {
        &self.contexts
    }

    /// The inflight transaction table.
    #[inline]
    pub const fn itt(&self) -> &Itt {
        &self.itt
    }

    /// A queue pair's state.
    pub fn qp(&self, id: QpId) -> Option<&Qp> {
        let place = self.qps.get(id.index())?;
        place.qp.as_ref().filter(|_| place.generation == id.generation)
    }

    fn qp_mut(&mut self, id: QpId) -> Option<&mut Qp> {
        let place = self.qps.get_mut(id.index())?;
        place.qp.as_mut().filter(|_| place.generation == id.generation)
    }

    /// A transfer that was answered more often than it was sent sends nothing more: its buffer is the program's again.
    #[inline]
    fn end_transfer(&mut self, entry: &Entry, tid: u32) {
        if let Some(qp) = entry.qp.and_then(|id| self.qps[id.index()].qp.as_mut()) {
            qp.transfer.take_if(|transfer| transfer.tid == tid);
        }
    }

    /// RCP stages 4 and 5 for a transfer that is out of the ITT.
    #[inline]
    fn finish<M: Memory>(&mut self, entry: &Entry, mem: &mut M) {
        let Some(id) = entry.qp else {
            return;
        };
        let Place { generation, qp: Some(qp) } = &mut self.qps[id.index()] else {
            return;
        };
        debug_assert_eq!(*generation, id.generation, "transfers of removed QPs are orphans");
        finish(id, qp, mem, &mut self.stats.0, entry.slot, entry.status, entry.length);
    }
}

/// RCP stages 4 and 5: the completion queue entry.
#[inline]
fn finish<M: Memory>(
    id: QpId,
    qp: &mut Qp,
    mem: &mut M,
    stats: &mut Stats,
    slot: u16,
    status: Status,
    bytes: u32,
) {
    stats.ops += 1;
    match status {
        Status::Ok => stats.bytes += u64::from(bytes),
        _ => stats.errors += 1,
    }
    let (position, word) = qp.complete(slot, status, bytes);
    mem.put_cq(id, position, word);
}
