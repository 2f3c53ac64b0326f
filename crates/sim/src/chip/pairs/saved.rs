//! Checkpoints of connections that have no message under way.

use rackmem_riscv::space::{PAGE, TOP};
use rackmem_rmc::two_sided::Descriptor;
use serde::{Deserialize, Serialize};

use super::{ENTRY_BYTES, End, MOST, Pairs, Rings};
use crate::interconnect::qpair::EndPoint;

/// The connections of a node, by number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State(Vec<Pair>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pair {
    peer: EndPoint,
    /// Address and bytes of the process's memory for its buffers.
    region: (u64, u64),
    rings: Rings,
    /// Descriptors that were taken, of messages and of buffers, and completions.
    posted: [u32; 2],
    completed: u64,
    /// Address, bytes and id of the buffers that wait for messages.
    buffers: Vec<[u64; 3]>,
}

impl Pairs {
    /// Its connections, if there are some; no message is under way.
    pub fn state(&self) -> Option<State> {
        let connections = self.channel.queues.connections().zip(&self.around.ends);
        let pairs = connections.map(|((peer, region, buffers), end)| Pair {
            peer,
            region,
            rings: end.rings,
            posted: end.posted,
            completed: end.completed,
            buffers: buffers.map(|at| [at.offset, at.size_bytes, at.id]).collect(),
        });
        let pairs: Vec<Pair> = pairs.collect();
        (!pairs.is_empty()).then_some(State(pairs))
    }

    /// Opens the connections of a state that was checked; there are none yet.
    pub fn restore(&mut self, state: &State) {
        for Pair { peer, region, rings, posted, completed, buffers } in &state.0 {
            let Some(number) = self.open(*peer, *region, *rings) else { return };
            self.around.ends[usize::from(number)] =
                End { rings: *rings, posted: *posted, completed: *completed };
            for &[offset, size_bytes, id] in buffers {
                let buffer = Descriptor { offset, size_bytes, id };
                // The state was checked.
                let _ = self.channel.queues.post_receive(number, buffer);
            }
        }
    }
}

impl State {
    /// Checks what was read: queues of so many entries, in pages of which `is_queue` knows. Otherwise the number of the
    /// connection that cannot be so.
    pub fn wrong(&self, entries: u64, is_queue: impl Fn(u64) -> bool) -> Option<usize> {
        let is_ring = |at: u64, entries: u64| {
            let end = at.saturating_add(entries * ENTRY_BYTES);
            at % ENTRY_BYTES == 0
                && (at / PAGE..end.div_ceil(PAGE)).all(|page| is_queue(page * PAGE))
        };
        let is_sound = |Pair { region: (start, bytes), rings, completed, buffers, .. }: &Pair| {
            let is_region = start.checked_add(*bytes).is_some_and(|end| end <= TOP);
            let is_inside = |&[offset, size_bytes, id]: &[u64; 3]| {
                let buffer = Descriptor { offset, size_bytes, id };
                (1..=u64::from(u32::MAX)).contains(&size_bytes) && buffer.is_inside(*start, *bytes)
            };
            is_region
                && is_ring(rings.sends, entries)
                && is_ring(rings.receives, entries)
                && is_ring(rings.completions, 2 * entries)
                && *completed < 1 << 40
                && buffers.len() as u64 <= entries
                && buffers.iter().all(is_inside)
        };
        match self.0.len() as u64 <= MOST {
            true => self.0.iter().position(|pair| !is_sound(pair)),
            false => Some(MOST as usize),
        }
    }

    /// The nodes at the other ends.
    pub fn peers(&self) -> impl Iterator<Item = u16> {
        self.0.iter().map(|pair| pair.peer.node)
    }
}
