//! The form of herd's tests for RISC-V.
//!
//! ```text
//! RISCV MP+fence.w.w+po
//! "Two stores in order, two loads in any"
//! { 0:x5=x; 0:x6=y; 0:x7=1; 1:x5=x; 1:x6=y; }
//!  P0           | P1           ;
//!  sw x7,0(x5)  | lw x8,0(x6)  ;
//!  fence w,w    | lw x9,0(x5)  ;
//!  sw x7,0(x6)  |              ;
//! exists (1:x8=1 /\ 1:x9=0)
//! ```
//!
//! Not taken: declarations of arrays, accesses of bytes and half words, and tests with accesses of
//! several sizes.

mod condition;
mod instruction;
mod tokens;

use std::collections::HashMap;

use self::condition::{End, is_location};
use self::instruction::instruction;
use self::tokens::{Tokens, number};
use super::test::{Location, ParseError, Step, Test, Thread, Value};

type Result<T> = std::result::Result<T, ParseError>;

/// Most threads of a test.
pub const THREADS: usize = 8;

/// Most instructions of a thread.
pub const STEPS: usize = 200;

/// Names that a test has declared.
#[derive(Debug, Default)]
struct Names {
    locations: Vec<Location>,
    threads: usize,
}

/// Parses a test; `file` is named in errors.
///
/// # Errors
/// It is no such test.
pub fn parse(file: &str, text: &str) -> Result<Test> {
    let text = without_comments(text);
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    let end = text.lines().count();
    let name = heading(file, &mut lines, end)?;
    let (mut names, registers) = initial(file, &mut lines, end)?;
    let mut body = Body::new(file, registers);
    let mut rest = Tokens::new(file, end);
    while let Some((line, text)) = lines.next() {
        if begins_end(text) {
            rest.add(line, text);
            lines.by_ref().for_each(|(line, text)| rest.add(line, text));
        } else if !text.trim().is_empty() {
            body.row(line, text)?;
        }
    }
    let (threads, bytes) = body.finish(end)?;
    names.threads = threads.len();
    let mut parts = End { names: &names, observed: Vec::new() };
    let condition = parts.parse(&mut rest)?;
    let observed = parts.observed;
    Ok(Test { name, locations: names.locations, threads, bytes, observed, condition })
}

/// The text with blanks in place of `(* ... *)`.
fn without_comments(text: &str) -> String {
    let mut depth = 0;
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (length, shown) = if rest.starts_with("(*") {
            depth += 1;
            (2, false)
        } else if depth > 0 && rest.starts_with("*)") {
            depth -= 1;
            (2, false)
        } else {
            (c.len_utf8(), depth == 0 || c == '\n')
        };
        result.push_str(if shown { &rest[..length] } else { " " });
        rest = &rest[length..];
    }
    result
}

fn begins_end(text: &str) -> bool {
    let text = text.trim_start();
    ["exists", "~", "forall", "locations"].iter().any(|word| text.starts_with(word))
}

fn failure(file: &str, line: usize, expected: &str, found: &str) -> ParseError {
    let found = if found.is_empty() { "nothing more".into() } else { format!("`{found}`") };
    ParseError { file: file.to_owned(), line, expected: expected.to_owned(), found }
}

fn heading<'t>(
    file: &str,
    lines: &mut impl Iterator<Item = (usize, &'t str)>,
    end: usize,
) -> Result<String> {
    let first = lines.find(|(_, text)| !text.trim().is_empty());
    let (line, text) = first.unwrap_or((end, ""));
    let (architecture, name) = text.trim().split_once(char::is_whitespace).unwrap_or_default();
    let is_test = architecture == "RISCV" && !name.trim().is_empty();
    let expected = "RISCV and the name of the test";
    is_test
        .then(|| name.trim().to_owned())
        .ok_or_else(|| failure(file, line, expected, text.trim()))
}

/// Registers at the start, by thread.
type Registers = HashMap<usize, Vec<(u8, Value)>>;

/// Comments and keys, and the values at the start.
fn initial<'t>(
    file: &'t str,
    lines: &mut impl Iterator<Item = (usize, &'t str)>,
    end: usize,
) -> Result<(Names, Registers)> {
    let mut tokens = Tokens::new(file, end);
    loop {
        let (line, text) = lines.next().unwrap_or((end, ""));
        let trimmed = text.trim();
        if let Some(rest) = trimmed.strip_prefix('{') {
            let (rest, is_whole) = up_to_brace(rest);
            tokens.add(line, rest);
            if is_whole {
                break;
            }
            for (line, text) in lines.by_ref() {
                let (text, is_last) = up_to_brace(text);
                tokens.add(line, text);
                if is_last {
                    break;
                }
            }
            break;
        }
        let is_skipped = trimmed.is_empty() || trimmed.starts_with('"') || trimmed.contains('=');
        if !is_skipped || line == end {
            let expected =
                "a comment in quotes, a line KEY=VALUE, or `{` with the values at the start";
            return Err(failure(file, line, expected, trimmed));
        }
    }
    declarations(tokens)
}

fn up_to_brace(text: &str) -> (&str, bool) {
    text.split_once('}').map_or((text, false), |(before, _)| (before, true))
}

fn declarations(tokens: Tokens) -> Result<(Names, Registers)> {
    // First the locations, as registers may name them before they are declared.
    let mut names = Names::default();
    let mut registers = Registers::new();
    let mut first = tokens.clone();
    declare(&mut first, &mut names)?;
    let mut tokens = tokens;
    while tokens.peek().is_some() {
        item(&mut tokens, &mut names, &mut registers)?;
        if !tokens.take(";") && tokens.peek().is_some() {
            return Err(tokens.fail("`;` or `}`"));
        }
    }
    Ok((names, registers))
}

