//! The links at the edge of a chip: their wires, lanes and credits.

use rackmem_abi::{Header, LINE_BYTES, Op, Packet, Request};
use rackmem_sim::chip::Chip;
use rackmem_sim::chip::message::{NetPacket, Payload};
use rackmem_sim::chip::wires::Departure;
use rackmem_sim::run::{Options, run};
use rackmem_sim::sonuma::Lane;

use super::machines::machine;

fn request(op: Op, offset: u64) -> Request {
    let length = if op == Op::Nop { 0 } else { LINE_BYTES as u16 };
    let header = Header { dst_nid: 0, src_nid: 1, op, ctx_id: 0, length, offset, tid: 7 };
    Request { header, payload: [0; LINE_BYTES] }
}

/// What leaves a chip, and when, in so many cycles after requests have come by the link of the first row.
fn after(settings: &[&str], requests: &[Request], cycles: u64) -> Vec<(u64, Payload)> {
    let mut chip = Chip::new(&machine(settings), 0, 3).expect("a chip");
    for &request in requests {
        chip.receive(1, Payload::Net(NetPacket::request(request, 0)));
    }
    let mut left = Vec::new();
    while let Some(next) = chip.next_cycle().filter(|&next| next <= cycles) {
        chip.cycle(next);
        for Departure { cycle, payload, .. } in chip.wires.departures.drain(..) {
            left.push((cycle, payload));
        }
    }
    left
}

#[test]
fn the_wire_behind_a_link_takes_a_flit_a_cycle() {
    let answered = |requests: &[Request]| {
        let left = after(&["ni.placement=edge"], requests, 60);
        let is_answer = |payload: &Payload| match payload {
            Payload::Net(NetPacket { packet: Packet::Reply(reply), .. }) => {
                reply.header.op == Op::Nop
            }
            _ => false,
        };
        let answers = left.into_iter().filter(|(_, payload)| is_answer(payload));
        answers.map(|(cycle, _)| cycle).collect::<Vec<_>>()
    };
    let (nop, write) = (request(Op::Nop, 0), request(Op::Write, 64));
    let alone = answered(&[nop])[0];
    assert_eq!(answered(&[nop, nop, nop]), [alone, alone + 1, alone + 2]);
    // A write has a header and four flits of data.
    assert_eq!(answered(&[write, nop]), [alone + 5]);
}

#[test]
fn packets_of_a_cycle_go_on_in_the_order_of_their_nodes() {
    let of = |src_nid: u16| {
        let Request { header, payload } = request(Op::Read, 0);
        Request { header: Header { src_nid, ..header }, payload }
    };
    let replies = |requests: &[Request]| {
        let left = after(&["ni.placement=edge"], requests, 2000).into_iter();
        let destination = |(_, payload)| match payload {
            Payload::Net(NetPacket { packet: Packet::Reply(reply), .. }) => {
                Some(reply.header.dst_nid)
            }
            _ => None,
        };
        left.filter_map(destination).collect::<Vec<_>>()
    };
    assert_eq!(replies(&[of(1), of(2)]), [1, 2]);
    assert_eq!(replies(&[of(2), of(1)]), [1, 2]);
}

#[test]
fn a_request_that_is_not_taken_keeps_its_credit() {
    let reads: Vec<Request> = (0..6).map(|line| request(Op::Read, line * 64)).collect();
    for placement in ["edge", "per-tile", "split", "numa"] {
        let placement = format!("ni.placement={placement}");
        let few = [&placement, "ni.lane_credits=2 ni.rrpp_transactions=1 memory.latency_ns=500"];
        let credits = |cycles: u64| {
            let left = after(&few, &reads, cycles).into_iter();
            let is_credit =
                |payload: &Payload| matches!(payload, Payload::Credit { lane: Lane::Request, .. });
            left.filter(|(_, payload)| is_credit(payload)).count()
        };
        // One read is under way, two wait in the RRPP, the others at the link.
        assert_eq!([credits(30), credits(900)], [3, 3], "{placement}");
        assert_eq!(credits(2000), 4, "{placement}");
    }
}

#[test]
fn requests_that_wait_do_so_at_their_source() {
    let latency = |windows: u32| {
        let settings = format!(
            "tiles.columns=4 tiles.rows=4 memory.controllers=4 llc.size_bytes=1M \
             workload.footprint_bytes=16M workload.transfer_bytes=4096 run.window_cycles=20000 \
             run.min_windows={windows} run.max_windows={windows}"
        );
        let report = run(&machine(&[&settings]), &Options::default()).expect("a run");
        (0..4).map(|n| report.stat(&format!("rrpp[{n}].latency_mean_cycles")).unwrap()).sum::<f64>()
    };
    let (early, late) = (latency(2), latency(6));
    assert!(late < 1.2 * early, "{early} cycles, then {late}");
}

/// Lanes, credits, RRPPs and ports that have one place each, with more reads than they can hold: packets go on.
#[test]
fn the_least_places_are_enough() {
    for placement in ["edge", "per-tile", "split", "numa", "uncached"] {
        for workload in ["transfer_bytes=64", "transfer_bytes=1024"] {
            let settings = format!(
                "ni.placement={placement} workload.{workload} network.credits=1 ni.lane_credits=1 \
                 ni.rrpp_transactions=1 ni.rcp_stores=1 noc.port_packets=1 tiles.columns=4 \
                 tiles.rows=4 memory.controllers=4 llc.size_bytes=1M workload.footprint_bytes=16M \
                 run.window_cycles=100000 run.max_windows=2 run.watchdog_cycles=20000"
            );
            let report = run(&machine(&[&settings]), &Options::default()).expect("no deadlock");
            assert!(report.rcp_gbps > 0.5, "{settings}: {}", report.rcp_gbps);
        }
    }
}

#[test]
fn a_link_has_credits_for_each_hop() {
    let sent = |settings: &[&str]| {
        let settings = [&["ni.placement=edge workload.transfer_bytes=16384"], settings].concat();
        let mut chip = Chip::new(&machine(&settings), 0, 2).expect("a chip");
        chip.start();
        let Chip { tiles, wires, .. } = &mut chip;
        tiles[0].core.start(0, 0, wires);
        while let Some(next) = chip.next_cycle().filter(|&next| next <= 20_000) {
            chip.cycle(next);
        }
        chip.wires.departures.len()
    };
    // Eight links; nobody answers.
    assert_eq!(sent(&["network.credits=3"]), 8 * 3);
    assert_eq!(sent(&["network.credits=3 network.hops=4"]), 8 * 3 * 4);
}
