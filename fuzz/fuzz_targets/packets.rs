//! Packets of the fabric, and a controller that gets any of them while its applications write anything into their
//! queues.
#![no_main]

use std::collections::VecDeque;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_abi::{CqEntry, LINE_BYTES, PACKET_BYTES, Packet, Reply, Request, Status, WqEntry};
use rackmem_rmc::{Bounds, Full, Memory, Network, QpConfig, QpId, Rights, Rmc};

const SEGMENT_BYTES: usize = 1000;
const ENTRIES: u32 = 8;
const CTX_ID: u16 = 1;

/// A segment, one local buffer of 256 bytes at address 4096, and the queues of one queue pair.
struct Node {
    segment: Vec<u8>,
    buffer: Vec<u8>,
    queue: [[u64; 2]; ENTRIES as usize],
    completions: Vec<CqEntry>,
}

impl Node {
    fn line(&mut self, ctx_id: u16, offset: u64, length: usize) -> &mut [u8] {
        assert_eq!(ctx_id, CTX_ID);
        let at = offset as usize;
        assert!(at % LINE_BYTES + length <= LINE_BYTES, "one line");
        &mut self.segment[at..at + length]
    }

    fn local(&mut self, address: u64, length: usize) -> Result<&mut [u8], Status> {
        let at = address.checked_sub(4096).ok_or(Status::BadLocalBuffer)? as usize;
        let range = at..at.checked_add(length).ok_or(Status::BadLocalBuffer)?;
        self.buffer.get_mut(range).ok_or(Status::BadLocalBuffer)
    }

    fn word(&mut self, ctx_id: u16, offset: u64) -> &mut [u8; 8] {
        assert_eq!(offset % 8, 0);
        self.line(ctx_id, offset, 8).try_into().unwrap()
    }
}

impl Memory for Node {
    fn wq_words(&self, _: QpId, slot: u32) -> [u64; 2] {
        self.queue[slot as usize]
    }

    fn put_cq(&mut self, _: QpId, position: u32, word: u32) {
        assert!(position < ENTRIES);
        self.completions.push(CqEntry::decode(word));
    }

    fn load(&mut self, _: QpId, address: u64, out: &mut [u8]) -> Result<(), Status> {
        out.copy_from_slice(self.local(address, out.len())?);
        Ok(())
    }

    fn store(&mut self, _: QpId, address: u64, bytes: &[u8]) -> Result<(), Status> {
        self.local(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, ctx_id: u16, offset: u64, out: &mut [u8]) {
        let length = out.len();
        out.copy_from_slice(self.line(ctx_id, offset, length));
    }

    fn write(&mut self, ctx_id: u16, offset: u64, bytes: &[u8]) {
        self.line(ctx_id, offset, bytes.len()).copy_from_slice(bytes);
    }

    fn fetch_add(&mut self, ctx_id: u16, offset: u64, addend: u64) -> u64 {
        let word = self.word(ctx_id, offset);
        let old = u64::from_le_bytes(*word);
        *word = old.wrapping_add(addend).to_le_bytes();
        old
    }

    fn compare_swap(&mut self, ctx_id: u16, offset: u64, expected: u64, desired: u64) -> u64 {
        let word = self.word(ctx_id, offset);
        let old = u64::from_le_bytes(*word);
        if old == expected {
            *word = desired.to_le_bytes();
        }
        old
    }

    fn notify(&mut self, ctx_id: u16) {
        assert_eq!(ctx_id, CTX_ID);
    }
}

/// Lanes that the script fills.
#[derive(Default)]
struct Lanes {
    requests: VecDeque<Request>,
    replies: VecDeque<Reply>,
    sent: VecDeque<Request>,
    answered: Vec<Reply>,
}

impl Network for Lanes {
    fn is_up(&self, nid: u16) -> bool {
        nid < 3
    }

    fn can_send_request(&self, _: u16) -> bool {
        self.sent.len() < 64
    }

