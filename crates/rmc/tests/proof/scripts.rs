//! Scripts: one node or a few, step by step, with the packets in between.

use rackmem_abi::{Header, Op, Status, WqEntry};
use rackmem_rmc::{QpId, Rights};

use crate::rig::{BUFFER, CTX, Rack, Reply, Request, entry};

const BUFFER_BYTES: usize = 512;

/// A rack of three nodes with one queue pair of 4 entries on node 0.
fn rack(itt_capacity: u32, lane_capacity: usize) -> (Rack, QpId) {
    let mut rack = Rack::new(3, itt_capacity, lane_capacity, 1024);
    let qp = rack.add_qp(0, CTX, 4, Rights::ReadWrite, BUFFER_BYTES);
    (rack, qp)
}

fn fill(rack: &mut Rack, qp: QpId) {
    let buffer = rack.node(0).mem.queues(qp).buffer.bytes_mut();
    buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
}

fn fill_segment(rack: &mut Rack, nid: usize) {
    let segment = rack.node(nid).mem.segment_mut().bytes_mut();
    segment.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index % 251) as u8);
}

#[test]
fn a_read_of_one_line() {
    // soNUMA §6, Figure 5.
    let (mut rack, qp) = rack(8, 4);
    fill_segment(&mut rack, 1);
    assert_eq!(rack.rgp(0, 1), 0, "nothing to do");
    rack.post(0, qp, 0, entry(Op::Read, 1, 128, 64, BUFFER + 3));
    assert_eq!(rack.rgp(0, 9), 1);
    assert_eq!(rack.rgp(0, 9), 0, "an entry is taken once");

    let [Request { header, .. }] = rack.fabric.requests[1][..] else { panic!("one request") };
    assert_eq!((header.dst_nid, header.src_nid, header.op), (1, 0, Op::Read));
    assert_eq!((header.ctx_id, header.offset, header.length), (CTX, 128, 64));
    assert_eq!(rack.nodes[0].rmc.in_flight(qp), Some(1));

    assert_eq!(rack.rrpp(1, 0), 1);
    let [Reply { header: answer, status, .. }] = rack.fabric.replies[0][..] else {
        panic!("one reply")
    };
    assert_eq!((answer.tid, answer.dst_nid, status), (header.tid, 0, Status::Ok));
    assert_eq!(rack.completion(0, qp, 0), None);

    assert_eq!(rack.rcp(0, 0), 1);
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::Ok)));
    let expected: Vec<u8> = (128..192).collect();
    assert_eq!(rack.node(0).mem.queues(qp).buffer.bytes()[3..67], expected);
    assert_eq!(rack.settle(), 0);
    assert_eq!(rack.nodes[0].rmc.in_flight(qp), Some(0));
    assert_eq!(rack.fault(), None);
}

#[test]
fn long_transfers_arrive_whole_in_any_order() {
    for op in [Op::Read, Op::Write] {
        let (mut rack, qp) = rack(8, 16);
        fill(&mut rack, qp);
        fill_segment(&mut rack, 2);
        let (offset, length, at) = (100, 300, 50);
        rack.post(0, qp, 0, entry(op, 2, offset, length as u32, BUFFER + at as u64));
        assert_eq!(rack.rgp(0, 99), 6);
        while !rack.fabric.requests[2].is_empty() {
            // From both ends of the lane in turn.
            let length = rack.fabric.requests[2].len();
            rack.rrpp(2, if length % 2 == 0 { length - 1 } else { 0 });
        }
        while !rack.fabric.replies[0].is_empty() {
            assert_eq!(rack.completion(0, qp, 0), None);
            rack.rcp(0, rack.fabric.replies[0].len() / 2);
        }
        assert_eq!(rack.completion(0, qp, 0), Some((0, Status::Ok)));
        let local = rack.nodes[0].mem.queues[0].as_ref().unwrap().buffer.bytes();
        let remote = rack.nodes[2].mem.segment().bytes();
        let start = offset as usize;
        assert_eq!(local[at..at + length], remote[start..start + length]);
        assert_eq!(rack.fault(), None);
    }
}

