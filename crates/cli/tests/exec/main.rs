//! `rackmem cc` and `rackmem sim exec` as their user sees them.

mod dynamic;
mod given_back;
mod outputs;
mod pipeline;
mod several;
mod shared_folder;
mod signals;
mod traced;
#[path = "../common/traces.rs"]
mod traces;
mod untimed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rackmem_riscv::encode::{b, i, j, opcode, u};
use tempfile::TempDir;

const ENTRY: u32 = 0x1_0000;
const TEXT: &[u8] = b"hi\n";

fn rackmem(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.current_dir(dir).args(args).output().expect("rackmem runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program of these instructions and a text, as a static ELF file.
fn elf(code: &[u32]) -> Vec<u8> {
    let header_bytes = 64 + 56;
    let length = (header_bytes + 4 * code.len() + TEXT.len()) as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2u16, 243].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    let entry = u64::from(ENTRY) + header_bytes as u64;
    file.extend([entry, 64, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
    file.extend(5u32.to_le_bytes());
    file.extend([64u16, 56, 1, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    file.extend([1u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    let at = u64::from(ENTRY);
    file.extend([0, at, at, length, length, 0x1000].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    file.extend(TEXT);
    file
}

fn li(rd: u32, value: i32) -> u32 {
    i(opcode::OP_IMM, 0, rd, 0, value)
}

/// Says "hi" and ends with this status.
fn greeting(status: i32) -> Vec<u8> {
    let (a0, a1, a2, a7) = (10, 11, 12, 17);
    let code_bytes = 4 * 9;
    let text = 64 + 56 + code_bytes;
    let code = [
        li(a0, 1),
        u(opcode::LUI, a1, ENTRY as i32),
        i(opcode::OP_IMM, 0, a1, a1, text),
        li(a2, TEXT.len() as i32),
        li(a7, 64),
        0x73,
        li(a0, status),
        li(a7, 94),
        0x73,
    ];
    elf(&code)
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn output_and_exit_status_are_passed_through() {
    let dir = TempDir::new().unwrap();
    write(&dir, "prog.rv64", &greeting(7));
    let done = rackmem(dir.path(), &["sim", "exec", "--functional", "prog.rv64", "--its", "own"]);
    assert_eq!(done.status.code(), Some(7));
    assert_eq!((done.stdout, text(&done.stderr)), (TEXT.to_vec(), String::new()));
}

#[test]
fn a_report_says_what_it_was() {
    let dir = TempDir::new().unwrap();
    write(&dir, "prog.rv64", &greeting(0));
    let args = ["sim", "exec", "--functional", "--stats", "--report", "report.json", "prog.rv64"];
    let done = rackmem(dir.path(), &args);
    assert_eq!(done.status.code(), Some(0));
    assert!(text(&done.stderr).starts_with("rackmem: 9 instructions in "), "{done:?}");
    let report = fs::read_to_string(dir.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["instructions"], &report["exit_status"]), (&9.into(), &0.into()));
}

#[test]
fn what_cannot_be_run_says_why_and_where() {
    let dir = TempDir::new().unwrap();
    write(&dir, "text.rv64", b"no program");
    write(&dir, "wild.rv64", &elf(&[i(opcode::LOAD, 3, 10, 0, 8)]));
    write(&dir, "loop.rv64", &elf(&[0x6f]));
    for (args, status, said) in [
        (&["missing.rv64"][..], 127, "missing.rv64: No such file"),
        (&["text.rv64"], 126, "text.rv64: no ELF file"),
        (&["wild.rv64"], 125, "hart 0 at 0x10078 (ld a0,8(zero)): load from 0x8"),
        (&["--max-instructions", "1000", "loop.rv64"], 125, "not at its end after 1000 instr"),
        (&["--env", "NOTHING", "loop.rv64"], 2, "NAME=VALUE"),
        (&["sonuma", "loop.rv64"], 2, "sonuma is a machine: leave it out"),
        (&[], 2, "--functional [OPTIONS] [--] PROGRAM"),
    ] {
        let mut all = vec!["sim", "exec", "--functional"];
        all.extend(args);
        let done = rackmem(dir.path(), &all);
        assert_eq!(done.status.code(), Some(status), "{done:?}");
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
        assert!(done.stdout.is_empty());
    }
}

/// Runs a program on the soNUMA machine; `args` begin after its name.
fn on_sonuma(dir: &Path, args: &[&str]) -> Output {
    rackmem(dir, &[&["sim", "exec", "sonuma"], args].concat())
}

/// Copies its input to its output.
fn copying() -> Vec<u8> {
    const BYTES: i32 = 64;
    let (sp, a0, a1, a2, a7) = (2, 10, 11, 12, 17);
    elf(&[
        i(opcode::OP_IMM, 0, a1, sp, -BYTES),
        li(a2, BYTES),
        li(a0, 0),
        li(a7, 63),
        0x73,
        b(5, 0, a0, 6 * 4), // bge zero, a0: the end
        i(opcode::OP_IMM, 0, a2, a0, 0),
        li(a0, 1),
        li(a7, 64),
        0x73,
        j(0, -10 * 4),
        li(a0, 0),
        li(a7, 94),
        0x73,
    ])
}

#[test]
fn input_and_output_pass_byte_for_byte() {
    let dir = TempDir::new().unwrap();
    write(&dir, "copy.rv64", &copying());
    let bytes: Vec<u8> = (0..300).map(|at| (at * 7 % 256) as u8).collect();
    write(&dir, "bytes", &bytes);
    let copied = |args: &[&str], input: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
        command.current_dir(dir.path()).args(["sim", "exec"]).args(args).stdin(input);
        let done = command.output().unwrap();
        assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), String::new()));
        done.stdout
    };
    let file = || Stdio::from(fs::File::open(dir.path().join("bytes")).unwrap());
    assert!(!bytes.ends_with(b"\n"));
    assert_eq!(copied(&["--functional", "copy.rv64"], file()), bytes);
    assert_eq!(copied(&["sonuma", "copy.rv64"], file()), bytes);
    assert_eq!(copied(&["sonuma", "copy.rv64"], Stdio::null()), b"");
    write(&dir, "bytes", b"to node 0");
    let rack = copied(&["sonuma", "-n", "2", "copy.rv64"], file());
    assert_eq!(text(&rack), "[0] to node 0\n");
}

#[test]
fn a_signal_that_ends_a_program_is_one_line() {
    let (a0, a1, a7) = (10, 11, 17);
    let dir = TempDir::new().unwrap();
    // kill(0, SIGABRT)
    write(&dir, "abort.rv64", &elf(&[li(a0, 0), li(a1, 6), li(a7, 129), 0x73]));
    for (first, said) in [
        ("--functional", "abort.rv64: hart 0 at 0x10088: ended itself by signal 6 (SIGABRT)\n"),
        (
            "sonuma",
            "abort.rv64: node 0 ended itself by signal 6 (SIGABRT) (core 0 at 0x10088) in cycle",
        ),
    ] {
        let done = rackmem(dir.path(), &["sim", "exec", first, "abort.rv64"]);
        let complaint = text(&done.stderr);
        assert_eq!(done.status.code(), Some(134), "{complaint}");
        assert!(complaint.contains(said) && complaint.lines().count() == 1, "{complaint}");
    }
}

#[test]
fn what_is_allowed_has_to_be_there() {
    let dir = TempDir::new().unwrap();
    write(&dir, "hi.rv64", &greeting(0));
    for first in ["--functional", "sonuma"] {
        let done = rackmem(dir.path(), &["sim", "exec", first, "--allow", "no/such", "hi.rv64"]);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains("--allow no/such: No such file"), "{said}");
        let done = rackmem(dir.path(), &["sim", "exec", first, "--allow", "/etc", "hi.rv64"]);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    }
}

#[test]
fn on_a_machine_lines_have_the_number_of_their_node() {
    let dir = TempDir::new().unwrap();
    write(&dir, "prog.rv64", &greeting(0));
    for (args, said) in [
        (&["-n", "2", "--", "prog.rv64", "-n", "3"][..], "[0] hi\n[1] hi\n"),
        (&["-n", "2", "--no-prefix", "prog.rv64"], "hi\nhi\n"),
        (&["prog.rv64"], "hi\n"),
    ] {
        let done = on_sonuma(dir.path(), args);
        assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), String::new()), "{args:?}");
        assert_eq!(text(&done.stdout), said, "{args:?}");
    }
}

