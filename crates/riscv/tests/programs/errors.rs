//! Errors are reported once, with place and reason.

use proptest::prelude::*;
use rackmem_riscv::elf::LoadError;
use rackmem_riscv::encode::{b, i, j, opcode, r, s, u};
use rackmem_riscv::functional::{Options, Output, RunError, run};

use crate::support::asm::{CODE, DATA, Program};

fn error_of(file: &[u8], options: &Options) -> String {
    match run(file, &["test".into()], &[], options) {
        Ok(outcome) => panic!("it ended with {:?}", outcome.end),
        Err(error) => error.to_string(),
    }
}

/// The error of a program of these words.
fn error(words: &[u32]) -> String {
    let mut program = Program { data: vec![0; 4096], ..Program::default() };
    words.iter().for_each(|&word| program.word(word));
    error_of(&program.elf(), &quiet())
}

fn quiet() -> Options {
    Options { output: Output::Capture, max_instructions: Some(1000), ..Options::default() }
}

const LD_A0_8_A1: u32 = i(opcode::LOAD, 3, 10, 11, 8);

#[test]
fn wild_pointers() {
    assert_eq!(
        error(&[LD_A0_8_A1]),
        "hart 0 at 0x10000 (ld a0,8(a1)): load from 0x8: nothing is mapped there"
    );
    let negative = [i(opcode::OP_IMM, 0, 11, 0, -16), s(opcode::STORE, 3, 11, 10, 0)];
    assert_eq!(
        error(&negative),
        "hart 0 at 0x10004 (sd a0,0(a1)): store to 0xfffffffffffffff0: nothing is mapped there"
    );
    let to_code = [u(opcode::AUIPC, 11, 0), s(opcode::STORE, 0, 11, 10, 1)];
    assert_eq!(
        error(&to_code),
        "hart 0 at 0x10004 (sb a0,1(a1)): store to 0x10001: the page may not be written"
    );
}

#[test]
fn wild_jumps() {
    assert_eq!(
        error(&[i(opcode::JALR, 0, 1, 0, 16)]),
        "hart 0 at 0x10: instruction fetch from 0x10: nothing is mapped there"
    );
    let to_data = [u(opcode::LUI, 5, DATA as i32), i(opcode::JALR, 0, 0, 5, 0)];
    assert_eq!(
        error(&to_data),
        "hart 0 at 0x400000: instruction fetch from 0x400000: the page holds no code"
    );
    // Off the end of the page.
    assert_eq!(
        error(&[i(opcode::OP_IMM, 0, 0, 0, 0), j(0, 0x1ffc)]),
        "hart 0 at 0x12000: instruction fetch from 0x12000: nothing is mapped there"
    );
}

#[test]
fn illegal_instructions() {
    assert_eq!(
        error(&[0xffff_ffff]),
        "hart 0 at 0x10000 (.4byte 0xffffffff): no instruction of RV64GC in user mode"
    );
    assert_eq!(error(&[0x0010_0073]), "hart 0 at 0x10000 (ebreak): a breakpoint, and no debugger");
    let reserved_mode = [i(opcode::SYSTEM, 5, 0, 5, 2), r(opcode::OP_FP, 7, 1, 0, 0, 0)];
    assert_eq!(
        error(&reserved_mode),
        "hart 0 at 0x10004 (fadd.d ft0,ft0,ft0): no instruction of RV64GC in user mode"
    );
}

#[test]
fn misaligned_atomics() {
    let words = [u(opcode::LUI, 5, DATA as i32), i(opcode::OP_IMM, 0, 5, 5, 2)];
    let amo = r(opcode::AMO, 2, 0, 10, 5, 11);
    assert_eq!(
        error(&[words[0], words[1], amo]),
        "hart 0 at 0x10008 (amoadd.w a0,a1,(t0)): misaligned atomic at 0x400002"
    );
}

#[test]
fn overflowing_stacks() {
    // A function that pushes and calls itself.
    let words = [i(opcode::OP_IMM, 0, 2, 2, -512), s(opcode::STORE, 3, 2, 1, 0), j(1, -8)];
    let mut program = Program { data: vec![0; 4096], ..Program::default() };
    words.iter().for_each(|&word| program.word(word));
    let options = Options { max_instructions: None, stack_size: 64 << 10, ..quiet() };
    let message = error_of(&program.elf(), &options);
    assert!(message.contains("(sd ra,0(sp)): the stack has overflowed: store to 0x"), "{message}");
}