#[test]
fn atomics_bring_back_the_old_value() {
    let (mut rack, qp) = rack(8, 4);
    let put = |rack: &mut Rack, words: [u64; 2]| {
        let buffer = rack.node(0).mem.queues(qp).buffer.bytes_mut();
        buffer[..8].copy_from_slice(&words[0].to_le_bytes());
        buffer[8..16].copy_from_slice(&words[1].to_le_bytes());
    };
    let script = [
        (Op::FetchAdd, [5, 77], 0, 5),
        (Op::FetchAdd, [u64::MAX, 77], 5, 4),
        (Op::CompareSwap, [5, 9], 4, 4),
        (Op::CompareSwap, [4, 9], 4, 9),
    ];
    for (count, (op, operands, old, new)) in script.into_iter().enumerate() {
        put(&mut rack, operands);
        rack.post(0, qp, count as u32, entry(op, 1, 16, 8, BUFFER));
        rack.settle();
        assert_eq!(rack.completion(0, qp, count as u32), Some((count as u16, Status::Ok)));
        assert_eq!(rack.node(0).mem.queues(qp).buffer.word(0), old);
        assert_eq!(rack.node(0).mem.queues(qp).buffer.word(8), operands[1]);
        assert_eq!(rack.nodes[1].mem.segment().word(16), new);
    }
}

#[test]
fn a_node_may_use_itself() {
    let (mut rack, qp) = rack(8, 4);
    rack.post(0, qp, 0, entry(Op::Notify, 0, 999, 999, 0));
    rack.settle();
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::Ok)));
    assert_eq!(rack.nodes[0].mem.notified, 1);
}

#[test]
fn empty_transfers_need_no_buffer_but_a_place() {
    let (mut rack, qp) = rack(8, 4);
    rack.post(0, qp, 0, entry(Op::Read, 1, 1024, 0, 0));
    rack.post(0, qp, 1, entry(Op::Write, 1, 1024, 0, 0));
    rack.post(0, qp, 2, entry(Op::Read, 1, 1025, 0, 0));
    assert_eq!(rack.rgp(0, 9), 3);
    rack.settle();
    let mut completions = [0, 1, 2].map(|count| rack.completion(0, qp, count).unwrap());
    completions.sort();
    assert_eq!(completions, [(0, Status::Ok), (1, Status::Ok), (2, Status::OutOfSegment)]);
}

#[test]
fn a_full_lane_stalls_and_loses_nothing() {
    let (mut rack, qp) = rack(8, 2);
    let other = rack.add_qp(0, CTX, 4, Rights::ReadWrite, BUFFER_BYTES);
    fill_segment(&mut rack, 1);
    rack.post(0, qp, 0, entry(Op::Read, 1, 0, 320, BUFFER));
    assert_eq!(rack.rgp(0, 99), 2);
    assert_eq!(rack.rgp(0, 99), 0);
    assert_eq!(rack.nodes[0].rmc.qp(qp).unwrap().unsent(), Some((0, 3)));
    // Another queue pair with another destination is not held up.
    rack.post(0, other, 0, entry(Op::Nop, 2, 0, 0, 0));
    assert_eq!(rack.rgp(0, 99), 1);
    rack.settle();
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::Ok)));
    assert_eq!(rack.completion(0, other, 0), Some((0, Status::Ok)));
    assert!(rack.nodes[0].rmc.stats().request_lane_stalls > 0);
    let expected = rack.nodes[1].mem.segment().bytes()[..320].to_vec();
    assert_eq!(rack.node(0).mem.queues(qp).buffer.bytes()[..320], expected);
}

#[test]
fn a_full_itt_stalls_and_loses_nothing() {
    let (mut rack, qp) = rack(2, 4);
    for count in 0..4 {
        rack.post(0, qp, count, entry(Op::Nop, 1, 0, 0, 0));
    }
    assert_eq!(rack.rgp(0, 99), 2);
    assert_eq!(rack.nodes[0].rmc.stats().itt_stalls, 1);
    assert!(rack.nodes[0].rmc.itt().is_full());
    rack.settle();
    assert!((0..4).all(|count| rack.completion(0, qp, count).is_some()));
    assert!(rack.nodes[0].rmc.is_quiescent());
}

#[test]
fn an_error_at_the_source_needs_no_itt_entry() {
    let (mut rack, qp) = rack(1, 4);
    rack.post(0, qp, 0, entry(Op::Nop, 1, 0, 0, 0));
    rack.post(0, qp, 1, entry(Op::Nop, 3, 0, 0, 0));
    assert_eq!(rack.rgp(0, 99), 2);
    assert_eq!(rack.completion(0, qp, 0), Some((1, Status::NoNode)));
}

