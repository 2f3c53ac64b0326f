//! The device driver of the remote memory controller, as programs call it: `guest/driver.h` has the
//! calls.

mod fixed;
mod saved;

use std::collections::BTreeMap;

use rackmem_abi::Status;
use rackmem_riscv::kernel::{Kernel, UserMemory};
use rackmem_riscv::space::{PAGE, Permissions};
use rackmem_rmc::Rights;
use serde::{Deserialize, Serialize};

use super::controller::{self, Queues, Segment, Spare};
use super::pages::User;
use crate::chip::Chip;
use crate::engine::Cycle;
use crate::scratchpad::table::{Refusal, Region};
pub use fixed::Fixed;
pub use saved::State;

/// The first of the driver's calls ("RAC"), and how many there are.
const FIRST_CALL: u64 = 0x5241_4300;
const CALLS: u64 = 10;

/// Flag: for remote reads only.
const READ_ONLY: u64 = 1;

const ENOENT: i64 = 2;
pub(super) const EIO: i64 = 5;
pub(super) const ENXIO: i64 = 6;
pub(super) const ENOMEM: i64 = 12;
pub(super) const EFAULT: i64 = 14;
const EEXIST: i64 = 17;
pub(super) const ENODEV: i64 = 19;
pub(super) const EINVAL: i64 = 22;
pub(super) const ENOSPC: i64 = 28;
const EPIPE: i64 = 32;
pub(super) const ENOSYS: i64 = 38;

/// A result, or an error's number.
pub(super) type Result<T = u64> = std::result::Result<T, i64>;

/// The outcome of a call: a value, or a sleep until a word of memory changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This value in `a0`.
    Value(u64),
    /// The hart sleeps until the word at this address is not this any more, or this time is over.
    Watch {
        address: u64,
        /// The value at which the hart sleeps on.
        value: u64,
        timeout_ns: u64,
    },
    /// The hart sleeps until another node has answered, or a copy is complete.
    Asking,
}

impl From<Result> for Answer {
    fn from(result: Result) -> Answer {
        Answer::Value(result.unwrap_or_else(|errno| -errno as u64))
    }
}

/// A message between drivers. It travels as long as a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// The sender's process has joined a context.
    Joined(u16),
    /// The sender's process has ended.
    Ended,
}

#[derive(Clone, Debug)]
pub struct Device {
    nid: u16,
    nodes: u16,
    joined: Vec<Option<Segment>>,
    /// By handle: context and queues.
    queue_pairs: BTreeMap<u64, (u16, Queues)>,
    /// The handle of the next queue pair: none is used again.
    next_handle: u64,
    pub spare: Spare,
    /// Whether a node has joined a context, by context.
    peers: Vec<Vec<bool>>,
    ended: Vec<bool>,
    /// On their way from other drivers: when they arrive, from whom.
    arriving: Vec<(Cycle, u16, Notice)>,
    /// For the other drivers.
    pub outbox: Vec<(Cycle, Notice)>,
}

impl Device {
    /// The driver of node `nid` in a rack of `nodes`, for so many contexts.
    pub fn new(nid: u16, nodes: u16, contexts: u16) -> Device {
        Device {
            nid,
            nodes,
            joined: vec![None; usize::from(contexts)],
            queue_pairs: BTreeMap::new(),
            next_handle: 0,
            spare: Spare::default(),
            peers: vec![vec![false; usize::from(nodes)]; usize::from(contexts)],
            ended: vec![false; usize::from(nodes)],
            arriving: Vec::new(),
            outbox: Vec::new(),
        }
    }

