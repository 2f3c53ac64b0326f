//! The time at which a core last touched each line of memory, while it executes without timing.

use crate::block::Line;

/// Lines of a chunk, which comes into being when one of them is touched.
const CHUNK: u64 = 1024;

/// Times count touches. They are even or, if the line was written since the trail began, odd; 0 is never.
type Stamp = u64;

/// The latest touch of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Number of the block in physical memory.
    pub line: Line,
    /// Whether it was written since the trail began.
    pub is_written: bool,
}

/// The latest touches of a core.
#[derive(Clone, Debug)]
pub struct Trail {
    chunks: Vec<Option<Box<[Stamp; CHUNK as usize]>>>,
    now: Stamp,
    /// Where the stretch begins; 0 if there is none.
    mark: Stamp,
    /// Lines that were touched in it.
    stretch: Vec<Line>,
}

impl Default for Trail {
    fn default() -> Self {
        Trail { chunks: Vec::new(), now: 2, mark: 0, stretch: Vec::new() }
    }
}

impl Trail {
    /// With these touches, the oldest last; they are a stretch, if there is to be one.
    pub fn of(touches: &[Touch], has_stretch: bool) -> Trail {
        let mut trail = Trail::default();
        if has_stretch {
            trail.begin_stretch();
        }
        for touch in touches.iter().rev() {
            match touch.is_written {
                true => trail.write(touch.line),
                false => trail.read(touch.line),
            }
        }
        trail
    }

    /// Notes that a line was read.
    #[inline(always)]
    pub fn read(&mut self, line: Line) {
        let (now, mark) = (self.now, self.mark);
        let stamp = self.stamp(line);
        let before = std::mem::replace(stamp, now | *stamp & 1);
        self.now = now + 2;
        if before < mark {
            self.stretch.push(line);
        }
    }

    /// Notes that a line was written.
    #[inline(always)]
    pub fn write(&mut self, line: Line) {
        let (now, mark) = (self.now, self.mark);
        let before = std::mem::replace(self.stamp(line), now | 1);
        self.now = now + 2;
        if before < mark {
            self.stretch.push(line);
        }
    }

    #[inline(always)]
    fn stamp(&mut self, line: Line) -> &mut Stamp {
        let (chunk, place) = ((line / CHUNK) as usize, (line % CHUNK) as usize);
        if self.chunks.get(chunk).is_none_or(Option::is_none) {
            self.grow(chunk);
        }
        let chunk = self.chunks[chunk].as_mut().expect("it has just been made");
        &mut chunk[place]
    }

    #[cold]
    fn grow(&mut self, chunk: usize) {
        if chunk >= self.chunks.len() {
            self.chunks.resize(chunk + 1, None);
        }
        self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK as usize]));
    }

    /// Begins a stretch, unless there is one.
    pub fn begin_stretch(&mut self) {
        if self.mark == 0 {
            self.mark = self.now;
        }
    }

    /// The latest touches of the stretch, the oldest last, of so many lines at most; another one begins.
    pub fn end_stretch(&mut self, lines: usize) -> Vec<Touch> {
        let touched = std::mem::take(&mut self.stretch);
        self.mark = self.now;
        latest(touched.into_iter().map(|line| (*self.stamp(line), line)).collect(), lines)
    }

    /// Takes the latest touches, the oldest last, of so many lines at most; the trail is empty then.
    pub fn take(&mut self, lines: usize) -> Vec<Touch> {
        let chunks = (0..).zip(std::mem::take(&mut self.chunks));
        let stamps = chunks.filter_map(|(at, chunk): (u64, _)| Some((at * CHUNK, chunk?)));
        let touches = stamps
            .flat_map(|(first, chunk)| {
                (first..)
                    .zip(*chunk)
                    .filter(|&(_, stamp)| stamp != 0)
                    .map(|(line, stamp)| (stamp, line))
            })
            .collect();
        self.stretch.clear();
        latest(touches, lines)
    }
}

fn latest(mut touches: Vec<(Stamp, Line)>, lines: usize) -> Vec<Touch> {
    touches.sort_unstable_by(|a, b| b.cmp(a));
    touches.truncate(lines);
    let touch = |(stamp, line)| Touch { line, is_written: stamp & 1 == 1 };
    touches.into_iter().map(touch).collect()
}

/// Touches as files have them: each as its difference to the one before, which has few digits for most.
pub mod saved {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Touch;

    pub fn serialize<S: Serializer>(touches: &[Touch], serializer: S) -> Result<S::Ok, S::Error> {
        let mut last = 0;
        serializer.collect_seq(touches.iter().map(|touch| {
            let number = (touch.line << 1 | u64::from(touch.is_written)) as i64;
            number.wrapping_sub(std::mem::replace(&mut last, number))
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Touch>, D::Error> {
        let mut number = 0i64;
        let touch = |step: i64| {
            number = number.wrapping_add(step);
            Touch { line: number as u64 >> 1, is_written: number & 1 == 1 }
        };
        Ok(Vec::<i64>::deserialize(deserializer)?.into_iter().map(touch).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_touches_are_the_last_of_each_line() {
        let mut trail = Trail::default();
        trail.write(7);
        trail.read(9);
        trail.read(5000);
        trail.read(7);
        let touch = |line, is_written| Touch { line, is_written };
        let latest = trail.clone().take(2);
        assert_eq!(latest, [touch(7, true), touch(5000, false)]);
        assert_eq!(trail.take(9), [touch(7, true), touch(5000, false), touch(9, false)]);
        assert_eq!(trail.take(9), []);
    }

    #[test]
    fn a_stretch_has_what_was_touched_in_it() {
        let mut trail = Trail::default();
        trail.read(1);
        assert_eq!(trail.end_stretch(9), []);
        trail.write(1);
        trail.read(2);
        trail.read(3);
        trail.read(2);
        let touch = |line, is_written| Touch { line, is_written };
        assert_eq!(trail.end_stretch(2), [touch(2, false), touch(3, false)]);
        trail.read(1);
        assert_eq!(trail.end_stretch(2), [touch(1, true)]);
    }
}
