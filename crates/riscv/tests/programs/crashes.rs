//! Programs with symbols that fail: the message names the function.

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};
use rackmem_riscv::functional::{End, Options, Output, RunError, Why, run};

use crate::compiled::{GCC, compile};
use crate::support::qemu::have;

#[test]
fn messages_name_function_and_line() {
    if !have(&[GCC]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let path = compile(folder.path(), GCC, &["-O1", "-g", "-static"], "crash");
    let program = std::fs::read(path).expect("it was just made");
    let options = Options { output: Output::Capture, ..Options::default() };
    let result = |how: &str| run(&program, &["crash".into(), how.into()], &[], &options);
    let failure = |how| match result(how) {
        Err(RunError::Failure(failure)) => failure,
        other => panic!("{how}: {other:?}"),
    };

    let pointer = failure("pointer");
    assert!(matches!(pointer.why, Why::Fault(_)));
    let message = pointer.to_string();
    assert!(message.starts_with("hart 0 at 0x"), "{message}");
    assert!(message.contains(" <follow") && message.contains("crash.c:10)"), "{message}");
    assert!(message.ends_with("load from 0x10: nothing is mapped there"), "{message}");

    for (how, hart) in [("stack", 0), ("thread", 1)] {
        let failure = failure(how);
        assert!(matches!(failure.why, Why::StackOverflow(_)), "{failure}");
        assert_eq!(failure.hart, hart);
        assert!(failure.location.contains(" <dive"), "{failure}");
    }

    assert_eq!(result("abort").expect("it ends itself").end, End::Killed(6));
    assert_eq!(result("nothing").expect("it ends").end, End::Exit(0));
}

/// Debug information is a stranger's: whatever it says, the message comes, at worst without a line.
#[test]
fn damaged_debug_information_costs_the_line_at_most() {
    if !have(&[GCC]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let path = compile(folder.path(), GCC, &["-O1", "-g", "-static"], "crash");
    let program = std::fs::read(path).expect("it was just made");
    let file = ElfFile64::<LittleEndian>::parse(&*program).expect("a program");
    let is_debug = |name: Result<&str, _>| name.is_ok_and(|name| name.starts_with(".debug_"));
    let ranges = file.sections().filter(|section| is_debug(section.name()));
    let ranges: Vec<(u64, u64)> = ranges.filter_map(|section| section.file_range()).collect();
    assert!(ranges.len() >= 4);
    let options = Options { output: Output::Capture, ..Options::default() };
    let argv = ["crash".to_owned(), "pointer".to_owned()];
    let mut state = 1u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut without_line = 0;
    for _ in 0..200 {
        let mut damaged = program.clone();
        let (start, bytes) = ranges[draw(ranges.len() as u64) as usize];
        let first = start + draw(bytes.min(200));
        for at in first..(first + 1 + draw(8)).min(start + bytes) {
            damaged[at as usize] = draw(256) as u8;
        }
        let result = run(&damaged, &argv, &[], &options);
        let Err(RunError::Failure(failure)) = result else { panic!("{result:?}") };
        assert!(failure.location.contains(" <follow"), "{failure}");
        without_line += u32::from(!failure.location.contains("crash.c:10)"));
    }
    assert!((1..200).contains(&without_line), "{without_line}");
}
