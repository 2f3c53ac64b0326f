//! The stack of a program at its start, repeatable runs, stored code, and the files of a run.

use rackmem_riscv::encode::{i, j, opcode};
use rackmem_riscv::functional::{End, Options, Outcome, Output, run};

use crate::support::asm::{A0, A1, A2, DATA, Program};

const SP: u32 = 2;

fn outcome(program: &Program, args: &[&str], env: &[&str], options: &Options) -> Outcome {
    let strings = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    run(&program.elf(), &strings(args), &strings(env), options).expect("the program runs")
}

fn captured() -> Options {
    Options { output: Output::Capture, max_instructions: Some(1_000_000), ..Options::default() }
}

/// Writes the stack as it is at the start.
fn stack_dump(length: i32) -> Program {
    let mut program = Program { data: vec![0; 8], ..Program::default() };
    program.addi(A1, SP, 0);
    program.li(A0, 1);
    program.li(A2, length);
    program.ecall(64);
    program.exit(7);
    program
}

#[test]
fn the_stack_holds_arguments_environment_and_auxiliary_vector() {
    const LENGTH: usize = 42 * 8;
    let outcome =
        outcome(&stack_dump(LENGTH as i32), &["name", "one"], &["KEY=value"], &captured());
    assert_eq!(outcome.end, End::Exit(7));
    let words: Vec<u64> =
        outcome.stdout.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!((words[0], words[3], words[5]), (2, 0, 0), "argc, ends of argv and envp");
    let auxiliary: Vec<(u64, u64)> =
        words[6..40].chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let value = |key| auxiliary.iter().find(|(k, _)| *k == key).expect("the entry is there").1;
    const PAGESZ: u64 = 6;
    const PHENT: u64 = 4;
    const PHNUM: u64 = 5;
    const ENTRY: u64 = 9;
    const HWCAP: u64 = 16;
    const EXECFN: u64 = 31;
    assert_eq!((value(PAGESZ), value(PHENT), value(PHNUM)), (4096, 56, 2));
    assert_eq!(value(ENTRY), 0x1_0000);
    assert_eq!(value(HWCAP), 0x112d, "the letters I, M, A, F, D, C");
    assert_eq!(value(EXECFN), words[1]);
    assert_eq!(auxiliary.last(), Some(&(0, 0)));
}

#[test]
fn runs_repeat() {
    // 64 random bytes to standard output.
    let mut program = Program { data: vec![0; 64], ..Program::default() };
    program.li(A0, DATA as i32);
    program.li(A1, 64);
    program.li(A2, 0);
    program.ecall(278);
    program.write_and_exit(DATA, 64);
    let options = |seed| Options { seed, ..captured() };
    let first = outcome(&program, &[], &[], &options(1));
    assert_eq!(first, outcome(&program, &[], &[], &options(1)));
    assert_ne!(first.stdout, outcome(&program, &[], &[], &options(2)).stdout);
}

#[test]
fn counters_count_instructions() {
    // rdinstret twice with one instruction between; exits with the difference.
    let mut program = Program { data: vec![0; 8], ..Program::default() };
    let rdinstret = |rd| i(opcode::SYSTEM, 2, rd, 0, 0xc02);
    program.word(rdinstret(A1));
    program.addi(0, 0, 0);
    program.word(rdinstret(A2));
    program.word(rackmem_riscv::encode::r(opcode::OP, 0, 0x20, A0, A2, A1));
    program.li(17, 94);
    program.word(0x73);
    assert_eq!(outcome(&program, &[], &[], &captured()).end, End::Exit(2));
}

/// Code that changes itself is seen after `fence.i`.
#[test]
fn stored_code_is_executed() {
    let mut program = Program { data: vec![0; 16], ..Program::default() };
    // mmap(0, 4096, RWX, PRIVATE | ANONYMOUS)
    program.li(10, 0);
    program.li(11, 4096);
    program.li(12, 7);
    program.li(13, 0x22);
    program.li(14, -1);
    program.li(15, 0);
    program.ecall(222);
    program.addi(8, 10, 0);
    for value in [1, 2] {
        // `addi a0,a0,value; ret` into the page, then called.
        for (offset, word) in
            [i(opcode::OP_IMM, 0, 10, 10, value), i(opcode::JALR, 0, 0, 1, 0)].iter().enumerate()
        {
            program.li(5, *word as i32);
            program.word(rackmem_riscv::encode::s(opcode::STORE, 2, 8, 5, 4 * offset as i32));
        }
        program.word(0x0000_100f);
        program.addi(10, 9, 0);
        program.word(i(opcode::JALR, 0, 1, 8, 0));
        program.addi(9, 10, 0);
    }
    program.word(j(0, 4));
    program.addi(10, 9, 0);
    program.li(17, 94);
    program.word(0x73);
    assert_eq!(outcome(&program, &[], &[], &captured()).end, End::Exit(3));
}

#[test]
fn unknown_calls_warn_once() {
    let mut program = Program { data: vec![0; 8], ..Program::default() };
    program.ecall(39);
    program.ecall(39);
    program.exit(0);
    let warnings = outcome(&program, &[], &[], &captured()).warnings;
    assert_eq!(warnings, ["system call 39 (umount2) is not implemented; the program gets ENOSYS"]);
}

/// Creates the file whose name is in its data, writes the name to it; exits with what `openat`
/// returned, or 0 if that was a descriptor.
fn writer(name: &str) -> Program {
    const AT_FDCWD: i32 = -100;
    const CREATE_AND_WRITE: i32 = 0o101;
    let mut program = Program::default();
    program.data.extend(name.as_bytes());
    program.data.resize(4096, 0);
    program.li(A0, AT_FDCWD);
    program.li(A1, DATA as i32);
    program.li(A2, CREATE_AND_WRITE);
    program.ecall(56);
    // A descriptor is not negative: then the jump to the exit is skipped.
    program.word(rackmem_riscv::encode::b(5, A0, 0, 16));
    program.li(17, 94);
    program.word(0x73);
    program.li(A1, DATA as i32);
    program.li(A2, name.len() as i32);
    program.ecall(64);
    program.exit(0);
    program
}

#[test]
fn files_are_written_in_the_folder_of_the_run_only() {
    const EROFS: i32 = 30;
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let inside = Options { folder: Some(folder.path().to_owned()), ..captured() };
    assert_eq!(outcome(&writer("result"), &[], &[], &inside).end, End::Exit(0));
    let written = std::fs::read(folder.path().join("result")).expect("it was written");
    assert_eq!(written, b"result");
    for (name, options) in [("../result", &inside), ("/result", &inside), ("result", &captured())] {
        let outcome = outcome(&writer(name), &[], &[], options);
        assert_eq!(outcome.end, End::Exit(-EROFS), "{name}");
        assert_eq!(outcome.warnings.len(), 1);
    }
}
