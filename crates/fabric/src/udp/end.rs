//! One end of a link: virtual channels over a wire, driven by a caller that knows the time.

use std::io;
use std::time::Duration;

use rackmem_rmc::link::{Ack, Header, Kind, wire};

use super::channel::Channel;
use super::wire::Wire;
use crate::error::{Error, Result};

/// Virtual channels of a link. Lower numbers go first.
pub const CHANNELS: usize = 2;

/// Session and channel, in front of every payload: the CRC covers them.
const PREFIX_BYTES: usize = 5;

/// Datagrams that one call of [`LinkEnd::poll`] takes, so that it also gets to send.
const MAX_DATAGRAMS_A_POLL: usize = 256;

/// Number of no channel: the frame says that the link has ended.
const BYE: u8 = u8::MAX;

/// Sizes and times of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Frames of a channel that may be under way, and that the peer has room for; a power of two up
    /// to [`rackmem_rmc::link::MAX_WINDOW`].
    pub window: u32,
    /// A peer that is silent for so long is lost.
    pub dead_after: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { window: 256, dead_after: Duration::from_secs(3) }
    }
}

impl Settings {
    /// Interval of keep-alives of an end that sends nothing else.
    fn heartbeat(&self) -> Duration {
        self.dead_after / 4
    }

    /// A peer that is silent for so long has missed a heartbeat, or it was lost.
    fn patience(&self) -> Duration {
        self.dead_after / 8 * 3
    }

    /// From then on it is asked as often: on a bad wire, a few heartbeats in a row get lost.
    fn probe_interval(&self) -> Duration {
        self.dead_after / 32
    }
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Frames that were sent more than once.
    pub resent: u64,
    /// Datagrams that arrived in order.
    pub received: u64,
    /// Datagrams that were no frames of this link.
    pub damaged: u64,
    /// Datagrams that were dropped unseen, for the peer had not sealed them: forged, or damaged over UDP.
    pub forged: u64,
}

/// One end of a link over any wire.
///
/// It does nothing by itself: [`LinkEnd::poll`] takes datagrams that have arrived and sends those that may be sent. It
/// is to be called when something was pushed or consumed, when the wire has something, and at [`LinkEnd::due`].
#[derive(Debug)]
pub struct LinkEnd<F> {
    wire: F,
    peer: String,
    session: u32,
    channels: [Channel; CHANNELS],
    settings: Settings,
    last_heard: Duration,
    last_sent: Duration,
    /// Time of the next probe of the peer, unless it is heard before.
    next_probe: Duration,
    is_closed: bool,
    failure: Option<String>,
    buffer: Box<[u8]>,
    stats: Stats,
}

fn prefix(session: u32, channel: u8) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = session.to_le_bytes();
    [a, b, c, d, channel]
}

impl<F: Wire> LinkEnd<F> {
    /// An end of session `session`, which both ends have to agree on. `peer` names the other end in
    /// errors.
    ///
    /// # Panics
    /// The window is no power of two, or the wire carries less than a frame.
    pub fn new(wire: F, peer: String, session: u32, settings: Settings, now: Duration) -> Self {
        let payload_bytes = Self::payload_bytes(&wire);
        let channel = |number: usize| {
            Channel::new(settings.window, payload_bytes, &prefix(session, number as u8))
        };
        let buffer = vec![0; wire.max_bytes()].into_boxed_slice();
        LinkEnd {
            peer,
            session,
            channels: std::array::from_fn(channel),
            settings,
            last_heard: now,
            last_sent: now,
            next_probe: now + settings.patience(),
            is_closed: false,
            failure: None,
            buffer,
            stats: Stats::default(),
            wire,
        }
    }

    /// Most bytes of one message over this wire.
    fn payload_bytes(wire: &F) -> usize {
        let most = wire.max_bytes().min(wire::MAX_PAYLOAD_BYTES);
        let payload = most.checked_sub(wire::OVERHEAD_BYTES + PREFIX_BYTES);
        payload.filter(|&bytes| bytes > 0).expect("the wire carries at least a frame")
    }

    /// Most bytes of one message.
    pub fn max_message_bytes(&self) -> usize {
        Self::payload_bytes(&self.wire)
    }

    /// Hands over a message for a channel; `false` if its window is full.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    ///
    /// # Panics
    /// The message is longer than [`LinkEnd::max_message_bytes`].
    pub fn push(&mut self, channel: usize, message: &[u8]) -> Result<bool> {
        self.check()?;
        assert!(message.len() <= self.max_message_bytes(), "a message fits into a frame");
        Ok(self.channels[channel].push(message))
    }

    /// Whether [`LinkEnd::push`] would take a message.
    pub fn has_room(&self, channel: usize) -> bool {
        self.channels[channel].has_room()
    }

    /// The oldest message of a channel that was not consumed.
    pub fn front(&self, channel: usize) -> Option<&[u8]> {
        self.channels[channel].front()
    }

    /// Gives up the oldest message of a channel, which makes room for another one.
    ///
    /// # Panics
    /// There is none.
    pub fn consume(&mut self, channel: usize) {
        self.channels[channel].consume();
    }

    /// Whether the peer has all that was pushed.
    pub fn is_drained(&self) -> bool {
        self.channels.iter().all(Channel::is_drained)
    }