#[test]
fn on_a_machine_the_exit_status_is_that_of_the_process_that_failed() {
    let dir = TempDir::new().unwrap();
    write(&dir, "prog.rv64", &greeting(7));
    let alone = on_sonuma(dir.path(), &["prog.rv64"]);
    assert_eq!((alone.status.code(), text(&alone.stderr)), (Some(7), String::new()));
    let rack = on_sonuma(dir.path(), &["-n", "2", "prog.rv64"]);
    let said = text(&rack.stderr);
    assert_eq!(rack.status.code(), Some(7), "{said}");
    let expected = "rackmem: prog.rv64: node 0 ended with status 7 in cycle ";
    assert!(said.starts_with(expected) && said.lines().count() == 1, "{said}");
}

#[test]
fn on_a_machine_what_cannot_be_run_says_why_and_where() {
    let dir = TempDir::new().unwrap();
    write(&dir, "text.rv64", b"no program");
    write(&dir, "hi.rv64", &greeting(0));
    write(&dir, "wild.rv64", &elf(&[i(opcode::LOAD, 3, 10, 0, 8)]));
    // An endless loop that changes something: addi a0, a0, 1; j -4.
    write(&dir, "loop.rv64", &elf(&[i(opcode::OP_IMM, 0, 10, 10, 1), 0xffdf_f06f]));
    let crash = "wild.rv64: node 0, core 0 at 0x10078 (ld a0,8(zero)): load from 0x8: \
                 nothing is mapped there, in cycle ";
    let cut = "loop.rv64: not at its end after 1000 cycles (--max-cycles, --max-time)\n\
               node 0, core 0: executes at 0x1007";
    let acknowledged = "ni.completion: is \"posted\"";
    for (args, status, said) in [
        (&["sonuma", "missing.rv64"][..], 127, "missing.rv64: No such file"),
        (&["sonuma", "text.rv64"], 126, "text.rv64: no ELF file"),
        (&["sonuma", "."], 126, ".: Is a directory"),
        (&["sonuma", "-n", "2", "wild.rv64"], 125, crash),
        (&["sonuma", "--max-cycles", "1000", "loop.rv64"], 125, cut),
        (&["sonuma", "--max-time", "500ns", "loop.rv64"], 125, cut),
        (&["--functional", "--max-time", "500ns", "loop.rv64"], 125, "not at its end after 500 ns"),
        (&["sonuma", "--max-instructions", "1000", "loop.rv64"], 125, "after 1000 instructions"),
        (&["sonuma", "--max-time", "5", "loop.rv64"], 2, "such as 10ms"),
        (&["sonuma", "-n", "0", "hi.rv64"], 2, "0 is not in 1..=1024"),
        (&["sonuma", "--set", "cpu.rob_entries=no", "hi.rv64"], 2, "cpu.rob_entries: "),
        (&["sonuma"], 2, "there is no program: name one after the machine, sonuma"),
        (&["sonumo", "hi.rv64"], 2, "there is no machine and no file 'sonumo'"),
        (&["hi.rv64"], 2, "hi.rv64 is a program and no machine: name the machine before it"),
        (&["manycore-ni", "-n", "2", "hi.rv64"], 2, "manycore-ni: network.remote: is"),
        (&["manycore-ni", "--set", "network.remote=nodes", "hi.rv64"], 2, acknowledged),
        (&["rack-torus", "hi.rv64"], 2, "rack-torus: kind: is \"torus\""),
        (&[], 2, "rackmem sim exec MACHINE [OPTIONS] [--] PROGRAM"),
    ] {
        let done = rackmem(dir.path(), &[&["sim", "exec"], args].concat());
        assert_eq!(done.status.code(), Some(status), "{args:?}: {done:?}");
        assert!(text(&done.stderr).contains(said), "{args:?}: {}", text(&done.stderr));
        assert!(done.stdout.is_empty(), "{done:?}");
    }
}

