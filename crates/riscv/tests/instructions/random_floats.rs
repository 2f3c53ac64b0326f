//! Every floating-point instruction with random operands, rounding modes and flags raised before:
//! result and flags as QEMU has them.

use rackmem_riscv::encode::{i, opcode, r, r4, s};
use rackmem_riscv::{decode, disassemble};

use crate::support::asm::{A0, DATA, Program};
use crate::support::qemu::{QEMU, by_qemu, by_us, fingerprint, have, write};
use crate::support::rng::Rng;

/// Instructions of one program.
const CASES: usize = 4000;

/// Three floating-point operands and an integer one.
const IN: usize = 4 * 8;

/// Both possible results, and the flags.
const OUT: usize = 3 * 8;

/// Pointers to operands and results.
const FROM: u32 = 5;
const TO: u32 = 6;
const MODE: u32 = 7;

const FD: u32 = 10;
const RD: u32 = 20;

/// Fingerprints of the results in QEMU 7.2, by seed.
const PINNED: [u64; 4] =
    [0xff5f_1958_36f9_5257, 0x2e90_18f5_9208_27cb, 0x8099_7621_f737_1929, 0x2971_a317_1dc0_cfe2];

#[test]
fn results_and_flags_are_what_they_were_in_qemu() {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let ours = std::array::from_fn(|seed| {
        let program = generate(seed as u64).0;
        fingerprint(&by_us(&write(folder.path(), "floats", &program.elf()), &[]))
    });
    assert_eq!(ours, PINNED, "{ours:#x?}");
}

#[test]
fn results_and_flags_are_those_of_qemu() {
    if !have(&[QEMU]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    for seed in 0..PINNED.len() as u64 {
        let (program, cases) = generate(seed);
        let path = write(folder.path(), &format!("floats-{seed}"), &program.elf());
        let (theirs, ours) = (by_qemu(&path, &[]), by_us(&path, &[]));
        assert_eq!(theirs.stdout.len(), CASES * OUT, "QEMU wrote all results");
        for (case, (theirs, ours)) in
            cases.iter().zip(theirs.stdout.chunks(OUT).zip(ours.stdout.chunks(OUT)))
        {
            assert_eq!(words(theirs), words(ours), "seed {seed}: {case}");
        }
        assert_eq!(theirs, ours);
    }
}

fn words(bytes: &[u8]) -> Vec<String> {
    bytes
        .chunks(8)
        .map(|b| format!("{:#018x}", u64::from_le_bytes(b.try_into().unwrap())))
        .collect()
}

/// A program, and what its cases are.
fn generate(seed: u64) -> (Program, Vec<String>) {
    let mut rng = Rng::new(seed);
    let mut program = Program::default();
    let results = DATA + (CASES * IN) as u64;
    program.li(FROM, DATA as i32);
    program.li(TO, results as i32);
    let cases = (0..CASES).map(|_| case(&mut program, &mut rng)).collect();
    program.write_and_exit(results, (CASES * OUT) as u64);
    program.data.resize(CASES * (IN + OUT), 0);
    (program, cases)
}

/// One instruction with its operands; returns what to call it.
fn case(program: &mut Program, rng: &mut Rng) -> String {
    let double = rng.below(2) == 1;
    let word = instruction(rng, double);
    let is_from_double = double != (word >> 27 == 0x08);
    let operands: [u64; 3] =
        std::array::from_fn(|_| if is_from_double { rng.double() } else { rng.single() });
    let integer = rng.integer();
    for value in operands.into_iter().chain([integer]) {
        program.data.extend(value.to_le_bytes());
    }
    let before = rng.pick(&[0, 0, 1, 1, 0x1f, 0x1e]);
    let mode = rng.below(5);
    program.addi(MODE, 0, (mode << 5 | before) as i32);
    program.word(i(opcode::SYSTEM, 1, 0, MODE, 3));
    program.fld(1, FROM, 0);
    program.fld(2, FROM, 8);
    program.fld(3, FROM, 16);
    program.ld(A0, FROM, 24);
    program.addi(FROM, FROM, IN as i32);
    program.word(word);
    program.fsd(FD, TO, 0);
    program.sd(RD, TO, 8);
    program.word(i(opcode::SYSTEM, 2, MODE, 0, 1));
    program.word(s(opcode::STORE, 3, TO, MODE, 16));
    program.addi(TO, TO, OUT as i32);
    format!(
        "{} of {operands:#018x?} and {integer:#x}, mode {mode}, flags {before:#x} before",
        disassemble(&decode(word), 0)
    )
}

/// Any floating-point instruction of `f1`, `f2`, `f3` or `a0` to `fa0` or `s4`.
fn instruction(rng: &mut Rng, double: bool) -> u32 {
    const TO_INT: [u32; 2] = [0x60, 0x70];
    let format = u32::from(double);
    let rm = rng.pick(&[0, 1, 2, 3, 4, 7, 7, 7, 0, 0]);
    let fused = [opcode::MADD, opcode::MSUB, opcode::NMSUB, opcode::NMADD];
    let op = |funct7: u32, rm, rs1, rs2| r(opcode::OP_FP, rm, funct7 | format, FD, rs1, rs2);
    let to_int = |funct7: u32, rm, rs2| r(opcode::OP_FP, rm, funct7 | format, RD, 1, rs2);
    match rng.below(20) {
        0..5 => op(rng.pick(&[0x00, 0x04]), rm, 1, 2),
        5..7 => op(0x08, rm, 1, 2),
        7..9 => op(0x0c, rm, 1, 2),
        9 => op(0x2c, rm, 1, 0),
        10..13 => r4(rng.pick(&fused), rm, format, FD, 1, 2, 3),
        13 => op(0x10, rng.below(3) as u32, 1, 2),
        14 => op(0x14, rng.below(2) as u32, 1, 2),
        15 => to_int(0x50, rng.below(3) as u32, 2),
        16 => to_int(TO_INT[0], rm, rng.below(4) as u32),
        17 => op(0x68, rm, A0, rng.below(4) as u32),
        18 => r(opcode::OP_FP, rm, 0x20 | format, FD, 1, 1 - format),
        _ => match rng.below(3) {
            0 => to_int(TO_INT[1], 0, 0),
            1 => to_int(TO_INT[1], 1, 0),
            _ => op(0x78, 0, A0, 0),
        },
    }
}
