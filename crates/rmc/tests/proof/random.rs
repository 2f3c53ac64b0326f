//! Random and hostile traffic.

use proptest::collection::vec;
use proptest::prelude::*;
use rackmem_abi::{
    Header, LINE_BYTES, MAX_LENGTH, MAX_OFFSET, MAX_UNIT_BYTES, Op, Status, WqEntry,
};
use rackmem_rmc::{Bounds, Rights, Unroll, Work, rgp};

use crate::rig::{BUFFER, CTX, Rack, Reply, Request, entry, narrow};

const SEGMENT_BYTES: usize = 1024;
const BUFFER_BYTES: usize = 512;
const SIZE: u32 = 4;

/// The unit of a link.
fn unit() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![LINE_BYTES, 256, MAX_UNIT_BYTES])
}

fn op() -> impl Strategy<Value = Op> {
    prop::sample::select(&Op::ALL[..])
}

prop_compose! {
    /// Any header, with fields near the sensible more often than not.
    fn header()(
        dst_nid in prop_oneof![4 => 0u16..3, 1 => any::<u16>()],
        src_nid in prop_oneof![4 => 0u16..3, 1 => any::<u16>()],
        op in op(),
        ctx_id in prop_oneof![4 => Just(CTX), 1 => any::<u16>()],
        length in prop_oneof![4 => 0u16..=64, 1 => any::<u16>()],
        offset in prop_oneof![4 => 0..=SEGMENT_BYTES as u64, 1 => any::<u64>()],
        tid in prop_oneof![4 => 0u32..16, 1 => any::<u32>()],
    ) -> Header {
        Header { dst_nid, src_nid, op, ctx_id, length, offset, tid }
    }
}

/// Any queue entry, as hostile software might write it.
fn wild_entry() -> impl Strategy<Value = WqEntry> {
    prop_oneof![
        1 => any::<[u64; 2]>().prop_map(WqEntry::decode),
        4 => (op(), 0u16..4, 0..1100u64, 0..600u32, BUFFER - 8..BUFFER + 520)
            .prop_map(|(op, nid, offset, length, buffer)| entry(op, nid, offset, length, buffer)),
    ]
}

