//! The quantities that claims of this paper speak of, out of what programs print and the model
//! counts.

use serde_json::Value;

use super::experiment::{Experiment, LARGE, Platform, SMALL, Threshold, Variant, Work};
use super::setting::Setting;
use crate::reproduce::results;

pub use crate::reproduce::prebuilt::Report;
pub use crate::reproduce::results::Known;

/// The reports of all runs of this paper.
pub type Results = results::Results<Experiment>;

impl results::Experiment for Experiment {
    type Report = Report;
    type Setting = Setting;

    fn name(&self) -> String {
        Experiment::name(self)
    }
}

/// Counters of the model that claims need; of each, all whose path ends so.
pub mod counter {
    /// Requests sent by RMCs.
    pub const REQUESTS: &str = "rmc.requests";
    /// Requests answered by RMCs.
    pub const SERVED: &str = "rmc.served";
    /// Replies that RMCs have taken.
    pub const REPLIES: &str = "rmc.replies";
    /// Number of reads of memory by an RRPP, through the caches, and their time in all.
    pub const REMOTE_READS: &str = "rmc.rrpp.memory_reads";
    /// See there.
    pub const REMOTE_READ_CYCLES: &str = "rmc.rrpp.memory_read_cycles";
}

/// Reads by one of two sides, or by both.
fn reads(platform: Platform, both: bool) -> Experiment {
    Experiment::new(platform, Work::Reads { both })
}

fn side(both: bool) -> &'static str {
    if both { "double_sided" } else { "single_sided" }
}

fn messages(platform: Platform, threshold: Threshold) -> Experiment {
    Experiment::new(platform, Work::Messages(threshold))
}

fn pagerank(platform: Platform, variant: Variant, ways: u16) -> Experiment {
    Experiment::new(platform, Work::PageRank { variant, ways })
}

impl Results {
    /// A figure of what a run printed: in a list of rows, of the one that is looked for.
    fn figure(
        &self,
        run: Experiment,
        list: &str,
        wanted: impl Fn(&Value) -> bool,
        pointer: &str,
    ) -> Known<f64> {
        let row = self.report(run)?.output[list].as_array();
        let row = row.and_then(|rows| rows.iter().find(|&row| wanted(row)));
        let found = row.and_then(|row| row.pointer(pointer)).and_then(Value::as_f64);
        let missing = || format!("{} reports no {list}, {pointer}", run.name());
        found.or(self.planned(1.0)).ok_or_else(missing)
    }

    /// A figure that a run printed once.
    fn single(&self, run: Experiment, name: &str) -> Known<f64> {
        let found = self.report(run)?.output[name].as_f64();
        found.or(self.planned(1.0)).ok_or_else(|| format!("{} reports no {name}", run.name()))
    }

    fn read(&self, run: Experiment, both: bool, bytes: u32, pointer: &str) -> Known<f64> {
        let wanted = |row: &Value| row["operation"] == "read" && row["bytes"] == bytes;
        self.figure(run, side(both), wanted, pointer)
    }

    /// Latency of a small read, with nothing else under way, in nanoseconds.
    ///
    /// # Errors
    /// The run is missing.
    pub fn small_read_ns(&self, platform: Platform) -> Known<f64> {
        let run = Experiment::new(platform, Work::SmallReads);
        Ok(1e3 * self.read(run, false, SMALL, "/sync_us/median")?)
    }

    /// Latency of a read, in nanoseconds.
    ///
    /// # Errors
    /// The run is missing.
    pub fn read_ns(&self, platform: Platform, both: bool, bytes: u32) -> Known<f64> {
        Ok(1e3 * self.read(reads(platform, both), both, bytes, "/sync_us/median")?)
    }

    /// Reads per microsecond, of all nodes that read.
    ///
    /// # Errors
    /// The run is missing.
    pub fn read_mops(&self, platform: Platform, both: bool, bytes: u32) -> Known<f64> {
        let pointer = "/async/operations_per_second";
        Ok(1e-6 * self.read(reads(platform, both), both, bytes, pointer)?)
    }

