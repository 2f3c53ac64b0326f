//! A rack small enough to be one value: node memories with guards around all that controllers may
//! touch, and a fabric of bounded lanes that deliver in the order the test chooses.

use std::sync::Arc;

use rackmem_abi::{CqEntry, Op, PACKET_BYTES, Packet, Reply, Request, Status, WqEntry};
use rackmem_rmc::{Bounds, Full, Memory, Network, QpConfig, QpId, Rights, Rmc};

const GUARD: u8 = 0xee;
const GUARD_BYTES: usize = 8;

/// Address of the first byte of every queue pair's local buffer.
pub const BUFFER: u64 = 0x1000;

/// The context whose segment every node of a rack opens.
pub const CTX: u16 = 0;

/// Bytes between guards, all zero at first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guarded(Vec<u8>);

impl Guarded {
    pub fn new(bytes: usize) -> Self {
        let mut all = vec![GUARD; bytes + 2 * GUARD_BYTES];
        all[GUARD_BYTES..GUARD_BYTES + bytes].fill(0);
        Self(all)
    }

    pub fn len(&self) -> usize {
        self.0.len() - 2 * GUARD_BYTES
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0[GUARD_BYTES..self.0.len() - GUARD_BYTES]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let end = self.0.len() - GUARD_BYTES;
        &mut self.0[GUARD_BYTES..end]
    }

    pub fn word(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes()[offset..offset + 8].try_into().unwrap())
    }

    /// As hardware would, without asking whether the range is right.
    fn raw(&mut self, offset: u64, length: usize) -> &mut [u8] {
        let start = GUARD_BYTES + usize::try_from(offset).unwrap();
        &mut self.0[start..start + length]
    }

    fn is_intact(&self) -> bool {
        let (head, rest) = self.0.split_at(GUARD_BYTES);
        let tail = &rest[self.len()..];
        head.iter().chain(tail).all(|&byte| byte == GUARD)
    }
}

/// A queue pair in its owner's memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queues {
    pub id: QpId,
    pub wq: Vec<[u64; 2]>,
    pub cq: Vec<u32>,
    /// Per slot, how many posted entries have no completion.
    pub pending: Vec<u8>,
    pub buffer: Guarded,
}

/// Everything that the controller of one node reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeMemory {
    pub queues: Vec<Option<Queues>>,
    pub segments: Vec<Option<Guarded>>,
    pub notified: u32,
    /// The first thing that a correct controller never does.
    pub fault: Option<&'static str>,
}

impl NodeMemory {
    pub fn queues(&mut self, qp: QpId) -> &mut Queues {
        match self.queues.get_mut(qp.index()) {
            Some(Some(queues)) if queues.id == qp => queues,
            _ => panic!("{qp:?} is gone and still used"),
        }
    }

    pub fn segment(&self) -> &Guarded {
        self.segments[usize::from(CTX)].as_ref().unwrap()
    }

    pub fn segment_mut(&mut self) -> &mut Guarded {
        self.segments[usize::from(CTX)].as_mut().unwrap()
    }

    pub fn fault(&self) -> Option<&'static str> {
        let mut buffers = self.queues.iter().flatten().map(|queues| &queues.buffer);
        if self.fault.is_some() {
            self.fault
        } else if !self.segments.iter().flatten().all(Guarded::is_intact) {
            Some("write outside a segment")
        } else if !buffers.all(Guarded::is_intact) {
            Some("store outside a local buffer")
        } else {
            None
        }
    }

    fn access(&mut self, ctx_id: u16, offset: u64, length: usize) -> &mut [u8] {
        let Some(Some(segment)) = self.segments.get_mut(usize::from(ctx_id)) else {
            panic!("access to context {ctx_id}, which is closed");
        };
        if offset + length as u64 > segment.len() as u64 {
            self.fault = Some("access outside a segment");
        }
        if length > 0 && offset / 64 != (offset + length as u64 - 1) / 64 {
            self.fault = Some("access across lines");
        }
        segment.raw(offset, length)
    }
}

