//! Programs that wait for a device by the C interface let their cores sleep.

use std::path::Path;
use std::process::Command;

use rackmem_sim::cpu::CpuSpec;

use crate::system::System;
use rackmem_sim::litmus::memory::Delays;

/// As in `waits.c`.
const WAITS: [&str; 9] = [
    "READ",
    "SLOT",
    "DRAIN",
    "ARRIVALS",
    "ARRIVAL_POSTS",
    "MESSAGE",
    "ANY_MESSAGE",
    "CREDITS",
    "PULL",
];

/// Compiles `waits.c`; `None` if there is no compiler.
fn compile(wait: &str) -> Option<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let program = folder.path().join(wait);
    let output = Command::new("riscv64-linux-gnu-gcc")
        .args(["-O2", "-Wall", "-Wextra", "-static", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(here.join("../../include"))
        .arg(format!("-DWAIT={wait}"))
        .arg(here.join("tests/cpu/waits.c"))
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: needs riscv64-linux-gnu-gcc");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read(program).expect("it was just made"))
}

#[test]
fn waits_of_the_c_interface_are_slept_through() {
    for wait in WAITS {
        let Some(file) = compile(wait) else { return };
        let delays = Delays::fixed(20);
        let mut system = System::new(&file, &CpuSpec::default(), delays, 1);
        system.run_to_silence(2_000_000);
        let core = &system.node.cores[0];
        let pc = core.hart().pc;
        assert!(core.is_asleep(), "{wait}: at {pc:#x}, not asleep at cycle {}", system.node.now);
    }
}
