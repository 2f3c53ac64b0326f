//! The stages one by one.

use rackmem_abi::{
    CqEntry, Header, LINE_BYTES, MAX_LENGTH, MAX_OFFSET, MAX_TID, Op, Status, WqEntry,
};
use rackmem_rmc::qp::{Cursor, Qp};
use rackmem_rmc::{
    Bounds, ContextTable, Itt, MAX_CONTEXTS, MAX_ITT_CAPACITY, QpConfig, QpId, Rights, Rmc, Unroll,
    Work, rcp, rgp,
};

use crate::rig::{BUFFER, CTX, Rack, Reply, Request, entry};

const QP: QpId = QpId::new(3, 9);

fn work(op: Op, offset: u64, length: u32) -> Work {
    Work { op, dst_nid: 1, offset, length, buffer: BUFFER }
}

// RGP.

#[test]
fn an_entry_is_new_if_its_phase_is_the_round_s() {
    for phase in [false, true] {
        let written = WqEntry { phase, ..entry(Op::Read, 1, 0, 64, BUFFER) };
        assert_eq!(rgp::accept(written.encode(), phase), Some(written));
        assert_eq!(rgp::accept(written.encode(), !phase), None);
    }
    assert_eq!(rgp::accept([0; 2], Cursor::START.phase), None, "a fresh ring is empty");
}

#[test]
fn the_source_checks_what_it_can() {
    let check = |entry: &WqEntry| rgp::check(entry, 4, Rights::ReadWrite);
    let good = entry(Op::Write, 3, 70, 8, BUFFER);
    let expected = Work { op: Op::Write, dst_nid: 3, offset: 70, length: 8, buffer: BUFFER };
    assert_eq!(check(&good), Ok(expected));
    for op_code in 6..8 {
        assert_eq!(check(&WqEntry { op_code, ..good }), Err(Status::BadOperation));
    }
    assert_eq!(check(&WqEntry { dst_nid: 4, ..good }), Err(Status::NoNode));
    for op in [Op::FetchAdd, Op::CompareSwap] {
        assert!(check(&entry(op, 0, 72, 8, BUFFER)).is_ok());
        for (offset, length) in [(72, 0), (72, 7), (72, 16), (73, 8), (76, 8)] {
            let misaligned = entry(op, 0, offset, length, BUFFER);
            assert_eq!(check(&misaligned), Err(Status::MisalignedAtomic));
        }
    }
    // The first thing wrong is what is reported.
    let wrong = WqEntry { op_code: 6, dst_nid: 9, ..good };
    assert_eq!(rgp::check(&wrong, 4, Rights::ReadOnly), Err(Status::BadOperation));
    let wrong = entry(Op::FetchAdd, 9, 1, 1, BUFFER);
    assert_eq!(rgp::check(&wrong, 4, Rights::ReadOnly), Err(Status::NoNode));
    let wrong = entry(Op::FetchAdd, 1, 1, 1, BUFFER);
    assert_eq!(rgp::check(&wrong, 4, Rights::ReadOnly), Err(Status::NoPermission));
}

#[test]
fn readers_may_read() {
    for op in Op::ALL {
        let allowed = matches!(op, Op::Nop | Op::Read);
        let result = rgp::check(&entry(op, 0, 0, 8, BUFFER), 1, Rights::ReadOnly);
        assert_eq!(result.is_ok(), allowed, "{op:?}");
        assert!(allowed || result == Err(Status::NoPermission));
    }
}

#[test]
fn what_addresses_nothing_has_no_range() {
    for op in [Op::Nop, Op::Notify] {
        let checked = rgp::check(&entry(op, 0, MAX_OFFSET, 999, 7), 1, Rights::ReadWrite).unwrap();
        assert_eq!((checked.offset, checked.length), (0, 0));
        assert_eq!(Unroll::new(&checked, LINE_BYTES).pieces(), 1, "but visits the destination");
    }
}

