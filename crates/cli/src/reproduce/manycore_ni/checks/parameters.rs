//! Parameters that can be read off the machines that are run.

use rackmem_sim::machine::spec::{NiCacheKind, Remote};
use rackmem_sim::machine::{BLOCK_BYTES, Machine};

use super::{Check, check, number};
use crate::reproduce::manycore_ni::results::{Known, Results};
use crate::reproduce::results::Effort;
use crate::reproduce::tolerance::Class::Exact;
use crate::reproduce::verdict::Finding;

/// A request between chips, as the wire format has it.
const REQUEST_BYTES: u32 = 16;

fn mesh(results: &Results, of: impl Fn(&Machine) -> f64) -> Known<Finding> {
    number(results.mesh().map(|machine| of(&machine)))
}

fn fact(results: &Results, of: impl Fn(&Machine) -> bool) -> Known<Finding> {
    results.mesh().map(|machine| Finding::fact(of(&machine)))
}

fn noc_out(results: &Results, of: impl Fn(&Machine) -> f64) -> Known<Finding> {
    number(results.noc_out().map(|machine| of(&machine)))
}

fn sizes(of: fn(&[u32]) -> Option<u32>) -> Known<Finding> {
    let size = of(Effort::Full.latency_sizes()).ok_or("no sizes")?;
    Ok(Finding::number(size.into()))
}

/// Private caches and LLC of a chip.
fn cache_bytes(machine: &Machine) -> u64 {
    u64::from(machine.cores()) * machine.l1.size_bytes + machine.llc.size_bytes
}

pub(super) const CHECKS: &[Check] = &[
    check("intro/system/cores-per-node", Exact, |r| mesh(r, |m| m.cores().into())),
    check("sec3-1/wq-software-arith", Exact, |r| mesh(r, |m| m.core.wq_instructions.into())),
    check("sec3-1/wq-software-stores", Exact, |r| mesh(r, |m| m.core.wq_stores.into())),
    check("sec3-1/cq-software-instr", Exact, |r| mesh(r, |m| m.core.cq_instructions.into())),
    check("sec3-3/split/frontends", Exact, |r| mesh(r, |m| m.cores().into())),
    check("sec3-3/split/backends", Exact, |r| mesh(r, |m| m.edge_places().into())),
    check("sec3-4/ni-cache/backside", Exact, |r| fact(r, |m| m.ni.cache == NiCacheKind::BackSide)),
    check("sec3-4/ni-cache/owned-state", Exact, |r| fact(r, |m| m.ni.owned_state)),
    check("sec4-1/unroll-granularity", Exact, |_| Ok(Finding::number(BLOCK_BYTES as f64))),
    check("sec4-2/edge/rgp-rcp-pairs", Exact, |r| mesh(r, |m| m.edge_places().into())),
    check("sec4-2/per-tile/rgp-rcp-pairs", Exact, |r| mesh(r, |m| m.cores().into())),
    check("sec4-2/rrpp-placement", Exact, |r| mesh(r, |m| m.edge_places().into())),
    check("sec4-2/fbi/split-rgp", Exact, |r| mesh(r, |m| m.ni.interface_cycles.into())),
    check("sec4-2/fbi/split-rcp", Exact, |r| mesh(r, |m| m.ni.interface_cycles.into())),
    check("sec4-3/frontend-mapping", Exact, |r| {
        mesh(r, |m| f64::from(m.cores()) / f64::from(m.edge_places()))
    }),
    check("table2/core/clock", Exact, |r| mesh(r, |m| m.clock_ghz)),
    check("table2/l1/size", Exact, |r| mesh(r, |m| (m.l1.size_bytes >> 10) as f64)),
    check("table2/l1/ways", Exact, |r| mesh(r, |m| m.l1.ways.into())),
    check("table2/l1/block", Exact, |_| Ok(Finding::number(BLOCK_BYTES as f64))),
    check("table2/l1/ports", Exact, |r| mesh(r, |m| m.l1.ports.into())),
    check("table2/l1/mshrs", Exact, |r| mesh(r, |m| m.l1.mshrs.into())),
    check("table2/l1/latency", Exact, |r| mesh(r, |m| m.l1.latency_cycles.into())),
    check("table2/llc/size", Exact, |r| mesh(r, |m| (m.llc.size_bytes >> 20) as f64)),
    check("table2/llc/ways", Exact, |r| mesh(r, |m| m.llc.ways.into())),
    check("table2/llc/banks-per-tile", Exact, |r| {
        mesh(r, |m| f64::from(m.llc_banks()) / f64::from(m.cores()))
    }),
    check("table2/llc/latency", Exact, |r| mesh(r, |m| m.llc.latency_cycles.into())),
    check("table2/llc/tiles-mesh", Exact, |r| {
        mesh(r, |m| f64::from(m.llc_banks()) / f64::from(m.cores()))
    }),
    check("table2/llc/tiles-noc-out", Exact, |r| noc_out(r, |m| m.llc_banks().into())),
    check("table2/memory/latency", Exact, |r| mesh(r, |m| m.memory.latency_ns)),
    check("table2/noc/link-width", Exact, |r| mesh(r, |m| m.noc.link_bytes.into())),
    check("table2/noc/mesh-hop", Exact, |r| mesh(r, |m| m.noc.hop_cycles.into())),
    check("table2/noc/noc-out-fbfly", Exact, |r| noc_out(r, |m| m.noc.tiles_per_cycle.into())),
    check("table2/noc/noc-out-tree", Exact, |r| noc_out(r, |m| m.noc.tree_hop_cycles.into())),
    check("table2/ni/rrpps", Exact, |r| mesh(r, |m| m.edge_places().into())),
    check("table2/network/hop-latency", Exact, |r| mesh(r, |m| m.network.hop_latency_ns)),
    check("sec5/simulator/cores", Exact, |r| mesh(r, |m| m.cores().into())),
    check("sec5/network/fixed-latency", Exact, |r| mesh(r, |m| m.network.hop_latency_ns)),
    check("sec5/remote-latency-model", Exact, |r| {
        fact(r, |m| m.network.remote == Remote::Generator)
    }),
    check("sec5/memory-network-unthrottled", Exact, |r| {
        fact(r, |m| m.memory.bytes_per_cycle == 0.0)
    }),
    check("sec5/bandwidth-bench/wq-entries", Exact, |r| mesh(r, |m| m.ni.wq_entries.into())),
    check("sec5/sizes/min", Exact, |_| sizes(|sizes| sizes.iter().copied().min())),
    check("sec5/sizes/max", Exact, |_| sizes(|sizes| sizes.iter().copied().max())),
    check("sec5/footprint", Exact, |r| fact(r, |m| m.workload.footprint_bytes > cache_bytes(m))),
    check("sec5/window", Exact, |r| mesh(r, |m| m.run.window_cycles as f64)),
    check("sec5/stop-rule", Exact, |r| mesh(r, |m| m.run.stable_percent)),
    check("fig6/hops", Exact, |r| mesh(r, |m| m.network.hops.into())),
    check("fig6/per-tile/flits-per-request", Exact, |r| {
        mesh(r, |m| f64::from((m.noc.header_bytes + REQUEST_BYTES).div_ceil(m.noc.link_bytes)))
    }),
    check("fig6/unroll-rate", Exact, |r| mesh(r, |m| m.ni.unroll_per_cycle.into())),
    check("fig7/cores", Exact, |r| {
        mesh(r, |m| match m.workload.cores {
            0 => m.cores().into(),
            cores => cores.into(),
        })
    }),
];
