//! ELF programs and their dynamic linkers: their checks, and loading them into memory.

use core::fmt;
use core::ops::Range;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, LittleEndian};

use crate::kernel::{LARGEST_HEAP, MAPPINGS_BOTTOM};
use crate::lines::Lines;
use crate::space::{AddressSpace, PAGE, Permissions, TOP};
use crate::symbols::Symbols;

/// Load address of position-independent programs.
pub const PIE_BASE: u64 = 0x4000_0000;

/// Load address of dynamic linkers: 1 TiB below all mappings.
pub const LINKER_BASE: u64 = LINKER_END - (1 << 40);

const LINKER_END: u64 = MAPPINGS_BOTTOM;

/// Errors of [`load`]: the file is not a program that can be run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No ELF file, or a damaged one; with the reason.
    Malformed(String),
    /// A 32-bit program.
    Not64Bit,
    /// A big-endian program.
    BigEndian,
    /// For another machine; its number (`EM_...`) and, if known, its name.
    ForeignMachine(u16, &'static str),
    /// Needs this dynamic linker, and no folder is named that has it.
    Dynamic(String),
    /// Its dynamic linker, by this name, is missing or cannot be used; with the reason.
    Linker(String, String),
    /// No executable: an object file, a shared library, a core dump.
    NotExecutable,
    /// Has nothing to load.
    Empty,
    /// A segment is too large, lies outside of the address space, or wraps around it.
    BadSegment(u64),
    /// Arguments and environment are too long: their bytes, and those of the stack.
    Arguments(u64, u64),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Malformed(reason) => write!(f, "no ELF file, or a damaged one: {reason}"),
            LoadError::Not64Bit => f.write_str("a 32-bit program; only RV64GC is executed"),
            LoadError::BigEndian => f.write_str("a big-endian program; only RV64GC is executed"),
            LoadError::ForeignMachine(number, "") => {
                write!(f, "a program for machine {number}; only RV64GC is executed")
            }
            LoadError::ForeignMachine(_, name) => {
                write!(f, "a program for {name}; only RV64GC is executed")
            }
            LoadError::Dynamic(name) => {
                let name = name.escape_debug();
                write!(
                    f,
                    "dynamically linked (it asks for {name}): name the folder that has its libraries \
                     (--libraries DIR), or link it with -static"
                )
            }
            LoadError::Linker(name, reason) => {
                write!(f, "its dynamic linker, {}, {reason}", name.escape_debug())
            }
            LoadError::NotExecutable => f.write_str("no executable: link it first"),
            LoadError::Empty => f.write_str("has no segment to load"),
            LoadError::BadSegment(address) => {
                write!(
                    f,
                    "its segment at {address:#x} is too large or outside of the address space"
                )
            }
            LoadError::Arguments(bytes, stack) => {
                write!(
                    f,
                    "its arguments and environment take {bytes} bytes, more than a quarter of its stack of {stack}"
                )
            }
        }
    }
}

impl core::error::Error for LoadError {}

impl From<object::Error> for LoadError {
    fn from(error: object::Error) -> Self {
        LoadError::Malformed(error.to_string())
    }
}

/// A program in memory.
#[derive(Clone, Debug)]
pub struct Image {
    /// Address of the first instruction: the dynamic linker's, if there is one.
    pub entry: u64,
    /// Address of the program's own first instruction.
    pub program_entry: u64,
    /// Load address of the dynamic linker, 0 without one.
    pub linker_base: u64,
    /// Address of the program headers in memory, 0 if they are not loaded.
    pub headers: u64,
    /// Number of program headers.
    pub header_count: u64,
    /// The first page boundary after all segments; the heap begins there.
    pub end: u64,
    /// Names and addresses of functions, for messages about faults.
    pub symbols: Symbols,
}

/// Bytes of a program header (`AT_PHENT`).
pub const HEADER_SIZE: u64 = size_of::<ProgramHeader64<LittleEndian>>() as u64;

