//! The files that mappings come from, by address.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::saved::{Checked, require};
use crate::space::PAGE;

/// A part of a file that is mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Addresses of its pages.
    pub pages: Range<u64>,
    /// The place of its first byte in the file.
    pub offset: u64,
    /// The file's name as the program gave it, absolute.
    pub name: String,
}

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    pub end: u64,
    pub offset: u64,
    pub name: String,
    /// Whether it may be executed.
    pub is_code: bool,
}

/// Mappings of files that have names, by their starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct NamedMappings {
    by_start: BTreeMap<u64, Named>,
}

impl NamedMappings {
    /// Adds a mapping. Nothing of another one is there.
    pub(super) fn insert(&mut self, start: u64, mapping: Named) {
        self.by_start.insert(start, mapping);
    }

    /// Forgets what is in a range of pages.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let touched = self.by_start.range(..end).rev();
        let touched = touched.take_while(|(_, named)| named.end > start);
        let touched: Vec<u64> = touched.map(|(&at, _)| at).collect();
        for at in touched {
            let Some(named) = self.by_start.remove(&at) else { continue };
            if named.end > end {
                let offset = named.offset.saturating_add(end - at);
                self.by_start.insert(end, Named { offset, ..named.clone() });
            }
            if at < start {
                self.by_start.insert(at, Named { end: start, ..named });
            }
        }
    }

    /// The name of the file that is mapped from an address on.
    pub(super) fn at(&self, start: u64) -> Option<&Named> {
        self.by_start.get(&start)
    }

    pub(super) fn code(&self) -> Vec<Code> {
        let code = self.by_start.iter().filter(|(_, named)| named.is_code);
        let code = code.map(|(&start, named)| Code {
            pages: start..named.end,
            offset: named.offset,
            name: named.name.clone(),
        });
        code.collect()
    }

    /// Checks mappings that were read: whole pages below `top` that do not overlap.
    pub(super) fn check(&self, name: &str, top: u64) -> Checked {
        let mut free_from = 0;
        for (&start, Named { end, offset, .. }) in &self.by_start {
            let is_whole = (start | end | offset) % PAGE == 0 && *offset <= i64::MAX as u64;
            require(is_whole && free_from <= start && start < *end && *end <= top, || {
                format!("{name}: no mapping of a file is from {start:#x} to {end:#x}")
            })?;
            free_from = *end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_mapping_keeps_its_place_in_the_file() {
        let mut all = NamedMappings::default();
        let named = |end, offset| Named { end, offset, name: "/lib/a.so".into(), is_code: true };
        all.insert(0x10000, named(0x20000, 0x3000));
        all.remove(0x14000, 0x15000);
        let expected = [(0x10000, named(0x14000, 0x3000)), (0x15000, named(0x20000, 0x8000))];
        assert_eq!(all.by_start, expected.clone().into());
        all.remove(0x20000, 0x30000);
        assert_eq!(all.by_start, expected.into());
        all.remove(0, 0x16000);
        assert_eq!(all.by_start, [(0x16000, named(0x20000, 0x9000))].into());
        assert_eq!(all.check("named", 1 << 47), Ok(()));
        all.insert(0x1f000, named(0x21000, 0));
        assert!(all.check("named", 1 << 47).is_err());
    }
}
