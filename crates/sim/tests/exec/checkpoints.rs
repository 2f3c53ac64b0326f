//! Programs that go on from a checkpoint.

use std::fs;
use std::path::Path;

use rackmem_riscv::Mark;
use rackmem_riscv::encode::{i, opcode, u};
use rackmem_sim::exec::part::{self, Part};
use rackmem_sim::exec::{Checkpoint, Options, Outcome, Session, Until};
use rackmem_sim::machine::Machine;

use super::ends::ECALL;
use super::guest::{Guest, at, from, options, through_a_file};
use super::parts::{END, count_down, with_region};
use super::{chips, load, said};

pub(super) fn options_in(folder: &Path) -> Options<'static> {
    Options { folder: Some(folder.to_owned()), ..options() }
}

/// A folder with what `state_test` reads.
pub(super) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (1..=200).map(|number| format!("{number}\n")).collect();
    fs::write(folder.path().join("in"), lines).unwrap();
    folder
}

pub(super) const STATE_TEST: [&str; 3] = ["state_test", "in", "out"];

pub(super) fn taken(machine: &Machine, args: &[&str], part: Part, folder: &Path) -> Checkpoint {
    Guest::prebuilt(1, args).checkpoint(machine, part, options_in(folder)).unwrap()
}

/// All that an outcome has besides times of the host.
pub(super) fn everything(mut outcome: Outcome) -> String {
    said(&outcome);
    (outcome.seconds, outcome.restored) = (0.0, None);
    format!("{outcome:?}")
}

#[test]
fn a_run_is_the_same_from_a_checkpoint_on() {
    let kernel = ["tsm_kernels", "--kernel", "b1", "--llc-bytes", "32K"];
    let serial = ["pagerank", "--kronecker", "6", "--variant", "serial"];
    let bulk = ["pagerank", "--kronecker", "5", "--variant", "bulk"];
    for (machine, nodes, args) in [
        (chips(&[]), 1, &STATE_TEST[..]),
        (chips(&[("seed", "7")]), 1, &STATE_TEST),
        (load("sonuma", &[]), 1, &STATE_TEST),
        (load("sonuma", &[]), 1, &kernel),
        (load("sonuma", &[]), 1, &serial),
        (load("sonuma", &[("run.threads", "2")]), 2, &bulk),
        (chips(&[("run.threads", "2")]), 2, &bulk),
    ] {
        let guest = Guest::prebuilt(nodes, args);
        for after in [1, 700, 9_000, 30_000, 60_000] {
            let folder = folder();
            let folder = folder.path();
            let part = Part::Instructions { after, count: Some(50_000) };
            let whole = guest.run_part(&machine, part, options_in(folder));
            let written = fs::read(folder.join("out")).ok();
            let checkpoint = guest.checkpoint(&machine, part, options_in(folder)).unwrap();
            let checkpoint = through_a_file(&checkpoint);
            // A checkpoint can be gone on from more than once, whatever was written behind it.
            for _ in 0..2 {
                if let Some(written) = &written {
                    let behind = [&written[..], b"behind its end"].concat();
                    fs::write(folder.join("out"), behind).unwrap();
                }
                let rest =
                    part::restore(&machine, &checkpoint, checkpoint.part(), options_in(folder));
                assert_eq!(
                    everything(rest.unwrap()),
                    everything(whole.clone()),
                    "{args:?} after {after}"
                );
                assert_eq!(fs::read(folder.join("out")).ok(), written);
            }
        }
    }
}