/// The header of an ELF file for another machine is enough to tell.
#[test]
fn programs_for_other_machines_are_named() {
    let dir = TempDir::new().unwrap();
    let mut program = greeting(0);
    let machine = 18;
    program[machine] = 62;
    write(&dir, "x86", &program);
    let done = on_sonuma(dir.path(), &["x86"]);
    assert_eq!(done.status.code(), Some(126));
    assert!(text(&done.stderr).contains("x86: a program for x86-64"), "{}", text(&done.stderr));
}

#[test]
fn on_a_machine_a_report_has_every_node_and_all_counters() {
    let dir = TempDir::new().unwrap();
    write(&dir, "prog.rv64", &greeting(7));
    let args = ["-n", "2", "--stats", "--report", "report.json", "prog.rv64"];
    let done = on_sonuma(dir.path(), &args);
    let said = text(&done.stderr);
    assert!(said.contains(" cycles (") && said.contains(" instructions a second"), "{said}");
    let report = fs::read_to_string(dir.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["machine"], &report["program"]), (&"sonuma".into(), &"prog.rv64".into()));
    assert_eq!((&report["exit_status"], &report["cut_short"]), (&7.into(), &().into()));
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    // Seven of nine instructions: system calls are not retired, says the specification.
    for node in nodes {
        assert_eq!((&node["exit_status"], &node["instructions"]), (&7.into(), &7.into()));
        assert_eq!(node["end"], "ended with status 7");
        assert!(node["cycle"].as_u64() <= report["cycles"].as_u64());
    }
    let (cycles, ns) = (report["cycles"].as_f64().unwrap(), report["simulated_ns"].as_f64());
    assert_eq!((report["instructions"].as_u64(), ns), (Some(14), Some(cycles / 2.0)));
    assert_eq!(report["stats"]["node[1].core[0].retired"], 7.0);
}

