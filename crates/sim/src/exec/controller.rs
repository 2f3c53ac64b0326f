//! The two kinds of network interfaces that a driver may find in its node: an RMC as in Scale-Out
//! NUMA, which knows contexts and queues by tables in memory, or interfaces as of Manycore NI, whose
//! tiles have a queue pair each and whose one segment has its place in physical memory.

use rackmem_abi::{CQ_ENTRY_BYTES, Status, WQ_ENTRY_BYTES};
use rackmem_riscv::kernel::Kernel;
use rackmem_riscv::space::{PAGE, Permissions};
use rackmem_rmc::qp::{Cursor, QpConfig};
use rackmem_rmc::{Bounds, QpId, Rights};
use serde::{Deserialize, Serialize};

use super::ExecError;
use super::device::{ENODEV, ENOMEM, ENOSPC, Result};
use super::pages::{self, Pages, SEGMENT, User, clear, image};
use crate::block::BLOCK_BYTES;
use crate::chip::Chip;
use crate::chip::front::CONTEXT;
use crate::chip::layout::Layout;
use crate::chip::ni::Ni;
use crate::sonuma::ct::QueuePair;
use crate::sonuma::driver::Rings;

/// The place of a context's segment in the process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Segment {
    /// First virtual address: a page boundary.
    pub address: u64,
    pub bytes: u64,
}

/// A queue pair, as its interface and the process know it.
#[derive(Clone, Copy, Debug)]
pub struct Queues {
    /// The core whose thread has made it.
    pub core: u16,
    id: Id,
    mapped: [Mapped; 2],
    pub addresses: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
enum Id {
    Rmc(QpId, QueuePair),
    Tile(u16),
}

/// The pages on which a process has a queue.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    address: u64,
    /// Physical address of the first of them.
    phys: u64,
    bytes: u64,
}

/// Addresses that were reserved for queues of queue pairs that are gone, for queues of others. A range of addresses
/// begins at a page of the node and has no other page of it in part.
#[derive(Clone, Debug, Default)]
pub struct Spare(Vec<(u64, u64)>);

impl Spare {
    /// First addresses of the ranges, and their bytes: whole pages.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// From such ranges, on a machine whose nodes have pages of so many bytes.
    pub fn of(ranges: &[(u64, u64)], page_bytes: u64) -> Spare {
        Spare(ranges.iter().filter(|&(address, _)| address % page_bytes == 0).copied().collect())
    }

    /// Drops those that the program has given back, or has pages in now.
    pub fn drop_used(&mut self, kernel: &Kernel, chip: &Chip) {
        let is_used = |page| chip.wires.mmu.page(page).is_some();
        let is_spare = |&(address, bytes): &(u64, u64)| {
            kernel.holds(address, bytes) && !pages::pages(address, bytes).any(is_used)
        };
        self.0.retain(is_spare);
    }

    fn take(&mut self, bytes: u64, kernel: &Kernel, chip: &Chip) -> Option<u64> {
        self.drop_used(kernel, chip);
        let bytes = bytes.next_multiple_of(PAGE);
        let at = self.0.iter().position(|&(_, spare)| spare == bytes)?;
        Some(self.0.swap_remove(at).0)
    }

    fn put(&mut self, address: u64, bytes: u64) {
        self.0.push((address, bytes.next_multiple_of(PAGE)));
    }
}

/// Opens the node's segment of a context.
///
/// # Errors
/// There is no room, or the interfaces do not know such a context.
pub fn open(
    ctx_id: u16,
    bytes: u64,
    permissions: Permissions,
    kernel: &mut Kernel,
    user: &mut User<'_>,
) -> Result<Segment> {
    if matches!(user.chip.ni, Ni::Sonuma(_)) {
        let address = reserve(bytes, kernel, user.pages)?;
        user.pages.map(user.chip, address, bytes, permissions);
        let space = user.pages.space;
        user.pages.driver.open(ctx_id, space, address, bytes, image(user.chip));
        invalidate(ctx_id, user.chip);
        return Ok(Segment { address, bytes });
    }
    let Ni::QueuePairs(ni) = &mut user.chip.ni else { return Err(ENODEV) };
    if ctx_id != CONTEXT {
        return Err(ENODEV);
    }
    if bytes > ni.backends.segment_bytes() {
        return Err(ENOMEM);
    }
    let address = kernel.reserve(bytes).ok_or(ENOMEM)?;
    ni.backends.set_context(ctx_id, Ok(Bounds { size_bytes: bytes }));
    Pages::map_physical(user.chip, address, SEGMENT, bytes, permissions);
    Ok(Segment { address, bytes })
}