#[test]
fn a_range_beyond_all_segments_does_not_wrap() {
    // The second line's offset would not fit into a packet and come out as 0.
    let check = |offset, length| {
        rgp::check(&entry(Op::Write, 0, offset, length, BUFFER), 1, Rights::ReadWrite)
    };
    assert!(check(MAX_OFFSET - 63, 64).is_ok());
    assert!(check(MAX_OFFSET, 1).is_ok());
    assert!(check(MAX_OFFSET, 0).is_ok());
    assert_eq!(check(MAX_OFFSET - 63, 65), Err(Status::OutOfSegment));
    assert_eq!(check(MAX_OFFSET, MAX_LENGTH), Err(Status::OutOfSegment));
}

#[test]
fn unrolling_splits_at_remote_line_boundaries() {
    let pieces = |offset, length| -> Vec<(u64, u16, u64)> {
        let unroll = Unroll::new(&work(Op::Read, offset, length), LINE_BYTES);
        unroll.map(|piece| (piece.offset, piece.length, piece.buffer - BUFFER)).collect()
    };
    assert_eq!(pieces(128, 0), [(128, 0, 0)]);
    assert_eq!(pieces(128, 64), [(128, 64, 0)]);
    assert_eq!(pieces(127, 1), [(127, 1, 0)]);
    assert_eq!(pieces(127, 2), [(127, 1, 0), (128, 1, 1)]);
    assert_eq!(pieces(120, 80), [(120, 8, 0), (128, 64, 8), (192, 8, 72)]);
    let longest = Unroll::new(&work(Op::Read, 63, MAX_LENGTH), LINE_BYTES);
    assert_eq!(longest.pieces(), (1 << 18) + 1);
}

#[test]
fn wide_links_split_at_their_unit() {
    let pieces = |offset, length| -> Vec<(u64, u16)> {
        let unroll = Unroll::new(&work(Op::Read, offset, length), 4096);
        unroll.map(|piece| (piece.offset, piece.length)).collect()
    };
    assert_eq!(pieces(0, 4096), [(0, 4096)]);
    assert_eq!(pieces(4000, 5000), [(4000, 96), (4096, 4096), (8192, 808)]);
    assert_eq!(pieces(100, 0), [(100, 0)]);
}

#[test]
fn a_piece_stays_current_until_the_next() {
    let mut unroll = Unroll::new(&work(Op::Read, 60, 8), LINE_BYTES);
    let first = unroll.peek();
    assert_eq!(unroll.peek(), first);
    unroll.advance();
    assert_ne!(unroll.peek(), first);
    unroll.advance();
    assert_eq!((unroll.peek(), unroll.pieces()), (None, 0));
    unroll.advance();
    assert_eq!(unroll.next(), None);
}

#[test]
fn requests_carry_what_their_operation_needs() {
    let mut rack = Rack::new(2, 2, 1, 256);
    let qp = rack.add_qp(0, CTX, 1, Rights::ReadWrite, 64);
    for (index, byte) in rack.node(0).mem.queues(qp).buffer.bytes_mut().iter_mut().enumerate() {
        *byte = index as u8;
    }
    let operations = [
        (Op::Nop, 0),
        (Op::Read, 0),
        (Op::Write, 8),
        (Op::FetchAdd, 8),
        (Op::CompareSwap, 16),
        (Op::Notify, 0),
    ];
    for (count, (op, bytes)) in (0..).zip(operations) {
        rack.post(0, qp, count, entry(op, 1, 64, 8, BUFFER));
        assert_eq!(rack.rgp(0, 1), 1);
        let request = rack.fabric.requests[1].pop().unwrap();
        let Header { dst_nid, src_nid, ctx_id, tid, .. } = request.header;
        assert_eq!((dst_nid, src_nid, request.header.op, ctx_id), (1, 0, op, CTX));
        assert_eq!(request.payload, (0..bytes as u8).collect::<Vec<u8>>(), "{op:?}");
        let header = Header { dst_nid: 0, src_nid: 1, ..request.header };
        rack.fabric.replies[0].push(Reply::filled(header, Status::Ok, 7));
        assert_eq!(rack.rcp(0, 0), 1, "{tid}");
        for (index, byte) in rack.node(0).mem.queues(qp).buffer.bytes_mut().iter_mut().enumerate() {
            *byte = index as u8;
        }
    }
    // 16 bytes of operands although the operation covers 8.
    rack.post(0, qp, 6, entry(Op::CompareSwap, 1, 0, 8, BUFFER + 56));
    assert_eq!(rack.rgp(0, 1), 1);
    assert_eq!(rack.completion(0, qp, 6), Some((0, Status::BadLocalBuffer)));
}

