//! Dynamically linked programs: dynamic linkers, libraries, and the folder that has them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use rackmem_riscv::elf::{LINKER_BASE, LoadError};
use rackmem_riscv::functional::{End, Options, Outcome, Output, RunError, run};
use rackmem_riscv::kernel::{Change, Host, Kind, OpenMode, Opened};
use tempfile::TempDir;

use crate::rig::{READ, Rig};
use crate::support::asm::{A0, A1, A2, CODE, Program};
use crate::support::qemu::{LIBRARIES, QEMU, have};

const LINKER: &str = "/lib/ld.so";

/// A program that asks for a dynamic linker, which is never executed itself.
fn program() -> Vec<u8> {
    Program { data: vec![0; 16], code: vec![0; 4] }.linked(Some(LINKER))
}

/// A dynamic linker that writes so many bytes of the stack as it is at the start, and ends with 7.
fn linker(length: i32) -> Vec<u8> {
    const SP: u32 = 2;
    let mut program = Program { data: vec![0; 8], ..Program::default() };
    program.addi(A1, SP, 0);
    program.li(A0, 1);
    program.li(A2, length);
    program.ecall(64);
    program.exit(7);
    position_independent(program.elf())
}

fn position_independent(mut file: Vec<u8>) -> Vec<u8> {
    const SHARED: u8 = 3;
    file[16] = SHARED;
    file
}

/// Runs a program in a folder `run` beside `libraries`.
fn run_beside(folder: &Path, file: &[u8]) -> Result<Outcome, RunError> {
    let options = Options {
        output: Output::Capture,
        libraries: Some(folder.join("libraries")),
        max_instructions: Some(1000),
        ..Options::default()
    };
    run(file, &["prog".into()], &[], &options)
}

/// The same with this dynamic linker.
fn run_with(linker: &[u8], file: &[u8]) -> Result<Outcome, RunError> {
    let folder = TempDir::new().expect("there is room for temporary files");
    fs::create_dir_all(folder.path().join("libraries/lib")).expect("the folder is ours");
    fs::write(folder.path().join("libraries/lib/ld.so"), linker).expect("the folder is ours");
    run_beside(folder.path(), file)
}

#[test]
fn a_dynamic_linker_learns_of_itself_and_the_program() {
    const LENGTH: usize = 38 * 8;
    let outcome = run_with(&linker(LENGTH as i32), &program()).expect("the linker runs");
    assert_eq!(outcome.end, End::Exit(7));
    let words = outcome.stdout.chunks(8).map(|b| u64::from_le_bytes(b.try_into().expect("8")));
    let words: Vec<u64> = words.collect();
    let auxiliary: Vec<&[u64]> = words[4..].chunks(2).collect();
    let value = |key| auxiliary.iter().find(|pair| pair[0] == key).expect("the entry is there")[1];
    const PHNUM: u64 = 5;
    const BASE: u64 = 7;
    const ENTRY: u64 = 9;
    assert_eq!((value(PHNUM), value(BASE), value(ENTRY)), (3, LINKER_BASE, CODE));
}

#[test]
fn dynamic_linkers_that_cannot_be_used_are_one_line() {
    let said = |linker: &[u8], program: &[u8]| match run_with(linker, program) {
        Err(RunError::Load(LoadError::Linker(name, why))) => {
            assert_eq!(name, LINKER);
            assert!(!why.contains('\n'), "{why}");
            why
        }
        other => panic!("{other:?}"),
    };
    let good = linker(8);
    let changed = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        said(&file, &program())
    };
    assert!(said(b"", &program()).contains("the ELF magic"));
    assert!(changed(18, 62).contains("a program for x86-64"));
    assert!(changed(16, 2).contains("it has a fixed address"));
    let other = position_independent(program());
    assert!(said(&other, &program()).contains("it asks for /lib/ld.so itself"));
    // Its first segment reaches into the mappings, and its second one is larger than all that fits.
    assert!(changed(64 + 16 + 5, 1).contains("outside of the address space"));
    assert!(changed(64 + 56 + 44, 2).contains("too large"));
    // Names that would be several lines, that are too long, and that are no text.
    let asking = |name: &str| Program { data: vec![0; 16], code: vec![0; 4] }.linked(Some(name));
    let refused = run_with(&good, &asking("/lib/a\nb")).expect_err("there is none").to_string();
    assert!(refused.contains("/lib/a\\nb, is not in "), "{refused}");
    let mut odd = asking("/lib");
    odd[64 + 3 * 56 + 1] = 0xff;
    for file in [asking(&"/".repeat(4096)), odd] {
        let refused = run_with(&good, &file).expect_err("it names none");
        assert!(refused.to_string().contains("the name of its dynamic linker"), "{refused}");
    }
    // The program is where the linker has to be.
    let mut far = program();
    far[64 + 56 + 16..][..8].copy_from_slice(&LINKER_BASE.to_le_bytes());
    let refused = run_with(&good, &far);
    assert!(matches!(refused, Err(RunError::Load(LoadError::BadSegment(LINKER_BASE)))));
}

