//! A rack small enough to be one value: node memories with guards around all that controllers may
//! touch, and a fabric of bounded lanes that deliver in the order the test chooses.

use std::sync::Arc;

use rackmem_abi::{
    CqEntry, Header, LINE_BYTES, MAX_NODES, MAX_OFFSET, MAX_TID, Op, Status, WqEntry,
};
use rackmem_rmc::{
    Bounds, Full, Memory, Network, QpConfig, QpId, Rights, Rmc, Sink, Source, Unsent, rrpp,
};

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
    /// Unit of the links, in bytes.
    pub unit: u64,
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
        if length > 0 && offset / self.unit != (offset + length as u64 - 1) / self.unit {
            self.fault = Some("access across units");
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

    fn load(&mut self, qp: QpId, address: u64, out: Sink<'_>) -> Result<(), Status> {
        let length = out.len();
        out.put(local(self.queues(qp), address, length)?);
        Ok(())
    }

    fn store(&mut self, qp: QpId, address: u64, bytes: Source<'_>) -> Result<(), Status> {
        bytes.copy_to(local(self.queues(qp), address, bytes.len())?);
        Ok(())
    }

    fn read(&mut self, ctx_id: u16, offset: u64, out: Sink<'_>) {
        let length = out.len();
        out.put(self.access(ctx_id, offset, length));
    }

    fn write(&mut self, ctx_id: u16, offset: u64, bytes: Source<'_>) {
        bytes.copy_to(self.access(ctx_id, offset, bytes.len()));
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

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    pub header: Header,
    pub payload: Vec<u8>,
}

impl Request {
    /// A request as it can come over a link: with as many bytes as its header says.
    pub fn filled(header: Header, byte: u8) -> Request {
        Request { header, payload: vec![byte; header.request_bytes()] }
    }
}

impl Reply {
    /// A reply as it can come over a link.
    pub fn filled(header: Header, status: Status, byte: u8) -> Reply {
        Reply { header, status, payload: vec![byte; header.reply_bytes(status)] }
    }
}

/// A reply on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reply {
    pub header: Header,
    pub status: Status,
    pub payload: Vec<u8>,
}

/// Per destination two bounded lanes, or a single one for both kinds of packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fabric {
    pub requests: Vec<Vec<Request>>,
    pub replies: Vec<Vec<Reply>>,
    pub up: Vec<bool>,
    pub capacity: usize,
    pub one_lane: bool,
    /// Most bytes of a segment that a packet covers.
    pub unit: usize,
}

impl Fabric {
    pub fn new(nodes: usize, capacity: usize) -> Self {
        Self {
            requests: vec![Vec::new(); nodes],
            replies: vec![Vec::new(); nodes],
            up: vec![true; nodes],
            capacity,
            one_lane: false,
            unit: LINE_BYTES,
        }
    }

    /// The port of a node; of what waits there, number `pick` is received next.
    pub fn port(&mut self, nid: usize, pick: usize) -> Port<'_> {
        Port { fabric: self, nid, pick, result: Vec::new() }
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
    /// Payload of the last reply.
    result: Vec<u8>,
}

