//! The driver of borrowed memory, of the DMA engine beside it (TSM §2.1), of the RDMA channel (TSM §4.2) and of a
//! borrowed network interface card (DEOI §III), as programs call it: `include/window.h` has the calls.
//!
//! Programs borrow while they run ([`lease`]): of a node that they name, of any that has enough, or all that node
//! `n + 1` lends. A machine with `window.heap` has made the last kind of lease before programs begin. Each piece of
//! memory has one borrower. Cards are paired before programs begin: node `n` uses that of node `n + 1`, the last node
//! that of the first.

pub mod lease;
mod rdma;
pub mod saved;

use std::ops::Range;

use rackmem_riscv::kernel::Kernel;
use rackmem_riscv::space::{PAGE, Permissions};
use rackmem_rmc::amt::{Refused, Target};
use serde::{Deserialize, Serialize};

use self::lease::{Counts, Lease, Message, Outcome, Pool, Purpose, Requests, Waiting};
use super::device::{Answer, EFAULT, EINVAL, ENODEV, ENOMEM, ENOSPC, ENOSYS, ENXIO, Result, put};
use super::pages::{Pages, User};
use crate::block::BLOCK_BYTES;
use crate::chip::Chip;
use crate::chip::bridge::device_base;
use crate::chip::card::REGISTERS_BYTES;
use crate::chip::ni::Ni;
use crate::chip::pairs::{ENTRY_BYTES, Rings};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::interconnect::EndPoint;
use crate::machine::Machine;
use crate::machine::spec::Placement;
use crate::sonuma::Image as _;
use crate::window::dma::{DESCRIPTOR_BYTES, Descriptor, Engine};

/// The first of the driver's calls, and how many there are.
const FIRST_CALL: u64 = 0x5241_4320;
const CALLS: u64 = 8;

/// As a lender: any other node.
const ANY: u64 = u32::MAX as u64;

const EAGAIN: i64 = 11;
const EBUSY: i64 = 16;
const EOPNOTSUPP: i64 = 95;

/// The name of a call of the driver.
pub fn call_name(number: u64) -> Option<&'static str> {
    const NAMES: [&str; CALLS as usize] =
        ["borrow", "lent", "engine", "copy", "card", "pair", "ask", "rdma"];
    NAMES.get(number.checked_sub(FIRST_CALL)? as usize).copied()
}

pub fn has_call(number: u64) -> bool {
    number.wrapping_sub(FIRST_CALL) < CALLS
}

/// The memory that a node lends and borrows: its physical addresses, and the process's addresses for it.
#[derive(Clone, Debug)]
pub struct Lending {
    nid: u16,
    nodes: u16,
    lender: u16,
    /// Physical addresses of the window, and of the memory behind it at the lender.
    window: u64,
    lent: u64,
    bytes: u64,
    /// Address, bytes and node of the memory that node `n + 1` lends, once this node has borrowed all of it.
    whole: Option<[u64; 3]>,
    /// The process's own address for what it lends, once it has asked.
    lent_at: Option<u64>,
    pool: Pool,
    requests: Requests,
    /// Memory that the operating system borrows at a time when the node's own is full; 0 = none.
    plug_bytes: u64,
    /// Nobody lends more to it.
    is_refused: bool,
    /// Threads that wait for it.
    short: Vec<usize>,
    descriptors: u64,
    max_payload_bytes: u64,
    /// Its address of the engine's status.
    status_at: Option<u64>,
    /// Physical addresses of the registers of the neighbour's card, and of all that the card reaches, for it.
    card: Option<(u64, u64)>,
    /// Memory for it, once it is open.
    card_memory: Option<CardMemory>,
}

/// Physical addresses of memory for a card.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct CardMemory {
    /// Words that count its interrupts.
    interrupts: u64,
    /// Rings and buffers, and their bytes.
    memory: u64,
    bytes: u64,
}

