//! Runs a static RV64GC program: `cargo run -p rackmem-riscv --example run -- prog.rv64 args...`
//!
//! Says on standard error how many instructions it was, and how fast.

use std::process::ExitCode;
use std::time::Instant;

use rackmem_riscv::functional::{Input, Options, run};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = args.first() else {
        eprintln!("usage: run PROGRAM [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let program = match std::fs::read(path) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let folder = std::env::current_dir().ok();
    let options = Options { input: Input::PassOn, folder, ..Options::default() };
    match run(&program, &args, &[], &options) {
        Ok(outcome) => {
            let rate = outcome.instructions as f64 / started.elapsed().as_secs_f64() / 1e6;
            eprintln!("{} instructions, {rate:.0} million a second", outcome.instructions);
            ExitCode::from(outcome.end.status() as u8)
        }
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::from(1)
        }
    }
}