#[test]
fn a_request_waits_for_room_for_its_reply() {
    let (mut rack, qp) = rack(8, 1);
    rack.post(0, qp, 0, entry(Op::FetchAdd, 1, 0, 8, BUFFER));
    rack.post(0, qp, 1, entry(Op::FetchAdd, 1, 0, 8, BUFFER + 8));
    rack.node(0).mem.queues(qp).buffer.bytes_mut()[..16].copy_from_slice(&[1; 16]);
    rack.rgp(0, 1);
    assert_eq!(rack.rrpp(1, 0), 1);
    rack.rgp(0, 1);
    let before = rack.nodes[1].mem.clone();
    assert_eq!(rack.rrpp(1, 0), 0);
    assert_eq!(rack.nodes[1].mem, before, "nothing is done before there is room");
    assert_eq!(rack.fabric.requests[1].len(), 1);
    assert_eq!(rack.rcp(0, 0), 1);
    assert_eq!(rack.rrpp(1, 0), 1);
    assert_eq!(rack.nodes[1].rmc.stats().reply_lane_stalls, 1);
}

#[test]
fn budgets_are_kept_and_queue_pairs_take_turns() {
    let mut rack = Rack::new(2, 8, 64, 4096);
    let qps = [0, 1].map(|_| rack.add_qp(0, CTX, 4, Rights::ReadWrite, BUFFER_BYTES));
    for qp in qps {
        rack.post(0, qp, 0, entry(Op::Read, 1, 0, 512, BUFFER));
    }
    assert_eq!(rack.rgp(0, 0), 0);
    let unsent = |rack: &Rack| qps.map(|qp| rack.nodes[0].rmc.qp(qp).unwrap().unsent());
    assert_eq!(rack.rgp(0, 3), 3);
    assert_eq!(unsent(&rack), [Some((0, 5)), None]);
    assert_eq!(rack.rgp(0, 3), 3);
    assert_eq!(unsent(&rack), [Some((0, 5)), Some((1, 5))]);
    assert_eq!(rack.rgp(0, 6), 6);
    assert_eq!(unsent(&rack), [None, Some((1, 4))]);
}

#[test]
fn an_outstanding_slot_is_not_taken_again() {
    let (mut rack, qp) = rack(8, 8);
    for count in 0..4 {
        rack.post(0, qp, count, entry(Op::Nop, 1, 0, 0, 0));
    }
    assert_eq!(rack.rgp(0, 99), 4);
    rack.post(0, qp, 4, entry(Op::Nop, 1, 0, 0, 0));
    assert_eq!(rack.rgp(0, 99), 0);
    assert_eq!(rack.nodes[0].rmc.stats().slot_stalls, 1);
    // Another slot's completion does not help, its own does.
    rack.rrpp(1, 3);
    rack.rcp(0, 0);
    assert_eq!(rack.rgp(0, 99), 0);
    rack.rrpp(1, 0);
    rack.rcp(0, 0);
    assert_eq!(rack.rgp(0, 99), 1);
    rack.settle();
    assert_eq!(rack.fault(), None);
}

#[test]
fn a_bad_line_does_not_end_the_others_early() {
    let (mut rack, qp) = rack(8, 8);
    rack.post(0, qp, 0, entry(Op::Read, 1, 1024 - 128, 192, BUFFER));
    assert_eq!(rack.rgp(0, 99), 3);
    // The line outside is answered first.
    rack.rrpp(1, 2);
    rack.rcp(0, 0);
    assert_eq!(rack.completion(0, qp, 0), None);
    rack.settle();
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::OutOfSegment)));
    assert_eq!(rack.completion(0, qp, 1), None);
    assert_eq!(rack.nodes[0].rmc.qp_stats(qp).unwrap().errors, 1);
    assert_eq!(rack.nodes[1].rmc.stats().refused, 1);
    assert_eq!(rack.fault(), None);
}

#[test]
fn a_bad_source_buffer_stops_the_sending() {
    let (mut rack, qp) = rack(8, 8);
    let last_lines = BUFFER + BUFFER_BYTES as u64 - 128;
    rack.post(0, qp, 0, entry(Op::Write, 1, 0, 512, last_lines));
    assert_eq!(rack.rgp(0, 99), 3, "two lines and the end");
    assert_eq!(rack.fabric.requests[1].len(), 2);
    assert_eq!(rack.completion(0, qp, 0), None, "two lines are under way");
    rack.settle();
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::BadLocalBuffer)));
    // Nothing sent, nothing to wait for.
    rack.post(0, qp, 1, entry(Op::FetchAdd, 1, 0, 8, BUFFER - 1));
    rack.rgp(0, 1);
    assert_eq!(rack.completion(0, qp, 1), Some((1, Status::BadLocalBuffer)));
    assert!(rack.nodes[0].rmc.is_quiescent());
}

