//! Random integer, memory, atomic and control instructions, full and compressed: registers and
//! memory at the end as QEMU has them.

use rackmem_riscv::{decode, disassemble};

use crate::support::generate::{DUMP, WINDOW, generate};
use crate::support::qemu::{QEMU, by_qemu, by_us, fingerprint, have, write};

/// Steps of one program, of one to three instructions.
const LENGTH: usize = 3000;

/// Fingerprints of what the programs write in QEMU 7.2, by seed.
const PINNED: [u64; 12] = [
    0x03b6_8f31_8dc4_c884,
    0x6a66_3f52_f92c_afd6,
    0x6dda_99a5_9a21_097f,
    0xfafe_306d_209d_21a7,
    0x6e74_c8b0_b66d_1d98,
    0xa0f9_1501_11a6_a016,
    0xd52f_3735_53d6_4b20,
    0xe312_65bb_92d9_7bfb,
    0x7eb7_7a70_248f_8756,
    0xe469_1952_a47a_f5fe,
    0xf3e4_a88c_962a_f843,
    0x8f12_246f_df00_c891,
];

#[test]
fn random_programs_end_as_they_did_in_qemu() {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let ours = std::array::from_fn(|seed| {
        let program = generate(seed as u64, LENGTH).0;
        fingerprint(&by_us(&write(folder.path(), "random", &program.elf()), &[]))
    });
    assert_eq!(ours, PINNED, "{ours:#x?}");
}

#[test]
fn random_programs_end_as_in_qemu() {
    if !have(&[QEMU]) {
        return;
    }
    for seed in 0..PINNED.len() as u64 {
        if agree(seed, LENGTH) {
            continue;
        }
        // The shortest beginning that differs ends with the culprit.
        let (mut same, mut different) = (0, LENGTH);
        while different - same > 1 {
            let middle = (same + different) / 2;
            *(if agree(seed, middle) { &mut same } else { &mut different }) = middle;
        }
        let last = disassembly(&generate(seed, different).1);
        panic!("seed {seed}: after step {different}, {last:?}, the ends differ");
    }
}

/// Whether the first steps of a program leave the same registers and memory behind.
fn agree(seed: u64, steps: usize) -> bool {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let path = write(folder.path(), "random", &generate(seed, steps).0.elf());
    let (theirs, ours) = (by_qemu(&path, &[]), by_us(&path, &[]));
    assert_eq!(theirs.stdout.len() as u64, WINDOW + DUMP, "QEMU wrote everything");
    theirs == ours
}

fn disassembly(mut code: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while let [a, b, rest @ ..] = code {
        let upper = rest.first_chunk().map_or(0, |&[c, d]| u16::from_le_bytes([c, d]));
        let inst = decode(u32::from(upper) << 16 | u32::from(u16::from_le_bytes([*a, *b])));
        lines.push(disassemble(&inst, 0).to_string());
        code = &code[usize::from(inst.len)..];
    }
    lines
}
