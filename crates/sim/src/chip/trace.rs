//! Messages of chosen reads, for people to follow.

use super::layout::Part;
use super::message::{Payload, UNTRACED};
use crate::coherence::{Forward, Message, Request, Response};
use crate::engine::Cycle;
use crate::report::TraceEvent;

/// Records messages while a traced read is under way.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Reads that are still to be recorded.
    left: u32,
    /// The read that is being recorded.
    current: Option<(u16, u64)>,
    events: Vec<TraceEvent>,
}

impl Trace {
    /// Records the next `reads` reads.
    pub fn record(&mut self, reads: u32) {
        self.left = reads;
    }

    /// Software begins a read.
    pub fn begin(&mut self, core: u16, number: u64) {
        if self.left > 0 {
            self.left -= 1;
            self.current = Some((core, number));
        }
    }

    /// Software has finished it.
    pub fn end(&mut self, start: Cycle, now: Cycle) {
        if let Some(transaction) = self.current.take() {
            self.events.push(TraceEvent {
                cycle: start,
                duration_cycles: now - start,
                transaction,
                part: format!("core[{}]", transaction.0),
                what: "remote read".to_owned(),
            });
        }
    }

    /// A message is sent; where the trace has it.
    #[inline]
    pub fn sent(&mut self, now: Cycle, from: Part, to: Part, payload: &Payload) -> u32 {
        match self.current {
            None => UNTRACED,
            Some(transaction) => self.note(now, transaction, from, to, payload),
        }
    }

    /// A message has arrived.
    #[inline]
    pub fn arrived(&mut self, index: u32, now: Cycle) {
        if index != UNTRACED {
            let event = &mut self.events[index as usize];
            event.duration_cycles = now - event.cycle;
        }
    }

    /// All that was recorded, in the order of time.
    pub fn take(&mut self) -> Vec<TraceEvent> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.cycle);
        events
    }

    #[cold]
    fn note(
        &mut self,
        cycle: Cycle,
        transaction: (u16, u64),
        from: Part,
        to: Part,
        payload: &Payload,
    ) -> u32 {
        let what = format!("{} {from} -> {to}", describe(payload));
        let part = from.to_string();
        self.events.push(TraceEvent { cycle, duration_cycles: 0, transaction, part, what });
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
        Payload::MemoryRead { line } => format!("read memory, block {line:#x}"),
        Payload::MemoryWrite { line, .. } => format!("write back, block {line:#x}"),
        Payload::MemoryData { line, .. } => format!("memory data, block {line:#x}"),
        Payload::Net(packet) => match &packet.packet {
            rackmem_abi::Packet::Request(request) => {
                format!("request {:?} offset {:#x}", request.header.op, request.header.offset)
            }
            rackmem_abi::Packet::Reply(reply) => {
                format!("reply {:?} offset {:#x}", reply.header.op, reply.header.offset)
            }
        },
        Payload::Scratchpad(packet) => format!("{:?} at {:#x}", packet.class(), packet.to()),
        Payload::ThroughWrite { line, .. } => format!("write through, block {line:#x}"),
        Payload::Tlp(_) => "TLP".to_owned(),
        Payload::Freight { from, .. } => format!("freight of node {from}"),
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
