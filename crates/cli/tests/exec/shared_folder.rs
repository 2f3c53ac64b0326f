//! Files that the nodes of a rack share, or that outlive a program's mappings.

use std::fs;

use tempfile::TempDir;

use super::{has_compiler, rackmem, text, write};

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

/// Writes a file through a mapping, and goes on until it is stopped, or crashes.
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
    if (count > 2)
        *(volatile int *)8 = 0;
    for (;;)
        ;
}
"#;

#[test]
fn what_was_written_through_a_mapping_is_in_the_file_however_the_program_ends() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    write(&dir, "endless.c", ENDLESS);
    let done = rackmem(dir.path(), &["cc", "-O1", "-o", "endless.rv64", "endless.c"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
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
fn nodes_share_files_in_an_order_that_does_not_depend_on_threads() {
    if !has_compiler() {
        return;
    }
    let dir = TempDir::new().unwrap();
    write(&dir, "rivals.c", RIVALS);
    let done = rackmem(dir.path(), &["cc", "-O1", "-o", "rivals.rv64", "rivals.c"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
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
