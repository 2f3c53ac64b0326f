//! The microbenchmarks of TSM §2.1.2 in memory of this host and in borrowed memory, and prefetching (§2.2).
//! The local cache of pages stands for the last-level cache.

use std::hint::black_box;

use rackmem_paging::PagerOptions;
use rackmem_sim::engine::Random;

use super::memory::{Loan, Memory, PAGE, PAGE_WORDS};
use super::{Figures, Samples, rounds, timed_ns};
use rackmem_experiments::{Effort, Known};

/// Prefetch degrees, in pages; none comes first.
pub const DEGREES: [usize; 7] = [0, 1, 2, 4, 8, 16, 32];

/// Sizes of a measurement.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Pages of the local cache.
    cache: usize,
    /// Passes of benchmarks 1 and 2 over their pages.
    passes: usize,
    /// Reads of a page by benchmark 3 before it goes on: its locality is that of time.
    reuse: usize,
    /// Accesses of benchmark 4.
    accesses: usize,
    rounds: usize,
}

const QUICK: Sizes = Sizes { cache: 256, passes: 200, reuse: 300, accesses: 1_000, rounds: 3 };

fn sizes(effort: Effort) -> Sizes {
    let scale = if effort == Effort::Quick { 1 } else { 4 };
    let Sizes { passes, accesses, .. } = QUICK;
    Sizes { passes: scale * passes, accesses: scale * accesses, rounds: rounds(effort), ..QUICK }
}

/// The benchmarks, and where their data are.
const BENCHMARKS: [(&str, Benchmark); 4] = [("b1", b1), ("b2", b2), ("b3", b3), ("b4", b4)];

/// A benchmark. Its sum depends on all that it has read and written.
type Benchmark = fn(&mut [u64], Sizes) -> u64;

/// Read-only, half of the cache.
fn b1(words: &mut [u64], sizes: Sizes) -> u64 {
    let words = &words[..sizes.cache / 2 * PAGE_WORDS];
    let mut sum = 0_u64;
    for _ in 0..sizes.passes {
        sum = black_box(words).iter().fold(sum, |sum, &word| sum.wrapping_add(word));
    }
    sum
}

/// Half of the cache, every other access a store.
fn b2(words: &mut [u64], sizes: Sizes) -> u64 {
    let words = &mut words[..sizes.cache / 2 * PAGE_WORDS];
    let mut sum = 0_u64;
    for _ in 0..sizes.passes {
        for pair in words.chunks_exact_mut(2) {
            sum = sum.wrapping_add(pair[0]);
            pair[1] = sum;
        }
        black_box(&mut *words);
    }
    sum
}

/// Read-only, four times the cache, page by page.
fn b3(words: &mut [u64], sizes: Sizes) -> u64 {
    let mut sum = 0_u64;
    for page in words[..4 * sizes.cache * PAGE_WORDS].chunks_exact(PAGE_WORDS) {
        for _ in 0..sizes.reuse {
            sum = black_box(page).iter().fold(sum, |sum, &word| sum.wrapping_add(word));
        }
    }
    sum
}

/// Random, eight times the cache, every other access a store.
fn b4(words: &mut [u64], sizes: Sizes) -> u64 {
    let words = &mut words[..8 * sizes.cache * PAGE_WORDS];
    let mut random = Random::new(1, 0);
    let mut sum = 0_u64;
    for access in 0..sizes.accesses {
        let at = random.below(words.len() as u64) as usize;
        if access % 2 == 0 {
            sum = sum.wrapping_add(words[at]);
        } else {
            words[at] = sum;
        }
    }
    sum
}

fn fill(words: &mut [u64]) {
    for (word, number) in words.iter_mut().zip(0..) {
        *word = number;
    }
}

/// Times over those in memory of this host.
///
/// # Errors
/// Nobody lends, or a read of borrowed memory did not give the stored bytes.
pub fn slowdowns(effort: Effort) -> Known<Figures> {
    compare(sizes(effort))
}

