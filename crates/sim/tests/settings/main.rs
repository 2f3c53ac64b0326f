//! Every setting of every machine changes something, or is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use rackmem_sim::machine::{self, BUILT_IN, Machine, MachineError, Origin, Override, Use};

mod uses;
mod values;

use uses::{USES, Work};

/// Settings whose effect short runs cannot show, and why.
const QUIET: &[(&str, &str)] = &[
    ("core.wq_stores", "there is one value: an entry has two words"),
    ("cpu.fp_units", "these programs do not fill two"),
    ("dram.row_accesses", "this traffic does not reach it"),
    ("dram.write_queue", "this traffic does not fill it"),
    ("extension.lva_base_bytes", "addresses take no time"),
    ("extension.switch_ports", "a limit of the links"),
    ("memory.size_bytes", "a limit of what programs use"),
    ("prefetch.streams", "these programs have few streams"),
    ("qpair.ocm_bytes", "a limit of the messages"),
    ("qpair.ocm_reserved_bytes", "a limit of the messages"),
    ("qpair.queue_entries", "a limit of the messages"),
    ("rmc.ct_cache_entries", "these programs have one context"),
    ("rmc.queue_pairs", "a limit of what programs use"),
    ("run.min_windows", "these runs need more"),
    ("run.threads", "nothing depends on the number of threads"),
    ("scratchpad.ack_entries", "these programs do not fill it"),
    ("scratchpad.dram_bytes", "a limit of what programs use"),
    ("scratchpad.job_entries", "these programs do not fill it"),
    ("scratchpad.read_entries", "these programs do not fill it"),
    ("scratchpad.store_entries", "these programs do not fill it"),
    ("system.stack_bytes", "a limit of what programs use"),
    ("window.dma_descriptors", "a limit of what programs use"),
    ("window.lent_bytes", "a limit of what is borrowed"),
];

/// A setting with a value, for a machine that may not read it.
fn hidden(path: &str, value: &str) -> Override {
    Override::new(path, value).if_read()
}

/// The machine of a use, with more settings.
fn with(of: &uses::One, more: &[Override]) -> Result<Machine, MachineError> {
    let settings = of.settings.iter().map(|(path, value)| hidden(path, value));
    let all: Vec<Override> = settings.chain(more.iter().cloned()).collect();
    machine::load_for(of.work.reader(), of.machine, &all)
}

/// Other values of these settings with which the machine can be built, of several the one of this turn.
fn values_that_fit(
    of: &uses::One,
    plain: &Machine,
    paths: &[String],
    turn: usize,
) -> Vec<Override> {
    let mut values: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for path in paths {
        let mut others = values::others(plain, path);
        let first = turn.min(others.len().saturating_sub(1));
        others.rotate_left(first);
        values.insert(path, others);
    }
    loop {
        let first = values.iter().filter_map(|(path, values)| Some(hidden(path, values.first()?)));
        let all: Vec<Override> = first.collect();
        let Err(error) = with(of, &all) else { return all };
        let unfit = values.get_mut(&error.key).filter(|values| !values.is_empty());
        unfit.unwrap_or_else(|| panic!("{of:?}: {error}")).remove(0);
    }
}

/// Those of them with this property, found by two threads.
fn found(all: &[String], has: impl Fn(&String) -> bool + Sync) -> BTreeSet<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let of = std::iter::from_fn(|| all.get(next.fetch_add(1, Ordering::Relaxed)));
        of.filter(|one| has(one)).cloned().collect::<BTreeSet<String>>()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut both = work();
        both.extend(other.join().expect("the other thread's"));
        both
    })
}

/// All settings that nothing reads get other values at once, and all stays as it was.
#[test]
fn what_nothing_reads_changes_nothing() {
    for of in USES {
        let plain = with(of, &[]).expect("a machine that can be built");
        let unread = |path: &String| machine::unread(of.work.reader(), &plain, path).is_some();
        let paths: Vec<String> = values::paths(&plain).into_iter().filter(unread).collect();
        let before = of.signature(&plain);
        let turns = if matches!(of.work, Work::Program(..)) { 1 } else { 2 };
        for turn in 0..turns {
            let mut others = values_that_fit(of, &plain, &paths, turn);
            let changes = |more: &[Override]| {
                with(of, more).is_ok_and(|changed| of.signature(&changed) != before)
            };
            if changes(&others) {
                others.retain(|other| changes(std::slice::from_ref(other)));
                panic!("{of:?} is changed by what nothing reads, alone by {others:?}");
            }
        }
    }
}

/// Each setting that something reads makes a difference in one of the uses that read it.
#[test]
fn what_is_read_changes_something() {
    let mut silent: BTreeSet<String> = BTreeSet::new();
    let mut heard: BTreeSet<String> = BTreeSet::new();
    for of in USES {
        let plain = with(of, &[]).expect("a machine that can be built");
        let before = of.signature(&plain);
        let read = |path: &String| machine::unread(of.work.reader(), &plain, path).is_none();
        let is_quiet = |path: &String| QUIET.iter().any(|(quiet, _)| quiet == path);
        let is_new = |path: &String| !heard.contains(path) && !is_quiet(path);
        let new: Vec<String> =
            values::paths(&plain).into_iter().filter(|path| read(path) && is_new(path)).collect();
        heard.extend(found(&new, |path| {
            let differs = |value: &String| {
                with(of, &[hidden(path, value)])
                    .is_ok_and(|changed| of.signature(&changed) != before)
            };
            values::others(&plain, path).iter().take(5).any(differs)
        }));
        silent.extend(new);
    }
    let silent: Vec<&String> = silent.difference(&heard).collect();
    assert!(silent.is_empty(), "{silent:?} change nothing");
}

/// The command line says of each key of each section whether this machine reads it.
#[test]
fn what_nothing_reads_is_refused() {
    let whole = BUILT_IN.map(|built_in| machine::load(built_in.name, &[]).expect(built_in.name));
    let keys = |other| values::all(other).into_iter();
    let keys: BTreeSet<(String, String)> = whole.iter().flat_map(keys).collect();
    for (built_in, own) in BUILT_IN.iter().zip(&whole) {
        for (path, value) in &keys {
            let refused = machine::load(built_in.name, &[Override::new(path, value)]).err();
            let refused = refused.filter(|error| error.problem.starts_with("nothing reads it"));
            let unread = machine::unread(Use::Any, own, path);
            assert_eq!(
                refused.is_some(),
                unread.is_some(),
                "{}: {path}={value}: {refused:?}",
                built_in.name
            );
            assert!(refused.is_none_or(|error| error.key == *path));
        }
    }
}

/// A machine is as it should be, so that what is set alone is to blame for whatever is wrong.
#[test]
fn errors_name_the_setting_that_was_changed() {
    let extremes = ["0", "4611686018427387904"];
    for built_in in BUILT_IN {
        let own = machine::load(built_in.name, &[]).expect(built_in.name);
        for path in values::paths(&own) {
            let others = values::others(&own, &path);
            for value in others.iter().take(2).map(String::as_str).chain(extremes) {
                let Err(error) = machine::load(built_in.name, &[hidden(&path, value)]) else {
                    continue;
                };
                let what = format!("{} with {path}={value}: {error}", built_in.name);
                assert_eq!(
                    (error.key.as_str(), &error.origin),
                    (&*path, &Origin::Override),
                    "{what}"
                );
            }
        }
    }
}
