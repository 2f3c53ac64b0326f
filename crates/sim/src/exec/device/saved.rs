//! Checkpoints of the driver and of a network interface that is at rest: contexts, queue pairs with their positions,
//! and what the driver knows of other nodes. Contents of queues and segments are in memory.

use std::collections::BTreeMap;

use rackmem_abi::{CQ_ENTRY_BYTES, Status, WQ_ENTRY_BYTES};
use rackmem_riscv::space::{PAGE, TOP};
use rackmem_rmc::Rights;
use rackmem_rmc::qp::Cursor;
use serde::{Deserialize, Serialize};

use super::{Device, MOST_ENTRIES, Notice};
use crate::block::BLOCK_BYTES;
use crate::chip::Chip;
use crate::chip::ni::Ni;
use crate::engine::{Cycle, MOST};
use crate::exec::ExecError;
use crate::exec::checkpoint::{Checked, Clock, countable, require};
use crate::exec::controller::{self, Queues, Segment};
use crate::exec::pages::{Pages, User, pages};

/// The state of a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub(super) contexts: Vec<Context>,
    /// By handle.
    pub(super) queue_pairs: BTreeMap<u64, Pair>,
    next_handle: u64,
    ended: Vec<bool>,
    arriving: Vec<(Cycle, u16, Notice)>,
}

/// A part of the state for each context.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Context {
    pub segment: Option<Segment>,
    /// The code of the status with which requests end if there is no segment.
    status: u8,
    notifications: u64,
    /// Whether a node has joined it, by node.
    peers: Vec<bool>,
}

/// A queue pair without operations in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pair {
    ctx_id: u16,
    /// The core whose thread has made it.
    pub core: u16,
    entries: u16,
    may_write: bool,
    /// Virtual addresses of the rings, each without gaps in memory, and the index and phase of their next entries.
    pub rings: [(u64, u32, bool); 2],
}

impl State {
    /// Virtual addresses and sizes in bytes of the queues.
    pub fn rings(&self) -> impl Iterator<Item = (u64, u64)> {
        self.queue_pairs.values().flat_map(|pair| {
            let bytes = pair.ring_bytes();
            std::array::from_fn::<_, 2, _>(|at| (pair.rings[at].0, bytes[at]))
        })
    }

    /// Checks that all pages of its queues are some of the process.
    pub fn check_rings(&self, is_queue: impl Fn(u64) -> bool) -> Checked {
        for (handle, pair) in &self.queue_pairs {
            let mut pages = pair.ring_pages();
            require(pages.all(&is_queue), || {
                format!("queue_pairs[{handle}]: has a queue where no page of queues is")
            })?;
        }
        Ok(())
    }

    /// Checks what was read.
    pub fn check(&self) -> Checked {
        let nodes = self.ended.len();
        for (ctx_id, context) in self.contexts.iter().enumerate() {
            let Context { segment, peers, .. } = context;
            let is_sound = segment.as_ref().is_none_or(|&Segment { address, bytes }| {
                (address | bytes) % PAGE == 0 && address < TOP && bytes < TOP
            });
            require(is_sound && peers.len() == nodes, || {
                format!("contexts[{ctx_id}]: has no such segment, or other nodes than {nodes}")
            })?;
        }
        for (at, &(cycle, from, notice)) in self.arriving.iter().enumerate() {
            let is_of_context = match notice {
                Notice::Joined(ctx_id) => usize::from(ctx_id) < self.contexts.len(),
                Notice::Ended => true,
            };
            require(cycle < MOST && usize::from(from) < nodes && is_of_context, || {
                format!("arriving[{at}]: no node {from} says so in cycle {cycle}")
            })?;
        }
        countable("next_handle", self.next_handle)?;
        let last = self.queue_pairs.keys().next_back();
        require(last.is_none_or(|&last| last < self.next_handle), || {
            format!("next_handle: is {}, and there is {last:?}", self.next_handle)
        })?;
        for (handle, pair) in &self.queue_pairs {
            let context = self.contexts.get(usize::from(pair.ctx_id));
            let is_joined = context.is_some_and(|context| context.segment.is_some());
            require(is_joined && pair.is_sound(), || {
                format!("queue_pairs[{handle}]: is {pair:?}")
            })?;
        }
        Ok(())
    }

    fn is_used(&self) -> bool {
        !self.ended.is_empty()
    }
}

impl Pair {
    /// Bytes of the work and of the completion queue.
    pub fn ring_bytes(&self) -> [u64; 2] {
        [WQ_ENTRY_BYTES, CQ_ENTRY_BYTES].map(|entry| u64::from(self.entries) * entry as u64)
    }

    /// Virtual addresses of the pages of its rings.
    fn ring_pages(&self) -> impl Iterator<Item = u64> {
        let rings = self.rings.iter().zip(self.ring_bytes());
        rings.flat_map(|(&(address, ..), bytes)| pages(address, bytes))
    }

