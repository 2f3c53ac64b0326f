//! Queue pairs that run by the full protocol: the controller of `rackmem-rmc` on shared memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rackmem_abi::Status;
use rackmem_rmc::{Memory, QpConfig, QpId, Rmc, Sink, Source, Work, rgp};

use super::local::LocalTable;
use super::worker::{Client, ClientId, NewQp, Segments};
use crate::direct::LocalBuffers;
use crate::shm::copy;
use crate::shm::line_lock::Owner;
use crate::shm::queue::QueueMemory;
use crate::shm::segment::View;

/// Owner of line locks that a node's RRPP takes: no client has this number.
const RRPP_CLIENT: u16 = 0xffe;

#[derive(Debug)]
struct PacketQp {
    id: QpId,
    client: ClientId,
    config: QpConfig,
    memory: Arc<QueueMemory>,
}

/// The queue pairs, at the index of their [`QpId`].
#[derive(Debug, Default)]
pub struct PacketQps(Vec<Option<PacketQp>>);

impl PacketQps {
    /// Registers a queue pair; control has checked the size.
    pub fn add(&mut self, new: NewQp, rmc: &mut Rmc) {
        let Some(id) = rmc.add_qp(new.config) else { return };
        if id.index() >= self.0.len() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] =
            Some(PacketQp { id, client: new.client, config: new.config, memory: new.memory });
    }

    /// Forgets the queue pair with this memory.
    pub fn remove(&mut self, memory: &Arc<QueueMemory>, rmc: &mut Rmc) {
        self.remove_if(rmc, |qp| Arc::ptr_eq(&qp.memory, memory));
    }

    /// Forgets the queue pairs of a client.
    pub fn remove_client(&mut self, client: ClientId, rmc: &mut Rmc) {
        self.remove_if(rmc, |qp| qp.client == client);
    }

    fn remove_if(&mut self, rmc: &mut Rmc, is_it: impl Fn(&PacketQp) -> bool) {
        for place in &mut self.0 {
            if let Some(qp) = place.take_if(|qp| is_it(qp)) {
                qp.publish(rmc);
                rmc.remove_qp(qp.id);
            }
        }
    }

    /// Whether a queue pair has a new entry that the controller could take.
    pub fn have_entries(&self, rmc: &Rmc) -> bool {
        self.0.iter().flatten().any(|qp| {
            rmc.qp(qp.id).is_some_and(|state| {
                let next = state.next_entry();
                rgp::accept(qp.memory.wq_words(next.index), next.phase).is_some()
                    && !state.is_outstanding(next.index)
            })
        })
    }

    /// Copies the controller's counters to the shared memory of the queue pairs.
    pub fn publish(&self, rmc: &Rmc) {
        self.0.iter().flatten().for_each(|qp| qp.publish(rmc));
    }
}

impl PacketQp {
    /// Copies the controller's counters to the shared memory.
    fn publish(&self, rmc: &Rmc) {
        let counters = self.memory.counters();
        counters.publish(&rmc.qp_stats(self.id).unwrap_or_default());
        counters.outstanding.store(rmc.in_flight(self.id).unwrap_or(0), Ordering::Relaxed);
    }
}

/// The node's memory, as the controller reaches it.
pub struct PacketMemory<'a> {
    nid: u16,
    qps: &'a PacketQps,
    clients: &'a mut [Option<Client>],
    segments: &'a Segments,
}

impl<'a> PacketMemory<'a> {
    /// The memory of node `nid`.
    pub fn new(
        nid: u16,
        qps: &'a PacketQps,
        clients: &'a mut [Option<Client>],
        segments: &'a Segments,
    ) -> PacketMemory<'a> {
        PacketMemory { nid, qps, clients, segments }
    }

    fn local(&mut self, qp: QpId) -> Option<&mut LocalTable> {
        let client = self.qps.0[qp.index()].as_ref()?.client;
        Some(&mut self.clients[client].as_mut()?.local)
    }

    fn owner(&self) -> Owner {
        Owner::new(self.nid, RRPP_CLIENT)
    }

    /// The node's own segment; the controller has checked context and range.
    fn segment(&self, ctx_id: u16) -> &View {
        self.segments.get(self.nid, ctx_id).expect("contexts and segments are set together")
    }
}

