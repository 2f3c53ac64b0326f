//! Checks of machines with borrowed memory.

use super::spec::{Buffers, Completion, Machine, NocTopology, Placement, Translation};
use super::validate::{Checked, PAGE_BYTES, at_least, not_negative, require};
use super::validate_extension::{card, link, module, queue_pairs};
use crate::chip::card::BUFFER_BYTES;

/// Most lines that a prefetcher fetches ahead.
const MAX_DEGREE: u32 = 64;

/// Most reads at the same time.
const MAX_OUTSTANDING: u32 = 4096;

/// Most descriptors of a ring: its page.
pub(crate) const MAX_DESCRIPTORS: u32 = 1 << 16;

pub(super) fn window(machine: &Machine) -> Checked {
    prefetch(machine)?;
    let placement = machine.ni.placement;
    if !placement.has_window() {
        return Ok(());
    }
    if placement == Placement::Bridge {
        module(machine)?;
        link(machine)?;
        card(machine)?;
        device(machine)?;
        queue_pairs(machine)?;
        channel(machine)?;
    }
    let window = &machine.window;
    let crossbar = machine.noc.topology == NocTopology::Crossbar;
    require(crossbar && machine.tiles.rows == 1, "ni.placement", || {
        "needs noc.topology = \"crossbar\" and tiles.rows = 1 where memory is borrowed".to_owned()
    })?;
    require(machine.ni.completion == Completion::Acknowledged, "ni.completion", || {
        "is \"posted\", must be \"acknowledged\" with this ni.placement: cores wait for stores that go through"
            .to_owned()
    })?;
    let lent = window.lent_bytes;
    require(lent > 0 && lent.is_multiple_of(PAGE_BYTES), "window.lent_bytes", || {
        format!("is {lent}, must be a multiple of {PAGE_BYTES}, and not 0")
    })?;
    require(lent < machine.memory.size_bytes, "window.lent_bytes", || {
        format!("is {lent}, must be less than memory.size_bytes, which it is the end of")
    })?;
    let plugged = window.plug_bytes;
    require(plugged <= lent && plugged % PAGE_BYTES == 0, "window.plug_bytes", || {
        format!("is {plugged}, must be a multiple of {PAGE_BYTES}, at most window.lent_bytes")
    })?;
    require(plugged == 0 || !window.heap, "window.plug_bytes", || {
        "must be 0 with window.heap = true, which has borrowed all there is".to_owned()
    })?;
    for (key, value) in [
        ("window.outstanding", window.outstanding),
        ("window.combining_buffers", window.combining_buffers),
        ("window.accesses", window.accesses),
        ("window.link_lanes", window.link_lanes),
    ] {
        at_least(key, value.into(), 1)?;
    }
    require(window.outstanding <= MAX_OUTSTANDING, "window.outstanding", || {
        format!("is {}, must be at most {MAX_OUTSTANDING}", window.outstanding)
    })?;
    require(window.link_bits_per_ten <= 10, "window.link_bits_per_ten", || {
        format!("is {}, must be at most 10", window.link_bits_per_ten)
    })?;
    for (key, value) in [
        ("window.max_payload_bytes", window.max_payload_bytes),
        ("window.max_read_bytes", window.max_read_bytes),
    ] {
        require(value.is_power_of_two() && (64..=4096).contains(&value), key, || {
            format!("is {value}, must be a power of two from 64 to 4096, as PCIe has it")
        })?;
    }
    let ring = window.dma_descriptors;
    require(ring % 4 == 0 && ring <= MAX_DESCRIPTORS, "window.dma_descriptors", || {
        format!("is {ring}, must be a multiple of 4, at most {MAX_DESCRIPTORS}; 0 for no engine")
    })?;
    not_negative("window.root_ns", window.root_ns)?;
    not_negative("window.link_gtps", window.link_gtps)?;
    not_negative("window.dma_setup_ns", window.dma_setup_ns)
}

/// A card of a chip accesses a line at a time, and a frame is in one buffer.
fn device(machine: &Machine) -> Checked {
    let burst = machine.nic.burst_bytes;
    require(burst.is_power_of_two() && burst <= 64, "nic.burst_bytes", || {
        format!("is {burst}, must be a power of two up to 64 on a chip")
    })?;
    let mtu = machine.nic.mtu;
    require(u64::from(mtu) <= BUFFER_BYTES, "nic.mtu", || {
        format!("is {mtu}, must be at most {BUFFER_BYTES} on a chip, a buffer")
    })?;
    not_negative("window.register_ns", machine.window.register_ns)
}

/// What the channel of a chip does not have.
fn channel(machine: &Machine) -> Checked {
    let qpair = &machine.qpair;
    require(qpair.buffers == Buffers::Ocm, "qpair.buffers", || {
        "must be \"ocm\" on a chip: the channel reaches queues and buffers in one time".to_owned()
    })?;
    require(qpair.translation == Translation::Channel, "qpair.translation", || {
        "must be \"channel\" on a chip: programs name their own addresses".to_owned()
    })
}

fn prefetch(machine: &Machine) -> Checked {
    let prefetch = &machine.prefetch;
    for (key, value) in [
        ("prefetch.local_degree", prefetch.local_degree),
        ("prefetch.remote_degree", prefetch.remote_degree),
    ] {
        require(value <= MAX_DEGREE, key, || format!("is {value}, must be at most {MAX_DEGREE}"))?;
    }
    require(prefetch.streams == 0 || machine.llc_banks() == 1, "prefetch.streams", || {
        "must be 0 with more than one bank: a bank sees a part of each stream only".to_owned()
    })
}
