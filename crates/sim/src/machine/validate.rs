//! Checks that a machine can be built.

use std::ops::RangeInclusive;

use rackmem_abi::PACKET_BYTES;

use super::kind::Kind;
use super::spec::{Machine, NocTopology, Placement, Remote, WorkloadKind};
use super::validate_extension::extension;
use super::validate_rack::rack;
use super::validate_window::window;
use crate::block::BLOCK_BYTES;
use crate::chip::noc_spec;
use crate::coherence::message::MAX_CACHES;
use crate::dram::Timing;
use crate::noc::{Sources, SpecError};
use crate::scratchpad::region::{DRAM, FIRST, LOCK_BOX, STRIDE};

/// Longest read, as the queue entry's length field has it.
const MAX_TRANSFER_BYTES: u32 = (16 << 20) - 1;

/// Memory is lent in pages of this size, and no page tables have larger ones.
pub(super) const PAGE_BYTES: u64 = 1 << 16;

/// Times, rates and shares, in whatever their unit is: sums of such times in picoseconds fit 64 bits.
const RANGE: RangeInclusive<f64> = 1e-6..=1e9;

/// Simulated chips of a rack.
const MAX_CHIPS: u16 = 64;

/// Flits of a packet on chip.
const MAX_FLITS: u64 = 255;

/// Banks of a DRAM channel, ranks and all: a bit each.
const MAX_BANKS: u32 = 64;

/// Requests that wait at a DRAM channel, of either kind.
const MAX_QUEUE: u32 = 4096;

/// Requests in the queue of one bank.
const MAX_BANK_QUEUE: u32 = 256;

/// A setting with which a machine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The setting, such as `noc.link_bytes`.
    pub key: &'static str,
    /// The problem, and the remedy.
    pub problem: String,
}

pub(super) type Checked = Result<(), Invalid>;

/// Checks that a machine can be built.
///
/// # Errors
/// The first setting with which it cannot.
pub fn validate(machine: &Machine) -> Checked {
    require(i64::try_from(machine.seed).is_ok(), "seed", || "must be less than 2^63".to_owned())?;
    positive("clock_ghz", machine.clock_ghz)?;
    match machine.kind {
        Kind::Chip => chip(machine),
        Kind::Soc => dram(machine).and_then(|()| extension(machine)),
        Kind::Torus => {
            positive("network.hop_latency_ns", machine.network.hop_latency_ns)?;
            transfers(machine)?;
            rack(machine)?;
            run(machine)
        }
        Kind::Memory => dram(machine),
    }
}

fn chip(machine: &Machine) -> Checked {
    tiles(machine)?;
    programs(machine)?;
    caches(machine)?;
    scratchpad(machine)?;
    window(machine)?;
    memory(machine)?;
    dram(machine)?;
    noc(machine)?;
    interfaces(machine)?;
    network(machine)?;
    workload(machine)?;
    run(machine)
}

pub(super) fn require(holds: bool, key: &'static str, problem: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Invalid { key, problem: problem() }) }
}

pub(super) fn power_of_two(key: &'static str, value: u64) -> Checked {
    require(value.is_power_of_two(), key, || {
        format!("is {value}, must be a power of two, as addresses are split by bits")
    })
}

pub(super) fn at_least(key: &'static str, value: u64, least: u64) -> Checked {
    require(value >= least, key, || format!("is {value}, must be at least {least}"))
}

pub(super) fn positive(key: &'static str, value: f64) -> Checked {
    require(RANGE.contains(&value), key, || {
        format!("is {value}, must be {} to {}", RANGE.start(), RANGE.end())
    })
}

pub(super) fn not_negative(key: &'static str, value: f64) -> Checked {
    require(value == 0.0 || RANGE.contains(&value), key, || {
        format!("is {value}, must be 0, or {} to {}", RANGE.start(), RANGE.end())
    })
}

fn tiles(machine: &Machine) -> Checked {
    let (tiles, core) = (&machine.tiles, &machine.core);
    power_of_two("tiles.columns", tiles.columns.into())?;
    power_of_two("tiles.rows", tiles.rows.into())?;
    at_least("core.wq_instructions", core.wq_instructions.into(), 1)?;
    require(core.wq_stores == 2, "core.wq_stores", || {
        format!("is {}, must be 2: a WQ entry has two words", core.wq_stores)
    })?;
    at_least("core.store_buffer", core.store_buffer.into(), core.wq_stores.into())?;
    at_least("core.cq_instructions", core.cq_instructions.into(), 1)?;
    at_least("core.posts_per_poll", core.posts_per_poll.into(), 1)?;
    let caches = machine.private_caches();
    require(caches as usize <= MAX_CACHES, "tiles.rows", || {
        format!(
            "is {1}: {0} x {1} tiles make {caches} private caches with those of the network interfaces \
             (ni.placement, ni.cache); directories can tell {MAX_CACHES} apart",
            tiles.columns, tiles.rows
        )
    })
}

