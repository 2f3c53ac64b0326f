//! Beats: by them daemons of different hosts notice that one of them is stopped.
//!
//! # Decisions
//!
//! - *A thread of its own beats.* Control may wait seconds for its worker, which may wait for the line locks of a
//!   stopped process; and the end of a large segment keeps it as long. Links must survive both.
//! - *Silence is counted in looks of the listener*, not by a clock. A daemon that was stopped itself, or whose host
//!   was, has not looked meanwhile, and finds first what its peers have sent.
//! - *Workers do not beat*, so those of idle nodes sleep on.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::Control;
use crate::daemon::line::{Line, SecondLine};
use crate::error::{Error, Result};
use crate::protocol::Request;

/// Time between two beats, and between two looks for those of others.
const BEAT: Duration = Duration::from_millis(250);

/// Looks of a daemon at which it has heard nothing of a peer's, after which the link ends: 1.5 to 1.75 s.
const MAX_UNHEARD: u32 = 6;

/// The lines to daemons of other hosts, on which a thread beats as long as this lives.
#[derive(Debug)]
pub(super) struct Beater(Arc<Mutex<Vec<SecondLine>>>);

impl Beater {
    /// # Errors
    /// No thread can be started.
    pub(super) fn start() -> Result<Beater> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let beaten = Arc::downgrade(&lines);
        let thread = std::thread::Builder::new().name("beats".to_owned());
        thread.spawn(move || beat(&beaten)).map_err(|e| Error::io("cannot start a thread", e))?;
        Ok(Beater(lines))
    }

    fn add(&self, line: SecondLine) {
        self.0.lock().expect("no holder panics").push(line);
    }
}

fn beat(lines: &Weak<Mutex<Vec<SecondLine>>>) {
    while let Some(lines) = lines.upgrade() {
        lines.lock().expect("no holder panics").retain(|line| line.send(&Request::Beat));
        drop(lines);
        std::thread::sleep(BEAT);
    }
}

impl Control {
    /// Beats on the line of a link that is up.
    pub(super) fn begin_to_beat(&self, id: u64) {
        if let (Some(far), Some(session)) = (&self.far, self.sessions.get(&id))
            && let Line::Far(line) = &session.line
        {
            far.beater.add(line.second());
        }
    }

    /// Ends the links of peers that are silent, if it is time to look.
    pub(super) fn end_silent(&mut self, now: Instant) {
        let Some(far) = self.far.as_mut().filter(|far| far.next_look <= now) else { return };
        far.next_look = now + BEAT;
        let mut silent = Vec::new();
        for peer in far.peers.values_mut().filter(|peer| peer.is_linked()) {
            let Some(id) = peer.control else { continue };
            if peer.unheard >= MAX_UNHEARD {
                silent.push(id);
            }
            peer.unheard += 1;
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
