//! Mappings of files that others change, and of files that grow when the machine has no memory for that.

use std::fs::File;
use std::io;

use rackmem_riscv::kernel::{
    Caused, Effect, Host, Kernel, Kind, OpenMode, Opened, Status, Stream, UserMemory,
};
use rackmem_riscv::space::{AddressSpace, Cause, Fault, PAGE, Permissions, Wanted};
use rackmem_riscv::{Hart, abi};

use super::kernel::DATA;

const OPENAT: u64 = 56;
const PWRITE: u64 = 68;
const MMAP: u64 = 222;
const SHARED: u64 = 1;
const READ: u64 = 1;
const READ_WRITE: u64 = 2;

/// A machine with one file.
struct World {
    file: File,
    /// The length that programs before this one give the file.
    earlier: Option<u64>,
}

impl Host for World {
    fn now_ns(&mut self) -> u64 {
        0
    }

    fn output(&mut self, _: Stream, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn input(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn harts(&self) -> usize {
        1
    }

    fn await_earlier(&mut self) {
        if let Some(length) = self.earlier.take() {
            self.file.set_len(length).expect("the file is ours");
        }
    }

    fn warn(&mut self, message: &str) {
        panic!("{message}");
    }

    fn open(&mut self, _: &str, _: OpenMode) -> io::Result<Opened> {
        let size = self.file.metadata()?.len();
        let status = Status { kind: Kind::File, size, inode: 7, permissions: 0o644, links: 1 };
        Ok(Opened::File(self.file.try_clone()?, status))
    }
}

/// Memory that may be full.
struct Memory {
    space: AddressSpace,
    is_full: bool,
    is_deferred: bool,
}

impl UserMemory for Memory {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        self.space.read(address, bytes)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.space.write(address, bytes)
    }

    fn map(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        self.is_deferred |= self.is_full;
        !self.is_full && UserMemory::map(&mut self.space, address, length, permissions)
    }

    fn unmap(&mut self, address: u64, length: u64) {
        UserMemory::unmap(&mut self.space, address, length);
    }

    fn protect(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        UserMemory::protect(&mut self.space, address, length, permissions)
    }

    fn permissions(&self, address: u64) -> Option<Permissions> {
        self.space.permissions(address)
    }

    fn discard(&mut self, address: u64, length: u64) {
        self.space.discard(address, length);
    }

    fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    fn forget_deferred(&mut self) {
        self.is_deferred = false;
    }
}

/// A process that maps two pages of a file of one page.
struct Process {
    kernel: Kernel,
    memory: Memory,
    world: World,
    file: u64,
    mapping: u64,
}

impl Process {
    fn new() -> Process {
        let mut space = AddressSpace::new();
        space.map(DATA, PAGE, Permissions::READ_WRITE);
        space.write(DATA, b"/file\0").expect("it is mapped");
        let file = tempfile::tempfile().expect("there is room for temporary files");
        file.set_len(PAGE).expect("the file is ours");
        let mut process = Process {
            kernel: Kernel::new(0x50_0000, 1),
            memory: Memory { space, is_full: false, is_deferred: false },
            world: World { file, earlier: None },
            file: 0,
            mapping: 0,
        };
        process.file = process.value(OPENAT, &[0, DATA, READ_WRITE, 0]);
        process.mapping = process.value(MMAP, &[0, 2 * PAGE, READ, SHARED, process.file, 0]);
        process
    }

    /// A call that returns a value.
    fn value(&mut self, number: u64, args: &[u64]) -> u64 {
        let mut state = Hart::new(0x1000);
        state.x[abi::A7] = number;
        state.x[abi::A0..abi::A0 + args.len()].copy_from_slice(args);
        let reply = self.kernel.call(0, &mut state, &mut self.memory, &mut self.world);
        assert_eq!(reply.effect, Effect::Return);
        state.x[abi::A0]
    }

    /// Bytes of the mapping.
    fn shown(&mut self, offset: u64) -> [u8; 4] {
        let word = self.memory.space.load(self.mapping + offset, 4).expect("it is mapped");
        (word as u32).to_le_bytes()
    }

    /// Whether a load of the second page is made again; otherwise it is `SIGBUS`, which ends the program.
    fn finds_second_page(&mut self) -> bool {
        let address = self.mapping + PAGE;
        let fault = Fault { address, wanted: Wanted::Read, cause: Cause::Unmapped };
        let (mut state, what) = (Hart::new(0x1000), Caused::Fault(fault));
        self.kernel.fault(0, &mut state, what, &mut self.memory, &mut self.world)
    }
}

#[test]
fn a_page_that_a_program_before_this_one_makes_is_found() {
    let mut process = Process::new();
    process.world.earlier = Some(2 * PAGE);
    assert!(process.finds_second_page());
}

#[test]
fn a_page_that_a_program_before_this_one_takes_is_not_found() {
    let mut process = Process::new();
    process.world.file.set_len(2 * PAGE).expect("the file is ours");
    process.world.earlier = Some(PAGE);
    assert!(!process.finds_second_page());
}

#[test]
fn a_write_succeeds_where_no_memory_is_left_to_show_it() {
    let mut process = Process::new();
    process.memory.is_full = true;
    assert_eq!(process.value(PWRITE, &[process.file, DATA, 8, PAGE - 4]), 8);
    assert_eq!(process.world.file.metadata().expect("the file is ours").len(), PAGE + 4);
    assert_eq!(process.shown(PAGE - 4), *b"/fil");
    assert!(!process.finds_second_page());
    assert!(!process.memory.is_deferred, "the next call is not made again");
    process.memory.is_full = false;
    assert!(process.finds_second_page());
    assert_eq!(process.shown(PAGE), *b"e\0\0\0");
}
