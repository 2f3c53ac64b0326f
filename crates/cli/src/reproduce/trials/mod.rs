//! Measurements on this host by the runtime: memory that a lender in this process lends, paged in and out, and
//! queue pairs.
//!
//! Variants that are compared take turns in rounds, and the medians are reported: other load on this host
//! meets all of them alike. Every measurement checks the bytes that it moves.

pub mod cache;
pub mod kernels;
pub mod key_value;
pub mod memory;
pub mod messages;
pub mod reads;
pub mod transfers;
pub mod window;

use std::collections::BTreeMap;
use std::time::Instant;

use rackmem_paging::PagerOptions;

use self::memory::{Loan, Memory, PAGE_WORDS};
use rackmem_experiments::{Effort, Known};

/// A measurement of the runtime on this host. All variants that are compared take turns in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// Random reads of local and of borrowed memory.
    Reads,
    /// A key-value cache, by additional memory.
    Capacity,
    /// The same by values and databases, with the most additional memory and without.
    Sensitivity,
    /// Random reads of the lender, by the number of outstanding ones.
    Outstanding,
    /// Sequential reads of borrowed memory, by the prefetch degree.
    Prefetching,
    /// The microbenchmarks in borrowed memory over those in local memory.
    Slowdowns,
    /// Blocks that move between this host and the lender, by their sizes.
    Transfers,
    /// Messages by queue pairs and by TCP, by their sizes.
    Messages,
}

impl Trial {
    /// The trial that an experiment file names so.
    pub fn of_name(name: &str) -> Option<Trial> {
        Some(match name {
            "reads" => Trial::Reads,
            "capacity" => Trial::Capacity,
            "sensitivity" => Trial::Sensitivity,
            "outstanding" => Trial::Outstanding,
            "prefetching" => Trial::Prefetching,
            "slowdowns" => Trial::Slowdowns,
            "transfers" => Trial::Transfers,
            "messages" => Trial::Messages,
            _ => return None,
        })
    }

    /// Measures.
    ///
    /// # Errors
    /// This host does not let it, or bytes were not what they should have been.
    pub fn measure(self, effort: Effort) -> Known<Figures> {
        match self {
            Trial::Reads => reads::measure(effort),
            Trial::Capacity => key_value::by_capacity(effort),
            Trial::Sensitivity => key_value::by_sensitivity(effort),
            Trial::Outstanding => window::measure(effort),
            Trial::Prefetching => kernels::prefetching(effort),
            Trial::Slowdowns => kernels::slowdowns(effort),
            Trial::Transfers => transfers::measure(&transfers::BLOCKS, effort),
            Trial::Messages => messages::measure(effort),
        }
    }
}

/// Results of a measurement by name; the unit is that of the measurement.
pub type Figures = BTreeMap<String, f64>;

/// Whether this host lets the runtime borrow and page at all.
///
/// # Errors
/// The thing that it does not permit, and the way to get it.
pub fn probe() -> Known<()> {
    let pages = 64;
    let loan = Loan::start(pages)?;
    let options = PagerOptions { cache_bytes: 16 * memory::PAGE, ..PagerOptions::default() };
    let mut memory = Memory::borrow(&loan, pages, &options)?;
    let words = memory.words();
    (0..pages).for_each(|page| words[page * PAGE_WORDS] = page as u64);
    match (0..pages).all(|page| words[page * PAGE_WORDS] == page as u64) {
        true => Ok(()),
        false => Err("borrowed memory has lost what was stored in it".to_owned()),
    }
}

/// Turns of each variant: odd, so that the median is a sample.
pub fn rounds(effort: Effort) -> usize {
    match effort {
        Effort::Quick => 3,
        Effort::Full => 7,
    }
}

/// Nanoseconds that something takes.
pub fn timed_ns(step: impl FnOnce() -> Known<()>) -> Known<f64> {
    let begun = Instant::now();
    step()?;
    Ok(begun.elapsed().as_secs_f64() * 1e9)
}

/// The middle of an odd number of samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Samples of variants that take turns, by their names.
#[derive(Debug, Default)]
pub struct Samples(BTreeMap<String, Vec<f64>>);

impl Samples {
    /// Adds one.
    pub fn add(&mut self, name: impl Into<String>, value: f64) {
        self.0.entry(name.into()).or_default().push(value);
    }

    /// Median of each variant's samples, by name.
    pub fn medians(&self) -> Figures {
        self.0.iter().map(|(name, samples)| (name.clone(), median(samples))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_told_by_their_medians() {
        let mut samples = Samples::default();
        [3.0, 1.0, 100.0].into_iter().for_each(|value| samples.add("a", value));
        samples.add("b", 7.0);
        assert_eq!(samples.medians(), [("a".to_owned(), 3.0), ("b".to_owned(), 7.0)].into());
    }
}
