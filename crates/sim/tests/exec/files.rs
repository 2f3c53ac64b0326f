//! Files that a run depends on.

use rackmem_riscv::encode::{i, opcode, u};
use rackmem_sim::exec::Options;
use rackmem_sim::recipe::fingerprint;

use super::ends::{ECALL, li};
use super::guest::Guest;
use super::load;

/// A program that opens a file to read it, then makes it, if need be, and ends well in any case.
fn reads_and_makes(name: &[u8; 8]) -> Guest {
    const AT_FDCWD: i32 = -100;
    const CREATE_AND_WRITE: i32 = 0o101;
    const OPENAT: i32 = 56;
    const MODE: i32 = 0o644;
    let (a0, a1, a2, a3, a7) = (10, 11, 12, 13, 17);
    let words = 13;
    let mut code =
        vec![u(opcode::AUIPC, a1, 0), i(opcode::OP_IMM, 0, a1, a1, 4 * words), li(a7, OPENAT)];
    code.push(li(a3, MODE));
    for flags in [0, CREATE_AND_WRITE] {
        code.extend([li(a0, AT_FDCWD), li(a2, flags), ECALL]);
    }
    code.extend([li(a0, 0), li(a7, 94), ECALL]);
    assert_eq!(code.len(), words as usize);
    code.extend(name.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)));
    Guest::code(2, &code)
}

#[test]
fn files_that_were_read_and_files_that_were_missing_are_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = || {
        let guest = reads_and_makes(b"input\0\0\0");
        let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
        let outcome = guest.run(&load("sonuma", &[]), options);
        assert!(outcome.failed().is_none(), "{outcome:?}");
        outcome.inputs
    };
    let name = || "input".to_owned();
    assert_eq!(inputs(), [(name(), String::new())].into(), "it was missing at first");
    assert_eq!(inputs(), [(name(), fingerprint(b""))].into());
}
