//! System calls, with a world in which time is a number.

use std::io;

use proptest::prelude::*;
use rackmem_riscv::kernel::{
    Caused, Effect, Errno, Expired, Host, Interrupted, Kernel, Program, Reply, Stream,
};
use rackmem_riscv::space::{AddressSpace, PAGE, Permissions, TOP};
use rackmem_riscv::{Hart, abi};

pub const DATA: u64 = 0x40_0000;
const HEAP: u64 = 0x50_0000;

const FUTEX: u64 = 98;
const FUTEX_WAIT: u64 = 128;
const FUTEX_WAKE: u64 = 129;
const CLONE: u64 = 220;
const CLONE_FLAGS: u64 = 0x100 | 0x1_0000 | 0x8_0000 | 0x10_0000 | 0x20_0000;
const BRK: u64 = 214;
pub const MMAP: u64 = 222;
const MUNMAP: u64 = 215;

#[derive(Default)]
pub struct World {
    now_ns: u64,
    /// Those of a large machine if it is 0.
    memory_bytes: u64,
    said: Vec<String>,
    /// Bytes of standard input that the program has.
    given: usize,
}

impl Host for World {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        self.said.push(format!("{stream:?}: {}", String::from_utf8_lossy(bytes)));
        Ok(())
    }

    fn input(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = io::Read::read(&mut &b"in\n"[self.given..], buffer)?;
        self.given += count;
        Ok(count)
    }

    fn harts(&self) -> usize {
        2
    }

    fn memory_bytes(&self) -> u64 {
        if self.memory_bytes == 0 { 16 << 30 } else { self.memory_bytes }
    }

    fn warn(&mut self, message: &str) {
        self.said.push(message.to_owned());
    }
}

pub struct Process {
    pub kernel: Kernel,
    pub space: AddressSpace,
    pub world: World,
}

impl Process {
    pub fn new() -> Process {
        let mut space = AddressSpace::new();
        space.map(DATA, PAGE, Permissions::READ_WRITE);
        Process { kernel: Kernel::new(HEAP, 1), space, world: World::default() }
    }

    /// A call of one hart; returns what is in `a0` then, too.
    pub fn call(&mut self, hart: usize, number: u64, args: &[u64]) -> (u64, Reply) {
        let (state, reply) = self.any_call(hart, number, args);
        assert_eq!(state.pc, 0x1004, "the ecall is over");
        (state.x[abi::A0], reply)
    }

    /// A call that may have to be made again, or that a handler follows; returns the registers.
    pub fn any_call(&mut self, hart: usize, number: u64, args: &[u64]) -> (Hart, Reply) {
        let mut state = Hart::new(0x1000);
        state.x[abi::A7] = number;
        state.x[abi::SP] = DATA + PAGE;
        state.x[abi::A0..abi::A0 + args.len()].copy_from_slice(args);
        let reply = self.kernel.call(hart, &mut state, &mut self.space, &mut self.world);
        (state, reply)
    }

    /// Whether the program handles what an instruction has caused.
    pub fn fault(&mut self, hart: usize, state: &mut Hart, what: Caused) -> bool {
        self.kernel.fault(hart, state, what, &mut self.space, &mut self.world)
    }

    /// The program is over.
    pub fn end(&mut self) {
        self.kernel.end(&mut self.space, &mut self.world);
    }

    /// A call that does nothing but return a value.
    pub fn value(&mut self, number: u64, args: &[u64]) -> u64 {
        let (value, reply) = self.call(0, number, args);
        assert_eq!(reply, Reply { effect: Effect::Return, woken: vec![] });
        value
    }

    fn word(&mut self, address: u64) -> u64 {
        self.space.load(address, 8).expect("it is mapped")
    }
}

