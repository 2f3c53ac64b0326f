//! Applications of `programs/tsm/real`: they find here what they find in QEMU and on this host.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::qemu::{QEMU, by_qemu, by_us, have};

/// Applications with their sizes, and what they say that they have found.
const FOUND: [(&str, &str, &str); 3] = [
    ("compress", "32K", "compress of 32768 bytes: 12536, check 492032c3"),
    ("sort", "256K", "sort of 262144 bytes: 4096, check ef1b3f69"),
    ("lisp", "128K", "lisp of 131072 bytes: 30, check f072b80f"),
];

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs")
}

/// Calls `run` with the arguments of each application. The line after the result has a time.
fn each_finds_it(run: impl Fn(&[&str]) -> Vec<u8>) {
    for (name, bytes, found) in FOUND {
        let output = run(&["--application", name, "--bytes", bytes, "--llc-bytes", "4K"]);
        let text = String::from_utf8_lossy(&output);
        assert_eq!(text.lines().next(), Some(found), "{text}");
    }
}

#[test]
fn applications_find_here_what_they_find_in_qemu() {
    let program = programs().join("prebuilt/tsm_real.rv64");
    each_finds_it(|args| by_us(&program, args).stdout);
    if have(&[QEMU]) {
        each_finds_it(|args| by_qemu(&program, args).stdout);
    }
}

#[test]
fn applications_find_the_same_on_this_host() {
    const CC: &str = "cc";
    if !have(&[CC]) {
        return;
    }
    let folder = TempDir::new().expect("there is room for temporary files");
    let program = folder.path().join("tsm_real");
    let sources = std::fs::read_dir(programs().join("tsm/real")).expect("the sources are there");
    let sources = sources.map(|entry| entry.expect("it can be read").path());
    let sources = sources.filter(|path| path.extension().is_some_and(|end| end == "c"));
    let common = ["tsm/node.c", "program.c", "options.c"].map(|name| programs().join(name));
    let mut compiler = Command::new(CC);
    compiler.args(["-std=c11", "-O2", "-I"]).arg(programs().join("../include")).arg("-o");
    let output = compiler.arg(&program).args(sources).args(common).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    each_finds_it(|args| Command::new(&program).args(args).output().expect("it starts").stdout);
}
