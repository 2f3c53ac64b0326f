//! A key-value cache whose memory is extended by borrowed memory, before a database that takes its time
//! (DEOI §IV-C). Sizes are those of the paper over [`SCALE`].

use std::time::{Duration, Instant};

use rackmem_paging::MIN_CACHE_PAGES;
use rackmem_sim::engine::Random;

use super::cache::{Arena, Cache};
use super::memory::{Loan, Memory, PAGE, far};
use super::{Figures, Samples, timed_ns};
use rackmem_experiments::{Effort, Known};

/// A megabyte of the paper, here.
const MEGABYTE: usize = (1 << 20) / SCALE;

/// Size of the paper's memory, as a multiple of this one.
const SCALE: usize = 256;

/// Memory of its own, in MB of the paper.
const LOCAL_MB: u32 = 1024;

/// Keys, in MB of the paper of their smallest values: a little more than local memory and the largest extension
/// hold, so that all fill and items are dropped.
const KEYS_MB: u32 = 1600;

/// The smallest values, in bytes.
const SMALLEST_BYTES: usize = 512;

/// A cache: its borrowed memory, and the size of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Borrowed memory, in MB of the paper.
    pub remote_mb: u32,
    /// Size of each value; a cache has values of one size, which is not scaled.
    pub value_bytes: u32,
}

/// Additional memory, in MB of the paper.
const EXTRA_MB: [u32; 5] = [0, 128, 256, 384, 512];

/// Sizes of values, in bytes, and latencies of the database, in microseconds, that are varied.
const VALUES: [u32; 3] = [512, 1024, 2048];
const LATENCIES_US: [u32; 3] = [0, 100, 200];

/// Caches by their additional memory, before a database of the paper's default latency.
///
/// # Errors
/// As [`measure`].
pub fn by_capacity(effort: Effort) -> Known<Figures> {
    measure(
        &EXTRA_MB.map(|remote_mb| Setup { remote_mb, value_bytes: VALUES[0] }),
        &[LATENCIES_US[1]],
        effort,
    )
}

/// Caches with the most additional memory and without, by values and databases.
///
/// # Errors
/// As [`measure`].
pub fn by_sensitivity(effort: Effort) -> Known<Figures> {
    let both = |value_bytes| [0, 512].map(|remote_mb| Setup { remote_mb, value_bytes });
    let setups: Vec<Setup> = VALUES.into_iter().flat_map(both).collect();
    measure(&setups, &LATENCIES_US, effort)
}

/// GETs of a round, and rounds: many short ones, as steps of memory are small.
fn sizes(effort: Effort) -> (usize, usize) {
    match effort {
        Effort::Quick => (400, 9),
        Effort::Full => (2_000, 21),
    }
}

/// Name of the figures of a setup.
pub fn name(setup: Setup, database_us: u32) -> String {
    format!("{} MB/{} B/{database_us} us", setup.remote_mb, setup.value_bytes)
}

/// The name of its evictions per GET.
pub fn evictions_name(setup: Setup, database_us: u32) -> String {
    name(setup, database_us) + "/evictions"
}

/// GETs per second of full caches, and evictions per GET.
///
/// # Errors
/// Nobody lends, or a value was not what had been put.
pub fn measure(setups: &[Setup], databases_us: &[u32], effort: Effort) -> Known<Figures> {
    let (gets, rounds) = sizes(effort);
    drive(setups, databases_us, gets, rounds, MEGABYTE)
}

fn drive(
    setups: &[Setup],
    databases_us: &[u32],
    gets: usize,
    rounds: usize,
    megabyte: usize,
) -> Known<Figures> {
    let keys = (KEYS_MB as usize * megabyte / SMALLEST_BYTES) as u64;
    let remote = |setup: &Setup| (setup.remote_mb as usize * megabyte).div_ceil(PAGE);
    let loan = Loan::mapped(setups.iter().map(remote).sum())?;
    let mut caches = Vec::with_capacity(setups.len());
    for setup in setups {
        caches.push((*setup, warm(&loan, remote(setup), *setup, keys, megabyte)?));
    }
    let mut samples = Samples::default();
    for round in 0..rounds as u64 {
        for (&database_us, seed) in databases_us.iter().zip(1..) {
            for (setup, cache) in &mut caches {
                let before = cache.evictions();
                let mut client = Client::new(*setup, keys, database_us, Random::new(seed, round));
                let ns = timed_ns(|| client.run(cache, gets))?;
                samples.add(name(*setup, database_us), gets as f64 / ns * 1e9);
                let evictions = (cache.evictions() - before) as f64 / gets as f64;
                samples.add(evictions_name(*setup, database_us), evictions);
            }
        }
    }
    Ok(samples.medians())
}