#[test]
fn without_a_folder_that_has_the_linker_there_is_one_error() {
    let folder = TempDir::new().expect("there is room for temporary files");
    let alone = run(&program(), &[], &[], &Options::default()).expect_err("no folder is named");
    let alone = alone.to_string();
    assert!(alone.contains("--libraries DIR") && alone.contains("link it with -static"), "{alone}");
    let error = run_beside(folder.path(), &program()).expect_err("there is no such folder");
    assert!(matches!(error, RunError::Libraries(..)), "{error}");
    let lib = folder.path().join("libraries/lib");
    fs::create_dir_all(&lib).expect("the folder is ours");
    let missing = || {
        let error = run_beside(folder.path(), &program()).expect_err("there is no such linker");
        error.to_string()
    };
    assert!(missing().contains("links do not lead out of it"), "{}", missing());
    // A link that leads out, on the host.
    fs::write(folder.path().join("ld.so"), linker(8)).expect("the folder is ours");
    symlink("../../ld.so", lib.join("ld.so")).expect("a link");
    assert!(missing().contains("links do not lead out of it"), "{}", missing());
    fs::remove_file(lib.join("ld.so")).expect("it is ours");
    fs::create_dir(lib.join("ld.so")).expect("the folder is ours");
    assert!(missing().contains("no regular file"), "{}", missing());
}

proptest! {
    /// Damaged headers of a dynamic linker or of its program are refused, or do not matter; nothing panics.
    #[test]
    fn damaged_dynamic_linkers_do_no_harm(
        of_linker in prop::collection::vec((0usize..176, any::<u8>()), 0..6),
        of_program in prop::collection::vec((0usize..243, any::<u8>()), 0..4),
    ) {
        let (mut linker, mut program) = (linker(8), program());
        of_linker.into_iter().for_each(|(at, byte)| linker[at] = byte);
        of_program.into_iter().for_each(|(at, byte)| program[at] = byte);
        let _ = run_with(&linker, &program).map_err(|error| error.to_string());
    }
}

/// A folder of libraries in a run's folder.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let sys = rig.all.path().join("run/sys");
    fs::create_dir_all(sys.join("lib/more")).expect("the folder is ours");
    fs::create_dir_all(sys.join("etc/alternatives")).expect("the folder is ours");
    for name in ["lib/a.so", "etc/ld.so.cache", "etc/passwd", "lib/more/b.so"] {
        fs::write(sys.join(name), name).expect("the folder is ours");
    }
    rig.host.set_libraries(Path::new("sys")).expect("it is there");
    rig
}

