//! Checkpoints of programs that use scratchpads.

use rackmem_sim::exec::part::{self, Part};
use rackmem_sim::exec::{Checkpoint, ExecError, Options};
use rackmem_sim::machine::Machine;

use super::checkpoints::everything;
use super::guest::{Guest, at, from, through_a_file};
use super::outside::checked;
use super::{chips, load, run};

pub(super) const FFT: &[&str] = &["fft", "--n=64", "--cores=2", "--mechanism=dma", "--rounds=2"];

pub(super) fn machine(settings: &[(&str, &str)]) -> Machine {
    load("cache-integrated", settings)
}

pub(super) fn taken(args: &[&str], after: u64) -> Result<Checkpoint, ExecError> {
    Guest::prebuilt(1, args).checkpoint(&machine(&[]), from(after), Options::default())
}

#[test]
fn answers_are_the_same_from_a_checkpoint_on() {
    let programs = [
        &["scr_test"],
        FFT,
        &["bitonic", "--n=64", "--cores=4", "--rounds=2"],
        &["sync_bench", "--lock=lockbox", "--episodes=50"],
        &["sync_bench", "--lock=mrq-request", "--episodes=50"],
        &["sync_bench", "--barrier=counter", "--episodes=50"],
    ];
    let (mut all, mut refused) = (0, 0);
    for args in programs {
        let whole = run(&machine(&[]), 1, args);
        // Without timing it executes others while it waits.
        for after in [2, 3, 4, 5, 6].map(|part| whole.instructions / 10 * part) {
            all += 1;
            let checkpoint = match taken(args, after) {
                Ok(checkpoint) => checkpoint,
                // A load waits for a core that does not execute.
                Err(error) => {
                    assert!(error.to_string().contains("come to their end"), "{error}");
                    refused += 1;
                    continue;
                }
            };
            let checkpoint = through_a_file(&checkpoint);
            let rest = || {
                let rest =
                    part::restore(&machine(&[]), &checkpoint, Part::Whole, Options::default());
                rest.unwrap()
            };
            let first = rest();
            assert_eq!(checked(&first), checked(&whole), "{args:?} after {after}");
            assert_eq!(everything(first), everything(rest()), "{args:?} after {after}");
        }
    }
    assert!(all > 10 && refused < all / 3, "{refused} of {all}");
}

#[test]
fn a_program_goes_on_after_a_checkpoint_that_is_refused() {
    const LOCKS: &[&str] = &["sync_bench", "--lock=lockbox", "--episodes=50"];
    let guest = Guest::prebuilt(1, LOCKS);
    let mut options = Options::default();
    let mut session = guest.session(&machine(&[]), &options);
    let mut refused = 0;
    for place in 1.. {
        if !session.fast_forward(at(997 * place), &mut options) {
            break;
        }
        if let Err(error) = session.checkpoint(&[guest.job()], Part::Whole, &mut options) {
            assert!(error.to_string().contains("a core waits for another one"), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 0, "no core has waited");
    assert_eq!(checked(&session.finish(options)), checked(&run(&machine(&[]), 1, LOCKS)));
}

#[test]
fn scratchpads_stay_as_the_program_knows_them() {
    let checkpoint = taken(FFT, 30_000).unwrap();
    let restored = |machine: &Machine| {
        let rest = part::restore(machine, &checkpoint, Part::Whole, Options::default());
        rest.map(|outcome| checked(&outcome)).map_err(|error| error.to_string())
    };
    let answer = restored(&machine(&[])).unwrap();
    for other in [("noc.link_bytes", "8"), ("clock_ghz", "1"), ("scratchpad.send_cycles", "6")] {
        assert_eq!(restored(&machine(&[other])), Ok(answer.clone()), "{other:?}");
    }
    for (key, value) in
        [("l2.size_bytes", "32K"), ("scratchpad.locks", "2"), ("scratchpad.dram_bytes", "1M")]
    {
        let error = restored(&machine(&[(key, value)])).unwrap_err();
        assert!(error.contains(&format!("{key}: the program knows")), "{error}");
    }
    let error = restored(&chips(&[])).unwrap_err();
    assert!(error.contains("ni.placement: the checkpoint has scratchpads"), "{error}");
}
