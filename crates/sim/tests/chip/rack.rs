//! Racks of several chips: data come from the other node, and threads make no difference.

use rackmem_sim::block::Block;
use rackmem_sim::chip::Chip;
use rackmem_sim::chip::layout::{BUFFER_LINE, SEGMENT_LINE};
use rackmem_sim::machine::Machine;
use rackmem_sim::run::{Options, Rack, Watchdog, run};

use super::machines::{SMALL, machine};

/// The value of every word of a node's segment.
fn pattern(nid: u64) -> Block {
    let mut block = Block::ZERO;
    block.words = [nid + 0x100; 8];
    block
}

/// The content of a block behind the private caches.
fn behind(chip: &Chip, line: u64) -> Block {
    let home = &chip.homes[usize::from(chip.wires.layout.home_of(line))];
    let memory = &chip.memories[usize::from(chip.wires.layout.controller_of(line))];
    home.peek(line, &chip.wires).map_or_else(|| memory.peek(line), |(_, block)| block)
}

/// Runs reads of the first core of every node to their ends; the rack after that.
fn after_reads(machine: &Machine) -> Rack {
    let mut rack = Rack::new(machine).expect("chips");
    let lines = machine.workload.footprint_bytes / 64;
    for (nid, chip) in rack.chips_mut().enumerate() {
        (0..lines).for_each(|line| chip.poke(SEGMENT_LINE + line, pattern(nid as u64)));
        chip.tiles[0].core.start(0, 40, &mut chip.wires);
    }
    let mut watchdog = Watchdog::new(machine, 0);
    while rack.step(&mut watchdog).is_ok() {}
    rack
}

#[test]
fn data_come_from_the_next_node() {
    // Interfaces without caches poll for ever: the watchdog ends the run.
    for placement in ["edge", "per-tile", "split", "uncached"] {
        let settings = "network.remote=nodes network.nodes=3 workload.kind=sync-read";
        let machine = machine(&[SMALL, settings, &format!("ni.placement={placement}")]);
        let mut rack = after_reads(&machine);
        for (nid, chip) in rack.chips_mut().enumerate() {
            assert!(chip.tiles[0].core.is_done(), "{placement}, node {nid}");
            let left = if placement == "uncached" { Vec::new() } else { chip.left() };
            assert_eq!(left, Vec::<String>::new(), "{placement}, node {nid}");
            // 192 bytes a read, and as many buffers as fit into a core's share of the footprint.
            let buffers = (machine.workload.footprint_bytes / 64 / 16 / 3).min(40);
            let expected = pattern((nid as u64 + 1) % 3);
            for line in 0..buffers * 3 {
                assert_eq!(behind(chip, BUFFER_LINE + line), expected, "{placement}, line {line}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_report() {
    let report = |threads: u32| {
        let settings = "network.remote=nodes network.nodes=3 run.window_cycles=2000 \
            run.max_windows=2 workload.kind=async-read";
        let machine = machine(&[SMALL, settings, &format!("run.threads={threads}")]);
        let report = run(&machine, &Options::default()).expect("a run");
        serde_json::to_string(&report).expect("JSON")
    };
    let one = report(1);
    assert!(one.contains("\"rcp.lines\""));
    assert_eq!(one, report(2));
    assert_eq!(one, report(3));
}
