//! Requests of other nodes: each is answered once, with data that were current.

use rackmem_abi::{Op, Reply, Request, Status};
use rackmem_sim::block::Line;
use rackmem_sim::chip::layout::{Layout, Part, SEGMENT_LINE};
use rackmem_sim::chip::wires::Updated;
use rackmem_sim::coherence::Party;

use super::oracle::{Oracle, Words, bytes_of, changed, words_of};

/// A request that has not been answered.
struct Pending {
    engine: u16,
    request: Request,
    arrived: u64,
    party: Party,
    /// The block as the change found it, once it is made.
    found: Option<Words>,
}

/// All requests from other nodes that have not been answered.
#[derive(Default)]
pub struct Remote {
    pending: Vec<Pending>,
    segment_bytes: u64,
    /// Requests and replies, for counting.
    pub requests: u64,
    pub replies: u64,
    /// Sum of what fetch-and-add has added to each word of the first block.
    pub added: Words,
}

impl Remote {
    pub fn new(segment_bytes: u64) -> Remote {
        Remote { segment_bytes, ..Remote::default() }
    }

    /// A request is on its way to the chip.
    pub fn request(&mut self, engine: u16, request: Request, layout: &Layout, now: u64) {
        let party = layout.party_of(Part::Rrpp(layout.rrpp_of(line_of(&request))));
        self.requests += 1;
        self.pending.push(Pending { engine, request, arrived: now, party, found: None });
    }

    /// Requests without an answer.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// A home has changed a block for an RRPP: one of its requests must have asked for just that.
    pub fn updated(&mut self, updated: &Updated, oracle: &mut Oracle, now: u64) {
        let Updated { line, party, block } = *updated;
        let before = oracle.current(line);
        let asked = |pending: &Pending| {
            let here = pending.party == party && line_of(&pending.request) == line;
            here && pending.found.is_none()
                && pending.request.header.op.modifies()
                && self.is_inside(&pending.request)
                && made(&pending.request, before) == block.words
        };
        let at = self.pending.iter().position(asked).unwrap_or_else(|| {
            panic!("cycle {now}: nobody asked for this change: {updated:x?}, before {before:x?}")
        });
        oracle.set(line, block.words, now);
        if block.words == before {
            // A compare-and-swap that fails, or a write of what is there: whose does not matter.
            return;
        }
        let pending = &mut self.pending[at];
        pending.found = Some(before);
        if pending.request.header.op == Op::FetchAdd && line == SEGMENT_LINE {
            let word = pending.request.header.offset as usize / 8;
            let addend = words_of(&pending.request.payload)[0];
            self.added[word] = self.added[word].wrapping_add(addend);
        }
    }

    /// A reply leaves the chip.
    pub fn reply(&mut self, engine: u16, reply: &Reply, oracle: &Oracle, now: u64) {
        let header = reply.header;
        let asked = |pending: &Pending| {
            let asked = pending.request.header;
            pending.engine == engine
                && (asked.tid, asked.offset, asked.op) == (header.tid, header.offset, header.op)
        };
        let at = self.pending.iter().position(asked);
        let at = at.unwrap_or_else(|| panic!("cycle {now}: nobody asked for {reply:?}"));
        let pending = self.pending.remove(at);
        self.replies += 1;
        self.check(&pending, reply, oracle, now);
    }

    fn check(&self, pending: &Pending, reply: &Reply, oracle: &Oracle, now: u64) {
        let request = &pending.request;
        if !self.is_inside(request) {
            assert_eq!(reply.status, Status::OutOfSegment, "{request:?}");
            return;
        }
        assert_eq!(reply.status, Status::Ok, "{request:?}");
        let (line, at) = (line_of(request), request.header.offset as usize % 64);
        let got = &reply.payload[..reply.payload_bytes()];
        let is_it = |words: Words| &bytes_of(words)[at..at + got.len()] == got;
        match pending.found {
            Some(found) => {
                assert!(is_it(found), "cycle {now}: {request:x?} got {got:x?}, found {found:x?}");
            }
            // A read, or what has changed nothing: nobody can tell when.
            None => {
                let no_change = |words: Words| is_it(words) && made(request, words) == words;
                let (since, header) = (pending.arrived, request.header);
                assert!(
                    oracle.was(line, since, now, no_change),
                    "block {line:#x} was not {got:x?} from {since} to {now}: {header:?}"
                );
            }
        }
    }

    fn is_inside(&self, request: &Request) -> bool {
        let header = request.header;
        header.op == Op::Nop || header.offset + u64::from(header.length) <= self.segment_bytes
    }
}

/// The block that a request is about.
fn line_of(request: &Request) -> Line {
    SEGMENT_LINE + request.header.offset / 64
}

fn made(request: &Request, before: Words) -> Words {
    let header = request.header;
    let at = header.offset as usize % 64;
    changed(before, header.op, at, &request.payload, usize::from(header.length))
}
