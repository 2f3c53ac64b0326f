//! The runs that claims are measured by: experiments on the model of the prototype, and on this host.

use rackmem_sim::machine::{self, Machine, Override};

use crate::reproduce::results::{Effort, Known};
use crate::reproduce::runtime::key_value::{self, Setup};
use crate::reproduce::runtime::{Figures, reads};

/// The built-in machine that is like the paper's prototype.
pub const PROTOTYPE: &str = "deoi";

/// Place of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the node that uses it.
    Local,
    /// In its neighbour.
    Remote,
}

impl Place {
    /// Name of the place in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Place::Local => "local",
            Place::Remote => "remote",
        }
    }
}

/// Use of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Card {
    /// iperf, outbound.
    Send,
    /// iperf, inbound.
    Receive,
    /// NetPIPE.
    PingPong,
}

impl Card {
    /// Name of the use in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Card::Send => "nic-send",
            Card::Receive => "nic-receive",
            Card::PingPong => "nic-ping-pong",
        }
    }
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// Random reads.
    Reads(Place),
    /// A network card, by the bytes of a call or a message.
    Card(Card, Place, u32),
    /// A key-value cache.
    KeyValue {
        /// Additional memory, in MB.
        remote_mb: u32,
        /// Size of each value; a cache has values of one size.
        value_bytes: u32,
        /// Latency of the database in microseconds.
        database_us: u32,
    },
    /// The runtime measures on this host.
    Runtime(Trial),
}

/// A measurement of the runtime on this host. All variants that are compared take turns in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trial {
    /// Random reads of local and of borrowed memory.
    Reads,
    /// A key-value cache, by additional memory.
    Capacity,
    /// The same by values and databases, with the most additional memory and without.
    Sensitivity,
}

impl Trial {
    /// Name of the trial in names of runs.
    pub fn name(self) -> &'static str {
        match self {
            Trial::Reads => "reads",
            Trial::Capacity => "capacity",
            Trial::Sensitivity => "sensitivity",
        }
    }

    /// Measures.
    ///
    /// # Errors
    /// This host does not let it, or bytes were not what they should have been.
    pub fn measure(self, effort: Effort) -> Known<Figures> {
        let (value_bytes, database_us) = DEFAULT;
        match self {
            Trial::Reads => reads::measure(effort),
            Trial::Capacity => {
                let setups = EXTRA.map(|remote_mb| Setup { remote_mb, value_bytes });
                key_value::measure(&setups, &[database_us], effort)
            }
            Trial::Sensitivity => {
                let both = |value_bytes| [0, 512].map(|remote_mb| Setup { remote_mb, value_bytes });
                let setups: Vec<Setup> = VALUES.into_iter().flat_map(both).collect();
                key_value::measure(&setups, &LATENCIES, effort)
            }
        }
    }
}

/// Additional memory, in MB.
pub const EXTRA: [u32; 5] = [0, 128, 256, 384, 512];

/// The default value and the default latency of the database.
pub const DEFAULT: (u32, u32) = (512, 100);

/// Value sizes of figure 8: the paper has three and does not print them; the default, doubled twice.
pub const VALUES: [u32; 3] = [512, 1024, 2048];

/// Latencies of figure 8, in microseconds: none, the default, and twice that.
pub const LATENCIES: [u32; 3] = [0, 100, 200];

impl Effort {
    /// Bytes of a call of iperf.
    pub fn calls(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[1 << 10, 16 << 10, 128 << 10],
            Effort::Full => {
                &[1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10]
            }
        }
    }

    /// Bytes of NetPIPE's messages, below the MTU: it multiplies by some two.
    pub fn messages(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[1, 32, 1024],
            Effort::Full => &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
        }
    }
}

impl Experiment {
    /// A key-value cache with this additional memory.
    pub fn extra(remote_mb: u32) -> Experiment {
        let (value_bytes, database_us) = DEFAULT;
        Experiment::KeyValue { remote_mb, value_bytes, database_us }
    }

    /// Its name: `nic-send/remote/1024`.
    pub fn name(&self) -> String {
        match self {
            Experiment::Reads(place) => format!("reads/{}", place.name()),
            Experiment::Card(card, place, bytes) => {
                format!("{}/{}/{bytes}", card.name(), place.name())
            }
            Experiment::KeyValue { remote_mb, value_bytes, database_us } => {
                format!("key-value/{remote_mb}mb/{value_bytes}b/{database_us}us")
            }
            Experiment::Runtime(trial) => format!("host/{}", trial.name()),
        }
    }

    /// The machine that it runs on.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn machine(&self, effort: Effort) -> Known<Machine> {
        let quick = effort == Effort::Quick;
        let count = |quickly: u32, fully: u32| if quick { quickly } else { fully };
        let name = Override::new("name", format!("\"{}\"", self.name()));
        let set = |key: &str, value: String| Override::new(format!("experiment.{key}"), value);
        let mut settings = vec![name];
        match *self {
            Experiment::Reads(place) => {
                settings.push(set("kind", "reads".to_owned()));
                settings.push(set("place", place.name().to_owned()));
                settings.push(set("count", count(2_000, 20_000).to_string()));
            }
            Experiment::Card(card, place, bytes) => {
                settings.push(set("kind", card.name().to_owned()));
                settings.push(set("place", place.name().to_owned()));
                settings.push(set("message_bytes", bytes.to_string()));
                let (warm_up, packets) = match card {
                    Card::PingPong => (10, count(50, 200)),
                    Card::Send | Card::Receive => (1_000, count(4_000, 20_000)),
                };
                settings.push(set("warm_up", warm_up.to_string()));
                settings.push(set("count", packets.to_string()));
            }
            Experiment::KeyValue { remote_mb, value_bytes, database_us } => {
                settings.push(set("kind", "key-value".to_owned()));
                let mut kv = |key: &str, value: u64| {
                    settings.push(Override::new(format!("kv.{key}"), value))
                };
                kv("remote_bytes", u64::from(remote_mb) << 20);
                kv("value_bytes", value_bytes.into());
                kv("database_us", database_us.into());
            }
            Experiment::Runtime(_) => return Err("the host has no machine file".to_owned()),
        }
        machine::load(PROTOTYPE, &settings).map_err(|error| error.to_string())
    }

    /// Estimate of the host's time, relative to other runs.
    pub fn cost(&self) -> u64 {
        match self {
            Experiment::KeyValue { .. } => 100,
            Experiment::Card(_, Place::Remote, _) => 30,
            _ => 5,
        }
    }
}