    /// Takes arrived datagrams, and sends what may be sent. Returns whether anything arrived.
    ///
    /// # Errors
    /// [`Error::PeerLost`]: the peer is silent, gone, or has closed the link. Messages that had arrived
    /// can still be consumed.
    pub fn poll(&mut self, now: Duration) -> Result<bool> {
        self.check()?;
        let exchanged = self.exchange(now);
        if let Err(error) = &exchanged {
            self.fail(error);
            // Messages that had arrived before can still be received.
            let _ = self.take_all(now);
        }
        self.check().map(|()| matches!(exchanged, Ok(true)))
    }

    fn fail(&mut self, error: &io::Error) {
        self.failure = Some(match error.kind() {
            io::ErrorKind::ConnectionRefused => "nobody listens there any more".to_owned(),
            _ => error.to_string(),
        });
    }

    fn exchange(&mut self, now: Duration) -> io::Result<bool> {
        let any = self.take_all(now)?;
        if now.saturating_sub(self.last_heard) > self.settings.dead_after {
            let seconds = self.settings.dead_after.as_secs_f64();
            self.failure = Some(format!("nothing was heard of it for {seconds} s"));
            return Ok(any);
        }
        if now >= self.last_sent + self.settings.heartbeat() {
            self.channels[0].greet();
        }
        if now >= self.next_probe {
            self.next_probe = now + self.settings.probe_interval();
            self.channels[0].probe();
        }
        for channel in &mut self.channels {
            channel.tick(now);
        }
        self.send_all(now)?;
        for channel in &mut self.channels {
            // Frames that are in flight now are to be acknowledged in time.
            channel.tick(now);
        }
        Ok(any)
    }

    fn take_all(&mut self, now: Duration) -> io::Result<bool> {
        for taken in 0..MAX_DATAGRAMS_A_POLL {
            let Some(length) = self.wire.receive(&mut self.buffer, now)? else {
                return Ok(taken > 0);
            };
            self.take(length, now);
        }
        Ok(true)
    }

    fn take(&mut self, length: usize, now: Duration) {
        let datagram = &self.buffer[..length];
        let Ok((header, payload)) = wire::decode(datagram) else {
            self.stats.damaged += 1;
            self.channels.iter_mut().for_each(Channel::damaged);
            return;
        };
        let Some((head, payload)) = payload.split_first_chunk::<PREFIX_BYTES>() else { return };
        let number = head[PREFIX_BYTES - 1];
        let is_ours = *head == prefix(self.session, number);
        self.is_closed |= is_ours && number == BYE;
        let Some(channel) = self.channels.get_mut(usize::from(number)) else { return };
        if !is_ours || payload.len() > Self::payload_bytes(&self.wire) {
            return;
        }
        self.stats.received += 1;
        self.last_heard = now;
        self.next_probe = now + self.settings.patience();
        channel.receive(&header, payload, now);
    }

    fn send_all(&mut self, now: Duration) -> io::Result<()> {
        // After each frame the first channel is asked again: what is urgent waits for one frame at most.
        while let Some(length) = self.next_frame(now) {
            self.stats.sent += 1;
            self.last_sent = now;
            self.wire.send(&self.buffer[..length], now)?;
        }
        self.wire.flush(now)
    }

    fn next_frame(&mut self, now: Duration) -> Option<usize> {
        let LinkEnd { channels, buffer, .. } = self;
        channels.iter_mut().find_map(|channel| channel.take_frame(buffer, now))
    }

    /// Takes the peer for one that was heard of now: the caller knows why it is silent.
    pub fn excuse(&mut self, now: Duration) {
        self.last_heard = now;
    }

    /// Time at which [`LinkEnd::poll`] has something to do although nothing arrives.
    pub fn due(&self) -> Duration {
        if self.channels.iter().any(Channel::is_ready) {
            return Duration::ZERO;
        }
        let silent = self.last_heard + self.settings.dead_after;
        let heartbeat = self.last_sent + self.settings.heartbeat();
        let mut due = silent.min(heartbeat).min(self.next_probe);
        for other in self.channels.iter().map(Channel::due).chain([self.wire.due()]) {
            due = due.min(other.unwrap_or(due));
        }
        due
    }

    /// Tells the peer that nothing more comes. Messages that it does not have by now never arrive.
    pub fn close(&mut self, now: Duration) {
        let none = Ack { expected: 0, limit: 0, again: false };
        let header = Header { kind: Kind::Ack, sequence: 0, ack: none };
        let length = wire::encode(&header, &prefix(self.session, BYE), &mut self.buffer);
        // Twice, since nobody will ask for it; a peer that gets neither notices the silence.
        for _ in 0..2 {
            let _ = self.wire.send(&self.buffer[..length], now);
        }
        let _ = self.wire.flush(now);
        self.is_closed = true;
    }

    /// Counters since the link was made.
    pub fn stats(&self) -> Stats {
        let resent = self.channels.iter().map(|channel| channel.resent).sum();
        Stats { resent, forged: self.wire.forged(), ..self.stats }
    }

    /// The wire below.
    pub fn wire(&self) -> &F {
        &self.wire
    }

    /// Name of the peer.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    fn check(&self) -> Result<()> {
        let reason = match &self.failure {
            Some(reason) => reason.clone(),
            None if self.is_closed => "the link was closed".to_owned(),
            None => return Ok(()),
        };
        Err(Error::PeerLost { peer: self.peer.clone(), reason })
    }
}