impl Lending {
    /// Of node `nid` of so many, if the machine has a window.
    pub fn of(nid: u16, nodes: u16, machine: &Machine) -> Option<Lending> {
        let (window, bytes) = (machine.memory.size_bytes, machine.window.lent_bytes);
        machine.ni.placement.has_window().then(|| Lending {
            nid,
            nodes,
            lender: (nid + 1) % nodes,
            window,
            lent: window - bytes,
            bytes,
            whole: None,
            lent_at: None,
            pool: Pool::new(window - bytes..window),
            requests: Requests::default(),
            plug_bytes: machine.window.plug_bytes.next_multiple_of(machine.system.page_bytes),
            is_refused: false,
            short: Vec::new(),
            descriptors: match machine.ni.placement {
                Placement::Window => machine.window.dma_descriptors.into(),
                _ => 0,
            },
            max_payload_bytes: machine.window.max_payload_bytes.into(),
            status_at: None,
            card: (machine.ni.placement == Placement::Bridge).then(|| {
                let registers = device_base(machine);
                (registers, registers + REGISTERS_BYTES)
            }),
            card_memory: None,
        })
    }

    /// Borrows all that node `n + 1` lends before programs begin, as all nodes do; its physical addresses.
    pub fn borrow_all(&mut self, chip: &mut Chip) -> Range<u64> {
        self.pool.lend(self.bytes, Purpose::Plugged).expect("all that is lent, to the node before");
        let lent = Target { destination: self.lender, address: self.lent };
        let amt = chip.ni.amt().expect("machines with a window have a table");
        amt.borrow(self.bytes, BLOCK_BYTES, lent).expect("a block as long as the window");
        let range = self.window..self.window + self.bytes;
        chip.wires.map.borrow(range.clone());
        range
    }

    pub fn call(
        &mut self,
        thread: usize,
        number: u64,
        args: [u64; 4],
        kernel: &mut Kernel,
        user: &mut User<'_>,
    ) -> Answer {
        let result = match number - FIRST_CALL {
            0 => return self.borrow(thread, args[0], user),
            1 => self.lent(args[0], kernel, user),
            2 => self.open_engine(args[0], kernel, user),
            3 => self.copy(args, user),
            4 => self.open_card(args, kernel, user),
            5 => self.open_pair(args, kernel, user),
            6 => return self.ask(thread, args, user),
            7 => return rdma::post(thread, args, user.chip),
            _ => Err(ENOSYS),
        };
        result.into()
    }

    fn borrow(&mut self, thread: usize, out: u64, user: &mut User<'_>) -> Answer {
        if let Some(words) = &self.whole {
            return put(user, out, words).into();
        }
        // As the heap, it is there already.
        if user.pages.plugged.is_first {
            return Err(EINVAL).into();
        }
        self.begin(self.bytes, Waiting::ToMap { thread, out }, vec![self.lender], user)
    }

    /// Borrows so many bytes of one node, or of any.
    fn ask(&mut self, thread: usize, args: [u64; 4], user: &mut User<'_>) -> Answer {
        let [bytes, lender, out, _] = args;
        let is_other = lender < self.nodes.into() && lender != u64::from(self.nid);
        let lenders = match lender {
            ANY => self.others(),
            _ if is_other => vec![lender as u16],
            _ => return Err(ENXIO).into(),
        };
        let page_bytes = user.pages.page_bytes();
        match bytes.checked_next_multiple_of(page_bytes) {
            Some(bytes) if bytes > 0 => {
                self.begin(bytes, Waiting::ToMap { thread, out }, lenders, user)
            }
            _ => Err(EINVAL).into(),
        }
    }

    /// All nodes that may lend to this one, the next one first.
    fn others(&self) -> Vec<u16> {
        (1..self.nodes).map(|ahead| (self.nid + ahead) % self.nodes).collect()
    }

    fn begin(
        &mut self,
        bytes: u64,
        waiting: Waiting,
        lenders: Vec<u16>,
        user: &mut User<'_>,
    ) -> Answer {
        let (now, align) = (user.chip.wires.now, user.pages.page_bytes());
        if let Waiting::ToMap { out, .. } = waiting
            && let Err(errno) = put(user, out, &[0; 3])
        {
            return Err(errno).into();
        }
        let Some(amt) = user.chip.ni.amt() else { return Err(ENODEV).into() };
        match self.requests.begin((bytes, align), waiting, lenders, amt, now) {
            Ok(()) => Answer::Asking,
            Err(Refused::NoSlot) => Err(ENOSPC).into(),
            Err(_) => Err(ENOMEM).into(),
        }
    }

