//! Files that the nodes of a rack share, or that outlive a program's mappings.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{compiled, rackmem, text};

/// Each node makes the same folders, appends to one file and writes another one through a mapping, all at the same
/// time, and tells what it has seen.
const RIVALS: &[u8] = br#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
    char own = (char)('0' + atoi(getenv("RACKMEM_NODE")));
    uint32_t seen = 2166136261u, won = 0;
    int page = open("page", O_RDWR | O_CREAT, 0600);
    char *map;

    if (ftruncate(page, 4096) != 0)
        return 1;
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    for (int turn = 0; turn < 30; turn++) {
        char name[16], bytes[256];
        int log = open("log", O_RDWR | O_CREAT | O_APPEND, 0600);
        ssize_t count;

        snprintf(name, sizeof name, "folder%d", turn);
        won += mkdir(name, 0700) == 0;
        if (write(log, &own, 1) != 1)
            return 2;
        count = pread(log, bytes, sizeof bytes, 0);
        for (ssize_t at = 0; at < count; at++)
            seen = (seen ^ (unsigned char)bytes[at]) * 16777619u;
        map[0] = own;
        msync(map, 4096, MS_SYNC);
        if (pread(page, bytes, 1, 0) != 1)
            return 3;
        seen = (seen ^ (unsigned char)bytes[0]) * 16777619u;
        close(log);
    }
    map[1] = own;
    printf("won %u, saw %08x\n", won, seen);
    return 0;
}
"#;

/// Writes a file through a mapping, says so, and goes on until it is stopped, waits for input, or crashes.
const ENDLESS: &[u8] = br#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **args)
{
    int file = open(args[1], O_RDWR | O_CREAT, 0600);
    volatile char *map;

    if (ftruncate(file, 4096) != 0)
        return 1;
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    map[0] = 'k';
    write(1, "k\n", 2);
    if (count > 2 && args[2][0] == 'c')
        *(volatile int *)8 = 0;
    for (volatile int i = 0; i < 10000 || count == 2; i++)
        ;
    read(0, (char *)map, 1);
}
"#;

/// Three nodes see the same files in other orders. Then the first one makes a file and a folder again.
const NUMBERS: &[u8] = br#"
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <rackmem/region.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int own;

static void wait_for_all(char phase)
{
    char name[] = {phase, (char)('0' + own), 0};
    close(creat(name, 0600));
    for (name[1] = '0'; name[1] < '3'; name[1]++)
        while (access(name, F_OK) != 0)
            sched_yield();
}

static long number(const char *name)
{
    struct stat status;
    return stat(name, &status) == 0 ? (long)status.st_ino : -1;
}

int main(void)
{
    long seen[3], listed = -1;
    own = atoi(getenv("RACKMEM_NODE"));
    for (int i = 0; i < 3; i++) {
        char name[] = {"xyz"[(own + i) % 3], 0};
        close(open(name, O_RDONLY | O_CREAT, 0600));
        seen[(own + i) % 3] = number(name);
    }
    mkdir("folder", 0700);
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    wait_for_all('a');
    rackmem_region_begin();
    if (own == 0) {
        unlink("x");
        close(creat("x", 0600));
        rmdir("folder");
        mkdir("folder", 0700);
        close(creat("folder/new", 0600));
    }
    wait_for_all('b');
    int is_there = openat(folder, "new", O_RDONLY) >= 0;
    DIR *list = opendir(".");
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        if (strcmp(entry->d_name, "x") == 0)
            listed = (long)entry->d_ino;
    printf("%ld %ld %ld, ", seen[0], seen[1], seen[2]);
    printf("%d %d, ", number("x") != seen[0] && listed == number("x"), number("y") == seen[1]);
    printf("%d %d\n", is_there, getdents64(folder, &seen, sizeof seen) < 0 && errno == ENOENT);
    rackmem_region_end();
    return 0;
}
"#;