#[test]
fn libraries_are_found_where_linkers_look() {
    let mut rig = rig();
    let lib = rig.all.path().join("run/sys/lib");
    symlink("/etc/alternatives/b.so", lib.join("b.so")).expect("a link");
    symlink("/lib/more/b.so", lib.join("../etc/alternatives/b.so")).expect("a link");
    symlink("../etc/../lib/more/../../lib/a.so", lib.join("c.so")).expect("a link");
    let texts = [
        ("/lib/a.so", "lib/a.so"),
        ("/lib/../lib//./a.so", "lib/a.so"),
        ("/etc/ld.so.cache", "etc/ld.so.cache"),
        // Links that are absolute begin in the folder.
        ("/lib/b.so", "lib/more/b.so"),
        ("/lib/c.so", "lib/a.so"),
    ];
    for (name, text) in texts {
        assert_eq!(rig.text(name).expect(name), text);
    }
    for missing in ["/lib/none.so", "/lib/none/none.so", "/lib/a.so/none", "/usr/lib/none.so"] {
        rig.text(missing).expect_err(missing);
    }
    assert!(rig.host.warnings.is_empty(), "linkers look in vain: {:?}", rig.host.warnings);
    assert_eq!(rig.host.enter("/lib/more/..").expect("it is there"), "/lib");
    assert_eq!(rig.host.inputs.get("sys/lib/a.so"), Some(&true));
    assert_eq!(rig.host.inputs.get("sys/lib/none.so"), Some(&false));
}

