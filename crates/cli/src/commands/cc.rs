//! `rackmem cc`: compiles programs for the model or for this host.

mod compiler;
mod headers;

use std::ffi::OsString;

use clap::Args;

use self::compiler::{Compiler, Language};
use self::headers::Folder;
use crate::failure::{Failure, Result};
use crate::installed;

/// First text of `rackmem cc --help`.
pub const ABOUT: &str = "\
Compiles C and C++ programs to static RISC-V programs (RV64GC, Linux), which the model executes; with --host, \
to programs for this host. Arguments are those of the compiler. The headers are found, and rackmem's library \
is linked in.

For the model, the compiler is the first of these that is installed: the command in RACKMEM_CC (for C++ \
RACKMEM_CXX), Debian's riscv64-linux-gnu-gcc (g++), zig, and zig as Python's package ziglang. For this host it \
is CC (CXX), or cc (c++).";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem cc -o hello.rv64 hello.c
  rackmem cc --host -o hello hello.c
  rackmem cc -O3 -Wall -o prog.rv64 main.cc table.c -lm
  RACKMEM_CC='clang --target=riscv64-linux-gnu' rackmem cc -o prog.rv64 prog.c

If a source ends in .cc, .cpp, .cxx, .c++ or .C, the C++ compiler is used. Unless the arguments say otherwise, code is
optimised (-O2) and has the lines of its source (-g), which messages of the model name.
Exit status: that of the compiler; 1 if there is none.";

/// Arguments of `rackmem cc`.
#[derive(Debug, Args)]
pub struct CcArgs {
    /// Compile for this host
    #[arg(long)]
    pub host: bool,
    /// Arguments for the compiler
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    pub arguments: Vec<OsString>,
}

/// The library of this host as it is installed.
const LIBRARY: &str = "librackmem.a";

/// The static library, of the crate that has all functions of the interface.
const BUILT: &str = "librackmem_paging.a";

/// Libraries of the system that it needs.
const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

/// Runs the compiler on the arguments, with the headers and the library.
///
/// # Errors
/// There is no compiler, or it fails.
pub fn run(args: &CcArgs) -> Result<()> {
    let language = Language::of(&args.arguments);
    let folder =
        Folder::new().map_err(|error| Failure::io("cannot write headers to a folder", error))?;
    let compiler = match args.host {
        true => Compiler::for_host(language)?,
        false => Compiler::for_model(language)?,
    };
    let mut command = compiler.command();
    command.arg("-I").arg(folder.include());
    // Both may be given otherwise; with -g messages of the model name lines of source.
    for (option, by_default) in [(b"-O", "-O2"), (b"-g", "-g")] {
        if !args.arguments.iter().any(|one| one.as_encoded_bytes().starts_with(option)) {
            command.arg(by_default);
        }
    }
    command.args(&args.arguments);
    if links(&args.arguments) && args.host {
        // A language that the user has named with -x is that of the sources.
        command
            .args(["-Wl,--gc-sections", "-x", "none"])
            .arg(host_library()?)
            .args(SYSTEM_LIBRARIES);
    } else if links(&args.arguments) {
        command.args(["-static", "-pthread", "-x", "none"]).arg(model_library(&folder)?);
    }
    compiler.finish(&mut command)
}

fn host_library() -> Result<OsString> {
    match installed::find(LIBRARY, BUILT)? {
        Some(path) => Ok(path.into_os_string()),
        None => Err(Failure::new(format!(
            "{LIBRARY} is neither beside this command nor in ../lib: install rackmem again, or build it in a \
             clone with `cargo build --release`"
        ))),
    }
}

/// Compiles the model's library, without the flags that are meant for the program.
fn model_library(folder: &Folder) -> Result<OsString> {
    let compiler = Compiler::for_model(Language::C)?;
    let object = folder.file("rackmem.o");
    let mut command = compiler.command();
    command.arg("-I").arg(folder.include()).args(["-std=c11", "-O2", "-pthread", "-c", "-o"]);
    command.arg(&object).arg(folder.library());
    compiler.finish(&mut command)?;
    Ok(object.into_os_string())
}

/// Whether the compiler makes a program of it, not just an object or a listing.
fn links(arguments: &[OsString]) -> bool {
    const STOPS: [&str; 8] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--version", "-v"];
    !arguments.iter().any(|argument| STOPS.iter().any(|stop| argument == stop))
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
}