    /// Asks for more memory for the operating system, of which a thread needs so much; `false` if as much is not to be
    /// had.
    pub fn plug(&mut self, thread: usize, missing_bytes: u64, user: &mut User<'_>) -> bool {
        let bytes = self.plug_bytes;
        let is_asking = !self.short.is_empty()
            || missing_bytes <= self.most_plugged(user.chip)
                && self.begin(bytes, Waiting::ToRetry, self.others(), user) == Answer::Asking;
        if is_asking {
            self.short.push(thread);
        }
        is_asking
    }

    /// The most that the operating system may borrow besides what it has, by its slots and its window.
    fn most_plugged(&self, chip: &mut Chip) -> u64 {
        let Some(amt) = chip.ni.amt() else { return 0 };
        let taken: u64 = amt.slots().iter().map(|slot| slot.size_bytes).sum();
        let free = amt.slots().iter().filter(|slot| slot.size_bytes == 0).count() as u64;
        (free * self.plug_bytes).min((self.bytes - taken) / self.plug_bytes * self.plug_bytes)
    }

    /// Takes the threads that have waited for more memory.
    pub fn take_short(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.short)
    }

    /// Whether the operating system may ask for more memory.
    pub const fn can_plug(&self) -> bool {
        self.plug_bytes > 0
    }

    /// Takes the messages for other nodes, each with the cycle in which it leaves and its receiver.
    pub fn take_messages(&mut self) -> Vec<(Cycle, u16, Message)> {
        std::mem::take(&mut self.requests.outbox)
    }

    /// Handles a message of another node, an answer taking so many cycles; the borrowing that ended thereby.
    pub fn hear(
        &mut self,
        (from, message): (u16, Message),
        answer_cycles: Cycle,
        pages: &mut Pages,
        chip: &mut Chip,
    ) -> Option<Outcome> {
        let now = chip.wires.now;
        let amt = chip.ni.amt()?;
        let ended = match message {
            Message::Ask { slot, bytes, purpose } => {
                let answer = match self.pool.lend(bytes, purpose) {
                    Some(base) => Message::Granted { slot, base },
                    None => Message::Refused { slot },
                };
                self.requests.outbox.push((now + answer_cycles, from, answer));
                None
            }
            Message::Granted { slot, base } => self.requests.granted(slot, from, base, amt),
            Message::Refused { slot } => self.requests.refused(slot, amt, now),
        };
        ended.iter().for_each(|outcome| self.settle(outcome, pages, chip));
        ended
    }

    /// Enters what was borrowed where the chip and the operating system look for memory.
    fn settle(&mut self, (waiting, lease): &Outcome, pages: &mut Pages, chip: &mut Chip) {
        let for_system = *waiting == Waiting::ToRetry;
        match lease {
            Some(Lease { block, .. }) => {
                chip.wires.map.borrow(block.clone());
                if for_system {
                    pages.plugged.add(block.clone());
                }
            }
            // Nobody has as much, and nobody will.
            None if for_system => (self.plug_bytes, self.is_refused) = (0, true),
            None => {}
        }
    }

    /// Maps what a thread has asked for, and tells it.
    pub fn map_lease(
        &mut self,
        lease: Option<Lease>,
        out: u64,
        kernel: &mut Kernel,
        user: &mut User<'_>,
    ) -> Result {
        let Lease { block, lender } = lease.ok_or(ENOMEM)?;
        let bytes = block.end - block.start;
        let address = map(block.start, bytes, kernel, user.chip)?;
        let words = [address, bytes, lender.into()];
        if bytes == self.bytes && lender == self.lender {
            self.whole = Some(words);
        }
        put(user, out, &words)
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        let Counts { asked, refused, borrowed_bytes } = self.requests.counts;
        for (name, value) in [
            ("asked", asked),
            ("refused", refused),
            ("borrowed_bytes", borrowed_bytes),
            ("lent_bytes", self.pool.lent_bytes),
        ] {
            stats.insert(format!("lease.{name}"), value as f64);
        }
    }

    /// Maps what the node lends: its borrower sees what is stored there, and it what the borrower's
    /// caches have written.
    fn lent(&mut self, out: u64, kernel: &mut Kernel, user: &mut User<'_>) -> Result {
        if !self.pool.show() {
            return Err(EBUSY);
        }
        let address = match self.lent_at {
            Some(address) => address,
            None => map(self.lent, self.bytes, kernel, user.chip)?,
        };
        self.lent_at = Some(address);
        put(user, out, &[address, self.bytes])
    }

    /// Gives the engine its ring, and the process the word in which it counts.
    fn open_engine(&mut self, out: u64, kernel: &mut Kernel, user: &mut User<'_>) -> Result {
        if self.descriptors == 0 {
            return Err(ENODEV);
        }
        let status_at = match self.status_at {
            Some(address) => address,
            None => {
                let page_bytes = user.pages.page_bytes();
                let ring_bytes = self.descriptors * DESCRIPTOR_BYTES;
                if user.pages.driver.free_bytes() < ring_bytes + 3 * page_bytes {
                    return Err(ENOMEM);
                }
                let status = user.pages.driver.allocate(page_bytes, page_bytes);
                let ring = user.pages.driver.allocate(ring_bytes, page_bytes);
                let Ni::Window(window) = &mut user.chip.ni else { return Err(ENODEV) };
                let engine = Engine::new(ring, self.descriptors, self.max_payload_bytes);
                window.engine = Some(Box::new(engine));
                window.status_address = status;
                map(status, PAGE, kernel, user.chip)?
            }
        };
        self.status_at = Some(status_at);
        put(user, out, &[status_at, self.descriptors])
    }

    /// Maps the registers of the neighbour's card, memory for its rings and buffers in one piece, and words that
    /// count its interrupts.
    fn open_card(&mut self, args: [u64; 4], kernel: &mut Kernel, user: &mut User<'_>) -> Result {
        let [bytes, out, ..] = args;
        let (registers, reached) = self.card.ok_or(ENODEV)?;
        if self.card_memory.is_some() {
            return Err(EBUSY);
        }
        if bytes == 0 {
            return Err(EINVAL);
        }
        let page_bytes = user.pages.page_bytes();
        let bytes = bytes.checked_next_multiple_of(page_bytes).ok_or(ENOMEM)?;
        if user.pages.driver.free_bytes() < bytes.saturating_add(3 * page_bytes) {
            return Err(ENOMEM);
        }
        let counts = user.pages.driver.allocate(page_bytes, page_bytes);
        let memory = user.pages.driver.allocate(bytes, page_bytes);
        let registers_at = map(registers, REGISTERS_BYTES, kernel, user.chip)?;
        let memory_at = map(memory, bytes, kernel, user.chip)?;
        let counts_at = map(counts, PAGE, kernel, user.chip)?;
        self.card_memory = Some(CardMemory { interrupts: counts, memory, bytes });
        let words =
            [registers_at, memory_at, bytes, reached + memory, counts_at, self.lender.into()];
        put(user, out, &words)
    }

    /// Opens a connection with one of another node, for buffers in a region of the process: its registers and rings.
    fn open_pair(&self, args: [u64; 4], kernel: &mut Kernel, user: &mut User<'_>) -> Result {
        let [peer, region, bytes, out] = args;
        let (_, reached) = self.card.ok_or(ENODEV)?;
        let registers = reached + self.window;
        let end = region.checked_add(bytes).filter(|_| bytes > 0).ok_or(EINVAL)?;
        for number in region / PAGE..end.div_ceil(PAGE) {
            let page = user.chip.wires.mmu.page(number * PAGE);
            let page = page.filter(|page| page.permissions.write).ok_or(EFAULT)?;
            if page.phys >= self.window {
                return Err(EOPNOTSUPP);
            }
        }
        let peer = EndPoint { node: (peer >> 16) as u16, connection: peer as u16 };
        if peer.node >= self.nodes || peer.node == self.nid {
            return Err(EINVAL);
        }
        let Ni::Bridge(bridge) = &mut user.chip.ni else { return Err(ENODEV) };
        let entries = bridge.pairs.entries();
        let ring_bytes = (entries * ENTRY_BYTES).next_multiple_of(PAGE);
        let driver = &mut user.pages.driver;
        if driver.free_bytes() < 5 * ring_bytes {
            return Err(ENOMEM);
        }
        let sends = driver.allocate(4 * ring_bytes, PAGE);
        let (receives, completions) = (sends + ring_bytes, sends + 2 * ring_bytes);
        let rings = Rings { sends, receives, completions };
        let number = bridge.pairs.open(peer, (region, bytes), rings).ok_or(ENOSPC)?;
        let registers = registers + u64::from(number) * PAGE;
        let registers_at = map(registers, PAGE, kernel, user.chip)?;
        let at = map(sends, 4 * ring_bytes, kernel, user.chip)?;
        let words =
            [registers_at, at, at + ring_bytes, at + 2 * ring_bytes, entries, number.into()];
        put(user, out, &words)
    }

    /// A line of the card has been asserted: its word counts that.
    pub fn interrupted(&self, line: u8, chip: &mut Chip) {
        let Some(card) = self.card_memory else { return };
        let address = card.interrupts + u64::from(line) * 8;
        let Some(image) = &mut chip.wires.image else { return };
        let count = image.read(address);
        image.write(address, count + 1);
        chip.changed_by_system(address / BLOCK_BYTES);
    }

    /// Posts copies of `bytes` bytes from one address of the process to another one, in blocks: a
    /// descriptor for each, and one more where physical pages do not follow each other. How many have
    /// been posted since the engine was opened.
    fn copy(&mut self, args: [u64; 4], user: &mut User<'_>) -> Result {
        let [to, from, bytes, block_bytes] = args;
        if self.status_at.is_none() || block_bytes == 0 || bytes == 0 {
            return Err(EINVAL);
        }
        if (to | from | bytes | block_bytes) % BLOCK_BYTES != 0 {
            return Err(EINVAL);
        }
        let mut all = Vec::new();
        let mut done = 0;
        while done < bytes {
            let block = block_bytes.min(bytes - done);
            pieces(from + done, to + done, block, user.chip, &mut all)?;
            done += block;
        }
        let Chip { ni, wires, .. } = &mut *user.chip;
        let Ni::Window(window) = ni else { return Err(ENODEV) };
        let engine = window.engine.as_mut().ok_or(EINVAL)?;
        if engine.room() < all.len() as u64 {
            return Err(EAGAIN);
        }
        let mut written = Vec::new();
        for descriptor in all {
            if !descriptor.is_valid() {
                return Err(EINVAL);
            }
            let address = engine.next_address();
            engine.post();
            let image = wires.image.as_mut().ok_or(ENODEV)?;
            for (word, value) in (0..).zip(descriptor.words()) {
                image.write(address + word * 8, value);
            }
            written.push(address / BLOCK_BYTES);
        }
        let posted = engine.posted();
        window.ring_doorbell(wires);
        for line in written {
            user.chip.changed_by_system(line);
        }
        Ok(posted)
    }
}

