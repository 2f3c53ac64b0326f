//! The model beside formulas and beside the interpreter: what the page of `rackmem accuracy` shows of them.

use std::path::Path;

use rackmem_sim::cpu::CpuSpec;
use rackmem_sim::reference::instructions::{Agreement, compare};
use rackmem_sim::reference::queueing::{identities, wait_for_one_of, wait_geo_d_1};

/// A program, its arguments, and the least number of instructions that it has.
const PROGRAMS: [(&str, &[&str], u64); 21] = [
    ("bitonic", &[], 5_000),
    ("deoi_cache", &[], 4_000),
    ("deoi_nic", &[], 4_000),
    ("fft", &[], 5_000),
    ("hello", &[], 5_000),
    ("kvstore", &[], 5_000),
    ("many_reads", &[], 5_000),
    ("netpipe", &[], 5_000),
    ("pagerank", &["--kronecker", "6"], 1_000_000),
    ("rack_test", &[], 300_000),
    ("remote_read", &[], 5_000),
    ("scr_test", &[], 5_000),
    ("stream", &[], 5_000),
    ("sync_bench", &[], 3_000),
    ("tsm_kernels", &[], 50_000),
    ("tsm_qpair", &[], 4_000),
    ("tsm_rdma", &[], 4_000),
    ("tsm_real", &["--bytes=16K", "--llc-bytes=4K"], 50_000),
    ("tsm_share", &[], 4_000),
    ("tsm_transfer", &[], 4_000),
    ("window_test", &[], 4_000),
];

fn prebuilt(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/prebuilt");
    std::fs::read(folder.join(format!("{name}.rv64"))).expect("a ready-built program")
}

fn agreement(name: &str, args: &[&str], spec: &CpuSpec) -> Agreement {
    let args = [&[name], args].concat();
    compare(&prebuilt(name), &args, spec).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn core_and_interpreter_agree_on_every_instruction() {
    for (name, args, least) in PROGRAMS {
        let found = agreement(name, args, &CpuSpec::default());
        println!("{name}: {found:?}");
        assert_eq!(found.difference, None, "{name}");
        assert!(found.agreed == found.compared && found.agreed >= least, "{name}: {found:?}");
    }
}

#[test]
fn a_narrow_core_agrees_too() {
    let spec = CpuSpec { rob_entries: 2, issue_width: 1, predicts: false, ..CpuSpec::default() };
    let found = agreement("hello", &[], &spec);
    assert_eq!((found.difference, found.status), (None, Some(0)));
}

/// What the formulas allow: identities hold exactly, waits up to chance.
#[test]
fn formulas_hold() {
    let all = identities().unwrap();
    for identity in &all {
        println!("{:>9.3} {:>9.3} {}", identity.formula, identity.model, identity.what);
        let exact = identity.what.contains("rate by latency") && !identity.what.contains("chip")
            || identity.what.contains("without load");
        let allowed = if exact { 1e-9 } else { 0.025 };
        assert!(identity.error().abs() <= allowed, "{identity:?}: {}", identity.error());
    }
    assert_eq!(all.len(), 16);
}

/// Values that the formulas have by other means: a service of one slot needs no wait, nor does the only input, and with
/// many inputs or slots both are M/D/1.
#[test]
fn formulas_have_their_known_values() {
    assert_eq!(wait_geo_d_1(0.7, 1.0), 0.0);
    assert_eq!(wait_for_one_of(1, 0.7), 0.0);
    let m_d_1 = |load: f64| load / (2.0 * (1.0 - load));
    assert!((wait_for_one_of(100_000, 0.8) / m_d_1(0.8) - 1.0).abs() < 1e-4);
    assert!((wait_geo_d_1(0.8, 1e5) / 1e5 / m_d_1(0.8) - 1.0).abs() < 1e-4);
}
