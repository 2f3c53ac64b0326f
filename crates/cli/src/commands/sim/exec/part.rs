//! The part of a program that is measured: arguments of `rackmem sim exec`, and what it prints of it.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use rackmem_sim::exec::part::{Estimate, Measured, Part, Samples};
use rackmem_sim::exec::traffic::Stretch;

use crate::failure::{Failure, Result};
use crate::size;

/// Which part of a program has timing; the rest is executed without.
#[derive(Debug, Args)]
#[command(next_help_heading = "Part of the program")]
pub struct PartArgs {
    /// Execute so many instructions of all cores without timing first, such as 100M; or `region`: up to the region of
    /// interest (rackmem/region.h), after which there is no timing either. Counters are those of the part
    #[arg(long, value_name = "N|region", conflicts_with_all = ["functional", "sample"])]
    pub fast_forward: Option<Begin>,
    /// End the part after so many instructions, such as 10M; the rest is executed without timing
    #[arg(long, value_name = "N", value_parser = size::count,
          conflicts_with_all = ["functional", "sample"])]
    pub measure: Option<u64>,
    /// Take a sample every so many instructions, such as 1M, and estimate the cycles of the whole program with a 95 %
    /// interval; for one node, and programs of one thread. Counters are those of the last sample
    #[arg(long, value_name = "N", conflicts_with = "functional", value_parser = size::count)]
    pub sample: Option<u64>,
    /// Instructions of a sample [default: 10k, or a tenth of --sample]
    #[arg(long, value_name = "N", requires = "sample", value_parser = size::count)]
    pub sample_length: Option<u64>,
    /// Instructions with timing before each sample [default: 20k, or a fifth of --sample]
    #[arg(long, value_name = "N", requires = "sample", value_parser = size::count)]
    pub sample_warm_up: Option<u64>,
    /// Measure the traffic of node 0's chip in the region of interest, and print it as `rackmem sim run` does of a
    /// workload: bandwidth, and stages of remote operations, each from the end of the one before; for chips with queue
    /// pairs in their tiles. All is executed with timing, up to there. The loads of links are in --report
    #[arg(long, value_enum, value_name = "STRETCH",
          conflicts_with_all = ["functional", "fast_forward", "measure", "sample", "checkpoint", "restore", "trace",
                                "pipeline", "stats"])]
    pub traffic: Option<Traffic>,
}

/// The stretch whose traffic is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Traffic {
    /// The region of interest (rackmem/region.h)
    Region,
    /// From its begin until the bandwidth is as precise as run.precision_percent and the warm-up of what run.steady
    /// names is over, or run.max_windows are over
    Steady,
}

impl From<Traffic> for Stretch {
    fn from(traffic: Traffic) -> Stretch {
        match traffic {
            Traffic::Region => Stretch::Region,
            Traffic::Steady => Stretch::Steady,
        }
    }
}

/// The fewest instructions of a sample. With a tenth of it the estimate of programs with misses was 1.5 times too high.
const SHORTEST_SAMPLE: u64 = 500;

/// The begin of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// After so many instructions.
    After(u64),
    /// Where the region of interest begins.
    Region,
}

impl FromStr for Begin {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Begin, String> {
        match text {
            "region" => Ok(Begin::Region),
            _ => size::count(text)
                .map(Begin::After)
                .map_err(|_| format!("'{text}': expected a number such as 100M, or region")),
        }
    }
}

impl PartArgs {
    /// The part that they name.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn part(&self, nodes: u16) -> Result<Part> {
        if let Some(every) = self.sample {
            return self.samples(every, nodes);
        }
        match (self.fast_forward, self.measure) {
            (None, Some(_)) => Err(Failure::usage(
                "--measure: the part begins where --fast-forward ends, or --restore goes on; give one of them",
            )),
            (None, None) => Ok(Part::Whole),
            (Some(Begin::After(after)), count) => Ok(Part::Instructions { after, count }),
            (Some(Begin::Region), None) => Ok(Part::Region),
            (Some(Begin::Region), Some(_)) => Err(Failure::usage(
                "--measure: a region of interest ends where the program says so; give a number to \
                 --fast-forward, or leave --measure out",
            )),
        }
    }

    fn samples(&self, every: u64, nodes: u16) -> Result<Part> {
        if nodes > 1 {
            let why =
                "--sample: is for one node, whose program goes on by itself; leave out --nodes";
            return Err(Failure::usage(why));
        }
        let usual = Samples::every(every);
        let length = self.sample_length.unwrap_or(usual.length);
        let warm_up = self.sample_warm_up.unwrap_or(usual.warm_up);
        if length < SHORTEST_SAMPLE {
            let why = format!(
                "--sample-length: is {length}, must be at least {SHORTEST_SAMPLE}: samples begin and end after whole \
                 steps of the model, some 100 cycles, which would weigh too much in shorter ones"
            );
            return Err(Failure::usage(why));
        }
        if warm_up.saturating_add(length) > every {
            let why = format!(
                "--sample {every}: has no room for samples of {length} instructions after {warm_up} to warm up; \
                 give it more, or less to --sample-length and --sample-warm-up"
            );
            return Err(Failure::usage(why));
        }
        Ok(Part::Samples(Samples { every, warm_up, length }))
    }
}

/// The reason why nothing was measured.
pub fn missing(part: Part) -> &'static str {
    match part {
        Part::Region => {
            "nothing was measured: the program has no region of interest; it calls rackmem_region_begin() \
             (rackmem/region.h) where it begins"
        }
        Part::Samples(_) => {
            "nothing was measured: the program ended before the first sample; give --sample less"
        }
        Part::Whole | Part::Instructions { .. } => {
            "nothing was measured: the program ended before; give --fast-forward less"
        }
    }
}

/// The lines that standard error has of a measured part.
pub fn summary(measured: &Measured) -> String {
    let Measured { instructions, cycles, fast_forwarded, estimate, .. } = measured;
    let per_cycle = size::three_digits(*instructions as f64 / (*cycles).max(1) as f64);
    let mut text = format!(
        "measured: {instructions} instructions in {cycles} cycles, {per_cycle} a cycle; {} without timing",
        size::rounded(*fast_forwarded as f64)
    );
    if let Some(Estimate { samples, cycles_per_instruction, half_width, cycles }) = estimate {
        let interval = match samples {
            1 => "one sample, so without an interval".to_owned(),
            _ => format!("+- {half_width:.4} (95 %, {samples} samples)"),
        };
        text += &format!(
            "\nestimate: {cycles_per_instruction:.4} cycles per instruction, {interval}: {} cycles in all",
            size::rounded(*cycles)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begins_at_a_count_or_at_the_region() {
        assert_eq!(
            ("region".parse(), "1G".parse()),
            (Ok(Begin::Region), Ok(Begin::After(1_000_000_000)))
        );
        for wrong in ["", "0", "M", "-1", "1.5M", "99999999999G", "rgion"] {
            assert!(wrong.parse::<Begin>().is_err(), "{wrong}");
        }
    }
}
