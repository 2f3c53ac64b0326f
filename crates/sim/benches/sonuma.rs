//! The RMC of soNUMA at the paper's times (Table 1, 2 GHz), over a memory of fixed latency: what it
//! makes of remote reads, and how fast it is simulated. `cargo bench -p rackmem-sim --bench sonuma`.
//!
//! Memory stands for DRAM without a limit of bandwidth, so bandwidth is the RMC's own.

#![allow(dead_code)]

#[path = "../tests/sonuma/fake.rs"]
mod fake;
#[path = "../tests/sonuma/rack.rs"]
mod rack;

use std::time::Instant;

use fake::State;
use rack::{CoreQp, FabricSpec, Rack};
use rackmem_abi::{Op, WqEntry};
use rackmem_rmc::Rights;
use rackmem_sim::engine::Random;
use rackmem_sim::sonuma::RmcSpec;

const SEGMENT_AT: u64 = 0x40_0000;
const BUFFERS_AT: u64 = 0x800_0000;
const BYTES: u64 = 1 << 20;
/// Cycles of a miss: L2 (6) and DRAM (60 ns).
const MISS: u64 = 126;
/// Cycles from node to node (50 ns).
const FABRIC: u64 = 100;

struct Row {
    cycles: u64,
    operations: u64,
    ticks: u64,
    seconds: f64,
}

/// Reads of `length` bytes, up to `window` at a time.
fn reads(length: u32, window: usize, operations: u64) -> Row {
    let spec = RmcSpec::default();
    let fabric = FabricSpec { latency: FABRIC, jitter: 0, window: usize::MAX };
    let mut rack = Rack::new(&[spec.clone(), spec.clone()], 8 << 20, (MISS, MISS), fabric, 1);
    let mut random = Random::new(1, 0);
    for node in &mut rack.nodes {
        let space = node.driver.new_space();
        node.map(space, SEGMENT_AT..SEGMENT_AT + BYTES, spec.page_bytes, &mut random);
        node.map(space, BUFFERS_AT..BUFFERS_AT + BYTES, spec.page_bytes, &mut random);
        node.driver.open(0, space, SEGMENT_AT, BYTES, &mut node.fake);
        // Tables and queues fit into an L1; pages of data do not.
        node.fake.warm();
        for virt in [SEGMENT_AT, BUFFERS_AT] {
            for line in 0..BYTES / 64 {
                let line = node.phys(space, virt + line * 64) / 64;
                node.fake.set(line, State::Invalid);
            }
        }
    }
    let mut qp = CoreQp::new(&mut rack, 0, 0, 128, Rights::ReadWrite);
    let (mut posted, mut done, mut out, mut place) = (0, 0, 0, 0);
    let start = Instant::now();
    while done < operations {
        rack.begin();
        qp.publish(&mut rack);
        if posted < operations && out < window && qp.slot().is_some() {
            let offset = place % (BYTES - u64::from(length));
            let op_code = Op::Read as u8;
            let buffer = BUFFERS_AT + offset;
            qp.post(
                &mut rack,
                WqEntry { phase: false, op_code, dst_nid: 1, offset, length, buffer },
            );
            place += u64::from(length);
            posted += 1;
            out += 1;
        }
        if rack.now % 4 == 0 && qp.poll(&mut rack).is_some() {
            done += 1;
            out -= 1;
        }
        rack.end();
        rack.log.clear();
    }
    Row { cycles: rack.now, operations, ticks: rack.ticks, seconds: start.elapsed().as_secs_f64() }
}

fn main() {
    // Without it, cargo only wants to know whether this compiles and starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!(
        "{:>6} {:>7} {:>10} {:>8} {:>7} {:>12}",
        "bytes", "window", "ns/read", "M/s", "GB/s", "RMC ticks/s"
    );
    for (length, window, operations) in
        [(64, 1, 2000), (64, 128, 4000), (1024, 32, 1000), (8192, 1, 100), (8192, 16, 300)]
    {
        let Row { cycles, operations, ticks, seconds } = reads(length, window, operations);
        let ns = cycles as f64 / 2.0;
        let latency = ns / operations as f64 * window.min(operations as usize) as f64;
        let rate = operations as f64 / ns * 1e3;
        println!(
            "{length:>6} {window:>7} {latency:>10.0} {rate:>8.2} {:>7.2} {:>12.0}",
            rate * f64::from(length) / 1e3,
            ticks as f64 / seconds
        );
    }
}
