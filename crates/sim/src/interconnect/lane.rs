//! One end of a link: link layer and physical layer (DEOI §III, TSM §4.2).
//!
//! The link layer is `rackmem_rmc::link`, once for each virtual channel: frames arrive exactly once and in
//! order, and never where there is no room. All virtual channels share the wire, frame by frame: responses and
//! requests take turns, and interrupts go before or after them. An acknowledgement goes with data of its own
//! channel, or when nothing else has data. It waits until the other end may have used half of the credits that it
//! could have, or for half of the time after which that end sends again.
//!
//! A frame passes the sender's protocol engine, its words go through the transceiver one after the
//! other, fly, and pass the receiver's protocol engine when the last one is there.

use rackmem_rmc::link::{Header, Kind, Port, Verdict};

use super::packet::{Channel, Packet, Trip, VCS};
use super::time::{Clock, Ps, ps};
use crate::engine::Random;
use crate::machine::spec::{ExtensionSpec, LineCode};

#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub clock: Clock,
    lane_bytes: u32,
    word_ps: Ps,
    send_ps: Ps,
    /// Time of the receiver's protocol engine.
    pub receive_ps: Ps,
    wire_ps: Ps,
    header_bytes: u32,
    address_bytes: u32,
}

impl Times {
    /// As the machine file has the lanes, in picoseconds.
    pub fn new(spec: &ExtensionSpec) -> Times {
        let bits = f64::from(spec.lane_bytes * 8);
        // A transceiver with a gearbox runs at the rate of the line and pauses for the code's own bits.
        let (clock_mhz, word_bits) = match spec.line_code {
            LineCode::EightTen => (spec.lane_gbps * 800.0 / bits, bits * 10.0 / 8.0),
            LineCode::SixtyFour => (spec.lane_gbps * 1000.0 / bits, bits * 66.0 / 64.0),
        };
        let clock = Clock::of_mhz(clock_mhz);
        let engine = clock.cycles(spec.link_cycles);
        Times {
            clock,
            lane_bytes: spec.lane_bytes,
            word_ps: ps(word_bits / spec.lane_gbps),
            send_ps: engine / 2,
            receive_ps: engine - engine / 2,
            wire_ps: clock.cycles(spec.transceiver_cycles) + ps(spec.flight_ns),
            header_bytes: spec.header_bytes,
            address_bytes: spec.address_bytes,
        }
    }

    /// Bytes of a packet on the link.
    pub fn packet_bytes<B>(&self, packet: &Packet<B>) -> u32 {
        let address = if packet.channel.has_address() { self.address_bytes } else { 0 };
        let data = if packet.channel.has_data() { packet.bytes } else { 0 };
        self.header_bytes + address + data
    }

    /// The least time from a frame's start to its arrival.
    pub fn least_ps(&self) -> Ps {
        self.send_ps + self.word_ps + self.wire_ps
    }

