//! A chip: tiles, homes, memory controllers, network interfaces, and the network that joins them
//! (Manycore NI §3 to §5).
//!
//! | file | part |
//! |---|---|
//! | `core`, `open_loop` | a stand-in for a core: the microbenchmarks |
//! | `cpu`, `mmu` | a core that executes a program, and the program's pages and instructions |
//! | `fast`, `trail` | the same without timing, and its latest touches of memory |
//! | [`driver`] | accesses that somebody else makes, such as a test |
//! | [`tile`], `cache`, `back_side` | L1s and NI caches |
//! | [`ni`] | the list of network interfaces, and what one is |
//! | `queue_pairs`, `front`, `backends`, `rmc`, `rrpp` | those of Manycore NI, with their pipelines |
//! | `uncached` | queues that are polled in their homes |
//! | `node_rmc`, `link` | the RMC of Scale-Out NUMA, and its fabric interface |
//! | `cache_integrated`, `integrated`, `write_through` | a network interface in the private cache, and an L1 before it |
//! | `dma` | a DMA engine and uncached memory |
//! | `window`, `inbound` | borrowed memory with its DMA engine, and lent memory |
//! | `bridge` | borrowed memory and devices behind a module that extends the on-chip interconnect |
//! | `device_port`, `card` | a core's accesses to registers; the network interface card beside the module |
//! | `pairs` | the queue pairs of Thunder, with contents |
//! | `rdma` | the channel of Thunder for copies between borrowed memory and the node's own |
//! | `through` | stores to borrowed memory that go through the caches |
//! | `home`, `active` | LLC banks with directory slices |
//! | `memory`, `ddr3` | memory controllers |
//! | `host_memory` | the memory of the host that a chip takes |
//! | `image` | the content of memory while programs are executed |
//! | `arrivals`, `events` | delivery of arrivals, and events that are due |
//! | [`layout`], `map` | places of blocks and parts, and what is at which address |
//! | [`message`], [`wires`] | messages, and the wires between parts |
//! | `probe`, [`trace`], `counts` | measurements |
//!
//! # One remote read, followed through the code (split placement)
//!
//! 1. `core` computes a WQ entry and stores its two words through the L1.
//! 2. `front` polls that block in the NI cache behind the L1 (`coherence::pair` says which of the two may), and sends
//!    the entry to the backend.
//! 3. `rmc` unrolls it to line requests, which leave the chip by the `link` of their row. `run/rack.rs` sends them back
//!    in as another chip's.
//! 4. `rrpp` asks the block's home (`home`), which asks `memory`.
//! 5. The reply returns to `rmc`, which stores the line at its home. After the last line `front` writes the CQ
//!    entry that the core's loop polls for.
//!
//! # One load of a program, followed through the code
//!
//! `cpu/loads.rs` issues it when its address is known; `mmu` says where the page is; `cache` is the L1. If the L1
//! may not read the block, `coherence/l1.rs` asks the block's home over the crossbar ([`wires`], `noc/`). `home`
//! takes the block from its bank or asks `ddr3`. The answer reaches the L1, which tells the core (`cpu`): the load
//! reads the L1 again, and gets the words that `image` has in that cycle. If the block is taken away before the load
//! has its value, the load reads again. If it is taken away later, the load is marked, and executed again should an
//! older load of the same place read after it.
//!
//! A system call stops the core (`cpu::Stop`), which leaves its number with the chip. `exec/node.rs` gives it to
//! `exec/system.rs` at the end of that cycle; the core goes on `system.call_cycles` later.
//!
//! # How time passes
//!
//! Parts send each other messages that take at least a cycle, and act when something arrives or when an event of their
//! own is due (`engine/wheel.rs`). A cycle in which neither the network nor the wheel has anything is skipped. A part
//! that polls an unchanged block sleeps, and wakes in the cycle in which it would have noticed the change (`front`,
//! `core`). So an idle chip costs nothing, and the result is that of polling.
//!
//! # Decisions
//!
//! - *Contents.* Home and memory hold values apart from tags, and only of blocks whose content matters (`values`),
//!   because synthetic workloads move gigabytes that nobody reads.
//! - *The LLC at the start* is filled as a long run leaves it: one half with blocks that were read for others, one half
//!   with written ones, and those of the queues.
//! - *Pipelines here and in [`sonuma`](crate::sonuma).* Both take their decisions from [`rackmem_rmc`]. Those of
//!   Manycore NI (`backends`) have the stages of its Figure 4, which take fixed times, and the network on chip behind
//!   them; Scale-Out NUMA's have everything in memory, behind a MAQ and an L1. With its sizes, an RRPP of Manycore NI
//!   would have 32 lines under way, 157 GB/s on a chip that the paper has at 214, and a walk for each read of 1 GB.
//!   Without MAQ, L1, TLB and tables in memory, little of one is left for the other to share.
//! - *Run-ahead of software.* Stores leave in order through a store buffer; a load that missed reads the L1 again.
//! - *One port for a tile, or one for each virtual network?* A router has one for its tile (`noc.sources = "shared"`).
//!   A packet that waits there holds up those behind it, of all networks, so parts must take whatever arrives: the
//!   network then always drains, and no packet waits for one behind it for ever. What may be under way is bounded by
//!   misses, lines of transfers and transactions of RRPPs. Backends send less while their port is full; caches and
//!   homes do not look.
//! - *Is the RCP's store acknowledged?* The paper's RCP has no time for it: with `ni.completion = "posted"` homes do
//!   not answer such stores. With `"acknowledged"` the CQ entry waits for the answer.

