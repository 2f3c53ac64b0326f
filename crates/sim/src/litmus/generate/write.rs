//! From a shape and its links to the text of a test.

use std::fmt::Write as _;

use super::link::{Between, Link, Made};
use super::shape::{Access, Shape};

const LOCATIONS: [&str; 3] = ["x", "y", "z"];

/// The first register that a thread uses.
const FIRST: usize = 5;

/// A column that is being written.
struct Column {
    thread: usize,
    next: usize,
    initial: String,
    lines: Vec<String>,
    conditions: Vec<String>,
    /// Registers that are shown, and not part of the condition.
    shown: Vec<String>,
    labels: usize,
}

impl Column {
    fn register(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// A register with a value from the start.
    fn holding(&mut self, value: &str) -> usize {
        let register = self.register();
        let _ = write!(self.initial, "{}:x{register}={value}; ", self.thread);
        register
    }

    fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    fn condition(&mut self, register: usize, value: u32) {
        self.conditions.push(format!("{}:x{register}={value}", self.thread));
    }

    /// A register that is zero and depends on another one.
    fn zero_from(&mut self, register: usize) -> usize {
        let zero = self.register();
        self.line(format!("xor x{zero},x{register},x{register}"));
        zero
    }

    /// What stands before an access: the registers of its address and, if it depends, of its value.
    fn between(
        &mut self,
        between: Between,
        result: usize,
        address: usize,
        value: Option<u32>,
    ) -> (usize, Option<usize>) {
        match between {
            Between::Nothing => {}
            Between::Fence(fence) => self.line(fence.to_owned()),
            Between::Address => {
                let (zero, sum) = (self.zero_from(result), self.register());
                self.line(format!("add x{sum},x{zero},x{address}"));
                return (sum, None);
            }
            Between::Data => {
                let (zero, data) = (self.zero_from(result), self.register());
                self.line(format!("ori x{data},x{zero},{}", value.unwrap_or(0)));
                return (address, Some(data));
            }
            Between::Control(fence) => {
                let label = self.labels;
                self.labels += 1;
                self.line(format!("bne x{result},x0,LC{label}"));
                self.line(format!("LC{label}:"));
                if !fence.is_empty() {
                    self.line(fence.to_owned());
                }
            }
        }
        (address, None)
    }

    /// One access; the register with what it loads.
    fn access(&mut self, access: Access, made: Made, before: Between, result: usize) -> usize {
        let (Access::Read(name, value) | Access::Write(name, value)) = access;
        let location = self.holding(LOCATIONS[name]);
        if let Access::Read(..) = access {
            let (at, _) = self.between(before, result, location, None);
            let loaded = self.register();
            self.line(match made {
                Made::Plain => format!("lw x{loaded},0(x{at})"),
                Made::Amo(order) => format!("amoor.w{order} x{loaded},x0,(x{at})"),
                Made::Reserved(order) => format!("lr.w{order} x{loaded},(x{at})"),
            });
            self.condition(loaded, value);
            return loaded;
        }
        let (at, data) = self.between(before, result, location, Some(value));
        let data = data.unwrap_or_else(|| self.holding(&value.to_string()));
        match made {
            Made::Plain => self.line(format!("sw x{data},0(x{at})")),
            Made::Amo(order) => self.line(format!("amoswap.w{order} x0,x{data},(x{at})")),
            Made::Reserved(order) => {
                let (old, failed) = (self.register(), self.register());
                self.line(format!("lr.w x{old},(x{at})"));
                self.line(format!("sc.w{order} x{failed},x{data},(x{at})"));
                self.condition(failed, 0);
                self.shown.push(format!("{}:x{old};", self.thread));
            }
        }
        0
    }
}

fn column(thread: usize, accesses: &[Access], links: &[Link]) -> Column {
    let mut column = Column {
        thread,
        next: FIRST,
        initial: String::new(),
        lines: Vec::new(),
        conditions: Vec::new(),
        shown: Vec::new(),
        labels: 0,
    };
    let mut result = 0;
    for (number, &access) in accesses.iter().enumerate() {
        let before = number.checked_sub(1).map(|number| links[number]);
        let after = links.get(number);
        let by_last = before.map_or(Made::Plain, |link| link.second);
        let made = match after {
            Some(link) if by_last == Made::Plain => link.first,
            _ => by_last,
        };
        let between = before.map_or(Between::Nothing, |link| link.between);
        result = column.access(access, made, between, result);
    }
    column
}

/// The text of a test.
pub(super) fn test(name: &str, shape: &Shape, links: &[Vec<Link>]) -> String {
    let columns: Vec<Column> = shape
        .threads
        .iter()
        .zip(links)
        .enumerate()
        .map(|(thread, (accesses, links))| column(thread, accesses, links))
        .collect();
    let mut text = format!("RISCV {name}\n{{\n");
    for column in &columns {
        let _ = writeln!(text, "{}", column.initial.trim_end());
    }
    text += "}\n";
    text += &rows(&columns);
    let used = LOCATIONS.iter().enumerate().filter(|(number, _)| {
        let mut accesses = shape.threads.iter().flatten();
        accesses.any(|(Access::Read(name, _) | Access::Write(name, _))| name == number)
    });
    let used = used.map(|(_, name)| format!("{name};"));
    let used: Vec<String> =
        used.chain(columns.iter().flat_map(|column| column.shown.clone())).collect();
    let registers = columns.iter().flat_map(|column| column.conditions.clone());
    let last = shape.last.iter().map(|(name, value)| format!("[{}]={value}", LOCATIONS[*name]));
    let condition: Vec<String> = registers.chain(last).collect();
    let _ = write!(text, "locations [{}]\nexists ({})\n", used.join(" "), condition.join(" /\\ "));
    text
}

/// The columns, side by side.
fn rows(columns: &[Column]) -> String {
    let cells = |column: &Column| -> Vec<String> {
        let head = format!("P{}", column.thread);
        std::iter::once(head).chain(column.lines.iter().cloned()).collect()
    };
    let cells: Vec<Vec<String>> = columns.iter().map(cells).collect();
    let widths = cells.iter().map(|column| column.iter().map(String::len).max().unwrap_or(0));
    let widths: Vec<usize> = widths.collect();
    let mut text = String::new();
    for row in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
        let cell = |(column, &width): (&Vec<String>, &usize)| {
            format!(" {:width$} ", column.get(row).map_or("", String::as_str))
        };
        let line: Vec<String> = cells.iter().zip(&widths).map(cell).collect();
        text += &format!("{};\n", line.join("|"));
    }
    text
}
