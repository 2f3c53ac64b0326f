//! Well-behaved clients that share the daemons with hostile ones.

use crate::support::{TestRack, eventually};
use rackmem::client::Context;
use rackmem::protocol::Progress;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) const CANARY: u8 = 0xc5;
pub(crate) const CANARY_BYTES: u64 = 5000;

/// Members of a context of which no other process has a descriptor.
pub(crate) struct Bystander {
    contexts: Vec<Context>,
    /// That [`Bystander::work`] has done.
    rounds: AtomicU64,
}

impl Bystander {
    pub(crate) fn new(rack: &TestRack, ctx_id: u16, progress: Progress) -> Bystander {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let contexts = rack.open_all(ctx_id, CANARY_BYTES, progress);
        for context in &contexts {
            context.write_own(0, &[CANARY; CANARY_BYTES as usize]).unwrap();
        }
        Bystander { contexts, rounds: AtomicU64::new(0) }
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.contexts.iter().all(|context| {
            let mut bytes = [0; CANARY_BYTES as usize];
            context.read_own(0, &mut bytes).unwrap();
            bytes.iter().all(|byte| *byte == CANARY)
        })
    }

    /// Waits until the worker has done another round.
    pub(crate) fn wait_at_work(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        eventually("a bystander goes on", || self.rounds.load(Ordering::Relaxed) > before);
    }

    /// Reads and writes between all nodes until told to stop.
    pub(crate) fn work(&self, stop: &AtomicBool) {
        let mut qps: Vec<_> = self.contexts.iter().map(|c| c.queue_pair(8).unwrap()).collect();
        let nodes = qps.len() as u16;
        for round in 0u64.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            for (nid, qp) in (0..).zip(&mut qps) {
                let to = (nid + 1) % nodes;
                let offset = 64 * u64::from(nid);
                let bytes = [round as u8; 100];
                let mut back = [0; 100];
                qp.write(to, offset, &bytes).unwrap();
                qp.read(to, offset, &mut back).unwrap();
                assert_eq!(bytes, back);
                qp.fetch_add(to, 1024, 1).unwrap();
                qp.write(to, offset, &[CANARY; 100]).unwrap();
                let word = u64::from_ne_bytes([CANARY; 8]);
                qp.fetch_add(to, 1024, u64::MAX).unwrap();
                assert_eq!(qp.compare_swap(to, 1024, word, word).unwrap(), word);
            }
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Stops the workers of a scope even if it ends by a panic.
pub(crate) struct StopAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A segment whose last page holds more than the segment, filled with a pattern there.
pub(crate) struct Edge(pub(crate) Context);

impl Edge {
    pub(crate) const BYTES: u64 = 1000;

    pub(crate) fn new(rack: &TestRack, nid: u16, ctx_id: u16) -> Edge {
        let options = rack.options(nid, ctx_id).shared(true).segment_bytes(Self::BYTES);
        let edge = Edge(Context::open(&options).unwrap());
        assert_eq!(edge.0.segment_bytes(), Self::BYTES);
        // SAFETY: the mapping ends at a page boundary.
        unsafe { edge.beyond().write_bytes(CANARY, Self::LEN) };
        edge
    }

    pub(crate) const LEN: usize = 4096 - Self::BYTES as usize;

    pub(crate) fn beyond(&self) -> *mut u8 {
        self.0.segment_data().wrapping_add(Self::BYTES as usize)
    }

    pub(crate) fn is_untouched(&self) -> bool {
        // SAFETY: as in `new`.
        (0..Self::LEN).all(|at| unsafe { self.beyond().add(at).read_volatile() } == CANARY)
    }
}
