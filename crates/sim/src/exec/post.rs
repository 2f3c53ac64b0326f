//! What the operating systems of a rack tell each other, and when it arrives: messages about memory travel as long as
//! packets of the fabric, and segments of sockets go by an Ethernet of their own (`lan`).
//!
//! A node's segments leave one after the other, at the rate of its link. Datagrams that find too many before them are
//! lost, as where the queue of an interface is full; connections wait for their receivers' room. The switch has a link
//! for each node, and what several nodes send to one at the same time does not wait there.

use rackmem_riscv::network::{Content, Segment};

use super::borrow::lease::Message;
use crate::chip::wires::latency_cycles;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;

/// Bytes that wait for a link before datagrams are lost: 1000 full frames (`txqueuelen` of Linux).
const MOST_WAITING_BYTES: u64 = 1000 * 1538;

/// Something that one operating system tells another one.
#[derive(Clone, Debug)]
pub enum Letter {
    /// About memory that one of them lends.
    Lease(Message),
    /// Of a socket of the sender's program.
    Segment(Segment),
}

/// The letters of a node, and its link to the Ethernet.
#[derive(Clone, Debug)]
pub struct Post {
    clock_ghz: f64,
    fabric_cycles: Cycle,
    latency_ps: u64,
    ps_per_byte: f64,
    /// The time at which the link is free again.
    free_ps: u64,
    /// For other nodes: when it arrives, and where.
    outbox: Vec<(Cycle, u16, Letter)>,
    /// On their way from other nodes: when they arrive, from whom.
    arriving: Vec<(Cycle, u16, Letter)>,
    segments: u64,
    bytes: u64,
    lost: u64,
}

impl Post {
    pub fn new(machine: &Machine) -> Post {
        Post {
            clock_ghz: machine.clock_ghz,
            fabric_cycles: latency_cycles(machine).max(1),
            latency_ps: (machine.lan.latency_ns * 1000.0).round() as u64,
            ps_per_byte: 8000.0 / machine.lan.gbit_s,
            free_ps: 0,
            outbox: Vec::new(),
            arriving: Vec::new(),
            segments: 0,
            bytes: 0,
            lost: 0,
        }
    }

    /// Sends a message about memory, which leaves in this cycle.
    pub fn tell(&mut self, leaves: Cycle, to: u16, message: Message) {
        self.outbox.push((leaves + self.fabric_cycles, to, Letter::Lease(message)));
    }

    /// Sends a segment that is ready to leave in this cycle. Its last bit decides when it arrives.
    pub fn send(&mut self, ready: Cycle, segment: Segment) {
        let bytes = segment.wire_bytes();
        let ready_ps = (ready as f64 * 1000.0 / self.clock_ghz) as u64;
        let is_stream = matches!(segment.content, Content::Stream { .. });
        let waiting_ps = self.free_ps.saturating_sub(ready_ps) as f64;
        if !is_stream && waiting_ps > MOST_WAITING_BYTES as f64 * self.ps_per_byte {
            self.lost += 1;
            return;
        }
        self.free_ps = self.free_ps.max(ready_ps) + (bytes as f64 * self.ps_per_byte) as u64;
        let arrives_ps = self.free_ps + self.latency_ps;
        let arrives = (arrives_ps as f64 * self.clock_ghz / 1000.0).ceil() as Cycle;
        // For so long nodes do not see each other.
        let arrives = arrives.max(ready + self.fabric_cycles);
        self.segments += 1;
        self.bytes += bytes;
        self.outbox.push((arrives, segment.to.node, Letter::Segment(segment)));
    }

    /// Takes the letters for other nodes, each with the cycle in which it arrives, and its receiver.
    pub fn take_leaving(&mut self) -> Vec<(Cycle, u16, Letter)> {
        std::mem::take(&mut self.outbox)
    }

    /// A letter of another node arrives at a cycle to come.
    pub fn receive(&mut self, at: Cycle, from: u16, letter: Letter) {
        self.arriving.push((at, from, letter));
    }