/// Closes it: requests of other nodes end with this status from now on.
pub fn close(ctx_id: u16, status: Status, user: &mut User<'_>) {
    match &mut user.chip.ni {
        Ni::Sonuma(_) => {
            let space = user.pages.space;
            user.pages.driver.join(ctx_id, space, Err(status), image(user.chip));
            invalidate(ctx_id, user.chip);
        }
        Ni::QueuePairs(ni) => ni.backends.set_context(ctx_id, Err(status)),
        _ => {}
    }
}

/// Makes a queue pair for the thread on a core.
///
/// # Errors
/// There is no room for another one; of a tile: it has one already.
pub fn attach(
    ctx_id: u16,
    core: u16,
    (entries, rights): (u16, Rights),
    kernel: &mut Kernel,
    spare: &mut Spare,
    user: &mut User<'_>,
) -> Result<Queues> {
    let (id, phys) = match user.chip.ni {
        Ni::Sonuma(_) => attach_to_rmc(ctx_id, entries, rights, user)?,
        _ => attach_to_tile(core, (entries, rights), [Cursor::START; 2], user.chip)?,
    };
    let nowhere = Mapped { address: 0, phys: 0, bytes: 0 };
    let mut queues = Queues { core, id, mapped: [nowhere; 2], addresses: [0; 2] };
    let entry_bytes = [WQ_ENTRY_BYTES, CQ_ENTRY_BYTES];
    for (queue, (phys, entry_bytes)) in phys.into_iter().zip(entry_bytes).enumerate() {
        let within = phys % PAGE;
        let bytes = u64::from(entries) * entry_bytes as u64;
        clear(user.chip, phys..phys + bytes);
        let (phys, bytes) = (phys - within, within + bytes);
        // A page of the node for itself: the RMC cannot translate one that is a queue in part.
        let reserved = spare.take(bytes, kernel, user.chip);
        let reserved = reserved.map_or_else(|| reserve(bytes, kernel, user.pages), Ok);
        let address = reserved.inspect_err(|_| detach(ctx_id, &queues, spare, user))?;
        Pages::map_physical(user.chip, address, phys, bytes, Permissions::READ_WRITE);
        queues.mapped[queue] = Mapped { address, phys, bytes };
        queues.addresses[queue] = address + within;
    }
    Ok(queues)
}

/// Destroys a queue pair. Its memory, addresses and entry of the context's list are for others: the RMC still answers
/// its operations under way, and completes none of them.
pub fn detach(ctx_id: u16, queues: &Queues, spare: &mut Spare, user: &mut User<'_>) {
    match queues.id {
        Id::Rmc(id, place) => {
            if let Ni::Sonuma(node) = &mut user.chip.ni {
                node.rmc.detach(id);
                user.chip.wires.ni_next = true;
                user.pages.driver.remove_queues(ctx_id, &place, image(user.chip));
            }
        }
        Id::Tile(core) => {
            let Chip { wires, tiles, ni, .. } = &mut *user.chip;
            if let Ni::QueuePairs(ni) = ni {
                ni.detach(core, &wires.layout, tiles);
            }
        }
    }
    for Mapped { address, phys, bytes } in queues.mapped {
        // Programs may have mapped something else there.
        let is_there = user.chip.wires.mmu.page(address).is_some_and(|page| page.phys == phys);
        if is_there && bytes > 0 {
            Pages::unmap_physical(user.chip, address, bytes);
            spare.put(address, bytes);
        }
    }
}

