//! Names of functions and lines of source by address, and addresses by name.

use core::fmt;
use core::ops::Range;

use crate::lines::Lines;

/// The functions of a program, by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// Address, size in bytes (0 if unknown), name; ascending.
    functions: Vec<(u64, u64, String)>,
    lines: Lines,
}

impl Symbols {
    /// Functions given by address, size in bytes and name. A size of 0 reaches to the next one.
    pub fn new(mut functions: Vec<(u64, u64, String)>) -> Symbols {
        // Of several names for one address the sized ones are the functions.
        functions.sort_by(|a, b| (a.0, b.1, &a.2).cmp(&(b.0, a.1, &b.2)));
        functions.dedup_by_key(|(address, ..)| *address);
        Symbols { functions, lines: Lines::default() }
    }

    /// The same functions, with their lines of source.
    pub(crate) fn with_lines(self, lines: Lines) -> Symbols {
        Symbols { lines, ..self }
    }

    /// The function that holds `address`, and the offset in it in bytes.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let (code, name) = self.holding(address)?;
        Some((name, address - code.start))
    }

    /// The addresses of the function that holds `address`.
    pub fn range(&self, address: u64) -> Option<Range<u64>> {
        Some(self.holding(address)?.0)
    }

    fn holding(&self, address: u64) -> Option<(Range<u64>, &str)> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        let end = match size {
            0 => self.functions.get(after).map_or(u64::MAX, |(next, ..)| *next),
            _ => start.saturating_add(*size),
        };
        (address < end).then_some((*start..end, name))
    }

    /// Whether it has no function.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The address of the function with this name.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|(.., n)| n == name).map(|(address, ..)| *address)
    }

    /// `address` with the function that holds it and the line of source, if it is known: `0x10444 <main+0x1c> (a.c:7)`.
    pub fn describe(&self, address: u64) -> impl fmt::Display {
        let function = self.find(address).map(|(name, offset)| (name.to_owned(), offset));
        Described { address, function, line: self.lines.find(address) }
    }
}

struct Described {
    address: u64,
    function: Option<(String, u64)>,
    line: Option<String>,
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)?;
        match &self.function {
            Some((name, 0)) => write!(f, " <{name}>"),
            Some((name, offset)) => write!(f, " <{name}+{offset:#x}>"),
            None => Ok(()),
        }?;
        self.line.as_ref().map_or(Ok(()), |line| write!(f, " ({line})"))
    }
}
