//! Request generation: takes posted requests and sends their lines, one after the other.

use super::itt::Itt;
use super::packet::{Format, Line, REQUEST};
use super::source::Source;
use crate::engine::Cycle;
use crate::machine::spec::NodeSpec;
use crate::noc::Network;

/// The resource that holds up an RGP which has a request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stall {
    /// All entries of the ITT are in use.
    Table,
    /// As many lines are under way as may be.
    FlowControl,
    /// The queue to the router is full.
    Port,
}

/// Kinds of [`Stall`].
pub(super) const STALLS: usize = 3;

/// The time at which an RGP has to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Soon,
    /// In this cycle.
    At(Cycle),
    /// As soon as the node gets a reply or completes a request.
    Woken,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rgp {
    /// Destination and place in the ITT of the request that is being sent.
    to: u16,
    slot: u16,
    /// Its lines that have not been sent.
    lines_left: u32,
    /// The earliest cycle for the next line.
    free_at: Cycle,
    /// Requests that it has taken.
    pub requests: u64,
    /// Lines under way, of all requests.
    pub outstanding: u32,
    /// Resource that holds it up, and the cycle since which it does.
    stalled: Option<(Stall, Cycle)>,
    /// Cycles for which it was held up, by [`Stall`].
    pub stall_cycles: [u64; STALLS],
}

/// The parts of the node and of the rack that an RGP works with.
pub(super) struct Surroundings<'a> {
    pub node: u16,
    pub spec: &'a NodeSpec,
    pub format: &'a Format,
    pub source: &'a mut Source,
    pub itt: &'a mut Itt,
    pub network: &'a mut Network,
}

impl Rgp {
    #[inline]
    pub fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Counts up to now for how long it has been held up.
    #[inline]
    pub fn settle(&mut self, now: Cycle) {
        if let Some((stall, since)) = &mut self.stalled {
            self.stall_cycles[*stall as usize] += now - *since;
            *since = now;
        }
    }

    /// A cycle: sends a line if it can.
    pub fn step(&mut self, now: Cycle, around: &mut Surroundings<'_>) -> Next {
        self.settle(now);
        self.stalled = None;
        if now < self.free_at {
            return Next::At(self.free_at);
        }
        if self.lines_left == 0
            && let Err(next) = self.accept(now, around)
        {
            return next;
        }
        let most = around.spec.max_outstanding_lines;
        if most != 0 && self.outstanding >= most {
            return self.stall(Stall::FlowControl, now);
        }
        let queued = around.network.queued(around.node, REQUEST);
        if queued >= around.spec.request_queue_packets as usize {
            return self.stall(Stall::Port, now);
        }
        self.send(now, around)
    }

    /// Takes the next request, or says when there may be one.
    fn accept(&mut self, now: Cycle, around: &mut Surroundings<'_>) -> Result<(), Next> {
        let Some(posted) = around.source.next() else { return Err(Next::Woken) };
        // Requests behind others pass the first stages while those are unrolled.
        let ready = posted + u64::from(around.spec.rgp_cycles);
        if now < ready {
            return Err(Next::At(ready));
        }
        let lines = around.format.lines();
        let Some(slot) = around.itt.open(posted, lines) else {
            return Err(self.stall(Stall::Table, now));
        };
        (self.slot, self.lines_left) = (slot, lines);
        self.to = around.source.take();
        self.requests += 1;
        Ok(())
    }

    fn send(&mut self, now: Cycle, around: &mut Surroundings<'_>) -> Next {
        let line = Line { slot: self.slot, length: around.format.length(self.lines_left) };
        around.network.send(around.format.packet(REQUEST, around.node, self.to, line));
        self.lines_left -= 1;
        self.outstanding += 1;
        self.free_at = now + u64::from(around.spec.unroll_interval_cycles);
        if self.free_at == now + 1 { Next::Soon } else { Next::At(self.free_at) }
    }

    fn stall(&mut self, stall: Stall, now: Cycle) -> Next {
        self.stalled = Some((stall, now));
        // Nothing tells that a packet has left its queue.
        if stall == Stall::Port { Next::Soon } else { Next::Woken }
    }
}