#[test]
fn programs_without_end() {
    assert_eq!(
        error(&[b(0, 0, 0, 0)]),
        "hart 0 at 0x10000 (beqz zero,0x10000): not at its end after 1000 instructions"
    );
}

#[test]
fn programs_that_take_too_long() {
    let mut program = Program { data: vec![0; 4096], ..Program::default() };
    program.word(b(0, 0, 0, 0));
    let options = Options { max_instructions: None, max_ns: Some(500), ..quiet() };
    assert_eq!(
        error_of(&program.elf(), &options),
        "hart 0 at 0x10000 (beqz zero,0x10000): not at its end after 500 ns"
    );
}

#[test]
fn programs_that_all_wait() {
    let mut program = Program { data: vec![0; 4096], ..Program::default() };
    program.li(10, DATA as i32);
    program.li(11, 0);
    program.li(12, 0);
    program.li(13, 0);
    program.ecall(98); // futex(DATA, FUTEX_WAIT, 0, NULL)
    let message = error_of(&program.elf(), &quiet());
    assert!(message.ends_with("all threads wait for each other"), "{message}");
}

#[test]
fn files_that_are_no_programs() {
    let load = |file: &[u8]| match run(file, &[], &[], &quiet()) {
        Err(RunError::Load(error)) => error,
        other => panic!("{other:?}"),
    };
    let program = Program { data: vec![0; 16], code: vec![0; 4] }.elf();
    let changed = |at: usize, byte: u8| {
        let mut file = program.clone();
        file[at] = byte;
        load(&file)
    };
    assert!(matches!(load(b"#!/bin/sh\n"), LoadError::Malformed(_)));
    assert!(matches!(load(b"\x7fELF"), LoadError::Not64Bit));
    assert!(matches!(load(&program[..40]), LoadError::Malformed(_)));
    assert!(matches!(load(&program[..0x1002]), LoadError::Malformed(_)));
    assert_eq!(changed(4, 1), LoadError::Not64Bit);
    assert_eq!(changed(5, 2), LoadError::BigEndian);
    assert_eq!(changed(16, 1), LoadError::NotExecutable);
    assert_eq!(changed(18, 62).to_string(), "a program for x86-64; only RV64GC is executed");
    // The first segment becomes an interpreter: PT_INTERP.
    assert!(matches!(changed(64, 3), LoadError::Dynamic(_)));
    // The second segment far away, and too far.
    assert!(matches!(changed(64 + 56 + 23, 0x7f), LoadError::BadSegment(_)));
    // 8 GiB more: it would load, and take its time.
    assert!(matches!(changed(64 + 56 + 44, 2), LoadError::BadSegment(_)));
}

#[test]
fn arguments_that_leave_no_stack() {
    let mut program = Program { data: vec![0; 16], ..Program::default() };
    program.exit(0);
    let program = program.elf();
    let options = Options { stack_size: 1 << 16, ..quiet() };
    let run_with = |args: usize, env: usize| {
        // With its pointer and the byte after it, each takes 16 bytes.
        let strings = |count| vec!["strings".to_owned(); count];
        run(&program, &strings(args), &strings(env), &options)
    };
    assert!(run_with(1000, 24).is_ok());
    let refused = RunError::Load(LoadError::Arguments(16_400, 65_536));
    assert_eq!(run_with(1000, 25), Err(refused.clone()));
    assert_eq!(run_with(1025, 0), Err(refused));
}

#[test]
fn symbols_tell_where() {
    let symbols = rackmem_riscv::Symbols::new(vec![
        (CODE, 16, "main".into()),
        (CODE + 16, 0, "helper".into()),
        (CODE, 0, "_alias".into()),
    ]);
    assert_eq!(symbols.describe(CODE).to_string(), "0x10000 <main>");
    assert_eq!(symbols.describe(CODE + 4).to_string(), "0x10004 <main+0x4>");
    assert_eq!(symbols.describe(CODE + 20).to_string(), "0x10014 <helper+0x4>");
    assert_eq!(symbols.describe(0x10).to_string(), "0x10");
    assert_eq!(symbols.address("helper"), Some(CODE + 16));
}

proptest! {
    /// Damaged headers are refused, or do not matter; nothing panics.
    #[test]
    fn damaged_files_do_no_harm(
        changes in prop::collection::vec((0usize..176, any::<u8>()), 1..8)
    ) {
        let mut program = Program { data: vec![0; 16], ..Program::default() };
        program.exit(0);
        let mut file = program.elf();
        for (at, byte) in changes {
            file[at] = byte;
        }
        let _ = run(&file, &[], &[], &quiet());
    }
}