/// A block as pieces that are contiguous in physical memory on both sides.
fn pieces(from: u64, to: u64, bytes: u64, chip: &Chip, all: &mut Vec<Descriptor>) -> Result<()> {
    let first = all.len();
    let mut done = 0;
    while done < bytes {
        let phys = |address: u64, is_written: bool| {
            let page = chip.wires.mmu.page(address).ok_or(EFAULT)?;
            let is_allowed = page.permissions.read && (!is_written || page.permissions.write);
            if is_allowed { Ok(page.phys + address % PAGE) } else { Err(EFAULT) }
        };
        let (source, target) = (phys(from + done, false)?, phys(to + done, true)?);
        let in_page = |address: u64| PAGE - (address + done) % PAGE;
        let piece = (bytes - done).min(in_page(from)).min(in_page(to));
        match all[first..].last_mut() {
            Some(last) if last.from + last.bytes == source && last.to + last.bytes == target => {
                last.bytes += piece;
            }
            _ => all.push(Descriptor { from: source, to: target, bytes: piece }),
        }
        done += piece;
    }
    Ok(())
}

/// Maps physical memory for the process.
fn map(phys: u64, bytes: u64, kernel: &mut Kernel, chip: &mut Chip) -> Result {
    let address = kernel.reserve(bytes).ok_or(ENOMEM)?;
    Pages::map_physical(chip, address, phys, bytes, Permissions::READ_WRITE);
    Ok(address)
}
