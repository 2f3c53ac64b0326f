//! Reads of the lender that are under way at the same time (TSM §2.2, outstanding request queue).

use rackmem_lease::store::{Lane, MAX_OUTSTANDING};
use rackmem_sim::engine::Random;

use super::memory::{Loan, PAGE};
use super::{Figures, Samples, rounds, timed_ns};
use rackmem_experiments::{Effort, Known};

/// Outstanding reads: those of figure 8, and for its 1024 as many as a lane may have.
pub const OUTSTANDING: [usize; 3] = [1, 16, MAX_OUTSTANDING];

/// Pages of the lease.
const PAGES: usize = 2048;

/// Random reads of pages, in reads per ms, by the number of outstanding ones.
///
/// # Errors
/// The lender is lost, or sends bytes that were not written.
pub fn measure(effort: Effort) -> Known<Figures> {
    let reads = if effort == Effort::Quick { 2_000 } else { 10_000 };
    sweep(PAGES, reads, rounds(effort))
}

fn sweep(pages: usize, reads: usize, rounds: usize) -> Known<Figures> {
    let loan = Loan::start(pages)?;
    let lease = loan.lease(pages)?;
    let store = lease.store();
    let mut lane = store.lane().map_err(|error| error.to_string())?;
    fill(&mut *lane, pages)?;
    let mut samples = Samples::default();
    for round in 0..rounds {
        for outstanding in OUTSTANDING {
            let mut random = Random::new(round as u64, 0);
            let ns = timed_ns(|| read(&mut *lane, pages, reads, outstanding, &mut random))?;
            samples.add(outstanding.to_string(), reads as f64 / ns * 1e6);
        }
    }
    Ok(samples.medians())
}

/// Each page gets its number.
pub(super) fn fill(lane: &mut dyn Lane, pages: usize) -> Known<()> {
    let mut bytes = [0; PAGE];
    for page in 0..pages as u64 {
        bytes[..8].copy_from_slice(&page.to_le_bytes());
        lane.write(page * PAGE as u64, &bytes).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn read(
    lane: &mut dyn Lane,
    pages: usize,
    reads: usize,
    outstanding: usize,
    random: &mut Random,
) -> Known<()> {
    let mut expected = std::collections::VecDeque::with_capacity(outstanding);
    let mut asked = 0;
    let mut bytes = [0; PAGE];
    for _ in 0..reads {
        while asked < reads && expected.len() < outstanding {
            let page = random.below(pages as u64);
            lane.ask_read(page * PAGE as u64, PAGE).map_err(|error| error.to_string())?;
            expected.push_back(page);
            asked += 1;
        }
        lane.take(&mut bytes).map_err(|error| error.to_string())?;
        let page = expected.pop_front().map(u64::to_le_bytes);
        if page.as_ref() != bytes.first_chunk() {
            return Err("the lender sent another page than was asked for".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_gets_its_page_however_many_are_under_way() {
        let figures = sweep(64, 300, 1).unwrap();
        assert_eq!(figures.len(), OUTSTANDING.len());
        assert!(figures.values().all(|rate| rate.is_finite()));
    }
}
