//! Remote request processing: takes requests that arrive, accesses memory, replies.

use super::packet::REPLY;
use crate::engine::Cycle;
use crate::machine::spec::NodeSpec;
use crate::noc::Network;

/// Memory time is counted in parts of a cycle, since bandwidths are no whole numbers.
const PARTS: u32 = 8;

/// The RRPP of a node, and its memory.
#[derive(Clone, Debug)]
pub(super) struct Rrpp {
    /// The earliest cycle for the next request.
    free_at: Cycle,
    /// Time at which the memory has moved all lines that it was asked for, in parts of a cycle.
    memory_free_at_parts: u64,
    /// Time in which the memory moves a line.
    line_parts: u64,
    /// Requests that it has taken and not yet answered.
    pub in_service: u32,
}

/// The times of a request that an RRPP has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Service {
    /// Cycle in which the reply is ready.
    pub replies_at: Cycle,
    /// For how long it waits for the memory.
    pub memory_wait_cycles: u64,
}

impl Rrpp {
    pub fn new(spec: &NodeSpec) -> Rrpp {
        let line_bytes = rackmem_abi::LINE_BYTES as f64;
        let line_parts = match spec.memory_bytes_per_cycle {
            0.0 => 0,
            bytes => (line_bytes / bytes * f64::from(1 << PARTS)).round() as u64,
        };
        Rrpp { free_at: 0, memory_free_at_parts: 0, line_parts, in_service: 0 }
    }

    /// Whether it takes a request now. Replies that wait for the router count as its own, so that
    /// their queue is as short as it is.
    #[inline]
    pub fn is_free(&self, now: Cycle, node: u16, spec: &NodeSpec, network: &Network) -> bool {
        let replies = network.queued(node, REPLY) as u32;
        now >= self.free_at && self.in_service + replies < spec.rrpp_transactions
    }

    #[inline]
    pub fn accept(&mut self, now: Cycle, spec: &NodeSpec) -> Service {
        self.free_at = now + u64::from(spec.rrpp_interval_cycles);
        self.in_service += 1;
        let asks_at = now + u64::from(spec.rrpp_request_cycles);
        let starts_at_parts = self.memory_free_at_parts.max(asks_at << PARTS);
        self.memory_free_at_parts = starts_at_parts + self.line_parts;
        let starts_at = starts_at_parts.div_ceil(1 << PARTS);
        let service = u64::from(spec.access_cycles) + u64::from(spec.rrpp_reply_cycles);
        Service { replies_at: starts_at + service, memory_wait_cycles: starts_at - asks_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_moves_as_many_bytes_as_it_can() {
        let spec = NodeSpec { memory_bytes_per_cycle: 12.8, ..NodeSpec::default() };
        let mut rrpp = Rrpp::new(&spec);
        let first = rrpp.accept(100, &spec);
        assert_eq!(first, Service { replies_at: 100 + 4 + 208 + 1, memory_wait_cycles: 0 });
        let last = (101..=120).map(|now| rrpp.accept(now, &spec)).last().unwrap();
        // Twenty lines of five cycles each go before it.
        assert_eq!(last.replies_at, first.replies_at + 20 * 5);
        assert_eq!(last.memory_wait_cycles, 80);
    }
}
