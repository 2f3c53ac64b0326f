//! The cores of this host, and their assignment to processes.

use rustix::thread::{CpuSet, sched_getaffinity};

/// The cores that this process may use, in order.
pub fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// One core for each of `count` processes, the first ones first and again from the start if there
/// are too few.
pub fn round_robin(cores: &[usize], count: usize) -> Vec<usize> {
    cores.iter().copied().cycle().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_dealt_in_turn() {
        assert_eq!(round_robin(&[2, 5], 5), [2, 5, 2, 5, 2]);
        assert!(round_robin(&[], 3).is_empty());
        assert!(!cores().is_empty());
    }
}