    /// Bandwidth of reads, of all nodes that read, in GB/s.
    ///
    /// # Errors
    /// The run is missing.
    pub fn read_gbps(&self, platform: Platform, both: bool, bytes: u32) -> Known<f64> {
        let pointer = "/async/bytes_per_second";
        Ok(1e-9 * self.read(reads(platform, both), both, bytes, pointer)?)
    }

    /// The highest bandwidth of reads from one node, over all sizes, in GB/s.
    ///
    /// # Errors
    /// The run is missing.
    pub fn peak_gbps(&self, platform: Platform) -> Known<f64> {
        let sizes = self.effort.read_sizes().iter();
        let all: Known<Vec<f64>> =
            sizes.map(|&bytes| self.read_gbps(platform, false, bytes)).collect();
        Ok(all?.into_iter().fold(0.0, f64::max))
    }

    /// Latency of fetch-and-add, in nanoseconds.
    ///
    /// # Errors
    /// The run is missing.
    pub fn fetch_and_add_ns(&self, platform: Platform) -> Known<f64> {
        let wanted = |row: &Value| row["operation"] == "fetch_and_add";
        let run = reads(platform, false);
        Ok(1e3 * self.figure(run, side(false), wanted, "/sync_us/median")?)
    }

    /// Memory that the reads of the model visit.
    ///
    /// # Errors
    /// The run is missing.
    pub fn region_bytes(&self) -> Known<f64> {
        self.single(reads(Platform::Model, false), "region_bytes")
    }

    /// Half a round trip of a message, in nanoseconds.
    ///
    /// # Errors
    /// The run is missing.
    pub fn message_ns(&self, at: Platform, threshold: Threshold, bytes: u32) -> Known<f64> {
        let wanted = |row: &Value| row["bytes"] == bytes;
        let run = messages(at, threshold);
        Ok(1e3 * self.figure(run, "sizes", wanted, "/half_round_trip_us/median")?)
    }

    /// Bandwidth of a stream of messages, in Gbit/s.
    ///
    /// # Errors
    /// The run is missing.
    pub fn message_gbits(&self, at: Platform, threshold: Threshold, bytes: u32) -> Known<f64> {
        let wanted = |row: &Value| row["bytes"] == bytes;
        let run = messages(at, threshold);
        Ok(8e-9 * self.figure(run, "sizes", wanted, "/stream/bytes_per_second")?)
    }

    /// The best threshold: the smallest size from which on pulling takes less time than pushing.
    ///
    /// # Errors
    /// A run is missing; while planning: it is not known yet.
    pub fn threshold(&self, platform: Platform) -> Known<Threshold> {
        let runs = [Threshold::Push, Threshold::Pull].map(|only| messages(platform, only));
        for run in runs {
            self.report(run)?;
        }
        if !runs.iter().all(|run| self.knows(run)) {
            return Err("not known before always and never have been tried".to_owned());
        }
        let sizes = self.effort.message_sizes();
        let mut best = Threshold::Push;
        for (number, &bytes) in sizes.iter().enumerate().rev() {
            let of = |threshold| self.message_ns(platform, threshold, bytes);
            if of(Threshold::Pull)? >= of(Threshold::Push)? {
                break;
            }
            best = if number == 0 { Threshold::Pull } else { Threshold::From(bytes) };
        }
        Ok(best)
    }

    /// The same as a number of bytes; the size after the largest one, if pushing is always best.
    ///
    /// # Errors
    /// As [`Results::threshold`].
    pub fn threshold_bytes(&self, platform: Platform) -> Known<f64> {
        Ok(match self.threshold(platform)? {
            Threshold::Pull => 0.0,
            Threshold::From(bytes) => bytes.into(),
            Threshold::Push => 2.0 * f64::from(LARGE),
        })
    }

    fn variant(&self, run: Experiment, pointer: &str) -> Known<f64> {
        self.figure(run, "variants", |_| true, pointer)
    }

