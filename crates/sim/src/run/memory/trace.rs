//! Traces in the formats of DRAMsim3 (`0xADDRESS READ|WRITE CLOCK`) and Ramulator (`LD|ST ADDRESS`,
//! `ADDRESS R|W`), line by line.
//!
//! The word that says read or write may be the first or the second. If the address is first, it is hexadecimal
//! with or without `0x`; if it is second, it is decimal without `0x`: each as those programs have it. A clock may
//! follow, in all lines or in none. Empty lines and those that begin with `#` say nothing.

use std::fmt;
use std::io::{self, BufRead, Read};

use super::Access;
use crate::dram::{Kind, Tick};

/// Longest line that can be one of a trace.
const LONGEST: usize = 256;

const EXPECTED: &str = "expected ADDRESS READ|WRITE CLOCK, or LD|ST ADDRESS";

/// A line that cannot be read: file, line, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file, as it was named.
    pub name: String,
    /// Number of the line, from 1; 0 if it is about none.
    pub line: u64,
    /// The problem, and what was expected.
    pub problem: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.name, self.problem),
            line => write!(f, "{}:{line}: {}", self.name, self.problem),
        }
    }
}

impl std::error::Error for TraceError {}

/// The requests of a trace, as they are read.
#[derive(Debug)]
pub struct Trace<R> {
    input: R,
    name: String,
    size_bytes: u64,
    line: u64,
    text: Vec<u8>,
    /// Clock of the last request; `Some(None)` if it had none.
    last: Option<Option<Tick>>,
    over: bool,
}

impl<R: BufRead> Trace<R> {
    /// A trace for a memory of `size_bytes`; errors name it `name`.
    pub fn new(input: R, name: &str, size_bytes: u64) -> Trace<R> {
        let text = Vec::with_capacity(LONGEST + 1);
        Trace { input, name: name.to_owned(), size_bytes, line: 0, text, last: None, over: false }
    }

    fn read(&mut self) -> Result<Option<Access>, String> {
        loop {
            self.text.clear();
            let mut bounded = self.input.by_ref().take(LONGEST as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.text);
            self.line += 1;
            read.map_err(|error: io::Error| format!("cannot be read: {error}"))?;
            match (self.text.pop(), self.last) {
                (None, None) => {
                    self.line = 0;
                    return Err(format!("has no requests; {EXPECTED}"));
                }
                (None, Some(_)) => return Ok(None),
                (Some(b'\n'), _) => {}
                (Some(_), _) if self.text.len() == LONGEST => {
                    return Err(format!("is longer than {LONGEST} bytes; {EXPECTED}"));
                }
                (Some(_), _) => {
                    let problem =
                        "has no end, so the trace may be cut off; if it is whole, end the line";
                    return Err(problem.to_owned());
                }
            }
            let text =
                std::str::from_utf8(&self.text).map_err(|_| format!("is no text; {EXPECTED}"))?;
            let text = text.trim();
            if !text.is_empty() && !text.starts_with('#') {
                let access = parse(text)?;
                self.check(access)?;
                return Ok(Some(access));
            }
        }
    }

    fn check(&mut self, access: Access) -> Result<(), String> {
        let Access { at, address, .. } = access;
        if address >= self.size_bytes {
            let last = self.size_bytes - 1;
            return Err(format!(
                "address {address:#x} is beyond the memory, which ends at {last:#x} (memory.size_bytes)"
            ));
        }
        match (self.last, at) {
            (Some(Some(last)), Some(at)) if at < last => {
                return Err(format!(
                    "clock {at} after {last}; requests stand in the order of their clocks"
                ));
            }
            (Some(Some(_)), None) => return Err("has no clock, as the lines before do".to_owned()),
            (Some(None), Some(_)) => return Err("has a clock, as no line before does".to_owned()),
            _ => self.last = Some(at),
        }
        Ok(())
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let read = self.read();
        self.over = !matches!(read, Ok(Some(_)));
        let error = |problem| TraceError { name: self.name.clone(), line: self.line, problem };
        read.map_err(error).transpose()
    }
}

/// A line of a trace.
fn parse(text: &str) -> Result<Access, String> {
    let mut words = text.split_ascii_whitespace();
    let (Some(first), Some(second)) = (words.next(), words.next()) else {
        return Err(format!("'{text}': {EXPECTED}"));
    };
    let clock = words.next();
    if let Some(more) = words.next() {
        return Err(format!("'{more}' after the clock; {EXPECTED}"));
    }
    let at = match clock {
        None => None,
        Some(clock) => {
            Some(number(clock, 10).ok_or_else(|| format!("'{clock}' is no clock; {EXPECTED}"))?)
        }
    };
    // `ADD` is an address, no word.
    let (kind, address, radix) = match (kind(first), kind(second)) {
        (_, Some(kind)) => (kind, first, 16),
        (Some(kind), None) => (kind, second, 10),
        (None, None) => return Err(format!("'{second}' is neither read nor write; {EXPECTED}")),
    };
    let address = number(address, radix).ok_or_else(|| match address.contains(',') {
        true => format!("'{address}': parts of an address are not read; {EXPECTED}"),
        false => format!("'{address}' is no address; {EXPECTED}"),
    })?;
    Ok(Access { at, address, kind })
}

/// Read or write, in the words of DRAMsim3, DRAMSim2 and Ramulator.
fn kind(word: &str) -> Option<Kind> {
    match word {
        "READ" | "read" | "LD" | "R" | "P_MEM_RD" | "P_FETCH" => Some(Kind::Read),
        "WRITE" | "write" | "ST" | "W" | "P_MEM_WR" | "BOFF" => Some(Kind::Write),
        _ => None,
    }
}