#[test]
fn a_program_goes_on_on_other_machines() {
    let folder = folder();
    let folder = folder.path();
    let checkpoint = taken(&chips(&[]), &STATE_TEST, from(60_000), folder);
    let mut cycles = Vec::new();
    for settings in [
        &[][..],
        &[("l1.size_bytes", "8K")],
        &[("llc.size_bytes", "64K")],
        &[("memory.size_bytes", "64M")],
        &[("tiles.columns", "4")],
        &[("clock_ghz", "1")],
        &[("clock_ghz", "3")],
    ] {
        let outcome =
            part::restore(&chips(settings), &checkpoint, Part::Whole, options_in(folder)).unwrap();
        let text = said(&outcome);
        assert!(text.ends_with("thread 2 1120655\n") && text.contains("file: 20100\n"), "{text}");
        assert_eq!(fs::read_to_string(folder.join("out")).unwrap().lines().count(), 200);
        let restored = outcome.restored.unwrap();
        assert_eq!((restored.machine.as_str(), restored.clock_ghz), ("manycore-ni", 2.0));
        assert!((60_000..70_000).contains(&restored.instructions), "{restored:?}");
        cycles.push(outcome.cycles);
    }
    cycles.sort_unstable();
    cycles.dedup();
    assert!(cycles.len() >= 6, "each has times of its own: {cycles:?}");
    let pagerank = ["pagerank", "--kronecker", "6", "--variant", "serial"];
    let checkpoint = taken(&load("sonuma", &[]), &pagerank, from(60_000), folder);
    let outcomes = [chips(&[]), load("sonuma", &[("memory.size_bytes", "256M")])].map(|machine| {
        part::restore(&machine, &checkpoint, Part::Whole, options_in(folder)).unwrap()
    });
    let ranks = |outcome: &Outcome| said(outcome).lines().next().map(str::to_owned);
    assert_eq!(ranks(&outcomes[0]), ranks(&outcomes[1]));
    assert_ne!(outcomes[0].cycles, outcomes[1].cycles);
}

#[test]
fn the_region_is_measured_that_begins_at_the_checkpoint() {
    let (guest, machine) = (with_region(3), load("sonuma", &[]));
    let whole = guest.run_part(&machine, Part::Region, Options::default());
    let checkpoint = guest.checkpoint(&machine, Part::Region, Options::default()).unwrap();
    let rest = part::restore(&machine, &checkpoint, checkpoint.part(), Options::default()).unwrap();
    assert_eq!(everything(rest), everything(whole));
    // Without timing it goes on, too.
    let mut options = Options::default();
    let mut session = Session::restore(&machine, &checkpoint, &options).unwrap();
    let end = Until { mark: Some(Mark::End), ..Until::default() };
    assert!(session.fast_forward(end, &mut options));
    assert!(!session.run(Until::default(), &mut options));
    said(&session.finish(options));
}

#[test]
fn a_program_that_sleeps_wakes_at_its_time() {
    // nanosleep() of 200 us, which begins before the checkpoint.
    let code = [
        u(opcode::AUIPC, 10, 0),
        i(opcode::OP_IMM, 0, 10, 10, 4 * 8),
        i(opcode::OP_IMM, 0, 11, 0, 0),
        i(opcode::OP_IMM, 0, 17, 0, 101),
        ECALL,
    ];
    let guest = Guest::code(1, &[&code[..], &END, &[0, 0, 200_000, 0]].concat());
    let checkpoint = guest.checkpoint(&load("sonuma", &[]), from(4), Options::default()).unwrap();
    for clock_ghz in ["1", "2", "3"] {
        let machine = load("sonuma", &[("clock_ghz", clock_ghz)]);
        let rest = part::restore(&machine, &checkpoint, Part::Whole, Options::default()).unwrap();
        said(&rest);
        let us = rest.cycles as f64 / machine.clock_ghz / 1000.0;
        assert!((200.0..202.0).contains(&us), "{us} us at {clock_ghz} GHz");
    }
}

#[test]
fn a_checkpoint_can_be_taken_after_another_one() {
    let (guest, machine) = (with_region(1), load("sonuma", &[]));
    let mut options = Options::default();
    let mut session = guest.session(&machine, &options);
    let mut outcomes = Vec::new();
    for count in [500, 1_500, 2_500] {
        assert!(session.fast_forward(at(count), &mut options));
        let checkpoint = session.checkpoint(&[guest.job()], Part::Whole, &mut options).unwrap();
        session = Session::restore(&machine, &checkpoint, &options).unwrap();
        let mut other = Session::restore(&machine, &checkpoint, &options).unwrap();
        assert!(!other.run(Until::default(), &mut Options::default()));
        outcomes.push(other.finish(Options::default()));
    }
    session.run(Until::default(), &mut options);
    outcomes.push(session.finish(options));
    for outcome in &outcomes {
        said(outcome);
        assert_eq!(outcome.instructions, 3 + 2 * 2500 + 2);
    }
}