    fn try_send_request(&mut self, request: &Request) -> Result<(), Full> {
        let mut bytes = [0; PACKET_BYTES];
        let length = request.emit(&mut bytes);
        assert_eq!(Packet::parse(&bytes[..length]), Ok(Packet::Request(*request)));
        self.sent.push_back(*request);
        Ok(())
    }

    fn can_send_reply(&self, _: u16) -> bool {
        true
    }

    fn try_send_reply(&mut self, reply: &Reply) -> Result<(), Full> {
        let mut bytes = [0; PACKET_BYTES];
        let length = reply.emit(&mut bytes);
        assert!(matches!(Packet::parse(&bytes[..length]), Ok(Packet::Reply(_))), "{reply:?}");
        self.answered.push(*reply);
        Ok(())
    }

    fn peek_request(&mut self) -> Option<u16> {
        self.requests.front().map(|request| request.header.src_nid)
    }

    fn recv_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    fn recv_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }
}

/// A packet in these bytes, which say the same once they were written again.
fn parsed(bytes: &[u8]) -> Option<Packet> {
    let packet = Packet::parse(bytes).ok()?;
    let mut again = [0; PACKET_BYTES];
    let length = packet.emit(&mut again);
    assert_eq!(&again[..length], bytes);
    Some(packet)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut rmc = Rmc::new(0, 4, 16);
    rmc.install_context(CTX_ID, Bounds { size_bytes: SEGMENT_BYTES as u64 }).unwrap();
    let config = QpConfig { ctx_id: CTX_ID, size: ENTRIES, rights: Rights::ReadWrite };
    rmc.add_qp(config).unwrap();
    let (segment, buffer) = (vec![0; SEGMENT_BYTES], vec![0; 256]);
    let mut node =
        Node { segment, buffer, queue: [[0; 2]; ENTRIES as usize], completions: Vec::new() };
    let mut lanes = Lanes::default();
    let (mut offered, mut posted) = (0, 0_usize);
    while !input.is_empty() {
        let code = input.arbitrary::<u8>().unwrap_or(0);
        match code % 8 {
            0 | 1 => {
                let length = usize::from(code >> 3) * 4 % (PACKET_BYTES + 4);
                match parsed(input.bytes(length.min(input.len())).unwrap_or(&[])) {
                    Some(Packet::Request(request)) => {
                        offered += 1;
                        lanes.requests.push_back(request);
                    }
                    Some(Packet::Reply(reply)) => lanes.replies.push_back(reply),
                    None => {}
                }
            }
            2 => {
                // The next entry of the application, right or not.
                let words = [input.arbitrary().unwrap_or(0), input.arbitrary().unwrap_or(0)];
                let entry = WqEntry::decode(words);
                let buffer = 4096 + entry.buffer % 256;
                let small = WqEntry {
                    length: entry.length % 300,
                    dst_nid: entry.dst_nid % 4,
                    buffer,
                    ..entry
                };
                let place = posted % ENTRIES as usize;
                let phase = (posted / ENTRIES as usize) % 2 == 0;
                node.queue[place] =
                    if code & 8 == 0 { WqEntry { phase, ..small }.encode() } else { words };
                posted += 1;
            }
            3 => drop(rmc.poll_rgp(&mut node, &mut lanes, 4)),
            4 => drop(rmc.poll_rrpp(&mut node, &mut lanes, 4)),
            5 => drop(rmc.poll_rcp(&mut node, &mut lanes, 4)),
            6 => {
                // A right answer, as far as one can tell from outside.
                if let Some(request) = lanes.sent.pop_front() {
                    let status = Status::from_code(code >> 3 & 15).unwrap_or(Status::Ok);
                    let mut reply = rackmem_rmc::rrpp::reply(&request.header, status);
                    reply.payload.fill(code);
                    lanes.replies.push_back(reply);
                }
            }
            _ => rmc.fail_node(u16::from(code >> 3) % 4, &mut node),
        }
        assert!(lanes.answered.len() <= offered, "one reply to each request at most");
        assert!(node.completions.iter().all(|entry| u32::from(entry.slot) < ENTRIES));
    }
});
