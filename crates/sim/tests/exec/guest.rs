//! Programs as tests execute them: loaded once, then run, taken to a checkpoint, or moved from machine to machine.

use std::path::Path;

use rackmem_sim::engine::Cycle;
use rackmem_sim::exec::part::{self, Begun, Part};
use rackmem_sim::exec::{self, Checkpoint, ExecError, Job, Options, Outcome, Session, Until};
use rackmem_sim::machine::Machine;

/// A program, its arguments, and the number of nodes that execute it.
pub(super) struct Guest {
    program: Vec<u8>,
    args: Vec<String>,
    nodes: u16,
}

impl Guest {
    /// A ready-built program, whose name is the first argument.
    pub fn prebuilt(nodes: u16, args: &[&str]) -> Guest {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/prebuilt");
        let file = folder.join(format!("{}.rv64", args[0]));
        let program = std::fs::read(file).expect("a ready-built program");
        Guest { program, args: args.iter().map(|&arg| arg.to_owned()).collect(), nodes }
    }

    /// A program of these instructions.
    pub fn code(nodes: u16, code: &[u32]) -> Guest {
        Guest::elf(nodes, elf(code))
    }

    /// A program that is an ELF file.
    pub fn elf(nodes: u16, program: Vec<u8>) -> Guest {
        Guest { program, args: vec!["test".to_owned()], nodes }
    }

    pub fn job(&self) -> Job<'_> {
        Job { program: &self.program, args: &self.args, env: &[], nodes: self.nodes }
    }

    pub fn run(&self, machine: &Machine, options: Options<'_>) -> Outcome {
        exec::run(machine, &[self.job()], options).expect("a program and a machine that fit")
    }

    /// Runs the program for 50 million cycles at most.
    pub fn execute(&self, machine: &Machine) -> Outcome {
        self.run(machine, limited(50_000_000))
    }

    /// Runs the program with timing in a part only.
    pub fn run_part(&self, machine: &Machine, part: Part, options: Options<'_>) -> Outcome {
        part::run(machine, &[self.job()], part, options).expect("a program and a machine that fit")
    }

    pub fn session(&self, machine: &Machine, options: &Options<'_>) -> Session {
        Session::new(machine, &[self.job()], options).expect("a program and a machine that fit")
    }

    /// Takes a checkpoint where a part begins.
    pub fn checkpoint(
        &self,
        machine: &Machine,
        part: Part,
        options: Options<'_>,
    ) -> Result<Checkpoint, ExecError> {
        match part::checkpoint(machine, &[self.job()], part, options)? {
            Begun::Checkpoint(checkpoint) => Ok(*checkpoint),
            Begun::Ended(outcome) => panic!("{:?} has ended: {outcome:?}", self.args),
        }
    }

    /// Takes a checkpoint each time so many instructions were executed without timing, and goes on from the checkpoint
    /// and on the machine that `next` returns.
    pub fn hop<'a>(
        &self,
        machine: &Machine,
        every: u64,
        mut next: impl FnMut(&Session, Checkpoint) -> (&'a Machine, Checkpoint),
    ) -> Outcome {
        let mut options = options();
        let mut session = self.session(machine, &options);
        while session.fast_forward(at(session.instructions() + every), &mut options) {
            let checkpoint = session.checkpoint(&[self.job()], Part::Whole, &mut options).unwrap();
            let (machine, checkpoint) = next(&session, checkpoint);
            session = Session::restore(machine, &checkpoint, &options).unwrap();
        }
        session.finish(options)
    }
}

/// A static ELF file of these instructions.
pub(super) fn elf(code: &[u32]) -> Vec<u8> {
    const BASE: u64 = 0x1_0000;
    let header_bytes = 64 + 56;
    let length = header_bytes + 4 * code.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2u16, 243].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    let entry = BASE + header_bytes;
    file.extend([entry, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(5u32.to_le_bytes());
    file.extend([64u16, 56, 1, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    file.extend([1u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([0, BASE, BASE, length, length, 0x1000].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    file
}

/// Options of a run that ends after this cycle at the latest.
pub(super) fn limited(max_cycles: Cycle) -> Options<'static> {
    Options { max_cycles: Some(max_cycles), ..Options::default() }
}

/// Options of a long run.
pub(super) fn options() -> Options<'static> {
    limited(500_000_000)
}

/// The end of a piece, at so many instructions of all cores.
pub(super) fn at(instructions: u64) -> Until<'static> {
    Until { instructions: Some(instructions), ..Until::default() }
}

/// The part of a program after so many instructions.
pub(super) fn from(after: u64) -> Part {
    Part::Instructions { after, count: None }
}

/// A checkpoint that was written to a file and read again.
pub(super) fn through_a_file(checkpoint: &Checkpoint) -> Checkpoint {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    checkpoint.write(&mut file).unwrap();
    Checkpoint::read(file.path()).unwrap()
}

/// Goes on from a checkpoint to the end of the program.
pub(super) fn rest(machine: &Machine, checkpoint: &Checkpoint) -> Result<Outcome, String> {
    let rest = part::restore(machine, checkpoint, Part::Whole, options());
    rest.map_err(|error| error.to_string())
}
