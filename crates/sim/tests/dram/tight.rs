//! Rules are kept, and not by more than they ask for: with any time a tick shorter the checker finds
//! commands that come a tick too early for the longer one. So it looks at every rule, and the channel
//! wastes nothing.

use std::panic::catch_unwind;

use rackmem_sim::dram::{Issued, Timing};
use rackmem_sim::machine::spec::DramSpec;

use super::bench::{Bench, Traffic};
use super::checker::obey;

/// All of it: hits, conflicts, both directions, both ranks.
fn commands(spec: &DramSpec) -> (Timing, Vec<Issued>) {
    let mut all = Vec::new();
    let mut bench = Bench::recording(spec);
    let traffic = Traffic { lines: 8192, writes_percent: 40, gap: 6, runs_percent: 60, pause: 200 };
    bench.run(&traffic.wishes(6000, 1));
    all.extend_from_slice(bench.commands());
    (*bench.channel.timing(), all)
}

fn is_refused(timing: &Timing, spec: &DramSpec, commands: &[Issued]) -> bool {
    catch_unwind(|| obey(timing, spec, commands)).is_err()
}

/// A time of the standard, as a machine sets it.
type Set = fn(&mut DramSpec, u32);

#[test]
fn every_time_is_kept_to_the_tick() {
    // Values beyond what other rules already ask for.
    let times: [(&str, u32, Set); 20] = [
        ("CL", 11, |spec, nck| spec.cl_nck = nck),
        ("CWL", 8, |spec, nck| spec.cwl_nck = nck),
        ("tRCD", 11, |spec, nck| spec.trcd_nck = nck),
        ("tRP", 11, |spec, nck| spec.trp_nck = nck),
        ("tRAS", 28, |spec, nck| spec.tras_nck = nck),
        ("tRC", 50, |spec, nck| spec.trc_nck = nck),
        ("tRRD", 5, |spec, nck| spec.trrd_nck = nck),
        ("tFAW", 28, |spec, nck| spec.tfaw_nck = nck),
        ("tWR", 12, |spec, nck| spec.twr_nck = nck),
        ("tWTR", 6, |spec, nck| spec.twtr_nck = nck),
        ("tRTP", 6, |spec, nck| spec.trtp_nck = nck),
        ("tCCD", 6, |spec, nck| spec.tccd_nck = nck),
        ("tRTRS", 2, |spec, nck| spec.trtrs_nck = nck),
        ("tRRD_L", 9, |spec, nck| spec.trrd_l_nck = nck),
        ("tWTR_L", 12, |spec, nck| spec.twtr_l_nck = nck),
        ("tCCD_L", 8, |spec, nck| spec.tccd_l_nck = nck),
        ("tCCD_L_WR", 10, |spec, nck| spec.tccd_l_wr_nck = nck),
        ("tRTW", 12, |spec, nck| spec.trtw_nck = nck),
        ("tWRWR_dr", 8, |spec, nck| spec.twrwr_dr_nck = nck),
        ("tRFC", 128, |spec, nck| spec.trfc_nck = nck),
    ];
    for (name, nck, set) in times {
        let mut spec = DramSpec { trefi_nck: 1000, bank_groups: 4, ..DramSpec::default() };
        set(&mut spec, nck);
        let (timing, kept) = commands(&spec);
        assert!(!is_refused(&timing, &spec, &kept), "{name} is not kept");
        set(&mut spec, nck - 1);
        let (_, early) = commands(&spec);
        assert!(is_refused(&timing, &spec, &early), "{name}: a tick earlier is not noticed");
    }
}
