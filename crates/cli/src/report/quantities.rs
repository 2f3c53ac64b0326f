//! Numbers by which runs are compared.

use rackmem_experiments::digits::three_digits;

use super::runs::Run;

/// A number of reports.
#[derive(Debug)]
pub struct Quantity {
    /// Its name, with the unit.
    pub name: &'static str,
    /// The member of the report, from the outermost.
    path: &'static [&'static str],
    /// A workload without windows of time does not measure it.
    is_of_windows: bool,
}

const fn number(name: &'static str, path: &'static [&'static str]) -> Quantity {
    Quantity { name, path, is_of_windows: false }
}

const fn rate(name: &'static str, path: &'static [&'static str]) -> Quantity {
    Quantity { name, path, is_of_windows: true }
}

/// Mean latency of a read.
pub const LATENCY: Quantity = number("latency, cycles", &["latency", "mean_cycles"]);

/// Bytes that programs receive and send.
pub const BANDWIDTH: Quantity = rate("GB/s", &["app_gbps"]);

/// Time of a program.
pub const TIME: Quantity = number("time, ns", &["simulated_ns"]);

/// All that are results of runs.
pub const RESULTS: [Quantity; 7] = [
    LATENCY,
    number("99 %, cycles", &["latency", "p99_cycles"]),
    BANDWIDTH,
    rate("on chip, GB/s", &["noc_gbps"]),
    rate("reads/us", &["reads_per_us"]),
    number("accepted, GB/s", &["rack", "accepted_gbps", "mean"]),
    TIME,
];

/// How long the model has run; no result of a workload.
pub const CYCLES: Quantity = number("cycles simulated", &["cycles"]);

impl Quantity {
    /// Its value in a run, if that has measured it.
    pub fn of(&self, run: &Run) -> Option<f64> {
        let number = self.path.iter().try_fold(&run.report, |value, name| value.get(name))?;
        let has_windows = run.has_windows || !self.is_of_windows;
        number.as_f64().filter(|_| has_windows)
    }

    /// The same as tables show it.
    pub fn shown(&self, run: &Run) -> String {
        self.of(run).map_or("-".to_owned(), three_digits)
    }
}

/// Those that any of the runs has.
pub fn known(runs: &[Run]) -> Vec<&'static Quantity> {
    let all = RESULTS.iter().chain([&CYCLES]);
    all.filter(|quantity| runs.iter().any(|run| quantity.of(run).is_some())).collect()
}
