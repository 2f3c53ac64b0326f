//! The call for a copy by the RDMA channel (TSM §4.2): it checks both buffers and hands them to the channel, whose
//! interrupt ends the call.

use rackmem_riscv::space::PAGE;
use rackmem_rmc::amt::{Amt, Miss};

use crate::block::BLOCK_BYTES;
use crate::chip::Chip;
use crate::chip::ni::Ni;
use crate::chip::rdma::Copy;
use crate::exec::device::{Answer, EFAULT, EINVAL, EIO, ENODEV, Result};
use crate::exec::pages;

/// Has a thread wait for a copy of so many bytes; exactly one of both addresses is of borrowed memory.
pub fn post(thread: usize, [to, from, bytes, _]: [u64; 4], chip: &mut Chip) -> Answer {
    match hand_over(thread, [to, from, bytes], chip) {
        Ok(()) => Answer::Asking,
        Err(errno) => Err(errno).into(),
    }
}

fn hand_over(thread: usize, [to, from, bytes]: [u64; 3], chip: &mut Chip) -> Result<()> {
    if !matches!(chip.ni, Ni::Bridge(_)) {
        return Err(ENODEV);
    }
    if bytes == 0 || (to | from | bytes) % BLOCK_BYTES != 0 {
        return Err(EINVAL);
    }
    let target = Buffer::at(to, bytes, true, chip)?;
    let source = Buffer::at(from, bytes, false, chip)?;
    let is_in = source.is_borrowed;
    let (borrowed, local) = match (is_in, target.is_borrowed) {
        (true, false) => (source, target),
        (false, true) => (target, source),
        _ => return Err(EINVAL),
    };
    let Buffer { pages, offset, .. } = local;
    let borrowed = borrowed.piece(bytes, chip)?;
    if is_in {
        chip.clean_borrowed(borrowed / BLOCK_BYTES..(borrowed + bytes) / BLOCK_BYTES);
    }
    let Chip { ni: Ni::Bridge(bridge), wires, .. } = chip else { return Err(ENODEV) };
    bridge.post_copy(Copy { thread, is_in, borrowed, pages, offset, bytes }, wires);
    Ok(())
}

/// A buffer of the process: its physical pages, and where in the first it begins.
struct Buffer {
    is_borrowed: bool,
    pages: Vec<u64>,
    offset: u64,
}

impl Buffer {
    fn at(address: u64, bytes: u64, is_written: bool, chip: &Chip) -> Result<Buffer> {
        address.checked_add(bytes).ok_or(EFAULT)?;
        let phys = |at: u64| {
            let page = chip.wires.mmu.page(at).ok_or(EFAULT)?;
            let is_allowed = page.permissions.read && (!is_written || page.permissions.write);
            if is_allowed { Ok(page.phys) } else { Err(EFAULT) }
        };
        let pages = pages::pages(address, bytes).map(phys).collect::<Result<Vec<u64>>>()?;
        let is_borrowed = |page: &u64| chip.wires.map.is_borrowed(page / BLOCK_BYTES);
        let borrowed = pages.iter().filter(|page| is_borrowed(page)).count();
        if borrowed != 0 && borrowed != pages.len() {
            return Err(EFAULT);
        }
        Ok(Buffer { is_borrowed: borrowed != 0, pages, offset: address % PAGE })
    }

    /// The physical address of borrowed memory, which is in one piece of one lender.
    fn piece(&self, bytes: u64, chip: &mut Chip) -> Result {
        let is_next = |pair: &[u64]| pair[1] == pair[0] + PAGE;
        if !self.pages.windows(2).all(is_next) {
            return Err(EFAULT);
        }
        let address = self.pages[0] + self.offset;
        check(chip.ni.amt().ok_or(ENODEV)?, address, bytes)?;
        Ok(address)
    }
}

/// Whether borrowed memory is there for so many bytes.
fn check(amt: &Amt, address: u64, bytes: u64) -> Result<()> {
    match amt.lookup(address, bytes) {
        Ok(_) => Ok(()),
        Err(Miss::Lost) => Err(EIO),
        Err(_) => Err(EFAULT),
    }
}

#[cfg(test)]
mod tests {
    use rackmem_rmc::amt::Target;

    use super::*;

    #[test]
    fn memory_ends_with_its_slot_and_is_lost_with_its_lender() {
        const BASE: u64 = 1 << 30;
        let mut amt = Amt::new(2, BASE, 1 << 20);
        let lent = Target { destination: 1, address: 0 };
        amt.borrow(8192, 4096, lent).expect("a free slot");
        assert_eq!(check(&amt, BASE + 4096, 4096), Ok(()));
        assert_eq!(check(&amt, BASE + 4096, 4160), Err(EFAULT));
        assert_eq!(check(&amt, BASE + 8192, 64), Err(EFAULT));
        amt.lost(1);
        assert_eq!(check(&amt, BASE, 64), Err(EIO));
    }
}