fn compare(sizes: Sizes) -> Known<Figures> {
    let pages = 8 * sizes.cache;
    let loan = Loan::start(pages)?;
    let options = PagerOptions { cache_bytes: sizes.cache * PAGE, ..PagerOptions::default() };
    let mut borrowed = Memory::borrow(&loan, pages, &options)?;
    let mut local = vec![0; pages * PAGE_WORDS];
    let (remote, local) = (borrowed.words(), &mut local[..]);
    fill(remote);
    fill(local);
    let mut samples = Samples::default();
    for (name, run) in BENCHMARKS {
        // The first time in each warms the caches up.
        for round in 0..=sizes.rounds {
            let (mut sums, mut times) = ([0; 2], [0.0; 2]);
            for (at, words) in [&mut *local, &mut *remote].into_iter().enumerate() {
                times[at] = timed_ns(|| {
                    sums[at] = run(words, sizes);
                    Ok(())
                })?;
            }
            if sums[0] != sums[1] {
                return Err(format!("{name} has not read what was stored in borrowed memory"));
            }
            if round > 0 {
                samples.add(name, times[1] / times[0]);
            }
        }
    }
    Ok(samples.medians())
}

/// Times of a sequential pass with each prefetch degree, in ns per page.
///
/// # Errors
/// As [`slowdowns`].
pub fn prefetching(effort: Effort) -> Known<Figures> {
    let pages = if effort == Effort::Quick { 1024 } else { 8192 };
    sequential(pages, rounds(effort))
}

fn sequential(pages: usize, rounds: usize) -> Known<Figures> {
    let loan = Loan::start(DEGREES.len() * pages)?;
    let mut memories = Vec::with_capacity(DEGREES.len());
    for degree in DEGREES {
        let cache_bytes = pages / 4 * PAGE;
        let options =
            PagerOptions { cache_bytes, prefetch_pages: degree, ..PagerOptions::default() };
        let mut memory = Memory::borrow(&loan, pages, &options)?;
        fill(memory.words());
        memories.push((degree, memory));
    }
    let words = (pages * PAGE_WORDS) as u64;
    let mut samples = Samples::default();
    for _ in 0..rounds {
        for (degree, memory) in &mut memories {
            memory.send_away()?;
            let all = memory.words();
            let ns = timed_ns(|| {
                let sum: u64 = all.iter().sum();
                match sum == words * (words - 1) / 2 {
                    true => Ok(()),
                    false => Err("borrowed memory is not what was stored in it".to_owned()),
                }
            })?;
            samples.add(degree.to_string(), ns / pages as f64);
        }
    }
    Ok(samples.medians())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::trials::probe;

    #[test]
    fn benchmarks_find_in_borrowed_memory_what_they_stored_there() {
        if let Err(why) = probe() {
            return eprintln!("skipped: {why}");
        }
        let sizes = Sizes { cache: 16, passes: 2, reuse: 2, accesses: 500, rounds: 1 };
        assert_eq!(compare(sizes).unwrap().len(), BENCHMARKS.len());
        assert_eq!(sequential(64, 1).unwrap().len(), DEGREES.len());
    }

    #[test]
    fn a_benchmark_tells_other_data_by_its_sum() {
        let sizes = Sizes { cache: 16, passes: 2, reuse: 2, accesses: 50_000, rounds: 1 };
        let mut words = vec![0; 8 * sizes.cache * PAGE_WORDS];
        fill(&mut words);
        for (name, run) in BENCHMARKS {
            let mut other = words.clone();
            let sum = run(&mut other, sizes);
            other.copy_from_slice(&words);
            other[0] ^= 1 << 40;
            other[..4 * sizes.cache * PAGE_WORDS].rotate_left(1);
            assert_ne!(run(&mut other, sizes), sum, "{name}");
        }
    }
}
