//! Parts of the address space: those that calls lock, and how many there may be.

use std::cell::Cell;

use rackmem_riscv::kernel::{Errno, UserMemory};
use rackmem_riscv::space::{AddressSpace, Fault, PAGE, Permissions};
use rackmem_riscv::{Hart, abi};

use crate::kernel::{MMAP, Process};

const MLOCK: u64 = 228;

/// The space of a process, of which the kernel may look at so many pages.
struct Counted<'a> {
    space: &'a mut AddressSpace,
    looks_left: Cell<u64>,
}

impl UserMemory for Counted<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        UserMemory::read(self.space, address, bytes)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        UserMemory::write(self.space, address, bytes)
    }

    fn map(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        UserMemory::map(self.space, address, length, permissions)
    }

    fn unmap(&mut self, address: u64, length: u64) {
        self.space.unmap(address, length);
    }

    fn protect(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        self.space.protect(address, length, permissions)
    }

    fn permissions(&self, address: u64) -> Option<Permissions> {
        let left = self.looks_left.get().checked_sub(1).expect("the kernel looks at few pages");
        self.looks_left.set(left);
        UserMemory::permissions(self.space, address)
    }

    fn discard(&mut self, address: u64, length: u64) {
        self.space.discard(address, length);
    }
}

/// Where mappings of these tests begin.
const BASE: u64 = 1 << 45;

/// Maps pages without a file, which begin so many pages behind the base.
fn anonymous(process: &mut Process, at: u64, pages: u64, protection: u64) -> u64 {
    const FIXED: u64 = 0x32;
    let args = [BASE + at * PAGE, pages * PAGE, protection, FIXED, u64::MAX, 0];
    process.value(MMAP, &args)
}

#[test]
fn a_lock_looks_no_further_than_a_hole() {
    let mut process = Process::new();
    assert_eq!(anonymous(&mut process, 0, 2, 3), BASE);
    let Process { kernel, space, world } = &mut process;
    let mut memory = Counted { space, looks_left: Cell::new(10) };
    let mut state = Hart::new(0x1000);
    state.x[abi::A7] = MLOCK;
    state.x[abi::A0] = BASE;
    state.x[abi::A0 + 1] = 1 << 44;
    kernel.call(0, &mut state, &mut memory, world);
    assert_eq!(state.x[abi::A0], Errno::NOMEM.result());
}