    /// Whether its size is one, its rings have addresses and its positions are within its rings.
    fn is_sound(&self) -> bool {
        let entries = u64::from(self.entries);
        let is_ring = |&(address, index, _): &(u64, u32, bool)| {
            address % BLOCK_BYTES == 0 && address < TOP && u64::from(index) < entries
        };
        let is_size = entries.is_power_of_two() && entries <= MOST_ENTRIES;
        is_size && self.rings.iter().all(is_ring)
    }
}

impl Device {
    /// Its state; the network interface has nothing under way.
    pub fn state(&self, pages: &Pages, chip: &mut Chip) -> State {
        let mut state = State {
            contexts: vec![],
            queue_pairs: BTreeMap::new(),
            next_handle: self.next_handle,
            ended: vec![],
            arriving: vec![],
        };
        if self.is_unused() {
            return state;
        }
        for (ctx_id, (segment, peers)) in (0..).zip(self.joined.iter().zip(&self.peers)) {
            let status = controller::status(ctx_id, pages, chip).unwrap_or(Status::NoContext);
            state.contexts.push(Context {
                segment: *segment,
                status: status as u8,
                notifications: controller::notifications(ctx_id, chip),
                peers: peers.clone(),
            });
        }
        let pairs = self.queue_pairs.iter().filter_map(|(&handle, (ctx_id, queues))| {
            let (config, cursors) = controller::position(queues, chip)?;
            let ring = |at: usize| (queues.addresses[at], cursors[at].index, cursors[at].phase);
            let may_write = config.rights == Rights::ReadWrite;
            let (core, entries, rings) = (queues.core, config.size as u16, [ring(0), ring(1)]);
            Some((handle, Pair { ctx_id: *ctx_id, core, entries, may_write, rings }))
        });
        state.queue_pairs = pairs.collect();
        (state.ended, state.arriving) = (self.ended.clone(), self.arriving.clone());
        state
    }

    /// Goes on from a state, whose memory is at these places.
    ///
    /// # Errors
    /// The machine has fewer contexts or queue pairs, or other nodes; or nothing like this was ever saved.
    pub fn restore(
        &mut self,
        state: State,
        clock: Clock,
        user: &mut User<'_>,
    ) -> Result<(), ExecError> {
        if !state.is_used() {
            return Ok(());
        }
        let has_part = state.contexts.iter().any(|context| context.segment.is_some());
        let has_part = has_part || !state.queue_pairs.is_empty();
        if has_part && !matches!(user.chip.ni, Ni::Sonuma(_) | Ni::QueuePairs(_)) {
            let why = "ni.placement: the checkpoint has a part in a context, which this interface has not";
            return Err(ExecError::Machine(why.to_owned()));
        }
        let (then, now) = (state.ended.len(), self.ended.len());
        if then != now {
            return Err(ExecError::Machine(format!(
                "network.remote: a process of the checkpoint knows {then} nodes, and here there are {now}: set it as \
                 it was, or take the checkpoint where it is \"nodes\""
            )));
        }
        let notifications = state.contexts.iter().map(|context| context.notifications).collect();
        for (ctx_id, context) in state.contexts.into_iter().enumerate() {
            self.restore_context(ctx_id, context, user)?;
        }
        for (handle, pair) in state.queue_pairs {
            self.queue_pairs.insert(handle, restore_pair(&pair, user)?);
        }
        self.next_handle = state.next_handle;
        for (at, from, notice) in state.arriving {
            // On a machine with fewer contexts, nobody here is in the others.
            if !matches!(notice, Notice::Joined(ctx_id) if usize::from(ctx_id) >= self.joined.len())
            {
                self.receive(clock.cycle(at), from, notice);
            }
        }
        self.ended = state.ended;
        controller::restore_notifications(notifications, user.chip);
        Ok(())
    }

    fn restore_context(
        &mut self,
        ctx_id: usize,
        context: Context,
        user: &mut User<'_>,
    ) -> Result<(), ExecError> {
        if ctx_id >= self.joined.len() {
            let is_used = context.segment.is_some() || context.peers.contains(&true);
            return match is_used {
                true => Err(ExecError::Machine(format!(
                    "system.contexts: the checkpoint has a part in context {ctx_id}; give the nodes more"
                ))),
                false => Ok(()),
            };
        }
        let status = Status::from_code(context.status).unwrap_or(Status::NoContext);
        controller::enter_context(ctx_id as u16, context.segment.ok_or(status), user);
        self.joined[ctx_id] = context.segment;
        self.peers[ctx_id] = context.peers;
        Ok(())
    }
}

fn restore_pair(pair: &Pair, user: &mut User<'_>) -> Result<(u16, Queues), ExecError> {
    let &Pair { ctx_id, core, entries, may_write, rings } = pair;
    let rights = if may_write { Rights::ReadWrite } else { Rights::ReadOnly };
    let cursors = rings.map(|(_, index, phase)| Cursor { index, phase });
    let addresses = rings.map(|(address, ..)| address);
    let queues = controller::reattach((ctx_id, core), addresses, (entries, rights), cursors, user)?;
    Ok((ctx_id, queues))
}