/// A cache whose own memory is filled first, then the borrowed one (IV-C).
fn warm(loan: &Loan, pages: usize, setup: Setup, keys: u64, megabyte: usize) -> Known<Cache> {
    let mut cache = Cache::new(setup.value_bytes as usize);
    cache.grow(Arena::Local(vec![0; LOCAL_MB as usize * megabyte]));
    let mut client = Client::new(setup, keys, 0, Random::new(0, 0));
    client.fill(&mut cache)?;
    if pages > 0 {
        let memory = Memory::borrow(loan, pages, &far(MIN_CACHE_PAGES))?;
        cache.grow(Arena::Borrowed(Box::new(memory)));
        client.fill(&mut cache)?;
    }
    Ok(cache)
}

/// A client: a value that is not in the cache comes from the database, and is put into the cache.
struct Client {
    value: Vec<u8>,
    keys: u64,
    database: Duration,
    random: Random,
}

impl Client {
    fn new(setup: Setup, keys: u64, database_us: u32, random: Random) -> Client {
        let database = Duration::from_micros(database_us.into());
        Client { value: vec![0; setup.value_bytes as usize], keys, database, random }
    }

    /// Asks until there is no room left.
    fn fill(&mut self, cache: &mut Cache) -> Known<()> {
        while !cache.is_full() {
            self.get(cache)?;
        }
        Ok(())
    }

    fn run(&mut self, cache: &mut Cache, gets: usize) -> Known<()> {
        (0..gets).try_for_each(|_| self.get(cache))
    }

    fn get(&mut self, cache: &mut Cache) -> Known<()> {
        let key = self.random.below(self.keys);
        if !cache.get(key, &mut self.value) {
            query(key, self.database, &mut self.value);
            cache.put(key, &self.value);
            return Ok(());
        }
        match is_value_of(key, &self.value) {
            true => Ok(()),
            false => Err(format!("the value of key {key} is not what was put")),
        }
    }
}

/// The database: takes its time, on this core alone.
fn query(key: u64, takes: Duration, into: &mut [u8]) {
    let begun = Instant::now();
    for (word, at) in into.chunks_exact_mut(8).zip(0..) {
        word.copy_from_slice(&word_of(key, at).to_le_bytes());
    }
    while begun.elapsed() < takes {
        std::hint::spin_loop();
    }
}

fn word_of(key: u64, at: u64) -> u64 {
    (key + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(at)
}

fn is_value_of(key: u64, value: &[u8]) -> bool {
    value.chunks_exact(8).zip(0..).all(|(word, at)| word == word_of(key, at).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::trials::probe;

    #[test]
    fn values_are_found_in_borrowed_memory_and_more_of_it_evicts_less() {
        if let Err(why) = probe() {
            return eprintln!("skipped: {why}");
        }
        let setups = [0, 512].map(|remote_mb| Setup { remote_mb, value_bytes: 512 });
        let figures = drive(&setups, &[0], 3_000, 1, 1 << 9).unwrap();
        let [without, with] = setups.map(|setup| figures[&evictions_name(setup, 0)]);
        // 1024 and 1536 of 1600 keys are there.
        assert!((without - 0.36).abs() < 0.1, "{without}");
        assert!((with - 0.04).abs() < 0.04, "{with}");
        assert!(figures[&name(setups[1], 0)].is_finite());
    }

    #[test]
    fn another_value_is_told_from_the_right_one() {
        let mut value = vec![0; 512];
        query(7, Duration::ZERO, &mut value);
        assert!(is_value_of(7, &value) && !is_value_of(8, &value));
        value[511] ^= 1;
        assert!(!is_value_of(7, &value));
    }
}
