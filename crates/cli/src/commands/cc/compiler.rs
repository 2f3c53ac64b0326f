//! Compilers: the search for one, and its run.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::console;
use crate::failure::{Failure, Result};

/// Language of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
}

impl Language {
    /// C++ if a source is.
    pub fn of(arguments: &[OsString]) -> Language {
        const CXX: [&str; 7] = [".cc", ".cp", ".cpp", ".cxx", ".c++", ".CPP", ".C"];
        let is_cxx = |argument: &OsString| {
            let name = argument.to_string_lossy();
            !name.starts_with('-') && CXX.iter().any(|end| name.ends_with(end))
        };
        if arguments.iter().any(is_cxx) { Language::Cxx } else { Language::C }
    }

    fn name(self) -> &'static str {
        match self {
            Language::C => "C",
            Language::Cxx => "C++",
        }
    }
}

/// A command and its first arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler(Vec<String>);

/// Time after which a message says why the compiler takes so long.
const SLOW: Duration = Duration::from_secs(3);

/// Time between two looks at a compiler that runs.
const LOOK: Duration = Duration::from_millis(20);

const MODEL: [&str; 2] = ["-target", "riscv64-linux-musl"];

impl Compiler {
    fn new(words: &[&str]) -> Compiler {
        Compiler(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// The one that a variable names. An empty variable names none.
    fn named(variable: &str) -> Option<Compiler> {
        let words: Vec<String> =
            env::var(variable).ok()?.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(Compiler(words))
    }

    /// The first that is here.
    fn first(candidates: &[&[&str]], probe: &str) -> Option<Compiler> {
        let found = candidates.iter().find(|words| answers(&[words, &[probe][..]].concat()));
        found.map(|words| Compiler::new(words))
    }

    /// One that compiles for the model's cores.
    ///
    /// # Errors
    /// There is none.
    pub fn for_model(language: Language) -> Result<Compiler> {
        let (variable, gnu, zig) = match language {
            Language::C => ("RACKMEM_CC", "riscv64-linux-gnu-gcc", "cc"),
            Language::Cxx => ("RACKMEM_CXX", "riscv64-linux-gnu-g++", "c++"),
        };
        if let Some(named) = Compiler::named(variable) {
            return Ok(named);
        }
        if let Some(gnu) = Compiler::first(&[&[gnu]], "--version") {
            return Ok(gnu);
        }
        let zigs: [&[&str]; 2] = [&["zig"], &["python3", "-m", "ziglang"]];
        if let Some(Compiler(mut words)) = Compiler::first(&zigs, "version") {
            words.extend([zig, MODEL[0], MODEL[1]].map(str::to_owned));
            return Ok(Compiler(words));
        }
        Err(Failure::new(format!(
            "no {} compiler for RISC-V is here: install one (pip install ziglang, or apt-get install \
             {}-riscv64-linux-gnu libc6-dev-riscv64-cross), or name one in {variable}",
            language.name(),
            if language == Language::C { "gcc" } else { "g++" }
        )))
    }

    /// One that compiles for this host.
    ///
    /// # Errors
    /// There is none.
    pub fn for_host(language: Language) -> Result<Compiler> {
        let (variable, candidates): (_, [&[&str]; 3]) = match language {
            Language::C => ("CC", [&["cc"], &["gcc"], &["clang"]]),
            Language::Cxx => ("CXX", [&["c++"], &["g++"], &["clang++"]]),
        };
        if let Some(named) = Compiler::named(variable) {
            return Ok(named);
        }
        Compiler::first(&candidates, "--version").ok_or_else(|| {
            Failure::new(format!(
                "no {} compiler is here: install one (apt-get install gcc g++), or name one in {variable}",
                language.name()
            ))
        })
    }

    /// A run of it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]);
        command
    }

    /// Runs a command of this compiler to its end; its failure is ours, and it has said why.
    ///
    /// # Errors
    /// It cannot be run, or it fails.
    pub fn finish(&self, command: &mut Command) -> Result<()> {
        let status = self.wait(command).map_err(|error| {
            let name = &self.0[0];
            Failure::io(
                format_args!(
                    "cannot run the compiler {name} (CC, CXX, RACKMEM_CC and RACKMEM_CXX name one)"
                ),
                error,
            )
        })?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => Err(Failure::silent(code as u8)),
            None => Err(Failure::new("the compiler was ended by a signal")),
        }
    }

    fn wait(&self, command: &mut Command) -> std::io::Result<ExitStatus> {
        let builds_libc = self.0.iter().any(|word| word.contains("zig"));
        if !builds_libc {
            return command.status();
        }
        let begun = Instant::now();
        let mut child = command.spawn()?;
        while begun.elapsed() < SLOW {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(LOOK);
        }
        console::remark("zig builds the C library for RISC-V: the first time takes minutes");
        child.wait()
    }
}

/// Whether a command can be run.
fn answers(words: &[&str]) -> bool {
    Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_say_the_language() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(Language::of(&words("-o a.cc a.c")), Language::Cxx);
        assert_eq!(Language::of(&words("-O2 a.cpp b.o")), Language::Cxx);
        assert_eq!(Language::of(&words("-o a a.c -L.cc")), Language::C);
    }
}
