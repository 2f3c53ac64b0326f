//! A set-associative array of lines, least recently used first to go.

use super::Line;

/// No line has this number.
const EMPTY: Line = Line::MAX;

/// Nor this: the entry is not for lines of memory.
const LOCKED: Line = Line::MAX - 1;

/// Lines with a value for each.
#[derive(Clone, Debug)]
pub struct Tags<T> {
    lines: Vec<Line>,
    /// Time of a way's last use; per set, larger is later.
    used: Vec<u32>,
    values: Vec<T>,
    ways: usize,
    sets: u64,
    clock: u32,
}

impl<T> Tags<T> {
    /// Memory of the host that an entry takes.
    pub const ENTRY_BYTES: f64 = (size_of::<Line>() + size_of::<u32>() + size_of::<T>()) as f64;
}

impl<T: Clone + Default> Tags<T> {
    /// An empty array.
    ///
    /// # Panics
    /// Unless the number of sets is a power of two.
    pub fn new(sets: u64, ways: u32) -> Self {
        assert!(sets.is_power_of_two(), "{sets} sets are not a power of two");
        let entries = sets as usize * ways as usize;
        Self {
            lines: vec![EMPTY; entries],
            used: vec![0; entries],
            values: vec![T::default(); entries],
            ways: ways as usize,
            sets,
            clock: 0,
        }
    }

    pub fn ways(&self) -> u32 {
        self.ways as u32
    }

    /// Lines that it can hold.
    pub fn capacity(&self) -> usize {
        self.lines.len()
    }

    /// The entry of a line, if it is there. `index` chooses the set; it is the line's number or, in a bank,
    /// its number within the bank.
    #[inline]
    pub fn find(&self, index: u64, line: Line) -> Option<usize> {
        let start = self.set(index);
        let set = &self.lines[start..start + self.ways];
        set.iter().position(|&there| there == line).map(|way| start + way)
    }

    /// Notes a use of the entry.
    #[inline]
    pub fn touch(&mut self, entry: usize) {
        self.clock = self.clock.wrapping_add(1);
        self.used[entry] = self.clock;
    }

    /// The entry that a new line would take: an empty one or, among those that `may_go`, the least
    /// recently used one.
    #[inline]
    pub fn victim(&self, index: u64, may_go: impl Fn(Line, &T) -> bool) -> Option<usize> {
        let start = self.set(index);
        let mut best = None;
        for entry in start..start + self.ways {
            match self.lines[entry] {
                EMPTY => return Some(entry),
                LOCKED => continue,
                _ => {}
            }
            let age = self.clock.wrapping_sub(self.used[entry]);
            if best.is_none_or(|(oldest, _)| age > oldest)
                && may_go(self.lines[entry], &self.values[entry])
            {
                best = Some((age, entry));
            }
        }
        best.map(|(_, entry)| entry)
    }

    /// The line in an entry.
    #[inline]
    pub fn line(&self, entry: usize) -> Option<Line> {
        Some(self.lines[entry]).filter(|&line| line < LOCKED)
    }

    /// Takes an empty entry out of use: no line is found there, and none is put there.
    pub fn lock(&mut self, entry: usize) {
        debug_assert_eq!(self.lines[entry], EMPTY, "a line would be lost");
        self.lines[entry] = LOCKED;
    }

    /// Makes a locked entry an empty one.
    pub fn unlock(&mut self, entry: usize) {
        debug_assert_eq!(self.lines[entry], LOCKED);
        self.lines[entry] = EMPTY;
    }

    /// Entries of an entry's set that are in use or may be.
    pub fn unlocked_ways(&self, entry: usize) -> usize {
        let start = entry / self.ways * self.ways;
        self.lines[start..start + self.ways].iter().filter(|&&line| line != LOCKED).count()
    }

    /// The entry of a way of a set.
    pub fn entry(&self, set: u64, way: u32) -> usize {
        self.set(set) + way as usize
    }

    /// Puts a line into an entry.
    #[inline]
    pub fn fill(&mut self, entry: usize, line: Line, value: T) {
        self.lines[entry] = line;
        self.values[entry] = value;
        self.touch(entry);
    }

    /// Makes an entry empty, with the default value.
    #[inline]
    pub fn clear(&mut self, entry: usize) {
        self.lines[entry] = EMPTY;
        self.values[entry] = T::default();
    }

    /// The value of the line in an entry.
    #[inline]
    pub fn value(&self, entry: usize) -> &T {
        &self.values[entry]
    }

    /// The same, to change.
    #[inline]
    pub fn value_mut(&mut self, entry: usize) -> &mut T {
        &mut self.values[entry]
    }

    #[inline]
    fn set(&self, index: u64) -> usize {
        (index & (self.sets - 1)) as usize * self.ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut tags: Tags<bool> = Tags::new(2, 2);
        for line in [0, 2] {
            let entry = tags.victim(line, |_, _| true).unwrap();
            tags.fill(entry, line, false);
        }
        tags.touch(tags.find(0, 0).unwrap());
        let entry = tags.victim(4, |_, _| true).unwrap();
        assert_eq!(tags.line(entry), Some(2));
        assert_eq!(tags.line(tags.victim(4, |line, _| line != 2).unwrap()), Some(0));
        assert_eq!(tags.victim(4, |_, _| false), None);
        // The other set is empty.
        assert_eq!(tags.line(tags.victim(1, |_, _| false).unwrap()), None);
    }
}