proptest! {
    #[test]
    fn unrolling_covers_exactly_the_range(
        offset in prop_oneof![0..4096u64, 0..=MAX_OFFSET],
        length in prop_oneof![0..512u32, 0..100_000u32, Just(MAX_LENGTH)],
        buffer in 0u64..1 << 48,
        unit in unit(),
    ) {
        let work = Work { op: Op::Read, dst_nid: 0, offset, length, buffer };
        let unroll = Unroll::new(&work, unit);
        let (pieces, unit) = (unroll.pieces(), unit as u64);
        let (mut at, mut count) = (offset, 0);
        for piece in unroll {
            prop_assert_eq!(piece.offset, at);
            prop_assert_eq!(piece.buffer - buffer, at - offset);
            prop_assert!(piece.offset % unit + u64::from(piece.length) <= unit, "within a unit");
            prop_assert!(piece.length > 0 || length == 0);
            at += u64::from(piece.length);
            count += 1;
            // Only the ends are less than a unit.
            prop_assert!(at % unit == 0 || at == offset + u64::from(length));
        }
        prop_assert_eq!(at, offset + u64::from(length));
        prop_assert_eq!(count, pieces);
    }

    #[test]
    fn bounds_agree_with_wide_arithmetic(
        size_bytes in any::<u64>(), offset in any::<u64>(), length in any::<u64>(),
    ) {
        let inside = u128::from(offset) + u128::from(length) <= u128::from(size_bytes);
        prop_assert_eq!(Bounds { size_bytes }.check(offset, length).is_ok(), inside);
    }

    #[test]
    fn what_the_source_lets_through_can_travel(
        words in any::<[u64; 2]>(), nodes in 1u16..=4096, unit in unit(),
    ) {
        let entry = WqEntry::decode(words);
        if let Ok(work) = rgp::check(&entry, nodes, Rights::ReadWrite) {
            for piece in Unroll::new(&work, unit).take(100) {
                let header = rgp::header(&work, &piece, 0, 0, 0);
                prop_assert!(header.is_well_formed(unit));
                prop_assert!(piece.offset <= MAX_OFFSET);
            }
        }
    }

    #[test]
    fn every_request_gets_a_reply_that_can_travel(
        header in header(), byte in any::<u8>(), unit in unit(),
    ) {
        let header = Header { src_nid: header.src_nid % 3, ..header };
        let mut rack = Rack::new(3, 2, 2, SEGMENT_BYTES).with_unit(unit);
        let before = rack.nodes[1].mem.clone();
        let reply = rack.serve(1, Request::filled(header, byte));
        prop_assert_eq!(reply.header.dst_nid, header.src_nid);
        prop_assert_eq!(reply.header.src_nid, header.dst_nid);
        prop_assert_eq!(reply.header.tid, header.tid);
        prop_assert!(reply.header.is_well_formed(unit));
        prop_assert!(rack.nodes[1].mem.fault().is_none());
        if reply.status != Status::Ok {
            prop_assert_eq!(&rack.nodes[1].mem, &before);
            prop_assert!(reply.payload.is_empty());
        }
    }

    /// One operation after the other, with any schedule, is what copying bytes would be.
    #[test]
    fn transfers_are_copies(
        script in vec((op(), 0u16..3, 0..1100u64, 0..400u32, 0..520u64, any::<u64>()), 1..12),
        schedule in vec((0u8..3, 0usize..3, any::<prop::sample::Index>()), 400),
        lane_capacity in 1usize..5,
    ) {
        let mut rack = Rack::new(3, 2, lane_capacity, SEGMENT_BYTES);
        let qp = rack.add_qp(0, CTX, SIZE, Rights::ReadWrite, BUFFER_BYTES);
        let mut segments = vec![vec![0u8; SEGMENT_BYTES]; 3];
        let mut buffer = vec![0u8; BUFFER_BYTES];
        for (count, (op, dst, offset, length, at, seed)) in script.into_iter().enumerate() {
            // Most atomics are good ones.
            let good = op.is_atomic() && seed % 4 > 0;
            let (offset, length) = if good { (offset & !7, 8) } else { (offset, length) };
            for chunk in buffer.chunks_mut(8) {
                chunk.copy_from_slice(&seed.rotate_left(chunk[0].into()).to_le_bytes());
            }
            rack.node(0).mem.queues(qp).buffer.bytes_mut().copy_from_slice(&buffer);
            let posted = entry(op, dst, offset, length, BUFFER + at);
            rack.post(0, qp, count as u32, posted);
            for (pipeline, nid, pick) in &schedule {
                let fabric = &rack.fabric;
                let (requests, replies) = (fabric.requests[*nid].len(), fabric.replies[*nid].len());
                match pipeline {
                    0 => rack.rgp(*nid, 2),
                    1 if requests > 0 => rack.rrpp(*nid, pick.index(requests)),
                    2 if replies > 0 => rack.rcp(*nid, pick.index(replies)),
                    _ => 0,
                };
            }
            rack.settle();
            let (slot, status) = rack.completion(0, qp, count as u32).expect("it completes");
            prop_assert_eq!(u32::from(slot), count as u32 % SIZE);
            let expected = model(&posted, &mut segments[usize::from(dst)], &mut buffer);
            prop_assert!(expected.contains(&status), "{:?} of {:?}", status, expected);
            if status == Status::Ok {
                prop_assert_eq!(rack.node(0).mem.queues(qp).buffer.bytes(), &buffer[..]);
                let nodes = rack.nodes.iter().zip(&segments);
                for (node, segment) in nodes {
                    prop_assert_eq!(node.mem.segment().bytes(), &segment[..]);
                }
            } else {
                // The set of lines that were done is not defined: go on from the present contents.
                for (node, segment) in rack.nodes.iter().zip(&mut segments) {
                    segment.copy_from_slice(node.mem.segment().bytes());
                }
                buffer.copy_from_slice(rack.node(0).mem.queues(qp).buffer.bytes());
            }
            prop_assert_eq!(rack.fault(), None);
            prop_assert!(rack.nodes[0].rmc.is_quiescent());
        }
    }

    /// Whatever software posts and whatever comes over the lanes, nothing else is touched and
    /// nothing panics.
    #[test]
    fn hostile_traffic_reaches_only_what_it_may(
        steps in vec(
            prop_oneof![
                (wild_entry(), 0u32..SIZE).prop_map(|(entry, slot)| Step::Post(entry, slot)),
                (header(), any::<u8>()).prop_map(|(header, byte)| Step::Request(narrow(header), byte)),
                (header(), any::<u8>(), prop::sample::select(&Status::ALL[..]))
                    .prop_map(|(header, byte, status)| Step::Reply(narrow(header), byte, status)),
                (0usize..3).prop_map(Step::Poll),
                (0usize..3).prop_map(Step::Poll),
                (1usize..3).prop_map(Step::Lose),
                Just(Step::Renew),
            ],
            1..200,
        ),
    ) {
        let mut rack = Rack::new(3, 2, 3, SEGMENT_BYTES);
        let mut qp = rack.add_qp(0, CTX, SIZE, Rights::ReadWrite, BUFFER_BYTES);
        for step in steps {
            match step {
                Step::Post(entry, slot) => {
                    let queues = rack.node(0).mem.queues(qp);
                    queues.wq[slot as usize] = entry.encode();
                }
                Step::Request(header, byte) => {
                    rack.fabric.requests[1].push(Request::filled(header, byte));
                }
                Step::Reply(header, byte, status) => {
                    rack.fabric.replies[0].push(Reply::filled(header, status, byte));
                }
                Step::Poll(nid) if rack.fabric.up[nid] => {
                    rack.rgp(nid, 3);
                    rack.rrpp(nid, 0);
                    rack.rcp(nid, 0);
                }
                Step::Poll(_) => {}
                Step::Lose(nid) => {
                    rack.fabric.lose(nid);
                    rack.fail_node(0, nid as u16);
                }
                Step::Renew => {
                    rack.remove_qp(0, qp);
                    qp = rack.add_qp(0, CTX, SIZE, Rights::ReadWrite, BUFFER_BYTES);
                }
            }
            // Completions of entries that were written over have nothing to be checked against.
            for node in 0..3 {
                let mem = &mut rack.node(node).mem;
                if mem.fault.is_some_and(|fault| fault.starts_with("completion")) {
                    mem.fault = None;
                }
            }
            prop_assert_eq!(rack.fault(), None);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(WqEntry, u32),
    Request(Header, u8),
    Reply(Header, u8, Status),
    Poll(usize),
    Lose(usize),
    Renew,
}

/// Applies an entry that succeeds to the segment and the buffer. Returns the statuses that it may have.
fn model(posted: &WqEntry, segment: &mut [u8], buffer: &mut [u8]) -> &'static [Status] {
    let op = Op::from_code(posted.op_code).unwrap();
    let (start, length) = (posted.offset as usize, posted.length as usize);
    let at = (posted.buffer - BUFFER) as usize;
    if matches!(op, Op::Nop | Op::Notify) {
        return &[Status::Ok];
    }
    if op.is_atomic() && (length != 8 || start % 8 != 0) {
        return &[Status::MisalignedAtomic];
    }
    let needed = op.operand_bytes(length).max(op.result_bytes(length));
    let local = needed == 0 || at + needed <= buffer.len();
    let remote = start + length <= segment.len();
    match (local, remote) {
        (true, true) => {}
        (true, false) => return &[Status::OutOfSegment],
        (false, true) => return &[Status::BadLocalBuffer],
        // The lines tell in any order.
        (false, false) => return &[Status::OutOfSegment, Status::BadLocalBuffer],
    }
    if length == 0 {
        return &[Status::Ok];
    }
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    match op {
        Op::Read => buffer[at..at + length].copy_from_slice(&segment[start..start + length]),
        Op::Write => segment[start..start + length].copy_from_slice(&buffer[at..at + length]),
        Op::FetchAdd | Op::CompareSwap => {
            let old = word(&segment[start..start + 8]);
            let operands = [word(&buffer[at..at + 8]), buffer.get(at + 8..at + 16).map_or(0, word)];
            let new = match op {
                Op::FetchAdd => old.wrapping_add(operands[0]),
                _ if old == operands[0] => operands[1],
                _ => old,
            };
            segment[start..start + 8].copy_from_slice(&new.to_le_bytes());
            buffer[at..at + 8].copy_from_slice(&old.to_le_bytes());
        }
        Op::Nop | Op::Notify => {}
    }
    &[Status::Ok]
}