fn prebuilt() -> PathBuf {
    programs().join("prebuilt")
}

/// Runs a ready-built program with these arguments.
fn run_prebuilt(program: &str, args: &[&str]) -> Output {
    let mut all = vec!["sim", "exec", "--functional", program];
    all.extend(args);
    rackmem(&prebuilt(), &all)
}

#[test]
fn ready_built_programs_run() {
    let done = run_prebuilt("hello.rv64", &[]);
    assert_eq!(text(&done.stdout), "node 0 of 1 took number 0\n", "{}", text(&done.stderr));
    let done = run_prebuilt("pagerank.rv64", &["--kronecker", "8", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let checksums = checksums(&done.stdout);
    assert_eq!((checksums.len(), &checksums[0]), (4, &checksums[2]));
    for program in ["remote_read", "netpipe", "kvstore"] {
        let done = run_prebuilt(&format!("{program}.rv64"), &["--seconds", "0.0002"]);
        assert_eq!(done.status.code(), Some(1));
        let said = text(&done.stderr);
        assert!(said.contains("needs two nodes"), "{said}");
        assert_eq!(said.lines().count(), 1, "nothing about calls that nobody knows: {said}");
    }
}

#[test]
fn a_program_alone_is_a_rack_of_one() {
    let done = run_prebuilt("rack_test.rv64", &[]);
    let said = text(&done.stdout);
    assert!(said.ends_with("rack_test: 25 passed on 1 node\n"), "{said}{}", text(&done.stderr));
}

#[test]
fn a_superstep_has_its_time() {
    let args = ["--json", "--supersteps", "1", "--variant", "serial,bulk", "graph.txt"];
    let done = run_prebuilt("pagerank.rv64", &args);
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&report["vertices"], &report["edges"]), (&109.into(), &1024.into()));
    for variant in report["variants"].as_array().unwrap() {
        assert!(variant["superstep_seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(variant["superstep_seconds"], variant["seconds"]);
    }
}

/// Whether the tests of compiled programs can be made here; with `RACKMEM_REQUIRE_QEMU` they must.
fn has_compiler() -> bool {
    let found = Command::new("riscv64-linux-gnu-gcc").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("RACKMEM_REQUIRE_QEMU").is_none(), "no cross compiler");
    if !found {
        println!("not tested: riscv64-linux-gnu-gcc is not installed");
    }
    found
}

/// A folder with `NAME.rv64`, compiled from this source in C; `None` without a compiler.
fn compiled(name: &str, source: &[u8]) -> Option<TempDir> {
    if !has_compiler() {
        return None;
    }
    let dir = TempDir::new().unwrap();
    let (from, to) = (format!("{name}.c"), format!("{name}.rv64"));
    write(&dir, &from, source);
    let done = rackmem(dir.path(), &["cc", "-O1", "-o", &to, &from]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    Some(dir)
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs")
}

#[test]
fn a_program_on_the_header_runs_alone() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let source = programs().join("hello.c");
    let done = rackmem(dir.path(), &["cc", "-Wall", "-o", "hello.rv64", source.to_str().unwrap()]);
    assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), String::new()));
    let done = rackmem(dir.path(), &["sim", "exec", "--functional", "hello.rv64"]);
    assert_eq!(text(&done.stdout), "node 0 of 1 took number 0\n", "{}", text(&done.stderr));
}