/// Notes all names that are locations.
fn declare(tokens: &mut Tokens, names: &mut Names) -> Result<()> {
    while let Some(word) = tokens.peek() {
        let is_type = tokens
            .second()
            .is_some_and(|next| is_location(next) || number(next).is_some() || next == "*");
        if is_location(word) && !is_type && names.place(tokens).is_none() {
            let location = Location { name: word.to_owned(), value: Value::Number(0) };
            names.locations.push(location);
        }
        tokens.skip();
    }
    Ok(())
}

/// One item: a register or a location, and its value.
fn item(tokens: &mut Tokens, names: &mut Names, registers: &mut Registers) -> Result<()> {
    // The type, which says nothing that accesses do not say.
    if tokens.peek().is_some_and(is_location) && names.place(tokens).is_none() {
        tokens.skip();
        tokens.take("*");
    }
    if let Some(thread) = tokens.peek().and_then(number) {
        let thread = usize::try_from(thread).ok().filter(|thread| *thread < THREADS);
        let thread = thread.ok_or_else(|| tokens.fail(&format!("a thread below {THREADS}")))?;
        tokens.skip();
        tokens.expect(":")?;
        let register = tokens.register()? as u8;
        let value = if tokens.take("=") { names.value(tokens)? } else { Value::Number(0) };
        registers.entry(thread).or_default().push((register, value));
        return Ok(());
    }
    let in_brackets = tokens.take("[");
    let expected = "a register such as 0:x5, or the name of a location";
    let place = names.place(tokens).ok_or_else(|| tokens.fail(expected))?;
    tokens.skip();
    if in_brackets {
        tokens.expect("]")?;
    }
    if tokens.take("=") {
        names.locations[place].value = names.value(tokens)?;
    }
    Ok(())
}

/// The columns so far.
struct Body<'t> {
    file: &'t str,
    registers: Registers,
    threads: Vec<Thread>,
    /// By thread: labels and the steps behind them.
    labels: Vec<HashMap<&'t str, usize>>,
    /// Branches: thread, step, label and line.
    branches: Vec<(usize, usize, &'t str, usize)>,
    bytes: Option<u8>,
}

impl<'t> Body<'t> {
    fn new(file: &'t str, registers: Registers) -> Body<'t> {
        let (threads, labels, branches) = (Vec::new(), Vec::new(), Vec::new());
        Body { file, registers, threads, labels, branches, bytes: None }
    }

    /// One line of the columns.
    fn row(&mut self, line: usize, text: &'t str) -> Result<()> {
        let Some(text) = text.trim().strip_suffix(';') else {
            return Err(failure(self.file, line, "`;` at the end of the line", text.trim()));
        };
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        if self.threads.is_empty() {
            return self.heads(line, &cells);
        }
        if cells.len() != self.threads.len() {
            let expected = format!("{} columns", self.threads.len());
            return Err(failure(self.file, line, &expected, text.trim()));
        }
        for (thread, cell) in cells.into_iter().enumerate() {
            self.cell(line, thread, cell)?;
        }
        Ok(())
    }

    fn heads(&mut self, line: usize, cells: &[&str]) -> Result<()> {
        for (thread, cell) in cells.iter().enumerate() {
            if *cell != format!("P{thread}") || thread >= THREADS {
                let expected = format!("columns from P0 to P{} at most", THREADS - 1);
                return Err(failure(self.file, line, &expected, cell));
            }
            let registers = self.registers.remove(&thread).unwrap_or_default();
            self.threads.push(Thread { registers, steps: Vec::new() });
            self.labels.push(HashMap::new());
        }
        match self.registers.keys().min() {
            None => Ok(()),
            Some(thread) => {
                Err(failure(self.file, line, &format!("a column P{thread}"), &cells.join("|")))
            }
        }
    }

    fn cell(&mut self, line: usize, thread: usize, mut cell: &'t str) -> Result<()> {
        let here = self.threads[thread].steps.len();
        while let Some((label, rest)) = cell.split_once(':') {
            let label = label.trim();
            if self.labels[thread].insert(label, here).is_some() {
                return Err(failure(self.file, line, "a label that is not there yet", label));
            }
            cell = rest.trim();
        }
        if cell.is_empty() {
            return Ok(());
        }
        let encoded = instruction(&mut Tokens::of_line(self.file, line, cell))?;
        if encoded.bytes != 0 && *self.bytes.get_or_insert(encoded.bytes) != encoded.bytes {
            let all = if encoded.bytes == 8 { 4 } else { 8 };
            let expected = format!("an access of {all} bytes, like those before");
            return Err(failure(self.file, line, &expected, cell));
        }
        if let Some(label) = encoded.label {
            self.branches.push((thread, here, label, line));
        }
        if here + encoded.words.len() > STEPS {
            return Err(failure(self.file, line, &format!("{STEPS} instructions at most"), cell));
        }
        let steps = encoded.words.into_iter().map(|word| Step { word, target: None });
        self.threads[thread].steps.extend(steps);
        Ok(())
    }

    /// The threads, with branches to their labels, and the size of accesses.
    fn finish(mut self, end: usize) -> Result<(Vec<Thread>, u8)> {
        if self.threads.is_empty() {
            return Err(failure(self.file, end, "columns P0 | P1 ... ;", ""));
        }
        for (thread, step, label, line) in self.branches {
            let Some(&target) = self.labels[thread].get(label) else {
                return Err(failure(self.file, line, "a label of this column", label));
            };
            self.threads[thread].steps[step].target = Some(target);
        }
        Ok((self.threads, self.bytes.unwrap_or(4)))
    }
}