#[test]
fn nodes_share_the_numbers_of_files_whatever_numbers_the_host_gives() {
    let Some(dir) = compiled("numbers", NUMBERS) else { return };
    let run = |folder: &str, options: &[&str]| {
        let folder = dir.path().join(folder);
        let _ = fs::create_dir(&folder);
        let done = rackmem(&folder, &[&["sim", "exec", "sonuma"], options].concat());
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        let printed = text(&done.stdout);
        let line = |node: usize| {
            let prefix = format!("[{node}] ");
            printed.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
        };
        (0..3).filter_map(line).collect::<Vec<_>>()
    };
    let nodes = ["-n", "3", "--", "../numbers.rv64"];
    let one = run("1", &[&["--set", "run.threads=1"], &nodes[..]].concat());
    assert!(one.len() == 3 && one[0].ends_with(", 1 1, 0 1"), "{one:?}");
    assert_eq!((&one[1], &one[2]), (&one[0], &one[0]));
    for threads in ["2", "3"] {
        let set = format!("run.threads={threads}");
        assert_eq!(run(threads, &[&["--set", &set], &nodes[..]].concat()), one, "{threads}");
    }
    let region = ["--fast-forward", "region"];
    let timed = run("whole", &[&region, &nodes[..]].concat());
    run("again", &[&region, &["--checkpoint", "../here"], &nodes[..]].concat());
    assert_eq!(run("again", &["--restore", "../here"]), timed);
    assert!(timed.len() == 3 && timed[0].ends_with(", 1 1, 0 1"), "{timed:?}");
}

#[test]
fn what_was_written_through_a_mapping_is_in_the_file_however_the_program_ends() {
    let Some(dir) = compiled("endless", ENDLESS) else { return };
    for how in
        [&["sonuma", "--max-cycles", "2M"][..], &["--functional", "--max-instructions", "2M"]]
    {
        for args in [&["stopped"][..], &["crashed", "crash"]] {
            let all = [&["sim", "exec"], how, &["--", "endless.rv64"], args].concat();
            assert_ne!(rackmem(dir.path(), &all).status.code(), Some(0));
            let content = fs::read(dir.path().join(args[0])).unwrap();
            assert_eq!((content.len(), content[0]), (4096, b'k'), "{all:?}");
            fs::remove_file(dir.path().join(args[0])).unwrap();
        }
    }
}

#[test]
fn an_interrupted_command_ends_and_what_was_written_through_a_mapping_is_in_the_file() {
    let Some(dir) = compiled("endless", ENDLESS) else { return };
    let run = |how: &[&str], args: &[&str], signal: Signal| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
        command
            .current_dir(dir.path())
            .args(["sim", "exec"])
            .args(how)
            .args(["--", "endless.rv64"]);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "k\n", "{how:?}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        // Its input stays open until it has ended.
        let input = child.stdin.take();
        let status = child.wait().unwrap();
        drop(input);
        status
    };
    for how in [&["sonuma"][..], &["--functional"]] {
        for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
            assert_eq!(run(how, &["stopped"], signal).code(), Some(128 + number), "{how:?}");
            let content = fs::read(dir.path().join("stopped")).unwrap();
            assert_eq!((content.len(), content[0]), (4096, b'k'), "{how:?}");
            fs::remove_file(dir.path().join("stopped")).unwrap();
        }
        // One that waits for input cannot end well, and ends all the same.
        let status = run(how, &["waits", "reads"], Signal::TERM);
        assert!(status.signal() == Some(15) || status.code() == Some(143), "{how:?}: {status}");
    }
}

#[test]
fn nodes_share_files_in_an_order_that_does_not_depend_on_threads() {
    let Some(dir) = compiled("rivals", RIVALS) else { return };
    let run = |threads: &str| {
        let folder = dir.path().join(threads);
        fs::create_dir(&folder).unwrap();
        let set = format!("run.threads={threads}");
        let args = ["sim", "exec", "sonuma", "-n", "4", "--set", &set, "--", "../rivals.rv64"];
        let done = rackmem(&folder, &args);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        let content = |name: &str| fs::read(folder.join(name)).unwrap();
        (text(&done.stdout), text(&content("log")), content("page"))
    };
    let one = run("1");
    assert!(one.0.contains("[3] won"), "{}", one.0);
    assert_eq!(one.1.len(), 4 * 30);
    for threads in ["2", "3", "4"] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}