fn spawn(process: &mut Process) -> (u64, Box<Hart>) {
    let (id, reply) = process.call(0, CLONE, &[CLONE_FLAGS, 0x9000, DATA, 0x7777, DATA + 8]);
    match reply.effect {
        Effect::Spawn { hart: 1, state } => (id, state),
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_begin_with_free_numbers_and_share_harts() {
    let mut process = Process::new();
    let (id, state) = spawn(&mut process);
    assert_eq!((state.pc, state.x[abi::A0]), (0x1004, 0), "the child returns 0");
    assert_eq!((state.x[abi::SP], state.x[abi::TP]), (0x9000, 0x7777));
    assert_eq!(process.word(DATA) as u32, id as u32, "the parent knows its number");
    // There are two harts: the others have to share them.
    let most = 1024;
    for number in 2..most {
        let (_, reply) = process.call(0, CLONE, &[CLONE_FLAGS, 0x9000, DATA, 0, DATA]);
        assert!(matches!(reply.effect, Effect::Spawn { hart, .. } if hart == number));
    }
    let (value, _) = process.call(0, CLONE, &[CLONE_FLAGS, 0x9000, DATA, 0, DATA]);
    assert_eq!(value, Errno::AGAIN.result());
    assert_eq!(process.world.said, ["a process has 1024 threads at most; the program gets EAGAIN"]);
    assert_eq!(process.value(168, &[DATA, 0]), 0);
    process.call(3, 168, &[DATA, 0]);
    assert_eq!(process.word(DATA) as u32, 1, "thread 3 is on the second of two harts");
}

#[test]
fn a_thread_that_ends_wakes_who_joins_it() {
    let mut process = Process::new();
    spawn(&mut process);
    process.space.store(DATA + 8, 4, 5).expect("it is mapped");
    let (_, reply) = process.call(0, FUTEX, &[DATA + 8, FUTEX_WAIT, 5, 0]);
    assert_eq!(reply.effect, Effect::Sleep { until_ns: None });
    let (_, reply) = process.call(1, 93, &[0]);
    assert_eq!(reply, Reply { effect: Effect::ExitThread, woken: vec![0] });
    assert_eq!(process.space.load(DATA + 8, 4), Ok(0));
    spawn(&mut process); // The hart is free again.
    let (_, reply) = process.call(1, 93, &[0]);
    assert_eq!(reply.effect, Effect::ExitThread);
    let (_, reply) = process.call(0, 93, &[4]);
    assert_eq!(reply.effect, Effect::Exit(4), "the last thread ends the program");
}

#[test]
fn futexes_look_before_they_sleep() {
    let mut process = Process::new();
    assert_eq!(process.value(FUTEX, &[DATA, FUTEX_WAIT, 1, 0]), Errno::AGAIN.result());
    assert_eq!(process.value(FUTEX, &[DATA, FUTEX_WAKE, 1]), 0);
    assert_eq!(process.value(FUTEX, &[DATA + 2, FUTEX_WAKE, 1]), Errno::INVAL.result());
    assert_eq!(process.value(FUTEX, &[0, FUTEX_WAIT, 1, 0]), Errno::FAULT.result());
}

#[test]
fn futexes_wake_in_order_and_time_out() {
    let mut process = Process::new();
    process.world.now_ns = 100;
    process.space.store(DATA + 64, 8, 1).expect("it is mapped");
    process.space.store(DATA + 72, 8, 50).expect("it is mapped");
    let (_, reply) = process.call(1, FUTEX, &[DATA, FUTEX_WAIT, 0, DATA + 64]);
    assert_eq!(reply.effect, Effect::Sleep { until_ns: Some(1_000_000_150) });
    process.call(0, FUTEX, &[DATA, FUTEX_WAIT, 0, 0]);
    let mut hart = Hart::new(0);
    process.kernel.time_out(1, &mut hart);
    assert_eq!(hart.x[abi::A0], Errno::TIMEDOUT.result());
    process.call(1, FUTEX, &[DATA, FUTEX_WAIT, 0, 0]);
    let (value, reply) = process.call(2, FUTEX, &[DATA, FUTEX_WAKE, 1]);
    assert_eq!((value, reply.woken), (1, vec![0]), "the longest waiting one");
    let (value, reply) = process.call(2, FUTEX, &[DATA, FUTEX_WAKE, i32::MAX as u64]);
    assert_eq!((value, reply.woken), (1, vec![1]));
}

#[test]
fn waiters_move_to_another_futex() {
    const CMP_REQUEUE: u64 = 4;
    let mut process = Process::new();
    for hart in 0..3 {
        process.call(hart, FUTEX, &[DATA, FUTEX_WAIT, 0, 0]);
    }
    let (value, reply) = process.call(3, FUTEX, &[DATA, CMP_REQUEUE, 1, 9, DATA + 4, 0]);
    assert_eq!((value, reply.woken), (3, vec![0]), "one woken, two moved");
    assert_eq!(process.value(FUTEX, &[DATA, FUTEX_WAKE, 9]), 0);
    assert_eq!(process.call(3, FUTEX, &[DATA + 4, FUTEX_WAKE, 9]).1.woken, [1, 2]);
}

#[test]
fn the_heap_grows_and_shrinks() {
    let mut process = Process::new();
    assert_eq!(process.value(BRK, &[0]), HEAP);
    assert_eq!(process.value(BRK, &[HEAP + 5000]), HEAP + 5000);
    assert!(process.space.store(HEAP + 8191, 1, 1).is_ok());
    assert_eq!(process.value(BRK, &[HEAP + 100]), HEAP + 100);
    assert!(process.space.load(HEAP + 4096, 1).is_err());
    assert_eq!(process.value(BRK, &[u64::MAX]), HEAP + 100, "no such place");
}

#[test]
fn mappings_do_not_overlap_and_come_back() {
    let mut process = Process::new();
    let map =
        |process: &mut Process, length| process.value(MMAP, &[0, length, 3, 0x22, u64::MAX, 0]);
    let (a, b) = (map(&mut process, 5000), map(&mut process, 1 << 20));
    assert!(b + (1 << 20) <= a, "top down");
    assert!(process.space.store(a + 8191, 1, 1).is_ok());
    assert_eq!(process.value(MUNMAP, &[a, 8192]), 0);
    assert!(process.space.load(a, 1).is_err());
    assert_eq!(map(&mut process, 8192), a, "the gap is used again");
    assert_eq!(process.space.load(a + 8191, 1), Ok(0), "and zeroed");
    assert_eq!(process.value(MUNMAP, &[a + 1, 8192]), Errno::INVAL.result());
    let last_page = u64::MAX - (PAGE - 1);
    assert_eq!(process.value(MUNMAP, &[last_page, PAGE - 1]), Errno::INVAL.result());
    assert_eq!(process.value(MUNMAP, &[0, 1 << 46]), Errno::INVAL.result());
    assert_eq!(map(&mut process, 0), Errno::INVAL.result());
    assert_eq!(map(&mut process, 1 << 60), Errno::NOMEM.result());
}

#[test]
fn drivers_get_addresses_that_programs_do_not_get() {
    let mut process = Process::new();
    let ours = process.kernel.reserve(100).expect("there is room");
    let theirs = process.value(MMAP, &[0, PAGE, 3, 0x22, u64::MAX, 0]);
    assert_eq!(theirs, ours - PAGE);
    assert_eq!(process.kernel.reserve(0), None);
    assert_eq!(process.kernel.reserve(u64::MAX), None);
}

#[test]
fn time_is_what_the_world_says() {
    let mut process = Process::new();
    process.world.now_ns = 5_000_000_007;
    assert_eq!(process.value(113, &[1, DATA]), 0);
    assert_eq!((process.word(DATA), process.word(DATA + 8)), (5, 7));
    let (_, reply) = process.call(0, 101, &[DATA, 0]);
    assert_eq!(reply.effect, Effect::Sleep { until_ns: Some(10_000_000_014) });
}

#[test]
fn pieces_are_written_one_after_the_other() {
    let mut process = Process::new();
    process.space.write(DATA + 100, b"onetwo").expect("it is mapped");
    for (at, word) in [(0, DATA + 100), (8, 3), (16, DATA + 103), (24, 3)] {
        process.space.store(DATA + at, 8, word).expect("it is mapped");
    }
    assert_eq!(process.value(66, &[1, DATA, 2]), 6);
    assert_eq!(process.world.said, ["Out: one", "Out: two"]);
    assert_eq!(process.value(64, &[9, DATA, 1]), Errno::BADF.result());
    assert_eq!(process.value(64, &[1, 0x10, 1]), Errno::FAULT.result());
    assert_eq!(process.value(63, &[0, DATA, 10]), 3);
}

#[test]
fn harts_are_what_affinity_shows() {
    let mut process = Process::new();
    assert_eq!(process.value(123, &[0, 128, DATA]), 8);
    assert_eq!(process.word(DATA), 0b11);
}

#[test]
fn the_outermost_folder_is_the_machines() {
    const OPENAT: u64 = 56;
    const GETDENTS64: u64 = 61;
    let mut process = Process::new();
    process.space.write(DATA, b"/\0").unwrap();
    let folder = process.value(OPENAT, &[0, DATA, 0o20_0000]);
    let length = process.value(GETDENTS64, &[folder, DATA, PAGE]) as usize;
    let mut bytes = vec![0; length];
    process.space.read(DATA, &mut bytes).unwrap();
    let (mut names, mut at) = (Vec::new(), 0);
    while at < length {
        let end = at + usize::from(bytes[at + 16]);
        let name = bytes[at + 19..end].split(|&byte| byte == 0).next().unwrap();
        names.push(String::from_utf8_lossy(name).into_owned());
        at = end;
    }
    assert_eq!(names, [".", "..", "dev", "proc", "rackmem", "sys"]);
}

#[test]
fn abort_ends_the_program() {
    let mut process = Process::new();
    assert_eq!(process.call(0, 131, &[1000, 1000, 6]).1.effect, Effect::Killed(6));
    assert_eq!(process.call(0, 94, &[3]).1.effect, Effect::Exit(3));
    assert_eq!(process.call(0, 124, &[]).1.effect, Effect::Yield);
}

const READ: u64 = 63;
const WRITE: u64 = 64;
const PIPE2: u64 = 59;
const TIMERFD_CREATE: u64 = 85;
const TIMERFD_SETTIME: u64 = 86;
const TIMERFD_GETTIME: u64 = 87;
const TGKILL: u64 = 131;
const RT_SIGACTION: u64 = 134;

#[test]
fn standard_input_that_finds_no_place_is_there_for_the_next_read() {
    let (mut process, end) = (Process::new(), DATA + PAGE);
    assert_eq!(process.value(READ, &[0, end - 2, 3]), Errno::FAULT.result());
    assert_eq!(process.value(READ, &[0, end - 2, 2]), 2);
    assert_eq!(process.value(READ, &[0, end - 4, 4]), 1);
    assert_eq!(process.word(end - 8).to_le_bytes()[4..], *b"\n\0in");
    assert_eq!(process.value(READ, &[0, end - 4, 4]), 0);
}

#[test]
fn a_read_of_an_empty_pipe_is_made_again() {
    let mut process = Process::new();
    assert_eq!(process.value(PIPE2, &[DATA, 0]), 0);
    let (from, to) = (process.word(DATA) & 0xffff_ffff, process.word(DATA) >> 32);
    let (state, reply) = process.any_call(0, READ, &[from, DATA + 64, 8]);
    assert_eq!(reply.effect, Effect::Sleep { until_ns: None });
    assert_eq!((state.pc, state.x[abi::A0]), (0x1000, from), "as before the call");
    let (count, reply) = process.call(1, WRITE, &[to, DATA, 4]);
    assert_eq!((count, reply.woken), (4, vec![0]));
    assert_eq!(process.value(READ, &[from, DATA + 64, 8]), 4);
}

#[test]
fn a_poll_that_is_made_again_ends_when_it_would_have() {
    const PPOLL: u64 = 73;
    let mut process = Process::new();
    process.space.store(DATA + 8, 8, 50).expect("it is mapped");
    let poll = [0, 0, DATA, 0];
    let sleeps = Effect::Sleep { until_ns: Some(50) };
    assert_eq!(process.any_call(0, PPOLL, &poll).1.effect, sleeps);
    process.world.now_ns = 20;
    assert_eq!(process.any_call(0, PPOLL, &poll).1.effect, sleeps, "and not at 70");
    process.world.now_ns = 50;
    process.kernel.time_out(0, &mut Hart::new(0));
    assert_eq!(process.value(PPOLL, &poll), 0);
    process.world.now_ns = 60;
    assert_eq!(process.any_call(0, PPOLL, &poll).1.effect, Effect::Sleep { until_ns: Some(110) });
}

#[test]
fn a_signal_interrupts_a_futex_of_another_hart() {
    const HANDLER: u64 = 0x7000;
    const SIGUSR1: u64 = 10;
    let mut process = Process::new();
    let (id, _) = spawn(&mut process);
    process.space.store(DATA + 128, 8, HANDLER).expect("it is mapped");
    assert_eq!(process.value(RT_SIGACTION, &[SIGUSR1, DATA + 128, 0, 8]), 0);
    let (mut state, _) = process.any_call(1, FUTEX, &[DATA + 256, FUTEX_WAIT, 0, 0]);
    let (_, reply) = process.call(0, TGKILL, &[1000, id, SIGUSR1]);
    assert_eq!(reply.woken, [1]);
    assert!(process.kernel.is_due(1));
    assert_eq!(process.kernel.interrupt(1, &mut state, &mut process.space), Interrupted::default());
    assert_eq!((state.pc, state.x[abi::A0]), (HANDLER, SIGUSR1));
    assert_eq!(process.value(FUTEX, &[DATA + 256, FUTEX_WAKE, 9]), 0, "nobody waits any more");
    state.pc = 0x2000;
    state.x[abi::A7] = 139;
    process.kernel.call(1, &mut state, &mut process.space, &mut process.world);
    let interrupted = Errno::INTR.result();
    assert_eq!((state.pc, state.x[abi::A0]), (0x1004, interrupted), "back in the program");
}

#[test]
fn a_timer_wakes_its_program_every_period() {
    const SETITIMER: u64 = 103;
    const RT_SIGSUSPEND: u64 = 133;
    const HANDLER: u64 = 0x7000;
    const SIGALRM: u64 = 14;
    let mut process = Process::new();
    process.world.now_ns = 1000;
    for (at, word) in [(0, 0), (8, 3), (16, 0), (24, 5), (128, HANDLER)] {
        process.space.store(DATA + at, 8, word).expect("it is mapped");
    }
    assert_eq!(process.kernel.next_timer(), None);
    assert_eq!(process.value(SETITIMER, &[0, DATA, 0]), 0);
    assert_eq!(process.kernel.next_timer(), Some(6000));
    assert_eq!(process.value(RT_SIGACTION, &[SIGALRM, DATA + 128, 0, 8]), 0);
    let (mut state, reply) = process.any_call(0, RT_SIGSUSPEND, &[DATA + 256, 8]);
    assert_eq!(reply.effect, Effect::Sleep { until_ns: None });
    assert_eq!(process.kernel.expire(5999), Expired::default());
    let due = process.kernel.expire(6000);
    assert_eq!(due, Expired { woken: vec![0], killed: None });
    assert_eq!(process.kernel.next_timer(), Some(9000));
    assert_eq!(process.kernel.interrupt(0, &mut state, &mut process.space), Interrupted::default());
    assert_eq!((state.pc, state.x[abi::A0]), (HANDLER, SIGALRM));
    // Periods that are over come as one; nobody handles it any more.
    process.space.store(DATA + 128, 8, 0).expect("it is mapped");
    assert_eq!(process.value(RT_SIGACTION, &[SIGALRM, DATA + 128, 0, 8]), 0);
    let mut state = Hart::new(0x2000);
    state.x[abi::A7] = 139;
    state.x[abi::SP] = DATA + PAGE;
    let due = process.kernel.expire(20_000);
    assert_eq!((due.killed, process.kernel.next_timer()), (None, Some(21_000)), "it is blocked");
    assert_eq!(process.kernel.interrupt(0, &mut state, &mut process.space), Interrupted::default());
}

#[test]
fn a_timer_wakes_its_readers_and_nobody_twice() {
    let mut process = Process::new();
    process.world.now_ns = 1000;
    // A period of 3 us, and the first time after 5.
    for (at, word) in [(0, 0), (8, 3000), (16, 0), (24, 5000)] {
        process.space.store(DATA + at, 8, word).expect("it is mapped");
    }
    let timer = process.value(TIMERFD_CREATE, &[1, 0]);
    assert_eq!(process.value(TIMERFD_SETTIME, &[timer, 0, DATA, 0]), 0);
    assert_eq!(process.kernel.next_timer(), Some(6000));
    let read = [timer, DATA + 64, 8];
    let (state, reply) = process.any_call(1, READ, &read);
    assert_eq!(reply.effect, Effect::Sleep { until_ns: None });
    assert_eq!(state.pc, 0x1000);
    assert_eq!(process.kernel.expire(5999), Expired::default());
    let due = process.kernel.expire(6000);
    assert_eq!(due, Expired { woken: vec![1], killed: None });
    // Nobody has read it.
    assert_eq!(process.kernel.next_timer(), None);
    process.world.now_ns = 13_000;
    assert_eq!(process.call(1, READ, &read).0, 8);
    assert_eq!(process.word(DATA + 64), 3, "at 6, 9 and 12 us");
    assert_eq!(process.kernel.next_timer(), Some(15_000));
    // A call that comes first wakes them as well.
    process.any_call(1, READ, &read);
    process.world.now_ns = 15_000;
    let (_, reply) = process.call(0, TIMERFD_GETTIME, &[timer, DATA]);
    assert_eq!(reply.woken, [1]);
    assert_eq!((process.word(DATA + 8), process.word(DATA + 24)), (3000, 3000));
}

#[test]
fn what_users_may_not_make_is_refused() {
    const MKNODAT: u64 = 33;
    let mut process = Process::new();
    for clock in [8, 9] {
        assert_eq!(process.value(TIMERFD_CREATE, &[clock, 0]), Errno::PERM.result());
    }
    let timer = process.value(TIMERFD_CREATE, &[0, 0]);
    assert_eq!(process.value(TIMERFD_GETTIME, &[timer, 8]), Errno::FAULT.result());
    process.space.write(DATA, b"name\0").expect("it is mapped");
    for (mode, errno) in [
        (0o020_600, Errno::PERM),
        (0o060_600, Errno::PERM),
        (0o110_600, Errno::INVAL),
        // A host without files.
        (0o010_600, Errno::ROFS),
        (0o140_600, Errno::ROFS),
        (0o100_600, Errno::ROFS),
    ] {
        let made = process.value(MKNODAT, &[u64::MAX - 99, DATA, mode, 0]);
        assert_eq!(made, errno.result(), "{mode:o}");
    }
}

#[test]
fn files_in_memory_are_no_larger_than_it() {
    const MEMFD_CREATE: u64 = 279;
    const PWRITE64: u64 = 68;
    let mut process = Process::new();
    process.world.memory_bytes = 5 * PAGE;
    let files = [0; 2].map(|_| process.value(MEMFD_CREATE, &[DATA, 0]));
    for page in 0..2 {
        for file in files {
            assert_eq!(process.value(PWRITE64, &[file, DATA, PAGE, PAGE * page]), PAGE);
        }
    }
    let mapped = process.value(PWRITE64, &[files[0], DATA, PAGE + 1, 2 * PAGE]);
    assert_eq!(mapped, PAGE, "no more is mapped");
    let full = process.value(PWRITE64, &[files[1], DATA, 1, 2 * PAGE]);
    assert_eq!(full, Errno::NOSPC.result());
    let shared = [0, PAGE, 3, 1, files[1], 0];
    assert_eq!(process.value(MMAP, &shared), Errno::NOMEM.result());
    assert_eq!(process.value(57, &[files[0]]), 0);
    assert_eq!(process.value(PWRITE64, &[files[1], DATA, 1, 2 * PAGE]), 1);
}

const CLOSE: u64 = 57;
const FTRUNCATE: u64 = 46;
const MEMFD_CREATE: u64 = 279;

/// A file in memory of so many pages.
fn file_of(process: &mut Process, pages: u64) -> u64 {
    let file = process.value(MEMFD_CREATE, &[DATA, 0]);
    assert_eq!(process.value(FTRUNCATE, &[file, pages * PAGE]), 0);
    file
}

#[test]
fn files_that_only_mappings_need_have_a_limit() {
    let mut process = Process::new();
    let map = |process: &mut Process, file, page| {
        process.value(MMAP, &[0, PAGE, 1, 1, file, page * PAGE])
    };
    let many = file_of(&mut process, 2200);
    for page in 0..1100 {
        assert!(map(&mut process, many, 2 * page) < TOP, "{page}");
    }
    process.kernel.check(1 << 40).expect("one file has many mappings");
    let mut mapped = Vec::new();
    let last = loop {
        let file = process.value(MEMFD_CREATE, &[DATA, 0]);
        if file >= 1024 {
            break file;
        }
        assert_eq!(process.value(FTRUNCATE, &[file, PAGE]), 0);
        mapped.push(map(&mut process, file, 0));
        assert_eq!(process.value(CLOSE, &[file]), 0);
    };
    assert_eq!(last, Errno::NFILE.result());
    // The streams and the first file are open, too.
    assert_eq!(mapped.len(), 2048 - 4);
    process.kernel.check(1 << 40).expect("as many as there may be");
    assert_eq!(process.value(MUNMAP, &[mapped[7], PAGE]), 0);
    assert!(process.value(MEMFD_CREATE, &[DATA, 0]) < 1024);
}

#[test]
fn holes_of_mapped_files_take_no_memory() {
    const PWRITE64: u64 = 68;
    const MAP_SHARED: u64 = 1;
    const MAP_PRIVATE: u64 = 2;
    let mut process = Process::new();
    process.space.store(DATA, 8, 0x1234).expect("it is mapped");
    let file = file_of(&mut process, 1000);
    assert_eq!(process.value(PWRITE64, &[file, DATA, 8, 700 * PAGE + 16]), 8);
    for kind in [MAP_SHARED, MAP_PRIVATE] {
        let before = process.space.resident();
        let at = process.value(MMAP, &[0, 1000 * PAGE, 3, kind, file, 0]);
        assert_eq!(process.space.load(at + 700 * PAGE + 16, 8), Ok(0x1234));
        assert_eq!(process.space.load(at + 701 * PAGE, 8), Ok(0));
        let pages = (process.space.resident() - before) / PAGE;
        assert!((1..=16).contains(&pages), "{pages}");
    }
}

#[test]
fn mappings_are_no_larger_than_the_memory_together() {
    let mut process = Process::new();
    process.space.limit(11 * PAGE);
    let anonymous = |pages: u64| [0, pages * PAGE, 3, 0x22, u64::MAX, 0];
    let first = process.value(MMAP, &anonymous(6));
    assert_eq!(process.value(MMAP, &anonymous(5)), Errno::NOMEM.result());
    assert!(process.value(MMAP, &anonymous(4)) < TOP);
    assert_eq!(process.value(MUNMAP, &[first, PAGE]), 0);
    assert!(process.value(MMAP, &anonymous(1)) < TOP);
    assert_eq!(process.value(MMAP, &anonymous(1)), Errno::NOMEM.result());
}

#[test]
fn reserved_parts_of_the_address_space_have_a_limit() {
    const FIXED: u64 = 0x32;
    const BASE: u64 = 1 << 45;
    let mut process = Process::new();
    let mut reserve = |at: u64, pages: u64| {
        process.value(MMAP, &[BASE + at * PAGE, pages * PAGE, 0, FIXED, u64::MAX, 0])
    };
    assert_eq!(reserve(0, 3), BASE);
    for at in 2..65_531 {
        assert_eq!(reserve(2 * at, 1), BASE + 2 * at * PAGE);
    }
    assert_eq!(reserve(1 << 20, 1), Errno::NOMEM.result());
    assert_eq!(process.value(MUNMAP, &[BASE + PAGE, PAGE]), Errno::NOMEM.result(), "a hole");
    assert_eq!(process.value(MUNMAP, &[BASE, PAGE]), 0);
}

#[test]
fn a_timer_ends_a_program_that_has_no_handler() {
    const SETITIMER: u64 = 103;
    let mut process = Process::new();
    process.space.store(DATA + 24, 8, 5).expect("it is mapped");
    assert_eq!(process.value(SETITIMER, &[0, DATA, 0]), 0);
    let due = process.kernel.expire(5000);
    assert_eq!(due, Expired { woken: vec![], killed: Some((0, 14)) });
    assert_eq!(process.kernel.next_timer(), None, "once");
}

#[test]
fn a_signal_that_all_threads_block_is_for_the_first_that_waits() {
    const KILL: u64 = 129;
    const RT_SIGPROCMASK: u64 = 135;
    const RT_SIGTIMEDWAIT: u64 = 137;
    const SIGUSR1: u64 = 10;
    let mut process = Process::new();
    process.space.store(DATA, 8, 1 << (SIGUSR1 - 1)).expect("it is mapped");
    assert_eq!(process.value(RT_SIGPROCMASK, &[0, DATA, 0, 8]), 0);
    process.space.store(DATA + 64, 8, 0).expect("it is mapped");
    let (_, reply) = process.call(0, CLONE, &[CLONE_FLAGS, 0x9000, DATA + 64, 0, DATA + 64]);
    assert!(matches!(reply.effect, Effect::Spawn { hart: 1, .. }));
    let wait = [DATA, 0, 0, 8];
    let (_, reply) = process.any_call(1, RT_SIGTIMEDWAIT, &wait);
    assert_eq!(reply.effect, Effect::Sleep { until_ns: None });
    let (_, reply) = process.call(0, KILL, &[1000, SIGUSR1]);
    assert_eq!(reply.woken, [1]);
    assert_eq!(process.call(1, RT_SIGTIMEDWAIT, &wait).0, SIGUSR1);
    // Nobody waits now: the one who does so next has it.
    assert_eq!(process.call(1, KILL, &[1000, SIGUSR1]).1.woken, []);
    assert_eq!(process.call(0, RT_SIGTIMEDWAIT, &wait).0, SIGUSR1);
    process.space.store(DATA + 128, 8, 0).expect("it is mapped");
    process.space.store(DATA + 136, 8, 0).expect("it is mapped");
    let none = [DATA, 0, DATA + 128, 8];
    assert_eq!(process.call(0, RT_SIGTIMEDWAIT, &none).0, Errno::AGAIN.result());
}

/// Arguments that calls trip over: small numbers, addresses that are mapped and not, edges.
fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..16u64,
        DATA..DATA + 2 * PAGE,
        Just(u64::MAX),
        Just(u64::MAX - 7),
        Just(1 << 47),
        Just(1 << 46),
        Just((1 << 47) - PAGE),
        any::<u64>(),
        any::<u64>().prop_map(|value| value & !(PAGE - 1)),
        any::<u16>().prop_map(u64::from),
    ]
}