/// More than any memory, and far from the end of all addresses.
const MAX_STACK_BYTES: u64 = 1 << 40;

/// Checks the parts that execute programs.
fn programs(machine: &Machine) -> Checked {
    let unfit = |(key, problem)| Invalid { key, problem };
    machine.cpu_spec().check().map_err(unfit)?;
    machine.rmc_spec().check().map_err(unfit)?;
    let sonuma = machine.ni.placement == Placement::Sonuma;
    let crossbar = machine.noc.topology == NocTopology::Crossbar;
    require(!sonuma || crossbar && machine.tiles.rows == 1, "ni.placement", || {
        "is \"sonuma\", which needs noc.topology = \"crossbar\" and tiles.rows = 1".to_owned()
    })?;
    let stack = machine.system.stack_bytes;
    at_least("system.stack_bytes", stack, 1 << 16)?;
    require(stack <= MAX_STACK_BYTES, "system.stack_bytes", || {
        format!("is {stack}, must be at most {MAX_STACK_BYTES}")
    })?;
    at_least("system.contexts", machine.system.contexts.into(), 1)?;
    let size = machine.memory.size_bytes;
    at_least("memory.size_bytes", size, 1 << 20)?;
    require(size.is_multiple_of(PAGE_BYTES), "memory.size_bytes", || {
        format!("is {size}, must be a multiple of {PAGE_BYTES}, the largest page")
    })?;
    at_least("network.credits", machine.network.credits.into(), 1)?;
    positive("lan.latency_ns", machine.lan.latency_ns)?;
    positive("lan.gbit_s", machine.lan.gbit_s)
}

fn sets(
    size_key: &'static str,
    ways_key: &'static str,
    size: u64,
    ways: u32,
    banks: u32,
) -> Checked {
    at_least(ways_key, ways.into(), 1)?;
    power_of_two(size_key, size)?;
    let row_bytes = BLOCK_BYTES * u64::from(ways) * u64::from(banks);
    let sets = size / row_bytes;
    require(size % row_bytes == 0 && sets.is_power_of_two(), ways_key, || {
        format!(
            "is {ways}: with {BLOCK_BYTES}-byte blocks in {banks} bank(s) and {size_key} = {size} it does not \
             make a power of two of sets; choose a power of two that fits"
        )
    })
}

fn caches(machine: &Machine) -> Checked {
    let (l1, llc) = (&machine.l1, &machine.llc);
    sets("l1.size_bytes", "l1.ways", l1.size_bytes, l1.ways, 1)?;
    at_least("l1.latency_cycles", l1.latency_cycles.into(), 1)?;
    at_least("l1.ports", l1.ports.into(), 1)?;
    at_least("l1.mshrs", l1.mshrs.into(), 1)?;
    sets("llc.size_bytes", "llc.ways", llc.size_bytes, llc.ways, machine.llc_banks())?;
    at_least("llc.latency_cycles", llc.latency_cycles.into(), 1)?;
    at_least("llc.occupancy_cycles", llc.occupancy_cycles.into(), 1)?;
    at_least("llc.transactions", llc.transactions.into(), 1)?;
    positive("directory.provisioning", machine.directory.provisioning)?;
    at_least("directory.ways", machine.directory.ways.into(), 1)
}

/// Network interfaces in private caches.
fn scratchpad(machine: &Machine) -> Checked {
    let (l2, spec) = (&machine.l2, &machine.scratchpad);
    if machine.ni.placement != Placement::CacheIntegrated {
        return Ok(());
    }
    sets("l2.size_bytes", "l2.ways", l2.size_bytes, l2.ways, 1)?;
    require(l2.size_bytes <= STRIDE, "l2.size_bytes", || {
        format!("is {}, must be at most {STRIDE}: addresses of scratchpads", l2.size_bytes)
    })?;
    at_least("l2.ways", l2.ways.into(), 2)?;
    for (key, value) in [
        ("l2.latency_cycles", l2.latency_cycles),
        ("l2.mshrs", l2.mshrs),
        ("scratchpad.job_entries", spec.job_entries),
        ("scratchpad.read_entries", spec.read_entries),
        ("scratchpad.ack_entries", spec.ack_entries),
        ("scratchpad.store_entries", spec.store_entries),
        ("scratchpad.bytes_per_cycle", spec.bytes_per_cycle),
        ("scratchpad.lock_cycles", spec.lock_cycles),
        ("scratchpad.lock_bus_cycles", spec.lock_bus_cycles),
    ] {
        at_least(key, value.into(), 1)?;
    }
    require(spec.dram_bytes <= LOCK_BOX - DRAM, "scratchpad.dram_bytes", || {
        format!("is {}, must be at most {}", spec.dram_bytes, LOCK_BOX - DRAM)
    })?;
    require(machine.memory.size_bytes <= FIRST, "memory.size_bytes", || {
        format!("is {}, must be at most {FIRST}: scratchpads follow", machine.memory.size_bytes)
    })
}

