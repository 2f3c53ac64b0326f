//! Names of functions and lines of source by address, and addresses by name.

use core::cmp::Reverse;
use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use crate::lines::Lines;

/// The functions of a program and its libraries, by address. Copies share what they have.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    objects: Vec<Arc<Object>>,
}

/// Those of a file.
#[derive(Debug)]
struct Object {
    /// Addresses that belong to it.
    range: Range<u64>,
    /// Address, size in bytes (0 if unknown), name; ascending.
    functions: Vec<(u64, u64, String)>,
    lines: Lines,
}

impl Object {
    fn holding(&self, address: u64) -> Option<(Range<u64>, &str)> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        let end = match size {
            0 => self.functions.get(after).map_or(self.range.end, |(next, ..)| *next),
            _ => start.saturating_add(*size),
        };
        (address < end).then_some((*start..end, name))
    }
}

impl Symbols {
    /// Functions given by address, size in bytes and name. A size of 0 reaches to the next one.
    pub fn new(functions: Vec<(u64, u64, String)>) -> Symbols {
        Symbols::of(0..u64::MAX, functions, Lines::default())
    }

    /// The same with lines of source, of a file to which only these addresses belong.
    pub(crate) fn of(
        range: Range<u64>,
        mut functions: Vec<(u64, u64, String)>,
        lines: Lines,
    ) -> Symbols {
        // Of several names for one address the sized ones are the functions, and `printf` says more than `_IO_printf`.
        functions.sort_by_cached_key(|(address, size, name)| {
            (*address, Reverse(*size), name.starts_with('_'), name.clone())
        });
        functions.dedup_by_key(|(address, ..)| *address);
        Symbols { objects: vec![Arc::new(Object { range, functions, lines })] }
    }

    /// These and others, which come first where both have an address.
    #[must_use]
    pub fn with(&self, others: Symbols) -> Symbols {
        Symbols {
            objects: others.objects.into_iter().chain(self.objects.iter().cloned()).collect(),
        }
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

    fn object(&self, address: u64) -> Option<&Object> {
        self.objects.iter().find(|object| object.range.contains(&address)).map(|object| &**object)
    }

    fn holding(&self, address: u64) -> Option<(Range<u64>, &str)> {
        self.object(address)?.holding(address)
    }

    /// Whether it has no function.
    pub fn is_empty(&self) -> bool {
        self.objects.iter().all(|object| object.functions.is_empty())
    }

    /// The address of the function with this name.
    pub fn address(&self, name: &str) -> Option<u64> {
        let mut functions = self.objects.iter().flat_map(|object| &object.functions);
        functions.find(|(.., n)| n == name).map(|(address, ..)| *address)
    }

    /// `address` with the function that holds it and the line of source, if it is known: `0x10444 <main+0x1c> (a.c:7)`.
    pub fn describe(&self, address: u64) -> impl fmt::Display {
        let function = self.find(address).map(|(name, offset)| (name.to_owned(), offset));
        let line = self.object(address).and_then(|object| object.lines.find(address));
        Described { address, function, line }
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
