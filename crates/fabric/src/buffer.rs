//! Bytes that have come and were not taken.

/// Received bytes: they are taken at the front, and come at the end.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    first: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer that has this much room from the start.
    pub fn with_room(room: usize) -> Buffer {
        Buffer { bytes: vec![0; room], first: 0, end: 0 }
    }

    /// Bytes that were not taken.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.first..self.end]
    }

    /// Number of these bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// Whether all bytes were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the first bytes.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        self.first += bytes;
        debug_assert!(self.first <= self.end, "only what has come is taken");
        if self.first == self.end {
            self.clear();
        }
    }

    /// Moves as many bytes as there are into `into`; returns their number.
    #[inline]
    pub fn give(&mut self, into: &mut [u8]) -> usize {
        let n = self.len().min(into.len());
        into[..n].copy_from_slice(&self.bytes()[..n]);
        self.take(n);
        n
    }

    /// Room behind the bytes, for `wanted` more at least.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < wanted {
            self.make_room(wanted);
        }
        &mut self.bytes[self.end..]
    }

    fn make_room(&mut self, wanted: usize) {
        let kept = self.len();
        if self.bytes.len() < kept + wanted {
            // Zeros that the kernel gives, and that take no memory until they are used.
            let mut bytes = vec![0; (kept + wanted).max(2 * self.bytes.len())];
            bytes[..kept].copy_from_slice(self.bytes());
            self.bytes = bytes;
        } else {
            self.bytes.copy_within(self.first..self.end, 0);
        }
        (self.first, self.end) = (0, kept);
    }

    /// So many bytes have come into the room.
    #[inline]
    pub fn filled(&mut self, bytes: usize) {
        self.end += bytes;
        debug_assert!(self.end <= self.bytes.len(), "bytes come into the room");
    }

    /// Adds bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Forgets all bytes.
    #[inline]
    pub fn clear(&mut self) {
        (self.first, self.end) = (0, 0);
    }
}
