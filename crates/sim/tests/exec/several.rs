//! Nodes of one run that execute different programs.

use rackmem_sim::exec::{self, End, Job, Options, part};

use super::guest::{Guest, from};
use super::load;
use super::same::all_of;

/// Programs that are the same one make the same rack, and each node has its own words.
#[test]
fn nodes_of_several_programs_are_one_rack() {
    let hello = Guest::prebuilt(1, &["hello"]);
    let job = |nodes| Job { nodes, ..hello.job() };
    let run = |jobs: &[Job<'_>], threads| {
        let machine = load("sonuma", &[("run.threads", threads)]);
        all_of(&exec::run(&machine, jobs, Options::default()).unwrap())
    };
    let one = run(&[job(3)], "1");
    assert_eq!(run(&[job(1), job(2)], "1"), one);
    assert_eq!(run(&[job(1), job(1), job(1)], "3"), one);
    // The rack's other nodes do not answer.
    let other = Guest::prebuilt(1, &["pagerank", "--nonsense"]);
    let machine = load("sonuma", &[]);
    let outcome = exec::run(&machine, &[job(2), other.job()], Options::default()).unwrap();
    let (nid, failed) = outcome.failed().expect("a program with a wrong argument");
    assert_eq!((nid, &failed.end), (2, &End::Exit(2)));
    assert_eq!(outcome.nodes[0].end, End::Stopped);
}

#[test]
fn what_several_programs_cannot_have_is_refused() {
    let hello = Guest::prebuilt(1, &["hello"]);
    let job = |nodes| Job { nodes, ..hello.job() };
    let machine = load("sonuma", &[]);
    let refused =
        |jobs: &[Job<'_>]| exec::run(&machine, jobs, Options::default()).unwrap_err().to_string();
    for none in [&[][..], &[job(1), job(0)]] {
        assert_eq!(refused(none), "a program needs a node at least");
    }
    assert_eq!(refused(&[job(40_000); 2]), "a rack has no more than 65535 nodes");
    let no_program = Job { program: b"text", args: &["text".to_owned()], ..hello.job() };
    assert!(refused(&[job(1), no_program]).starts_with("text: no ELF file"));
    let taken = part::checkpoint(&machine, &[job(1), job(1)], from(10), Options::default());
    assert!(taken.unwrap_err().to_string().starts_with("a checkpoint is of one program"));
}
