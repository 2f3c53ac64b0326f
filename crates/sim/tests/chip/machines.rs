//! Machines for tests.

use rackmem_sim::machine::{Machine, Override, load};

/// The paper's machine with other settings, each `path=value`, several separated by spaces. Settings that tests share
/// are for all workloads, so some need not read them.
pub fn machine(settings: &[&str]) -> Machine {
    let parse = |text: &str| text.parse::<Override>().expect("path=value").if_read();
    let settings = settings.iter().flat_map(|text| text.split_whitespace());
    let overrides: Vec<Override> = settings.map(parse).collect();
    load("manycore-ni", &overrides).expect("a machine that can be built")
}

/// A chip of 16 tiles whose caches and directories are too small for what goes on.
pub const SMALL: &str = "tiles.columns=4 tiles.rows=4 memory.controllers=4 \
    l1.size_bytes=4K llc.size_bytes=16K llc.ways=4 directory.provisioning=0.1 directory.ways=4 \
    llc.transactions=8 ni.wq_entries=8 ni.rrpp_transactions=8 \
    workload.footprint_bytes=64K workload.transfer_bytes=192 memory.contents=all";

/// The same shapes with 64 tiles.
pub const LARGE: &str = "llc.size_bytes=64K llc.ways=4 directory.provisioning=0.05 directory.ways=4 \
    l1.size_bytes=4K llc.transactions=8 ni.wq_entries=8 ni.rrpp_transactions=8 \
    workload.footprint_bytes=256K workload.transfer_bytes=192 memory.contents=all";
