//! Accesses to a private cache that core and network interface share.

use super::integrated::figure;
use super::{load, run, said};

/// Bytes per cycle of copies whose data all pass the cache of one core.
fn copied(settings: &[(&str, &str)]) -> f64 {
    let settings = [settings, &[("noc.link_bytes", "16")]].concat();
    let args = ["stream", "--servers", "1", "--feasible", "--cores", "2", "--json"];
    figure(&said(&run(&load("cache-integrated", &settings), 1, &args)), "bytes_per_cycle")
}

#[test]
fn what_comes_and_what_leaves_share_the_accesses_of_a_cache() {
    let [narrow, wide] = ["4", "8"].map(|bytes| copied(&[("scratchpad.bytes_per_cycle", bytes)]));
    assert!((3.0..=4.0).contains(&narrow), "{narrow}");
    assert!((5.0..=8.0).contains(&wide), "{wide}");
}
