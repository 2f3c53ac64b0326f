//! Reports as a perfect model would give them, made from the claims themselves: if the wiring of checks
//! is right, all of them hold.

use rackmem_sim::report::Stats;
use serde_json::{Value, json};

use super::PAPER;
use super::experiment::{
    BLOCKS, Changes, DEGREE, DEGREES, Experiment, Kernel, Machine, Mechanism, Place, Policy, Share,
    Trial, Work,
};
use super::results::{Report, Results, counter};
use super::setting::of_machines;
use super::thunder::{Exchange, Way};
use crate::reproduce::accounted::{self, Published};
use crate::reproduce::results::Effort;
use crate::reproduce::runtime::messages::{Figure, SIZES, name};

/// Time of a kernel when nothing slows it down.
const BEST_NS: f64 = 1e6;

/// The degree from which on more is of no use to local memory.
const LOCAL_DEGREE: u32 = 3;

pub(super) struct Perfect {
    published: Published,
}

impl Perfect {
    pub(super) fn new() -> Perfect {
        Perfect { published: Published::of(&PAPER) }
    }

    fn value(&self, id: &str) -> f64 {
        self.published.value(id)
    }

    /// Reports of everything that a reproduction needs.
    pub(super) fn results(&self, effort: Effort) -> Results {
        accounted::filled(&PAPER, effort, of_machines(), |run| self.report(run))
    }

    pub(super) fn report(&self, run: Experiment) -> Report {
        let mut stats = Stats::new();
        let mut put = |name: &str, value| stats.insert(name.to_owned(), value);
        let window_ns = self.value("tlp/window") * 1000.0;
        for (counter, id) in
            [(counter::TLPS, "tlp/load-count"), (counter::DMA_TLPS, "tlp/dma-count")]
        {
            put(counter, self.value(id));
            put(&format!("{counter}_ns"), window_ns);
        }
        put(counter::MOST_OUTSTANDING, self.value("tlp/outstanding-loads"));
        put(counter::READ_NS, self.value("table3/remote-latency"));
        put(counter::WRITES, 65.0);
        put(counter::DROPPED, 65.0 * self.value("write-policy/invalidations-per-write"));
        let output = match run.work {
            Work::Transfer(mechanism, bytes) => self.transfer(mechanism, bytes),
            Work::Kernel(kernel, place) => {
                let ns = match run.machine {
                    Machine::Prototype => on_prototype(kernel, place),
                    _ => self.on_simulator(kernel, place, run.changes),
                };
                json!({ "ns": ns })
            }
            Work::Share(share) => self.share(run.machine, share),
            Work::Exchange(exchange) => self.exchange(exchange),
            Work::Runtime(trial) => on_host(trial),
        };
        Report { output, cycles: 1000, stats }
    }

    fn transfer(&self, mechanism: Mechanism, bytes: u32) -> Value {
        let (name, _) = BLOCKS.into_iter().find(|&(_, size)| size == bytes).unwrap();
        json!({ "mb_per_s": self.value(&format!("table2/{}/{name}", mechanism.name())) })
    }

    fn share(&self, machine: Machine, share: Share) -> Value {
        match (share, machine) {
            (Share::Policy, _) => json!({ "reread": self.value("write-policy/reread-value") }),
            (Share::Message, _) => {
                json!({ "one_way_ns": 1000.0 * self.value("comm/pcie/transfer-latency") })
            }
            (Share::Atomics, Machine::Prototype) => {
                json!({ "works": self.value("atomics/lock-prefix") })
            }
            (Share::Atomics, _) => json!({ "works": 1 }),
        }
    }

    /// On-chip memory is best, and the library takes most of the time.
    fn exchange(&self, exchange: Exchange) -> Value {
        // The paper's two latencies leave the library more than the machine has: half-way.
        let best_us = 0.97 * self.value("qpair/ocm-mmu/latency-64b");
        let ethernet = self.value("qpair/gige/bandwidth");
        let best = 1.01 * self.value("qpair/ocm-mmu/bandwidth-vs-gige") * ethernet;
        let gain = 1.0 + self.value("qpair/ocm-mmu/bandwidth-vs-cache") / 100.0;
        let (us, mb_per_s) = match exchange.way {
            Way::OcmMmu => (best_us, best),
            Way::CachedMmu | Way::CachedCopy => (1.05 * best_us, 0.95 * best),
            Way::Cached => (1.1 * best_us, best / gain),
            Way::Uncached => (1.3 * best_us, 0.7 * best),
            Way::Ethernet => (best_us * self.value("qpair/ocm-mmu/latency-vs-gige"), ethernet),
        };
        let core_ns = if exchange.way == Way::CachedCopy { us * 1e3 } else { us * 600.0 };
        json!({ "latency_ns": us * 1e3, "software_ns": us * 600.0, "core_ns": core_ns,
                "mbps": mb_per_s * 8.0 })
    }

    fn on_simulator(&self, kernel: Kernel, place: Place, changes: Changes) -> f64 {
        if let Some(degree) = changes.degree {
            return BEST_NS * self.slowed(degree, place);
        }
        match (place, changes.policy, changes.outstanding) {
            (Place::Local, ..) => BEST_NS / 4.0,
            (_, Some(Policy::Invalidate), _) => BEST_NS * 6.0,
            (_, _, Some(1)) if kernel == Kernel::B4 => {
                BEST_NS * self.value("fig8/b4/orq16-over-orq1")
            }
            _ => BEST_NS,
        }
    }

    /// Time with this degree of prefetching, as a multiple of that with degree 5.
    fn slowed(&self, degree: u32, place: Place) -> f64 {
        let most = match place {
            Place::Local => LOCAL_DEGREE,
            Place::Remote => DEGREES[DEGREES.len() - 1],
        };
        let lines = |degree: u32| f64::from(degree.min(most)) * 6.0 / f64::from(DEGREE) + 1.0;
        self.value("fig9/b3/prefetch5") / lines(degree)
    }
}

/// As every host should.
fn on_host(trial: Trial) -> Value {
    match trial {
        Trial::Outstanding => json!({ "1": 20, "16": 150, "256": 160 }),
        Trial::Prefetching => {
            json!({ "0": 90, "1": 60, "2": 40, "4": 30, "8": 20, "16": 12, "32": 10 })
        }
        Trial::Transfers => {
            let mut all = serde_json::Map::new();
            for (_, bytes) in BLOCKS {
                // Copies take a time of their own, however small the block is.
                let dma = 1000.0 * f64::from(bytes) / (8192.0 + f64::from(bytes));
                for (way, bandwidth) in [("load", 2.0), ("store", 100.0), ("dma", dma)] {
                    all.insert(format!("{way}/{bytes}"), bandwidth.into());
                }
            }
            Value::Object(all)
        }
        Trial::Messages => messages(),
        Trial::Slowdowns => json!({ "b1": 1, "b2": 1, "b3": 1.1, "b4": 900 }),
    }
}

fn on_prototype(kernel: Kernel, place: Place) -> f64 {
    match (kernel, place) {
        (Kernel::B2 | Kernel::B4, Place::Remote) => 10.0 * BEST_NS,
        _ => BEST_NS,
    }
}

/// A queue pair's messages come sooner, and large ones go faster.
fn messages() -> Value {
    let mut all = serde_json::Map::new();
    for (way, us, mb_per_s) in [("qpair", 5.0, 3000.0), ("tcp", 15.0, 2000.0)] {
        for bytes in SIZES {
            all.insert(name(way, Figure::Latency, bytes), us.into());
            all.insert(name(way, Figure::Bandwidth, bytes), mb_per_s.into());
        }
    }
    Value::Object(all)
}