    /// The name of a call of the driver.
    pub fn call_name(number: u64) -> Option<&'static str> {
        const NAMES: [&str; CALLS as usize] = [
            "rack",
            "open",
            "close",
            "qp_create",
            "qp_destroy",
            "joined",
            "notified",
            "wait",
            "scratchpad",
            "scratchpad_map",
        ];
        NAMES.get(number.checked_sub(FIRST_CALL)? as usize).copied()
    }

    pub fn has_call(number: u64) -> bool {
        number.wrapping_sub(FIRST_CALL) < CALLS
    }

    /// Whether no program has done anything with it, here or elsewhere.
    pub fn is_unused(&self) -> bool {
        let has_peers = self.peers.iter().flatten().any(|&has_joined| has_joined);
        let is_alone = !has_peers && !self.ended.contains(&true) && self.arriving.is_empty();
        is_alone && self.joined.iter().all(Option::is_none) && self.next_handle == 0
    }

    /// A notice of another driver arrives at a cycle to come.
    pub fn receive(&mut self, at: Cycle, from: u16, notice: Notice) {
        self.arriving.push((at, from, notice));
    }

    pub fn call(
        &mut self,
        core: u16,
        number: u64,
        args: [u64; 4],
        kernel: &mut Kernel,
        user: &mut User<'_>,
    ) -> Answer {
        let [a0, a1, a2, _] = args;
        let result = match number - FIRST_CALL {
            0 => Ok(u64::from(self.nodes) << 16 | u64::from(self.nid)),
            1 => self.open(args, kernel, user),
            2 => self.close(a0, user),
            3 => self.create(core, args, kernel, user),
            4 => self.destroy(a0, user),
            5 => self.has_joined(a0, a1, user.chip.wires.now),
            6 => self.notified(a0, user.chip),
            7 if a0 % 8 != 0 => Err(EINVAL),
            7 => return Answer::Watch { address: a0, value: a1, timeout_ns: a2 },
            8 => scratchpad(core, a0, user),
            9 => map(core, Region { base: a0, bytes: a1, place: a2 }, user),
            _ => Err(ENOSYS),
        };
        result.into()
    }

    /// The process has ended: it leaves all contexts. Requests for them end with `node lost`.
    pub fn end(&mut self, user: &mut User<'_>) {
        for ctx_id in 0..self.joined.len() as u64 {
            if self.joined[ctx_id as usize].is_some() {
                self.leave(ctx_id, Status::NodeLost, user);
            }
        }
        self.ended[usize::from(self.nid)] = true;
        self.outbox.push((user.chip.wires.now, Notice::Ended));
    }

    fn open(&mut self, args: [u64; 4], kernel: &mut Kernel, user: &mut User<'_>) -> Result {
        let [ctx_id, bytes, flags, out] = args;
        let joined = self.joined.get(ctx_id as usize).ok_or(EINVAL)?;
        if joined.is_some() {
            return Err(EEXIST);
        }
        if bytes == 0 || flags & !READ_ONLY != 0 {
            return Err(EINVAL);
        }
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(ENOMEM)?;
        let permissions = Permissions { read: true, write: flags & READ_ONLY == 0, execute: false };
        let ctx = ctx_id as u16;
        let segment = controller::open(ctx, bytes, permissions, kernel, user)?;
        self.joined[ctx_id as usize] = Some(segment);
        self.peers[ctx_id as usize][usize::from(self.nid)] = true;
        self.outbox.push((user.chip.wires.now, Notice::Joined(ctx)));
        put(user, out, &[segment.address, segment.bytes])
    }

    fn close(&mut self, ctx_id: u64, user: &mut User<'_>) -> Result {
        self.context(ctx_id)?;
        let segment = self.leave(ctx_id, Status::NoContext, user);
        user.unmap(segment.address, segment.bytes);
        Ok(0)
    }

    /// Takes a context off the tables, and its queue pairs.
    fn leave(&mut self, ctx_id: u64, status: Status, user: &mut User<'_>) -> Segment {
        let ctx = ctx_id as u16;
        let (left, others) = std::mem::take(&mut self.queue_pairs)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, (of, _))| *of == ctx);
        self.queue_pairs = others;
        for (_, queues) in left.values() {
            controller::detach(ctx, queues, &mut self.spare, user);
        }
        controller::close(ctx, status, user);
        self.joined[ctx_id as usize].take().expect("only contexts that were joined are left")
    }

    fn create(
        &mut self,
        core: u16,
        args: [u64; 4],
        kernel: &mut Kernel,
        user: &mut User<'_>,
    ) -> Result {
        let [ctx_id, entries, flags, out] = args;
        self.context(ctx_id)?;
        let fits = entries.is_power_of_two() && (2..=MOST_ENTRIES).contains(&entries);
        if !fits || flags & !READ_ONLY != 0 {
            return Err(EINVAL);
        }
        let rights = if flags & READ_ONLY != 0 { Rights::ReadOnly } else { Rights::ReadWrite };
        let ctx = ctx_id as u16;
        let (shape, spare) = ((entries as u16, rights), &mut self.spare);
        let queues = controller::attach(ctx, core, shape, kernel, spare, user)?;
        let handle = self.next_handle;
        self.next_handle += 1;
        self.queue_pairs.insert(handle, (ctx, queues));
        let told = put(user, out, &[queues.addresses[0], queues.addresses[1], handle]);
        if told.is_err() {
            self.destroy(handle, user)?;
        }
        told
    }

    fn destroy(&mut self, handle: u64, user: &mut User<'_>) -> Result {
        let (ctx, queues) = self.queue_pairs.remove(&handle).ok_or(ENOENT)?;
        controller::detach(ctx, &queues, &mut self.spare, user);
        Ok(0)
    }

    fn has_joined(&mut self, ctx_id: u64, nid: u64, now: Cycle) -> Result {
        for (_, from, notice) in self.arriving.extract_if(.., |(at, ..)| *at <= now) {
            match notice {
                Notice::Joined(ctx) => self.peers[usize::from(ctx)][usize::from(from)] = true,
                Notice::Ended => self.ended[usize::from(from)] = true,
            }
        }
        if nid >= u64::from(self.nodes) {
            return Err(ENXIO);
        }
        let peers = self.peers.get(ctx_id as usize).ok_or(EINVAL)?;
        if self.ended[nid as usize] { Err(EPIPE) } else { Ok(u64::from(peers[nid as usize])) }
    }

    fn notified(&self, ctx_id: u64, chip: &Chip) -> Result {
        self.context(ctx_id)?;
        Ok(controller::notifications(ctx_id as u16, chip))
    }

    fn context(&self, ctx_id: u64) -> Result<Segment> {
        self.joined.get(ctx_id as usize).copied().flatten().ok_or(ENOENT)
    }
}

