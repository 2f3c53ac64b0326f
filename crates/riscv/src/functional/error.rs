//! Errors of a run: the reason, and the place in the program.

use core::fmt;
use std::path::PathBuf;

use crate::elf::LoadError;
use crate::space::{Fault, Permissions};
use crate::stack::STACK_TOP;

/// Errors of [`run`](super::run).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The file is not a program that can be run.
    Load(LoadError),
    /// A file that the program is to be allowed is not there.
    Allowed(PathBuf, String),
    /// The folder of libraries is none.
    Libraries(PathBuf, String),
    /// The program did something that ends it.
    Failure(Box<Failure>),
}

/// Place and reason of a program's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of the hart.
    pub hart: usize,
    /// Address of the instruction.
    pub pc: u64,
    /// The same with the function that holds it.
    pub location: String,
    /// The instruction, if there is one at that address.
    pub instruction: Option<String>,
    /// Instructions that all harts had executed.
    pub instructions: u64,
    /// Reason of the failure.
    pub why: Why,
}

/// Reasons for a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// An access that is not allowed.
    Fault(Fault),
    /// One just below a stack.
    StackOverflow(Fault),
    /// No instruction of RV64GC user mode.
    Illegal,
    /// `ebreak`.
    Breakpoint,
    /// It executed as many instructions as it may.
    TooLong(u64),
    /// It has run for as many nanoseconds as it may.
    TooLate(u64),
    /// It has misused a device. The text says what is wrong, where, and what to do.
    Misuse(String),
    /// All threads wait, and none is left to wake them.
    Deadlock,
    /// It was asked to end.
    Interrupted,
}

impl Why {
    /// The reason for a fault, given the stack pointer and the permissions of the page. A fault that
    /// looks like a stack that was too small is a [`Why::StackOverflow`].
    pub fn of(fault: Fault, sp: u64, stack_size: u64, page: Option<Permissions>) -> Why {
        /// Farthest first access of a function below its stack pointer, in bytes.
        const NEAR: u64 = 1 << 20;
        let bottom = STACK_TOP - stack_size;
        let below_main_stack = (bottom - NEAR..bottom).contains(&fault.address);
        let in_guard = page.is_some_and(|page| !page.read && !page.write);
        if (below_main_stack || in_guard) && fault.address.abs_diff(sp) < NEAR {
            return Why::StackOverflow(fault);
        }
        Why::Fault(fault)
    }
}

impl From<LoadError> for RunError {
    fn from(error: LoadError) -> Self {
        RunError::Load(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Load(error) => error.fmt(f),
            RunError::Allowed(path, error) | RunError::Libraries(path, error) => {
                write!(f, "{}: {error}", path.display())
            }
            RunError::Failure(failure) => failure.fmt(f),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hart {} at {}", self.hart, self.location)?;
        if let Some(instruction) = &self.instruction {
            write!(f, " ({instruction})")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Fault(fault) => fault.fmt(f),
            Why::StackOverflow(fault) => write!(f, "the stack has overflowed: {fault}"),
            Why::Illegal => f.write_str("no instruction of RV64GC in user mode"),
            Why::Breakpoint => f.write_str("a breakpoint, and no debugger"),
            Why::TooLong(limit) => write!(f, "not at its end after {limit} instructions"),
            Why::TooLate(limit) => write!(f, "not at its end after {limit} ns"),
            Why::Misuse(what) => f.write_str(what),
            Why::Deadlock => f.write_str("all threads wait for each other"),
            Why::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl core::error::Error for RunError {}
