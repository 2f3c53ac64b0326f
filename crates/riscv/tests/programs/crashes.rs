//! Programs with symbols that fail: the message names the function.

use rackmem_riscv::functional::{End, Options, Output, RunError, Why, run};

use crate::compiled::{GCC, compile};
use crate::support::qemu::have;

#[test]
fn messages_name_the_function() {
    if !have(&[GCC]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let path = compile(folder.path(), GCC, &["-O1", "-static"], "crash");
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
    assert!(message.contains(" <follow"), "{message}");
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
