//! The official instruction tests, <https://github.com/riscv-software-src/riscv-tests>, if
//! `RACKMEM_RISCV_TESTS` names a checkout of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::qemu::{by_us, have};

const GCC: &str = "riscv64-linux-gnu-gcc";

const GROUPS: [&str; 6] = ["rv64ui", "rv64um", "rv64ua", "rv64uf", "rv64ud", "rv64uc"];

/// Whether a test is of an extension that RV64GC lacks: atomics of bytes and halves, compare and
/// swap, loads and stores with ordering.
fn is_of_another_extension(name: &str) -> bool {
    let is_narrow_atomic =
        name.starts_with("amo") && (name.ends_with("_b") || name.ends_with("_h"));
    is_narrow_atomic || name.starts_with("amocas") || name == "zalasr"
}

#[test]
fn official_tests_pass() {
    let Some(checkout) = std::env::var_os("RACKMEM_RISCV_TESTS").map(PathBuf::from) else {
        eprintln!("skipped: RACKMEM_RISCV_TESTS names no checkout of riscv-tests");
        return;
    };
    if !have(&[GCC]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let tests = tests(&checkout.join("isa"));
    assert!(!tests.is_empty(), "{} holds tests", checkout.display());
    let failed: Vec<String> = tests
        .iter()
        .filter_map(|source| {
            let program = assemble(source, &checkout, folder.path());
            let status = by_us(&program, &[]).status;
            (status != 0).then(|| format!("{}: case {status}", source.display()))
        })
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    eprintln!("{} official tests passed", tests.len());
}

fn tests(isa: &Path) -> Vec<PathBuf> {
    let mut tests = Vec::new();
    for group in GROUPS {
        let entries = fs::read_dir(isa.join(group)).into_iter().flatten();
        tests.extend(entries.map(|entry| entry.expect("the folder is readable").path()).filter(
            |path| {
                let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                path.extension().is_some_and(|extension| extension == "S")
                    && !is_of_another_extension(name)
            },
        ));
    }
    tests.sort();
    tests
}

fn assemble(source: &Path, checkout: &Path, folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/official");
    let program = folder.join("program");
    let output = Command::new(GCC)
        // One segment that may be written and executed: a test changes its own code.
        .args(["-march=rv64gc", "-mabi=lp64d", "-static", "-nostdlib", "-nostartfiles", "-Wl,-N"])
        .arg("-I")
        .arg(here)
        .arg("-I")
        .arg(checkout.join("isa/macros/scalar"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the assembler starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {message}", source.display());
    program
}