pub fn notifications(ctx_id: u16, chip: &Chip) -> u64 {
    match &chip.ni {
        Ni::Sonuma(node) => node.rmc.notifications(ctx_id),
        Ni::QueuePairs(ni) if ctx_id == CONTEXT => ni.backends.notifications(),
        _ => 0,
    }
}

/// The end of requests for a context, unless the node has a segment of it.
pub fn status(ctx_id: u16, pages: &Pages, chip: &mut Chip) -> Option<Status> {
    match &chip.ni {
        Ni::QueuePairs(ni) => ni.backends.status(ctx_id),
        _ => pages.driver.status(ctx_id, image(chip)),
    }
}

/// Parameters of a queue pair, and the positions in its rings.
pub fn position(queues: &Queues, chip: &Chip) -> Option<(QpConfig, [Cursor; 2])> {
    match (&chip.ni, queues.id) {
        (Ni::Sonuma(node), Id::Rmc(id, _)) => node.rmc.position(id),
        (Ni::QueuePairs(ni), Id::Tile(core)) => ni.position(core, &chip.wires.layout, &chip.tiles),
        _ => None,
    }
}

/// Goes on from so many notifications of each context.
pub fn restore_notifications(counts: Vec<u64>, chip: &mut Chip) {
    match &mut chip.ni {
        Ni::Sonuma(node) => node.rmc.restore_notifications(counts.into_iter()),
        Ni::QueuePairs(ni) => {
            let count = counts.get(usize::from(CONTEXT));
            ni.backends.restore_notifications(count.copied().unwrap_or(0));
        }
        _ => {}
    }
}

/// Enters the node's segment of a context, which is mapped, or the status with which requests end.
pub fn enter_context(
    ctx_id: u16,
    segment: std::result::Result<Segment, Status>,
    user: &mut User<'_>,
) {
    let Pages { driver, space, .. } = user.pages;
    if let Ni::QueuePairs(ni) = &mut user.chip.ni {
        let bounds = segment.map(|Segment { bytes, .. }| Bounds { size_bytes: bytes });
        return ni.backends.set_context(ctx_id, bounds);
    }
    match segment {
        Ok(Segment { address, bytes }) => {
            driver.open(ctx_id, *space, address, bytes, image(user.chip));
        }
        Err(status) => driver.join(ctx_id, *space, Err(status), image(user.chip)),
    }
}

/// Has the interfaces go on with a queue pair of a core, whose rings are mapped at these addresses.
///
/// # Errors
/// A ring is not mapped, or the RMC has no register for the queue pair.
pub fn reattach(
    (ctx_id, core): (u16, u16),
    addresses: [u64; 2],
    (entries, rights): (u16, Rights),
    cursors: [Cursor; 2],
    user: &mut User<'_>,
) -> std::result::Result<Queues, ExecError> {
    let wrong = || {
        let why = "device.queue_pairs: a ring is where no page is; take the checkpoint again";
        ExecError::Checkpoint(why.to_owned())
    };
    let entry_bytes = [WQ_ENTRY_BYTES, CQ_ENTRY_BYTES];
    let (mut phys, mut mapped) = ([0; 2], [Mapped { address: 0, phys: 0, bytes: 0 }; 2]);
    for (queue, address) in addresses.into_iter().enumerate() {
        let within = address % PAGE;
        let page = user.chip.wires.mmu.page(address - within).ok_or_else(wrong)?;
        phys[queue] = page.phys + within;
        let bytes = u64::from(entries) * entry_bytes[queue] as u64;
        mapped[queue] =
            Mapped { address: address - within, phys: page.phys, bytes: within + bytes };
        let mut others = (PAGE..within + bytes).step_by(PAGE as usize);
        let is_next = |at: u64| {
            let next = user.chip.wires.mmu.page(address - within + at);
            next.is_some_and(|next| next.phys == page.phys + at)
        };
        if !others.all(is_next) {
            return Err(wrong());
        }
    }
    if let Ni::QueuePairs(_) = user.chip.ni {
        let (id, places) =
            attach_to_tile(core, (entries, rights), cursors, user.chip).map_err(|_| {
                ExecError::Checkpoint(format!("device.queue_pairs: core {core} has two"))
            })?;
        return if places == phys {
            Ok(Queues { core, id, mapped, addresses })
        } else {
            Err(wrong())
        };
    }
    let place = QueuePair { wq: phys[0], cq: phys[1], size: entries, rights };
    if !user.pages.driver.list_queues(ctx_id, &place, image(user.chip)) {
        let why = "memory.size_bytes: the queues of the checkpoint do not fit; give the nodes more";
        return Err(ExecError::Machine(why.to_owned()));
    }
    let Ni::Sonuma(node) = &mut user.chip.ni else { return Err(wrong()) };
    let id = node.rmc.attach_at(ctx_id, place, cursors).ok_or_else(|| {
        let why =
            "rmc.queue_pairs: the queue pairs of the checkpoint do not fit; give the RMCs more";
        ExecError::Machine(why.to_owned())
    })?;
    user.chip.wires.ni_next = true;
    Ok(Queues { core, id: Id::Rmc(id, place), mapped, addresses })
}

