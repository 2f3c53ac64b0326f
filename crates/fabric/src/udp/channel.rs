//! One virtual channel: a port of the link protocol with the payloads and the timer that it needs.

use std::time::Duration;

use rackmem_rmc::link::{Header, Kind, Port, Verdict, wire};

/// Timeout of an acknowledgement before any round trip was measured.
const FIRST_TIMEOUT: Duration = Duration::from_millis(50);
/// Bounds of the timeout: a shorter one would measure the scheduler of a busy host.
const MIN_TIMEOUT: Duration = Duration::from_millis(2);
const MAX_TIMEOUT: Duration = Duration::from_millis(400);
/// Most doublings of the timeout while nothing comes.
const MAX_DOUBLINGS: u32 = 6;

/// Payloads in places of one size.
#[derive(Debug)]
struct Places {
    bytes: Box<[u8]>,
    lengths: Box<[u16]>,
    place_bytes: usize,
}

impl Places {
    fn new(count: u32, place_bytes: usize) -> Places {
        let count = count as usize;
        Places {
            bytes: vec![0; count * place_bytes].into_boxed_slice(),
            lengths: vec![0; count].into_boxed_slice(),
            place_bytes,
        }
    }

    fn put(&mut self, place: usize, parts: [&[u8]; 2]) {
        let bytes = &mut self.bytes[place * self.place_bytes..][..self.place_bytes];
        let (head, tail) = bytes.split_at_mut(parts[0].len());
        head.copy_from_slice(parts[0]);
        tail[..parts[1].len()].copy_from_slice(parts[1]);
        self.lengths[place] = (parts[0].len() + parts[1].len()) as u16;
    }

    fn get(&self, place: usize) -> &[u8] {
        &self.bytes[place * self.place_bytes..][..usize::from(self.lengths[place])]
    }
}

/// Timer of retries: a round trip's time, smoothed, and doubled while nothing comes.
#[derive(Debug)]
struct Timer {
    round_trip: Option<Duration>,
    variation: Duration,
    doublings: u32,
    deadline: Option<Duration>,
    /// A frame that was sent once, and when: its acknowledgement measures a round trip.
    sample: Option<(u32, Duration)>,
}

impl Timer {
    fn patience(&self) -> Duration {
        let once = match self.round_trip {
            Some(time) => (time + 4 * self.variation).clamp(MIN_TIMEOUT, MAX_TIMEOUT),
            None => FIRST_TIMEOUT,
        };
        (once * 2u32.pow(self.doublings)).min(MAX_TIMEOUT)
    }

    fn measured(&mut self, time: Duration) {
        match self.round_trip {
            None => (self.round_trip, self.variation) = (Some(time), time / 2),
            Some(mean) => {
                self.variation = (3 * self.variation + mean.abs_diff(time)) / 4;
                self.round_trip = Some((7 * mean + time) / 8);
            }
        }
    }
}

/// One virtual channel of one end.
#[derive(Debug)]
pub(super) struct Channel {
    port: Port,
    prefix: Box<[u8]>,
    outgoing: Places,
    incoming: Places,
    /// Accepted payloads: the place of the oldest, and their number.
    first: usize,
    waiting: usize,
    timer: Timer,
    /// The first frame that was never sent.
    fresh: u32,
    /// Frames that were sent again.
    pub(super) resent: u64,
}

impl Channel {
    /// A channel whose payloads of up to `payload_bytes` all begin with `prefix`.
    pub(super) fn new(window: u32, payload_bytes: usize, prefix: &[u8]) -> Channel {
        let timer = Timer {
            round_trip: None,
            variation: Duration::ZERO,
            doublings: 0,
            deadline: None,
            sample: None,
        };
        Channel {
            port: Port::new(window, window),
            prefix: prefix.into(),
            outgoing: Places::new(window, prefix.len() + payload_bytes),
            incoming: Places::new(window, payload_bytes),
            first: 0,
            waiting: 0,
            timer,
            fresh: 0,
            resent: 0,
        }
    }