type Header = FileHeader64<Endianness>;
type Segment = ProgramHeader64<Endianness>;

/// Loads a static program.
///
/// # Errors
/// It is none, or it is damaged.
pub fn load(file: &[u8], space: &mut AddressSpace) -> Result<Image, LoadError> {
    load_with(file, |name| Err(LoadError::Dynamic(name.to_owned())), space)
}

/// Loads a program, and its dynamic linker if it asks for one: `find_linker` gives the bytes of a name.
///
/// # Errors
/// The program or its dynamic linker is none or is damaged, or `find_linker` fails.
pub fn load_with(
    file: &[u8],
    find_linker: impl FnOnce(&str) -> Result<Vec<u8>, LoadError>,
    space: &mut AddressSpace,
) -> Result<Image, LoadError> {
    let program = Object::parse(file)?;
    let Some(name) = program.linker()? else {
        let Loaded { entry, headers, end, symbols } = program.load(TOP / 2, space)?;
        let header_count = program.segments.len() as u64;
        let (program_entry, linker_base) = (entry, 0);
        return Ok(Image {
            entry,
            program_entry,
            linker_base,
            headers,
            header_count,
            end,
            symbols,
        });
    };
    let bytes = find_linker(&name)?;
    let wrong = |why: String| LoadError::Linker(name.clone(), format!("cannot be used: {why}"));
    let damaged = |error: LoadError| wrong(error.to_string());
    let linker = Object::parse(&bytes).map_err(damaged)?.into_linker().map_err(wrong)?;
    // The heap is behind the program and does not grow into the dynamic linker.
    let own = program.load(LINKER_BASE - LARGEST_HEAP, space)?;
    let Loaded { entry, symbols, .. } = linker.load(LINKER_END, space).map_err(damaged)?;
    Ok(Image {
        entry,
        program_entry: own.entry,
        linker_base: LINKER_BASE,
        headers: own.headers,
        header_count: program.segments.len() as u64,
        end: own.end,
        symbols: own.symbols.with(symbols),
    })
}

/// The names of a library, of which the part from `offset` on is mapped as code from `pages.start` to `pages.end`.
/// Empty if that is no library.
pub fn symbols_of(file: &[u8], pages: Range<u64>, offset: u64) -> Symbols {
    let find = || -> Result<Symbols, LoadError> {
        let object = Object::parse(file)?;
        let is_mapped = |segment: &&Segment| {
            let start = segment.p_offset(LE) & !(PAGE - 1);
            let end = segment.p_offset(LE).saturating_add(segment.p_filesz(LE));
            let is_code = segment.p_flags(LE) & elf::PF_X == elf::PF_X;
            is_code && (start..end).contains(&offset)
        };
        let segment = object.loaded().into_iter().find(is_mapped).ok_or(LoadError::Empty)?;
        let place = segment.p_vaddr(LE).wrapping_sub(segment.p_offset(LE)).wrapping_add(offset);
        Ok(object.symbols(pages.start.wrapping_sub(place), pages))
    };
    find().unwrap_or_default()
}

const LE: Endianness = Endianness::Little;

/// A file that has been checked.
struct Object<'a> {
    file: &'a [u8],
    header: &'a Header,
    segments: &'a [Segment],
    base: u64,
}

/// A file in memory.
struct Loaded {
    entry: u64,
    headers: u64,
    end: u64,
    symbols: Symbols,
}