impl Network for Port<'_> {
    fn is_up(&self, nid: u16) -> bool {
        self.fabric.up[usize::from(nid)]
    }

    fn unit_bytes(&self, _nid: u16) -> usize {
        self.fabric.unit
    }

    fn can_send_request(&self, dst_nid: u16, _operands: usize, _results: usize) -> bool {
        self.fabric.has_room(dst_nid, self.fabric.requests[usize::from(dst_nid)].len())
    }

    fn send_request(
        &mut self,
        header: &Header,
        load: impl FnOnce(Sink<'_>) -> Result<(), Status>,
    ) -> Result<(), Unsent> {
        check_travel(header, None, self.fabric.unit);
        let dst = header.dst_nid;
        if !self.can_send_request(dst, 0, 0) {
            return Err(Unsent::Full);
        }
        let mut payload = vec![0; header.request_bytes()];
        if !payload.is_empty() {
            load(Sink::new(&mut payload)).map_err(Unsent::Unloaded)?;
        }
        if self.is_up(dst) {
            insert(
                &mut self.fabric.requests[usize::from(dst)],
                Request { header: *header, payload },
            );
        }
        Ok(())
    }

    fn can_send_reply(&self, dst_nid: u16, _payload_bytes: usize) -> bool {
        self.fabric.has_room(dst_nid, self.fabric.replies[usize::from(dst_nid)].len())
    }

    fn send_reply(
        &mut self,
        header: &Header,
        status: Status,
        fill: impl FnOnce(Sink<'_>),
    ) -> Result<(), Full> {
        check_travel(header, Some(status), self.fabric.unit);
        let dst = header.dst_nid;
        if !self.can_send_reply(dst, header.reply_bytes(status)) {
            return Err(Full);
        }
        let mut payload = vec![0; header.reply_bytes(status)];
        if !payload.is_empty() {
            fill(Sink::new(&mut payload));
        }
        if self.is_up(dst) {
            let reply = Reply { header: *header, status, payload };
            insert(&mut self.fabric.replies[usize::from(dst)], reply);
        }
        Ok(())
    }

    fn peek_request(&mut self) -> Option<Header> {
        Some(self.fabric.requests[self.nid].get(self.pick)?.header)
    }

    fn operands(&self) -> Source<'_> {
        Source::new(&self.fabric.requests[self.nid][self.pick].payload)
    }

    fn take_request(&mut self) {
        self.fabric.requests[self.nid].remove(self.pick);
    }

    fn recv_reply(&mut self) -> Option<(Header, Status)> {
        let lane = &mut self.fabric.replies[self.nid];
        let reply = (self.pick < lane.len()).then(|| lane.remove(self.pick))?;
        self.result = reply.payload;
        Some((reply.header, reply.status))
    }

    fn result(&self) -> Source<'_> {
        Source::new(&self.result)
    }
}

/// There is no order in a lane, so lanes with the same packets are made the same value.
fn insert<T: Ord>(lane: &mut Vec<T>, packet: T) {
    lane.insert(lane.partition_point(|other| *other < packet), packet);
}

/// The header as it comes out of a packet, whose fields are not wider than their bits.
pub fn narrow(header: Header) -> Header {
    let nid_mask = MAX_NODES as u16 - 1;
    Header {
        dst_nid: header.dst_nid & nid_mask,
        src_nid: header.src_nid & nid_mask,
        offset: header.offset & MAX_OFFSET,
        tid: header.tid & MAX_TID,
        ..header
    }
}

/// Every header that a controller sends is the same after its way as bytes.
fn check_travel(header: &Header, status: Option<Status>, unit: usize) {
    let parsed = Header::parse(header.emit(status), unit);
    assert_eq!(parsed, Ok((narrow(*header), status)), "controllers send valid packets");
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
            Arc::new(Node {
                rmc,
                mem: NodeMemory { segments, unit: LINE_BYTES as u64, ..NodeMemory::default() },
            })
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            fabric: Fabric::new(usize::from(nodes), lane_capacity),
        }
    }

    /// The same rack, on links with another unit.
    pub fn with_unit(mut self, unit: usize) -> Self {
        self.fabric.unit = unit;
        for node in &mut self.nodes {
            Arc::make_mut(node).mem.unit = unit as u64;
        }
        self
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

    /// The reply of a node to a request, whatever is in it.
    pub fn serve(&mut self, nid: u16, request: Request) -> Reply {
        let header = request.header;
        self.fabric.requests[usize::from(nid)] = vec![request];
        let Node { rmc, mem } = Arc::make_mut(&mut self.nodes[usize::from(nid)]);
        let port = &mut self.fabric.port(usize::from(nid), 0);
        rrpp::process(&header, nid, rmc.contexts(), mem, port).unwrap();
        self.fabric.replies[usize::from(header.src_nid)].pop().expect("a reply")
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
