//! `rackmem top`: the activity of a rack, on a terminal or in a browser.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::Args;
use rackmem::rack::Rack;
use rackmem_fabric::socket::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::console::{self, Align, Table, count};
use crate::failure::{Failure, Result};
use crate::http::Endpoint;
use crate::interrupt::Interrupt;
use crate::live::measure::{Lender, Measurement, lenders, look, measure, total};
use crate::live::{self, Lenders};
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
    /// Serve a page for a browser of this host that follows, until Ctrl-C
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, conflicts_with = "once",
        default_missing_value = "127.0.0.1:0")]
    pub web: Option<Endpoint>,
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

/// Measures until asked to end, or once.
///
/// # Errors
/// There is no such rack, or the output cannot be written.
pub fn run(choice: &Choice, args: &TopArgs) -> Result<()> {
    let (rack, _) = choice.existing()?;
    let interrupt = Interrupt::catch()?;
    if let Some(endpoint) = args.web {
        return live::serve(&rack, args.interval, endpoint, &interrupt);
    }
    if args.once || !io::stdout().is_terminal() {
        return once(&rack, args, &interrupt);
    }
    watch(&rack, args.interval, &interrupt)
}

fn once(rack: &Rack, args: &TopArgs, interrupt: &Interrupt) -> Result<()> {
    let before = look(rack)?;
    interrupt.sleep(args.interval)?;
    let measurement = measure(rack.name(), &before, &look(rack)?, lenders(rack));
    match args.json {
        true => console::print_json(&measurement),
        false => console::print(&render(&measurement)),
    }
}

fn watch(rack: &Rack, interval: Duration, interrupt: &Interrupt) -> Result<()> {
    let mut before = look(rack)?;
    let lenders = Lenders::watch(rack, interval)?;
    let screen = Screen::enter()?;
    screen.draw(&format!("rack '{}': measuring\n", rack.name()))?;
    while !screen.wait_for_end(interval, interrupt) {
        let after = look(rack)?;
        let measurement = measure(rack.name(), &before, &after, lenders.latest());
        screen.draw(&render(&measurement))?;
        before = after;
    }
    Ok(())
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
        "rack '{}': {}, {} ops/s, {}/s, over {:.1} s\n\n{}{}",
        measurement.rack,
        count(measurement.nodes.len(), "node"),
        size::rounded(ops_total.round()),
        bytes(bytes_total),
        measurement.seconds,
        table.render(),
        measurement.lenders.as_deref().map(lent).unwrap_or_default()
    )
}

/// A line about lent memory.
fn lent(lenders: &[Lender]) -> String {
    let sum = |of: fn(&Lender) -> u64| lenders.iter().map(of).sum();
    format!(
        "\nlent: {} of {}, in {} of {}\n",
        size::exact(sum(|lender| lender.leased_bytes)),
        size::exact(sum(|lender| lender.size_bytes)),
        count(lenders.iter().map(|lender| lender.leases).sum(), "lease"),
        count(lenders.len(), "lender")
    )
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
            let timeout = timespec(left);
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
    use super::*;
    use crate::live::measure::node_rates;
    use crate::live::measure::tests::node;

    #[test]
    fn the_table_lists_nodes_and_their_queue_pairs() {
        let nodes = vec![node_rates(0, None, Some(&node(9, 2000)), 1.0)];
        let lender = Lender {
            name: "store".to_owned(),
            size_bytes: 1 << 30,
            leased_bytes: 1 << 29,
            free_bytes: 1 << 29,
            leases: 2,
            is_leaving: false,
        };
        let (rack, lenders) = ("r".to_owned(), Some(vec![lender]));
        let text = render(&Measurement { rack, unix_seconds: 0.0, seconds: 1.0, nodes, lenders });
        assert!(text.ends_with("\nlent: 512 MiB of 1 GiB, in 2 leases of 1 lender\n"), "{text}");
        assert!(text.starts_with("rack 'r': 1 node, 2.00 k ops/s, 125 KiB/s, over 1.0 s\n"));
        assert!(text.contains("daemon"), "{text}");
        assert!(text.contains("3/64"), "{text}");
    }
}