    /// Puts a payload into the window, unless it is full.
    pub(super) fn push(&mut self, payload: &[u8]) -> bool {
        let Some(sequence) = self.port.push() else { return false };
        self.outgoing.put(self.port.sender.place(sequence), [&self.prefix, payload]);
        true
    }

    pub(super) fn has_room(&self) -> bool {
        !self.port.sender.is_full()
    }

    /// Whether the peer has everything.
    pub(super) fn is_drained(&self) -> bool {
        self.port.sender.kept() == 0
    }

    /// The oldest payload that has arrived and was not consumed.
    pub(super) fn front(&self) -> Option<&[u8]> {
        (self.waiting > 0).then(|| self.incoming.get(self.first))
    }

    /// Gives up the oldest payload.
    pub(super) fn consume(&mut self) {
        assert!(self.waiting > 0, "there is a payload to consume");
        self.first = (self.first + 1) % self.incoming.lengths.len();
        self.waiting -= 1;
        self.port.consume();
    }

    /// Writes the frame that goes next, if there is one. Its length.
    pub(super) fn take_frame(&mut self, frame: &mut [u8], now: Duration) -> Option<usize> {
        let header = self.port.poll()?;
        let payload = match header.kind {
            Kind::Data => self.data(header.sequence, now),
            Kind::Ack | Kind::Probe => &self.prefix,
        };
        Some(wire::encode(&header, payload, frame))
    }

    fn data(&mut self, sequence: u32, now: Duration) -> &[u8] {
        if sequence == self.fresh {
            self.fresh = sequence.wrapping_add(1);
            self.timer.sample.get_or_insert((sequence, now));
        } else {
            self.resent += 1;
            // Which of the copies an acknowledgement is for, nobody knows.
            self.timer.sample = None;
        }
        self.outgoing.get(self.port.sender.place(sequence))
    }

    /// Takes a frame that arrived, without the prefix.
    pub(super) fn receive(&mut self, header: &Header, payload: &[u8], now: Duration) {
        let before = (self.port.sender.base(), self.port.sender.is_ready());
        let verdict = self.port.receive(header);
        if verdict == Some(Verdict::Accept) {
            // There is room: the port accepts no more than was consumed.
            let place = (self.first + self.waiting) % self.incoming.lengths.len();
            self.incoming.put(place, [&[], payload]);
            self.waiting += 1;
        }
        if before != (self.port.sender.base(), self.port.sender.is_ready()) {
            (self.timer.deadline, self.timer.doublings) = (None, 0);
        }
        if let Some((sequence, at)) = self.timer.sample
            && self.port.sender.base().wrapping_sub(sequence).wrapping_sub(1) < 1 << 31
        {
            self.timer.measured(now.saturating_sub(at));
            self.timer.sample = None;
        }
    }

    /// A frame arrived that may have been one of this channel's.
    pub(super) fn damaged(&mut self) {
        self.port.damaged();
    }

    /// Says something to the peer with the next frame.
    pub(super) fn greet(&mut self) {
        self.port.receiver.probed();
    }

    /// Asks the peer for a sign of life.
    pub(super) fn probe(&mut self) {
        self.port.probe();
    }

    /// Looks whether it is time to try again.
    pub(super) fn tick(&mut self, now: Duration) {
        if !self.port.sender.is_waiting() {
            self.timer.deadline = None;
            return;
        }
        match self.timer.deadline {
            None => self.timer.deadline = Some(now + self.timer.patience()),
            Some(deadline) if deadline <= now => {
                self.port.timeout();
                self.timer.sample = None;
                self.timer.doublings = (self.timer.doublings + 1).min(MAX_DOUBLINGS);
                self.timer.deadline = Some(now + self.timer.patience());
            }
            Some(_) => {}
        }
    }

    /// Deadline of the retransmission timer; `None` while nothing is in flight.
    pub(super) fn due(&self) -> Option<Duration> {
        self.timer.deadline
    }

    /// Whether something could be sent now.
    pub(super) fn is_ready(&self) -> bool {
        self.port.is_ready()
    }
}
