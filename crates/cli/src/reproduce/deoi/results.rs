//! The quantities that claims of this paper speak of, out of the reports of runs.

use rackmem_sim::interconnect::LAYER_NAMES;
use rackmem_sim::machine;
use rackmem_sim::report::{self, ExtensionReport, KeyValueReport};

use super::experiment::{Card, DEFAULT, Experiment, PROTOTYPE, Place, Trial};
use crate::reproduce::results;
use crate::reproduce::runtime::key_value::{Setup, evictions_name, name};
use crate::reproduce::runtime::{self, Figures};

pub use crate::reproduce::results::Known;

/// The reports of all runs of this paper.
pub type Results = results::Results<Experiment>;

/// Result of a run: one of both is empty.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Report of the model; empty after a measurement on this host.
    pub model: report::Report,
    /// Figures of the runtime on this host; empty after a run on the model.
    pub figures: Figures,
}

impl Report {
    /// The result of a run on the model.
    pub fn of_model(model: report::Report) -> Report {
        Report { model, figures: Figures::new() }
    }

    /// The result of a measurement on this host.
    pub fn of_host(figures: Figures) -> Report {
        Report { model: report::Report::default(), figures }
    }
}

/// Inputs of checks besides runs: the prototype as it is, and this host.
#[derive(Clone, Debug)]
pub struct Setting {
    /// All its keys.
    pub prototype: Known<toml::Table>,
    /// Whether this host lets the runtime measure; else why not.
    pub host: Known<()>,
}

/// The setting with the built-in machine and this host.
pub fn setting() -> Setting {
    Setting { host: runtime::probe(), ..of_machine() }
}

/// The setting with the built-in machine, on a host that lets the runtime measure.
pub(super) fn of_machine() -> Setting {
    let resolved = || {
        let machine = machine::load(PROTOTYPE, &[]).map_err(|error| error.to_string())?;
        toml::from_str(&machine::resolved(&machine)).map_err(|error| error.to_string())
    };
    Setting { prototype: resolved(), host: Ok(()) }
}

impl results::Experiment for Experiment {
    type Report = Report;
    type Setting = Setting;

    fn name(&self) -> String {
        Experiment::name(self)
    }

    fn blank() -> Report {
        let key_value = KeyValueReport { gets_per_second: 1.0, ..KeyValueReport::default() };
        let extension = ExtensionReport {
            latency_ns: Some(1.0),
            layers_ns: Some([1.0; LAYER_NAMES.len()]),
            mbps: Some(1.0),
            key_value: Some(KeyValueReport { per_second: vec![1.0], ..key_value }),
            ..ExtensionReport::default()
        };
        Report::of_model(report::Report { extension: Some(extension), ..report::Report::default() })
    }
}

/// Layers of a remote read, as the paper's figure 4 has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Transaction layer of the borrower.
    Master,
    /// Transaction layer of the lender.
    Slave,
    /// Routing layers.
    Routing,
    /// Link layers, both ways.
    Link,
    /// Physical layers, both ways.
    Physical,
    /// Memory of the lender, with its interconnect.
    Memory,
    /// Program and caches.
    Software,
}

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Layer::Master => "transaction_master",
            Layer::Slave => "transaction_slave",
            Layer::Routing => "routing",
            Layer::Link => "link",
            Layer::Physical => "physical",
            Layer::Memory => "memory",
            Layer::Software => "software",
        }
    }
}

/// A difference in per cent of what it is to: the paper's equation 1.
pub fn disparity(remote: f64, local: f64) -> f64 {
    100.0 * (remote - local).abs() / local
}

impl Results {
    fn extension(&self, run: Experiment) -> Known<&ExtensionReport> {
        let report = self.report(run)?.model.extension.as_ref();
        report.ok_or_else(|| format!("{} reports nothing of its nodes", run.name()))
    }

    /// Mean latency of random reads, in ns.
    ///
    /// # Errors
    /// The run is missing.
    pub fn read_ns(&self, place: Place) -> Known<f64> {
        self.latency_ns(Experiment::Reads(place))
    }

    /// A layer's part of a remote read, in ns.
    ///
    /// # Errors
    /// The run is missing.
    pub fn layer_ns(&self, layer: Layer) -> Known<f64> {
        let layers = self.extension(Experiment::Reads(Place::Remote))?.layers_ns;
        let at = LAYER_NAMES.iter().position(|&name| name == layer.name());
        let found = layers.and_then(|layers| Some(layers[at?]));
        found.ok_or_else(|| format!("no probe at the layer {}", layer.name()))
    }

    /// Reads that ended with an error.
    ///
    /// # Errors
    /// The run is missing.
    pub fn failed_reads(&self) -> Known<u64> {
        Ok(self.extension(Experiment::Reads(Place::Remote))?.failed)
    }

    fn latency_ns(&self, run: Experiment) -> Known<f64> {
        let found = self.extension(run)?.latency_ns;
        found.ok_or_else(|| format!("{} has no latency", run.name()))
    }

    /// Bandwidth of a card, in Mbps.
    ///
    /// # Errors
    /// The run is missing.
    pub fn mbps(&self, card: Card, place: Place, bytes: u32) -> Known<f64> {
        let run = Experiment::Card(card, place, bytes);
        self.extension(run)?.mbps.ok_or_else(|| format!("{} has no bandwidth", run.name()))
    }

    /// Half a round trip through a card, in us.
    ///
    /// # Errors
    /// The run is missing.
    pub fn ping_pong_us(&self, place: Place, bytes: u32) -> Known<f64> {
        Ok(self.latency_ns(Experiment::Card(Card::PingPong, place, bytes))? / 1000.0)
    }

