//! Output to the terminal: results to stdout, remarks and complaints to stderr.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::failure::{Failure, Result};

/// Exit status of a command whose reader went away: as if SIGPIPE had ended it.
const READER_GONE: u8 = 128 + 13;

/// Writes text to stdout.
///
/// # Errors
/// The output cannot be written; silently if its reader has gone, as with `| head`.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(output_failed)
}

/// Writes a value to stdout as JSON.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    print(&(text + "\n"))
}

/// The failure that a failed write to stdout means.
pub fn output_failed(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::silent(READER_GONE),
        _ => Failure::io("cannot write the output", error),
    }
}

/// Whether this is the status of a program that `SIGPIPE` has ended, and nobody reads stdout any more: as a shell, the
/// command then says nothing of it.
pub fn has_lost_reader(status: u8) -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    status == READER_GONE
        && poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Says something that is neither a result nor a failure.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "rackmem: {text}");
}

/// Says what failed.
pub fn complain(text: &str) {
    let bold_red = |text| paint(text, "1;31", colour(&io::stderr()));
    let _ = writeln!(io::stderr(), "{} {text}", bold_red("rackmem:"));
}

/// Nodes in words, with ranges: `nodes 0 to 3, 7`.
pub fn nodes(nids: &[u16]) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for &nid in nids {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == nid => *last = nid,
            _ => ranges.push((nid, nid)),
        }
    }
    let text = |&(first, last): &(u16, u16)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    let all: Vec<String> = ranges.iter().map(text).collect();
    format!("{} {}", if nids.len() == 1 { "node" } else { "nodes" }, all.join(", "))
}

/// A spinner for waits of unknown length; shown on a terminal only.
pub fn spinner() -> ProgressBar {
    animated(ProgressBar::new_spinner(), "{spinner} {msg}")
}

/// A bar of so many steps; shown on a terminal only.
pub fn steps(count: u64) -> ProgressBar {
    animated(ProgressBar::new(count), "{spinner} [{bar:24}] {pos} of {len}, {eta} left: {msg}")
}

fn animated(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar.with_finish(ProgressFinish::AndClear)
}

/// Whether a stream takes colours: a terminal whose user has not set `NO_COLOR`.
pub fn colour(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !set("NO_COLOR") && !dumb
}

/// The text in the colour of this SGR code, if colours are wanted.
pub fn paint(text: &str, code: &str, wanted: bool) -> String {
    if wanted { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A number of things: `1 node`, `4 nodes`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Alignment of a table's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a header, as wide as their contents.
#[derive(Clone, Debug)]
pub struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table {
            align: columns.iter().map(|&(_, align)| align).collect(),
            rows: vec![columns.iter().map(|&(name, _)| name.to_owned()).collect()],
        }
    }

    /// Adds a row; cells that are missing stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().collect();
        row.resize(self.align.len(), String::new());
        self.rows.push(row);
    }

    /// Leaves out columns that have nothing but a header.
    pub fn without_empty(mut self) -> Table {
        let is_used = |column: usize| self.rows[1..].iter().any(|row| !row[column].is_empty());
        let used: Vec<bool> = (0..self.align.len()).map(is_used).collect();
        let mut column = used.iter();
        self.align.retain(|_| column.next() == Some(&true));
        for row in &mut self.rows {
            let mut column = used.iter();
            row.retain(|_| column.next() == Some(&true));
        }
        self
    }

    /// The lines, header first.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        self.rows.iter().map(move |row| {
            let cells = row.iter().zip(&self.align).zip(&widths);
            let padded = cells.map(|((cell, align), &width)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
    }

    /// All lines, each ended.
    pub fn render(&self) -> String {
        self.lines().map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_by_ranges() {
        assert_eq!(nodes(&[3]), "node 3");
        assert_eq!(nodes(&[0, 1, 4]), "nodes 0, 1, 4");
        assert_eq!(nodes(&[0, 1, 2, 7, 9, 10, 11]), "nodes 0 to 2, 7, 9 to 11");
    }

    #[test]
    fn columns_are_as_wide_as_their_contents() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.row(["a".to_owned(), "100".to_owned()]);
        table.row(["longer".to_owned()]);
        assert_eq!(table.render(), "name      n\na       100\nlonger\n");
    }
}
