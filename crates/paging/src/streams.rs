//! Streams of accesses, by which the next pages are predicted (TSM §2.2, stride prefetcher).
//!
//! Pure: page numbers in, plans out. A stream is known after two faults at neighbouring pages, or after
//! three at equal distances. Each further plan that turns out right doubles the pages of the next one, up to the
//! degree; a stream that goes astray begins anew. One page of each plan is a *trap*: it is kept in the staging area, so
//! touching it costs a cheap fault, by which the stream asks for more before it comes to its end.

/// Streams that are told apart.
const STREAMS: usize = 32;
/// Faults that are at most so many pages apart may belong together.
const REACH_PAGES: u64 = 512;
/// Pages of a stream's first plan.
const FIRST_PAGES: usize = 4;
/// From so many pages on a plan has a trap.
const TRAP_FROM: usize = 8;

/// Pages to bring: `first`, and so on at distance `stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of the first page.
    pub first: u64,
    /// Distance to the next one in pages.
    pub stride: i64,
    /// Pages of the plan; 0: it brings nothing.
    pub count: usize,
    /// Index of the trap; `count` if there is none.
    pub trap: usize,
}

impl Plan {
    /// Nothing.
    pub const NONE: Plan = Plan { first: 0, stride: 1, count: 0, trap: 0 };

    /// Number of the page at an index.
    pub fn page(&self, index: usize) -> u64 {
        self.first.wrapping_add_signed(self.stride.wrapping_mul(index as i64))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Last page that was touched, as far as is known.
    last: u64,
    stride: i64,
    /// Next page that no plan brings yet; the fault that is expected if nothing is fetched ahead.
    next: u64,
    /// Pages of the last plan.
    count: usize,
    /// Value of the streams' `now` when it was used last; 0 if never.
    used: u64,
}

/// The streams of a program. All threads that resolve faults share them, as the faults of one stream may reach several.
#[derive(Debug)]
pub struct Streams {
    streams: [Stream; STREAMS],
    degree: usize,
    now: u64,
}

impl Streams {
    /// Plans bring at most `degree` pages.
    pub fn new(degree: usize) -> Streams {
        Streams { streams: [Stream::default(); STREAMS], degree, now: 0 }
    }

    /// A page was touched that was not there.
    pub fn on_fault(&mut self, page: u64) -> Plan {
        if self.degree == 0 {
            return Plan::NONE;
        }
        self.now += 1;
        if let Some(stream) =
            self.streams.iter_mut().find(|s| s.used != 0 && s.stride != 0 && s.next == page)
        {
            stream.used = self.now;
            return stream.advance(page, self.degree, page.wrapping_add_signed(stream.stride));
        }
        let near =
            |s: &Stream| s.used != 0 && s.last.abs_diff(page) <= REACH_PAGES && s.last != page;
        let Some(stream) =
            self.streams.iter_mut().filter(|s| near(s)).min_by_key(|s| s.last.abs_diff(page))
        else {
            self.begin(page);
            return Plan::NONE;
        };
        stream.used = self.now;
        let stride = page.wrapping_sub(stream.last) as i64;
        stream.last = page;
        stream.stride = stride;
        stream.next = page.wrapping_add_signed(stride);
        stream.count = 0;
        // Neighbours are a stream at once.
        if stride.abs() == 1 { stream.advance(page, self.degree, stream.next) } else { Plan::NONE }
    }

    /// A trap was touched: plans the pages after those that were brought already.
    pub fn on_trap(&mut self, page: u64) -> Plan {
        self.now += 1;
        let is_between = |s: &Stream| {
            let ahead = s.next.wrapping_sub(page) as i64;
            s.used != 0
                && s.stride != 0
                && ahead % s.stride == 0
                && (0..=2 * self.degree as i64).contains(&(ahead / s.stride))
        };
        let Some(stream) = self.streams.iter_mut().find(|s| is_between(s)) else {
            return Plan::NONE;
        };
        stream.used = self.now;
        stream.advance(page, self.degree, stream.next)
    }

    /// Only the first `count` pages of a plan could be brought.
    pub fn cut(&mut self, plan: Plan, count: usize) {
        let end = plan.page(plan.count);
        if let Some(stream) = self.streams.iter_mut().find(|s| s.used != 0 && s.next == end) {
            stream.next = plan.page(count);
        }
    }

    fn begin(&mut self, page: u64) {
        let oldest = self.streams.iter_mut().min_by_key(|s| s.used).expect("there are streams");
        *oldest = Stream { last: page, stride: 0, next: page, count: 0, used: self.now };
    }
}

impl Stream {
    /// Moves the stream to `page`; plans the pages that it will touch, from `first` on.
    fn advance(&mut self, page: u64, degree: usize, first: u64) -> Plan {
        self.last = page;
        self.count = (self.count * 2).clamp(FIRST_PAGES.min(degree), degree);
        self.next = first.wrapping_add_signed(self.stride.wrapping_mul(self.count as i64));
        let trap = if self.count >= TRAP_FROM { self.count / 2 } else { self.count };
        Plan { first, stride: self.stride, count: self.count, trap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_a_stream_that_earns_more() {
        let mut streams = Streams::new(16);
        assert_eq!(streams.on_fault(100), Plan::NONE);
        assert_eq!(streams.on_fault(101), Plan { first: 102, stride: 1, count: 4, trap: 4 });
        assert_eq!(streams.on_fault(106), Plan { first: 107, stride: 1, count: 8, trap: 4 });
        assert_eq!(streams.on_trap(111), Plan { first: 115, stride: 1, count: 16, trap: 8 });
        assert_eq!(streams.on_trap(123), Plan { first: 131, stride: 1, count: 16, trap: 8 });
    }

    #[test]
    fn strides_need_three_faults_and_may_go_down() {
        let mut streams = Streams::new(32);
        for (page, count) in [(1000, 0), (997, 0), (994, 4)] {
            assert_eq!(streams.on_fault(page).count, count, "{page}");
        }
        let plan = streams.on_fault(994 - 5 * 3);
        assert_eq!((plan.page(0), plan.page(1), plan.count), (976, 973, 8));
    }

    #[test]
    fn several_streams_do_not_disturb_each_other() {
        let mut streams = Streams::new(8);
        let at = |stream: u64, step: u64| stream * 100_000 + step;
        for stream in 0..8 {
            assert_eq!(streams.on_fault(at(stream, 0)).count, 0);
        }
        for stream in 0..8 {
            assert_eq!(streams.on_fault(at(stream, 1)).count, 4);
        }
        for stream in 0..8 {
            assert_eq!(streams.on_fault(at(stream, 6)).count, 8);
        }
    }

    #[test]
    fn random_pages_bring_nothing() {
        let mut streams = Streams::new(32);
        let mut seed = 1u64;
        let planned: usize = (0..10_000)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                streams.on_fault(seed >> 40).count
            })
            .sum();
        assert!(planned < 100, "{planned} pages of 10000 random faults were brought ahead");
        assert_eq!(Streams::new(0).on_fault(1), Plan::NONE);
    }
}
