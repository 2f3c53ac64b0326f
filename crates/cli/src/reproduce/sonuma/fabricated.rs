//! Reports as a perfect model and runtime would give them, made from the claims themselves: if the
//! wiring of checks is right, all of them hold.

use std::collections::BTreeMap;

use rackmem_sim::report::Stats;
use serde_json::{Value, json};

use super::PAPER;
use super::experiment::{Experiment, Platform, Threshold, Variant, Work};
use super::results::{Report, Results, counter};
use super::setting::{Setting, published};
use crate::reproduce::accounted;
use crate::reproduce::results::Effort;

/// The graph of all PageRanks.
const VERTICES: f64 = 1024.0;
const EDGES: f64 = 16384.0;
const IMBALANCE: f64 = 1.4;

/// Size at which pushing and pulling take the same time, in bytes.
const MODEL_CROSSING: f64 = 300.0;
const HOST_CROSSING: f64 = 1500.0;

pub(super) struct Perfect {
    published: BTreeMap<String, f64>,
}

impl Perfect {
    pub(super) fn new() -> Perfect {
        Perfect { published: published().unwrap() }
    }

    fn value(&self, id: &str) -> f64 {
        *self.published.get(id).unwrap_or_else(|| panic!("no claim {id}"))
    }

    pub(super) fn setting(&self, cores: usize) -> Setting {
        let published = self.published.clone();
        Setting { graph: None, cores, machine: Ok(self.machine()), published }
    }

    /// The machine of Table 1 in the words of a machine file.
    fn machine(&self) -> toml::Table {
        let t1 = |name: &str| self.value(&format!("table1/{name}")) as i64;
        let core = format!(
            "rob_entries = {}\ndispatch_width = {width}\nretire_width = {width}\n\
             icache_bytes = {}\nicache_ways = {}",
            t1("core/rob"),
            t1("l1/size") << 10,
            t1("l1/ways"),
            width = t1("core/width"),
        );
        let l1 = format!(
            "size_bytes = {}\nways = {}\nports = {}\nmshrs = {}\nlatency_cycles = {}",
            t1("l1/size") << 10,
            t1("l1/ways"),
            t1("l1/ports"),
            t1("l1/mshrs"),
            t1("l1/latency"),
        );
        let llc = format!(
            "size_bytes = {}\nbanks = {}\nways = {}\nlatency_cycles = {}",
            t1("l2/size") << 20,
            t1("l2/banks"),
            t1("l2/ways"),
            t1("l2/latency"),
        );
        let memory = format!(
            "model = \"ddr3\"\ncontrollers = {}\nsize_bytes = {}",
            t1("memory/channels"),
            t1("memory/size") << 30,
        );
        let dram = "grade = \"ddr3-1600\"\ntrcd_nck = 0\ncl_nck = 0\ncontroller_ns = 27.5";
        let rmc = format!(
            "maq_entries = {}\ntlb_entries = {}\npage_bytes = {}",
            t1("rmc/maq"),
            t1("rmc/tlb"),
            t1("memory/page") << 10,
        );
        let text = format!(
            "clock_ghz = {:.1}\n[tiles]\ncolumns = 1\nrows = 1\n[cpu]\n{core}\n[l1]\n{l1}\n\
             [llc]\n{llc}\n[memory]\n{memory}\n[dram]\n{dram}\n\
             [rmc]\n{rmc}\n[network]\nhop_latency_ns = {}\nhops = 1\n",
            self.value("table1/core/clock"),
            t1("fabric/delay"),
        );
        toml::from_str(&text).unwrap()
    }

    /// Reports of everything that a reproduction needs.
    pub(super) fn results(&self, effort: Effort, cores: usize) -> Results {
        accounted::filled(&PAPER, effort, self.setting(cores), |run| self.report(run, effort))
    }

    pub(super) fn report(&self, run: Experiment, effort: Effort) -> Report {
        let output = match run.work {
            Work::SmallReads => self.reads(run.platform, false, &[64]),
            Work::Reads { both } => self.reads(run.platform, both, effort.read_sizes()),
            Work::Messages(threshold) => {
                self.messages(run.platform, threshold, effort.message_sizes())
            }
            Work::PageRank { variant, ways } => self.pagerank(run.platform, variant, ways),
        };
        let cycles = self.value("fig7a/remote-memory-part") * self.value("table1/core/clock");
        let mut stats = Stats::new();
        for node in 0..2 {
            let mut put = |counter: &str, value| {
                stats.insert(format!("node[{node}].{counter}"), value);
            };
            put(counter::REQUESTS, 100.0 + f64::from(node));
            put(counter::SERVED, 101.0 - f64::from(node));
            put(counter::REPLIES, 100.0 + f64::from(node));
            put(counter::REMOTE_READS, 50.0);
            put(counter::REMOTE_READ_CYCLES, 50.0 * cycles);
        }
        Report { output, cycles: 1000, stats }
    }

