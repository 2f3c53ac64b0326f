//! A machine that does not get on is given up, and the error names the stuck parts.

use rackmem_sim::chip::Chip;
use rackmem_sim::chip::message::VNET_FORWARD;
use rackmem_sim::run::{Options, Rack, RunError, Watchdog, run};

use super::machines::machine;

const SMALL: &str = "tiles.columns=4 tiles.rows=4 memory.controllers=4 llc.size_bytes=1M \
    workload.footprint_bytes=1M workload.kind=sync-read run.watchdog_cycles=20000";

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
}

#[test]
fn homes_without_room() {
    for placement in ["edge", "split"] {
        let mut machine = machine(&[SMALL, &format!("ni.placement={placement}")]);
        // No file can say this.
        machine.llc.transactions = 0;
        let error = run(&machine, &Options::default()).unwrap_err();
        let RunError::Stuck(text) = error else { panic!("{error}") };
        contains(
            &text,
            &[
                "no progress for 2",
                "run.watchdog_cycles = 20000",
                "in cycle 2",
                "GetRO block 0x",
                "for home[",
                "sent in cycle ",
                "core[0]:",
            ],
        );
    }
}

#[test]
fn a_cable_that_is_cut() {
    for placement in ["edge", "per-tile", "split", "numa"] {
        let machine = machine(&[SMALL, &format!("ni.placement={placement}")]);
        let mut mirror = Rack::mirrored(&machine).expect("a chip");
        let mut watchdog = Watchdog::new(&machine, mirror.first().wires.now);
        let chip = mirror.first();
        chip.tiles[5].core.start(0, 3, &mut chip.wires);
        while let Some(next) = mirror.first().next_cycle() {
            mirror.first().cycle(next);
            mirror.first().wires.departures.clear();
        }
        let now = mirror.first().wires.now;
        let error = mirror.step(&mut watchdog).unwrap_err();
        let RunError::Stuck(text) = error else { panic!("{error}") };
        let since = format!("everything waits since cycle {now}\n");
        contains(
            &text,
            &[&since, &format!("in cycle {now}:\n"), "core[5]: ", " operations under way"],
        );
        match placement {
            "numa" => {}
            "per-tile" => contains(&text, &["rmc[5]: 1 transfers"]),
            _ => contains(&text, &["rmc[1]: 1 transfers"]),
        }
    }
}

/// Takes a forward of a home out of the network, if one is just arriving.
fn lose_a_forward(chip: &mut Chip) -> bool {
    let net = &mut chip.wires.net;
    let Some(event) = net.next_event() else { return false };
    if net.now() < event {
        net.skip_to(event);
    }
    // Ahead of the chip, which would take it at once.
    net.tick();
    let mut endpoints = 0..net.endpoints() as u16;
    endpoints.any(|endpoint| net.take(endpoint, VNET_FORWARD).is_some())
}

#[test]
fn a_message_that_is_lost() {
    let machine = machine(&[SMALL, "ni.placement=edge"]);
    let mut mirror = Rack::mirrored(&machine).expect("a chip");
    let mut watchdog = Watchdog::new(&machine, mirror.first().wires.now);
    let chip = mirror.first();
    chip.tiles[0].core.start(0, 1000, &mut chip.wires);
    let mut lost = false;
    while let Some(next) = mirror.first().next_cycle() {
        lost = lost || next > 2000 && lose_a_forward(mirror.first());
        mirror.advance(next, next);
        assert!(mirror.first().wires.now < 100_000, "it goes on without the message");
    }
    let RunError::Stuck(text) = mirror.step(&mut watchdog).unwrap_err() else { panic!() };
    contains(&text, &["everything waits since", "home[", "block 0x", "Some(Unblock", "core[0]: "]);
}

#[test]
fn nothing_is_left_of_a_run_that_ends() {
    for placement in ["edge", "per-tile", "split", "numa"] {
        let machine = machine(&[SMALL, &format!("ni.placement={placement}")]);
        let mut mirror = Rack::mirrored(&machine).expect("a chip");
        let mut watchdog = Watchdog::new(&machine, mirror.first().wires.now);
        let chip = mirror.first();
        chip.tiles[7].core.start(3, 5, &mut chip.wires);
        while mirror.step(&mut watchdog).is_ok() {}
        let chip = mirror.first();
        assert!(chip.tiles[7].core.is_done());
        assert_eq!(chip.tiles[7].core.take_latencies().len(), 5);
        assert_eq!(chip.left(), Vec::<String>::new(), "{placement}");
        assert!(chip.wires.letters.is_empty() && chip.wires.net.is_idle());
    }
}
