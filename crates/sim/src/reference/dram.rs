//! Memories beside DRAMsim3: mean latency of reads, and what a busy channel carries.

use std::path::Path;

use crate::dram::{Kind, Tick};
use crate::machine::{Machine, Override, load};
use crate::run::memory::{Access, Report, run};

/// Requests of a run.
pub const COUNT: u64 = 40_000;

/// Clocks of a run in which a request comes each clock.
const SATURATED_CLOCKS: Tick = 160_000;

/// A row of the reference's table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Grade, such as `ddr4-2400`.
    pub grade: String,
    /// `random`, `random-write-third` or `stream`.
    pub pattern: String,
    /// Clocks between requests; none: one each clock, for 160,000 clocks.
    pub interval: Option<Tick>,
    /// Requests that were done.
    pub done: u64,
    /// Mean latency of reads in clocks.
    pub mean: Option<f64>,
}

/// Reads the table.
///
/// # Errors
/// It cannot be read, or a line has other columns.
pub fn rows(file: &Path) -> Result<Vec<Row>, String> {
    let named = |what: String| format!("{}: {what}", file.display());
    let text = super::read(file).map_err(|error| named(error.to_string()))?;
    let row = |(at, line): (usize, &str)| {
        row(line)
            .ok_or_else(|| named(format!("line {}: not grade,pattern,interval,done,...", at + 1)))
    };
    text.lines().enumerate().skip(1).map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.split(',').collect();
    let [grade, pattern, interval, done, _, mean, ..] = cells[..] else { return None };
    let (interval, mean) = match interval {
        "saturated" => (None, None),
        interval => (Some(interval.parse().ok()?), Some(mean.parse().ok()?)),
    };
    let is_known = ["random", "random-write-third", "stream"].contains(&pattern);
    let (grade, pattern, done) = (grade.to_owned(), pattern.to_owned(), done.parse().ok()?);
    is_known.then_some(Row { grade, pattern, interval, done, mean })
}

impl Row {
    /// Simulates the same.
    pub fn simulate(&self) -> Result<Report, String> {
        let clocks = self.interval.is_none().then_some(SATURATED_CLOCKS);
        let requests = requests(&self.pattern, self.interval.unwrap_or(1));
        run(&device(&self.grade)?, requests, clocks, |_| Ok(())).map_err(|error| error.to_string())
    }

    /// The quantity that is compared, the reference's and the model's: mean latency of reads in clocks, or the number
    /// of requests that a busy channel does.
    pub fn compared(&self, report: &Report) -> (f64, f64) {
        match (self.interval, self.mean) {
            (Some(_), Some(mean)) => (mean, report.reads.mean),
            _ => (self.done as f64, (report.reads.count + report.writes.count) as f64),
        }
    }
}

/// The reference's devices: tRTRS is 1, and the data wires pause that long when they turn around, but not between the
/// writes of two ranks. DRAMsim3 does not know the key by which its file for DDR3 gives tREFI.
fn device(grade: &str) -> Result<Machine, String> {
    let own: &[&str] = match grade {
        "ddr3-1600" => &["dram.trefi_nck=7800", "dram.trtw_nck=8"],
        "ddr4-2400" => &["dram.trefi_nck=9360", "dram.trtw_nck=10", "dram.trfc_nck=420"],
        _ => &["dram.trtw_nck=11"],
    };
    let all = ["dram.trtrs_nck=1", "dram.twrwr_dr_nck=4", "dram.age_limit_ns=1e9"];
    let overrides: Result<Vec<Override>, String> =
        own.iter().chain(&all).map(|text| text.parse()).collect();
    load(grade, &overrides?).map_err(|error| error.to_string())
}

/// The requests of the reference: xorshift64*.
fn requests(pattern: &str, interval: Tick) -> impl Iterator<Item = Result<Access, String>> {
    let mut state: u64 = 88_172_645_463_325_252;
    let mut draw = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    let (stream, writes) = (pattern == "stream", pattern == "random-write-third");
    (0..COUNT).map(move |number| {
        let address = if stream { number * 64 } else { draw() >> 20 & 0xffff_ffc0 };
        let write = writes && draw().is_multiple_of(3);
        let kind = if write { Kind::Write } else { Kind::Read };
        Ok(Access { at: Some(number * interval), address, kind })
    })
}