    pub fn frame(&self, bytes: u32) -> Ps {
        Ps::from(bytes.div_ceil(self.lane_bytes)) * self.word_ps
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Frame<B = ()> {
    /// Number of its virtual channel, below [`VCS`].
    pub vc: u8,
    pub header: Header,
    /// Packet of a frame with data.
    pub packet: Packet<B>,
    /// Whether its check holds.
    pub is_intact: bool,
    /// Its time in the physical layer.
    pub physical: Ps,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames with data, sent for the first time or again.
    pub data: u64,
    /// Frames without a packet: acknowledgements and the like.
    pub control: u64,
    pub lost: u64,
    pub damaged: u64,
    /// Frames with data that arrived and were dropped: again, or after a gap.
    pub dropped: u64,
    /// Bytes of all frames sent, with their overhead.
    pub bytes: u64,
    /// Time in which the wire was in use.
    pub busy: Ps,
}

#[derive(Clone, Debug)]
pub struct End<B = ()> {
    /// Node and number of the other end.
    pub peer: (u16, u8),
    /// The link layer of each virtual channel.
    pub ports: [Port; VCS],
    rings: [Box<[Packet<B>]>; VCS],
    /// Time at which the next frame may begin.
    pub wire_free: Ps,
    /// Time at which it will be looked at again.
    pub look_at: Option<Ps>,
    /// Time at which something of a virtual channel was last heard or begun.
    pub heard: [Ps; VCS],
    /// Whether the timer of a virtual channel runs.
    pub timer_runs: [bool; VCS],
    /// Virtual channel of responses or requests whose data went last.
    last: usize,
    /// Channel of the on-chip interconnect at which the search for the next packet of a virtual channel begins.
    pub turns: [usize; VCS],
    /// Whether the latest packet of a virtual channel was one of another node, on its way through.
    pub passed_on: [bool; VCS],
    /// Credits that the other end has heard of, as sums.
    told: [u32; VCS],
    /// Since when a virtual channel owes an acknowledgement.
    owes_since: [Option<Ps>; VCS],
    /// Longest that an acknowledgement waits for data of other virtual channels.
    most_owed: Ps,
    random: Random,
    lost: u64,
    damaged: u64,
    overhead: u32,
    pub counts: Counts,
}

/// The packet of a frame without one.
fn nothing<B: Default>() -> Packet<B> {
    let (channel, trip, body) = (Channel::Interrupt, Trip::default(), B::default());
    Packet { channel, source: 0, destination: 0, tag: 0, bytes: 0, trip, body }
}

impl<B: Copy + Default> End<B> {
    pub fn new(spec: &ExtensionSpec, peer: (u16, u8), random: Random) -> End<B> {
        let ring = vec![nothing(); spec.link_window as usize].into_boxed_slice();
        End {
            peer,
            ports: [Port::new(spec.link_window, spec.link_room); VCS],
            rings: [ring.clone(), ring.clone(), ring],
            wire_free: 0,
            look_at: None,
            heard: [0; VCS],
            timer_runs: [false; VCS],
            last: VCS - 1,
            turns: [0; VCS],
            passed_on: [false; VCS],
            told: [0; VCS],
            owes_since: [Some(0); VCS],
            most_owed: ps(spec.link_timeout_ns / 2.0),
            random,
            lost: spec.lost_per_million.into(),
            damaged: spec.damaged_per_million.into(),
            overhead: spec.frame_overhead_bytes,
            counts: Counts::default(),
        }
    }

    /// Whether a packet of this virtual channel could be sent now.
    #[inline]
    pub fn accepts(&self, vc: usize) -> bool {
        self.ports[vc].sender.has_credit()
    }

    /// Whether a virtual channel waits for the other end.
    pub fn waits(&self, vc: usize) -> bool {
        self.ports[vc].sender.in_flight() > 0 || !self.accepts(vc)
    }

    /// The order in which virtual channels are served next: requests and responses take turns, interrupts go before or
    /// after them.
    pub fn order(&self, interrupts_first: bool) -> [usize; VCS] {
        let (first, second) = if self.last == 1 { (2, 1) } else { (1, 2) };
        if interrupts_first { [0, first, second] } else { [first, second, 0] }
    }

    /// A packet that was received leaves its room.
    pub fn consume(&mut self, vc: usize, now: Ps) {
        self.ports[vc].consume();
        self.owes(vc, now);
    }

    /// Notes since when a virtual channel owes an acknowledgement.
    fn owes(&mut self, vc: usize, now: Ps) {
        if self.ports[vc].receiver.owes() {
            self.owes_since[vc].get_or_insert(now);
        }
    }

    /// Whether a virtual channel has something to say before data of others go: it asks for an acknowledgement, or owes
    /// one that cannot wait.
    fn is_pressing(&self, vc: usize, now: Ps) -> bool {
        let Port { sender, receiver } = &self.ports[vc];
        if !receiver.owes() {
            return self.ports[vc].is_ready() && !sender.is_ready();
        }
        let known = self.told[vc].wrapping_sub(receiver.expected());
        let is_short = receiver.room() > known && receiver.room() / 2 >= known;
        let has_waited = self.owes_since[vc].is_some_and(|since| since + self.most_owed <= now);
        is_short || has_waited
    }

    /// Gives a packet to the link layer, which has room for it.
    pub fn push(&mut self, packet: Packet<B>) {
        let vc = packet.channel.vc();
        if let Some(sequence) = self.ports[vc].push() {
            self.rings[vc][self.ports[vc].sender.place(sequence)] = packet;
        }
    }

    /// The frame that goes onto the wire now: of a virtual channel whose acknowledgement is pressing, else of the first
    /// of `order` that has data, else of the first that has something to say. With when it arrives, unless it is lost.
    pub fn send(
        &mut self,
        now: Ps,
        order: [usize; VCS],
        times: &Times,
    ) -> Option<(Frame<B>, Option<Ps>)> {
        let has_data = |vc: &usize| self.ports[*vc].sender.is_ready();
        let is_ready = |vc: &usize| self.ports[*vc].is_ready();
        let pressing = order.into_iter().find(|&vc| self.is_pressing(vc, now));
        let first = pressing.or_else(|| order.into_iter().find(has_data));
        let vc = first.or_else(|| order.into_iter().find(is_ready))?;
        let header = self.ports[vc].poll()?;
        let is_data = header.kind == Kind::Data;
        (self.told[vc], self.owes_since[vc]) = (header.ack.limit, None);
        if is_data && vc > 0 {
            self.last = vc;
        }
        let place = self.ports[vc].sender.place(header.sequence);
        let packet = if is_data { self.rings[vc][place] } else { nothing() };
        let bytes = self.overhead + if is_data { times.packet_bytes(&packet) } else { 0 };
        let words = times.frame(bytes);
        self.wire_free = now + words;
        self.counts.busy += words;
        self.counts.bytes += u64::from(bytes);
        if is_data {
            self.counts.data += 1;
        } else {
            self.counts.control += 1;
        }
        let physical = words + times.wire_ps;
        let chance =
            if self.lost + self.damaged > 0 { self.random.below(1_000_000) } else { u64::MAX };
        let (is_lost, is_damaged) = (chance < self.lost, chance < self.lost + self.damaged);
        self.counts.lost += u64::from(is_lost);
        self.counts.damaged += u64::from(is_damaged && !is_lost);
        let frame = Frame { vc: vc as u8, header, packet, is_intact: !is_damaged, physical };
        Some((frame, (!is_lost).then_some(now + times.send_ps + physical)))
    }

    /// A frame arrives; whether its packet is the next one.
    pub fn receive(&mut self, frame: &Frame<B>, now: Ps) -> bool {
        let vc = usize::from(frame.vc);
        self.heard[vc] = now;
        let verdict = match frame.is_intact {
            true => self.ports[vc].receive(&frame.header),
            false => {
                self.ports[vc].damaged();
                None
            }
        };
        self.owes(vc, now);
        let is_next = verdict == Some(Verdict::Accept);
        self.counts.dropped += u64::from(verdict.is_some() && !is_next);
        is_next
    }
}