fn attach_to_rmc(
    ctx_id: u16,
    entries: u16,
    rights: Rights,
    user: &mut User<'_>,
) -> Result<(Id, [u64; 2])> {
    let (User { pages, chip }, shape) = (user, (entries, rights));
    let Ni::Sonuma(node) = &mut chip.ni else { return Err(ENODEV) };
    let image = chip.wires.image.as_mut().ok_or(ENODEV)?;
    let are_quiet = |rings: &Rings| {
        let [_, cq] = rings.ranges();
        !node.rmc.has_store_to(&(cq.start / BLOCK_BYTES..cq.end / BLOCK_BYTES))
    };
    let queues = pages.driver.add_queues(ctx_id, shape, are_quiet, image).ok_or(ENOSPC)?;
    let Some(id) = node.rmc.attach(ctx_id, queues) else {
        pages.driver.remove_queues(ctx_id, &queues, image);
        return Err(ENOSPC);
    };
    chip.wires.ni_next = true;
    Ok((Id::Rmc(id, queues), [queues.wq, queues.cq]))
}

fn attach_to_tile(
    core: u16,
    (entries, rights): (u16, Rights),
    cursors: [Cursor; 2],
    chip: &mut Chip,
) -> Result<(Id, [u64; 2])> {
    let places = places_in_tile(core, &chip.wires.layout);
    let [wq, cq] = places;
    // The completion queue follows: more entries than `ni.wq_entries` would lie in it.
    if u64::from(entries) * WQ_ENTRY_BYTES as u64 > cq - wq {
        return Err(ENOSPC);
    }
    let Chip { wires, tiles, ni, .. } = chip;
    let Ni::QueuePairs(ni) = ni else { return Err(ENODEV) };
    match ni.attach(core, (u32::from(entries), rights), cursors, tiles, wires) {
        None => Err(ENODEV),
        Some(false) => Err(ENOSPC),
        Some(true) => Ok((Id::Tile(core), places)),
    }
}

/// Physical addresses of the queues of a core's interface.
pub fn places_in_tile(core: u16, layout: &Layout) -> [u64; 2] {
    [layout.wq_line(core, 0), layout.cq_line(core, 0)].map(|line| line * BLOCK_BYTES)
}

fn invalidate(ctx_id: u16, chip: &mut Chip) {
    if let Ni::Sonuma(node) = &mut chip.ni {
        node.rmc.invalidate_context(ctx_id);
    }
}

/// Addresses for whole pages of the node.
fn reserve(bytes: u64, kernel: &mut Kernel, pages: &Pages) -> Result {
    let page_bytes = pages.page_bytes();
    if bytes > pages.driver.free_bytes() {
        return Err(ENOMEM);
    }
    let address = kernel.reserve(bytes + page_bytes).ok_or(ENOMEM)?;
    Ok(address.next_multiple_of(page_bytes))
}
