//! Beats: by them daemons of different hosts notice that one of them is stopped.
//!
//! # Decisions
//!
//! - *Silence is counted in beats of the listener*, not by a clock. A daemon that was stopped itself, or whose host
//!   was, has not beaten meanwhile, and finds first what its peers have sent.
//! - *The control threads beat*, so the workers of idle nodes sleep on. Control may wait for its worker, and the
//!   worker a second for the line lock of a stopped process: such a pause is shorter than [`MAX_UNHEARD`] beats.

use std::time::{Duration, Instant};

use super::{Control, peers};
use crate::protocol::Request;

/// Time between two beats.
pub(super) const BEAT: Duration = Duration::from_millis(250);

/// Beats of a daemon in which it hears nothing of a peer's, after which the link ends: 1.5 to 1.75 s.
pub(super) const MAX_UNHEARD: u32 = 6;

impl Control {
    /// Beats if it is time to, and ends the links of peers that are silent.
    pub(super) fn beat(&mut self, now: Instant) {
        let Some(far) = self.far.as_mut().filter(|far| far.next_beat <= now) else { return };
        far.next_beat = now + BEAT;
        let mut silent = Vec::new();
        for peer in far.peers.values_mut().filter(|peer| peer.is_linked()) {
            let Some(id) = peer.control else { continue };
            if peer.unheard >= MAX_UNHEARD {
                silent.push(id);
            } else if let Some(session) = self.sessions.get_mut(&id) {
                peer.unheard += 1;
                peers::tell(session, &Request::Beat, &[]);
            }
        }
        for id in silent {
            self.end_because(id, "its daemon is silent: it is stopped, or kept from its core");
        }
    }

    /// A peer has said something.
    pub(super) fn hear_beat(&mut self, nid: u16) {
        if let Some(peer) = self.far.as_mut().and_then(|far| far.peers.get_mut(&nid)) {
            peer.unheard = 0;
        }
    }
}
