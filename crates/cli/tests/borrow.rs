//! `rackmem borrow`: unmodified C programs use memory that leaves and comes back.
//!
//! Skipped, with a message, where userfaultfd is not permitted.

mod common;
mod lender;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Done, Host};
use lender::{Lender, borrow, borrow_with, is_possible, program};

/// Longest wait for a program that ought to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Local memory of these tests; their programs use several times as much.
const CACHE: &str = "4M";

/// Runs a part of tests/c/borrowed.c on borrowed memory.
fn part(name: &str, mode: &str) {
    let host = Host::new();
    let _lender = Lender::start(&host, "512M");
    if !is_possible(&host) {
        return;
    }
    let program = program("borrowed");
    let program = program.to_str().unwrap();
    let args = ["128M", "--cache", CACHE, "--threshold", "0", "--mode", mode, "--json", "--"];
    let done = Done::from(borrow_with(&host, &args, &[program, name]).output().unwrap());
    assert_eq!(done.status, Some(0), "{name}, {mode}: {done:?}");
    assert!(done.out.ends_with("ok\n"), "{done:?}");
    // A program whose pages never left would pass, too.
    let reports = done.err.lines().filter_map(|line| serde_json::from_str(line).ok());
    let fetched = reports.map(|report: serde_json::Value| {
        report["fetched"].as_u64().unwrap() + report["prefetched"].as_u64().unwrap()
    });
    assert!(fetched.sum::<u64>() > 100, "{name}, {mode}: {}", done.err);
}

#[test]
fn malloc_in_threads_gives_what_was_put_there() {
    part("malloc", "thread");
    part("malloc", "inline");
}

#[test]
fn mappings_are_changed_as_by_the_kernel() {
    part("maps", "thread");
    part("maps", "inline");
}

#[test]
fn mappings_are_replaced_while_others_read_them() {
    part("replaced", "thread");
    part("replaced", "inline");
}

#[test]
fn children_of_fork_read_what_their_parent_had() {
    part("fork", "thread");
    part("fork", "inline");
}

#[test]
fn programs_start_programs() {
    part("exec", "thread");
    part("exec", "inline");
}

#[test]
fn signals_of_the_program_are_its_own() {
    part("signals", "thread");
    part("signals", "inline");
}

#[test]
fn what_is_reserved_first_is_borrowed_once_it_is_used() {
    part("reserved", "thread");
    part("reserved", "inline");
}

#[test]
fn what_the_break_gives_is_borrowed() {
    part("break", "thread");
    part("break", "inline");
}

#[test]
fn a_program_whose_lender_dies_gets_sigbus() {
    for mode in ["thread", "inline"] {
        loss("1", mode, "loss", |status, _| is_sigbus(status));
    }
}

#[test]
fn a_program_that_ignores_sigbus_gets_it_all_the_same() {
    for mode in ["thread", "inline"] {
        loss("1", mode, "loss-ignored", |status, _| is_sigbus(status));
    }
}

#[test]
fn a_handler_of_sigbus_runs_before_the_program_ends() {
    for mode in ["thread", "inline"] {
        loss("1", mode, "loss-handled", |status, said| is_sigbus(status) && said == "handled\n");
    }
}

#[test]
fn a_program_with_two_lenders_survives_one() {
    for mode in ["thread", "inline"] {
        loss("2", mode, "loss", |status, said| status.success() && said == "ok\n");
    }
}

/// A program that has most of its memory at lenders, and goes on when it is written to.
fn at_work(host: &Host, args: &[&str], part: &str) -> (Child, BufReader<ChildStdout>) {
    let program = program("borrowed");
    let args = [args, &["--cache", CACHE, "--threshold", "0", "--"]].concat();
    let mut child = borrow_with(host, &args, &[program.to_str().unwrap(), part])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, output)
}

