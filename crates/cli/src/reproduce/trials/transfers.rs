//! Blocks that move between this host's memory and the lender's, in three ways (TSM §2.1, Table 2).

use rackmem_lease::store::{Lane, MAX_OUTSTANDING};

use super::memory::{Loan, PAGE};
use super::{Figures, Samples, rounds, timed_ns};
use rackmem_experiments::{Effort, Known};

/// Bytes of a load or a store.
const LINE: usize = 64;

/// Bytes of the lease: the largest block twice.
const LEASE: usize = 2 << 20;

/// Bytes that a measurement moves by loads, each of which waits for the one before.
const LOADED: usize = 16 << 10;

/// Blocks that are under way by copies, and bytes of theirs; two at least.
const COPIES: usize = 8;
const COPIED: usize = 1 << 20;

/// Bytes that a measurement moves by stores and by copies, at least a block.
const MOVED: usize = 128 << 10;

/// A way for a block: `(lane, block, bytes in all)`.
type Way = fn(&mut dyn Lane, &[u8], usize) -> Known<()>;

/// The ways, and the most bytes of a measurement: blocks in lines that are asked for one after the other; in lines
/// that are written, none of which is waited for before the end; and as one request each, a few of which are under
/// way, as descriptors of a DMA engine.
const WAYS: [(&str, Way); 3] = [("load", load), ("store", store), ("dma", copy)];

/// Blocks of Table 2, in bytes.
pub const BLOCKS: [usize; 9] =
    [64, 128, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Name of a figure.
pub fn name(way: &str, block_bytes: usize) -> String {
    format!("{way}/{block_bytes}")
}

/// Bandwidths in MB/s.
///
/// # Errors
/// Nobody lends, or a block was not what had been stored.
pub fn measure(blocks: &[usize], effort: Effort) -> Known<Figures> {
    let loan = Loan::start(LEASE / PAGE)?;
    let lease = loan.lease(LEASE / PAGE)?;
    let mut lane = lease.store().lane().map_err(|error| error.to_string())?;
    let mut samples = Samples::default();
    // Each is short, so that more of them are needed.
    for _ in 0..3 * rounds(effort) {
        for &block_bytes in blocks {
            for (way, run) in WAYS {
                let (block, total) = prepared(&mut *lane, way, block_bytes)?;
                let ns = timed_ns(|| run(&mut *lane, &block, total))?;
                samples.add(name(way, block_bytes), total as f64 / ns * 1e3);
                check(&mut *lane, &block)?;
            }
        }
    }
    Ok(samples.medians())
}

/// A block, which the lender has unless it is to be stored there, and how many bytes to move.
fn prepared(lane: &mut dyn Lane, way: &str, block_bytes: usize) -> Known<(Vec<u8>, usize)> {
    let block: Vec<u8> = (0..block_bytes).map(|at| (at / LINE * 7 + at) as u8 | 1).collect();
    lane.discard(0, LEASE as u64).map_err(|error| error.to_string())?;
    if way != "store" {
        lane.write(0, &block).map_err(|error| error.to_string())?;
    }
    let total = match way {
        "load" => LOADED,
        _ => block_bytes * MOVED.div_ceil(block_bytes).clamp(2, 1024),
    };
    Ok((block, total))
}

/// The lender has the block.
fn check(lane: &mut dyn Lane, block: &[u8]) -> Known<()> {
    let mut there = vec![0; block.len()];
    lane.read(0, &mut there).map_err(|error| error.to_string())?;
    is_same(&there, block)
}

fn is_same(there: &[u8], block: &[u8]) -> Known<()> {
    match there == block {
        true => Ok(()),
        false => Err("a block that was moved is not what it was".to_owned()),
    }
}

fn load(lane: &mut dyn Lane, block: &[u8], total: usize) -> Known<()> {
    let mut line = [0; LINE];
    for at in (0..total).step_by(LINE).map(|at| at % block.len()) {
        lane.read(at as u64, &mut line).map_err(|error| error.to_string())?;
        is_same(&line, &block[at..at + LINE])?;
    }
    Ok(())
}

fn store(lane: &mut dyn Lane, block: &[u8], total: usize) -> Known<()> {
    let step = || -> rackmem_lease::Result<()> {
        for _ in 0..total / block.len() {
            for (line, at) in block.chunks(LINE).zip((0..).step_by(LINE)) {
                if lane.outstanding() == MAX_OUTSTANDING {
                    lane.take(&mut [])?;
                }
                lane.ask_write(at, line)?;
            }
        }
        while lane.outstanding() > 0 {
            lane.take(&mut [])?;
        }
        Ok(())
    };
    with(step)
}

fn copy(lane: &mut dyn Lane, block: &[u8], total: usize) -> Known<()> {
    let mut into = vec![0; block.len()];
    let most = (COPIED / block.len()).clamp(2, COPIES);
    let step = || -> rackmem_lease::Result<()> {
        for _ in 0..total / block.len() {
            if lane.outstanding() == most {
                lane.take(&mut into)?;
            }
            lane.ask_read(0, into.len())?;
            lane.push()?;
        }
        while lane.outstanding() > 0 {
            lane.take(&mut into)?;
        }
        Ok(())
    };
    with(step)?;
    is_same(&into, block)
}

fn with(step: impl FnOnce() -> rackmem_lease::Result<()>) -> Known<()> {
    step().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_arrive_as_they_were_in_every_way() {
        let loan = Loan::start(LEASE / PAGE).unwrap();
        let lease = loan.lease(LEASE / PAGE).unwrap();
        let mut lane = lease.store().lane().unwrap();
        for (way, run) in WAYS {
            for block_bytes in [64, 4096, 1 << 20] {
                let (block, total) = prepared(&mut *lane, way, block_bytes).unwrap();
                run(&mut *lane, &block, total).unwrap();
                check(&mut *lane, &block).unwrap();
                lane.write(block_bytes as u64 - 1, &[0]).unwrap();
                assert!(check(&mut *lane, &block).is_err(), "{way}");
                assert_eq!(lane.outstanding(), 0);
            }
        }
    }
}