impl<'a> Object<'a> {
    fn parse(file: &'a [u8]) -> Result<Object<'a>, LoadError> {
        let header = check(file)?;
        let segments = header.program_headers(LE, file)?;
        let base = if header.e_type(LE) == elf::ET_DYN { PIE_BASE } else { 0 };
        Ok(Object { file, header, segments, base })
    }

    /// The name of the dynamic linker that it asks for.
    fn linker(&self) -> Result<Option<String>, LoadError> {
        /// As on Linux.
        const LONGEST: usize = 4096;
        for segment in self.segments {
            if let Some(name) = segment.interpreter(LE, self.file)? {
                let name = core::str::from_utf8(name).ok().filter(|name| name.len() < LONGEST);
                let wrong = || "the name of its dynamic linker is none".to_owned();
                return Ok(Some(name.ok_or_else(|| LoadError::Malformed(wrong()))?.to_owned()));
            }
        }
        Ok(None)
    }

    /// The same as a dynamic linker; otherwise the reason why it is none.
    fn into_linker(self) -> Result<Object<'a>, String> {
        if let Some(other) = self.linker().map_err(|error| error.to_string())? {
            return Err(format!("it asks for {} itself", other.escape_debug()));
        }
        match self.header.e_type(LE) {
            elf::ET_DYN => Ok(Object { base: LINKER_BASE, ..self }),
            _ => Err("it has a fixed address".to_owned()),
        }
    }

    fn loaded(&self) -> Vec<&'a Segment> {
        let is_loaded = |s: &&Segment| s.p_type(LE) == elf::PT_LOAD && s.p_memsz(LE) > 0;
        self.segments.iter().filter(is_loaded).collect()
    }

    /// Loads it, below `limit`.
    fn load(&self, limit: u64, space: &mut AddressSpace) -> Result<Loaded, LoadError> {
        let loaded = self.loaded();
        let end = map(&loaded, self.base, limit, space)?;
        for segment in &loaded {
            let bytes = segment
                .data(LE, self.file)
                .map_err(|()| LoadError::Malformed("a segment is cut off".into()))?;
            space.install(self.base + segment.p_vaddr(LE), bytes);
        }
        let start = loaded.iter().map(|segment| segment.p_vaddr(LE)).min().unwrap_or(0);
        Ok(Loaded {
            entry: self.base.wrapping_add(self.header.e_entry(LE)),
            headers: headers_in_memory(self.header, &loaded, self.base),
            end,
            symbols: self.symbols(self.base, self.base + start..end),
        })
    }

    /// Its names, for a load address, of what is in a range.
    fn symbols(&self, base: u64, range: Range<u64>) -> Symbols {
        let (header, file) = (self.header, self.file);
        Symbols::of(range, functions(header, file, base), lines(header, file, base))
    }
}

/// The header, if this is a program that can be run.
fn check(file: &[u8]) -> Result<&Header, LoadError> {
    if file.get(..4) != Some(&elf::ELFMAG) {
        return Err(LoadError::Malformed("it does not begin with the ELF magic".into()));
    }
    if file.get(4) != Some(&elf::ELFCLASS64.0) {
        return Err(LoadError::Not64Bit);
    }
    let header = Header::parse(file)?;
    let endian = header.endian()?;
    if endian != Endianness::Little {
        return Err(LoadError::BigEndian);
    }
    match header.e_machine(endian) {
        elf::EM_RISCV => {}
        machine => return Err(LoadError::ForeignMachine(machine.0, machine_name(machine))),
    }
    match header.e_type(endian) {
        elf::ET_EXEC | elf::ET_DYN => Ok(header),
        _ => Err(LoadError::NotExecutable),
    }
}

fn machine_name(machine: elf::Machine) -> &'static str {
    match machine {
        elf::EM_X86_64 => "x86-64",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_PPC64 => "PowerPC",
        elf::EM_S390 => "S/390",
        elf::EM_LOONGARCH => "LoongArch",
        _ => "",
    }
}

/// Most bytes of all segments together. A static program reaches 2 GiB either way of its code; more is damage, and
/// would cost page tables.
const LARGEST: u64 = 4 << 30;