#[test]
fn a_bad_target_buffer_turns_the_status() {
    let (mut rack, qp) = rack(8, 8);
    rack.post(0, qp, 0, entry(Op::Read, 1, 0, 128, BUFFER + BUFFER_BYTES as u64 - 64));
    rack.settle();
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::BadLocalBuffer)));
    assert_eq!(rack.completion(0, qp, 1), None);
    assert_eq!(rack.fault(), None);
}

/// The program has its buffer back, so nothing more of it is sent.
#[test]
fn a_transfer_that_is_answered_too_often_ends() {
    let (mut rack, qp) = rack(8, 8);
    rack.post(0, qp, 0, entry(Op::Write, 1, 0, 256, BUFFER));
    rack.rgp(0, 1);
    rack.rrpp(1, 0);
    let reply = rack.fabric.replies[0][0].clone();
    for _ in 0..3 {
        rack.fabric.replies[0].insert(0, reply.clone());
    }
    for _ in 0..4 {
        rack.rcp(0, 0);
    }
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::Ok)));
    assert_eq!(rack.rgp(0, 99), 0, "three lines were not sent, and are not any more");
    assert!(rack.nodes[0].rmc.is_quiescent());
}

#[test]
fn a_lost_node_ends_what_waits_for_it() {
    let (mut rack, qp) = rack(8, 2);
    rack.post(0, qp, 0, entry(Op::Read, 1, 0, 256, BUFFER));
    rack.post(0, qp, 1, entry(Op::Nop, 2, 0, 0, 0));
    rack.rgp(0, 99);
    rack.rrpp(1, 0);
    rack.fabric.lose(1);
    rack.fail_node(0, 1);
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::NodeLost)));
    // The reply that was under way, and a second notice, change nothing.
    assert_eq!(rack.rcp(0, 0), 1);
    rack.fail_node(0, 1);
    assert_eq!(rack.nodes[0].rmc.stats().stale_replies, 1);
    assert_eq!(rack.completion(0, qp, 1), None);
    // Entries posted to it later end at once, and others are reached.
    rack.post(0, qp, 2, entry(Op::Nop, 1, 0, 0, 0));
    rack.settle();
    assert_eq!(rack.completion(0, qp, 1), Some((2, Status::NodeLost)));
    assert_eq!(rack.completion(0, qp, 2), Some((1, Status::Ok)));
    assert!(rack.nodes[0].rmc.is_quiescent());
}

#[test]
fn requests_of_a_lost_node_do_not_block_the_others() {
    let (mut rack, qp) = rack(8, 2);
    rack.post(0, qp, 0, entry(Op::Notify, 1, 0, 0, 0));
    rack.rgp(0, 1);
    rack.fabric.lose(0);
    assert_eq!(rack.rrpp(1, 0), 1);
    let stats = *rack.nodes[1].rmc.stats();
    assert_eq!((stats.dropped, stats.served, rack.nodes[1].mem.notified), (1, 0, 0));
}

#[test]
fn a_returning_node_starts_afresh() {
    let (mut rack, qp) = rack(2, 2);
    rack.post(0, qp, 0, entry(Op::Nop, 1, 0, 0, 0));
    rack.rgp(0, 1);
    rack.rrpp(1, 0);
    let late = rack.fabric.replies[0][0].clone();
    rack.fabric.lose(1);
    rack.fail_node(0, 1);
    rack.fabric.up[1] = true;
    for count in 1..4 {
        rack.post(0, qp, count, entry(Op::Nop, 1, 0, 0, 0));
        rack.rgp(0, 1);
        rack.fabric.replies[0].insert(0, late.clone());
        rack.settle();
        assert_eq!(rack.completion(0, qp, count), Some((count as u16, Status::Ok)));
    }
    assert_eq!(rack.nodes[0].rmc.stats().stale_replies, 4);
}

