//! Mappings of files that others change.

use std::fs::File;
use std::io;

use rackmem_riscv::kernel::{Caused, Effect, Host, Kernel, Kind, OpenMode, Opened, Status, Stream};
use rackmem_riscv::space::{AddressSpace, Cause, Fault, PAGE, Permissions, Wanted};
use rackmem_riscv::{Hart, abi};

use super::kernel::DATA;

const OPENAT: u64 = 56;
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

/// A process that maps two pages of a file of one page.
struct Process {
    kernel: Kernel,
    memory: AddressSpace,
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
            memory: space,
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