    /// Double-sided reads are slower and move twice as much; the runtime is slower all along.
    fn reads(&self, at: Platform, both: bool, sizes: &[u32]) -> Value {
        let slower = if at == Platform::Host { 4.0 } else { 1.0 };
        let peak = 1e9 * self.value("fig7b/bandwidth-8kb") / slower;
        let rate = 1e6 * self.value("fig7b/op-rate-64b") / slower;
        let base_us = 1e-3 * self.value("fig7a/small-latency") * slower;
        let sides = if both { 2.0 } else { 1.0 };
        let row = |&bytes: &u32| {
            let size = f64::from(bytes);
            let per_second = rate.min(peak / size) * sides;
            let us = base_us + size * 1e-4 * slower * sides - 64e-4 * slower * sides;
            row("read", bytes, us, per_second)
        };
        let mut rows: Vec<Value> = sizes.iter().map(row).collect();
        rows.push(self::row("fetch_and_add", 8, base_us, rate * sides));
        let side = if both { "double_sided" } else { "single_sided" };
        json!({ "program": "remote_read", "region_bytes": 8 << 20, side: rows })
    }

    /// Pushing is twice as slow per byte, pulling has a beginning of its own.
    fn messages(&self, at: Platform, threshold: Threshold, sizes: &[u32]) -> Value {
        let (crossing, slower) = match at {
            Platform::Model => (MODEL_CROSSING, 1.0),
            Platform::Host => (HOST_CROSSING, 4.0),
        };
        let base = self.value("fig8a/half-duplex-latency") * slower;
        let largest = self.value("fig8b/bandwidth-8kb") * 1e9 / 8.0;
        let row = |&bytes: &u32| {
            let size = f64::from(bytes);
            let pulled = match threshold {
                Threshold::Pull => true,
                Threshold::From(first) => bytes >= first,
                Threshold::Push => false,
            };
            let ns = if pulled { base + crossing + size - 8.0 } else { base + 2.0 * (size - 8.0) };
            let of_peak = match (pulled, size < crossing) {
                (true, true) => 0.1,
                (true, false) | (false, true) => 1.0,
                (false, false) => 0.6,
            };
            json!({
                "bytes": bytes,
                "half_round_trip_us": { "median": 1e-3 * ns },
                "stream": { "bytes_per_second": largest * of_peak * (size / 8192.0).max(0.9) },
            })
        };
        json!({ "program": "netpipe", "sizes": sizes.iter().map(row).collect::<Vec<_>>() })
    }

    fn pagerank(&self, at: Platform, variant: Variant, ways: u16) -> Value {
        let ways = f64::from(ways);
        let supersteps = self.value(match at {
            Platform::Model => "fig9/sim-supersteps",
            Platform::Host => "fig9/dev-supersteps",
        });
        let loss = if at == Platform::Host { 1.5 } else { 1.05 };
        let speedup = match variant {
            Variant::Serial => 1.0,
            Variant::Shm | Variant::Bulk => ways / IMBALANCE / loss,
            Variant::Fine => 0.5 * ways / IMBALANCE / loss,
        };
        let seconds = supersteps * 1e-3 / speedup;
        let operations = supersteps
            * match variant {
                Variant::Serial | Variant::Shm => 0.0,
                Variant::Bulk => ways * (ways - 1.0),
                Variant::Fine => EDGES * (ways - 1.0) / ways,
            };
        let rate = ways * 0.9e6 * self.value("fig9/fine-op-limit");
        json!({
            "program": "pagerank", "vertices": VERTICES, "edges": EDGES, "nodes": ways,
            "supersteps": supersteps, "imbalance": IMBALANCE,
            "variants": [{
                "variant": variant.name(), "seconds": seconds, "remote_operations": operations,
                "remote_operations_per_second": rate,
            }],
        })
    }
}

fn row(operation: &str, bytes: u32, us: f64, per_second: f64) -> Value {
    json!({
        "operation": operation,
        "bytes": bytes,
        "sync_us": { "median": us },
        "async": {
            "operations_per_second": per_second,
            "bytes_per_second": per_second * f64::from(bytes),
        },
    })
}
