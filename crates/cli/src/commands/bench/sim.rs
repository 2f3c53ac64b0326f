//! `rackmem bench sim`: cycles of the model that this machine simulates per second, and instructions of
//! programs.

mod exec;

use std::time::Duration;

use rackmem_sim::machine::{self, Override};
use rackmem_sim::noc::{self, BenchRow};
use rackmem_sim::run::{self, Options};
use serde::Serialize;

use super::BenchSimArgs;
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};
use crate::{host, size};

/// The chip that is measured.
const MACHINE: &str = "manycore-ni";
/// Placements of its network interfaces, at saturation.
const PLACEMENTS: [&str; 3] = ["split", "edge", "per-tile"];
/// Transfer at saturation.
const TRANSFER_BYTES: u64 = 8192;

/// Speeds of the model, with version and host.
#[derive(Debug, Serialize)]
struct Figures {
    version: &'static str,
    host: String,
    noc: Vec<BenchRow>,
    chip: Vec<ChipRow>,
    exec: Vec<exec::Row>,
}

/// Speed of the chip with one workload.
#[derive(Debug, PartialEq, Serialize)]
struct ChipRow {
    placement: &'static str,
    workload: &'static str,
    transfer_bytes: u64,
    /// Threads of this machine.
    threads: u32,
    /// Simulated cycles.
    cycles: u64,
    seconds: f64,
    cycles_per_second: f64,
}

/// The length of the measurements.
struct Effort {
    time_per_load: Duration,
    /// Only the lowest load of each network.
    lowest_load_only: bool,
    window_cycles: u64,
    windows: u32,
    /// Reads of each core.
    reads: u32,
    exec: exec::Effort,
}

const USUAL: Effort = Effort {
    time_per_load: Duration::from_millis(500),
    lowest_load_only: false,
    window_cycles: 100_000,
    windows: 3,
    reads: 100,
    exec: exec::Effort { functional_scale: 14, scale: 9, supersteps: 41, repetitions: 3 },
};

const QUICK: Effort = Effort {
    time_per_load: Duration::from_millis(10),
    lowest_load_only: true,
    window_cycles: 1_000,
    windows: 2,
    reads: 1,
    exec: exec::Effort { functional_scale: 8, scale: 4, supersteps: 6, repetitions: 1 },
};

/// Measures.
///
/// # Errors
/// None that a release should have, besides output that cannot be written.
pub fn run(args: &BenchSimArgs) -> Result<()> {
    let effort = if args.quick { QUICK } else { USUAL };
    let spinner = console::spinner();
    spinner.set_message("simulating networks");
    let noc = noc::bench(effort.time_per_load, effort.lowest_load_only).map_err(internal)?;
    let mut chip = Vec::new();
    for (placement, threads) in PLACEMENTS.into_iter().flat_map(|which| [(which, 1), (which, 2)]) {
        spinner.set_message(format!("simulating the chip, {placement}"));
        chip.push(measure(placement, "async-read", TRANSFER_BYTES, threads, &effort)?);
    }
    spinner.set_message("simulating the chip, unloaded");
    chip.push(measure("split", "sync-read", 64, 1, &effort)?);
    let exec = exec::measure(&effort.exec, &|what| spinner.set_message(what.to_owned()))?;
    spinner.finish_and_clear();
    let figures =
        Figures { version: env!("CARGO_PKG_VERSION"), host: host::description(), noc, chip, exec };
    if args.json {
        return console::print_json(&figures);
    }
    console::print(&render(&figures))
}

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

/// Simulates the chip and takes the time.
fn measure(
    placement: &'static str,
    workload: &'static str,
    transfer_bytes: u64,
    threads: u32,
    effort: &Effort,
) -> Result<ChipRow> {
    let machine = machine::load(
        MACHINE,
        &[
            Override::new("ni.placement", placement),
            Override::new("workload.kind", workload),
            Override::new("workload.transfer_bytes", transfer_bytes),
            Override::new("run.threads", threads),
            Override::new("run.window_cycles", effort.window_cycles).if_read(),
            Override::new("run.min_windows", effort.windows).if_read(),
            Override::new("run.max_windows", effort.windows).if_read(),
            Override::new("run.reads", effort.reads).if_read(),
        ],
    );
    let machine = machine.map_err(internal)?;
    let report = run::run(&machine, &Options::default()).map_err(internal)?;
    let (cycles, seconds) = (report.cycles, report.seconds);
    let cycles_per_second = cycles as f64 / seconds.max(1e-9);
    Ok(ChipRow { placement, workload, transfer_bytes, threads, cycles, seconds, cycles_per_second })
}

fn render(figures: &Figures) -> String {
    let speedup = exec::speedup(&figures.exec);
    let speedup = speedup.map(|speedup| format!("two threads for a rack: {speedup:.2}x\n"));
    format!(
        "rackmem {}; {}\n\n{}\n{}\n{}{}",
        figures.version,
        figures.host,
        networks(&figures.noc).render(),
        chips(&figures.chip).render(),
        exec::table(&figures.exec).render(),
        speedup.unwrap_or_default()
    )
}

fn networks(rows: &[BenchRow]) -> Table {
    let mut table = Table::new(&[
        ("network, VCs x buffer", Align::Left),
        ("flits/node/cycle", Align::Right),
        ("cycles/s", Align::Right),
        ("flit-hops/s", Align::Right),
        ("", Align::Left),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.rate.to_string(),
            size::rounded(row.cycles_per_second),
            size::rounded(row.million_flit_hops_per_second * 1e6),
            if row.saturated { "saturated" } else { "" }.to_owned(),
        ]);
    }
    table
}

fn chips(rows: &[ChipRow]) -> Table {
    let mut table = Table::new(&[
        ("chip of 64 cores", Align::Left),
        ("workload", Align::Left),
        ("transfer", Align::Right),
        ("threads", Align::Right),
        ("cycles", Align::Right),
        ("cycles/s", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.placement.to_owned(),
            row.workload.to_owned(),
            size::exact(row.transfer_bytes),
            row.threads.to_string(),
            row.cycles.to_string(),
            size::rounded(row.cycles_per_second),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_chips_have_a_table_each() {
        let network = BenchRow {
            name: "mesh:8x8 5-stage 2x5 1-flit".to_owned(),
            rate: 0.4,
            cycles_per_second: 123_456.0,
            million_flit_hops_per_second: 7.5,
            saturated: true,
        };
        assert_eq!(
            networks(&[network]).render(),
            "network, VCs x buffer        flits/node/cycle  cycles/s  flit-hops/s\n\
             mesh:8x8 5-stage 2x5 1-flit               0.4     123 k       7.50 M  saturated\n"
        );
        let chip = ChipRow {
            placement: "split",
            workload: "async-read",
            transfer_bytes: 8192,
            threads: 2,
            cycles: 300_000,
            seconds: 3.0,
            cycles_per_second: 100_000.0,
        };
        assert_eq!(
            chips(&[chip]).render(),
            "chip of 64 cores  workload    transfer  threads  cycles  cycles/s\n\
             split             async-read     8 KiB        2  300000     100 k\n"
        );
    }
}