/// A number, hexadecimal with `0x`. Clocks and addresses leave room for sums.
fn number(word: &str, radix: u32) -> Option<u64> {
    let hex = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((word, radix), |digits| (digits, 16));
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_alphanumeric());
    let number = u64::from_str_radix(digits, radix).ok()?;
    (plain && number < 1 << 62).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8]) -> Result<Vec<Access>, String> {
        let trace = Trace::new(text, "t", 1 << 32);
        trace.map(|access| access.map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn formats_are_those_of_the_other_programs() {
        let read = |address, at| Access { at, address, kind: Kind::Read };
        let write = |address, at| Access { at, address, kind: Kind::Write };
        for (text, expected) in [
            ("0x1A40 READ 7\n2b WRITE 7\n", vec![read(0x1a40, Some(7)), write(0x2b, Some(7))]),
            ("LD 0x40\nST 4096\n\n# no more\n", vec![read(64, None), write(4096, None)]),
            ("0x40 R\r\n0x80 W\r\n", vec![read(64, None), write(128, None)]),
            ("R 0x40 3\n  W  64\t9 \n", vec![read(64, Some(3)), write(64, Some(9))]),
            ("ADD READ 0\n0x10 P_MEM_WR 0\n", vec![read(0xadd, Some(0)), write(16, Some(0))]),
        ] {
            assert_eq!(all(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line() {
        let long = "0x0 READ 1 ".repeat(40) + "\n";
        for (text, expected) in [
            ("", "t: has no requests"),
            ("# nothing\n\n", "t: has no requests"),
            (
                "0x0 READ 1\n0x40 REED 2\n",
                "t:2: 'REED' is neither read nor write; expected ADDRESS READ|WRITE",
            ),
            ("0x0\n", "t:1: '0x0': expected ADDRESS"),
            ("0x0 READ one\n", "t:1: 'one' is no clock"),
            ("0x0 READ -1\n", "t:1: '-1' is no clock"),
            ("0x0 READ 1 2\n", "t:1: '2' after the clock"),
            ("zero READ 1\n", "t:1: 'zero' is no address"),
            ("LD 4f\n", "t:1: '4f' is no address"),
            ("R 0,1,2,100,32\n", "t:1: '0,1,2,100,32': parts of an address"),
            ("0x0 READ 5\n0x0 READ 4\n", "t:2: clock 4 after 5; requests stand in the order"),
            ("LD 0\n\nLD 64 5\n", "t:3: has a clock, as no line before does"),
            ("0x0 READ 5\n0x0 READ\n", "t:2: has no clock, as the lines before do"),
            ("LD 0\nLD 6", "t:2: has no end, so the trace may be cut off"),
            (
                "0x100000000 READ 0\n",
                "t:1: address 0x100000000 is beyond the memory, which ends at 0xffffffff",
            ),
            ("0x0 READ 99999999999999999999\n", "is no clock"),
            (&long, "t:1: is longer than 256 bytes"),
        ] {
            let found = all(text.as_bytes()).expect_err(text);
            assert!(found.contains(expected), "{found}, not {expected}");
        }
        assert!(all(b"0x0 \xff\xfe 1\n").unwrap_err().contains("t:1: is no text"));
    }

    fn accesses() -> impl Strategy<Value = Vec<(u64, bool, u64)>> {
        prop::collection::vec((0_u64..1 << 32, any::<bool>(), 0_u64..1000), 1..50)
    }

    proptest! {
        #[test]
        fn a_trace_that_was_written_is_read_again(accesses in accesses(), format in 0..4) {
            let (mut text, mut expected, mut clock) = (String::new(), Vec::new(), 0);
            for (address, write, gap) in accesses {
                clock += gap;
                let (long, short, load) = if write { ("WRITE", "W", "ST") } else { ("READ", "R", "LD") };
                let (line, at) = match format {
                    0 => (format!("{address:#x} {long} {clock}"), Some(clock)),
                    1 => (format!("{load} {address}"), None),
                    2 => (format!("{address:x} {short}"), None),
                    _ => (format!("{short} {address:#X} {clock}"), Some(clock)),
                };
                text += &(line.replace("0X", "0x") + "\n");
                let kind = if write { Kind::Write } else { Kind::Read };
                expected.push(Access { at, address, kind });
            }
            prop_assert_eq!(all(text.as_bytes()), Ok(expected));
            // Cut anywhere, it is read up to there, or refused.
            let cut = text.len() / 2;
            let lines = text[..cut].matches('\n').count();
            let found: Vec<_> = Trace::new(&text.as_bytes()[..cut], "t", 1 << 32).collect();
            prop_assert!(found.iter().filter(|access| access.is_ok()).count() == lines);
            prop_assert_eq!(found.iter().any(Result::is_err), !text[..cut].ends_with('\n'));
        }

        #[test]
        fn any_bytes_are_requests_or_one_error(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            words in prop::collection::vec(
                prop::sample::select(vec!["READ", "ST", "0x40", "7", "W", "\n", " ", "#", ",", "0x"]), 0..60,
            ),
        ) {
            for text in [bytes, words.concat().into_bytes()] {
                let found: Vec<_> = Trace::new(&text[..], "t", 1 << 32).collect();
                let errors = found.iter().filter(|access| access.is_err()).count();
                prop_assert!(errors <= 1 && !found.is_empty());
                prop_assert!(errors == 0 || found.last().unwrap().is_err());
            }
        }
    }
}