// Context table.

#[test]
fn bounds_hold_at_every_edge() {
    let bounds = Bounds { size_bytes: 100 };
    for (offset, length) in [(0, 0), (0, 100), (99, 1), (100, 0)] {
        assert_eq!(bounds.check(offset, length), Ok(()));
    }
    for (offset, length) in
        [(0, 101), (99, 2), (100, 1), (101, 0), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)]
    {
        assert_eq!(bounds.check(offset, length), Err(Status::OutOfSegment));
    }
    assert_eq!(Bounds { size_bytes: u64::MAX }.check(u64::MAX, 0), Ok(()));
    assert_eq!(Bounds { size_bytes: 0 }.check(0, 1), Err(Status::OutOfSegment));
}

#[test]
fn contexts_come_and_go() {
    let mut table = ContextTable::new();
    let bounds = |size_bytes| Bounds { size_bytes };
    assert_eq!(table.lookup(0), Err(Status::NoContext));
    table.install(7, bounds(1)).unwrap();
    table.install(7, bounds(2)).unwrap();
    assert_eq!(table.lookup(7), Ok(bounds(2)));
    assert_eq!(table.lookup(6), Err(Status::NoContext));
    assert_eq!(table.lookup(8), Err(Status::NoContext));
    assert_eq!(table.remove(7, Status::NoContext), Some(bounds(2)));
    assert_eq!(table.remove(7, Status::NoContext), None);
    assert_eq!(table.lookup(7), Err(Status::NoContext));
    let last = MAX_CONTEXTS as u16 - 1;
    assert_eq!(table.install(last, bounds(3)), Ok(()));
    assert_eq!(table.install(last + 1, bounds(3)), Err(Status::NoContext));
    assert_eq!(table.lookup(u16::MAX), Err(Status::NoContext));
    assert_eq!(table.remove(u16::MAX, Status::NoContext), None);
}

// ITT.

#[test]
fn a_full_itt_is_a_value() {
    let mut itt = Itt::new(2);
    let work = work(Op::Read, 0, 64);
    let tids = [0, 1].map(|slot| itt.alloc(QP, slot, &work, 1).unwrap());
    assert!(itt.is_full());
    assert_eq!((itt.alloc(QP, 2, &work, 1), itt.in_use()), (None, 2));
    assert_eq!(itt.answer(tids[1], 1, Status::Ok).unwrap().slot, 1);
    assert!(!itt.is_full());
    let again = itt.alloc(QP, 2, &work, 1).unwrap();
    assert!(!tids.contains(&again), "the same entry under another tid");
}

#[test]
fn a_transfer_ends_with_its_last_line() {
    let mut itt = Itt::new(4);
    let tid = itt.alloc(QP, 5, &work(Op::Write, 60, 200), 4).unwrap();
    assert_eq!(itt.answer(tid, 1, Status::Ok), None);
    assert_eq!(itt.answer(tid, 1, Status::OutOfSegment), None);
    assert_eq!(itt.answer(tid, 1, Status::NoContext), None);
    assert_eq!(itt.get(tid).map(|entry| entry.remaining()), Some(1));
    let entry = itt.answer(tid, 1, Status::Ok).unwrap();
    assert_eq!(entry.status, Status::OutOfSegment, "the first error stays");
    assert_eq!((entry.qp, entry.slot, entry.dst_nid), (Some(QP), 5, 1));
    assert_eq!((entry.base, entry.length, entry.buffer), (60, 200, BUFFER));
    assert_eq!((itt.get(tid), itt.in_use()), (None, 0));
    assert_eq!(itt.answer(tid, 1, Status::Ok), None, "a second end is no end");
}

