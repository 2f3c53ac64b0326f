//! Random runs over frames as bytes, of which some are lost and some have bits turned.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use rackmem_rmc::link::wire::{self, OVERHEAD_BYTES};
use rackmem_rmc::link::{Ack, Header, Kind, MAX_WINDOW, Port, Verdict};

/// One end with its buffers: the ring of what it sends, and what it has accepted.
struct End {
    port: Port,
    ring: Vec<Vec<u8>>,
    unsent: VecDeque<Vec<u8>>,
    held: VecDeque<Vec<u8>>,
    room: usize,
    got: Vec<Vec<u8>>,
}

impl End {
    fn new(window: u32, room: u32, first: u32, messages: &[Vec<u8>]) -> Self {
        Self {
            port: Port::starting_at(window, room, first),
            ring: vec![Vec::new(); window as usize],
            unsent: messages.iter().cloned().collect(),
            held: VecDeque::new(),
            room: room as usize,
            got: Vec::new(),
        }
    }

    fn push(&mut self) {
        if !self.unsent.is_empty()
            && let Some(sequence) = self.port.push()
        {
            let place = self.port.sender.place(sequence);
            self.ring[place] = self.unsent.pop_front().expect("there is one");
        }
    }

    fn poll(&mut self) -> Option<Vec<u8>> {
        let header = self.port.poll()?;
        let place = self.port.sender.place(header.sequence);
        let payload = if header.kind == Kind::Data { &self.ring[place][..] } else { &[] };
        let mut frame = vec![0; payload.len() + OVERHEAD_BYTES];
        assert_eq!(wire::encode(&header, payload, &mut frame), frame.len());
        Some(frame)
    }

    fn arrive(&mut self, frame: &[u8]) {
        match wire::decode(frame) {
            Err(wire::Damaged) => self.port.damaged(),
            Ok((header, payload)) => match self.port.receive(&header) {
                Some(Verdict::Accept) => self.held.push_back(payload.to_vec()),
                Some(Verdict::NoRoom) => panic!("the peer sent more than there is room for"),
                _ => {}
            },
        }
        assert!(self.held.len() <= self.room);
    }

    fn consume(&mut self) {
        if let Some(message) = self.held.pop_front() {
            self.got.push(message);
            self.port.consume();
        }
    }

    fn is_done(&self) -> bool {
        self.unsent.is_empty() && self.port.sender.kept() == 0 && self.held.is_empty()
    }
}

/// The next event: its end, its kind, and the number of the bit that is turned.
type Event = (bool, u8, u16);

fn happen(ends: &mut [End; 2], wires: &mut [VecDeque<Vec<u8>>; 2], (side, what, bit): Event) {
    let (n, peer) = (usize::from(side), usize::from(!side));
    match what {
        0..=3 => ends[n].push(),
        4..=9 => wires[n].extend(ends[n].poll()),
        10..=14 => {
            if let Some(frame) = wires[n].pop_front() {
                ends[peer].arrive(&frame);
            }
        }
        15 => drop(wires[n].pop_front()),
        16 => {
            if let Some(frame) = wires[n].front_mut().filter(|frame| !frame.is_empty()) {
                let bit = usize::from(bit) % (frame.len() * 8);
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
        17 => {
            // The end of the frame is cut off.
            if let Some(frame) = wires[n].front_mut().filter(|frame| !frame.is_empty()) {
                frame.truncate(usize::from(bit) % frame.len());
            }
        }
        18 => ends[n].port.timeout(),
        _ => ends[n].consume(),
    }
}

/// Goes on without faults until nothing is left to do.
fn drain(ends: &mut [End; 2], wires: &mut [VecDeque<Vec<u8>>; 2]) {
    for _ in 0..10_000 {
        if ends.iter().all(End::is_done) {
            return;
        }
        let mut idle = true;
        for n in 0..2 {
            ends[n].push();
            wires[n].extend(ends[n].poll());
            while let Some(frame) = wires[n].pop_front() {
                ends[1 - n].arrive(&frame);
                idle = false;
            }
            ends[1 - n].consume();
        }
        if idle {
            ends.iter_mut().for_each(|end| end.port.timeout());
        }
    }
    panic!("not all arrives");
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..80), 0..40)
}

proptest! {
    #[test]
    fn all_arrives_exactly_once_and_in_order(
        windows in [0u32..6, 0u32..6],
        rooms in [1u32..9, 1u32..9],
        first in prop_oneof![Just(0u32), u32::MAX - 30..=u32::MAX, any::<u32>()],
        sent in [messages(), messages()],
        events in vec((any::<bool>(), 0u8..24, any::<u16>()), 0..600),
    ) {
        let mut ends = [0, 1].map(|n| End::new(1 << windows[n], rooms[n], first, &sent[n]));
        let mut wires = [VecDeque::new(), VecDeque::new()];
        for event in events {
            happen(&mut ends, &mut wires, event);
            for n in 0..2 {
                prop_assert!(sent[1 - n].starts_with(&ends[n].got));
            }
        }
        drain(&mut ends, &mut wires);
        for n in 0..2 {
            prop_assert_eq!(&sent[1 - n], &ends[n].got);
        }
    }

    #[test]
    fn frames_round_trip(header in header(), payload in vec(any::<u8>(), 0..300)) {
        let mut frame = vec![0; payload.len() + OVERHEAD_BYTES];
        prop_assert_eq!(wire::encode(&header, &payload, &mut frame), frame.len());
        prop_assert_eq!(wire::decode(&frame), Ok((header, &payload[..])));
    }

    #[test]
    fn turned_bits_are_found(
        header in header(),
        payload in vec(any::<u8>(), 0..300),
        bits in vec(any::<prop::sample::Index>(), 1..=5),
    ) {
        let mut frame = vec![0; payload.len() + OVERHEAD_BYTES];
        wire::encode(&header, &payload, &mut frame);
        let intact = frame.clone();
        for bit in bits {
            let bit = bit.index(frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        prop_assert_eq!(wire::decode(&frame).is_ok(), frame == intact);
    }

    #[test]
    fn no_bytes_upset_the_parser(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok((header, payload)) = wire::decode(&bytes) {
            let mut frame = vec![0; bytes.len()];
            wire::encode(&header, payload, &mut frame);
            prop_assert_eq!(frame, bytes);
        }
    }

    #[test]
    fn no_headers_upset_a_port(headers in vec(header(), 0..200)) {
        let mut port = Port::new(8, 8);
        for header in headers {
            port.push();
            if port.receive(&header) == Some(Verdict::Accept) {
                port.consume();
            }
            port.poll();
            prop_assert!(port.sender.in_flight() <= 8 && port.sender.kept() <= 8);
            prop_assert!(port.receiver.room() <= MAX_WINDOW);
        }
    }
}

fn header() -> impl Strategy<Value = Header> {
    let number = || prop_oneof![0u32..16, any::<u32>()];
    let kind = prop::sample::select(vec![Kind::Data, Kind::Ack, Kind::Probe]);
    (kind, number(), number(), number(), any::<bool>()).prop_map(
        |(kind, sequence, expected, limit, again)| Header {
            kind,
            sequence,
            ack: Ack { expected, limit, again },
        },
    )
}

#[test]
fn the_check_is_crc32c() {
    // RFC 3720, B.4.
    assert_eq!(wire::crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(wire::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(wire::crc32c(&[0xff; 32]), 0x62a8_ab43);
    let rising: Vec<u8> = (0..32).collect();
    assert_eq!(wire::crc32c(&rising), 0x46dd_794e);
}
