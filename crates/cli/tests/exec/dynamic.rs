//! Dynamically linked programs, with the libraries of Debian's cross compiler.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{has_compiler, on_sonuma, rackmem, text, traces, write};

const FOLDER: [&str; 2] = ["--libraries", "/usr/riscv64-linux-gnu"];

const LINKER: &str = "lib/ld-linux-riscv64-lp64d.so.1";

/// Prints, sorts by a function of its own that the C library calls, and ends with 5.
const SOURCE: &[u8] = br#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(int count, char **arguments)
{
    int numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = (i * 37) % 64;
    qsort(numbers, 64, sizeof(int), compare);
    printf("%d %d\n", numbers[1], numbers[63]);
    if (count > 1)
        fputs(arguments[1], (FILE *)8);
    return 5;
}
"#;

fn compiled(dir: &TempDir) {
    write(dir, "prog.c", SOURCE);
    let mut compiler = Command::new("riscv64-linux-gnu-gcc");
    let done =
        compiler.current_dir(dir.path()).args(["-O1", "-g", "-o", "prog", "prog.c"]).output();
    let done = done.unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}

#[test]
fn a_dynamically_linked_program_needs_its_folder() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    compiled(&dir);
    let run = |options: &[&str], status| {
        let functional = [&["sim", "exec", "--functional"], options, &["prog"]].concat();
        let machine = [options, &["prog"]].concat();
        for done in [rackmem(dir.path(), &functional), on_sonuma(dir.path(), &machine)] {
            assert_eq!(done.status.code(), Some(status), "{options:?}: {}", text(&done.stderr));
            assert!(done.stdout.is_empty(), "{options:?}");
            let said = text(&done.stderr);
            let own: Vec<&str> = said.lines().filter(|line| line.starts_with("rackmem:")).collect();
            assert!(own.len() == 1 && said.starts_with(own[0]) || status == 127, "{said}");
            let is_named = options.last().is_none_or(|folder| said.contains(folder));
            assert!(is_named || status == 127, "{said}");
            assert!(said.contains(LINKER) || status != 126, "{said}");
        }
    };
    run(&[], 126);
    run(&["--libraries", "missing"], 2);
    run(&["--libraries", "prog.c"], 2);
    fs::create_dir_all(dir.path().join("some/lib")).unwrap();
    run(&["--libraries", "some"], 126);
    let linker = dir.path().join("some").join(LINKER);
    fs::copy(Path::new(FOLDER[1]).join(LINKER), linker).unwrap();
    // The dynamic linker itself says that there is no C library.
    run(&["--libraries", "some"], 127);
}

#[test]
fn a_dynamically_linked_program_runs_on_every_node() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    compiled(&dir);
    let args = [&FOLDER[..], &["-n", "2", "--report", "report.json", "prog"]].concat();
    let done = on_sonuma(dir.path(), &args);
    assert_eq!(done.status.code(), Some(5), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] 1 63", "[1] 1 63"]);
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("report.json")).unwrap()).unwrap();
    for library in [LINKER, "lib/libc.so.6"] {
        let place = fs::canonicalize(Path::new(FOLDER[1]).join(library)).unwrap();
        let fingerprint = report["inputs"][place.to_str().unwrap()].as_str();
        assert!(fingerprint.is_some_and(|text| text.starts_with("fnv1a-64:")), "{library}");
    }
    // A failure in a library names its function.
    let done = on_sonuma(dir.path(), &[&FOLDER[..], &["prog", "crash"]].concat());
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(125), "{said}");
    assert!(said.contains(" <fputs+0x"), "{said}");
}

#[test]
fn a_dynamically_linked_program_goes_on_from_a_checkpoint() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    compiled(&dir);
    let report = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(dir.path().join(name)).unwrap()).unwrap()
    };
    let run = |options: &[&str], status| {
        let done = on_sonuma(dir.path(), options);
        assert_eq!(done.status.code(), Some(status), "{}", text(&done.stderr));
        (text(&done.stdout), text(&done.stderr))
    };
    // In the dynamic linker, which has the C library open; and in the program.
    for after in ["30k", "100k"] {
        let begin = [&FOLDER[..], &["--fast-forward", after]].concat();
        let (whole, _) = run(&[&begin[..], &["--report", "whole.json", "prog"]].concat(), 5);
        run(&[&begin[..], &["--checkpoint", "here", "prog"]].concat(), 0);
        let (_, said) = run(&["--restore", "here"], 126);
        assert!(said.contains("--libraries DIR"), "{said}");
        let (rest, _) =
            run(&[&FOLDER[..], &["--restore", "here", "--report", "rest.json"]].concat(), 5);
        assert_eq!(rest, whole);
        let (whole, mut rest) = (report("whole.json"), report("rest.json"));
        rest.as_object_mut().unwrap().remove("restored").unwrap();
        assert_eq!(rest, whole);
    }
}

#[test]
fn a_trace_names_functions_of_libraries() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    compiled(&dir);
    let window = ["--trace", "trace.json", "--trace-window", "0us..1ms"];
    let after = |options: &[&str]| {
        let done = on_sonuma(dir.path(), &[&FOLDER[..], &window, options].concat());
        assert_eq!(done.status.code(), Some(5), "{}", text(&done.stderr));
        let events = traces::checked_trace(&dir.path().join("trace.json"));
        for name in ["main", "compare", "qsort", "printf"] {
            assert!(events.iter().any(|event| event["name"] == name), "{name} after {options:?}");
        }
        done.stdout
    };
    let whole = after(&["prog"]);
    let begin = [&FOLDER[..], &["--fast-forward", "60k", "--checkpoint", "here", "prog"]].concat();
    assert_eq!(on_sonuma(dir.path(), &begin).status.code(), Some(0));
    assert_eq!(after(&["--restore", "here"]), whole);
}
