//! Processes that do so many operations, and no more: this binary, started again by `rackmem run`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::Ordering;

use rackmem::client::{Context, OpenOptions};

use crate::common::{Host, kill};

/// A round of node 0: reads of 64 bytes, writes and atomics of 8 bytes, and reads beyond the segment, which fail.
pub const READS: u64 = 7;
pub const WRITES: u64 = 3;
pub const ATOMICS: u64 = 2;
pub const ERRORS: u64 = 4;
/// The last write, which ends node 1.
pub const LAST: u64 = 1;

const SEGMENT_BYTES: u64 = 4096;
const END_AT: u64 = SEGMENT_BYTES - 8;

/// A run of two nodes, of which node 0 has done all but its last write.
pub struct Run {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Run {
    /// Starts it on the rack that is up, and waits until the operations are done.
    pub fn start(host: &Host, progress: &str, rounds: u64) -> Run {
        let mut run = Run::busy(host, progress, rounds);
        let mut line = String::new();
        while !line.contains("done") {
            line.clear();
            assert_ne!(run.output.read_line(&mut line).expect("text"), 0, "the run has ended");
        }
        run
    }

    /// Starts it, and leaves it at work.
    pub fn busy(host: &Host, progress: &str, rounds: u64) -> Run {
        let program = std::env::current_exe().expect("this program");
        let arguments = ["run", "-n", "2", "--no-prefix", "--progress", progress, "--"];
        let mut child = host
            .command(&arguments)
            .arg(program)
            .args(["--exact", "operations::child", "--include-ignored", "--nocapture"])
            .env("WATCHED_ROUNDS", rounds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Run { child, input, output }
    }

    /// Ends it in the middle of its work.
    pub fn cut(mut self) {
        kill(self.child.id(), "TERM");
        assert!(!self.child.wait().expect("it ends").success());
    }

    /// Lets it end.
    pub fn end(mut self) {
        self.input.write_all(b"end\n").expect("node 0 reads");
        let rest =
            std::thread::spawn(move || std::io::copy(&mut self.output, &mut std::io::sink()));
        assert!(self.child.wait().expect("it ends").success());
        rest.join().expect("no panic").expect("its output ends");
    }
}

/// The process of a node, not a test.
#[test]
#[ignore = "a process of the tests of counters"]
fn child() {
    let Ok(rounds) = std::env::var("WATCHED_ROUNDS") else { return };
    let options = OpenOptions::from_env().expect("a run").segment_bytes(SEGMENT_BYTES);
    let context = Context::open_all(&options).expect("a context");
    match context.nid() {
        0 => operate(&context, rounds.parse().expect("a number")),
        _ => {
            let end = context.word(END_AT).expect("a word");
            let mut has_come = || end.load(Ordering::Acquire) == 1;
            context.sleep_until(&mut has_come, Some(0), None).expect("node 0 writes it");
        }
    }
}

fn operate(context: &Context, rounds: u64) {
    let mut qp = context.queue_pair(64).expect("a queue pair");
    for _ in 0..rounds {
        for _ in 0..READS {
            qp.read(1, 0, &mut [0; 64]).expect("it is there");
        }
        for _ in 0..WRITES {
            qp.write(1, 64, &[1; 8]).expect("it is there");
        }
        for _ in 0..ATOMICS {
            qp.fetch_add(1, 128, 1).expect("it is there");
        }
        for _ in 0..ERRORS {
            qp.read(1, 2 * SEGMENT_BYTES, &mut [0; 8]).expect_err("it is beyond the segment");
        }
    }
    println!("done");
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    qp.write(1, END_AT, &1u64.to_le_bytes()).expect("it is there");
}
