//! Messages and operations of a stretch of simulated time, for people to follow.

use std::ops::Range;

use rackmem_abi::Packet;

use super::layout::Part;
use super::message::{NetPacket, Payload, UNTRACED, header};
use crate::coherence::{Forward, Message, Request, Response};
use crate::engine::Cycle;
use crate::report::{Recording, TraceEvent};

/// Events that are recorded at most: more than anyone looks at, and some hundred megabytes.
pub const MOST_EVENTS: usize = 500_000;

/// An event that has not come to its end.
const UNDER_WAY: u64 = u64::MAX;

/// Records messages that are sent in a stretch of time, and operations that begin in it.
#[derive(Clone, Debug)]
pub struct Trace {
    window: Range<Cycle>,
    /// The only operation on the chip, if there is one at a time.
    current: Option<(u16, u64)>,
    events: Vec<TraceEvent>,
    /// Events that are recorded at most.
    most: usize,
    /// Events for which there was no room, and the cycle of the first.
    dropped: u64,
    whole_to: Option<Cycle>,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::of(MOST_EVENTS)
    }
}

impl Trace {
    /// One that records at most so many events.
    fn of(most: usize) -> Trace {
        Trace { window: 0..0, current: None, events: Vec::new(), most, dropped: 0, whole_to: None }
    }

    /// Records from now on, if it is in this stretch.
    pub fn record(&mut self, window: Range<Cycle>) {
        self.window = window;
    }

    /// Software begins the only operation that is under way.
    pub fn begin(&mut self, core: u16, number: u64) {
        self.current = Some((core, number));
    }

    /// The operation of a core that began in cycle `start` is over.
    #[inline]
    pub fn end(&mut self, core: u16, number: u64, start: Cycle, now: Cycle) {
        self.current = None;
        if self.window.contains(&start) {
            self.note_end(core, number, start, now);
        }
    }

    /// A message is sent; its place in the trace.
    #[inline]
    pub fn sent(&mut self, now: Cycle, from: Part, to: Part, payload: &Payload) -> u32 {
        if self.window.contains(&now) { self.note(now, from, to, payload) } else { UNTRACED }
    }

    /// A message has arrived.
    #[inline]
    pub fn arrived(&mut self, index: u32, now: Cycle) {
        if index != UNTRACED {
            let event = &mut self.events[index as usize];
            event.duration_cycles = now - event.cycle;
        }
    }

    /// All that was recorded and has come to its end, and how much was not recorded.
    pub fn take(&mut self) -> Recording {
        let mut events = std::mem::take(&mut self.events);
        events.retain(|event| event.duration_cycles != UNDER_WAY);
        events.sort_by_key(|event| event.cycle);
        let (dropped, whole_to) = (std::mem::take(&mut self.dropped), self.whole_to.take());
        Recording { events, dropped, whole_to }
    }

    /// There is no room for an event of this cycle.
    fn drop_event(&mut self, cycle: Cycle) {
        self.dropped += 1;
        self.whole_to = Some(self.whole_to.map_or(cycle, |first| first.min(cycle)));
    }

    #[cold]
    fn note_end(&mut self, core: u16, number: u64, start: Cycle, now: Cycle) {
        if self.events.len() == self.most {
            return self.drop_event(start);
        }
        self.events.push(TraceEvent {
            cycle: start,
            duration_cycles: now - start,
            transaction: Some((core, number)),
            part: format!("core[{core}]"),
            to: None,
            what: "remote read".to_owned(),
        });
    }

    #[cold]
    fn note(&mut self, cycle: Cycle, from: Part, to: Part, payload: &Payload) -> u32 {
        if self.events.len() == self.most {
            self.drop_event(cycle);
            return UNTRACED;
        }
        self.events.push(TraceEvent {
            cycle,
            duration_cycles: UNDER_WAY,
            transaction: self.current,
            part: from.to_string(),
            to: Some(to.to_string()),
            what: format!("{} {from} -> {to}", describe(payload)),
        });
        self.events.len() as u32 - 1
    }
}

/// The name of a message, in the paper's words where it has them.
pub fn describe(payload: &Payload) -> String {
    match payload {
        Payload::Coherence { line, message, .. } => format!("{} block {line:#x}", name(message)),
        Payload::ToL1 { line, message } => format!("{} to L1, block {line:#x}", name(message)),
        Payload::ToBackSide { line, message, .. } => {
            format!("{} to NI cache, block {line:#x}", name(message))
        }
        Payload::MemoryRead { line, .. } => format!("read memory, block {line:#x}"),
        Payload::MemoryWrite { line, .. } => format!("write back, block {line:#x}"),
        Payload::MemoryData { line, .. } => format!("memory data, block {line:#x}"),
        Payload::Net(NetPacket { packet, .. }) => {
            let kind = if matches!(packet, Packet::Request(_)) { "request" } else { "reply" };
            format!("{kind} {:?} offset {:#x}", header(packet).op, header(packet).offset)
        }
        Payload::Scratchpad(packet) => format!("{:?} at {:#x}", packet.class(), packet.to()),
        Payload::ThroughWrite { line, .. } => format!("write through, block {line:#x}"),
        Payload::Tlp(_) => "TLP".to_owned(),
        Payload::Content { .. } => "Content".to_owned(),
        Payload::Device(_) => "Device".to_owned(),
        Payload::Credit { from, .. } => format!("credit of node {from}"),
        Payload::Work { qp, slot, .. } => format!("WQ entry {slot} of core {qp}"),
        Payload::Completion { qp, slot, .. } => format!("completion of entry {slot} of core {qp}"),
    }
}

fn name<D>(message: &Message<D>) -> &'static str {
    match message {
        Message::Request(request) => match request {
            Request::GetS => "GetRO",
            Request::GetX => "GetX",
            Request::PutM(_) => "PutM",
            Request::PutE => "PutE",
            Request::ReadOnce => "ReadOnce",
            Request::Update(_) => "Update",
        },
        Message::Forward(forward) => match forward {
            Forward::Inv { .. } => "Inv",
            Forward::FwdGetS { .. } => "FwdGetRO",
            Forward::FwdGetX { .. } => "FwdGetX",
            Forward::FwdRead { .. } => "FwdRead",
            Forward::Recall => "Recall",
            Forward::PutAck => "PutAck",
        },
        Message::Response(response) => match response {
            Response::Data { acks: 0, .. } => "Data",
            Response::Data { .. } => "Data+MissNotify",
            Response::InvAck => "InvACK",
            Response::Recalled { .. } => "Recalled",
            Response::Unblock(None) => "Ack",
            Response::Unblock(Some(_)) => "Ack with block",
            Response::Updated(_) => "Updated",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_recorded_is_counted() {
        let mut trace = Trace::of(3);
        trace.record(100..200);
        let payload = Payload::MemoryRead { line: 7, to: Part::Home(0) };
        let mut places = Vec::new();
        for cycle in [99, 100, 110, 120, 130, 140, 200] {
            places.push(trace.sent(cycle, Part::Home(0), Part::Memory(0), &payload));
        }
        places.into_iter().for_each(|place| trace.arrived(place, 300));
        // A read that began before the first message that was left out.
        trace.end(0, 1, 125, 150);
        let found = trace.take();
        assert_eq!((found.events.len(), found.dropped, found.whole_to), (3, 3, Some(125)));
        let rest = trace.take();
        assert_eq!((rest.events.len(), rest.dropped, rest.whole_to), (0, 0, None));
    }
}
