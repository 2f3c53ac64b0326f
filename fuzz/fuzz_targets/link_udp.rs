//! A link over a bad wire with strangers on it: messages arrive once, in order and whole, and nothing else does.
#![no_main]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_fabric::udp::{CHANNELS, LinkEnd, Settings, Wire};
use rackmem_rmc::link::{Ack, Header, Kind, wire};

const MAX_BYTES: usize = 128;
const SESSION: u32 = 0x1234_5678;

type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of a wire: datagrams that leave wait until the script lets them arrive.
#[derive(Debug)]
struct Pipe {
    out: Queue,
    arrived: Queue,
}

// SAFETY: a fuzz target has one thread.
unsafe impl Send for Pipe {}

impl Wire for Pipe {
    fn max_bytes(&self) -> usize {
        MAX_BYTES
    }

    fn send(&mut self, datagram: &[u8], _: Duration) -> io::Result<()> {
        self.out.borrow_mut().push_back(datagram.to_vec());
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8], _: Duration) -> io::Result<Option<usize>> {
        let Some(datagram) = self.arrived.borrow_mut().pop_front() else { return Ok(None) };
        let length = datagram.len().min(into.len());
        into[..length].copy_from_slice(&datagram[..length]);
        Ok(Some(length))
    }
}

struct Side {
    end: LinkEnd<Pipe>,
    out: Queue,
    arrived: Queue,
    /// Messages that were pushed, by channel, and the number of them that the other side has.
    pushed: [Vec<Vec<u8>>; CHANNELS],
    heard: [usize; CHANNELS],
}

impl Side {
    fn new() -> Side {
        let (out, arrived) = (Queue::default(), Queue::default());
        let wire = Pipe { out: out.clone(), arrived: arrived.clone() };
        let settings = Settings { window: 8, dead_after: Duration::from_secs(3) };
        let end = LinkEnd::new(wire, "the peer".to_owned(), SESSION, settings, Duration::ZERO);
        Side { end, out, arrived, pushed: Default::default(), heard: [0; CHANNELS] }
    }
}

/// A frame of this session that no end has sent.
fn forged(input: &mut Unstructured<'_>) -> Vec<u8> {
    let mut word = || input.arbitrary::<u8>().map_or(0, u32::from);
    let kind = [Kind::Data, Kind::Ack, Kind::Probe][word() as usize % 3];
    let small = |n: u32| if n > 200 { n.wrapping_sub(210) } else { n % 20 };
    let (expected, limit) = (small(word()), small(word()));
    let header = Header {
        kind,
        sequence: small(word()),
        ack: Ack { expected, limit, again: word() & 1 == 1 },
    };
    let mut payload = SESSION.to_le_bytes().to_vec();
    payload.push(word() as u8 % 3);
    payload.extend_from_slice(input.bytes(input.len().min(8)).unwrap_or(&[]));
    let mut frame = vec![0; wire::OVERHEAD_BYTES + payload.len()];
    let length = wire::encode(&header, &payload, &mut frame);
    frame.truncate(length);
    frame
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut sides = [Side::new(), Side::new()];
    let mut now = Duration::ZERO;
    // Whether a stranger that knows the session has forged frames of it: then only nothing breaks.
    let mut is_forged = false;
    while !input.is_empty() {
        let code = input.arbitrary::<u8>().unwrap_or(0);
        let (me, channel) = (usize::from(code & 1), usize::from(code >> 1 & 1));
        let amount = input.arbitrary::<u8>().unwrap_or(0);
        match code >> 2 & 15 {
            0..=2 => {
                let side = &mut sides[me];
                let message = vec![amount; usize::from(amount) % side.end.max_message_bytes()];
                if let Ok(true) = side.end.push(channel, &message) {
                    side.pushed[channel].push(message);
                }
            }
            3..=6 => drop(sides[me].end.poll(now)),
            7..=9 => {
                let datagram = sides[me].out.borrow_mut().pop_front();
                sides[1 - me].arrived.borrow_mut().extend(datagram);
            }
            10 => drop(sides[me].out.borrow_mut().pop_front()),
            11 => {
                if let Some(datagram) = sides[me].out.borrow_mut().front_mut() {
                    let at = usize::from(amount) % datagram.len();
                    datagram[at] ^= 1 << (amount >> 5);
                }
            }
            12 => {
                let length = usize::from(amount).min(input.len());
                let noise = input.bytes(length).unwrap_or(&[]).to_vec();
                sides[me].arrived.borrow_mut().push_back(noise);
            }
            13 => {
                is_forged = true;
                let frame = forged(&mut input);
                sides[me].arrived.borrow_mut().push_back(frame);
            }
            _ => now += Duration::from_millis(u64::from(amount)),
        }
        for me in 0..2 {
            for channel in 0..CHANNELS {
                while let Some(message) = sides[me].end.front(channel).map(<[u8]>::to_vec) {
                    sides[me].end.consume(channel);
                    let at = sides[me].heard[channel];
                    sides[me].heard[channel] += 1;
                    let sent = sides[1 - me].pushed[channel].get(at);
                    assert!(
                        is_forged || sent == Some(&message),
                        "message {at} of channel {channel}"
                    );
                }
            }
            assert!(sides[me].out.borrow().len() < 1 << 16, "what is sent is bounded");
        }
    }
});
