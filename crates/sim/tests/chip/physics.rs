//! Times follow from the parameters: a read of a single block at zero load is as long as what it
//! crosses, and a bottleneck lets through what it is said to.

use rackmem_sim::chip::Chip;
use rackmem_sim::chip::layout::{Part, SEGMENT_LINE};
use rackmem_sim::machine::Machine;
use rackmem_sim::run::{Options, run};

use super::machines::machine;

/// The core that reads.
const CORE: u16 = 5;

/// A read of the only block of the segment by a core of a chip that does nothing else. `warm`: the
/// block is in the LLC.
fn one_read(settings: &[&str], warm: bool) -> Machine {
    let reads = if warm { "workload.warmup_reads=136" } else { "workload.warmup_reads=0" };
    let core = format!("workload.first_core={CORE} workload.cores=1 run.reads=1");
    let one = "workload.kind=sync-read workload.transfer_bytes=64 workload.footprint_bytes=64";
    machine(&[&[one, reads, &core], settings].concat())
}

fn latency(machine: &Machine) -> u64 {
    let report = run(machine, &Options::default()).expect("a run");
    report.latency.expect("reads").max_cycles
}

fn cycles(settings: &[&str], warm: bool) -> u64 {
    latency(&one_read(settings, warm))
}

/// The way of a read.
struct Way {
    /// Links between routers.
    links: u64,
    /// Messages through the network on chip.
    messages: u64,
    /// Messages within a tile.
    local: u64,
}

/// The way of a read in NUMA or split placement; other placements cross the chip for the queues.
fn way(machine: &Machine, warm: bool) -> Way {
    let chip = Chip::new(machine, 0, 2).expect("a chip");
    let layout = &chip.wires.layout;
    let home = Part::Home(layout.home_of(SEGMENT_LINE));
    let rrpp = Part::Rrpp(layout.rrpp_of(SEGMENT_LINE));
    let memory = Part::Memory(layout.controller_of(SEGMENT_LINE));
    let (tile, unit) = (Part::Tile(CORE), Part::Port(layout.unit_of_tile(CORE)));
    let mut legs = vec![(tile, unit), (rrpp, home), (home, rrpp), (unit, tile)];
    if !warm {
        legs.extend([(home, memory), (memory, home)]);
    }
    let is_local = |&&(from, to): &&(Part, Part)| layout.endpoint(from) == layout.endpoint(to);
    let local = legs.iter().filter(is_local).count() as u64;
    Way {
        links: legs.iter().map(|&(from, to)| chip.wires.hops(from, to)).sum(),
        messages: legs.len() as u64 - local,
        local,
    }
}

const NUMA: &str = "ni.placement=numa";

#[test]
fn a_remote_load_takes_what_it_crosses() {
    for warm in [true, false] {
        let base = one_read(&[NUMA], warm);
        let (way, before) = (way(&base, warm), latency(&base));
        assert!(way.links >= 10, "{} links", way.links);
        let later = |setting: &str| cycles(&[NUMA, setting], warm) - before;
        for more in [1, 4, 7] {
            assert_eq!(later(&format!("noc.hop_cycles={}", 3 + more)), more * way.links);
        }
        assert_eq!(later("noc.injection_cycles=5"), 3 * way.messages);
        assert_eq!(later("noc.ejection_cycles=7"), 5 * way.messages);
        assert_eq!(later("noc.local_cycles=4"), 3 * way.local);
        assert_eq!(later("llc.latency_cycles=11"), 5);
        assert_eq!(later("memory.latency_ns=60"), if warm { 0 } else { 20 });
        assert_eq!(later("network.hops=3"), 2 * 2 * 70);
        assert_eq!(later("network.hop_latency_ns=45"), 2 * 20);
        assert_eq!(later("ni.rrpp_request_cycles=9"), 5);
        assert_eq!(later("ni.rrpp_reply_cycles=4"), 3);
        // The clock counts what is given in cycles, but not what is given in nanoseconds.
        let fixed = 2 * 70 + if warm { 0 } else { 100 };
        assert_eq!(later("clock_ghz=4"), fixed);
    }
}