    /// The cycle in which the next letter arrives.
    pub fn next(&self) -> Option<Cycle> {
        self.arriving.iter().map(|&(at, ..)| at).min()
    }

    /// Takes the letters that have arrived by this cycle, with their senders: in the order of their times, of which it
    /// does not matter when they were sent.
    pub fn take_arrived(&mut self, now: Cycle) -> Vec<(u16, Letter)> {
        let mut arrived: Vec<_> = self.arriving.extract_if(.., |(at, ..)| *at <= now).collect();
        arrived.sort_by_key(|&(at, from, _)| (at, from));
        arrived.into_iter().map(|(_, from, letter)| (from, letter)).collect()
    }

    /// Whether nothing is on its way to the node.
    pub fn is_empty(&self) -> bool {
        self.arriving.is_empty()
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        stats.insert("lan.segments".to_owned(), self.segments as f64);
        stats.insert("lan.bytes".to_owned(), self.bytes as f64);
        stats.insert("lan.lost".to_owned(), self.lost as f64);
    }
}

#[cfg(test)]
mod tests {
    use rackmem_riscv::network::{Address, Connection, Kind};

    use super::*;

    fn segment(bytes: usize) -> Segment {
        let address = |node| Address { node, port: 80 };
        let connection = Connection { node: 0, count: 0 };
        let kind = Kind::Data(vec![0; bytes]);
        Segment { from: address(0), to: address(1), content: Content::Stream { connection, kind } }
    }

    #[test]
    fn segments_leave_one_after_the_other_at_the_rate_of_the_link() {
        let mut machine = Machine { clock_ghz: 2.0, ..Machine::default() };
        (machine.lan.latency_ns, machine.lan.gbit_s) = (1000.0, 8.0);
        let mut post = Post::new(&machine);
        // 84 bytes in 84 ns, 1538 bytes in 1538 ns.
        post.send(10, segment(6));
        post.send(10, segment(1460));
        post.send(100_000, segment(0));
        let arrivals: Vec<_> = post.take_leaving().iter().map(|&(at, to, _)| (at, to)).collect();
        let first = 10 + 2 * 84 + 2000;
        assert_eq!(arrivals, [(first, 1), (first + 2 * 1538, 1), (100_000 + 168 + 2000, 1)]);
        let mut stats = Figures::default();
        post.write_stats(&mut stats);
        let stats = stats.since(&Figures::default());
        assert_eq!((stats["lan.segments"], stats["lan.bytes"]), (3.0, 84.0 + 1538.0 + 84.0));
    }

    #[test]
    fn datagrams_are_lost_where_too_many_wait_for_the_link() {
        let mut post = Post::new(&Machine::default());
        let address = |node| Address { node, port: 80 };
        let content = Content::Datagram(vec![0; 1472]);
        let datagram = Segment { from: address(0), to: address(1), content };
        for _ in 0..1010 {
            post.send(10, datagram.clone());
        }
        post.send(10, segment(1460));
        assert_eq!(post.take_leaving().len(), 1001 + 1, "one leaves, and 1000 wait");
        assert_eq!(post.lost, 9);
        post.send(10 + 1_000_000_000, datagram);
        assert_eq!((post.take_leaving().len(), post.lost), (1, 9), "the queue is empty again");
    }

    #[test]
    fn letters_are_read_in_the_order_of_their_times() {
        let mut post = Post::new(&Machine::default());
        for (at, from) in [(30, 1), (20, 2), (20, 1), (20, 2), (40, 0)] {
            post.receive(at, from, Letter::Segment(segment(0)));
        }
        assert_eq!((post.next(), post.take_arrived(19).len()), (Some(20), 0));
        let from: Vec<u16> = post.take_arrived(30).iter().map(|&(from, _)| from).collect();
        assert_eq!((from, post.next(), post.is_empty()), (vec![1, 2, 2, 1], Some(40), false));
    }
}
