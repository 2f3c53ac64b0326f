//! Reports as a perfect model would give them, made from the claims themselves: if the wiring of checks
//! is right, all of them hold.

use rackmem_sim::report::Stats;
use serde_json::{Value, json};

use super::PAPER;
use super::experiment::{Barrier, Buffers, Experiment, Kernel, Lock, Mechanism, SMALL, Work};
use super::results::{Report, Results, counter};
use super::setting::setting;
use crate::reproduce::accounted::{self, Published};
use crate::reproduce::results::Effort;

/// Every test that checks may ask for.
const TESTS: &[&str] = &[
    "any-order",
    "put",
    "get",
    "others",
    "dram",
    "longest",
    "notify",
    "barriers",
    "counter",
    "sr-queue",
    "long-items",
    "mr-data",
    "mr-requests",
    "mr-waits",
    "tokens",
    "memory",
    "cache-pressure",
    "give-back",
    "remote-load",
    "remote-store",
    "incomplete",
    "ack-at-lines",
    "ack-of-writes",
    "ack-of-answers",
];

pub(super) struct Perfect {
    published: Published,
}

/// From one value to another one as a list is gone through.
fn between(first: f64, last: f64, position: f64) -> f64 {
    first + (last - first) * position
}

/// The position of something in a list: 0 at its beginning, 1 at its end.
fn position<T: PartialEq>(list: &[T], wanted: &T) -> f64 {
    let at = list.iter().position(|one| one == wanted).unwrap();
    at as f64 / (list.len() - 1).max(1) as f64
}

impl Perfect {
    pub(super) fn new() -> Perfect {
        Perfect { published: Published::of(&PAPER) }
    }

    fn value(&self, id: &str) -> f64 {
        self.published.value(id)
    }

    /// The ends of a range.
    fn ends(&self, id: &str) -> (f64, f64) {
        (self.value(&format!("{id}/min")), self.value(&format!("{id}/max")))
    }

    /// Reports of everything that a reproduction needs.
    pub(super) fn results(&self, effort: Effort) -> Results {
        accounted::filled(&PAPER, effort, setting(), |run| self.report(run, effort))
    }

    pub(super) fn report(&self, run: Experiment, effort: Effort) -> Report {
        let (episodes, warm_up) = run.episodes(effort);
        let times = f64::from(episodes + warm_up);
        let mut stats = Stats::new();
        let mut put = |counter: &str, value| {
            for part in 0..2 {
                stats.insert(format!("node[0].part[{part}]{counter}"), value);
            }
        };
        let output = match run.work {
            Work::Test => json!({ "passed": TESTS }),
            Work::RemoteStore => {
                json!({ "one_way_cycles": self.value("sect541/remote-store/one-way-latency") })
            }
            Work::Lock(lock) => {
                put(counter::REMOTE_STORES, times);
                let misses = if lock == Lock::Mcs { 4.0 } else { 0.0 };
                put(counter::HOME_HITS, misses / 2.0 * times * f64::from(run.cores));
                put(counter::HOME_MISSES, 0.0);
                if run.is_simulated {
                    self.simulated_lock(lock, run.cores, effort)
                } else {
                    self.lock(lock, run.cores)
                }
            }
            Work::Barrier(barrier) => {
                put(counter::REMOTE_STORES, times);
                let misses = if barrier == Barrier::Tree { 6.0 } else { 0.0 };
                put(counter::HOME_HITS, misses * times * f64::from(run.cores));
                put(counter::HOME_MISSES, 0.0);
                if run.is_simulated {
                    self.simulated_barrier(barrier, run.cores, effort)
                } else {
                    self.barrier(barrier, run.cores)
                }
            }
            Work::Stream { servers, mechanism, buffers } => {
                put(counter::REMOTE_STORES, 500.0);
                self.stream(run.cores - servers, servers, mechanism, buffers)
            }
            Work::Kernel { kernel, n, mechanism } => {
                self.kernel(kernel, n, run.cores, mechanism, effort)
            }
        };
        Report { output, cycles: 1000, stats }
    }

    fn lock(&self, lock: Lock, cores: u16) -> Value {
        let name = if lock == Lock::Queue { "mrq" } else { "mutex" };
        let of = |step| self.value(&format!("table1a/{name}-lock/{cores}cpu/{step}"));
        json!({
            "acquire_cycles": of("acquire"), "release_cycles": of("release"),
            "total_cycles": of("total"),
        })
    }

