//! The network on chip.

mod deadlock;
mod edges;
mod flow;
mod promises;
mod reference;

use rackmem_sim::noc::{Class, Delivered, Network, Packet};

/// Longer than any of these tests takes, in cycles.
const LONG: u64 = 1_000_000;

fn packet(src: u16, dst: u16, flits: u8) -> Packet {
    Packet { src, dst, vnet: 0, flits, class: Class::Other, flow: 0, tag: 0 }
}

/// Simulates a cycle of a network whose packets must arrive at some time.
fn tick(network: &mut Network) {
    let now = network.now();
    assert!(now < LONG, "packets that do not move: {:?}", network.stuck(now, 3));
    network.tick();
}

/// Ticks until a packet has arrived at this endpoint, and takes it.
fn receive(network: &mut Network, endpoint: u16, vnet: u8) -> Delivered {
    loop {
        if let Some(delivered) = network.take_timed(endpoint, vnet) {
            return delivered;
        }
        tick(network);
    }
}

/// Ticks until all packets have arrived.
fn drain(network: &mut Network) {
    while !network.is_idle() {
        tick(network);
    }
}