/// The reason why a session gives no checkpoint.
fn refusal(mut before: impl FnMut(&mut Session, &mut Options<'_>)) -> String {
    let guest = Guest::code(1, &[&count_down(900)[..], &END].concat());
    let mut options = Options::default();
    let mut session = guest.session(&load("sonuma", &[]), &options);
    before(&mut session, &mut options);
    session.checkpoint(&[guest.job()], Part::Whole, &mut options).unwrap_err().to_string()
}

#[test]
fn a_checkpoint_is_of_a_program_without_timing() {
    let timed = refusal(|session, options| {
        session.run(at(100), options);
    });
    assert!(timed.contains("fast-forward from the begin"), "{timed}");
    let later = refusal(|session, options| {
        session.run(at(100), options);
        session.fast_forward(at(500), options);
    });
    assert_eq!(later, timed);
    let warm = refusal(|session, options| {
        session.fast_forward(at(500), options);
        session.warm(options);
    });
    assert_eq!(warm, timed);
    let ended = refusal(|session, options| {
        session.fast_forward(Until::default(), options);
    });
    assert!(ended.contains("has ended"), "{ended}");
}

#[test]
fn what_is_missing_where_a_program_goes_on_is_named() {
    let folder = folder();
    let folder = folder.path();
    let checkpoint = taken(&chips(&[]), &STATE_TEST, from(60_000), folder);
    let refused = |machine: &Machine| {
        let outcome = part::restore(machine, &checkpoint, Part::Whole, options_in(folder));
        outcome.expect_err("something is missing").to_string()
    };
    let cores = refused(&load("sonuma", &[]));
    assert!(cores.contains("4 threads on 4 cores, and there are 1"), "{cores}");
    let memory = refused(&chips(&[("memory.size_bytes", "1M")]));
    assert!(memory.starts_with("memory.size_bytes: "), "{memory}");
    let borrowed = refused(&load("deoi-cores", &[]));
    assert!(borrowed.contains("ni.placement"), "{borrowed}");
    let numbers = fs::read(folder.join("in")).unwrap();
    fs::write(folder.join("in"), [b"7", &numbers[1..]].concat()).unwrap();
    assert!(refused(&chips(&[])).ends_with("in: has another content than it had then"));
    fs::write(folder.join("in"), "1\n").unwrap();
    assert!(refused(&chips(&[])).ends_with("in: has 2 bytes, and had 692 then"));
    fs::remove_file(folder.join("in")).unwrap();
    assert!(refused(&chips(&[])).contains("/rackmem/in: No such file"), "{}", refused(&chips(&[])));
}

#[test]
fn a_file_that_is_not_as_it_was_written_is_no_checkpoint() {
    let folder = folder();
    let checkpoint = taken(&chips(&[]), &STATE_TEST, from(2_000), folder.path());
    let path = folder.path().join("here");
    let mut whole = Vec::new();
    checkpoint.write(&mut whole).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Checkpoint::read(&path).map(|_| ())
    };
    assert_eq!(read(&whole), Ok(()));
    let places = (0..200).chain((200..whole.len()).step_by(whole.len() / 200));
    for place in places {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        let why = read(&damaged).expect_err("a bit is another");
        assert!(
            ["is not whole", "is no checkpoint", "is a checkpoint of another version"]
                .iter()
                .any(|begin| why.starts_with(begin)),
            "{place}: {why}"
        );
        assert!(read(&whole[..place]).is_err(), "{place}");
    }
    assert!(Checkpoint::read(&folder.path().join("nothing")).is_err());
}
