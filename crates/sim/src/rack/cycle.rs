//! The order within a cycle: events that are due, RGPs, the network, then RCPs and RRPPs.
//!
//! Parts act on each other over the network or the wheel, which take at least a cycle each, so the
//! order in which nodes are visited does not matter.

use super::packet::{Line, REPLY, REQUEST};
use super::rgp::{Next, Surroundings};
use super::{Event, Node, Rack};
use crate::engine::Cycle;

impl Rack {
    /// The next cycle in which something happens; `None` if nothing ever does.
    pub fn next_cycle(&self) -> Option<Cycle> {
        let busy = |words: &[u64]| words.iter().any(|&word| word != 0);
        if busy(&self.awake) || busy(self.network.arrived_words()) {
            return Some(self.now());
        }
        let nexts = [self.network.next_event(), self.wheel.next()];
        nexts.into_iter().flatten().min()
    }

    /// Simulates the next cycle in which something happens before `end`, or lets time pass until
    /// `end` if there is none; whether there was one.
    pub fn step(&mut self, end: Cycle) -> bool {
        let next = self.next_cycle().unwrap_or(Cycle::MAX);
        if next > self.now() {
            self.network.skip_to(next.min(end));
        }
        if next < end {
            self.cycle();
        }
        next < end
    }

    fn cycle(&mut self) {
        let now = self.now();
        if now > 0 {
            self.wheel.advance(now, &mut self.events);
        }
        for at in 0..self.events.len() {
            self.happen(now, self.events[at]);
        }
        self.events.clear();
        self.generate(now);
        self.network.tick();
        self.receive(now);
    }

    fn happen(&mut self, now: Cycle, event: Event) {
        match event {
            Event::Wake { node } => self.wake(node),
            Event::Reply { node, to, line } => {
                self.nodes[usize::from(node)].rrpp.in_service -= 1;
                self.network.send(self.format.packet(REPLY, node, to, line));
            }
            Event::Complete { node, slot } => self.complete(now, node, slot),
        }
    }

    fn wake(&mut self, node: u16) {
        self.awake[usize::from(node) / 64] |= 1 << (node % 64);
    }

    fn complete(&mut self, now: Cycle, number: u16, slot: u16) {
        let node = &mut self.nodes[usize::from(number)];
        let transfer = node.itt.close(slot);
        self.latencies[usize::from(transfer.hops)].add(now - transfer.posted);
        self.counts.requests_completed += 1;
        if let Some(source) = &mut node.source {
            source.completed(now);
        }
        self.wake(number);
    }

    /// Runs all RGPs that are awake.
    fn generate(&mut self, now: Cycle) {
        for word in 0..self.awake.len() {
            let mut bits = self.awake[word];
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let next = self.step_rgp(now, (word * 64 + bit) as u16);
                if next != Next::Soon {
                    self.awake[word] &= !(1 << bit);
                }
                if let Next::At(at) = next {
                    self.wake_at(now, at, (word * 64 + bit) as u16);
                }
            }
        }
    }

    /// Has an RGP be looked at in that cycle, unless it will be before.
    fn wake_at(&mut self, now: Cycle, at: Cycle, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        if node.wakes_at <= now || at < node.wakes_at {
            node.wakes_at = at;
            self.wheel.at(at, Event::Wake { node: number });
        }
    }

    fn step_rgp(&mut self, now: Cycle, number: u16) -> Next {
        let Node { source, rgp, itt, .. } = &mut self.nodes[usize::from(number)];
        let Some(source) = source else { return Next::Woken };
        rgp.step(
            now,
            &mut Surroundings {
                node: number,
                spec: &self.spec,
                format: &self.format,
                source,
                itt,
                network: &mut self.network,
            },
        )
    }

    /// Has RCPs and RRPPs take arrived packets.
    fn receive(&mut self, now: Cycle) {
        for word in 0..self.network.arrived_words().len() {
            let mut bits = self.network.arrived_words()[word];
            while bits != 0 {
                let number = (word * 64) as u16 + bits.trailing_zeros() as u16;
                bits &= bits - 1;
                self.take_reply(now, number);
                self.take_request(now, number);
            }
        }
    }

    fn take_reply(&mut self, now: Cycle, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        if now < node.rcp_free_at {
            return;
        }
        let Some(delivered) = self.network.take_timed(number, REPLY) else { return };
        let line = Line::of(&delivered.packet);
        node.rcp_free_at = now + u64::from(self.spec.rcp_interval_cycles);
        node.payload_bytes += u64::from(line.length);
        node.rgp.outstanding -= 1;
        self.counts.lanes[usize::from(REPLY)].add(now, &delivered);
        if node.itt.line(line.slot, delivered.hops) {
            let at = now + u64::from(self.spec.rcp_cycles);
            self.wheel.at(at, Event::Complete { node: number, slot: line.slot });
        }
        if node.rgp.is_stalled() {
            self.wake(number);
        }
    }

    fn take_request(&mut self, now: Cycle, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        if !node.rrpp.is_free(now, number, &self.spec, &self.network) {
            return;
        }
        let Some(delivered) = self.network.take_timed(number, REQUEST) else { return };
        let service = node.rrpp.accept(now, &self.spec);
        self.counts.memory_wait_cycles += service.memory_wait_cycles;
        self.counts.lanes[usize::from(REQUEST)].add(now, &delivered);
        let (to, line) = (delivered.packet.src, Line::of(&delivered.packet));
        self.counts.served_bytes += u64::from(line.length);
        self.wheel.at(service.replies_at, Event::Reply { node: number, to, line });
    }
}
