//! `rackmem top`: the activity of a rack, from two looks at its counters.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::Args;
use rackmem::control;
use rackmem::rack::Rack;
use rackmem::status::{NodeStatus, QpStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde::Serialize;

use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::console::{self, Align, Table, count};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::rackctl::hosts;
use crate::size;

/// Arguments of `rackmem top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Time between two measurements
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Measure once and end
    #[arg(long)]
    pub once: bool,
    /// Print JSON
    #[arg(long, requires = "once")]
    pub json: bool,
}

fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds from 0.05 to 3600".to_owned()),
    }
}

/// Moves to the first line.
const HOME: &str = "\x1b[H";
/// To a second screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// All counters at one moment.
struct Look {
    at: Instant,
    nodes: Vec<(u16, Option<NodeStatus>)>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Measurement {
    rack: String,
    seconds: f64,
    nodes: Vec<NodeRates>,
}

/// A node in a measurement.
#[derive(Debug, PartialEq, Serialize)]
struct NodeRates {
    nid: u16,
    answers: bool,
    ops_per_second: f64,
    bytes_per_second: f64,
    errors: u64,
    served_packets_per_second: f64,
    qps: Vec<QpRates>,
}

/// A queue pair in a measurement.
#[derive(Debug, PartialEq, Serialize)]
struct QpRates {
    pid: u32,
    qp: u32,
    ctx_id: u16,
    progress: &'static str,
    ops_per_second: f64,
    bytes_per_second: f64,
    ops: u64,
    bytes: u64,
    errors: u64,
    outstanding: u32,
    entries: u32,
}

/// Measures until asked to end, or once.
///
/// # Errors
/// There is no such rack, or the output cannot be written.
pub fn run(choice: &Choice, args: &TopArgs) -> Result<()> {
    let (rack, _) = choice.existing()?;
    let interrupt = Interrupt::catch()?;
    if args.once || !io::stdout().is_terminal() {
        return once(&rack, args, &interrupt);
    }
    watch(&rack, args.interval, &interrupt)
}

fn once(rack: &Rack, args: &TopArgs, interrupt: &Interrupt) -> Result<()> {
    let before = look(rack)?;
    interrupt.sleep(args.interval)?;
    let measurement = measure(rack.name(), &before, &look(rack)?);
    match args.json {
        true => console::print_json(&measurement),
        false => console::print(&render(&measurement)),
    }
}

fn watch(rack: &Rack, interval: Duration, interrupt: &Interrupt) -> Result<()> {
    let mut before = look(rack)?;
    let screen = Screen::enter()?;
    screen.draw(&format!("rack '{}': measuring\n", rack.name()))?;
    while !screen.wait_for_end(interval, interrupt) {
        let after = look(rack)?;
        screen.draw(&render(&measure(rack.name(), &before, &after)))?;
        before = after;
    }
    Ok(())
}

fn look(rack: &Rack) -> Result<Look> {
    let description = rack.describe()?;
    let here = hosts::nodes_here(rack, &description)?;
    let all: Vec<u16> = (0..description.nodes).collect();
    let answers = control::status_of(rack, &here, &all).into_iter().map(|node| node.ok());
    let nodes = all.iter().copied().zip(answers).collect();
    Ok(Look { at: Instant::now(), nodes })
}

fn measure(rack: &str, before: &Look, after: &Look) -> Measurement {
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let nodes = after
        .nodes
        .iter()
        .map(|(nid, node)| {
            let earlier = before.nodes.iter().find(|(earlier, _)| earlier == nid);
            let earlier = earlier.and_then(|(_, node)| node.as_ref());
            node_rates(*nid, earlier, node.as_ref(), seconds)
        })
        .collect();
    Measurement { rack: rack.to_owned(), seconds, nodes }
}

fn node_rates(
    nid: u16,
    before: Option<&NodeStatus>,
    after: Option<&NodeStatus>,
    seconds: f64,
) -> NodeRates {
    // Counters of a queue pair that is new start at zero, and so do all of a daemon that is.
    let before = before.filter(|node| Some(node.pid) == after.map(|node| node.pid));
    let earlier: HashMap<(u32, u32, u16), &QpStatus> =
        before.iter().flat_map(|node| &node.qps).map(|qp| (key(qp), qp)).collect();
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    let qps: Vec<QpRates> = after
        .iter()
        .flat_map(|node| &node.qps)
        .map(|qp| {
            let earlier = earlier.get(&key(qp));
            QpRates {
                pid: qp.pid,
                qp: qp.qp,
                ctx_id: qp.ctx_id,
                progress: qp.progress.name(),
                ops_per_second: rate(qp.ops, earlier.map_or(0, |qp| qp.ops)),
                bytes_per_second: rate(qp.bytes, earlier.map_or(0, |qp| qp.bytes)),
                ops: qp.ops,
                bytes: qp.bytes,
                errors: qp.errors,
                outstanding: qp.outstanding,
                entries: qp.entries,
            }
        })
        .collect();
    let served = |node: Option<&NodeStatus>| node.map_or(0, |node| node.served_packets);
    NodeRates {
        nid,
        answers: after.is_some(),
        ops_per_second: total(qps.iter().map(|qp| qp.ops_per_second)),
        bytes_per_second: total(qps.iter().map(|qp| qp.bytes_per_second)),
        errors: qps.iter().map(|qp| qp.errors).sum(),
        served_packets_per_second: rate(served(after), served(before)),
        qps,
    }
}

fn key(qp: &QpStatus) -> (u32, u32, u16) {
    (qp.pid, qp.qp, qp.ctx_id)
}

fn render(measurement: &Measurement) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("node", Right),
        ("process", Right),
        ("qp", Right),
        ("ctx", Right),
        ("progress", Left),
        ("ops/s", Right),
        ("bytes/s", Right),
        ("errors", Right),
        ("in flight", Right),
        ("served/s", Right),
    ]);
    let bytes = |rate: f64| size::rounded_bytes(rate);
    for node in &measurement.nodes {
        if !node.answers {
            table.row([node.nid.to_string(), "does not answer".to_owned()]);
            continue;
        }
        let outstanding: u32 = node.qps.iter().map(|qp| qp.outstanding).sum();
        let entries: u32 = node.qps.iter().map(|qp| qp.entries).sum();
        let none = String::new;
        table.row([
            node.nid.to_string(),
            none(),
            format!("all {}", node.qps.len()),
            none(),
            none(),
            size::rounded(node.ops_per_second.round()),
            bytes(node.bytes_per_second),
            node.errors.to_string(),
            format!("{outstanding}/{entries}"),
            size::rounded(node.served_packets_per_second.round()),
        ]);
        for qp in &node.qps {
            table.row([
                none(),
                qp.pid.to_string(),
                qp.qp.to_string(),
                qp.ctx_id.to_string(),
                qp.progress.to_owned(),
                size::rounded(qp.ops_per_second.round()),
                bytes(qp.bytes_per_second),
                qp.errors.to_string(),
                format!("{}/{}", qp.outstanding, qp.entries),
            ]);
        }
    }
    let ops_total = total(measurement.nodes.iter().map(|node| node.ops_per_second));
    let bytes_total = total(measurement.nodes.iter().map(|node| node.bytes_per_second));
    format!(
        "rack '{}': {}, {} ops/s, {}/s, over {:.1} s\n\n{}",
        measurement.rack,
        count(measurement.nodes.len(), "node"),
        size::rounded(ops_total.round()),
        bytes(bytes_total),
        measurement.seconds,
        table.render()
    )
}

