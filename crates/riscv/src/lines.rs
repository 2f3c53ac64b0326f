//! Lines of source by address, out of a program's debug information.

use std::sync::Arc;

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// A program's debug information (DWARF, as `-g` makes it), decoded for each lookup: only messages need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// Those that are there.
    sections: Arc<[Section]>,
    /// Address of the program's byte 0 in memory.
    base: u64,
}

#[derive(Debug)]
struct Section {
    id: SectionId,
    bytes: Box<[u8]>,
}

/// The sections that lines are found with.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

impl Lines {
    /// Those of a program that is loaded at `base`; `section` has the bytes of a section.
    pub fn new<'a>(base: u64, section: impl Fn(&str) -> Option<&'a [u8]>) -> Lines {
        let found = |id: SectionId| Some(Section { id, bytes: section(id.name())?.into() });
        Lines { sections: SECTIONS.into_iter().filter_map(found).collect(), base }
    }

    /// File and line of an address, `main.c:12`; `None` if the program says nothing of it, or nothing that makes sense.
    pub fn find(&self, address: u64) -> Option<String> {
        let bytes = |id: SectionId| {
            let found = self.sections.iter().find(|section| section.id == id);
            let bytes = found.map_or(&[][..], |section| &section.bytes);
            Ok::<_, addr2line::gimli::Error>(EndianSlice::new(bytes, LittleEndian))
        };
        let context = Context::from_dwarf(Dwarf::load(bytes).ok()?).ok()?;
        let location = context.find_location(address.wrapping_sub(self.base)).ok()??;
        Some(format!("{}:{}", location.file?, location.line?))
    }
}
