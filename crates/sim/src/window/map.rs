//! The address mapping table: nodes and addresses behind the window (TSM §2.1, §4.2).

/// A range of the window that has been borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its first physical address.
    pub base: u64,
    /// Length; an entry has at least one byte.
    pub bytes: u64,
    /// Number of the node whose memory it is.
    pub node: u16,
    /// First physical address there.
    pub remote_base: u64,
}

/// The place that an address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Number of the node whose memory it is.
    pub node: u16,
    /// Physical address at that node.
    pub address: u64,
}

/// Reasons why an entry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// All entries are in use.
    Full,
    /// It has no bytes, or ends beyond all addresses.
    Empty,
    /// It has addresses of another entry.
    Overlap,
}

/// A table with a fixed number of entries, which do not overlap.
#[derive(Clone, Debug)]
pub struct AddressMap {
    entries: Vec<Option<Entry>>,
}

impl AddressMap {
    /// A table of so many entries, none of which is valid.
    pub fn new(capacity: usize) -> AddressMap {
        AddressMap { entries: vec![None; capacity] }
    }

    /// Makes an entry valid; its number.
    ///
    /// # Errors
    /// [`MapError`], and nothing has changed.
    pub fn insert(&mut self, entry: Entry) -> Result<usize, MapError> {
        let end = entry.base.checked_add(entry.bytes).filter(|_| entry.bytes > 0);
        let end = end.ok_or(MapError::Empty)?;
        entry.remote_base.checked_add(entry.bytes).ok_or(MapError::Empty)?;
        let overlaps = |other: &Entry| entry.base < other.base + other.bytes && other.base < end;
        if self.entries.iter().flatten().any(overlaps) {
            return Err(MapError::Overlap);
        }
        let free = self.entries.iter().position(Option::is_none).ok_or(MapError::Full)?;
        self.entries[free] = Some(entry);
        Ok(free)
    }

    /// Takes an entry's validity away, and gives it back.
    pub fn remove(&mut self, number: usize) -> Option<Entry> {
        self.entries.get_mut(number)?.take()
    }

    /// The place of `bytes` bytes from an address on, all in one entry. Nothing else leaves the node.
    #[inline]
    pub fn find(&self, address: u64, bytes: u64) -> Option<Target> {
        let has = |entry: &&Entry| {
            address >= entry.base
                && address - entry.base < entry.bytes
                && bytes <= entry.bytes - (address - entry.base)
        };
        let entry = self.entries.iter().flatten().find(has)?;
        Some(Target { node: entry.node, address: entry.remote_base + (address - entry.base) })
    }
}