/// `realpath` asks for all links and folders on the way.
#[test]
fn what_leads_to_libraries_is_seen_and_nothing_beside_it() {
    let mut rig = rig();
    let sys = rig.all.path().join("run/merged");
    for folder in ["usr/lib/more", "usr/local/lib", "usr/share", "etc", "opt"] {
        fs::create_dir_all(sys.join(folder)).expect("the folder is ours");
    }
    for name in ["usr/lib/a.so", "usr/share/secret", "etc/passwd", "etc/ld.so.cache"] {
        fs::write(sys.join(name), name).expect("the folder is ours");
    }
    symlink("usr/lib", sys.join("lib")).expect("a link");
    symlink("/usr/lib", sys.join("lib64")).expect("a link");
    rig.host.set_libraries(Path::new("merged")).expect("it is there");
    for (name, text) in [("/lib", "usr/lib"), ("/lib64", "/usr/lib")] {
        assert_eq!(rig.host.status(name, false).expect(name).kind, Kind::Link);
        assert_eq!(rig.host.read_link(name).expect(name), text);
    }
    for (name, entries) in [("/usr", "lib local"), ("/usr/local", "lib"), ("/etc", "ld.so.cache")] {
        let status = rig.host.status(name, false).expect(name);
        assert_eq!((status.kind, status.permissions, status.links), (Kind::Folder, 0o755, 2));
        assert_eq!(rig.host.read_link(name).expect_err("it is no link").raw_os_error(), Some(22));
        let Ok(Opened::Folder(_, seen)) = rig.host.open(name, READ) else { panic!("{name}") };
        let seen: Vec<String> = seen.into_iter().map(|entry| entry.name).collect();
        assert_eq!(seen.join(" "), entries, "{name}");
        let made = rig.host.change(&Change::MakeFolder(&format!("{name}/new")));
        assert_eq!(made.expect_err(name).kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
    for hidden in ["/usr/share", "/usr/share/secret", "/etc/passwd", "/opt", "/usr/../opt"] {
        rig.host.status(hidden, false).expect_err(hidden);
    }
    assert_eq!(rig.text("/usr/../lib/a.so").expect("it is there"), "usr/lib/a.so");
}

#[test]
fn nothing_else_of_the_folder_is_seen_and_nothing_beside_it() {
    let mut rig = rig();
    let lib = rig.all.path().join("run/sys/lib");
    let out = rig.all.path().join("out");
    symlink(&out, lib.join("absolute")).expect("a link");
    symlink("../../../out", lib.join("relative")).expect("a link");
    symlink("../../..", lib.join("up")).expect("a link");
    symlink("/etc/passwd", lib.join("inside")).expect("a link");
    symlink("loop", lib.join("loop")).expect("a link");
    for name in
        ["absolute", "relative", "up/out", "up/etc/passwd", "inside", "loop", "../../../out"]
    {
        rig.text(&format!("/lib/{name}")).expect_err(name);
    }
    for name in ["/etc/passwd", "/lib/../etc/passwd", "/etc/ld.so.cache/../passwd", "/libs/a.so"] {
        rig.text(name).expect_err(name);
    }
}

#[test]
fn libraries_are_not_written() {
    let mut rig = rig();
    let make = OpenMode { write: true, create: true, ..READ };
    for name in ["/lib/a.so", "/lib/new.so"] {
        let error = rig.host.open(name, make).expect_err(name);
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{name}");
    }
    let Ok(Opened::File(file, _)) = rig.host.open("/lib/a.so", READ) else { panic!("it is there") };
    rig.host.permit("/lib/a.so", &file, 0).expect_err("it is in the run's folder, by another name");
    rig.host.permit("/rackmem/sys/lib/a.so", &file, 0o600).expect("by this one it is ours");
    let entered = rig.host.enter("/lib").expect("it is there");
    assert!(rig.host.open(&format!("{entered}/new.so"), make).is_err());
    for change in [
        Change::Remove("/lib/a.so"),
        Change::MakeFolder("/lib/new"),
        Change::Rename { from: "/lib/a.so", to: "/rackmem/a.so", replace: true },
        Change::Link { from: "/lib/a.so", to: "/rackmem/a.so", follow: true },
    ] {
        rig.host.change(&change).expect_err("they are read only");
    }
    assert_eq!(rig.text("/lib/a.so").expect("it is as it was"), "lib/a.so");
}

#[test]
fn what_the_user_allows_is_seen_beside_libraries() {
    let mut rig = rig();
    // Some file of this host below /usr/lib, which no folder of libraries has.
    let os_release = Path::new("/usr/lib/os-release");
    if os_release.is_file() {
        rig.text("/usr/lib/os-release").expect_err("nobody has named it");
        rig.host.allow(os_release).expect("it is there");
        assert!(!rig.text("/usr/lib/os-release").expect("it is named").is_empty());
    }
}

const GXX: &str = "riscv64-linux-gnu-g++";

/// Compiles a program in C++ of `c`.
fn compile(folder: &Path, source: &str, flags: &[&str], name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/c");
    let mut command = Command::new(GXX);
    command.arg(sources.join(source)).args(flags).arg("-o").arg(folder.join(name));
    let done = command.output().expect("the compiler starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    folder.join(name)
}

#[test]
fn plugins_are_loaded_as_in_qemu() {
    if !have(&[GXX, QEMU]) {
        return;
    }
    let folder = TempDir::new().expect("there is room for temporary files");
    compile(folder.path(), "plugin.cpp", &["-g", "-shared", "-fPIC"], "libplugin.so");
    for flags in [&["-O1", "-pie"][..], &["-O1", "-no-pie"]] {
        let flags = [flags, &["-pthread", "-Wl,-rpath,$ORIGIN"]].concat();
        let program = compile(folder.path(), "libraries.cpp", &flags, "libraries");
        let mut qemu = Command::new(QEMU);
        let theirs =
            qemu.current_dir(folder.path()).args(["-L", LIBRARIES, "./libraries"]).output();
        let theirs = theirs.expect("QEMU starts");
        let file = fs::read(program).expect("it was just made");
        let ours_in = |run_in: PathBuf, args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            let options = Options {
                output: Output::Capture,
                folder: Some(run_in),
                allowed: vec![folder.path().to_owned()],
                libraries: Some(LIBRARIES.into()),
                ..Options::default()
            };
            run(&file, &args, &[], &options)
        };
        let ours = |args: &[&str]| ours_in(folder.path().to_owned(), args);
        let outcome = ours(&["./libraries"]).expect("it ends");
        assert!(theirs.stdout.starts_with(b"loaded\n2 104\n6\ncaught too much: 4\n"));
        assert_eq!(Some(outcome.end.status()), theirs.status.code());
        assert_eq!(outcome.stdout, theirs.stdout);
        assert_eq!(outcome.warnings, [""; 0]);
        // The plugin is beside the program, which is not in the current folder.
        let below = folder.path().join("below");
        fs::create_dir_all(&below).expect("the folder is ours");
        let beside = ours_in(below, &["../libraries"]).expect("it ends");
        assert_eq!(beside.stdout, theirs.stdout);
        let missing = ours(&["./libraries", "./libmissing.so"]).expect("it ends");
        assert_eq!(missing.end, End::Exit(3));
        let crash = ours(&["./libraries", "libplugin.so", "crash"]).expect_err("it crashes");
        let crash = crash.to_string();
        assert!(crash.contains(" <follow+0x") && crash.contains("plugin.cpp:24)"), "{crash}");
    }
}
