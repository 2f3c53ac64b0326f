//! The bursts of a bulk copy by Thunder's RDMA channel (TSM §4.2): which one is read next, how many are under way, and
//! when all has been moved.
//!
//! It knows of no time and of no addresses: its owner reads and writes, and reports what is done.

use crate::machine::spec::QpairSpec;

/// A burst of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Its first byte, from the begin of the copy.
    pub at: u64,
    /// Length; the last burst of a copy may be shorter than the others.
    pub bytes: u32,
}

/// A copy under way.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    burst_bytes: u32,
    most: u32,
    bytes: u64,
    asked: u64,
    under_way: u32,
    moved: u64,
}

impl Bursts {
    /// A copy of so many bytes.
    pub const fn new(spec: &QpairSpec, bytes: u64) -> Bursts {
        let QpairSpec { burst_bytes, bursts: most, .. } = *spec;
        Bursts { burst_bytes, most, bytes, asked: 0, under_way: 0, moved: 0 }
    }

    /// The next burst, if one is left and as many as may be under way are not.
    pub fn peek(&self) -> Option<Burst> {
        let left = self.bytes - self.asked;
        let bytes = left.min(self.burst_bytes.into()) as u32;
        (left > 0 && self.under_way < self.most).then_some(Burst { at: self.asked, bytes })
    }

    /// Takes the next burst: it is under way from now on.
    pub fn ask(&mut self) -> Option<Burst> {
        let burst = self.peek()?;
        self.asked += u64::from(burst.bytes);
        self.under_way += 1;
        Some(burst)
    }

    /// A burst has left the channel's buffer: another one may be under way.
    pub fn leave(&mut self) {
        self.under_way -= 1;
    }

    /// A burst of so many bytes is where it goes; whether all of the copy is.
    pub fn moved(&mut self, bytes: u32) -> bool {
        self.moved += u64::from(bytes);
        self.moved == self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_read_in_order_with_a_bounded_number_under_way() {
        let spec = QpairSpec { burst_bytes: 128, bursts: 2, ..QpairSpec::default() };
        let mut bursts = Bursts::new(&spec, 300);
        assert_eq!(bursts.ask(), Some(Burst { at: 0, bytes: 128 }));
        assert_eq!(bursts.ask(), Some(Burst { at: 128, bytes: 128 }));
        assert_eq!(bursts.ask(), None, "two are under way");
        bursts.leave();
        assert_eq!(bursts.peek(), Some(Burst { at: 256, bytes: 44 }));
        assert!(!bursts.moved(128));
        assert_eq!(bursts.ask(), Some(Burst { at: 256, bytes: 44 }));
        bursts.leave();
        assert_eq!(bursts.ask(), None, "none is left");
        assert!(!bursts.moved(44) && bursts.moved(128));
    }
}
