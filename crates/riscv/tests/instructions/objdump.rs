//! Decoder and disassembler against GNU objdump.

use std::process::Command;

use rackmem_riscv::encode::opcode;
use rackmem_riscv::{Class, Op, decode, disassemble, length};

use crate::support::qemu::have;
use crate::support::rng::Rng;

const OBJDUMP: &str = "riscv64-linux-gnu-objdump";

/// Texts of instructions by objdump, for code that begins at 0.
fn objdump(code: &[u8]) -> Vec<(u64, String)> {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let path = folder.path().join("code");
    std::fs::write(&path, code).expect("the folder can be written");
    let output = Command::new(OBJDUMP)
        .args(["-D", "-z", "-b", "binary", "-m", "riscv:rv64"])
        .arg(&path)
        .output()
        .expect("objdump starts");
    let text = String::from_utf8(output.stdout).expect("objdump writes text");
    text.lines().filter_map(line).collect()
}

/// A line has address, bytes and text between tabs. Comments and names of targets are left out.
fn line(line: &str) -> Option<(u64, String)> {
    let mut columns = line.split('\t');
    let address = columns.next()?.trim().strip_suffix(':')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let _bytes = columns.next()?;
    let words: Vec<&str> = columns.take_while(|c| !c.starts_with('#')).map(str::trim).collect();
    let text = words.join(" ");
    let text = text.split(" #").next().unwrap_or_default();
    Some((address, text.split(" <").next().unwrap_or_default().trim().to_owned()))
}

/// Versions of objdump differ in whether the name of an operation says that it is an immediate one.
fn normal(text: &str) -> String {
    const NAMES: [&str; 13] = [
        "addi", "xori", "ori", "andi", "slli", "srli", "srai", "addiw", "slliw", "srliw", "sraiw",
        "slti", "sltiu",
    ];
    match text.split_once(' ') {
        Some((name, rest)) if NAMES.contains(&name) => format!("{} {rest}", name.replace('i', "")),
        _ => text.to_owned(),
    }
}

/// Compares every instruction of `code`; returns how many that were. What is illegal here may be
/// of another extension there. Hints, and fences with bits that are reserved and ignored, are
/// shown in other ways.
fn compare(code: &[u8]) -> usize {
    let mut compared = 0;
    let mut differing = Vec::new();
    for (at, theirs) in objdump(code) {
        let bytes = &code[at as usize..];
        let upper = bytes[2..].first_chunk().map_or(0, |&half| u16::from_le_bytes(half));
        let word = u32::from(upper) << 16 | u32::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let inst = decode(word);
        let adds_nothing = inst.op == Op::Addi && inst.imm == 0 && inst.rd == inst.rs1;
        let is_hint = theirs.starts_with("c.") || inst.len == 2 && adds_nothing;
        let is_odd_fence = inst.class() == Class::Fence && theirs.starts_with(".4byte");
        if inst.op == Op::Illegal || is_hint || is_odd_fence {
            continue;
        }
        compared += 1;
        let ours = disassemble(&inst, at).to_string();
        if normal(&ours) != normal(&theirs) {
            differing.push(format!("{:#x}: {ours} | {theirs}", inst.raw));
        }
    }
    let count = differing.len();
    assert!(differing.is_empty(), "{count}: {:#?}", &differing[..count.min(40)]);
    compared
}

#[test]
fn compressed_instructions_are_those_of_objdump() {
    if !have(&[OBJDUMP]) {
        return;
    }
    let halves = (0..=u16::MAX).filter(|&half| length(half) == 2);
    let code: Vec<u8> = halves.flat_map(u16::to_le_bytes).collect();
    let compared = compare(&code);
    assert!(compared > 40_000, "{compared}");
}

#[test]
fn full_instructions_are_those_of_objdump() {
    const MAJORS: [u32; 20] = [
        opcode::LOAD,
        opcode::LOAD_FP,
        opcode::MISC_MEM,
        opcode::OP_IMM,
        opcode::AUIPC,
        opcode::OP_IMM_32,
        opcode::STORE,
        opcode::STORE_FP,
        opcode::AMO,
        opcode::OP,
        opcode::LUI,
        opcode::OP_32,
        opcode::MADD,
        opcode::MSUB,
        opcode::NMSUB,
        opcode::NMADD,
        opcode::OP_FP,
        opcode::BRANCH,
        opcode::JALR,
        opcode::JAL,
    ];
    if !have(&[OBJDUMP]) {
        return;
    }
    let mut rng = Rng::new(1);
    let words = (0..20_000).map(|_| {
        // Upper bits that most encodings want.
        let upper = rng.pick(&[0, 0x0200_0000, 0x4000_0000]);
        let word = rng.next() as u32;
        let word = if rng.below(2) == 0 { word } else { word & 0x01ff_ffff | upper };
        word & !0x7f | rng.pick(&MAJORS)
    });
    let code: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let compared = compare(&code);
    assert!(compared > 10_000, "{compared}");
}
