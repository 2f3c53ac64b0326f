//! The context table in memory, and the CT$ (soNUMA §4.2, §4.3).
//!
//! The table is an array of blocks at `CT_base`, indexed by `ctx_id`:
//!
//! | word | bits | field |
//! |---|---|---|
//! | 0 | 0 | the context has a segment here |
//! | 0 | 8..16 | status for requests if it has not |
//! | 0 | 16..32 | address space identifier |
//! | 0 | 32..48 | entries of the list of queue pairs, some of which may be free |
//! | 1 | | virtual address of the segment, a multiple of 64 |
//! | 2 | | size of the segment in bytes |
//! | 3 | | physical address of the root of the page table |
//! | 4 | | physical address of the list of queue pairs |
//!
//! An entry of the list of queue pairs has 32 bytes:
//!
//! | word | bits | field |
//! |---|---|---|
//! | 0 | | physical address of the work queue |
//! | 1 | | physical address of the completion queue |
//! | 2 | 0..16 | entries of each |
//! | 2 | 16 | its owner may write |
//! | 2 | 17 | registered; otherwise the entry is free |
//!
//! The RMC reads no list: the driver writes each queue pair into its registers, too.

use rackmem_abi::Status;
use rackmem_rmc::{Bounds, Rights};

use super::mmu::Space;
use crate::block::{BLOCK_BYTES, Words};

/// Size of an entry of the CT: a block.
pub const CT_ENTRY_BYTES: u64 = BLOCK_BYTES;

/// Size of an entry of a list of queue pairs.
pub const QP_ENTRY_BYTES: u64 = 32;

/// Word 2 of an entry of a list: a queue pair is registered there.
const REGISTERED: u64 = 1 << 17;

/// A context, as its CT entry describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its segment on this node, or how requests for it end.
    pub segment: Result<Segment, Status>,
    /// The address space of its process, in which segment and local buffers are.
    pub space: Space,
    /// Entries of the list, registered or free.
    pub queue_pairs: u16,
    /// Physical address of the list.
    pub list: u64,
}

/// A node's segment of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First virtual address, in the context's address space.
    pub base: u64,
    /// Size in bytes: no request may go beyond it.
    pub bounds: Bounds,
}

impl Context {
    /// A context that nobody on this node has joined.
    pub const NONE: Context = Context {
        segment: Err(Status::NoContext),
        space: Space { asid: 0, root: 0 },
        queue_pairs: 0,
        list: 0,
    };

    /// The CT entry.
    pub const fn encode(&self) -> Words {
        let (flags, base, size) = match self.segment {
            Ok(Segment { base, bounds }) => (1, base, bounds.size_bytes),
            Err(status) => ((status as u64) << 8, 0, 0),
        };
        let tail = (self.space.asid as u64) << 16 | (self.queue_pairs as u64) << 32;
        [flags | tail, base, size, self.space.root, self.list, 0, 0, 0]
    }

    /// The context in a CT entry. A table of zeros has no contexts.
    pub fn decode(words: &Words) -> Context {
        let status = Status::from_code((words[0] >> 8) as u8);
        let segment = if words[0] & 1 != 0 {
            Ok(Segment { base: words[1], bounds: Bounds { size_bytes: words[2] } })
        } else {
            Err(status.filter(|&status| status != Status::Ok).unwrap_or(Status::NoContext))
        };
        Context {
            segment,
            space: Space { asid: (words[0] >> 16) as u16, root: words[3] },
            queue_pairs: (words[0] >> 32) as u16,
            list: words[4],
        }
    }
}

/// A queue pair, as the list of its context describes it, which is also what the driver writes into
/// the RMC's registers.
///
/// Queues are named by physical addresses: each is pinned and without gaps, so polling needs no
/// translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// Physical address of the work queue.
    pub wq: u64,
    /// Physical address of the completion queue.
    pub cq: u64,
    /// Entries of WQ and CQ, the same for both.
    pub size: u16,
    /// Rights of its owner.
    pub rights: Rights,
}

impl QueuePair {
    /// The entry of the list.
    pub fn encode(&self) -> [u64; 4] {
        let writes = u64::from(self.rights == Rights::ReadWrite);
        [self.wq, self.cq, u64::from(self.size) | writes << 16 | REGISTERED, 0]
    }