/// Maps the pages of all segments, below `limit`; returns their end.
fn map(
    segments: &[&Segment],
    base: u64,
    limit: u64,
    space: &mut AddressSpace,
) -> Result<u64, LoadError> {
    let endian = LE;
    let (mut end, mut sum) = (0, 0_u64);
    for segment in segments {
        let start = segment.p_vaddr(endian);
        let bad = LoadError::BadSegment(start);
        let start = start.checked_add(base).ok_or(bad.clone())?;
        let last = start.checked_add(segment.p_memsz(endian)).ok_or(bad.clone())?;
        let size = segment.p_memsz(endian);
        sum = sum.saturating_add(size);
        if last > limit || sum > LARGEST || segment.p_filesz(endian) > size {
            return Err(bad);
        }
        let flags = segment.p_flags(endian);
        let own = Permissions {
            read: flags & elf::PF_R == elf::PF_R,
            write: flags & elf::PF_W == elf::PF_W,
            execute: flags & elf::PF_X == elf::PF_X,
        };
        map_segment(start / PAGE..last.div_ceil(PAGE), own, space);
        end = end.max(last.next_multiple_of(PAGE));
    }
    if segments.is_empty() { Err(LoadError::Empty) } else { Ok(end) }
}

/// Maps pages, runs of unmapped ones at once. A page that another segment has, too, gets the permissions of both.
fn map_segment(pages: Range<u64>, own: Permissions, space: &mut AddressSpace) {
    let mut free = pages.start;
    for page in pages.clone() {
        let Some(old) = space.permissions(page * PAGE) else { continue };
        let both = Permissions {
            read: old.read || own.read,
            write: old.write || own.write,
            execute: old.execute || own.execute,
        };
        space.map(free * PAGE, (page - free) * PAGE, own);
        space.protect(page * PAGE, PAGE, both);
        free = page + 1;
    }
    space.map(free * PAGE, (pages.end - free) * PAGE, own);
}

/// Address of the program headers in memory; 0 if no segment holds them.
fn headers_in_memory(header: &Header, segments: &[&Segment], base: u64) -> u64 {
    let endian = LE;
    let offset = header.e_phoff(endian);
    let holds = |segment: &&&Segment| {
        let start = segment.p_offset(endian);
        (start..start.saturating_add(segment.p_filesz(endian))).contains(&offset)
    };
    let address = |s: &&Segment| base + s.p_vaddr(endian) + (offset - s.p_offset(endian));
    segments.iter().find(holds).map_or(0, address)
}

/// The functions of a program or library; of one that was stripped, those that it shares with others. Damaged tables
/// count as none: they only matter for messages.
fn functions(header: &Header, file: &[u8], base: u64) -> Vec<(u64, u64, String)> {
    let endian = LE;
    let read = || -> Result<Vec<_>, object::Error> {
        let sections = header.sections(endian, file)?;
        let mut table = sections.symbols(endian, file, elf::SHT_SYMTAB)?;
        if table.is_empty() {
            table = sections.symbols(endian, file, elf::SHT_DYNSYM)?;
        }
        let strings = table.strings();
        let mut symbols = Vec::new();
        for symbol in table.symbols() {
            let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_NOTYPE);
            if !is_function || symbol.is_undefined(endian) || symbol.is_absolute(endian) {
                continue;
            }
            let name = String::from_utf8_lossy(symbol.name(endian, strings)?).into_owned();
            // Mapping symbols of the assembler, and local labels.
            if !name.is_empty() && !name.starts_with(['$', '.']) {
                symbols.push((
                    symbol.st_value(endian).wrapping_add(base),
                    symbol.st_size(endian),
                    name,
                ));
            }
        }
        Ok(symbols)
    };
    read().unwrap_or_default()
}

/// The lines of source of the program, if it was compiled with them.
fn lines(header: &Header, file: &[u8], base: u64) -> Lines {
    let endian = LE;
    let Ok(sections) = header.sections(endian, file) else { return Lines::default() };
    Lines::new(base, |name| {
        let (_, section) = sections.section_by_name(endian, name.as_bytes())?;
        let is_plain = !section.sh_flags(endian).contains(elf::SHF_COMPRESSED);
        section.data(endian, file).ok().filter(|_| is_plain)
    })
}
