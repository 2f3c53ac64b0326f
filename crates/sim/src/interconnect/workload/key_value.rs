//! A key-value cache in local and borrowed memory, in front of a database (DEOI §IV-C): a queue model.
//!
//! Clients ask for random items, one at a time each. The server, one thread, looks in its cache, which
//! drops the item that was used longest ago when it is full. After a miss the client asks the database,
//! and gives the item to the cache. What memory and network take has been measured on the modelled
//! machine ([`Times`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::Random;
use crate::interconnect::report::KeyValueReport;
use crate::machine::Machine;
use crate::machine::spec::KvSpec;

/// Times of the machine, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub local_ns: f64,
    pub remote_ns: f64,
    /// A request and its answer, one of which carries a value: all but the server's own time.
    pub network_ns: f64,
    /// The server's network stack for both.
    pub stack_ns: f64,
}

/// No slot, or no item.
const NONE: u32 = u32::MAX;

/// The items that the cache has, those used last first.
#[derive(Debug)]
struct Cache {
    slot_of: Vec<u32>,
    item_in: Vec<u32>,
    newer: Vec<u32>,
    older: Vec<u32>,
    newest: u32,
    oldest: u32,
    used: u32,
    capacity: u32,
}

impl Cache {
    fn new(keys: u64, most: u32) -> Cache {
        let slots = most as usize;
        Cache {
            slot_of: vec![NONE; keys as usize],
            item_in: vec![NONE; slots],
            newer: vec![NONE; slots],
            older: vec![NONE; slots],
            newest: NONE,
            oldest: NONE,
            used: 0,
            capacity: 0,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let (newer, older) = (self.newer[slot as usize], self.older[slot as usize]);
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
    }

    fn link(&mut self, slot: u32) {
        (self.newer[slot as usize], self.older[slot as usize]) = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.newer[newest as usize] = slot,
        }
        self.newest = slot;
    }

    /// The slot of an item; it becomes the newest.
    fn find(&mut self, item: u32) -> Option<u32> {
        let slot = self.slot_of[item as usize];
        if slot == NONE {
            return None;
        }
        self.unlink(slot);
        self.link(slot);
        Some(slot)
    }

    /// Keeps an item; where, and whether another one had to go.
    fn keep(&mut self, item: u32) -> (u32, bool) {
        if let Some(slot) = self.find(item) {
            return (slot, false);
        }
        let evicts = self.used == self.capacity;
        let slot = if evicts {
            let slot = self.oldest;
            self.unlink(slot);
            self.slot_of[self.item_in[slot as usize] as usize] = NONE;
            slot
        } else {
            self.used += 1;
            self.used - 1
        };
        (self.slot_of[item as usize], self.item_in[slot as usize]) = (slot, item);
        self.link(slot);
        (slot, evicts)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Get,
    Set(u32),
}

/// The cache, its server and its clients.
#[derive(Debug)]
pub struct KeyValue {
    spec: KvSpec,
    times: Times,
    line_bytes: u32,
    line_fills: u32,
    local_slots: u32,
    all_slots: u32,
    cache: Cache,
    random: Random,
    server_free_ps: u64,
    evictions: u64,
    hits: u64,
}

impl KeyValue {
    /// Of a machine whose memory and network take these times.
    pub fn new(machine: &Machine, times: Times) -> KeyValue {
        let spec = machine.kv.clone();
        let item = u64::from(spec.value_bytes + spec.item_bytes);
        let local_slots = (spec.local_bytes / item) as u32;
        let all_slots = ((spec.local_bytes + spec.remote_bytes) / item) as u32;
        KeyValue {
            cache: Cache::new(spec.keys, all_slots),
            random: Random::new(machine.seed, 2),
            line_bytes: machine.soc.line_bytes,
            line_fills: machine.soc.line_fills,
            spec,
            times,
            local_slots,
            all_slots,
            server_free_ps: 0,
            evictions: 0,
            hits: 0,
        }
    }