#[test]
fn unknown_tids_reach_nothing() {
    let mut itt = Itt::new(4);
    let tid = itt.alloc(QP, 0, &work(Op::Read, 0, 8), 1).unwrap();
    for unknown in [tid + 1, tid + 4, MAX_TID, MAX_TID + 1 + tid, u32::MAX] {
        assert_eq!(itt.get(unknown), None);
        assert_eq!(itt.answer(unknown, 1, Status::Ok), None);
    }
    assert!(itt.get(tid).is_some());
}

#[test]
fn tids_repeat_as_late_as_24_bits_allow() {
    for capacity in [1, 64] {
        let mut itt = Itt::new(capacity);
        let work = work(Op::Nop, 0, 0);
        let mut next = || {
            let tid = itt.alloc(QP, 0, &work, 1).unwrap();
            itt.answer(tid, 1, Status::Ok).unwrap();
            tid
        };
        let first = next();
        for _ in 1..=MAX_TID {
            assert_ne!(next(), first);
        }
        assert_eq!(next(), first);
    }
}

#[test]
fn losing_a_node_takes_its_transfers_out() {
    let mut itt = Itt::new(4);
    let to = |dst_nid| Work { dst_nid, ..work(Op::Read, 0, 64) };
    let tids = [1, 2, 1].map(|nid| itt.alloc(QP, nid, &to(nid), 3).unwrap());
    let (index, entry) = itt.take_lost(1, 0).unwrap();
    assert_eq!(entry.status, Status::NodeLost);
    assert!(itt.take_lost(1, index + 1).is_some());
    assert_eq!(itt.take_lost(1, 0), None);
    assert_eq!(tids.map(|tid| itt.get(tid).is_some()), [false, true, false]);
}

/// Nodes that never answer take what they can, in any order; each other node still has an entry, and one that answers
/// gets it back for as often as it likes.
#[test]
fn destinations_that_do_not_answer_leave_room_for_others() {
    const NODES: u16 = 16;
    let to = |dst_nid| Work { dst_nid, ..work(Op::Read, 0, 64) };
    for stopped in 0..NODES - 1 {
        let mut itt = Itt::shared(64, NODES);
        for nid in 0..stopped {
            while itt.has_room_for(nid) {
                itt.alloc(QP, 0, &to(nid), 1).unwrap();
            }
        }
        for nid in (stopped..NODES).cycle().take(1000) {
            assert!(itt.has_room_for(nid), "{stopped} nodes are stopped");
            let tid = itt.alloc(QP, 0, &to(nid), 1).unwrap();
            assert!(itt.answer(tid, 1, Status::Ok).is_some());
        }
    }
    // One alone may have half of the table, without those that are kept for others; of a table of its own, all.
    let fill = |mut itt: Itt| {
        while itt.has_room_for(1) {
            itt.alloc(QP, 0, &to(1), 1).unwrap();
        }
        itt.in_use()
    };
    assert_eq!((fill(Itt::shared(1024, 4)), fill(Itt::new(1024))), (510, 1024));
    // What a lost node had is free again.
    let mut itt = Itt::shared(64, NODES);
    while itt.has_room_for(1) {
        itt.alloc(QP, 0, &to(1), 1).unwrap();
    }
    while itt.take_lost(1, 0).is_some() {}
    assert!(itt.in_use() == 0 && itt.has_room_for(1));
}

#[test]
fn orphans_keep_their_entry_and_lose_their_queue_pair() {
    let mut itt = Itt::new(4);
    let work = work(Op::Read, 0, 64);
    let heir = QpId::new(3, 10);
    let tids = [QP, heir].map(|qp| itt.alloc(qp, 0, &work, 1).unwrap());
    itt.orphan(QP);
    assert_eq!(tids.map(|tid| itt.get(tid).unwrap().qp), [None, Some(heir)]);
    assert_eq!(itt.answer(tids[0], 1, Status::Ok).unwrap().qp, None);
}