/// Stops a lender, which is reached over the network, as if its host or the way to it had gone silent.
fn silence(copies: &str, is_right: impl Fn(std::process::ExitStatus) -> bool) {
    let host = Host::new();
    let silent = Lender::start_on_network(&host, "256M");
    if !is_possible(&host) {
        return;
    }
    let _other = (copies != "1").then(|| Lender::start_on_network(&host, "256M"));
    let (mut child, _output) =
        at_work(&host, &["128M", "--network", "--mirror", copies, "--patience", "5"], "loss");
    silent.stop();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            None => {
                let _ = child.kill();
                panic!("still waiting for a lender that is silent");
            }
        }
    };
    assert!(is_right(status), "{status:?}");
}

#[test]
fn a_program_whose_lender_is_silent_gets_sigbus() {
    silence("1", is_sigbus);
}

#[test]
fn a_program_with_two_lenders_goes_on_when_one_is_silent() {
    silence("2", |status| status.success());
}

fn is_sigbus(status: std::process::ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGBUS)
}

/// Kills the lender of a program that is at work, at ever other moments; `is_right` gets what the program said since.
fn loss(
    copies: &str,
    mode: &str,
    part: &str,
    is_right: impl Fn(std::process::ExitStatus, &str) -> bool,
) {
    let host = Host::new();
    let _survivor = Lender::start(&host, "256M");
    if !is_possible(&host) {
        return;
    }
    let (mut round, mut attempts) = (0, 0);
    while round < 4 {
        attempts += 1;
        assert!(attempts <= 12, "the cache holds everything: nothing is ever away");
        let dying = Lender::start(&host, "256M");
        // With one copy it must be the dying one that has it: the survivor has no room then.
        let filler = (copies == "1").then(|| Filler::start(&host));
        let args = ["128M", "--mirror", copies, "--mode", mode];
        let (mut child, mut output) = at_work(&host, &args, part);
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"go\n").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20 * round));
        drop(dying);
        // Without its lender the program has to end though it is told to go on.
        let input = (copies == "1").then_some(input);
        let status = match copies {
            "1" => end_of_loss(&mut child),
            _ => Some(child.wait().unwrap()),
        };
        drop(input);
        drop(filler);
        // If nothing was away, nothing is proved: once more.
        let Some(status) = status else { continue };
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        assert!(is_right(status, &said), "{mode}, {part}, round {round}: {status:?}, {said}");
        round += 1;
    }
}

