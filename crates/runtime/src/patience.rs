//! Timeout of a wait for a daemon.
//!
//! A busy host may keep a daemon from its core for long, which is no fault. A daemon that was stopped,
//! or hangs, uses no core. So a daemon is given up when no thread of it has run, or could have, for
//! [`IDLE`], and after [`LONGEST`] in any case.

use std::fs;
use std::time::{Duration, Instant};

/// Time that a daemon with a question to answer may do nothing.
pub const IDLE: Duration = Duration::from_millis(1500);

/// Longest time that a daemon may take.
pub const LONGEST: Duration = Duration::from_secs(60);

/// Time between two looks.
pub const STEP: Duration = Duration::from_millis(100);

/// A wait for the daemon that is process `pid`.
#[derive(Debug)]
pub struct Patience {
    pid: Option<i32>,
    begun: Instant,
    looked: Instant,
    idle: Duration,
    /// Time slices of its threads at the last look; `None` if unknown.
    runs: Option<u64>,
}

impl Patience {
    /// Begins to wait. A process that is not known counts as idle.
    pub fn new(pid: Option<i32>) -> Patience {
        let now = Instant::now();
        Patience { pid, begun: now, looked: now, idle: Duration::ZERO, runs: None }
    }

    /// Whether the daemon is to be given up. To be asked every [`STEP`]; of a longer time, only
    /// twice that counts: this process, too, was kept from its core.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let passed = now.duration_since(self.looked).min(2 * STEP);
        self.looked = now;
        let (is_ready, runs) = self.pid.map_or((false, None), activity);
        let has_run = runs.is_some() && self.runs.is_some() && runs != self.runs;
        self.runs = runs;
        self.idle = if is_ready || has_run { Duration::ZERO } else { self.idle + passed };
        self.idle >= IDLE || now.duration_since(self.begun) >= LONGEST
    }

    /// The reason why the daemon does not answer, as the end of a sentence that begins with it.
    pub fn reason(&self) -> String {
        let Some(pid) = self.pid else { return "does not answer".to_owned() };
        let silent = || format!("(process {pid}) does not answer: take the rack down");
        stopped(pid).unwrap_or_else(silent)
    }
}

/// The end of a sentence that begins with the process and says that it is stopped; `None` if it is not.
pub fn stopped(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    matches!(state(&stat)?, 'T' | 't').then(|| {
        format!(
            "(process {pid}) is stopped: let it go on with `kill -CONT {pid}`, or take the rack down"
        )
    })
}

/// Whether a thread of a process runs or could run now, and the time slices of all its threads so far.
fn activity(pid: i32) -> (bool, Option<u64>) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let (mut is_ready, mut runs) = (false, None);
    for task in tasks {
        let read = |name| fs::read_to_string(task.path().join(name)).ok();
        // Runnable, or waiting for a disk.
        is_ready |= matches!(read("stat").as_deref().and_then(state), Some('R' | 'D'));
        let slices =
            read("schedstat").and_then(|text| text.split_whitespace().nth(2)?.parse().ok());
        runs = slices.map_or(runs, |slices: u64| Some(runs.unwrap_or(0) + slices));
    }
    (is_ready, runs)
}

/// The state in the text of a `stat` file: after the name, which may contain anything.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_behind_any_name() {
        assert_eq!(state("12 (rmc) T 1 2"), Some('T'));
        assert_eq!(state("12 (a) R (b) S 1"), Some('S'));
        assert_eq!(state("12"), None);
    }

    #[test]
    fn who_runs_is_waited_for_and_who_does_not_is_given_up() {
        let here = std::process::id() as i32;
        assert!(activity(here).0, "this thread runs");
        let mut patience = Patience::new(Some(here));
        patience.idle = IDLE;
        assert!(!patience.is_over());
        patience.begun -= LONGEST;
        assert!(patience.is_over());
        let mut patience = Patience::new(None);
        patience.idle = IDLE;
        assert!(patience.is_over());
    }
}
