//! Many runs on all cores of the host.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rackmem_experiments::Known;
use rackmem_sim::machine::Machine;
use rackmem_sim::report::Report;
use rackmem_sim::run::{self, Options};

use crate::console;

/// A run that is asked for.
#[derive(Clone, Debug)]
pub struct Job<W> {
    /// Name that is shown while it runs.
    pub name: String,
    /// Input of the run.
    pub work: W,
    /// Estimate of its time, relative to the others: the longest start first.
    pub cost: u64,
}

/// Number of runs at the same time: `wanted`, else one per core of the host.
pub fn threads(wanted: Option<u16>) -> usize {
    let all = thread::available_parallelism().map_or(1, usize::from);
    wanted.map_or(all, usize::from)
}

/// Runs machines; results come in the order of the jobs.
pub fn run(jobs: &[Job<Machine>], threads: usize) -> Vec<Known<Report>> {
    let run = |machine: &Machine| run::run(&on_one_thread(machine), &Options::default());
    each(jobs, threads, &|machine| run(machine).map_err(|error| error.to_string()))
}

/// Does each piece of work on `threads` threads; results come in the order of the jobs.
pub fn each<W: Sync, R: Send>(
    jobs: &[Job<W>],
    threads: usize,
    work: &(dyn Fn(&W) -> Known<R> + Sync),
) -> Vec<Known<R>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&job| std::cmp::Reverse(jobs[job].cost));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Known<R>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let bar = console::steps(jobs.len() as u64);
    let take = || {
        while let Some(&job) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            bar.set_message(jobs[job].name.clone());
            let result = work(&jobs[job].work);
            if let Ok(mut place) = results[job].lock() {
                *place = Some(result);
            }
            bar.inc(1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(take);
        }
    });
    bar.finish_and_clear();
    let lost = || Err("the run has ended without a result".to_owned());
    let result = |place: Mutex<Option<_>>| place.into_inner().ok().flatten().unwrap_or_else(lost);
    results.into_iter().map(result).collect()
}

/// The same machine on one thread: the others are taken by other runs.
fn on_one_thread(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.run.threads = 1;
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs_whatever_runs_first() {
        let job = |number: u64| Job { name: String::new(), work: number, cost: number % 7 };
        let jobs: Vec<Job<u64>> = (0..50).map(job).collect();
        let started = Mutex::new(Vec::new());
        let model = |&number: &u64| {
            started.lock().unwrap().push(number % 7);
            Ok(number)
        };
        for threads in [1, 4, 100] {
            started.lock().unwrap().clear();
            let results: Known<Vec<u64>> = each(&jobs, threads, &model).into_iter().collect();
            assert_eq!(results.unwrap(), (0..50).collect::<Vec<_>>());
            if threads == 1 {
                assert!(started.lock().unwrap().is_sorted_by(|a, b| a >= b));
            }
        }
    }
}
