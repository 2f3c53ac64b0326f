//! Whether a library can be loaded into a program (LD_PRELOAD), and if not, why.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{EM_RISCV, ET_DYN, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use rackmem_paging::program::SETTINGS_VARIABLE;

use crate::failure::{Failure, Result};

/// Most scripts that may be the interpreters of scripts, as in the kernel.
const MAX_INTERPRETERS: usize = 4;

/// Longest first line of a script, as in the kernel.
const MAX_SCRIPT_LINE: u64 = 256;

/// Exit status if there is no such program, as in a shell.
const STATUS_NOT_FOUND: u8 = 127;

/// Advice for programs that run without the library.
const INSTEAD: &str = "give it memory by `rackmem blk` and swapon instead";

/// The file that a command starts, which may be looked for in `PATH`.
///
/// # Errors
/// There is none.
pub fn find(command: &OsStr) -> Result<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match path.is_file() {
            true => Ok(path),
            false => Err(missing(command)),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    std::env::split_paths(&search)
        .map(|dir| dir.join(command))
        .find(|path| {
            fs::metadata(path)
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| missing(command))
}

/// Whether a program is for the model's cores.
pub fn is_for_riscv(program: &Path) -> bool {
    let mut head = [0; 20];
    let is_read = File::open(program).is_ok_and(|mut file| file.read_exact(&mut head).is_ok());
    is_read && head.starts_with(b"\x7fELF") && head[18..] == EM_RISCV.0.to_le_bytes()
}

fn missing(command: &OsStr) -> Failure {
    let name = command.to_string_lossy();
    Failure::with_status(STATUS_NOT_FOUND, format!("there is no program '{name}'"))
}

/// Checks that a library can be loaded into a program, and that it would be of use there.
///
/// # Errors
/// It cannot: says why, and what to do instead.
pub fn check(program: &Path) -> Result<()> {
    let mut path = program.to_owned();
    for _ in 0..=MAX_INTERPRETERS {
        match interpreter(&path)? {
            Some(next) => path = next,
            None => return check_binary(&path),
        }
    }
    Err(Failure::new(format!("'{}' has too many interpreters", program.display())))
}

/// The interpreter, if it is a script.
fn interpreter(path: &Path) -> Result<Option<PathBuf>> {
    let unreadable = |error| Failure::io(format!("cannot look into '{}'", path.display()), error);
    let mut line = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_SCRIPT_LINE).read_to_end(&mut line).map_err(unreadable)?;
    let Some(rest) = line.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return Ok(None) };
    // `#!/usr/bin/env NAME` runs NAME; of its options -S is in use.
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    if first.ends_with(b"/env")
        && let Some(name) = name
    {
        return find(OsStr::from_bytes(name)).map(Some);
    }
    Ok(Some(PathBuf::from(OsString::from_vec(first.to_vec()))))
}

fn check_binary(path: &Path) -> Result<()> {
    let refuse = |what: &str| {
        Err(Failure::new(format!("cannot lend memory to '{}': {what}; {INSTEAD}", path.display())))
    };
    let metadata = fs::metadata(path)
        .map_err(|error| Failure::io(format!("cannot look into '{}'", path.display()), error))?;
    if metadata.permissions().mode() & 0o6000 != 0 || has_capabilities(path) {
        return refuse(
            "it runs with more rights than its caller's (setuid, setgid or capabilities), \
             and the loader gives such programs no libraries",
        );
    }
    let bytes = fs::read(path)
        .map_err(|error| Failure::io(format!("cannot read '{}'", path.display()), error))?;
    match kind(&bytes) {
        Kind::Loadable => Ok(()),
        Kind::Foreign => refuse("it is no 64-bit Linux program of this machine's kind"),
        Kind::Static => refuse("it is linked statically, so no library can be loaded into it"),
        Kind::Go => refuse("it is a Go program, whose runtime calls the kernel past every library"),
    }
}

/// Checks that a file is this version's library for programs: the loader ignores others with a word that few read, or
/// with none.
///
/// # Errors
/// It is not: says so.
pub fn check_library(path: &Path) -> Result<()> {
    let bytes = fs::read(path)
        .map_err(|error| Failure::io(format!("cannot read '{}'", path.display()), error))?;
    let is_library = FileHeader64::<LittleEndian>::parse(&bytes[..]).is_ok_and(|header| {
        let is_shared = header.e_type(LittleEndian) == ET_DYN;
        is_shared && header.e_machine(LittleEndian) == MACHINE
    });
    let reads = SETTINGS_VARIABLE.as_bytes();
    match is_library && bytes.windows(reads.len()).any(|part| part == reads) {
        true => Ok(()),
        false => {
            Err(Failure::new(format!("'{}' is not rackmem's library for programs", path.display())))
        }
    }
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok_and(|length| length > 0)
}

/// Kind of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Loadable,
    Foreign,
    Static,
    Go,
}

/// `e_machine` of this machine's programs.
const MACHINE: object::elf::Machine = match cfg!(target_arch = "aarch64") {
    true => object::elf::EM_AARCH64,
    false => object::elf::EM_X86_64,
};

fn kind(bytes: &[u8]) -> Kind {
    parse(bytes).unwrap_or(Kind::Foreign)
}

fn parse(bytes: &[u8]) -> Option<Kind> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let endian = LittleEndian;
    if header.endian().ok()? != endian || header.e_machine(endian) != MACHINE {
        return Some(Kind::Foreign);
    }
    let segments = header.program_headers(endian, bytes).ok()?;
    if !segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP) {
        return Some(Kind::Static);
    }
    let sections = header.sections(endian, bytes).ok()?;
    let is_go = sections.iter().any(|section| {
        sections.section_name(endian, section).is_ok_and(|name| name == b".go.buildinfo")
            && section.sh_size(endian) > 0
    });
    Some(if is_go { Kind::Go } else { Kind::Loadable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_can_be_loaded_into() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(check(&own), Ok(()));
        assert_eq!(kind(&fs::read(own).unwrap()), Kind::Loadable);
    }

    #[test]
    fn what_is_no_program_is_told() {
        for bytes in [&b""[..], b"\x7fELF", b"plain text", &[0x7f; 200]] {
            assert_eq!(kind(bytes), Kind::Foreign);
        }
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [4, 16, 40, 63, 64, 100] {
            assert_eq!(kind(&own[..length]), Kind::Foreign, "the first {length} bytes");
        }
    }

    #[test]
    fn scripts_are_their_interpreters() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#!/usr/bin/env -S sh -e\n").unwrap();
        assert_eq!(interpreter(&script).unwrap(), Some(find(OsStr::new("sh")).unwrap()));
        fs::write(&script, "#! /bin/sh\n").unwrap();
        assert_eq!(interpreter(&script).unwrap(), Some(PathBuf::from("/bin/sh")));
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(check(&script).unwrap_err().message.unwrap().contains("too many interpreters"));
    }

    #[test]
    fn programs_are_found_as_shells_find_them() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        let error = find(OsStr::new("no-such-program")).unwrap_err();
        assert_eq!(error.status, STATUS_NOT_FOUND);
        assert_eq!(find(OsStr::new("./no/such")).unwrap_err().status, STATUS_NOT_FOUND);
    }
}