impl Memory for NodeMemory {
    fn wq_words(&self, qp: QpId, slot: u32) -> [u64; 2] {
        let queues = self.queues[qp.index()].as_ref().expect("QP is gone");
        assert_eq!(queues.id, qp, "QP is another one");
        queues.wq[slot as usize]
    }

    fn put_cq(&mut self, qp: QpId, position: u32, word: u32) {
        let queues = self.queues(qp);
        let entry = CqEntry::decode(word);
        let previous = CqEntry::decode(queues.cq[position as usize]);
        queues.cq[position as usize] = word;
        let pending = &mut queues.pending[usize::from(entry.slot)];
        if *pending == 0 {
            self.fault = Some("completion of nothing");
        } else {
            *pending -= 1;
            if previous.phase == entry.phase {
                self.fault = Some("completion without a change of phase");
            }
        }
    }

    fn load(&mut self, qp: QpId, address: u64, out: &mut [u8]) -> Result<(), Status> {
        out.copy_from_slice(local(self.queues(qp), address, out.len())?);
        Ok(())
    }

    fn store(&mut self, qp: QpId, address: u64, bytes: &[u8]) -> Result<(), Status> {
        local(self.queues(qp), address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, ctx_id: u16, offset: u64, out: &mut [u8]) {
        out.copy_from_slice(self.access(ctx_id, offset, out.len()));
    }

    fn write(&mut self, ctx_id: u16, offset: u64, bytes: &[u8]) {
        self.access(ctx_id, offset, bytes.len()).copy_from_slice(bytes);
    }

    fn fetch_add(&mut self, ctx_id: u16, offset: u64, addend: u64) -> u64 {
        let place = self.access(ctx_id, offset, 8);
        let old = u64::from_le_bytes((&*place).try_into().unwrap());
        place.copy_from_slice(&old.wrapping_add(addend).to_le_bytes());
        old
    }

    fn compare_swap(&mut self, ctx_id: u16, offset: u64, expected: u64, desired: u64) -> u64 {
        let place = self.access(ctx_id, offset, 8);
        let old = u64::from_le_bytes((&*place).try_into().unwrap());
        if old == expected {
            place.copy_from_slice(&desired.to_le_bytes());
        }
        old
    }

    fn notify(&mut self, ctx_id: u16) {
        self.access(ctx_id, 0, 0);
        self.notified += 1;
    }
}

/// The registered buffer is what the controller may use; the guards stand for the rest.
fn local(queues: &mut Queues, address: u64, length: usize) -> Result<&mut [u8], Status> {
    let bounds = Bounds { size_bytes: queues.buffer.len() as u64 };
    let offset = address.checked_sub(BUFFER).ok_or(Status::BadLocalBuffer)?;
    bounds.check(offset, length as u64).map_err(|_| Status::BadLocalBuffer)?;
    Ok(queues.buffer.raw(offset, length))
}

/// Per destination two bounded lanes, or a single one for both kinds of packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fabric {
    pub requests: Vec<Vec<Request>>,
    pub replies: Vec<Vec<Reply>>,
    pub up: Vec<bool>,
    pub capacity: usize,
    pub one_lane: bool,
}

impl Fabric {
    pub fn new(nodes: usize, capacity: usize) -> Self {
        Self {
            requests: vec![Vec::new(); nodes],
            replies: vec![Vec::new(); nodes],
            up: vec![true; nodes],
            capacity,
            one_lane: false,
        }
    }

    /// The port of a node; of what waits there, number `pick` is received next.
    pub fn port(&mut self, nid: usize, pick: usize) -> Port<'_> {
        Port { fabric: self, nid, pick }
    }

    pub fn lose(&mut self, nid: usize) {
        self.up[nid] = false;
        self.requests[nid].clear();
        self.replies[nid].clear();
    }

    fn has_room(&self, dst_nid: u16, packets_in_lane: usize) -> bool {
        let dst = usize::from(dst_nid);
        let used = if self.one_lane {
            self.requests[dst].len() + self.replies[dst].len()
        } else {
            packets_in_lane
        };
        !self.up[dst] || used < self.capacity
    }
}