impl Memory for PacketMemory<'_> {
    #[inline(always)]
    fn wq_words(&self, qp: QpId, slot: u32) -> [u64; 2] {
        self.qps.0[qp.index()].as_ref().map_or([0; 2], |qp| qp.memory.wq_words(slot))
    }

    #[inline(always)]
    fn put_cq(&mut self, qp: QpId, position: u32, word: u32) {
        if let Some(qp) = &self.qps.0[qp.index()] {
            qp.memory.cq_entry(position).store(word, Ordering::Release);
            qp.memory.bed().wake();
        }
    }

    /// The target checks each line by itself, after others may have been done already. Its daemon has
    /// announced the segment to this one, so a range that leaves it is refused before anything is sent.
    #[inline(always)]
    fn check(&mut self, qp: QpId, work: &Work) -> Result<(), Status> {
        let Some(PacketQp { config, .. }) = &self.qps.0[qp.index()] else { return Ok(()) };
        self.segments.check(work.dst_nid, config.ctx_id, work.offset, work.length.into())?;
        let length = work.length as usize;
        let bytes = work.op.operand_bytes(length).max(work.op.result_bytes(length));
        let writes = work.op.result_bytes(length) != 0;
        let local = self.local(qp).ok_or(Status::BadLocalBuffer)?;
        if bytes == 0 || local.locate(work.buffer, bytes).is_some() {
            return Ok(());
        }
        local.check(work.buffer, bytes, writes)
    }

    #[inline(always)]
    fn load(&mut self, qp: QpId, address: u64, out: Sink<'_>) -> Result<(), Status> {
        let local = self.local(qp).ok_or(Status::BadLocalBuffer)?;
        match local.locate(address, out.len()) {
            // SAFETY: `locate` vouches for the bytes, the sink for its room.
            Some(from) => unsafe { copy::copy_out(out.as_mut_ptr(), from, out.len()) },
            None => local.load(address, out)?,
        }
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, qp: QpId, address: u64, bytes: Source<'_>) -> Result<(), Status> {
        let local = self.local(qp).ok_or(Status::BadLocalBuffer)?;
        match local.locate(address, bytes.len()) {
            // SAFETY: `locate` vouches for the room, the source for its bytes.
            Some(to) => unsafe { copy::copy_out(to, bytes.as_ptr(), bytes.len()) },
            None => local.store(address, bytes)?,
        }
        Ok(())
    }

    #[inline(always)]
    fn read(&mut self, ctx_id: u16, offset: u64, out: Sink<'_>) {
        let owner = self.owner();
        // SAFETY: the controller has checked the range against the segment's bounds.
        unsafe { self.segment(ctx_id).read(offset, out.as_mut_ptr(), out.len(), owner) }
    }

    #[inline(always)]
    fn write(&mut self, ctx_id: u16, offset: u64, bytes: Source<'_>) {
        let owner = self.owner();
        // SAFETY: as above; the node's own segment is mapped for writing.
        unsafe { self.segment(ctx_id).write(offset, bytes.as_ptr(), bytes.len(), owner) }
    }

    #[inline(always)]
    fn fetch_add(&mut self, ctx_id: u16, offset: u64, addend: u64) -> u64 {
        let owner = self.owner();
        // SAFETY: as above; the controller has checked the alignment.
        unsafe { self.segment(ctx_id).fetch_add(offset, addend, owner) }
    }

    #[inline(always)]
    fn compare_swap(&mut self, ctx_id: u16, offset: u64, expected: u64, desired: u64) -> u64 {
        let owner = self.owner();
        // SAFETY: as above.
        unsafe { self.segment(ctx_id).compare_swap(offset, expected, desired, owner) }
    }

    fn notify(&mut self, ctx_id: u16) {
        self.segment(ctx_id).notify();
    }
}