proptest! {
    #[test]
    fn no_arguments_upset_the_kernel(
        calls in prop::collection::vec((0u64..450, prop::array::uniform6(argument())), 1..40)
    ) {
        let mut process = Process::new();
        for (number, args) in calls {
            let (mut state, reply) = process.any_call(0, number, &args);
            process.world.now_ns += 1_000;
            let now = process.world.now_ns;
            let _ = process.kernel.expire(now);
            prop_assert!(process.kernel.next_timer().is_none_or(|due| due > now));
            let _ = process.kernel.interrupt(0, &mut state, &mut process.space);
            for hart in reply.woken {
                prop_assert!(hart < 2);
            }
        }
    }
}

#[test]
fn the_limit_of_stacks_is_that_of_the_first_thread() {
    const PRLIMIT64: u64 = 261;
    const STACK: u64 = 3;
    for stack_bytes in [64 << 10, 1 << 30] {
        let mut process = Process::new();
        let program = Program { stack_bytes, ..Program::default() };
        process.kernel = Kernel::new(HEAP, 1).with_program(program);
        assert_eq!(process.value(PRLIMIT64, &[0, STACK, 0, DATA]), 0);
        assert_eq!((process.word(DATA), process.word(DATA + 8)), (stack_bytes, u64::MAX));
    }
}
