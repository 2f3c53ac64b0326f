//! Files that a run writes, beside a program that changes its folder.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{compiled, has_compiler, prebuilt, rackmem, text, write};

/// Puts links to a file outside where output is going to be, and renames a file that stays open.
const LINKING: &[u8] = br#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <rackmem/region.h>
int main(int count, char **names)
{
    char part[64];
    for (int i = 1; i < count; i++) {
        unlink(names[i]);
        symlink("../precious", names[i]);
        snprintf(part, sizeof part, ".%s.part", names[i]);
        symlink("../precious", part);
    }
    if (count == 1) {
        int file = open("before", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        write(file, "text", 4);
        rename("before", "after");
        close(open("before", O_WRONLY | O_CREAT | O_TRUNC, 0644));
        rackmem_region_begin();
        write(file, "more", 4);
        rackmem_region_end();
    }
    puts("done");
    return 0;
}
"#;

struct Rig(TempDir);

impl Rig {
    fn new() -> Rig {
        let rig = Rig(TempDir::new().unwrap());
        fs::create_dir(rig.0.path().join("run")).unwrap();
        fs::write(rig.0.path().join("precious"), "precious").unwrap();
        fs::write(rig.0.path().join("run/linking.c"), LINKING).unwrap();
        rig.run(&["cc", "-O1", "-o", "linking.rv64", "linking.c"], 0);
        rig
    }

    fn run(&self, args: &[&str], status: i32) -> String {
        let done = rackmem(&self.0.path().join("run"), args);
        assert_eq!(done.status.code(), Some(status), "{args:?}: {done:?}");
        text(&done.stderr)
    }
}

#[test]
fn a_program_cannot_lead_output_out_of_its_folder() {
    if !has_compiler() {
        return;
    }
    let rig = Rig::new();
    let here = rig.0.path().join("run");
    for option in ["--report", "--trace"] {
        let exec = ["sim", "exec", "sonuma", option, "output", "linking.rv64", "output"];
        rig.run(&exec, 0);
        assert!(fs::symlink_metadata(here.join("output")).unwrap().is_file(), "{option}");
        // A program of before may have left a link.
        fs::remove_file(here.join("output")).unwrap();
        symlink("../precious", here.join("output")).unwrap();
        let refused = rig.run(&exec, 1);
        assert!(refused.contains("a link leads out of the folder"), "{option}: {refused}");
        fs::remove_file(here.join("output")).unwrap();
    }
    let functional = ["--functional", "--report", "output", "linking.rv64", "output"];
    rig.run(&[&["sim", "exec"], &functional[..]].concat(), 0);
    let log = "node0-core0.log";
    fs::create_dir(here.join("view")).unwrap();
    symlink("../../precious", here.join("view").join(log)).unwrap();
    rig.run(&["sim", "exec", "sonuma", "--pipeline", "view", "linking.rv64", "other"], 0);
    assert!(fs::symlink_metadata(here.join("view").join(log)).unwrap().is_file());
    assert_eq!(fs::read(rig.0.path().join("precious")).unwrap(), b"precious");
    symlink("..", here.join("up")).unwrap();
    let refused = rig.run(&["sim", "exec", "sonuma", "--pipeline", "up", "linking.rv64"], 1);
    assert!(refused.contains("a link leads out of the folder"), "{refused}");
}

#[test]
fn a_renamed_file_that_is_open_is_in_no_checkpoint() {
    if !has_compiler() {
        return;
    }
    let rig = Rig::new();
    let part = ["sim", "exec", "sonuma", "--fast-forward", "region", "--checkpoint", "here"];
    let refused = rig.run(&[&part[..], &["linking.rv64"]].concat(), 125);
    assert!(refused.contains("before: is open and has another name now"), "{refused}");
    assert!(!rig.0.path().join("run/here").exists());
}

#[test]
fn two_files_of_a_run_have_two_names() {
    let dir = TempDir::new().unwrap();
    let hello = prebuilt().join("hello.rv64");
    let exec = ["sim", "exec", "sonuma", "--report", "same", "--trace", "./same"];
    let done = rackmem(dir.path(), &[&exec[..], &[hello.to_str().unwrap()]].concat());
    let said = text(&done.stderr);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("--report and --trace name one file, ./same; name two"), "{said}");
    let run = ["sim", "run", "manycore-ni", "--out", "runs", "--trace", "runs/report.json"];
    let said = text(&rackmem(dir.path(), &run).stderr);
    assert!(said.contains("--out and --trace name one file"), "{said}");
    // Devices take all that is written.
    let exec = ["sim", "exec", "sonuma", "--report", "/dev/null", "--trace", "/dev/null"];
    let done = rackmem(dir.path(), &[&exec[..], &[hello.to_str().unwrap()]].concat());
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_second_run_leaves_no_pipelines_of_the_first() {
    let dir = TempDir::new().unwrap();
    let hello = prebuilt().join("hello.rv64");
    let hello = hello.to_str().unwrap();
    let names = || {
        let entries = fs::read_dir(dir.path().join("view")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let run = |nodes| {
        let exec = ["sim", "exec", "sonuma", "--pipeline", "view", "-n", nodes, hello];
        assert!(rackmem(dir.path(), &exec).status.success());
    };
    run("2");
    assert_eq!(names(), ["node0-core0.log", "node1-core0.log"]);
    write(&dir, "view/node-notes.log", b"mine");
    run("1");
    assert_eq!(names(), ["node-notes.log", "node0-core0.log"]);
}

/// As when the terminal is closed: what was counted is in the report all the same. `nohup` has no such end.
#[test]
fn the_end_of_the_terminal_ends_a_run_with_its_report() {
    let dir = TempDir::new().unwrap();
    let many = prebuilt().join("many_reads.rv64");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command
        .current_dir(dir.path())
        .args(["sim", "exec", "sonuma", "-n", "2", "--report", "report"]);
    command.arg(many).args(["--reads", "100000000"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The first bit of the masks is SIGHUP.
    let has = |mask: &str| {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap();
        mask.trim().ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f'])
    };
    while !has("SigCgt:") && !has("SigIgn:") {
        std::thread::sleep(Duration::from_millis(5));
    }
    // These tests may be run under nohup themselves.
    if has("SigIgn:") {
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    }
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(129));
    let report = fs::read_to_string(dir.path().join("report")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["cut_short"].is_string() && report["cycles"].as_u64() > Some(0), "{report}");
}

#[test]
fn pipes_carry_reports_and_checkpoints() {
    let dir = TempDir::new().unwrap();
    write(&dir, "in", b"1 2 3\n");
    let hello = prebuilt().join("hello.rv64");
    let script = r#"
        set -e
        "$RACKMEM" sim exec sonuma --report /dev/stdout "$HELLO" | grep '"instructions"'
        "$RACKMEM" sim exec sonuma --fast-forward 3k --checkpoint here "$HELLO"
        cat here | "$RACKMEM" sim exec sonuma --restore /dev/stdin
    "#;
    let done = Command::new("bash")
        .args(["-o", "pipefail", "-c", script])
        .env("RACKMEM", env!("CARGO_BIN_EXE_rackmem"))
        .env("HELLO", hello)
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(text(&done.stdout).contains("node 0 of 1 took number 0"), "{done:?}");
}

#[test]
fn output_that_is_lost_is_an_error() {
    let hello = prebuilt().join("hello.rv64");
    for nodes in ["1", "2"] {
        let done = Command::new(env!("CARGO_BIN_EXE_rackmem"))
            .args(["sim", "exec", "sonuma", "-n", nodes])
            .arg(&hello)
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        let said = text(&done.stderr);
        assert!(said.contains("cannot write the program's output: No space left"), "{said}");
    }
}

/// Is connected with itself; with an argument it closes all before its region begins.
const CONNECTED: &[u8] = br#"
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rackmem/region.h>
int main(int count, char **names)
{
    (void)names;
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    if (count > 1) {
        close(ends[0]);
        close(ends[1]);
    }
    rackmem_region_begin();
    puts("region");
    rackmem_region_end();
    return 0;
}
"#;

#[test]
fn open_sockets_are_in_no_checkpoint() {
    if !has_compiler() {
        return;
    }
    let rig = Rig::new();
    fs::write(rig.0.path().join("run/connected.c"), CONNECTED).unwrap();
    rig.run(&["cc", "-O1", "-o", "connected.rv64", "connected.c"], 0);
    let part = ["sim", "exec", "sonuma", "--fast-forward", "region", "--checkpoint", "here"];
    let refused = rig.run(&[&part[..], &["connected.rv64"]].concat(), 125);
    assert!(refused.contains("has sockets, which checkpoints do not keep"), "{refused}");
    rig.run(&[&part[..], &["connected.rv64", "closed"]].concat(), 0);
    rig.run(&["sim", "exec", "sonuma", "--restore", "here"], 0);
}

/// Has descriptors of one file in memory, of files without their content, and of what `epoll` watches.
const DESCRIPTORS: &[u8] = br#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rackmem/region.h>
static int again(int file, int flags)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return open(name, flags);
}
int main(void)
{
    char bytes[3][16] = {0};
    struct stat status;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, found = {0};
    int memory = memfd_create("memory", 0), same = again(memory, O_RDWR);
    int file = open("kept", O_RDWR | O_CREAT | O_TRUNC, 0644), path = open("kept", O_PATH);
    unlink("link");
    symlink("nowhere", "link");
    int link = open("link", O_PATH | O_NOFOLLOW);
    int epoll = epoll_create1(0), first = eventfd(0, 0), second = dup(first);
    write(memory, "early", 5);
    write(file, "text", 4);
    epoll_ctl(epoll, EPOLL_CTL_ADD, first, &event);
    close(first);
    rackmem_region_begin();
    write(memory, "late", 4);
    read(same, bytes[0], 15);
    read(again(path, O_RDONLY), bytes[1], 15);
    readlinkat(link, "", bytes[2], 15);
    fstat(path, &status);
    write(second, &(long){1}, 8);
    int count = epoll_wait(epoll, &found, 1, 0);
    printf("%s %s %s %ld", bytes[0], bytes[1], bytes[2], (long)status.st_size);
    printf(" %d %d\n", count, (int)found.data.u64);
    rackmem_region_end();
    return 0;
}
"#;

#[test]
fn descriptors_of_one_file_stay_so_from_a_checkpoint_on() {
    let Some(dir) = compiled("descriptors", DESCRIPTORS) else { return };
    let printed = |options: &[&str]| {
        let done = rackmem(dir.path(), &[&["sim", "exec", "sonuma"], options].concat());
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let region = ["--fast-forward", "region", "descriptors.rv64"];
    printed(&[&["--checkpoint", "here"], &region[..]].concat());
    let expected = "earlylate text nowhere 4 1 7\n";
    for options in [&region[..], &["--restore", "here"]] {
        assert_eq!(printed(options), expected, "{options:?}");
    }
}

/// Prints lines for ever; with an argument it ignores `SIGPIPE`, and says what a write that nobody reads returns.
const PRINTING: &[u8] = br#"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
    char line[512];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    if (count > 1) signal(SIGPIPE, SIG_IGN);
    while (write(1, line, sizeof line) > 0)
        ;
    return errno == EPIPE ? 3 : 4;
}
"#;

#[test]
fn a_program_whose_reader_has_gone_ends_as_in_a_shell() {
    let Some(dir) = compiled("printing", PRINTING) else { return };
    for first in ["--functional", "sonuma"] {
        for (word, status) in [(None, 141), (Some("ignore"), 3)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
            command
                .current_dir(dir.path())
                .args(["sim", "exec", first, "printing.rv64"])
                .args(word);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            assert_eq!(lines.read_line(&mut line).unwrap(), 512);
            drop(lines);
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            let ended = child.wait().unwrap();
            assert_eq!((ended.code(), said.as_str()), (Some(status), ""), "{first}");
        }
    }
}

#[test]
fn processes_whose_reader_has_gone_end() {
    let Some(dir) = compiled("printing", PRINTING) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.args(["sim", "exec", "sonuma", "--nodes", "2", "printing.rv64"]);
    let mut child = command.current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
}