/// A sum that starts from plain zero: that of no floating-point numbers is -0.
fn total(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |sum, rate| sum + rate)
}

/// The terminal's second screen, with keys that are not echoed; given back when dropped.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    fn enter() -> Result<Screen> {
        let stdin = io::stdin();
        // Without a terminal to read from there are no keys; Ctrl-C still ends it.
        let before = stdin.is_terminal().then(|| tcgetattr(&stdin).ok()).flatten();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(&stdin, OptionalActions::Now, &raw)
                .map_err(|errno| Failure::io("cannot set up the terminal", errno))?;
        }
        let screen = Screen { before };
        console::print(ENTER)?;
        Ok(screen)
    }

    /// Draws over the present text, cut to the terminal's size.
    fn draw(&self, text: &str) -> Result<()> {
        let (rows, columns) = match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => (24, 80),
        };
        let mut out = HOME.to_owned();
        let wanted = console::colour(&io::stdout());
        for (index, line) in text.lines().take(rows - 1).enumerate() {
            let line: String = line.chars().take(columns).collect();
            // The head of the table stands out.
            let line = if index == 2 { console::paint(&line, "1", wanted) } else { line };
            out += &line;
            out += "\x1b[K\r\n";
        }
        out += "\x1b[J";
        let footer = "q: leave";
        out += &format!("\x1b[{rows};1H{}", console::paint(footer, "2", wanted));
        console::print(&out)
    }

    /// Waits; returns whether to end: a signal, or the key q.
    fn wait_for_end(&self, interval: Duration, interrupt: &Interrupt) -> bool {
        let deadline = Instant::now() + interval;
        let stdin = io::stdin();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
            let mut fds = vec![PollFd::from_borrowed_fd(interrupt.as_fd(), PollFlags::IN)];
            if self.before.is_some() {
                fds.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            }
            let ready = poll(&mut fds, Some(&timeout));
            if interrupt.received().is_some() {
                return true;
            }
            let has_key = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
            if has_key {
                let mut key = [0];
                match rustix::io::read(&stdin, &mut key) {
                    Ok(1) if key[0] != b'q' => {}
                    _ => return true,
                }
            } else if ready == Ok(0) {
                return false;
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = io::stdout().write_all(LEAVE.as_bytes());
        let _ = io::stdout().flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use rackmem::protocol::Progress;
    use rackmem::status::Work;

    use super::*;

    fn node(pid: u32, ops: u64) -> NodeStatus {
        let qp = QpStatus {
            pid: 50,
            qp: 0,
            ctx_id: 1,
            progress: Progress::Daemon,
            entries: 64,
            ops,
            bytes: ops * 64,
            errors: 0,
            outstanding: 3,
        };
        NodeStatus {
            nid: 0,
            nodes: 1,
            pid,
            version: String::new(),
            uptime_ms: 0,
            peers_up: Vec::new(),
            contexts: Vec::new(),
            qps: vec![qp],
            total: Work::default(),
            served_packets: 0,
            served_bytes: 0,
            links: Vec::new(),
        }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let rates = node_rates(0, Some(&node(9, 100)), Some(&node(9, 300)), 2.0);
        assert_eq!((rates.ops_per_second, rates.bytes_per_second), (100.0, 6400.0));
        // The daemon is another one: its counters have started anew.
        let rates = node_rates(0, Some(&node(9, 100)), Some(&node(10, 50)), 2.0);
        assert_eq!(rates.ops_per_second, 25.0);
        let rates = node_rates(0, Some(&node(9, 100)), None, 2.0);
        assert!(!rates.answers && rates.qps.is_empty());
    }

    #[test]
    fn nothing_is_not_less_than_nothing() {
        assert_eq!(total(std::iter::empty()).to_string(), "0");
        assert_eq!(total([1.5, 2.0].into_iter()).to_string(), "3.5");
    }

    #[test]
    fn the_table_lists_nodes_and_their_queue_pairs() {
        let nodes = vec![node_rates(0, None, Some(&node(9, 2000)), 1.0)];
        let text = render(&Measurement { rack: "r".to_owned(), seconds: 1.0, nodes });
        assert!(text.starts_with("rack 'r': 1 node, 2.00 k ops/s, 125 KiB/s, over 1.0 s\n"));
        assert!(text.contains("daemon"), "{text}");
        assert!(text.contains("3/64"), "{text}");
    }
}
