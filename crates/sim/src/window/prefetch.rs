//! A stride prefetcher with two degrees: one for local memory, one for borrowed memory, which it tells
//! by address (TSM §3.1, TS-13).
//!
//! It sees all accesses to its cache, hits to lines that it has brought among them, so that a stream
//! once found is followed without a miss. The cache knows no program counters, so streams are told
//! apart by where they are.

/// An access belongs to a stream if it is at most so many lines from its latest one.
pub const REACH_LINES: u64 = 32;

#[derive(Clone, Copy, Debug)]
struct Stream {
    last: u64,
    stride: i64,
    /// The stride has been seen twice.
    is_sure: bool,
    used_at: u64,
}

/// Finds streams of equal strides among the accesses to a cache.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    streams: Vec<Stream>,
    capacity: usize,
    degrees: [u32; 2],
    accesses: u64,
}

impl Prefetcher {
    /// For so many streams at a time, with degrees for local and for borrowed memory.
    pub fn new(streams: usize, local_degree: u32, remote_degree: u32) -> Prefetcher {
        Prefetcher {
            streams: Vec::with_capacity(streams),
            capacity: streams,
            degrees: [local_degree, remote_degree],
            accesses: 0,
        }
    }

    /// An access to a line: the stride and the number of lines to fetch ahead of it, if any.
    pub fn access(&mut self, line: u64, is_remote: bool) -> Option<(i64, u32)> {
        self.accesses += 1;
        let near = |stream: &&mut Stream| stream.last.abs_diff(line) <= REACH_LINES;
        let nearest = self.streams.iter_mut().filter(near).min_by_key(|s| s.last.abs_diff(line));
        let Some(stream) = nearest else {
            self.begin(line);
            return None;
        };
        stream.used_at = self.accesses;
        let stride = line.wrapping_sub(stream.last) as i64;
        if stride == 0 {
            return None;
        }
        stream.is_sure = stream.stride == stride;
        stream.stride = stride;
        stream.last = line;
        let degree = self.degrees[usize::from(is_remote)];
        (stream.is_sure && degree > 0).then_some((stride, degree))
    }

    /// A stream that begins takes the place of the one that was used least recently.
    fn begin(&mut self, line: u64) {
        let new = Stream { last: line, stride: 0, is_sure: false, used_at: self.accesses };
        if self.streams.len() < self.capacity {
            return self.streams.push(new);
        }
        if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used_at) {
            *oldest = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_that_repeats_itself_is_followed_with_the_degree_of_its_memory() {
        for (is_remote, degree) in [(false, 2), (true, 5)] {
            let mut prefetcher = Prefetcher::new(4, 2, 5);
            for (at, line) in [100, 103, 106, 109].into_iter().enumerate() {
                let expected = (at >= 2).then_some((3, degree));
                assert_eq!(prefetcher.access(line, is_remote), expected, "{line}");
            }
            assert_eq!(prefetcher.access(108, is_remote), None);
            assert_eq!(prefetcher.access(107, is_remote), Some((-1, degree)));
        }
    }

    #[test]
    fn streams_do_not_disturb_each_other_until_there_are_too_many() {
        let mut prefetcher = Prefetcher::new(2, 1, 1);
        for step in 0..6 {
            for base in [1000, 2000] {
                let found = prefetcher.access(base + step, false);
                assert_eq!(found.is_some(), step >= 2, "{base} {step}");
            }
        }
        prefetcher.access(3000, false);
        // The first one was used least recently.
        assert_eq!(prefetcher.access(1006, false), None);
        assert_eq!(prefetcher.access(1007, false), None);
        assert_eq!(prefetcher.access(1008, false), Some((1, 1)));
    }

    #[test]
    fn without_a_degree_nothing_is_fetched() {
        let mut prefetcher = Prefetcher::new(2, 0, 3);
        assert!((0..9).all(|line| prefetcher.access(line, false).is_none()));
        assert!(prefetcher.access(9, true).is_some());
    }
}