mod active;
mod arrivals;
mod back_side;
mod backends;
mod borrowed;
pub(crate) mod bridge;
pub(crate) mod cache;
mod cache_integrated;
pub(crate) mod card;
mod core;
pub(crate) mod counts;
pub(crate) mod cpu;
mod ddr3;
mod device_port;
mod dma;
pub mod driver;
mod events;
mod fast;
pub(crate) mod front;
mod home;
pub(crate) mod host_memory;
pub(crate) mod image;
mod inbound;
pub(crate) mod integrated;
pub mod layout;
mod link;
mod lock_box;
mod map;
mod memory;
pub mod message;
pub(crate) mod mmu;
pub mod ni;
pub(crate) mod noc_spec;
mod node_rmc;
mod open_loop;
pub(crate) mod pads;
pub(crate) mod pairs;
pub(crate) mod probe;
mod queue_pairs;
pub(crate) mod rdma;
mod rmc;
mod rrpp;
mod through;
pub mod tile;
pub mod trace;
pub(crate) mod trail;
mod uncached;
mod under_way;
mod values;
pub(crate) mod window;
pub mod wires;
mod write_through;

use crate::block::{BLOCK_BYTES, Block, Line};
use crate::cpu::Stop;
use crate::engine::{Cycle, Random};
use crate::machine::Machine;
use crate::machine::spec::Contents;
use crate::noc;
use arrivals::Inbox;
use bridge::SentFrame;
use home::Home;
use layout::Layout;
use memory::Memory;
use message::Payload;
use ni::Ni;
use tile::Tile;
use values::Values;
use wires::{Event, Pace, Wires};

/// First stream of random numbers for the contents of LLC banks; cores have those below.
const WARM_STREAM: u64 = 1 << 62;

/// A chip: all its parts, and the cycle in which each has something to do.
pub struct Chip {
    /// Network, short wires and time between the parts.
    pub wires: Wires,
    /// Tiles by number, row by row.
    pub tiles: Vec<Tile>,
    /// Homes by number: block n is at home n modulo their count.
    pub homes: Vec<Home>,
    /// Memory controllers, by number.
    pub memories: Vec<Memory>,
    /// The network interfaces.
    pub ni: Ni,
    /// Executing cores that have stopped in this cycle, for the operating system.
    pub stops: Vec<(u16, Stop)>,
    /// Requests to each home from parts of the same tile.
    inboxes: Vec<Inbox>,
    due: Vec<Event>,
}

impl Chip {
    /// The chip of node `nid`.
    ///
    /// # Errors
    /// The error of [`noc::Network::new`].
    pub fn new(machine: &Machine, nid: u16, nodes: u16) -> Result<Chip, noc::SpecError> {
        let mut wires = Wires::new(machine, nid, machine.seed ^ u64::from(nid) << 48)?;
        let layout = wires.layout.clone();
        let values = || {
            let mut values = Values::default();
            for (start, lines) in Layout::kept(machine) {
                values.keep(start, lines);
            }
            values
        };
        let caches = machine.private_caches() as u16;
        let home = |n| Home::new(n, machine, layout.homes, caches, values());
        let homes: Vec<Home> = (0..layout.homes).map(home).collect();
        wires.shared_lines = homes.iter().map(Home::lines).sum();
        Ok(Chip {
            tiles: (0..layout.tiles).map(|n| Tile::new(n, nid, nodes, machine)).collect(),
            homes,
            memories: (0..layout.controllers).map(|n| Memory::new(n, machine, values())).collect(),
            ni: Ni::new(nid, nodes, machine, &layout),
            stops: Vec::new(),
            inboxes: vec![Inbox::default(); usize::from(layout.homes)],
            wires,
            due: Vec::new(),
        })
    }

    /// Has the network interfaces begin with what they do by themselves.
    pub fn start(&mut self) {
        self.ni.start(&mut self.tiles, &mut self.wires);
    }

    /// Fills the LLC as a long run would, unless contents are kept, of which it has none to show.
    pub fn warm(&mut self, machine: &Machine) {
        if machine.memory.contents == Contents::All {
            return;
        }
        let lines = machine.workload.footprint_bytes / BLOCK_BYTES;
        for (number, home) in self.homes.iter_mut().enumerate() {
            let mut random = Random::new(machine.seed, WARM_STREAM + number as u64);
            home.warm(lines, &mut random, &self.wires);
        }
    }