pub struct Port<'a> {
    fabric: &'a mut Fabric,
    nid: usize,
    pick: usize,
}

impl Network for Port<'_> {
    fn is_up(&self, nid: u16) -> bool {
        self.fabric.up[usize::from(nid)]
    }

    fn can_send_request(&self, dst_nid: u16) -> bool {
        self.fabric.has_room(dst_nid, self.fabric.requests[usize::from(dst_nid)].len())
    }

    fn try_send_request(&mut self, request: &Request) -> Result<(), Full> {
        assert_eq!(travel(Packet::Request(*request)), Packet::Request(*request));
        let dst = request.header.dst_nid;
        if !self.can_send_request(dst) {
            return Err(Full);
        }
        if self.is_up(dst) {
            insert(&mut self.fabric.requests[usize::from(dst)], *request);
        }
        Ok(())
    }

    fn can_send_reply(&self, dst_nid: u16) -> bool {
        self.fabric.has_room(dst_nid, self.fabric.replies[usize::from(dst_nid)].len())
    }

    fn try_send_reply(&mut self, reply: &Reply) -> Result<(), Full> {
        assert_eq!(travel(Packet::Reply(*reply)), Packet::Reply(*reply));
        let dst = reply.header.dst_nid;
        if !self.can_send_reply(dst) {
            return Err(Full);
        }
        if self.is_up(dst) {
            insert(&mut self.fabric.replies[usize::from(dst)], *reply);
        }
        Ok(())
    }

    fn peek_request(&mut self) -> Option<u16> {
        Some(self.fabric.requests[self.nid].get(self.pick)?.header.src_nid)
    }

    fn recv_request(&mut self) -> Option<Request> {
        let lane = &mut self.fabric.requests[self.nid];
        (self.pick < lane.len()).then(|| lane.remove(self.pick))
    }

    fn recv_reply(&mut self) -> Option<Reply> {
        let lane = &mut self.fabric.replies[self.nid];
        (self.pick < lane.len()).then(|| lane.remove(self.pick))
    }
}

/// There is no order in a lane, so lanes with the same packets are made the same value.
fn insert<T: Ord>(lane: &mut Vec<T>, packet: T) {
    lane.insert(lane.partition_point(|other| *other < packet), packet);
}

/// Through bytes and back: every packet that a controller sends must survive this.
fn travel(packet: Packet) -> Packet {
    let mut bytes = [0; PACKET_BYTES];
    let length = packet.emit(&mut bytes);
    Packet::parse(&bytes[..length]).expect("controllers send valid packets")
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub rmc: Rmc,
    pub mem: NodeMemory,
}

/// Nodes and fabric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rack {
    /// Shared between copies until one is changed: a model checker copies racks all the time.
    pub nodes: Vec<Arc<Node>>,
    pub fabric: Fabric,
}

impl Rack {
    /// Nodes that each open a segment of `segment_bytes` for [`CTX`].
    pub fn new(nodes: u16, itt_capacity: u32, lane_capacity: usize, segment_bytes: usize) -> Self {
        let node = |nid| {
            let mut rmc = Rmc::new(nid, nodes, itt_capacity);
            let bounds = Bounds { size_bytes: segment_bytes as u64 };
            rmc.install_context(CTX, bounds).unwrap();
            let segments = vec![Some(Guarded::new(segment_bytes))];
            Arc::new(Node { rmc, mem: NodeMemory { segments, ..NodeMemory::default() } })
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            fabric: Fabric::new(usize::from(nodes), lane_capacity),
        }
    }

