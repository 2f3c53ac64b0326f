//! Threads that advance parts of a world side by side, epoch by epoch.
//!
//! During an epoch parts do not see each other, so the result does not depend on which thread advances which. Each
//! thread has a share. The leader advances its own, and then those with which no thread has begun: on a busy host it
//! waits for no thread that has no core. If several threads are slower than one, the leader works alone for a while
//! ([`Pace`]).

use std::iter;
use std::mem;
use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;
use std::time::Instant;

use super::Cycle;
use super::order::{Order, Turn};
use super::pace::Pace;
use super::worker::Worker;

/// Advances a part up to and including a cycle.
type Advance<T> = fn(&mut T, Cycle);

/// The parts of a thread, and the last cycle of the epoch.
type Epoch<T> = (Vec<T>, Cycle);

/// Parts of a world, in their order, and the threads that advance them.
pub struct Crew<T> {
    /// The parts of each thread, the leader's first.
    shares: Vec<Vec<T>>,
    per_share: usize,
    workers: Vec<Worker<Epoch<T>>>,
    advance: Advance<T>,
    pace: Pace,
    order: Arc<Order>,
}

impl<T: Send + 'static> Crew<T> {
    /// A crew of so many threads, this one among them, or of one for each part if these are fewer.
    pub fn new(parts: Vec<T>, threads: usize, advance: Advance<T>) -> Crew<T> {
        let per_share = parts.len().div_ceil(threads.max(1)).max(1);
        let mut parts = parts.into_iter();
        let mut share = || Some(parts.by_ref().take(per_share).collect::<Vec<T>>());
        let shares: Vec<Vec<T>> =
            iter::from_fn(&mut share).take_while(|share| !share.is_empty()).collect();
        let order = Arc::new(Order::new(shares.len()));
        let turn = |share| Turn { order: Arc::clone(&order), share };
        let worker = |share| {
            let turn = turn(share);
            Worker::new(move |(parts, last): &mut Epoch<T>| {
                let _advanced = turn.order.share(share, *last);
                parts.iter_mut().for_each(|part| advance(part, *last));
            })
        };
        let workers = (1..shares.len()).map(worker).collect();
        Crew { shares, per_share, workers, advance, pace: Pace::default(), order }
    }

    /// Advances all parts up to and including cycle `last`.
    ///
    /// # Panics
    /// If a part panics.
    pub fn advance(&mut self, last: Cycle) {
        if self.workers.is_empty() {
            return self.advance_alone(last);
        }
        let begin = Instant::now();
        if self.pace.is_together() {
            self.advance_together(last);
        } else {
            self.advance_alone(last);
        }
        self.pace.epoch(begin.elapsed());
    }

    /// The place of a part among all.
    pub fn turn(&self, number: usize) -> Turn {
        Turn { order: Arc::clone(&self.order), share: number / self.per_share }
    }

    fn advance_alone(&mut self, last: Cycle) {
        let advance = self.advance;
        self.iter_mut().for_each(|part| advance(part, last));
    }

    fn advance_together(&mut self, last: Cycle) {
        let advance = self.advance;
        let Some((own, others)) = self.shares.split_first_mut() else { return };
        let _epoch = self.order.begin(last);
        for (worker, share) in self.workers.iter().zip(others.iter_mut()) {
            worker.offer((mem::take(share), last));
        }
        let advance_share = |number, share: &mut Vec<T>| {
            let _done = self.order.share(number, last);
            share.iter_mut().for_each(|part| advance(part, last));
        };
        advance_share(0, own);
        for (number, (worker, share)) in (1..).zip(self.workers.iter().zip(others)) {
            if let Some((fresh, _)) = worker.reclaim() {
                *share = fresh;
                advance_share(number, share);
            } else {
                (*share, _) = worker.collect();
            }
        }
    }
}

