//! Random reads of a neighbour's memory, and the parts of their latency (DEOI §IV-A).

use std::hint::black_box;

use rackmem_lease::store::Lane;
use rackmem_paging::MIN_CACHE_PAGES;
use rackmem_sim::engine::Random;

use super::memory::{Loan, Memory, PAGE, PAGE_WORDS, far};
use super::window::fill;
use super::{Figures, Samples, rounds, timed_ns};
use rackmem_experiments::{Effort, Known};

/// Pages that are read.
const PAGES: usize = 2048;

/// Mean times, in ns: of a read of local memory (`local`), of one that a page of borrowed memory is fetched for
/// (`remote`), of that page's way from its fault on (`page-in`), and of asking the lender for a page without
/// paging (`lane`).
///
/// # Errors
/// Nobody lends, or a read did not give the stored bytes.
pub fn measure(effort: Effort) -> Known<Figures> {
    let reads = if effort == Effort::Quick { 1_000 } else { 10_000 };
    times(PAGES, reads, rounds(effort))
}

fn times(pages: usize, reads: usize, rounds: usize) -> Known<Figures> {
    let loan = Loan::start(2 * pages)?;
    let lease = loan.lease(pages)?;
    let mut lane = lease.store().lane().map_err(|error| error.to_string())?;
    fill(&mut *lane, pages)?;
    let mut borrowed = Memory::borrow(&loan, pages, &far(MIN_CACHE_PAGES.max(pages / 64)))?;
    let mut local = vec![0; pages * PAGE_WORDS];
    for words in [&mut local[..], borrowed.words()] {
        words.chunks_mut(PAGE_WORDS).zip(0..).for_each(|(page, number)| page[0] = number);
    }
    borrowed.send_away()?;
    let mut samples = Samples::default();
    for round in 0..rounds as u64 {
        let random = || Random::new(round, 0);
        let mut add = |name: &str, ns: f64| samples.add(name, ns / reads as f64);
        add("local", timed_ns(|| loads(&local, reads, random()))?);
        add("remote", timed_ns(|| loads(borrowed.words(), reads, random()))?);
        add("lane", timed_ns(|| asked(&mut *lane, pages, reads, random()))?);
    }
    samples.add("page-in", borrowed.page_in_ns());
    Ok(samples.medians())
}

/// Loads, each of which waits for the one before.
fn loads(words: &[u64], reads: usize, mut random: Random) -> Known<()> {
    let pages = (words.len() / PAGE_WORDS) as u64;
    for _ in 0..reads {
        let page = random.below(pages);
        if black_box(words[page as usize * PAGE_WORDS]) != page {
            return Err("a read has not found what was stored".to_owned());
        }
    }
    Ok(())
}

/// Pages of the lender, one after the other.
fn asked(lane: &mut dyn Lane, pages: usize, reads: usize, mut random: Random) -> Known<()> {
    let mut bytes = [0; PAGE];
    for _ in 0..reads {
        let page = random.below(pages as u64);
        lane.read(page * PAGE as u64, &mut bytes).map_err(|error| error.to_string())?;
        if bytes.first_chunk() != Some(&page.to_le_bytes()) {
            return Err("the lender sent another page than was asked for".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::trials::probe;

    #[test]
    fn reads_find_what_was_stored() {
        if let Err(why) = probe() {
            return eprintln!("skipped: {why}");
        }
        let figures = times(64, 200, 1).unwrap();
        let names: Vec<&str> = figures.keys().map(String::as_str).collect();
        assert_eq!(names, ["lane", "local", "page-in", "remote"]);
        assert!(loads(&[1; PAGE_WORDS], 1, Random::new(0, 0)).is_err());
    }
}