#[test]
fn itt_capacities_are_powers_of_two() {
    for capacity in [1, 2, 1024, MAX_ITT_CAPACITY] {
        assert_eq!(Itt::new(capacity).capacity(), capacity);
    }
    for capacity in [0, 3, 1000, 2 * MAX_ITT_CAPACITY, u32::MAX] {
        assert!(std::panic::catch_unwind(|| Itt::new(capacity)).is_err(), "{capacity}");
    }
}

// Queue pairs.

#[test]
fn cursors_agree_with_the_phase_of_the_abi() {
    for size in [1, 2, 3, 128] {
        let mut cursor = Cursor::START;
        for count in 0..5 * size {
            let expected =
                Cursor { index: count % size, phase: rackmem_abi::phase_of(count, size) };
            assert_eq!(cursor, expected);
            cursor.advance(size);
        }
    }
}

#[test]
fn completions_fill_the_ring_in_order_of_arrival() {
    let config = QpConfig { ctx_id: CTX, size: 3, rights: Rights::ReadWrite };
    let mut qp = Qp::new(config).unwrap();
    for _ in 0..3 {
        qp.take_entry(true);
    }
    assert_eq!(qp.in_flight(), 3);
    let completed = [(2, Status::Ok), (0, Status::NoContext), (1, Status::Ok)];
    for (expected_position, (slot, status)) in completed.into_iter().enumerate() {
        let (position, word) = qp.complete(slot, status, 10);
        assert_eq!(position as usize, expected_position);
        let expected = CqEntry { phase: true, slot, status_code: status as u8 };
        assert_eq!(CqEntry::decode(word), expected);
        assert!(!qp.is_outstanding(u32::from(slot)));
    }
    let (position, word) = qp.complete(0, Status::Ok, 0);
    assert_eq!((position, CqEntry::decode(word).phase), (0, false));
    assert_eq!(qp.in_flight(), 0);
}

#[test]
fn queue_pairs_have_1_to_128_entries() {
    let config = |size| QpConfig { ctx_id: CTX, size, rights: Rights::ReadWrite };
    let mut rmc = Rmc::new(0, 1, 2);
    for size in [0, 129, u32::MAX] {
        assert_eq!(rmc.add_qp(config(size)), None);
    }
    for size in [1, 128] {
        assert!(rmc.add_qp(config(size)).is_some());
    }
}

#[test]
fn ids_are_not_confused_after_reuse() {
    let config = QpConfig { ctx_id: CTX, size: 1, rights: Rights::ReadWrite };
    let mut rmc = Rmc::new(0, 1, 2);
    let old = rmc.add_qp(config).unwrap();
    let other = rmc.add_qp(config).unwrap();
    assert!(rmc.remove_qp(old));
    assert!(!rmc.remove_qp(old));
    let new = rmc.add_qp(config).unwrap();
    assert_eq!(old.index(), new.index());
    assert_ne!(old, new);
    assert!(rmc.qp(old).is_none() && rmc.qp_stats(old).is_none() && rmc.in_flight(old).is_none());
    assert!(!rmc.remove_qp(old));
    assert!(rmc.qp(new).is_some() && rmc.qp(other).is_some());
}

// RRPP.

fn request(op: Op, offset: u64, length: u16, payload: &[u8]) -> Request {
    let header = Header { dst_nid: 1, src_nid: 0, op, ctx_id: CTX, length, offset, tid: 42 };
    Request { header, payload: payload.to_vec() }
}