    pub fn node(&mut self, nid: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[nid])
    }

    pub fn add_qp(
        &mut self,
        nid: usize,
        ctx_id: u16,
        size: u32,
        rights: Rights,
        buffer_bytes: usize,
    ) -> QpId {
        let Node { rmc, mem } = Arc::make_mut(&mut self.nodes[nid]);
        let id = rmc.add_qp(QpConfig { ctx_id, size, rights }).unwrap();
        if mem.queues.len() <= id.index() {
            mem.queues.resize(id.index() + 1, None);
        }
        mem.queues[id.index()] = Some(Queues {
            id,
            wq: vec![[0; 2]; size as usize],
            cq: vec![0; size as usize],
            pending: vec![0; size as usize],
            buffer: Guarded::new(buffer_bytes),
        });
        id
    }

    pub fn remove_qp(&mut self, nid: usize, qp: QpId) {
        let Node { rmc, mem } = Arc::make_mut(&mut self.nodes[nid]);
        assert!(rmc.remove_qp(qp));
        mem.queues[qp.index()] = None;
    }

    /// Writes the `count`-th entry of a queue pair.
    pub fn post(&mut self, nid: usize, qp: QpId, count: u32, entry: WqEntry) {
        let queues = self.node(nid).mem.queues(qp);
        let size = queues.wq.len() as u32;
        let slot = (count % size) as usize;
        let phase = rackmem_abi::phase_of(count, size);
        queues.wq[slot] = WqEntry { phase, ..entry }.encode();
        queues.pending[slot] += 1;
    }

    pub fn rgp(&mut self, nid: usize, budget: usize) -> usize {
        let Node { rmc, mem } = Arc::make_mut(&mut self.nodes[nid]);
        rmc.poll_rgp(mem, &mut self.fabric.port(nid, 0), budget)
    }

    pub fn rrpp(&mut self, nid: usize, pick: usize) -> usize {
        let Node { rmc, mem } = Arc::make_mut(&mut self.nodes[nid]);
        rmc.poll_rrpp(mem, &mut self.fabric.port(nid, pick), 1)
    }

    pub fn rcp(&mut self, nid: usize, pick: usize) -> usize {
        let Node { rmc, mem } = Arc::make_mut(&mut self.nodes[nid]);
        rmc.poll_rcp(mem, &mut self.fabric.port(nid, pick), 1)
    }

    pub fn fail_node(&mut self, nid: usize, lost: u16) {
        let Node { rmc, mem } = Arc::make_mut(&mut self.nodes[nid]);
        rmc.fail_node(lost, mem);
    }

    /// Polls everything until nothing moves; how many steps that took.
    pub fn settle(&mut self) -> usize {
        let mut total = 0;
        loop {
            let up: Vec<usize> = (0..self.nodes.len()).filter(|&nid| self.fabric.up[nid]).collect();
            let step: usize = up
                .into_iter()
                .map(|nid| self.rgp(nid, 4) + self.rrpp(nid, 0) + self.rcp(nid, 0))
                .sum();
            if step == 0 {
                return total;
            }
            total += step;
            assert!(total < 100_000, "a rack without an end");
        }
    }

    /// The `count`-th completion of a queue pair, once it is there.
    pub fn completion(&self, nid: usize, qp: QpId, count: u32) -> Option<(u16, Status)> {
        let queues = self.nodes[nid].mem.queues[qp.index()].as_ref()?;
        let size = queues.cq.len() as u32;
        let entry = CqEntry::decode(queues.cq[(count % size) as usize]);
        (entry.phase == rackmem_abi::phase_of(count, size))
            .then(|| (entry.slot, Status::from_code(entry.status_code).unwrap()))
    }

    pub fn fault(&self) -> Option<&'static str> {
        self.nodes.iter().find_map(|node| node.mem.fault())
    }
}

/// An entry without its phase, which [`Rack::post`] adds.
pub fn entry(op: Op, dst_nid: u16, offset: u64, length: u32, buffer: u64) -> WqEntry {
    WqEntry { phase: false, op_code: op as u8, dst_nid, offset, length, buffer }
}