#[test]
fn a_removed_queue_pair_is_not_touched_again() {
    let (mut rack, qp) = rack(2, 2);
    fill_segment(&mut rack, 1);
    // One transfer half sent, two lines under way.
    rack.post(0, qp, 0, entry(Op::Read, 1, 0, 256, BUFFER));
    assert_eq!(rack.rgp(0, 99), 2);
    rack.remove_qp(0, qp);
    let heir = rack.add_qp(0, CTX, 4, Rights::ReadWrite, BUFFER_BYTES);
    assert_eq!(heir.index(), qp.index());
    assert!(!rack.nodes[0].rmc.is_quiescent());
    rack.post(0, heir, 0, entry(Op::Nop, 1, 0, 0, 0));
    rack.settle();
    assert_eq!(rack.completion(0, heir, 0), Some((0, Status::Ok)));
    assert_eq!(rack.completion(0, heir, 1), None);
    assert!(rack.node(0).mem.queues(heir).buffer.bytes().iter().all(|&byte| byte == 0));
    assert!(rack.nodes[0].rmc.is_quiescent());
    assert_eq!(rack.fault(), None);
}

#[test]
fn nothing_is_taken_for_a_full_lane() {
    let (mut rack, qp) = rack(1, 0);
    rack.post(0, qp, 0, entry(Op::Read, 1, 0, 256, BUFFER));
    let before = rack.clone();
    assert_eq!(rack.rgp(0, 99), 0);
    assert_eq!(rack, before);
    assert_eq!(rack.nodes[0].rmc.stats().request_lane_stalls, 1);
}

#[test]
fn a_closed_context_refuses_and_says_why() {
    for why in [Status::NoContext, Status::NodeLost] {
        let (mut rack, qp) = rack(2, 2);
        rack.post(0, qp, 0, entry(Op::Write, 1, 0, 8, BUFFER));
        rack.rgp(0, 1);
        assert!(rack.node(1).rmc.remove_context(CTX, why).is_some());
        rack.node(1).mem.segments[usize::from(CTX)] = None;
        rack.settle();
        assert_eq!(rack.completion(0, qp, 0), Some((0, why)));
    }
}

#[test]
fn foreign_replies_are_counted_and_ignored() {
    let (mut rack, qp) = rack(2, 8);
    rack.post(0, qp, 0, entry(Op::Read, 1, 0, 64, BUFFER));
    rack.rgp(0, 1);
    let tid = rack.fabric.requests[1][0].header.tid;
    let header =
        Header { dst_nid: 0, src_nid: 1, op: Op::Read, ctx_id: CTX, length: 64, offset: 0, tid };
    let reply = |header| Reply::filled(header, Status::Ok, 0xbd);
    for wrong in [
        Header { tid: tid + 1, ..header },
        Header { tid: tid + 2, ..header },
        Header { src_nid: 2, ..header },
        Header { offset: 64, ..header },
        Header { length: 99, ..header },
    ] {
        rack.fabric.replies[0].push(reply(wrong));
        assert_eq!(rack.rcp(0, 0), 1);
    }
    assert_eq!(rack.nodes[0].rmc.stats().stale_replies, 5);
    assert_eq!(rack.completion(0, qp, 0), None);
    rack.settle();
    assert_eq!(rack.completion(0, qp, 0), Some((0, Status::Ok)));
    assert!(!rack.node(0).mem.queues(qp).buffer.bytes().contains(&0xbd));
}

#[test]
fn requests_under_a_false_name_are_dropped() {
    let (mut rack, _) = rack(2, 8);
    let header =
        Header { dst_nid: 1, src_nid: 999, op: Op::Nop, ctx_id: CTX, length: 0, offset: 0, tid: 0 };
    rack.fabric.requests[1].push(Request::filled(header, 0));
    assert_eq!(rack.rrpp(1, 0), 1);
    assert_eq!(rack.nodes[1].rmc.stats().dropped, 1);
}

#[test]
fn counters_count() {
    let (mut rack, qp) = rack(8, 8);
    rack.post(0, qp, 0, entry(Op::Read, 1, 60, 100, BUFFER));
    rack.post(0, qp, 1, WqEntry { op_code: 7, ..entry(Op::Nop, 1, 0, 0, 0) });
    rack.settle();
    let source = *rack.nodes[0].rmc.stats();
    assert_eq!((source.requests, source.replies), (3, 3));
    assert_eq!((source.ops, source.bytes, source.errors), (2, 100, 1));
    let destination = *rack.nodes[1].rmc.stats();
    assert_eq!((destination.served, destination.served_bytes, destination.refused), (3, 100, 0));
    let qp_stats = rack.nodes[0].rmc.qp_stats(qp).unwrap();
    assert_eq!((qp_stats.ops, qp_stats.bytes, qp_stats.errors), (2, 100, 1));
}
