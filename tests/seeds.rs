//! Seeds of randomised tests: a test that fails says which seed it was, and how to run that one again.
//!
//! | variable | effect |
//! |---|---|
//! | `RACKMEM_TEST_SEED=7` | each test runs with this seed only |
//! | `RACKMEM_TEST_SEEDS=20` | each test runs with 20 times as many seeds, none of the usual ones |
//!
//! Property tests have variables of their own for the same: `PROPTEST_RNG_SEED` and `PROPTEST_CASES`.

use std::ops::Range;

/// The seeds of a test, one after the other.
pub struct Seeds {
    left: Range<u64>,
    current: u64,
}

/// These seeds, unless the environment says otherwise.
pub fn seeds(usual: Range<u64>) -> Seeds {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
    };
    let left = match (number("RACKMEM_TEST_SEED"), number("RACKMEM_TEST_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(times)) => usual.end..usual.end + times * (usual.end - usual.start),
        (None, None) => usual,
    };
    Seeds { left, current: 0 }
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.current = self.left.next()?;
        Some(self.current)
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.current;
            eprintln!("it failed with seed {seed}: RACKMEM_TEST_SEED={seed} runs it again");
        }
    }
}
