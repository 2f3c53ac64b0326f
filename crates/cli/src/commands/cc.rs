//! `rackmem cc`: compiles C programs for the model.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use clap::Args;
use tempfile::TempDir;

use crate::failure::{Failure, Result};

/// What `rackmem cc --help` says.
pub const ABOUT: &str = "\
Compiles C programs to static RISC-V programs (RV64GC, Linux), which the model executes. Arguments
are those of the compiler; rackmem.h and scratchpad.h are found, and rackmem's library linked in.

The compiler is the first of these that is there: the command in RACKMEM_CC, Debian's
riscv64-linux-gnu-gcc, zig, and zig as Python's package ziglang.";

/// What stands below it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem cc -o hello.rv64 hello.c
  rackmem cc -O3 -Wall -o prog.rv64 main.c table.c -lm
  RACKMEM_CC='clang --target=riscv64-linux-gnu' rackmem cc -o prog.rv64 prog.c

Unless the arguments say otherwise, code is optimised (-O2). Exit status: that of the compiler; 1 if
there is none.";

/// Arguments of `rackmem cc`.
#[derive(Debug, Args)]
pub struct CcArgs {
    /// What the compiler is given
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    pub arguments: Vec<OsString>,
}

/// The headers that programs include.
const HEADERS: [(&str, &str); 20] = [
    ("rackmem.h", include_str!("../../../../include/rackmem.h")),
    ("rackmem/abi.h", include_str!("../../../../include/rackmem/abi.h")),
    ("rackmem/access.h", include_str!("../../../../include/rackmem/access.h")),
    ("rackmem/barrier.h", include_str!("../../../../include/rackmem/barrier.h")),
    ("rackmem/copy.h", include_str!("../../../../include/rackmem/copy.h")),
    ("rackmem/counter.h", include_str!("../../../../include/rackmem/counter.h")),
    ("rackmem/counter_barrier.h", include_str!("../../../../include/rackmem/counter_barrier.h")),
    ("rackmem/lock.h", include_str!("../../../../include/rackmem/lock.h")),
    ("rackmem/lock_table.h", include_str!("../../../../include/rackmem/lock_table.h")),
    ("rackmem/messaging.h", include_str!("../../../../include/rackmem/messaging.h")),
    ("rackmem/mr_queue.h", include_str!("../../../../include/rackmem/mr_queue.h")),
    ("rackmem/queue.h", include_str!("../../../../include/rackmem/queue.h")),
    ("rackmem/ring.h", include_str!("../../../../include/rackmem/ring.h")),
    ("rackmem/runtime.h", include_str!("../../../../include/rackmem/runtime.h")),
    ("rackmem/wait.h", include_str!("../../../../include/rackmem/wait.h")),
    ("scratchpad.h", include_str!("../../../../include/scratchpad.h")),
    ("scratchpad/nilib.h", include_str!("../../../../include/scratchpad/nilib.h")),
    ("scratchpad/scrlib.h", include_str!("../../../../include/scratchpad/scrlib.h")),
    ("scratchpad/syslib.h", include_str!("../../../../include/scratchpad/syslib.h")),
    ("window.h", include_str!("../../../../include/window.h")),
];

/// The library behind them, and what it includes.
const LIBRARY: [(&str, &str); 2] = [
    ("rackmem.c", include_str!("../../../../guest/rackmem.c")),
    ("driver.h", include_str!("../../../../guest/driver.h")),
];

const TARGET: [&str; 2] = ["-target", "riscv64-linux-musl"];

/// Does it.
///
/// # Errors
/// There is no compiler, or it fails.
pub fn run(args: &CcArgs) -> Result<()> {
    let compiler = find()?;
    let dir = unpack().map_err(|error| Failure::io("cannot write headers to a folder", error))?;
    let mut command = compiler.command(dir.path());
    if !args.arguments.iter().any(|argument| starts_with(argument, "-O")) {
        command.arg("-O2");
    }
    command.args(&args.arguments);
    if links(&args.arguments) {
        command.args(["-static", "-pthread"]).arg(library(&compiler, dir.path())?);
    }
    finish(&mut command)
}

