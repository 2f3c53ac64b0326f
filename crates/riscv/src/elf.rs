//! Static ELF programs: their checks, and loading them into memory.

use core::fmt;
use core::ops::Range;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, LittleEndian};

use crate::lines::Lines;
use crate::space::{AddressSpace, PAGE, Permissions, TOP};
use crate::symbols::Symbols;

/// Load address of position-independent programs.
pub const PIE_BASE: u64 = 0x4000_0000;

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
    /// Needs this dynamic linker.
    Dynamic(String),
    /// No executable: an object file, a shared library, a core dump.
    NotExecutable,
    /// Has nothing to load.
    Empty,
    /// A segment is too large, lies outside of the address space, or wraps around it.
    BadSegment(u64),
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
            LoadError::Dynamic(interpreter) => {
                write!(f, "dynamically linked (it asks for {interpreter}): link it with -static")
            }
            LoadError::NotExecutable => f.write_str("no executable: link it first"),
            LoadError::Empty => f.write_str("has no segment to load"),
            LoadError::BadSegment(address) => {
                write!(
                    f,
                    "its segment at {address:#x} is too large or outside of the address space"
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
    /// Address of the first instruction.
    pub entry: u64,
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

/// Loads a program.
pub fn load(file: &[u8], space: &mut AddressSpace) -> Result<Image, LoadError> {
    let header = check(file)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, file)?;
    for segment in segments {
        if let Some(interpreter) = segment.interpreter(endian, file)? {
            return Err(LoadError::Dynamic(String::from_utf8_lossy(interpreter).into_owned()));
        }
    }
    let base = if header.e_type(endian) == elf::ET_DYN { PIE_BASE } else { 0 };
    let loaded: Vec<&Segment> = segments
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_LOAD && s.p_memsz(endian) > 0)
        .collect();
    let end = map(&loaded, base, space)?;
    for segment in &loaded {
        let bytes = segment
            .data(endian, file)
            .map_err(|()| LoadError::Malformed("a segment is cut off".into()))?;
        space.install(base + segment.p_vaddr(endian), bytes);
    }
    Ok(Image {
        entry: base.wrapping_add(header.e_entry(endian)),
        headers: headers_in_memory(header, &loaded, base),
        header_count: segments.len() as u64,
        end,
        symbols: symbols(header, file, base),
    })
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

/// Maps the pages of all segments; returns their end.
fn map(segments: &[&Segment], base: u64, space: &mut AddressSpace) -> Result<u64, LoadError> {
    let endian = Endianness::Little;
    let (mut end, mut sum) = (0, 0_u64);
    for segment in segments {
        let start = segment.p_vaddr(endian);
        let bad = LoadError::BadSegment(start);
        let start = start.checked_add(base).ok_or(bad.clone())?;
        let last = start.checked_add(segment.p_memsz(endian)).ok_or(bad.clone())?;
        let size = segment.p_memsz(endian);
        sum = sum.saturating_add(size);
        if last > TOP / 2 || sum > LARGEST || segment.p_filesz(endian) > size {
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
    let endian = Endianness::Little;
    let offset = header.e_phoff(endian);
    let holds = |segment: &&&Segment| {
        let start = segment.p_offset(endian);
        (start..start.saturating_add(segment.p_filesz(endian))).contains(&offset)
    };
    let address = |s: &&Segment| base + s.p_vaddr(endian) + (offset - s.p_offset(endian));
    segments.iter().find(holds).map_or(0, address)
}

/// The functions of the program; none if they were stripped. Damaged tables count as none: they
/// only matter for messages.
fn symbols(header: &Header, file: &[u8], base: u64) -> Symbols {
    let endian = Endianness::Little;
    let read = || -> Result<Symbols, object::Error> {
        let sections = header.sections(endian, file)?;
        let table = sections.symbols(endian, file, elf::SHT_SYMTAB)?;
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
        Ok(Symbols::new(symbols))
    };
    read().unwrap_or_default().with_lines(lines(header, file, base))
}

/// The lines of source of the program, if it was compiled with them.
fn lines(header: &Header, file: &[u8], base: u64) -> Lines {
    let endian = Endianness::Little;
    let Ok(sections) = header.sections(endian, file) else { return Lines::default() };
    Lines::new(base, |name| {
        let (_, section) = sections.section_by_name(endian, name.as_bytes())?;
        let is_plain = !section.sh_flags(endian).contains(elf::SHF_COMPRESSED);
        section.data(endian, file).ok().filter(|_| is_plain)
    })
}