    /// Speed-up over the serial program, with the same supersteps of the same graph.
    ///
    /// # Errors
    /// A run is missing.
    pub fn speedup(&self, platform: Platform, variant: Variant, ways: u16) -> Known<f64> {
        let serial = self.variant(pagerank(platform, Variant::Serial, 1), "/seconds")?;
        Ok(serial / self.variant(pagerank(platform, variant, ways), "/seconds")?)
    }

    /// Remote operations of all nodes in a superstep.
    ///
    /// # Errors
    /// The run is missing.
    pub fn remote_operations(&self, variant: Variant, nodes: u16) -> Known<f64> {
        let run = pagerank(Platform::Model, variant, nodes);
        Ok(self.variant(run, "/remote_operations")? / self.single(run, "supersteps")?)
    }

    /// Remote operations per microsecond of one node.
    ///
    /// # Errors
    /// The run is missing.
    pub fn fine_mops(&self, nodes: u16) -> Known<f64> {
        let run = pagerank(Platform::Model, Variant::Fine, nodes);
        Ok(1e-6 * self.variant(run, "/remote_operations_per_second")? / f64::from(nodes))
    }

    /// A figure of the graph of a PageRank on `nodes` nodes: "vertices", "edges", "supersteps", "imbalance".
    ///
    /// # Errors
    /// The run is missing.
    pub fn of_graph(&self, platform: Platform, nodes: u16, name: &str) -> Known<f64> {
        self.single(pagerank(platform, Variant::Bulk, nodes), name)
    }

    /// Sum of a counter over all nodes of a run of the model.
    ///
    /// # Errors
    /// The run is missing or has no such counter.
    pub fn count(&self, work: Work, counter: &str) -> Known<f64> {
        let run = Experiment::new(Platform::Model, work);
        let stats = &self.report(run)?.stats;
        let all = stats.iter().filter(|(path, _)| path.ends_with(counter));
        let sum = all.map(|(_, value)| value).copied().reduce(|sum, value| sum + value);
        sum.or(self.planned(1.0)).ok_or_else(|| format!("{} counts no {counter}", run.name()))
    }

    /// The part of a small read that is the access to memory at the remote node, caches and DRAM,
    /// in nanoseconds.
    ///
    /// # Errors
    /// The run is missing or does not count it.
    pub fn remote_memory_ns(&self) -> Known<f64> {
        let of = |counter| self.count(Work::SmallReads, counter);
        let cycles = of(counter::REMOTE_READ_CYCLES)? / of(counter::REMOTE_READS)?;
        Ok(cycles / self.parameter("clock_ghz")?)
    }

    fn setting_at(&self, path: &str) -> Known<&toml::Value> {
        let machine = self.setting.machine.as_ref().map_err(String::clone)?;
        let missing = || format!("the machine has no {path}");
        let mut keys = path.split('.');
        let first = keys.next().and_then(|key| machine.get(key)).ok_or_else(missing)?;
        keys.try_fold(first, |value, key| value.get(key).ok_or_else(missing))
    }

    /// A number of the machine.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn parameter(&self, path: &str) -> Known<f64> {
        let value = self.setting_at(path)?;
        let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
        number.ok_or_else(|| format!("{path} of the machine is not a number"))
    }

    /// A word of the machine.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn word(&self, path: &str) -> Known<&str> {
        let word = self.setting_at(path)?.as_str();
        word.ok_or_else(|| format!("{path} of the machine is not a word"))
    }

    /// The runtime, if this host can keep two nodes of it busy.
    ///
    /// # Errors
    /// It cannot.
    pub fn host(&self) -> Known<Platform> {
        match self.setting.cores {
            0 | 1 => Err("two nodes of the runtime need a core each, this host has one".to_owned()),
            _ => Ok(Platform::Host),
        }
    }

    /// Value that the paper prints of another claim.
    ///
    /// # Errors
    /// There is no such claim.
    pub fn published(&self, claim: &str) -> Known<f64> {
        let value = self.setting.published.get(claim);
        value.copied().ok_or_else(|| format!("there is no claim {claim}"))
    }
}
