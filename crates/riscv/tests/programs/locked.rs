//! Parts of the address space: those that calls lock, and how many there may be.

use std::cell::Cell;

use rackmem_riscv::kernel::{Caused, Errno, UserMemory};
use rackmem_riscv::space::{AddressSpace, Fault, PAGE, Permissions};
use rackmem_riscv::{Hart, abi};

use crate::kernel::{DATA, MMAP, Process};

const MEMFD_CREATE: u64 = 279;
const MLOCK: u64 = 228;
const MLOCK2: u64 = 284;
const MPROTECT: u64 = 226;

const READ: u64 = 1;

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

/// Maps pages of an empty file at so many pages behind the base, for loads.
fn behind_the_end(process: &mut Process, at: u64, pages: u64) -> u64 {
    const PRIVATE_FIXED: u64 = 0x12;
    let file = process.value(MEMFD_CREATE, &[DATA, 0]);
    let args = [BASE + at * PAGE, pages * PAGE, READ, PRIVATE_FIXED, file, 0];
    let mapped = process.value(MMAP, &args);
    assert_eq!(process.value(57, &[file]), 0);
    mapped
}

#[test]
fn a_change_of_permissions_without_memory_leaves_what_is_behind_the_end_of_a_file() {
    const SIGBUS: u64 = 7;
    const RT_SIGACTION: u64 = 134;
    const HANDLER: u64 = 0x7000;
    let mut process = Process::new();
    process.space.limit(8 * PAGE);
    process.space.store(DATA + 128, 8, HANDLER).expect("it is mapped");
    assert_eq!(process.value(RT_SIGACTION, &[SIGBUS, DATA + 128, 0, 8]), 0);
    assert_eq!(behind_the_end(&mut process, 0, 1), BASE);
    assert_eq!(anonymous(&mut process, 1, 20, 0), BASE + PAGE);
    let failed = process.value(MPROTECT, &[BASE, 21 * PAGE, READ]);
    assert_eq!(failed, Errno::NOMEM.result());
    let fault = process.space.load(BASE, 1).expect_err("it is behind the end");
    let mut state = Hart::new(0x1000);
    state.x[abi::SP] = DATA + PAGE;
    let Process { kernel, space, world } = &mut process;
    assert!(kernel.fault(0, &mut state, Caused::Fault(fault), space, world));
    assert_eq!((state.pc, state.x[abi::A0]), (HANDLER, SIGBUS));
    process.kernel.check(1 << 40).expect("it has one reserved part");
}

/// How many of some calls succeed, up to one that has no memory.
fn many(call: impl FnMut(u64) -> u64) -> usize {
    let results = (0..70_000).map(call);
    let done = results.take_while(|&result| result != Errno::NOMEM.result());
    done.inspect(|&result| assert!(result < 1 << 47, "{result:#x}")).count()
}

/// Parts of each kind, at most.
const MOST: usize = 65_530;

#[test]
fn locked_parts_have_a_limit() {
    const ON_FAULT: u64 = 1;
    let mut process = Process::new();
    assert_eq!(anonymous(&mut process, 0, 1 << 20, 0), BASE);
    let locked = many(|at| process.value(MLOCK2, &[BASE + 2 * at * PAGE, PAGE, ON_FAULT]));
    assert_eq!(locked, MOST);
    let failed = process.value(MLOCK, &[BASE + (1 << 19) * PAGE, PAGE]);
    assert_eq!(failed, Errno::NOMEM.result());
    process.kernel.check(1 << 40).expect("as many as there may be");
}

#[test]
fn mappings_behind_the_end_of_files_have_a_limit() {
    let mut process = Process::new();
    let file = process.value(MEMFD_CREATE, &[DATA, 0]);
    let private = |at: u64| [BASE + 2 * at * PAGE, PAGE, 3, 0x12, file, 0];
    assert_eq!(many(|at| process.value(MMAP, &private(at))), MOST);
    process.kernel.check(1 << 40).expect("as many as there may be");
}

#[test]
fn permissions_behind_the_end_of_a_file_have_a_limit() {
    let mut process = Process::new();
    assert_eq!(behind_the_end(&mut process, 0, 140_000), BASE);
    let changed = many(|at| process.value(MPROTECT, &[BASE + (2 * at + 1) * PAGE, PAGE, 0]));
    // Each of them makes one part three.
    assert_eq!(changed, (MOST - 1) / 2);
    process.kernel.check(1 << 40).expect("as many as there may be");
}

#[test]
fn parts_without_permissions_that_touch_are_one() {
    let mut process = Process::new();
    for page in 0..70_000 {
        assert_eq!(anonymous(&mut process, page, 1, 0), BASE + page * PAGE);
    }
}