/// The whole of a remote load's latency, from the parameters alone.
#[test]
fn a_remote_load_is_the_sum_of_its_parts() {
    for tiles in ["tiles.columns=8 tiles.rows=8", "tiles.columns=4 tiles.rows=4", "tiles.columns=4"]
    {
        let few = "memory.controllers=2";
        for warm in [true, false] {
            let machine = one_read(&[NUMA, tiles, few], warm);
            let way = way(&machine, warm);
            let noc = &machine.noc;
            // A packet's tail is a cycle behind its head for each further flit: 2 flits with a header of
            // the fabric, 6 with a block too, 5 with a block from memory. The RRPP passes the flits of the
            // home's answer on as they come.
            let tails = (2 - 1) + (6 - 1) + if warm { 0 } else { 5 - 1 };
            // Injection, first router and ejection; then links.
            let router = 2;
            let message = u64::from(noc.injection_cycles + noc.ejection_cycles) + router;
            let crossing = way.messages * message + way.links * u64::from(noc.hop_cycles) + tails;
            let local = way.local * u64::from(noc.local_cycles);
            let ni = &machine.ni;
            let rrpp = u64::from(ni.rrpp_request_cycles + ni.rrpp_reply_cycles);
            let llc = u64::from(machine.llc.latency_cycles);
            let memory = if warm { 0 } else { machine.cycles(machine.memory.latency_ns) };
            let network = 2 * machine.cycles(machine.network.hop_latency_ns);
            // The load itself takes a cycle.
            let expected = 1 + crossing + local + rrpp + llc + memory + network;
            let found = latency(&machine);
            assert!(found.abs_diff(expected) <= 2, "{tiles}, {warm}: {found}, not {expected}");
        }
    }
}

/// Stages begin with the head of a packet, and what they send waits for its tail.
#[test]
fn interfaces_begin_with_the_head() {
    let stage = |settings: &[&str], name: &str| {
        let report = run(&one_read(settings, true), &Options::default()).expect("a run");
        let stage = report.breakdown.iter().find(|stage| stage.name == name).expect("a stage");
        stage.mean_cycles
    };
    // A WQ entry of two flits and a reply of six cross the same chip.
    let crossing = stage(&["ni.placement=split"], "to_backend");
    assert_eq!(stage(&["ni.placement=per-tile"], "to_rcp"), crossing);
    // A request of two flits leaves the chip as one of its own, which is behind the header on chip.
    assert_eq!(stage(&["ni.placement=per-tile"], "to_edge"), crossing + 1.0);
    // The backend of four stages has the last flit five cycles after the first one, then come two stages.
    let rcp = |cycles: u32| {
        stage(&["ni.placement=per-tile", &format!("ni.rcp_backend_cycles={cycles}")], "rcp")
    };
    let rest = rcp(5);
    assert_eq!([2, 4, 6, 8].map(rcp), [rest, rest, rest + 1.0, rest + 3.0]);
    // The same between chips, with five flits.
    let backend = |cycles: u32| {
        stage(&["ni.placement=split", &format!("ni.rcp_backend_cycles={cycles}")], "rcp_backend")
    };
    assert_eq!([2, 4, 5].map(backend), [4.0, 4.0, 5.0]);
}