#[test]
fn a_program_in_cxx_runs_there_and_here() {
    let dir = TempDir::new().unwrap();
    let source = b"#include <rackmem.h>\n#include <cstdio>\n#include <string>\n\
        int main() { std::string s = \"version \"; s += std::to_string(rackmem_version());\n\
        return std::puts(s.c_str()) < 0; }\n";
    write(&dir, "version.cc", source);
    let version = format!("version {}\n", rackmem::capi::VERSION);
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if has("c++") {
        let done = rackmem(dir.path(), &["cc", "--host", "-o", "version", "version.cc"]);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        let said = Command::new(dir.path().join("version")).output().unwrap();
        assert_eq!(text(&said.stdout), version);
    }
    if has("riscv64-linux-gnu-g++") {
        let done = rackmem(dir.path(), &["cc", "-o", "version.rv64", "version.cc"]);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        let done = rackmem(dir.path(), &["sim", "exec", "--functional", "version.rv64"]);
        assert_eq!(text(&done.stdout), version, "{}", text(&done.stderr));
    }
}

#[test]
fn a_crash_names_function_and_line() {
    let source = b"int main(void) { return *(volatile int *)8; }";
    let Some(dir) = compiled("wild", source) else { return };
    let done = on_sonuma(dir.path(), &["wild.rv64"]);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(125), "{said}");
    let is_clear = said.contains("node 0, core 0 at 0x") && said.contains("wild.c:1) (lw ");
    assert!(is_clear && said.contains(" <main> (") && said.contains("in cycle "), "{said}");
}

/// The ranks of PageRank, as a checksum of all their bits.
fn checksums(json: &[u8]) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_slice(json).unwrap();
    let variants = report["variants"].as_array().unwrap();
    variants.iter().map(|variant| variant["checksum"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn pagerank_gives_the_same_ranks_as_here() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let make = Command::new("make")
        .args(["-s", "-C", programs().to_str().unwrap(), "rv64"])
        .arg(format!("BUILD={}", dir.path().display()))
        .arg(format!("RACKMEM={}", env!("CARGO_BIN_EXE_rackmem")))
        .output()
        .unwrap();
    assert!(make.status.success(), "{}", text(&make.stderr));
    let file = prebuilt().join("graph.txt");
    for graph in [&["--kronecker", "10:8"][..], &[file.to_str().unwrap()]] {
        let mut model = vec!["sim", "exec", "--functional", "rv64/pagerank", "--json"];
        model.extend(graph);
        let there = rackmem(dir.path(), &model);
        assert!(there.status.success(), "{}", text(&there.stderr));

        let here = Command::new(env!("CARGO_BIN_EXE_rackmem"))
            .env("RACKMEM_DIR", dir.path().join("racks"))
            .args(["run", "-n", "1", "--", ":pagerank", "--json"])
            .args(graph)
            .output()
            .unwrap();
        assert!(here.status.success(), "{}", text(&here.stderr));
        let json = text(&here.stdout);
        let json = json.trim_start_matches(|c| c != '{');
        assert_eq!(checksums(&there.stdout), checksums(json.as_bytes()));
    }
}

#[test]
fn a_compiler_that_is_not_there_is_named() {
    let dir = TempDir::new().unwrap();
    let run = |name: &str, value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
        command.current_dir(dir.path()).args(["cc", "-o", "a", "a.c"]).env(name, value);
        command.output().unwrap()
    };
    let done = run("RACKMEM_CC", "no-such-compiler -x");
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stderr).contains("the compiler no-such-compiler "),
        "{}",
        text(&done.stderr)
    );
    let done = run("PATH", "/nowhere");
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("pip install ziglang"), "{}", text(&done.stderr));
}

