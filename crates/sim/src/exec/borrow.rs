//! The driver of borrowed memory, of the DMA engine beside it (TSM §2.1) and of a borrowed network interface card
//! (DEOI §III), as programs call it: `include/window.h` has the calls.
//!
//! Lenders and borrowers are paired before programs begin: node `n` borrows all that node `n + 1` lends,
//! the last node borrows of the first. So each piece of memory has one borrower, and each card one user.

use std::ops::Range;

use rackmem_riscv::kernel::Kernel;
use rackmem_riscv::space::{PAGE, Permissions};
use rackmem_rmc::amt::Target;

use super::device::{Answer, EFAULT, EINVAL, ENODEV, ENOMEM, ENOSPC, ENOSYS, Result, put};
use super::pages::{Pages, User};
use crate::chip::Chip;
use crate::chip::bridge::device_base;
use crate::chip::card::REGISTERS_BYTES;
use crate::chip::layout::BLOCK_BYTES;
use crate::chip::ni::Ni;
use crate::chip::pairs::{ENTRY_BYTES, Rings};
use crate::interconnect::EndPoint;
use crate::machine::Machine;
use crate::machine::spec::Placement;
use crate::sonuma::Image as _;
use crate::window::dma::{DESCRIPTOR_BYTES, Descriptor, Engine};

/// The first of the driver's calls, and how many there are.
const FIRST_CALL: u64 = 0x5241_4320;
const CALLS: u64 = 6;

const EAGAIN: i64 = 11;
const EBUSY: i64 = 16;

/// The name of a call of the driver.
pub fn call_name(number: u64) -> Option<&'static str> {
    const NAMES: [&str; CALLS as usize] = ["borrow", "lent", "engine", "copy", "card", "pair"];
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
    /// The process's own addresses for it, once it has asked.
    borrowed_at: Option<u64>,
    lent_at: Option<u64>,
    descriptors: u64,
    max_payload_bytes: u64,
    /// Its address of the engine's status.
    status_at: Option<u64>,
    /// Physical addresses of the registers of the neighbour's card, and of all that the card reaches, for it.
    card: Option<(u64, u64)>,
    /// Physical address of the words that count its interrupts, once it is open.
    interrupts: Option<u64>,
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
            borrowed_at: None,
            lent_at: None,
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
            interrupts: None,
        })
    }

    /// Enters the lender's memory in the address mapping table; its physical addresses.
    pub fn borrow_all(&self, chip: &mut Chip) -> Range<u64> {
        let range = self.window..self.window + self.bytes;
        chip.wires.map.borrowed = range.start / BLOCK_BYTES..range.end / BLOCK_BYTES;
        if let Some(amt) = chip.ni.amt()
            && amt.lookup(self.window, self.bytes).is_err()
        {
            let lent = Target { destination: self.lender, address: self.lent };
            amt.borrow(self.bytes, BLOCK_BYTES, lent).expect("a block as long as the window");
        }
        range
    }

    pub fn call(
        &mut self,
        number: u64,
        args: [u64; 4],
        kernel: &mut Kernel,
        user: &mut User<'_>,
    ) -> Answer {
        let result = match number - FIRST_CALL {
            0 => self.borrow(args[0], kernel, user),
            1 => self.lent(args[0], kernel, user),
            2 => self.open_engine(args[0], kernel, user),
            3 => self.copy(args, user),
            4 => self.open_card(args, kernel, user),
            5 => self.open_pair(args, kernel, user),
            _ => Err(ENOSYS),
        };
        result.into()
    }

    fn borrow(&mut self, out: u64, kernel: &mut Kernel, user: &mut User<'_>) -> Result {
        // As the heap, it is there already.
        if user.pages.remote.is_some() {
            return Err(EINVAL);
        }
        let address = match self.borrowed_at {
            Some(address) => address,
            None => {
                let range = self.borrow_all(user.chip);
                map(range.start, self.bytes, kernel, user.chip)?
            }
        };
        self.borrowed_at = Some(address);
        put(user, out, &[address, self.bytes, self.lender.into()])
    }

    /// Maps what the node lends: its borrower sees what is stored there, and it what the borrower's
    /// caches have written.
    fn lent(&mut self, out: u64, kernel: &mut Kernel, user: &mut User<'_>) -> Result {
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
        if self.interrupts.is_some() {
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
        self.interrupts = Some(counts);
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
        let is_mapped =
            |at: u64| user.chip.wires.mmu.page(at).is_some_and(|page| page.permissions.write);
        if !(region / PAGE..end.div_ceil(PAGE)).all(|number| is_mapped(number * PAGE)) {
            return Err(EFAULT);
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
        let Some(counts) = self.interrupts else { return };
        let address = counts + u64::from(line) * 8;
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