/// The latency of memory is that of its commands and its controller. Crossing to the channel's clock
/// and back costs less than a period of each.
#[test]
fn ddr3_takes_what_its_commands_take() {
    let ddr3 = |settings: &str| cycles(&[NUMA, "memory.model=ddr3", settings], false);
    let fixed = |ns: f64| cycles(&[NUMA, &format!("memory.latency_ns={ns}")], false);
    // tRCD + CL + burst = 26 ticks of 1.25 ns = 32.5 ns. With 27.5 ns for the controller and its wires
    // these are the 60 ns of soNUMA's Table 1.
    let row_ns = 26.0 * 1.25;
    for (controller_ns, total_ns) in [(27.5, 60.0), (20.0, row_ns + 20.0), (0.0, row_ns)] {
        let found = ddr3(&format!("dram.controller_ns={controller_ns}"));
        let expected = fixed(total_ns);
        assert!((expected..=expected + 3).contains(&found), "{total_ns} ns: {found}, {expected}");
    }
    // 10 ticks are 25 cycles.
    let before = ddr3("seed=1");
    for (setting, more) in [
        ("dram.trcd_nck=21", 25),
        ("dram.cl_nck=31", 50),
        ("dram.trp_nck=21", 0),
        ("dram.controller_ns=45", 50),
        ("dram.page_policy=closed", 0),
    ] {
        assert_eq!(ddr3(setting) - before, more, "{setting}");
    }
}

/// Software looks at the CQ every so many cycles.
fn look(machine: &Machine) -> u64 {
    u64::from(machine.l1.latency_cycles + machine.core.cq_instructions) - 1
}

#[test]
fn a_read_with_split_interfaces_takes_what_it_crosses() {
    let base = one_read(&["ni.placement=split"], true);
    let (way, before) = (way(&base, true), latency(&base));
    for (setting, more) in [
        ("noc.hop_cycles=13", 10 * way.links),
        ("noc.injection_cycles=22", 20 * way.messages),
        ("llc.latency_cycles=56", 50),
        ("network.hops=2", 140),
        ("memory.latency_ns=500", 0),
        ("ni.rgp_backend_cycles=43", 40),
        ("ni.rcp_backend_cycles=44", 40),
        ("ni.rcp_frontend_cycles=42", 40),
        ("ni.rgp_frontend_cycles=44", 40),
        ("core.wq_instructions=52", 40),
    ] {
        let found = cycles(&["ni.placement=split", setting], true) - before;
        assert!(found.abs_diff(more) <= look(&base), "{setting}: {found}, not {more}");
    }
}

/// The queues cost edge placement 20 messages or so; their way across the chip adds to the rest.
#[test]
fn the_edge_is_further_away_in_a_larger_chip() {
    let of = |placement: &str, tiles: &str| {
        let settings = [placement, tiles, "memory.controllers=2 run.reads=16 workload.cores=0"];
        let settings = [&settings[..], &["workload.first_core=0 workload.footprint_bytes=16K"]];
        let report = run(&one_read(&settings.concat(), true), &Options::default()).expect("a run");
        report.latency.expect("reads").mean_cycles
    };
    let (small, large) = ("tiles.columns=4 tiles.rows=4", "tiles.columns=8 tiles.rows=8");
    let more = |placement| of(placement, large) - of(placement, small);
    let (edge, split, numa) = (more("ni.placement=edge"), more("ni.placement=split"), more(NUMA));
    assert!(edge > 2.0 * split, "{edge} and {split}");
    // A tile is 2 columns further from the edge and its home 2 columns from the RRPP, both ways,
    // and requests and replies keep to a row.
    assert!((numa - 2.0 * (2.0 + 2.0) * 3.0).abs() < 8.0, "{numa}");
    assert!((split - numa).abs() < 6.0, "{split} and {numa}");
}

/// Cycles that the report's counters are of.
fn measured_cycles(report: &rackmem_sim::report::Report) -> f64 {
    let measured = report.measured.expect("asynchronous reads");
    (measured.to_cycle - measured.from_cycle) as f64
}

/// Lines that are moved per cycle at a bottleneck, both ways.
fn bandwidth(settings: &[&str]) -> (f64, rackmem_sim::report::Report) {
    let small = "tiles.columns=4 tiles.rows=4 memory.controllers=4 llc.size_bytes=1M \
        run.window_cycles=20000 run.max_windows=3 run.min_windows=3 run.steady=bandwidth";
    let machine = machine(&[&[small], settings].concat());
    let report = run(&machine, &Options::default()).expect("a run");
    (report.app_gbps / machine.clock_ghz / 64.0, report)
}