/// Runs the test of cache-integrated network interfaces; `args` begin with options of `sim exec`.
fn scr_test(options: &[&str], args: &[&str]) -> Output {
    let dir = TempDir::new().unwrap();
    let program = prebuilt().join("scr_test.rv64");
    let begin = ["sim", "exec", "cache-integrated"];
    let named = ["--", program.to_str().unwrap()];
    rackmem(dir.path(), &[&begin, options, &named, args].concat())
}

#[test]
fn the_test_of_cache_integrated_interfaces_passes() {
    let done = scr_test(&[], &[]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert_eq!(said.lines().last(), Some("scr_test: passed on 4 cores"), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("PASS ")).count() > 30, "{said}");
}

#[test]
fn full_queues_refuse_items_if_the_machine_says_so() {
    let done = scr_test(&["--set", "scratchpad.nacks=true"], &["refused"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(text(&done.stdout).starts_with("PASS refused\n"), "{}", text(&done.stdout));
    let done = scr_test(&[], &["refused"]);
    assert_eq!(done.status.code(), Some(125), "{}", text(&done.stdout));
    assert!(text(&done.stderr).contains("is full"), "{}", text(&done.stderr));
}

#[test]
fn misuse_of_cache_integrated_interfaces_ends_the_program_in_one_line() {
    for (what, said) in [
        ("double-write", "was written twice"),
        ("oversize", "is for 65537 bytes"),
        ("long-message", "is for 48 bytes"),
        ("opcode", "has the opcode 9"),
        ("short-store", "was written in part"),
        ("not-scratchpad", "is not scratchpad"),
        ("load-not-scratchpad", "is not scratchpad"),
        ("remote-not-scratchpad", "is not scratchpad"),
        ("copy-not-scratchpad", "is not scratchpad"),
        ("copy-memory", "in no scratchpad and not in uncached memory"),
        ("outside", "nothing is mapped there"),
        ("unmapped", "nothing is mapped there"),
        ("copy-unmapped", "in no scratchpad and not in uncached memory"),
        ("overflow", "is full"),
        ("mr-overflow", "is full"),
        ("item-size", "is no item"),
        ("head-past-tail", "cannot have the head 5"),
        ("body-size", "cannot have a body of 192 bytes"),
        ("body-place", "cannot have a body of 256 bytes"),
        ("body-not-plain", "cannot have a body of 64 bytes"),
        ("item-words", "cannot have items of 3 words"),
        ("in-use", "is in use"),
        ("body-in-use", "is in use"),
        ("other-core", "is another core's"),
        ("last-way", "is the last one of its set"),
        ("state", "cannot become 6"),
        ("atomic", "it takes no atomics"),
        ("remote-atomic", "it takes no atomics"),
    ] {
        let done = scr_test(&[], &["--wrong", what]);
        let complaint = text(&done.stderr);
        assert_eq!(done.status.code(), Some(125), "{what}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{what}: {complaint}");
        for part in [said, "scr_test.rv64: node 0, core ", " at 0x", ", in cycle "] {
            assert!(complaint.contains(part), "{what}: {complaint}");
        }
    }
}

#[test]
fn chips_with_cache_integrated_interfaces_are_not_joined() {
    let done = scr_test(&["-n", "2"], &[]);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    let complaint = text(&done.stderr);
    assert!(complaint.contains("joins the cores of one chip; use -n 1"), "{complaint}");
}