impl<T> Crew<T> {
    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.shares.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.shares.iter_mut().flatten()
    }

    /// Numbers of all parts, in their order.
    pub fn numbers(&self) -> Range<usize> {
        0..self.shares.iter().map(Vec::len).sum()
    }
}

impl<T> Index<usize> for Crew<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        &self.shares[number / self.per_share][number % self.per_share]
    }
}

impl<T> IndexMut<usize> for Crew<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.shares[number / self.per_share][number % self.per_share]
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::Mutex;

    use super::*;

    /// A part that counts what it was told, in its own words.
    #[derive(Debug, PartialEq)]
    struct Part {
        number: u64,
        sum: u64,
    }

    fn advance(part: &mut Part, last: Cycle) {
        assert_ne!(part.number * last, 7 * 1_000_003, "a part of its own mind");
        part.sum = part.sum.wrapping_mul(31) ^ (part.number + last);
    }

    fn crew(threads: usize) -> Crew<Part> {
        let parts = (0..10).map(|number| Part { number, sum: 0 }).collect();
        Crew::new(parts, threads, advance)
    }

    #[test]
    fn threads_change_nothing() {
        let of = |threads| {
            let mut crew = crew(threads);
            (0..5_000).for_each(|last| crew.advance(last));
            assert_eq!((crew.numbers().end, crew[7].number), (10, 7));
            crew.iter().map(|part| part.sum).collect::<Vec<_>>()
        };
        let one = of(1);
        for threads in [2, 3, 7, 10, 100] {
            assert_eq!(of(threads), one, "{threads} threads");
        }
    }

    /// Epochs and the parts that have written themselves down.
    type Book = Arc<Mutex<Vec<(Cycle, usize)>>>;

    /// A part that writes its number down where all do.
    struct Writer {
        number: usize,
        book: Book,
        turn: Option<Turn>,
    }

    fn write(part: &mut Writer, last: Cycle) {
        part.turn.as_ref().unwrap().wait();
        part.book.lock().unwrap().push((last, part.number));
        assert_ne!((part.number, last), (0, 5_000), "a part of its own mind");
    }

    fn writers(threads: usize, advance: Advance<Writer>) -> (Crew<Writer>, Book) {
        let book = Book::default();
        let part = |number| Writer { number, book: Arc::clone(&book), turn: None };
        let mut crew = Crew::new((0..10).map(part).collect(), threads, advance);
        for number in crew.numbers() {
            let turn = crew.turn(number);
            crew[number].turn = Some(turn);
        }
        (crew, book)
    }

    #[test]
    fn parts_reach_out_in_their_order() {
        let all: Vec<_> =
            (1..5_000).flat_map(|last| (0..10).map(move |part| (last, part))).collect();
        for threads in [1, 2, 3, 10] {
            let (mut crew, book) = writers(threads, write);
            (1..5_000).for_each(|last| crew.advance(last));
            assert!(*book.lock().unwrap() == all, "{threads} threads");
        }
    }

    #[test]
    #[should_panic = "a part of its own mind"]
    fn nobody_waits_for_a_part_that_has_panicked() {
        writers(5, write).0.advance(5_000);
    }

    /// On a busy host the leader panics before all threads have begun, while others wait for those.
    #[test]
    fn threads_end_after_a_panic_that_comes_at_once() {
        for _ in 0..1_000 {
            let (mut crew, _) = writers(5, |part, _| {
                part.turn.as_ref().unwrap().wait();
                if part.number == 0 {
                    // As a panic, but says nothing.
                    panic::resume_unwind(Box::new(()));
                }
            });
            assert!(panic::catch_unwind(AssertUnwindSafe(|| crew.advance(1))).is_err());
        }
    }

    #[test]
    #[should_panic = "a thread that simulates has panicked"]
    fn the_panic_of_a_worker_reaches_the_leader() {
        let mut crew = crew(10);
        let (worker, share) = (&crew.workers[6], &mut crew.shares[7]);
        worker.offer((mem::take(share), 1_000_003));
        worker.collect();
    }
}