/// A compiler, as a command and its first arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Compiler(Vec<String>);

impl Compiler {
    fn new(words: &[&str]) -> Compiler {
        Compiler(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// A run of it that finds the headers.
    fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]).arg("-I").arg(dir.join("include"));
        command
    }
}

fn find() -> Result<Compiler> {
    if let Ok(chosen) = env::var("RACKMEM_CC") {
        let words: Vec<String> = chosen.split_whitespace().map(str::to_owned).collect();
        return match words.is_empty() {
            true => Err(Failure::usage("RACKMEM_CC is empty: it names a compiler for RISC-V")),
            false => Ok(Compiler(words)),
        };
    }
    if answers(&["riscv64-linux-gnu-gcc", "--version"]) {
        return Ok(Compiler::new(&["riscv64-linux-gnu-gcc"]));
    }
    if answers(&["zig", "version"]) {
        return Ok(Compiler::new(&["zig", "cc", TARGET[0], TARGET[1]]));
    }
    if answers(&["python3", "-m", "ziglang", "version"]) {
        return Ok(Compiler::new(&["python3", "-m", "ziglang", "cc", TARGET[0], TARGET[1]]));
    }
    Err(Failure::new(
        "no C compiler for RISC-V is here: install one (pip install ziglang, or apt-get install \
         gcc-riscv64-linux-gnu libc6-dev-riscv64-cross), or name one in RACKMEM_CC",
    ))
}

/// Whether a command can be run.
fn answers(words: &[&str]) -> bool {
    Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success())
}

/// Headers and library in a folder of their own.
fn unpack() -> std::io::Result<TempDir> {
    let dir = tempfile::tempdir()?;
    for folder in ["include/rackmem", "include/scratchpad"] {
        fs::create_dir_all(dir.path().join(folder))?;
    }
    for (name, text) in HEADERS {
        fs::write(dir.path().join("include").join(name), text)?;
    }
    for (name, text) in LIBRARY {
        fs::write(dir.path().join(name), text)?;
    }
    Ok(dir)
}

/// Compiles the library, without the flags that are meant for the program.
fn library(compiler: &Compiler, dir: &Path) -> Result<OsString> {
    let [(source, _), ..] = LIBRARY;
    let object = dir.join("rackmem.o");
    let mut command = compiler.command(dir);
    command.args(["-std=c11", "-O2", "-pthread", "-c", "-o"]).arg(&object).arg(dir.join(source));
    finish(&mut command)?;
    Ok(object.into_os_string())
}

/// Whether the compiler makes a program of it, not just an object or a listing.
fn links(arguments: &[OsString]) -> bool {
    const STOPS: [&str; 8] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--version", "-v"];
    !arguments.iter().any(|argument| STOPS.iter().any(|stop| argument == stop))
}

fn starts_with(argument: &OsString, prefix: &str) -> bool {
    argument.as_encoded_bytes().starts_with(prefix.as_bytes())
}

/// Runs a compiler; its failure is ours, and it has said why.
fn finish(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| Failure::io(program, error))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::silent(code as u8)),
        None => Err(Failure::new("the compiler was ended by a signal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_get_the_library() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(links(&words("-o a a.c")));
        assert!(links(&words("-o -c.out a.c")));
        assert!(!links(&words("-O2 -c a.c")));
        assert!(!links(&words("--version")));
    }

    /// Needs a kernel with userfaultfd, which the model has not: no header for RISC-V.
    const HOST_ONLY: &str = "borrow.h";

    /// Those that programs include, and the parts that those include.
    #[test]
    fn all_headers_are_there() {
        let dir = unpack().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
        let mut count = 0;
        for folder in ["", "rackmem", "scratchpad"] {
            for entry in fs::read_dir(sources.join(folder)).unwrap() {
                let entry = entry.unwrap();
                if entry.file_name() == HOST_ONLY {
                    continue;
                }
                let place = dir.path().join("include").join(folder).join(entry.file_name());
                assert!(place.exists(), "{}", place.display());
                count += usize::from(entry.path().is_file());
            }
        }
        assert_eq!(count, HEADERS.len());
    }
}