    /// Whether an entry of the list is a queue pair. A list of zeros has none.
    pub const fn is_in(entry: &[u64; 4]) -> bool {
        entry[2] & REGISTERED != 0
    }
}

/// The CT$: the contexts that have been used most recently. Fully associative; the least recently
/// used one goes. Read by all pipelines.
#[derive(Clone, Debug)]
pub struct CtCache {
    entries: Vec<Option<(u16, u64, Context)>>,
    clock: u64,
    hits: u64,
    misses: u64,
    epoch: u8,
}

impl CtCache {
    /// An empty CT$.
    pub fn new(entries: u32) -> Self {
        Self { entries: vec![None; entries as usize], clock: 0, hits: 0, misses: 0, epoch: 0 }
    }

    /// A context, if it is here.
    #[inline]
    pub fn lookup(&mut self, ctx_id: u16) -> Option<Context> {
        self.clock += 1;
        let hit = |entry: &&mut (u16, u64, Context)| entry.0 == ctx_id;
        let Some(entry) = self.entries.iter_mut().flatten().find(hit) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        entry.1 = self.clock;
        Some(entry.2)
    }

    /// Keeps a context, also one that has no segment: requests for it end sooner.
    pub fn fill(&mut self, ctx_id: u16, context: Context) {
        self.clock += 1;
        self.forget(ctx_id);
        let used = |entry: &&mut Option<(u16, u64, Context)>| entry.map_or(0, |entry| entry.1);
        if let Some(entry) = self.entries.iter_mut().min_by_key(used) {
            *entry = Some((ctx_id, self.clock, context));
        }
    }

    /// Forgets a context, as the driver asks after it has changed the CT.
    pub fn invalidate(&mut self, ctx_id: u16) {
        self.epoch = self.epoch.wrapping_add(1);
        self.forget(ctx_id);
    }

    /// Changes with each invalidation. A read that began in another epoch may be old, and is not to be
    /// kept.
    pub const fn epoch(&self) -> u8 {
        self.epoch
    }

    fn forget(&mut self, ctx_id: u16) {
        for place in &mut self.entries {
            place.take_if(|entry| entry.0 == ctx_id);
        }
    }

    /// Lookups that found their context, and those that did not.
    pub const fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Random;

    fn context(number: u64) -> Context {
        let bounds = Bounds { size_bytes: number * 64 };
        Context {
            segment: Ok(Segment { base: number << 13, bounds }),
            space: Space { asid: number as u16, root: number << 20 },
            queue_pairs: 3,
            list: number << 30,
        }
    }

    #[test]
    fn contexts_round_trip() {
        for number in 0..100 {
            assert_eq!(Context::decode(&context(number).encode()), context(number));
        }
        for status in Status::ALL.into_iter().filter(|&status| status != Status::Ok) {
            let closed = Context { segment: Err(status), ..context(7) };
            assert_eq!(Context::decode(&closed.encode()), closed);
        }
        assert_eq!(Context::decode(&[0; 8]), Context::NONE);
    }

    /// Against a list in the order of use.
    #[test]
    fn the_cache_is_what_has_been_used_last() {
        let (mut cache, mut random) = (CtCache::new(4), Random::new(1, 0));
        let mut recent: Vec<u16> = Vec::new();
        let (mut hits, mut misses) = (0, 0);
        for _ in 0..10_000 {
            let ctx_id = random.below(7) as u16;
            if random.below(10) == 0 {
                cache.invalidate(ctx_id);
                recent.retain(|&other| other != ctx_id);
                continue;
            }
            let expected = recent.contains(&ctx_id).then(|| context(ctx_id.into()));
            assert_eq!(cache.lookup(ctx_id), expected);
            match expected {
                Some(_) => hits += 1,
                None => {
                    misses += 1;
                    cache.fill(ctx_id, context(ctx_id.into()));
                }
            }
            recent.retain(|&other| other != ctx_id);
            recent.insert(0, ctx_id);
            recent.truncate(4);
        }
        assert_eq!(cache.hits_and_misses(), (hits, misses));
    }
}
