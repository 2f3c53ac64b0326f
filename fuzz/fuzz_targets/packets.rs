//! Packets of the fabric, and a controller that gets any of them while its applications write anything into their
//! queues.
#![no_main]

use std::collections::VecDeque;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_abi::{
    CqEntry, HEADER_BYTES, Header, LINE_BYTES, MAX_UNIT_BYTES, PACKET_BYTES, Packet, Status,
    WqEntry,
};
use rackmem_rmc::{
    Bounds, Full, Memory, Network, QpConfig, QpId, Rights, Rmc, Sink, Source, Unsent, rrpp,
};

const SEGMENT_BYTES: usize = 1000;
const ENTRIES: u32 = 8;
const CTX_ID: u16 = 1;

/// A segment, one local buffer of 256 bytes at address 4096, and the queues of one queue pair.
struct Node {
    segment: Vec<u8>,
    buffer: Vec<u8>,
    queue: [[u64; 2]; ENTRIES as usize],
    completions: Vec<CqEntry>,
    unit: usize,
}

impl Node {
    fn block(&mut self, ctx_id: u16, offset: u64, length: usize) -> &mut [u8] {
        assert_eq!(ctx_id, CTX_ID);
        let at = offset as usize;
        assert!(at % self.unit + length <= self.unit, "one unit");
        &mut self.segment[at..at + length]
    }

    fn local(&mut self, address: u64, length: usize) -> Result<&mut [u8], Status> {
        let at = address.checked_sub(4096).ok_or(Status::BadLocalBuffer)? as usize;
        let range = at..at.checked_add(length).ok_or(Status::BadLocalBuffer)?;
        self.buffer.get_mut(range).ok_or(Status::BadLocalBuffer)
    }

