//! Every request completes exactly once, whatever the load and however small the rack's queues.

use rackmem_sim::machine::Machine;
use rackmem_sim::rack::Rack;

use super::machines::machine;

/// Loads a rack for so many cycles, then lets it run empty.
fn fill_and_drain(machine: &Machine, cycles: u64) -> Rack {
    let mut rack = Rack::new(machine).expect("a rack");
    while rack.step(cycles) {}
    let taken = rack.requests_taken();
    assert_eq!(taken, rack.requests_completed() + rack.requests_under_way());
    assert!(rack.requests_under_way() > 0);
    rack.stop();
    let patience = cycles * 200;
    while rack.requests_under_way() > 0 {
        assert!(rack.step(patience), "a deadlock: {} left", rack.requests_under_way());
    }
    let lines = u64::from(machine.workload.transfer_bytes.div_ceil(64));
    assert_eq!(rack.requests_completed(), rack.requests_taken());
    assert_eq!(rack.lines_completed(), rack.requests_taken() * lines);
    // Nothing is left over: no packet, no event.
    while rack.step(patience) {}
    assert_eq!(rack.next_cycle(), None);
    rack
}

/// The least of everything with which a rack can be built.
const TINY: &str = "rack.request_vcs=2 rack.reply_vcs=2 rack.buffer_flits=1 \
    node.arrival_queue_packets=1 node.request_queue_packets=1 node.rrpp_transactions=1 \
    traffic.outstanding=64 workload.transfer_bytes=200 network.hop_latency_ns=3";

const PATTERNS: [&str; 6] =
    ["uniform", "neighbour", "hot-spot", "transpose", "bit-complement", "tornado"];

#[test]
fn tiny_buffers_under_saturating_load_do_not_deadlock() {
    for pattern in PATTERNS {
        for topology in ["torus:4x4x4", "torus:5x5", "torus:2x2"] {
            for op in ["read", "write"] {
                let pattern = format!("traffic.pattern={pattern} traffic.op={op}");
                let topology = format!("rack.topology={topology}");
                let machine = machine(&[TINY, &pattern, &topology]);
                // On rings of two, a tornado blows in place.
                if Rack::new(&machine).expect("a rack").sources() > 0 {
                    let rack = fill_and_drain(&machine, 4000);
                    assert!(rack.requests_completed() > 0, "{pattern} {topology}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_lost_in_an_overloaded_open_loop() {
    let open = "traffic.loop=open traffic.offered_gbps=60 rack.topology=torus:4x4x4";
    let rack = fill_and_drain(&machine(&[open, "traffic.pattern=hot-spot"]), 10_000);
    assert!(rack.requests_completed() > 1000);
}

#[test]
fn the_whole_rack_runs_empty() {
    fill_and_drain(&machine(&["traffic.outstanding=4"]), 3000);
}