    /// Time of memory in ns: finding an item, and its value line by line, if it has one.
    fn memory_ns(&self, slot: Option<u32>) -> f64 {
        let depends = f64::from(self.spec.dependent_reads);
        let Some(slot) = slot else { return depends * self.times.local_ns };
        let is_local = slot < self.local_slots;
        let latency = if is_local { self.times.local_ns } else { self.times.remote_ns };
        let lines = f64::from(self.spec.value_bytes.div_ceil(self.line_bytes));
        // The table of keys is local, what it leads to is where the item is.
        depends / 2.0 * (self.times.local_ns + latency)
            + lines / f64::from(self.line_fills) * latency
    }

    /// The server takes a request; what is next for its client, and when, in picoseconds.
    fn serve(&mut self, at_ps: u64, request: Request) -> (u64, Request) {
        let (memory_ns, next, database) = match request {
            Request::Get => {
                let item = self.random.below(self.spec.keys) as u32;
                match self.cache.find(item) {
                    Some(slot) => {
                        self.hits += 1;
                        (self.memory_ns(Some(slot)), Request::Get, 0.0)
                    }
                    None => (self.memory_ns(None), Request::Set(item), self.spec.database_us),
                }
            }
            Request::Set(item) => {
                let (slot, evicts) = self.cache.keep(item);
                self.evictions += u64::from(evicts);
                let evicting = if evicts { self.spec.evict_ns } else { 0.0 };
                (self.memory_ns(Some(slot)) + evicting, Request::Get, 0.0)
            }
        };
        let service = self.spec.command_ns + self.times.stack_ns + memory_ns;
        self.server_free_ps = self.server_free_ps.max(at_ps) + (service * 1000.0) as u64;
        let away = self.times.network_ns * 1000.0 + database * 1e6;
        (self.server_free_ps + away as u64, next)
    }

    /// Asks for so many items; each interval's length and hits.
    fn ask(
        &mut self,
        clients: &mut BinaryHeap<Reverse<(u64, u32, Request)>>,
        gets: u64,
    ) -> (u64, u64) {
        let (begin, hits) = (self.server_free_ps, self.hits);
        let mut left = gets;
        while left > 0
            && let Some(Reverse((at, client, request))) = clients.pop()
        {
            left -= u64::from(request == Request::Get);
            let (at, next) = self.serve(at, request);
            clients.push(Reverse((at, client, next)));
        }
        (self.server_free_ps - begin, self.hits - hits)
    }

    /// Fills the local memory, adds the borrowed memory, and measures.
    pub fn run(mut self) -> KeyValueReport {
        self.cache.capacity = self.local_slots;
        // As a long warm-up leaves it: full of items in a random order.
        while self.cache.used < self.local_slots.min(self.spec.keys as u32) {
            let item = self.random.below(self.spec.keys) as u32;
            self.cache.keep(item);
        }
        let connections = self.spec.connections;
        let mut clients: BinaryHeap<_> =
            (0..connections).map(|client| Reverse((0, client, Request::Get))).collect();
        self.ask(&mut clients, self.spec.warm_up);
        self.cache.capacity = self.all_slots;
        let intervals = self.spec.intervals.max(1);
        let gets = self.spec.requests / u64::from(intervals);
        let mut report = KeyValueReport::default();
        let (mut time, mut hits) = (0, 0);
        let evictions = self.evictions;
        for interval in 0..intervals {
            let (ps, found) = self.ask(&mut clients, gets);
            (time, hits) = (time + ps, hits + found);
            report.per_second.push(gets as f64 / (ps as f64 / 1e12));
            if self.cache.used == self.cache.capacity && report.full_at.is_none() {
                report.full_at = Some(f64::from(interval + 1) / f64::from(intervals));
            }
        }
        let all = (gets * u64::from(intervals)) as f64;
        report.gets_per_second = all / (time as f64 / 1e12);
        report.hit_ratio = hits as f64 / all;
        report.evictions_per_get = (self.evictions - evictions) as f64 / all;
        report.local_read_ns = self.times.local_ns;
        report.remote_read_ns = self.times.remote_ns;
        report.network_ns = self.times.network_ns + self.times.stack_ns;
        report
    }
}