/// The end of the program whose lender has died; `None` if nothing of it was away, so that it goes on:
/// while the host keeps evictors from their cores, they let more stay than the cache has.
fn end_of_loss(child: &mut Child) -> Option<std::process::ExitStatus> {
    let (soon, end) = (Instant::now() + Duration::from_secs(10), Instant::now() + PATIENCE);
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return Some(status),
            None if Instant::now() > soon && is_all_here(child) => {
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            None => assert!(Instant::now() < end, "the program neither ends nor has its memory"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether all that the program has filled is in local memory.
fn is_all_here(child: &Child) -> bool {
    const FILLED_KIB: u64 = 16 << 10;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >= FILLED_KIB
}

/// A program that occupies a lender.
struct Filler(Child);

impl Filler {
    fn start(host: &Host) -> Filler {
        Filler(at_work(host, &["250M"], "loss").0)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn small_programs_do_not_borrow() {
    let host = Host::new();
    let _lender = Lender::start(&host, "64M");
    // Without the right to userfaultfd the command says what that means.
    let is_of_process = |line: &&str| !line.contains("may not serve the kernel's own faults");
    let said = |args: &[&str]| -> Vec<String> {
        let done = Done::from(borrow(&host, args, &["echo", "x"]).output().unwrap());
        assert_eq!((done.status, done.out.as_str()), (Some(0), "x\n"));
        done.err.lines().filter(is_of_process).map(str::to_owned).collect()
    };
    let report = said(&["64M", "--stats"]);
    assert!(report.len() == 1 && report[0].contains("nothing was borrowed"), "{report:?}");
    assert_eq!(said(&["64M"]), Vec::<String>::new());
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    let host = Host::new();
    let _lender = Lender::start(&host, "64M");
    let done = Done::from(borrow(&host, &["64M"], &["sh", "-c", "exit 42"]).output().unwrap());
    assert_eq!(done.status, Some(42), "{done:?}");
    let done = borrow(&host, &["64M"], &["sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&done), Some(libc::SIGTERM));
}

/// Runs a program of tests/c on borrowed memory to its end.
fn whole(host: &Host, name: &str, args: &[&str]) {
    let args = [args, &["--cache", CACHE, "--threshold", "0"]].concat();
    let program = program(name);
    let done = borrow(host, &args, &[program.to_str().unwrap()]).output().unwrap();
    let done = Done::from(done);
    assert!(done.status == Some(0) && done.out == "ok\n", "{args:?}: {done:?}");
}

#[test]
fn coroutines_have_stacks_of_borrowed_memory() {
    let host = Host::new();
    let _lender = Lender::start(&host, "256M");
    if is_possible(&host) {
        for mode in ["thread", "inline", "auto"] {
            whole(&host, "coroutines", &["192M", "--mode", mode]);
        }
    }
}

#[test]
fn a_program_at_its_limit_on_open_files_has_its_memory() {
    let host = Host::new();
    let _lender = Lender::start_on_network(&host, "256M");
    if !is_possible(&host) {
        return;
    }
    whole(&host, "limited", &["64M"]);
    whole(&host, "limited", &["64M", "--network"]);
    // Where the limit cannot be raised, a line names it.
    let args = ["64M", "--cache", CACHE, "--threshold", "0", "--network"];
    let command = [program("limited").to_str().unwrap().to_owned(), "for-good".to_owned()];
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let done = Done::from(borrow(&host, &args, &command).output().unwrap());
    let is_told = done.out == "no fork\n" && done.err.contains("ulimit -n");
    assert!(done.status == Some(0) && (is_told || done.out == "ok\n"), "{done:?}");
}

/// A command that may have so many files open.
fn limit_files(command: &mut Command, most: u64) -> &mut Command {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a system call, of the child.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    }
}

#[test]
fn a_lender_without_descriptors_says_so() {
    if !is_possible_here() {
        return;
    }
    let program = program("borrowed");
    let mut has_run = false;
    for most in 8..24 {
        let host = Host::new();
        let args = ["lend", "64M", "--overcommit", "--listen", "127.0.0.1:0", "--insecure"];
        let mut command = host.command(&args);
        let command = limit_files(&mut command, most).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut lender = command.spawn().unwrap();
        let mut lines = BufReader::new(lender.stdout.take().unwrap()).lines().map(Result::unwrap);
        if !lines.any(|line| line.contains("lends")) {
            let done = Done::from(lender.wait_with_output().unwrap());
            assert!(done.err.contains("ulimit -n"), "{most}: {done:?}");
            continue;
        }
        let lender = Lender(lender);
        for network in [&[][..], &["--network", "--patience", "1"]] {
            let args = [&["32M", "--threshold", "0"], network].concat();
            let command = [program.to_str().unwrap(), "echo"];
            let done = Done::from(borrow(&host, &args, &command).output().unwrap());
            let is_well = done.status == Some(0) && done.err.is_empty();
            assert!(is_well || done.err.contains("ulimit -n"), "{most}: {done:?}");
            has_run |= is_well;
        }
        drop(lender);
    }
    assert!(has_run);
}

fn is_possible_here() -> bool {
    let host = Host::new();
    let _lender = Lender::start(&host, "64M");
    is_possible(&host)
}

#[test]
fn a_process_that_could_not_borrow_reports_why() {
    let host = Host::new();
    let lender = Lender::start(&host, "64M");
    if !is_possible(&host) {
        return;
    }
    let program = program("borrowed");
    // The lender ends after the command has seen it.
    let script = format!("kill -9 {}; exec \"$0\" echo", lender.0.id());
    let args = ["32M", "--threshold", "0", "--stats"];
    let command = ["sh", "-c", &script, program.to_str().unwrap()];
    let done = Done::from(borrow(&host, &args, &command).output().unwrap());
    let report = done.err.lines().find(|line| line.contains("nothing was borrowed")).unwrap();
    assert!(report.contains("no lease could be made: "), "{report}");
    assert!(!report.contains("--threshold"), "{report}");
}

#[test]
fn shared_memory_is_reported_as_what_it_is() {
    let host = Host::new();
    let _lender = Lender::start(&host, "64M");
    if !is_possible(&host) {
        return;
    }
    let program = program("borrowed");
    let args = ["32M", "--threshold", "8M", "--stats"];
    let command = [program.to_str().unwrap(), "shared"];
    let done = Done::from(borrow(&host, &args, &command).output().unwrap());
    assert_eq!(done.status, Some(0), "{done:?}");
    let report = done.err.lines().find(|line| line.contains("nothing was borrowed")).unwrap();
    assert!(report.contains(", 16.0 MiB in shared mappings"), "{report}");
    assert!(report.contains("only private memory is borrowed"), "{report}");
}

#[test]
fn what_is_not_the_library_is_refused() {
    let host = Host::new();
    let _lender = Lender::start(&host, "64M");
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "plain text").unwrap();
    for other in [text, program("borrowed"), dir.path().join("none")] {
        let mut command = borrow(&host, &["32M"], &["true"]);
        let done = Done::from(command.env("RACKMEM_PRELOAD", &other).output().unwrap());
        let is_told = done.err.contains("RACKMEM_PRELOAD") && done.err.lines().count() == 1;
        assert!(done.status == Some(1) && is_told, "{done:?}");
    }
}

#[test]
fn what_cannot_be_lent_to_is_told_before_it_starts() {
    let host = Host::new();
    let nobody = host.fails(1, &["borrow", "64M", "--", "true"]);
    assert!(nobody.contains("rackmem lend"), "{nobody}");
    let _lender = Lender::start(&host, "64M");
    let little = host.fails(1, &["borrow", "1G", "--", "true"]);
    assert!(little.contains("only 64 MiB"), "{little}");
    let missing = host.fails(127, &["borrow", "64M", "--", "no-such-program"]);
    assert!(missing.contains("no-such-program"), "{missing}");
    let nothing = host.fails(2, &["borrow", "0", "--", "true"]);
    assert!(nothing.contains("0 bytes"), "{nothing}");
    let alone = host.fails(1, &["borrow", "16M", "--mirror", "2", "--", "true"]);
    assert!(alone.contains("2 copies"), "{alone}");
    let mut narrow = borrow(&host, &["16M"], &["true"]);
    let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
    // SAFETY: a system call, of the child.
    unsafe {
        narrow.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let narrow = Done::from(narrow.output().unwrap());
    assert!(narrow.status == Some(1) && narrow.err.contains("ulimit -v"), "{narrow:?}");

    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("static.c");
    let built = dir.path().join("static");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let cc = Command::new("cc").args(["-static", "-o"]).arg(&built).arg(&source).status();
    if cc.is_ok_and(|status| status.success()) {
        let refused = host.fails(1, &["borrow", "64M", "--", built.to_str().unwrap()]);
        assert!(refused.contains("statically") && refused.contains("swapon"), "{refused}");
        // A process that starts one gets a warning.
        for script in ["\"$0\"; exit $?", "exec \"$0\""] {
            let command = ["sh", "-c", script, built.to_str().unwrap()];
            let done = Done::from(borrow(&host, &["64M"], &command).output().unwrap());
            assert_eq!(done.status, Some(0), "{done:?}");
            let told = done.err.lines().filter(|line| line.contains("linked statically"));
            assert_eq!(told.count(), 1, "{done:?}");
        }
    } else {
        eprintln!("not tested: this compiler makes no static programs");
    }
}