fn memory(machine: &Machine) -> Checked {
    let memory = &machine.memory;
    positive("memory.latency_ns", memory.latency_ns)?;
    not_negative("memory.port_ns", memory.port_ns)?;
    let (most, place) = match machine.noc.topology {
        NocTopology::NocOut => (machine.tiles.columns, "column (tiles.columns)"),
        NocTopology::Mesh | NocTopology::Crossbar => (machine.tiles.rows, "row (tiles.rows)"),
    };
    require((1..=most).contains(&memory.controllers), "memory.controllers", || {
        format!("is {}, must be 1 to {most}: one per {place} at most", memory.controllers)
    })?;
    power_of_two("memory.interleave_bytes", memory.interleave_bytes)?;
    at_least("memory.interleave_bytes", memory.interleave_bytes, BLOCK_BYTES)?;
    not_negative("memory.bytes_per_cycle", memory.bytes_per_cycle)
}

fn dram(machine: &Machine) -> Checked {
    let dram = &machine.dram;
    require([1, 2, 4, 8, 16, 32].contains(&dram.device_gbit), "dram.device_gbit", || {
        format!("is {}, must be 1, 2, 4, 8, 16 or 32: the parts that there are", dram.device_gbit)
    })?;
    power_of_two("dram.ranks", dram.ranks.into())?;
    power_of_two("dram.banks", dram.banks.into())?;
    let banks = u64::from(dram.ranks) * u64::from(dram.banks);
    require(banks <= MAX_BANKS.into(), "dram.banks", || {
        format!("makes {banks} in all of dram.ranks together, must make {MAX_BANKS} at most")
    })?;
    power_of_two("dram.bank_groups", dram.bank_groups.into())?;
    require(dram.bank_groups <= dram.banks, "dram.bank_groups", || {
        format!("is {}, must be at most dram.banks, which is {}", dram.bank_groups, dram.banks)
    })?;
    power_of_two("dram.row_bytes", dram.row_bytes)?;
    at_least("dram.row_bytes", dram.row_bytes, BLOCK_BYTES)?;
    for (key, value) in
        [("dram.read_queue", dram.read_queue), ("dram.write_queue", dram.write_queue)]
    {
        require((1..=MAX_QUEUE).contains(&value), key, || {
            format!("is {value}, must be 1 to {MAX_QUEUE}")
        })?;
    }
    require((1..=MAX_BANK_QUEUE).contains(&dram.bank_queue), "dram.bank_queue", || {
        format!("is {}, must be 1 to {MAX_BANK_QUEUE}", dram.bank_queue)
    })?;
    let (low, high, most) = (dram.write_low, dram.write_high, dram.write_queue);
    require((1..=most).contains(&high), "dram.write_high", || {
        format!("is {high}, must be 1 to {most} (dram.write_queue), or writes would never go")
    })?;
    require(low < high, "dram.write_low", || {
        format!("is {low}, must be less than dram.write_high, which is {high}")
    })?;
    at_least("dram.row_accesses", dram.row_accesses.into(), 1)?;
    positive("dram.age_limit_ns", dram.age_limit_ns)?;
    not_negative("dram.controller_ns", dram.controller_ns)?;
    dram_timing(machine)
}