#[test]
fn banks_let_through_what_they_can() {
    for (occupancy, placement) in [(40, "split"), (60, "split"), (60, "per-tile")] {
        let settings = format!(
            "llc.occupancy_cycles={occupancy} workload.footprint_bytes=256K ni.placement={placement}"
        );
        let (lines, report) = bandwidth(&[&settings]);
        // Each line is an access to one of 16 banks: read for others, or stored for this node.
        let most = 16.0 / f64::from(occupancy);
        assert!(lines <= most * 1.01 && lines > most * 0.85, "{settings}: {lines} of {most}");
        let (hits, misses) = (report.stat("home.llc_hits"), report.stat("home.llc_misses"));
        assert!(misses.unwrap() < 0.5 * hits.unwrap(), "{misses:?} misses, {hits:?} hits");
    }
}

#[test]
fn memory_lets_through_what_it_can() {
    for bytes_per_cycle in [1.0, 2.0] {
        // Few reads under way, so that the queues at the controllers are soon as long as they get.
        let settings = format!(
            "memory.bytes_per_cycle={bytes_per_cycle} workload.footprint_bytes=64M \
             workload.transfer_bytes=64 ni.wq_entries=32 run.window_cycles=60000"
        );
        let (lines, report) = bandwidth(&[&settings]);
        let of = |stat: &str| report.stat(stat).unwrap();
        let blocks = (of("memory.reads") + of("memory.writes")) / measured_cycles(&report);
        let most = 4.0 * bytes_per_cycle / 64.0;
        // Blocks are counted when they arrive at their controller, where some still wait.
        assert!(blocks <= most * 1.05 && blocks > most * 0.9, "{blocks} blocks of {most}");
        // A line that is read for others comes from memory; one that is stored goes there in the end.
        assert!(lines <= most * 1.1 && lines > most * 0.85, "{lines} lines of {most}");
    }
}

#[test]
fn ddr3_lets_through_what_its_wires_do() {
    // Requests wait in the network, as they came, and not in their thousands before a controller.
    let settings = "memory.model=ddr3 workload.footprint_bytes=64M workload.transfer_bytes=4096 \
        run.window_cycles=40000 noc.sources=per-network noc.delivery_packets=4";
    let (lines, report) = bandwidth(&[settings]);
    let of = |stat: &str| report.stat(stat).unwrap();
    let (mut all, mut served) = (0.0, 0.0);
    for n in 0..4 {
        let of = |stat: &str| of(&format!("memory[{n}].{stat}"));
        let rows = of("row_hits") + of("row_misses") + of("row_conflicts");
        // A burst takes 4 ticks, which are 10 cycles.
        let busy = rows * 10.0 / measured_cycles(&report);
        assert!((of("bus_utilisation") - busy).abs() < 0.001 && busy < 1.0, "{busy}");
        assert!(busy > 0.2, "memory is not the bottleneck: {busy}");
        // Objects are longer than a block; write-backs of the LLC are single ones.
        assert!(of("row_hits") > 0.3 * rows && of("row_conflicts") > 0.3 * rows);
        // Two ranks, each every 6240 ticks.
        let refreshes = measured_cycles(&report) * 0.4 / 6240.0 * 2.0;
        assert!((of("refreshes") - refreshes).abs() <= 2.0, "{refreshes}");
        assert!(of("queueing_mean_ns") > 50.0, "queues are full");
        all += of("reads") + of("writes");
        served += rows + of("forwarded_reads");
    }
    // Some wait at the beginning and at the end, at most as many as there is room for.
    assert!((all - served).abs() <= 4.0 * 64.0, "{served} of {all}");
    assert_eq!(all, of("memory.reads") + of("memory.writes"));
    assert!(lines > 0.0);
}
