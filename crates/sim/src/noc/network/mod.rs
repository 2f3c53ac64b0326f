//! The simulator: state in flat arrays, one function per phase of a cycle.
//!
//! A network has two halves: [`routers`] with the links between them, and its [`ends`], where endpoints send and take
//! packets. Flits, credits and tails need a cycle at least from one half to the other, so both have the same cycle at
//! the same time, and between two cycles they are handed over ([`crossing`]). In a cycle of the routers, flits and
//! credits arrive ([`arrive`]), then routers that have something to allocate do so ([`allocate`]); in one of the ends,
//! packets reach endpoints, then sources send ([`source`]). [`build`] lays out the arrays.

mod allocate;
mod arrive;
mod build;
mod crossing;
mod ends;
mod in_turn;
mod islip;
mod packets;
mod partner;
mod routers;
mod source;
mod state;
mod stats;
mod stuck;
#[cfg(test)]
mod tests;
mod wheel;

pub use stats::{LinkLoad, Stats, VnetStats};
pub use stuck::Stuck;

use std::cell::OnceCell;
use std::mem;

use super::spec::Packet;
use super::topology::Topology;
use crate::engine::Cycle;
use crossing::Crossing;
use ends::Ends;
use partner::Partner;
use routers::Routers;

/// A network with the packets in it.
pub struct Network {
    /// The cycle that is simulated next.
    now: Cycle,
    ends: Ends,
    /// Empty while the second thread has them, until somebody looks.
    routers: OnceCell<Half>,
    partner: Option<Partner>,
}

/// The routers, and what they have for the ends or get from them.
struct Half {
    routers: Box<Routers>,
    crossing: Crossing,
}

impl Half {
    /// Has what reaches the ends in a cycle, which may not be the one after the last that was simulated.
    fn hand_out(&mut self, cycle: Cycle) {
        if self.crossing.outward.cycle != cycle {
            self.routers.hand_out(cycle, &mut self.crossing.outward);
        }
    }

    fn tick(&mut self, now: Cycle) {
        self.routers.tick(now, &mut self.crossing);
    }
}

/// A packet that has arrived, with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// As it was handed to [`Network::send`].
    pub packet: Packet,
    /// Cycle in which it was sent.
    pub created: Cycle,
    /// Cycle in which its head left the source queue.
    pub injected: Cycle,
    /// Cycle in which its tail reached the endpoint.
    pub arrived: Cycle,
    /// Links between routers that it crossed.
    pub hops: u8,
}