fn dram_timing(machine: &Machine) -> Checked {
    let tck_ps = machine.dram.tck_ps;
    require(tck_ps <= 1_000_000, "dram.tck_ps", || {
        format!("is {tck_ps}, must be at most 1000000: a clock of 1 MHz")
    })?;
    let timing = Timing::of(&machine.dram);
    let burst = timing.burst;
    for (key, value) in [
        ("dram.tccd_nck", timing.tccd),
        ("dram.tccd_l_nck", timing.tccd_l),
        ("dram.tccd_l_wr_nck", timing.tccd_l_wr),
        ("dram.twrwr_dr_nck", timing.twrwr_dr),
    ] {
        require(value >= burst, key, || {
            format!("is {value}, must be at least {burst}, the data of a burst")
        })?;
    }
    // Data of the write may not begin before those of the read have ended.
    let trtw = (timing.cl + burst).saturating_sub(timing.cwl).max(1);
    at_least("dram.trtw_nck", timing.trtw, trtw)?;
    require(timing.tfaw >= timing.trrd, "dram.tfaw_nck", || {
        format!("is {}, must be at least dram.trrd_nck, which is {}", timing.tfaw, timing.trrd)
    })?;
    for (key, value) in [
        ("dram.cl_nck", timing.cl),
        ("dram.cwl_nck", timing.cwl),
        ("dram.trcd_nck", timing.trcd),
        ("dram.trp_nck", timing.trp),
        ("dram.tras_nck", timing.tras),
        ("dram.trc_nck", timing.trc),
        ("dram.trrd_nck", timing.trrd),
        ("dram.trrd_l_nck", timing.trrd_l),
        ("dram.tfaw_nck", timing.tfaw),
        ("dram.twr_nck", timing.twr),
        ("dram.twtr_nck", timing.twtr),
        ("dram.twtr_l_nck", timing.twtr_l),
        ("dram.trtp_nck", timing.trtp),
        ("dram.tccd_nck", timing.tccd),
        ("dram.tccd_l_nck", timing.tccd_l),
        ("dram.tccd_l_wr_nck", timing.tccd_l_wr),
        ("dram.trtw_nck", timing.trtw),
        ("dram.twrwr_dr_nck", timing.twrwr_dr),
        ("dram.trtrs_nck", timing.trtrs),
    ] {
        require(value < timing.trefi, key, || {
            format!("is {value}, must be less than dram.trefi_nck, which is {}", timing.trefi)
        })?;
    }
    // All rows of a rank have to be closed before a refresh, and something has to be done after it.
    let around = timing.trc + timing.cwl + burst + timing.twr + timing.trp;
    require(timing.trefi > timing.trfc + around, "dram.trefi_nck", || {
        format!(
            "is {}, must be more than {}: a refresh (dram.trfc_nck) and an access beside it",
            timing.trefi,
            timing.trfc + around
        )
    })
}

fn noc(machine: &Machine) -> Checked {
    let noc = &machine.noc;
    power_of_two("noc.link_bytes", noc.link_bytes.into())?;
    for (key, value) in [
        ("noc.header_bytes", noc.header_bytes),
        ("noc.hop_cycles", noc.hop_cycles),
        ("noc.tree_hop_cycles", noc.tree_hop_cycles),
        ("noc.tiles_per_cycle", noc.tiles_per_cycle),
        ("noc.ejection_cycles", noc.ejection_cycles),
        ("noc.local_cycles", noc.local_cycles),
        ("noc.vcs", noc.vcs),
        ("noc.buffer_flits", noc.buffer_flits),
        ("noc.port_packets", noc.port_packets),
    ] {
        at_least(key, value.into(), 1)?;
    }
    at_least("noc.injection_cycles", noc.injection_cycles.into(), 2)?;
    let longest = u64::from(noc.header_bytes) + PACKET_BYTES as u64;
    let most = u64::from(noc.link_bytes) * MAX_FLITS;
    require(longest <= most, "noc.header_bytes", || {
        format!(
            "is {}: a packet of {longest} bytes has more than {MAX_FLITS} flits of noc.link_bytes = {}",
            noc.header_bytes, noc.link_bytes
        )
    })?;
    let mesh = noc.topology == NocTopology::Mesh;
    let stages = noc.router.hop_cycles(0);
    require(!mesh || u64::from(noc.hop_cycles) > stages, "noc.hop_cycles", || {
        format!(
            "is {}, must be more than the {stages} of noc.router = \"{}\": the rest is the link",
            noc.hop_cycles, noc.router
        )
    })?;
    let may_stall = noc.sources == Sources::Shared && noc.delivery_packets != 0;
    require(!may_stall, "noc.delivery_packets", || {
        format!(
            "is {}, must be 0 with noc.sources = \"shared\": a port of all parts is free of deadlock only if they \
             take whatever arrives",
            noc.delivery_packets
        )
    })?;
    let one_side = noc.topology == NocTopology::NocOut && machine.tiles.rows < 2;
    require(!one_side, "tiles.rows", || {
        "is 1, must be at least 2 with noc.topology = \"noc-out\": cores lie on both sides of the LLC".to_owned()
    })?;
    routers(machine)
}