    fn barrier(&self, barrier: Barrier, cores: u16) -> Value {
        let name = if barrier == Barrier::Counter { "counter" } else { "mutex" };
        json!({ "episode_cycles": self.value(&format!("table1b/{name}-barrier/{cores}cpu/cycles")) })
    }

    fn simulated_lock(&self, lock: Lock, cores: u16, effort: Effort) -> Value {
        let (least, most) = self.ends("sim/lock/mrq-over-mcs");
        let ratio = between(least, most, position(effort.many_cores(), &cores));
        let queue = 60.0 * f64::from(cores);
        json!({ "total_cycles": if lock == Lock::Mcs { ratio * queue } else { queue } })
    }

    fn simulated_barrier(&self, barrier: Barrier, cores: u16, effort: Effort) -> Value {
        let of = |cores| self.value(&format!("sim/barrier/counter-over-tree/{cores}cpu"));
        let ratio = between(of(16), of(128), position(effort.many_cores(), &cores));
        let counters = 100.0 + f64::from(cores);
        json!({
            "episode_cycles": if barrier == Barrier::Tree { ratio * counters } else { counters },
        })
    }

    fn stream(&self, streaming: u16, servers: u16, how: Mechanism, buffers: Buffers) -> Value {
        let (least, most) = self.ends("stream/max-bandwidth/dma-over-remote-store");
        let slower = match (how, servers) {
            (Mechanism::Dma, _) => 1.0,
            (Mechanism::Stores, 0) => most,
            (Mechanism::Stores, _) => least,
        };
        let wanted = if servers == 0 { "off" } else { "on" };
        let of = |what: &str| self.value(&format!("stream/{wanted}-chip/saturation-{what}"));
        let part = match buffers {
            Buffers::Feasible => 1.0,
            Buffers::Of(count, bytes) => {
                let overlap = f64::from(count) * f64::from(bytes) / 1024.0 / of("buffers");
                overlap.min(1.0) * (f64::from(streaming) / of("cores")).min(1.0)
            }
        };
        json!({ "bytes": 8000, "bytes_per_cycle": 8.0 * part / slower })
    }

    /// One mechanism is best for small inputs, the other one for large ones; its advantage grows with
    /// the distance from where both are alike.
    fn kernel(&self, kernel: Kernel, n: u32, cores: u16, how: Mechanism, effort: Effort) -> Value {
        let inputs = effort.inputs(kernel);
        let side: Vec<u32> =
            inputs.iter().copied().filter(|&other| (other <= SMALL) == (n <= SMALL)).collect();
        let (is_small, far) = match n <= SMALL {
            true => (true, 1.0 - position(&side, &n)),
            false => (false, position(&side, &n)),
        };
        let along = position(inputs, &n);
        let alone = self.value("bitonic/finest-profitable-task") * (f64::from(n) / 4.0).powf(1.5);
        if cores == 1 {
            return json!({ "total_cycles": alone });
        }
        let best = |id: &str| self.value(id) / 100.0 * f64::from(cores);
        let range = |(least, most)| between(least, most, far) / 100.0;
        let (speedup, saved, gained) = match (kernel, is_small) {
            (Kernel::Bitonic, _) => {
                let last = best(&format!("bitonic/parallel-efficiency/{cores}cpu"));
                let (saved, gained) = match is_small {
                    true => (
                        self.ends("bitonic/small/comm-time-saving-remote-store"),
                        self.ends("bitonic/small/overall-gain-remote-store"),
                    ),
                    false => (
                        self.ends("bitonic/large/comm-time-saving-dma"),
                        (0.0, 0.9 * self.value("bitonic/large/overall-gain-dma/max")),
                    ),
                };
                (between(1.1, last, along), range(saved), range(gained))
            }
            (Kernel::Fft, true) => {
                let saved = self.ends("fft/small/comm-gain-remote-store");
                (0.9, range(saved), range(self.ends("fft/small/overall-gain-remote-store")))
            }
            (Kernel::Fft, false) => {
                let last = best(&format!("fft/parallel-efficiency/dma/{cores}cpu"));
                let (least, most) = self.ends("fft/large/overall-gain-dma");
                (between(1.0, last, along), 0.2, range((least, 0.9 * most)))
            }
        };
        let is_best = (how == Mechanism::Stores) == is_small;
        let total = alone / speedup;
        json!({
            "total_cycles": if is_best { total } else { total * (1.0 + gained) },
            "computation_cycles": 1000.0,
            "communication_cycles": if is_best { 100.0 * (1.0 - saved) } else { 100.0 },
        })
    }
}