impl Network {
    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        self.ends.endpoints()
    }

    /// The graph of routers, links and endpoints.
    pub fn topology(&self) -> &Topology {
        &self.routers().topology
    }

    /// The cycle that the next [`tick`](Network::tick) simulates.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// Puts a packet into the queue of its source and virtual network, which has no limit.
    ///
    /// # Panics
    /// An endpoint or virtual network does not exist, or the packet has no flits.
    pub fn send(&mut self, packet: Packet) {
        self.ends.send(packet, self.now);
    }

    /// Packets that wait at a source in the queue of a virtual network, including one that has left in part.
    pub fn queued(&self, src: u16, vnet: u8) -> usize {
        self.ends.queued(src, vnet)
    }

    /// Has a second thread simulate routers from now on, where that is faster.
    pub fn work_in_two(&mut self) {
        self.partner = Some(Partner::new());
    }

    /// The routers, when the second thread has given them back.
    fn half(&self) -> &Half {
        let end = || self.partner.as_ref().map(Partner::end);
        self.routers.get_or_init(|| end().expect("the second thread has the routers"))
    }

    fn routers(&self) -> &Routers {
        &self.half().routers
    }

    /// Simulates one cycle of all routers and links.
    pub fn tick(&mut self) {
        self.tick_with(Half::tick);
    }

    /// Simulates one cycle, that of the routers in this way.
    fn tick_with(&mut self, tick: fn(&mut Half, Cycle)) {
        self.half();
        if let Some(half) = self.routers.get_mut() {
            half.hand_out(self.now);
            mem::swap(&mut half.crossing, &mut self.ends.crossing);
            tick(half, self.now);
        }
        self.ends.tick(self.now);
        self.now += 1;
    }

    /// Simulates one cycle, that of the routers by the second thread if that is worth it.
    #[inline]
    fn tick_in_two(&mut self) {
        // With less, the routers have too little to do for a second thread.
        let is_busy = self.ends.live >= self.endpoints() as u64 / 4;
        let Some(partner) = self.partner.as_mut().filter(|_| is_busy) else { return self.tick() };
        if !partner.is_worth_it() {
            return self.tick();
        }
        let near = mem::take(&mut self.ends.crossing);
        self.ends.crossing = match self.routers.take() {
            Some(half) => partner.begin(half, near, self.now),
            None => partner.go_on(near, self.now),
        };
        self.ends.tick(self.now);
        self.now += 1;
    }

    /// Whether nothing is queued or on its way; delivery queues may hold packets.
    pub fn is_idle(&self) -> bool {
        self.ends.live == 0
    }

    /// The next cycle in which something happens if nothing is sent or taken until then: `now` if a
    /// router or source has work, `None` if the network is idle or all packets in it wait: for full
    /// delivery queues, or for each other.
    pub fn next_event(&self) -> Option<Cycle> {
        let Network { now, ends, .. } = self;
        if ends.live == 0 {
            return None;
        }
        // Then nobody needs to wait for the routers.
        if ends.have_work() {
            return Some(*now);
        }
        let Half { routers, crossing } = self.half();
        let inward = &ends.crossing.inward;
        if routers.has_work || !crossing.outward.is_empty() || routers.would_wake(inward) {
            return Some(*now);
        }
        let flits = (!inward.flits.events().is_empty()).then_some(inward.arrive_at);
        flits.into_iter().chain(routers.next_arrival(*now)).min()
    }

    /// Lets time pass in which nothing happens, up to `cycle`, which is simulated next.
    ///
    /// # Panics
    /// There is an event before that cycle.
    pub fn skip_to(&mut self, cycle: Cycle) {
        assert!(
            self.next_event().is_none_or(|event| event >= cycle),
            "cycle {cycle} is after the next event"
        );
        self.pass_to(cycle);
    }

    /// Simulates this cycle, whether or not something happens in it.
    ///
    /// # Panics
    /// In debug builds, if there is an event before that cycle.
    #[inline]
    pub fn simulate(&mut self, cycle: Cycle) {
        if self.now < cycle {
            debug_assert!(self.next_event().is_none_or(|event| event >= cycle));
            self.pass_to(cycle);
        }
        let is_away = self.routers.get().is_none();
        if self.ends.live != 0 && self.now == cycle && (is_away || self.has_work()) {
            self.tick_in_two();
        } else {
            self.pass_to(cycle + 1);
        }
    }

    /// Whether something may happen in the cycle that is simulated next.
    #[inline]
    fn has_work(&self) -> bool {
        let Network { now, ends, .. } = self;
        let Half { routers, crossing } = self.half();
        routers.has_work
            || ends.have_work()
            || !ends.crossing.inward.is_empty()
            || !crossing.outward.is_empty()
            || routers.has_arrivals(*now)
    }

    /// Lets time pass up to a cycle before which there is no event.
    fn pass_to(&mut self, cycle: Cycle) {
        // Credits of the last packets may still be on their way back.
        while self.now < cycle && self.has_credit_before(cycle) {
            self.tick();
        }
        self.now = self.now.max(cycle);
    }

    fn has_credit_before(&self, cycle: Cycle) -> bool {
        let Half { routers, crossing } = self.half();
        let is_handed_out = !crossing.outward.credits.events().is_empty();
        if is_handed_out {
            crossing.outward.cycle < cycle
        } else {
            routers.has_credit(self.now..cycle)
        }
    }

    /// Endpoints with packets in a delivery queue, in the order of their numbers.
    pub fn arrived(&self) -> impl Iterator<Item = u16> + '_ {
        self.arrived_words()
            .iter()
            .enumerate()
            .flat_map(|(word, &bits)| Bits(bits).map(move |bit| (word * 64 + bit) as u16))
    }

    /// One bit per endpoint with packets in a delivery queue, 64 to a word.
    pub fn arrived_words(&self) -> &[u64] {
        &self.ends.arrived
    }

    /// The packet that [`take`](Network::take) would take.
    pub fn peek(&self, endpoint: u16, vnet: u8) -> Option<&Packet> {
        self.ends.peek(endpoint, vnet)
    }

    /// Takes the packet that has waited longest in a delivery queue.
    pub fn take(&mut self, endpoint: u16, vnet: u8) -> Option<Packet> {
        self.take_timed(endpoint, vnet).map(|delivered| delivered.packet)
    }

    /// As [`take`](Network::take), with the packet's times.
    pub fn take_timed(&mut self, endpoint: u16, vnet: u8) -> Option<Delivered> {
        self.ends.take(endpoint, vnet)
    }

    /// Counters since the network was built.
    pub fn stats(&self) -> Stats {
        let directory_turns_at_edge = self.routers().directory_turns_at_edge;
        Stats { vnets: self.ends.counts.clone(), directory_turns_at_edge }
    }

    /// Flits on each link between routers, with its place on the floor plan.
    pub fn link_loads(&self) -> impl Iterator<Item = LinkLoad> + '_ {
        self.routers().link_loads()
    }
}

/// The numbers of the bits that are set.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}
