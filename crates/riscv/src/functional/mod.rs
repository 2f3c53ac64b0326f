//! Programs run to their end, without timing: every instruction takes a nanosecond.
//!
//! [`run`] is all it takes. Harts run in turn, for slices of a fixed number of instructions, so a
//! run repeats exactly. Code is decoded once, in blocks; data accesses go through the cached
//! translations of the [`AddressSpace`]. [`Blocks`] is the hot loop, for other drivers too.

mod blocks;
mod bus;
mod engine;
mod error;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::elf;
use crate::host::LocalHost;
pub use crate::host::{Input, Output};
use crate::kernel::{Kernel, Program, signal_name};
use crate::space::AddressSpace;
use crate::stack;
use crate::stop::Stop;
pub use blocks::{Blocks, Break};
use engine::Engine;
pub use error::{Failure, RunError, Why};

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Harts, and so threads at a time.
    pub harts: usize,
    /// Instructions of all harts after which a run is given up; `None` for no limit.
    pub max_instructions: Option<u64>,
    /// Nanoseconds, as the program counts them, after which a run is given up; `None` for no limit.
    pub max_ns: Option<u64>,
    /// Instructions that a hart executes before the next one has its turn, 64 at least.
    pub slice: u64,
    /// Bytes of the first thread's stack.
    pub stack_size: u64,
    /// Bytes of memory that the program may write to.
    pub memory_bytes: u64,
    /// Seed of the random numbers that the program gets.
    pub seed: u64,
    /// Destination of the program's standard streams.
    pub output: Output,
    /// Source of the program's standard input.
    pub input: Input,
    /// The folder in which relative names of files begin, and the only one in which files may be
    /// written. `None`: the program sees no files but those that are allowed.
    pub folder: Option<PathBuf>,
    /// Files, and folders with all that is in them, that the program may read, too. So it may its arguments if they are
    /// names of files.
    pub allowed: Vec<PathBuf>,
    /// The folder that stands for `/` where a dynamically linked program looks for its libraries.
    pub libraries: Option<PathBuf>,
    /// Ends the run.
    pub stop: Option<Arc<Stop>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            harts: 64,
            max_instructions: None,
            max_ns: None,
            slice: 10_000,
            stack_size: 8 << 20,
            memory_bytes: 16 << 30,
            seed: 0,
            output: Output::PassOn,
            input: Input::Empty,
            folder: None,
            allowed: Vec::new(),
            libraries: None,
            stop: None,
        }
    }
}

/// End of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// With this exit code.
    Exit(i32),
    /// By a signal that it has sent itself and does not handle.
    Killed(i32),
}

impl End {
    /// The exit status that a shell reports.
    pub const fn status(self) -> i32 {
        match self {
            End::Exit(code) => code & 0xff,
            End::Killed(signal) => 128 + signal,
        }
    }
}

/// A signal by number and, if it has one, name: `signal 6 (SIGABRT)`.
pub fn signal_text(signal: i32) -> String {
    match signal_name(signal) {
        Some(name) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code, or signal.
    pub end: End,
    /// Hart and function that ended the program.
    pub place: String,
    /// Instructions that all harts executed together.
    pub instructions: u64,
    /// Nanoseconds that the program believes to have run: instructions, and times of sleep.
    pub time_ns: u64,
    /// Standard output, if it was captured.
    pub stdout: Vec<u8>,
    /// Standard error, if output was captured.
    pub stderr: Vec<u8>,
    /// Requests of the program that were refused, once each.
    pub warnings: Vec<String>,
}

/// Runs `program`, the bytes of an ELF file, to its end. `args` begins with its name.
pub fn run(
    program: &[u8],
    args: &[String],
    env: &[String],
    options: &Options,
) -> Result<Outcome, RunError> {
    let mut host = LocalHost::new(options.harts, options.output, options.folder.as_deref());
    host.memory_bytes = options.memory_bytes;
    host.input = options.input;
    host.allow_arguments(args);
    for path in &options.allowed {
        host.allow(path).map_err(|error| RunError::Allowed(path.clone(), error.to_string()))?;
    }
    if let Some(path) = &options.libraries {
        let refused = |error: io::Error| RunError::Libraries(path.clone(), error.to_string());
        host.set_libraries(path).map_err(refused)?;
    }
    let mut space = AddressSpace::new();
    let image = elf::load_with(program, |name| host.linker(name), &mut space)?;
    // Any bytes do, as long as they are the same every time.
    let random =
        core::array::from_fn(|index| (options.seed as u8) ^ (index as u8).wrapping_mul(37));
    let sp = stack::set_up(&mut space, options.stack_size, &image, args, env, random)?;
    space.limit(options.memory_bytes);
    let program =
        Program { args: args.to_vec(), env: env.to_vec(), stack_bytes: options.stack_size };
    let kernel = Kernel::new(image.end, options.seed).with_program(program);
    Engine::new(space, image, sp, kernel, host, options).run()
}