/// Entries of the longest queue.
const MOST_ENTRIES: u64 = rackmem_abi::MAX_WQ_SIZE as u64;

/// Tells a thread which core it has, and the shape of the cores' scratchpads.
fn scratchpad(core: u16, out: u64, user: &mut User<'_>) -> Result {
    let regions = user.chip.wires.map.regions.ok_or(ENODEV)?;
    let ways = u64::from(user.chip.tiles[usize::from(core)].l1.ways());
    let words = [
        core.into(),
        regions.cores.into(),
        ways,
        u64::from(regions.scratchpad_bytes) / ways,
        regions.dram_bytes,
        regions.locks.into(),
    ];
    put(user, out, &words)
}

/// Changes an entry of the address region table of a thread's core.
fn map(core: u16, region: Region, user: &mut User<'_>) -> Result {
    let own = user.chip.tiles[usize::from(core)].l1.integrated.as_mut().ok_or(ENODEV)?;
    own.map(region).map_err(|refusal| match refusal {
        Refusal::Invalid => EINVAL,
        Refusal::Full => ENOSPC,
    })?;
    Ok(0)
}

/// Fills a structure of the program.
pub(super) fn put(user: &mut User<'_>, address: u64, words: &[u64]) -> Result {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    user.write(address, &bytes).map_err(|_| EFAULT)?;
    Ok(0)
}