    fn word(&mut self, ctx_id: u16, offset: u64) -> &mut [u8; 8] {
        assert_eq!(offset % 8, 0);
        self.block(ctx_id, offset, 8).try_into().unwrap()
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

    fn load(&mut self, _: QpId, address: u64, out: Sink<'_>) -> Result<(), Status> {
        let length = out.len();
        out.put(self.local(address, length)?);
        Ok(())
    }

    fn store(&mut self, _: QpId, address: u64, bytes: Source<'_>) -> Result<(), Status> {
        bytes.copy_to(self.local(address, bytes.len())?);
        Ok(())
    }

    fn read(&mut self, ctx_id: u16, offset: u64, out: Sink<'_>) {
        let length = out.len();
        out.put(self.block(ctx_id, offset, length));
    }

    fn write(&mut self, ctx_id: u16, offset: u64, bytes: Source<'_>) {
        bytes.copy_to(self.block(ctx_id, offset, bytes.len()));
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

/// Lanes that the script fills: headers, and as much payload as each of them says.
struct Lanes {
    requests: VecDeque<(Header, Vec<u8>)>,
    replies: VecDeque<(Header, Status, Vec<u8>)>,
    sent: VecDeque<Header>,
    answered: usize,
    result: Vec<u8>,
    unit: usize,
}

impl Lanes {
    fn check(&self, header: &Header, status: Option<Status>) {
        assert_eq!(Header::parse(header.emit(status), self.unit), Ok((*header, status)));
    }
}

impl Network for Lanes {
    fn is_up(&self, nid: u16) -> bool {
        nid < 3
    }

    fn unit_bytes(&self, _: u16) -> usize {
        self.unit
    }

    fn can_send_request(&self, _: u16, payload_bytes: usize, result_bytes: usize) -> bool {
        assert!(payload_bytes.max(result_bytes) <= self.unit);
        self.sent.len() < 64
    }

    fn send_request(
        &mut self,
        header: &Header,
        load: impl FnOnce(Sink<'_>) -> Result<(), Status>,
    ) -> Result<(), Unsent> {
        self.check(header, None);
        if self.sent.len() == 64 {
            return Err(Unsent::Full);
        }
        let mut payload = vec![0; header.request_bytes()];
        if !payload.is_empty() {
            load(Sink::new(&mut payload)).map_err(Unsent::Unloaded)?;
        }
        self.sent.push_back(*header);
        Ok(())
    }

    fn can_send_reply(&self, _: u16, payload_bytes: usize) -> bool {
        assert!(payload_bytes <= self.unit);
        true
    }

    fn send_reply(
        &mut self,
        header: &Header,
        status: Status,
        fill: impl FnOnce(Sink<'_>),
    ) -> Result<(), Full> {
        self.check(header, Some(status));
        let mut payload = vec![0; header.reply_bytes(status)];
        if !payload.is_empty() {
            fill(Sink::new(&mut payload));
        }
        self.answered += 1;
        Ok(())
    }

    fn peek_request(&mut self) -> Option<Header> {
        self.requests.front().map(|(header, _)| *header)
    }

    fn operands(&self) -> Source<'_> {
        self.requests.front().map_or(Source::new(&[]), |(_, payload)| Source::new(payload))
    }

    fn take_request(&mut self) {
        self.requests.pop_front();
    }

    fn recv_reply(&mut self) -> Option<(Header, Status)> {
        let (header, status, payload) = self.replies.pop_front()?;
        self.result = payload;
        Some((header, status))
    }

    fn result(&self) -> Source<'_> {
        Source::new(&self.result)
    }
}

/// A packet of a line in these bytes says the same once it was written again.
fn check_line(bytes: &[u8]) {
    if let Ok(packet) = Packet::parse(bytes) {
        let mut again = [0; PACKET_BYTES];
        let length = packet.emit(&mut again);
        assert_eq!(&again[..length], bytes);
    }
}

/// The header in the first bytes, if it may come over a link of this unit.
fn parsed(bytes: &[u8], unit: usize) -> Option<(Header, Option<Status>)> {
    let (words, _) = bytes.first_chunk::<HEADER_BYTES>()?.as_chunks::<8>();
    Header::parse([u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])], unit).ok()
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut rmc = Rmc::new(0, 4, 16);
    rmc.install_context(CTX_ID, Bounds { size_bytes: SEGMENT_BYTES as u64 }).unwrap();
    let config = QpConfig { ctx_id: CTX_ID, size: ENTRIES, rights: Rights::ReadWrite };
    rmc.add_qp(config).unwrap();
    let (segment, buffer) = (vec![0; SEGMENT_BYTES], vec![0; 256]);
    let unit =
        [LINE_BYTES, 256, MAX_UNIT_BYTES][data.first().map_or(0, |byte| usize::from(byte % 3))];
    let queue = [[0; 2]; ENTRIES as usize];
    let mut node = Node { segment, buffer, queue, completions: Vec::new(), unit };
    let mut lanes = Lanes {
        requests: VecDeque::new(),
        replies: VecDeque::new(),
        sent: VecDeque::new(),
        answered: 0,
        result: Vec::new(),
        unit,
    };
    let (mut offered, mut posted) = (0, 0_usize);
    while !input.is_empty() {
        let code = input.arbitrary::<u8>().unwrap_or(0);
        match code % 8 {
            0 | 1 => {
                let length = usize::from(code >> 3) * 4 % (PACKET_BYTES + 4);
                let bytes = input.bytes(length.min(input.len())).unwrap_or(&[]);
                check_line(bytes);
                match parsed(bytes, unit) {
                    Some((header, None)) => {
                        offered += 1;
                        lanes.requests.push_back((header, vec![code; header.request_bytes()]));
                    }
                    Some((header, Some(status))) => {
                        let payload = vec![code; header.reply_bytes(status)];
                        lanes.replies.push_back((header, status, payload));
                    }
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
                    let header = rrpp::turn(&request, unit);
                    let payload = vec![code; header.reply_bytes(status)];
                    lanes.replies.push_back((header, status, payload));
                }
            }
            _ => rmc.fail_node(u16::from(code >> 3) % 4, &mut node),
        }
        assert!(lanes.answered <= offered, "one reply to each request at most");
        assert!(node.completions.iter().all(|entry| u32::from(entry.slot) < ENTRIES));
    }
});