#[test]
fn every_operation_does_what_it_says() {
    let mut rack = Rack::new(2, 2, 1, 128);
    let mut serve = |request: Request| {
        let header = request.header;
        let reply = rack.serve(1, request);
        let Header { dst_nid, src_nid, op, tid, offset, .. } = reply.header;
        assert_eq!((dst_nid, src_nid, op, tid), (0, 1, header.op, 42));
        assert_eq!(offset, header.offset);
        assert_eq!(reply.status, Status::Ok);
        reply.payload
    };
    assert!(serve(request(Op::Nop, 0, 0, &[])).is_empty());
    assert!(serve(request(Op::Write, 61, 3, &[1, 2, 3])).is_empty());
    assert_eq!(serve(request(Op::Read, 60, 4, &[])), [0, 1, 2, 3]);
    assert!(serve(request(Op::Read, 128, 0, &[])).is_empty());
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    assert_eq!(serve(request(Op::FetchAdd, 64, 8, &words(&[5]))), words(&[0]));
    assert_eq!(serve(request(Op::FetchAdd, 64, 8, &words(&[u64::MAX]))), words(&[5]));
    assert_eq!(serve(request(Op::CompareSwap, 64, 8, &words(&[5, 6]))), words(&[4]));
    assert_eq!(serve(request(Op::CompareSwap, 64, 8, &words(&[4, 7]))), words(&[4]));
    assert_eq!(serve(request(Op::Read, 64, 8, &[])), words(&[7]));
    assert!(serve(request(Op::Notify, 0, 0, &[])).is_empty());
    assert_eq!(rack.nodes[1].mem.notified, 1);
    assert_eq!(rack.fault(), None);
}

#[test]
fn bad_requests_get_an_error_and_touch_nothing() {
    let mut rack = Rack::new(2, 2, 1, 128);
    let before = rack.nodes[1].mem.clone();
    let good = request(Op::Write, 0, 8, &[9; 8]);
    let with = |change: fn(&mut Header)| {
        let mut bad = good.header;
        change(&mut bad);
        bad
    };
    for (bad, status) in [
        (with(|header| header.dst_nid = 0), Status::NoNode),
        (with(|header| header.length = 65), Status::BadOperation),
        (with(|header| header.length = 255), Status::BadOperation),
        (with(|header| header.offset = 57), Status::BadOperation),
        (with(|header| header.op = Op::Nop), Status::BadOperation),
        (with(|header| header.op = Op::Notify), Status::BadOperation),
        (with(|header| (header.op, header.length) = (Op::FetchAdd, 4)), Status::MisalignedAtomic),
        (
            with(|header| (header.op, header.offset) = (Op::CompareSwap, 4)),
            Status::MisalignedAtomic,
        ),
        (with(|header| header.ctx_id = 1), Status::NoContext),
        (with(|header| header.ctx_id = u16::MAX), Status::NoContext),
        (with(|header| header.offset = 128), Status::OutOfSegment),
        (with(|header| header.offset = MAX_OFFSET - 7), Status::OutOfSegment),
        (with(|header| header.offset = !63), Status::OutOfSegment),
    ] {
        let reply = rack.serve(1, Request::filled(bad, 9));
        assert_eq!(reply.status, status, "{bad:?}");
        assert_eq!((reply.header.dst_nid, reply.header.tid), (0, 42));
        assert!(reply.header.is_well_formed(LINE_BYTES), "the answer can travel");
        assert_eq!(rack.nodes[1].mem, before);
    }
}

// RCP.

#[test]
fn only_answers_to_the_transfer_count() {
    let mut itt = Itt::new(2);
    let read = work(Op::Read, 100, 50);
    let tid = itt.alloc(QP, 0, &read, 2).unwrap();
    let entry = itt.get(tid).unwrap();
    let header =
        Header { dst_nid: 0, src_nid: 1, op: Op::Read, ctx_id: CTX, length: 28, offset: 100, tid };
    let answers = |header, status| rcp::answers(&header, status, 0, entry);
    assert!(answers(header, Status::Ok));
    assert!(answers(Header { offset: 128, length: 22, ..header }, Status::Ok));
    for wrong in [
        Header { dst_nid: 2, ..header },
        Header { src_nid: 2, ..header },
        Header { op: Op::Nop, length: 0, ..header },
        Header { offset: 99, ..header },
        Header { offset: 128, length: 23, ..header },
        Header { offset: 0, ..header },
        Header { length: 255, ..header },
        Header { offset: u64::MAX, ..header },
    ] {
        assert!(!answers(wrong, Status::Ok), "{wrong:?}");
    }
    // Errors have nothing to store, so only their origin matters.
    assert!(answers(Header { op: Op::Nop, length: 0, ..header }, Status::BadOperation));
    assert!(!answers(Header { src_nid: 2, ..header }, Status::BadOperation));
}