    /// Puts a block into memory, before anything has a copy of it.
    pub fn poke(&mut self, line: Line, block: Block) {
        let controller = self.wires.layout.controller_of(line);
        self.memories[usize::from(controller)].poke(line, block);
    }

    /// The next cycle in which something happens, if anything will.
    #[inline]
    pub fn next_cycle(&self) -> Option<Cycle> {
        if self.wires.cpus_next != 0 || self.wires.ni_next {
            return Some(self.wires.now + 1);
        }
        let next = self.wires.now + 1;
        let waits = self.wires.net.arrived_words().iter().any(|&word| word != 0);
        let due = self.wires.wheel.next().into_iter().chain(waits.then_some(next)).min();
        // Then nobody needs to wait for the network.
        if due.is_some_and(|due| due <= next) {
            return due;
        }
        self.wires.net.next_event().into_iter().chain(due).min()
    }

    /// Simulates one cycle; all cycles before it must have been, or have nothing in them.
    pub fn cycle(&mut self, now: Cycle) {
        let Wires { net, cpus_now, cpus_next, ni_now, ni_next, .. } = &mut self.wires;
        (*cpus_now, *cpus_next) = (*cpus_next, 0);
        (*ni_now, *ni_next) = (*ni_next, false);
        net.simulate(now);
        self.wires.now = now;
        self.deliver();
        let mut due = std::mem::take(&mut self.due);
        self.wires.wheel.advance(now, &mut due);
        for event in due.drain(..) {
            self.happen(event);
        }
        self.due = due;
        self.tick_programs();
    }

    /// Executing cores and the network interfaces have their cycle, after all messages.
    #[inline]
    fn tick_programs(&mut self) {
        let mut left = self.wires.cpus_now;
        while left != 0 {
            let number = left.trailing_zeros() as u16;
            left &= left - 1;
            let Chip { wires, tiles, stops, .. } = self;
            let Tile { cpu, l1, .. } = &mut tiles[usize::from(number)];
            let stop = cpu.as_mut().and_then(|cpu| cpu.tick(l1, wires));
            stops.extend(stop.map(|stop| (number, stop)));
            if !self.wires.changed.is_empty() {
                self.tell_changed();
            }
        }
        if self.wires.ni_now {
            self.ni.tick(&mut self.wires);
        }
    }

    /// A core without timing has changed blocks.
    fn tell_changed(&mut self) {
        let mut changed = std::mem::take(&mut self.wires.changed);
        changed.drain(..).for_each(|line| self.changed_by_system(line));
        self.wires.changed = changed;
    }

    /// Has executing cores go on at another pace, as soon as each can.
    pub fn set_pace(&mut self, pace: Pace) {
        let Chip { wires, tiles, .. } = self;
        wires.pace = pace;
        if pace == Pace::Warming {
            (wires.unheard, wires.hears, wires.asks) = (0, false, 0);
        }
        for Tile { cpu, l1, .. } in tiles {
            if let Some(cpu) = cpu {
                cpu.set_pace(l1, wires);
            }
        }
    }

    /// Whether the caches of all executing cores are warm.
    pub fn is_warm(&self) -> bool {
        let mut cpus = self.tiles.iter().filter_map(|tile| tile.cpu.as_ref());
        cpus.all(|cpu| cpu.is_warm(self.wires.now))
    }

    /// The operating system has changed a block of memory: its readers are notified as if it had been taken
    /// away.
    pub fn changed_by_system(&mut self, line: Line) {
        let Chip { wires, tiles, homes, ni, .. } = self;
        for cpu in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()) {
            cpu.changed(line, wires);
        }
        homes[usize::from(wires.layout.home_of(line))].changed_by_system(line, wires);
        ni.changed(line, tiles, wires);
    }

    /// Wakes executing cores that repeat themselves, before something changes that they could not
    /// be told of; their counts are then those of the end of this cycle.
    pub fn settle(&mut self) {
        let Chip { wires, tiles, .. } = self;
        for Tile { cpu, l1, .. } in tiles {
            if let Some(cpu) = cpu {
                cpu.settle(l1, wires);
            }
        }
    }

    /// Forgets the lives of instructions that were recorded. [`Chip::settle`] comes first.
    pub fn forget_lives(&mut self) {
        let cpus = self.tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut());
        cpus.for_each(|cpu| cpu.forget_lives());
    }

    /// Records no more lives. [`Chip::settle`] comes first.
    pub fn stop_lives(&mut self) {
        let cpus = self.tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut());
        cpus.for_each(|cpu| cpu.stop_lives());
    }

    /// A frame of another node will arrive.
    pub fn frame(&mut self, sent: &SentFrame) {
        if let Ni::Bridge(bridge) = &mut self.ni {
            bridge.frame(sent, &mut self.wires);
        }
    }

    /// Something of another node reaches this one's network interfaces in `delay` cycles.
    pub fn receive(&mut self, delay: u64, payload: Payload) {
        let (to, more) = self.ni.entry(&payload, &self.wires.layout);
        self.wires.hand(delay + more, to, payload);
    }
}