    /// Mean over all sizes of the disparity of bandwidth, in per cent.
    ///
    /// # Errors
    /// A run is missing.
    pub fn bandwidth_disparity(&self, card: Card) -> Known<f64> {
        let calls = self.effort.calls();
        let mut sum = 0.0;
        for &bytes in calls {
            let of = |place| self.mbps(card, place, bytes);
            sum += disparity(of(Place::Remote)?, of(Place::Local)?);
        }
        Ok(sum / calls.len() as f64)
    }

    /// Mean over all sizes of the time that a remote card adds to a message, in us.
    ///
    /// # Errors
    /// A run is missing.
    pub fn extra_us(&self) -> Known<f64> {
        let messages = self.effort.messages();
        let mut sum = 0.0;
        for &bytes in messages {
            let of = |place| self.ping_pong_us(place, bytes);
            sum += of(Place::Remote)? - of(Place::Local)?;
        }
        Ok(sum / messages.len() as f64)
    }

    /// A key-value cache.
    ///
    /// # Errors
    /// The run is missing.
    pub fn key_value(&self, run: Experiment) -> Known<&KeyValueReport> {
        let report = self.extension(run)?.key_value.as_ref();
        report.ok_or_else(|| format!("{} reports no cache", run.name()))
    }

    /// Requests per second of the cache with this additional memory: over the whole run, and in the best
    /// interval.
    ///
    /// # Errors
    /// The run is missing.
    pub fn gets(&self, run: Experiment) -> Known<(f64, f64)> {
        let report = self.key_value(run)?;
        let best = report.per_second.iter().copied().fold(0.0, f64::max);
        Ok((report.gets_per_second, best))
    }

    /// Throughput with 512 MB more, over that without, at the end of both runs.
    ///
    /// # Errors
    /// A run is missing.
    pub fn gain(&self, value_bytes: u32, database_us: u32) -> Known<f64> {
        let of = |remote_mb| {
            let run = Experiment::KeyValue { remote_mb, value_bytes, database_us };
            let last = self.key_value(run)?.per_second.last().copied();
            last.ok_or_else(|| format!("{} has no intervals", run.name()))
        };
        Ok(of(512)? / of(0)?)
    }

    /// A figure that the runtime has measured on this host.
    ///
    /// # Errors
    /// This host does not let it, or the run is missing.
    pub fn on_host(&self, trial: Trial, figure: &str) -> Known<f64> {
        self.setting.host.clone()?;
        let run = Experiment::Runtime(trial);
        let found = self.report(run)?.figures.get(figure).copied();
        found.or(self.planned(1.0)).ok_or_else(|| format!("{} has no {figure}", run.name()))
    }

    /// GETs per second of the cache on this host, by its additional memory.
    ///
    /// # Errors
    /// As [`Results::on_host`].
    pub fn gets_on_host(&self, remote_mb: u32) -> Known<f64> {
        let (value_bytes, database_us) = DEFAULT;
        self.on_host(Trial::Capacity, &name(Setup { remote_mb, value_bytes }, database_us))
    }

    /// Values that it drops for each GET.
    ///
    /// # Errors
    /// As [`Results::on_host`].
    pub fn evictions_on_host(&self, remote_mb: u32) -> Known<f64> {
        let (value_bytes, database_us) = DEFAULT;
        let setup = Setup { remote_mb, value_bytes };
        self.on_host(Trial::Capacity, &evictions_name(setup, database_us))
    }

    /// GETs per second with 512 MB more over those without, on this host.
    ///
    /// # Errors
    /// As [`Results::on_host`].
    pub fn gain_on_host(&self, value_bytes: u32, database_us: u32) -> Known<f64> {
        let of = |remote_mb| {
            self.on_host(Trial::Sensitivity, &name(Setup { remote_mb, value_bytes }, database_us))
        };
        Ok(of(512)? / of(0)?)
    }

    /// Slots of the borrower's table that one borrowed block takes.
    ///
    /// # Errors
    /// The run is missing.
    pub fn amt_slots(&self) -> Known<f64> {
        let found = self.report(Experiment::Reads(Place::Remote))?.model.stat("node[0].amt.slots");
        found.or(self.planned(1.0)).ok_or_else(|| "no count of slots".to_owned())
    }

    /// Whether something is so in the prototype.
    ///
    /// # Errors
    /// Nothing is of this name.
    pub fn flag(&self, path: &str) -> Known<bool> {
        let flag = self.value(path)?.as_bool();
        flag.ok_or_else(|| format!("{path} of the machine is neither true nor false"))
    }

    /// A number of the prototype.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn number(&self, path: &str) -> Known<f64> {
        let value = self.value(path)?;
        let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
        number.ok_or_else(|| format!("{path} of the machine is not a number"))
    }

    /// A word of the prototype.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn word(&self, path: &str) -> Known<&str> {
        let word = self.value(path)?.as_str();
        word.ok_or_else(|| format!("{path} of the machine is not a word"))
    }

    fn value(&self, path: &str) -> Known<&toml::Value> {
        let table = self.setting.prototype.as_ref().map_err(String::clone)?;
        let missing = || format!("the machine has no {path}");
        let mut keys = path.split('.');
        let first = keys.next().and_then(|key| table.get(key)).ok_or_else(missing)?;
        keys.try_fold(first, |value, key| value.get(key).ok_or_else(missing))
    }
}
