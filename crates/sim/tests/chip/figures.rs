//! The messages of a read, in their order (Manycore NI, Fig. 2).

use rackmem_sim::chip::layout::Layout;
use rackmem_sim::machine::Machine;
use rackmem_sim::report::{Report, TraceEvent};
use rackmem_sim::run::{Options, run};

use super::machines::machine;

/// A core in the middle of the chip, whose queues have homes all over it.
const CORE: u16 = 27;

/// A run, and the events of the first so many measured reads.
fn traced(settings: &str, reads: u32) -> (Machine, Report) {
    let core = format!("workload.first_core={CORE} workload.cores=1");
    let bytes = "workload.kind=sync-read workload.transfer_bytes=64 run.reads=16";
    let machine = machine(&[bytes, &core, settings]);
    let options = Options { trace: (0, u64::MAX), progress: None };
    let mut report = run(&machine, &options).expect("a run");
    let first = u64::from(machine.workload.warmup_reads);
    let wanted = first..first + u64::from(reads);
    report
        .trace
        .events
        .retain(|event| event.transaction.is_some_and(|(_, read)| wanted.contains(&read)));
    (machine, report)
}

/// Messages about a block, in the order in which they were sent.
fn about(report: &Report, read: u64, line: u64) -> Vec<&TraceEvent> {
    let block = format!(" block {line:#x} ");
    let events = report.trace.events.iter();
    let wanted = |event: &&TraceEvent| {
        event.transaction == Some((CORE, read)) && event.what.contains(&block)
    };
    events.filter(wanted).collect()
}

/// A message: its name, sender and receiver.
type Sent<'a> = (&'a str, &'a str, &'a str);

/// Finds messages and checks that they come as the paper's arrows do: each is sent when the one
/// that causes it has arrived, or later.
struct Sequence<'a> {
    events: Vec<&'a TraceEvent>,
    line: u64,
}

impl Sequence<'_> {
    fn find(&self, (name, from, to): Sent<'_>) -> &TraceEvent {
        let what = format!("{name} block {:#x} {from} -> {to}", self.line);
        let mut found = self.events.iter().filter(|event| event.what == what);
        let event = found.next().unwrap_or_else(|| panic!("no '{what}' in {:#?}", self.events));
        assert!(found.next().is_none(), "'{what}' twice");
        event
    }

    fn causes(&self, cause: Sent<'_>, effect: Sent<'_>) {
        let (first, then) = (self.find(cause), self.find(effect));
        let arrival = first.cycle + first.duration_cycles;
        assert!(first.duration_cycles > 0 && then.cycle >= arrival, "{first:?}, {then:?}");
    }
}

/// Fig. 2a: `a` writes a block that `b` has shared.
fn write_shared(sequence: &Sequence<'_>, a: &str, home: &str, b: &str) {
    let get = ("GetX", a, home);
    let data = ("Data+MissNotify", home, a);
    let (inv, inv_ack) = (("Inv", home, b), ("InvACK", b, a));
    let ack = ("Ack", a, home);
    sequence.causes(get, inv);
    sequence.causes(get, data);
    assert_eq!(sequence.find(inv).cycle, sequence.find(data).cycle, "concurrently");
    sequence.causes(inv, inv_ack);
    sequence.causes(inv_ack, ack);
    sequence.causes(data, ack);
}

/// Fig. 2b: `a` reads a block that `b` has modified.
fn read_modified(sequence: &Sequence<'_>, a: &str, home: &str, b: &str) {
    let get = ("GetRO", a, home);
    let forward = ("FwdGetRO", home, b);
    let data = ("Data", b, a);
    sequence.causes(get, forward);
    sequence.causes(forward, data);
    sequence.causes(data, ("Ack with block", a, home));
}

#[test]
fn edge_placement_does_what_figure_2_shows() {
    let (machine, report) = traced("ni.placement=edge", 6);
    let layout = Layout::new(&machine);
    let (core, ni) = (format!("tile[{CORE}]"), format!("ni_cache[{}]", layout.unit_of_tile(CORE)));
    let reads: Vec<u64> = report
        .trace
        .events
        .iter()
        .filter(|event| event.what == "remote read")
        .filter_map(|event| Some(event.transaction?.1))
        .collect();
    assert_eq!(reads.len(), 6);
    for read in reads {
        let slot = read as u32 % machine.ni.wq_entries;
        let on = |line| {
            let home = format!("home[{}]", layout.home_of(line));
            (Sequence { events: about(&report, read, line), line }, home)
        };
        let (wq, home) = on(layout.wq_line(CORE, slot));
        write_shared(&wq, &core, &home, &ni);
        read_modified(&wq, &ni, &home, &core);
        // Nothing else is said about it: the home is asked twice.
        assert_eq!(wq.events.len(), 5 + 4, "{:#?}", wq.events);
        let (cq, home) = on(layout.cq_line(CORE, slot));
        write_shared(&cq, &ni, &home, &core);
        read_modified(&cq, &core, &home, &ni);
        assert_eq!(cq.events.len(), 5 + 4, "{:#?}", cq.events);
        // The core publishes the entry before the NI sees it, and the CQ is written last.
        let resumed = wq.find(("Ack", &core, &home_of(&layout, wq.line)));
        let seen = wq.find(("Data", &core, &ni));
        let written = cq.find(("GetX", &ni, &home));
        assert!(resumed.cycle <= seen.cycle && seen.cycle < written.cycle);
    }
}

fn home_of(layout: &Layout, line: u64) -> String {
    format!("home[{}]", layout.home_of(line))
}

/// Messages about blocks of the queues that cross the network.
fn queue_messages(machine: &Machine, report: &Report) -> Vec<String> {
    let layout = Layout::new(machine);
    let is_queue = |event: &&TraceEvent| {
        let block = event.what.split("block 0x").nth(1);
        let line = block.map(|rest| rest.split(' ').next().unwrap_or_default());
        let line = line.and_then(|line| u64::from_str_radix(line, 16).ok());
        line.is_some_and(|line| line < layout.queue_lines()) && event.what.contains("home[")
    };
    report.trace.events.iter().filter(is_queue).map(|event| event.what.clone()).collect()
}

#[test]
fn queue_blocks_stay_in_their_tile() {
    for placement in ["split", "per-tile"] {
        let placement = format!("ni.placement={placement}");
        let (machine, report) = traced(&placement, 16);
        assert_eq!(queue_messages(&machine, &report), Vec::<String>::new(), "{placement}");
        // More reads make no more messages.
        let (_, more) = traced(&format!("{placement} run.reads=200"), 0);
        for stat in ["home.messages_wq", "home.messages_cq", "home.requests_queues"] {
            assert_eq!(report.stat(stat), more.stat(stat), "{placement}: {stat}");
        }
    }
    // A cache of its own in the tile does not spare them (3.4), nor does one without owned state.
    for settings in ["ni.placement=split ni.cache=separate", "ni.owned_state=false"] {
        let (machine, report) = traced(settings, 16);
        assert!(queue_messages(&machine, &report).len() >= 16 * 2, "{settings}");
    }
}