/// That routers have room for what they are to hold.
fn routers(machine: &Machine) -> Checked {
    let Err(error) = noc_spec::of(machine).check() else { return Ok(()) };
    let key = match error {
        SpecError::TooLarge { what: "flits in a buffer", .. } => "noc.buffer_flits",
        SpecError::TooLarge { what: "cycles of link latency", .. } => "noc.hop_cycles",
        SpecError::TooLarge { what: "cycles of injection latency", .. } => "noc.injection_cycles",
        SpecError::TooLarge { what: "cycles of ejection latency", .. } => "noc.ejection_cycles",
        _ => "noc.vcs",
    };
    Err(Invalid { key, problem: error.to_string() })
}

fn interfaces(machine: &Machine) -> Checked {
    let ni = &machine.ni;
    for (key, value) in [
        ("ni.cache_blocks", ni.cache_blocks),
        ("ni.cache_latency_cycles", ni.cache_latency_cycles),
        ("ni.back_side_cycles", ni.back_side_cycles),
        ("ni.rrpp_transactions", ni.rrpp_transactions),
        ("ni.rcp_stores", ni.rcp_stores),
        ("ni.unroll_per_cycle", ni.unroll_per_cycle),
        ("ni.lane_credits", ni.lane_credits),
        // A line is stored in a later cycle than its head leaves the link.
        ("ni.rcp_backend_cycles", ni.rcp_backend_cycles),
    ] {
        at_least(key, value.into(), 1)?;
    }
    power_of_two("ni.wq_entries", ni.wq_entries.into())?;
    require(ni.wq_entries <= 128, "ni.wq_entries", || {
        format!("is {}, must be at most 128, the longest queue that there is", ni.wq_entries)
    })
}

fn network(machine: &Machine) -> Checked {
    let network = &machine.network;
    positive("network.hop_latency_ns", network.hop_latency_ns)?;
    at_least("network.hops", network.hops.into(), 1)?;
    let simulated = network.remote == Remote::Nodes;
    require(!simulated || (2..=MAX_CHIPS).contains(&network.nodes), "network.nodes", || {
        let nodes = network.nodes;
        format!("is {nodes}, must be 2 to {MAX_CHIPS} with network.remote = \"nodes\"")
    })
}

fn transfers(machine: &Machine) -> Checked {
    let bytes = machine.workload.transfer_bytes;
    require((1..=MAX_TRANSFER_BYTES).contains(&bytes), "workload.transfer_bytes", || {
        format!("is {bytes}, must be 1 to {MAX_TRANSFER_BYTES}")
    })
}

fn workload(machine: &Machine) -> Checked {
    transfers(machine)?;
    let workload = &machine.workload;
    let cores = machine.cores();
    let (first, issuing) = (u32::from(workload.first_core), u32::from(workload.cores));
    require(first < cores, "workload.first_core", || {
        format!("is {first}, but the last core of tiles.columns x tiles.rows is {}", cores - 1)
    })?;
    require(first + issuing <= cores, "workload.cores", || {
        format!(
            "is {issuing}, from core {first} (workload.first_core) on more than the {cores} cores of the chip \
             (tiles.columns x tiles.rows)"
        )
    })?;
    not_negative("workload.rate", workload.rate)?;
    require(
        workload.rate == 0.0 || workload.kind == WorkloadKind::AsyncRead,
        "workload.rate",
        || "is the rate of asynchronous reads: set workload.kind to \"async-read\"".to_owned(),
    )?;
    require(workload.rate <= 1000.0 * machine.clock_ghz, "workload.rate", || {
        format!(
            "is {} per microsecond, more than one in every cycle of clock_ghz = {}",
            workload.rate, machine.clock_ghz
        )
    })?;
    let (footprint, bytes) = (workload.footprint_bytes, workload.transfer_bytes);
    require(footprint >= bytes.into(), "workload.footprint_bytes", || {
        format!("is {footprint}, must be at least workload.transfer_bytes, {bytes}")
    })
}

fn run(machine: &Machine) -> Checked {
    let run = &machine.run;
    at_least("run.window_cycles", run.window_cycles, 1)?;
    not_negative("run.precision_percent", run.precision_percent)?;
    at_least("run.min_windows", run.min_windows.into(), 1)?;
    require(run.max_windows >= run.min_windows, "run.max_windows", || {
        let (most, least) = (run.max_windows, run.min_windows);
        format!("is {most}, must be at least {least}, which is run.min_windows")
    })?;
    at_least("run.reads", run.reads.into(), 1)?;
    at_least("run.watchdog_cycles", run.watchdog_cycles, 1)
}
