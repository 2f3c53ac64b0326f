//! Small programs in the kernel, at the doors of interfaces. They go with this process, however it ends.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::descriptor;

/// The direction of packets that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Packets that arrive, after packet sockets have seen them.
    In,
    /// Packets that leave.
    Out,
}

/// A program at its place; it is taken away when this is dropped.
#[derive(Debug)]
#[must_use = "the program goes with this"]
pub struct Attached {
    _link: OwnedFd,
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;

/// Return value of a program that lets the packet pass; the other one drops it.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;
/// The kernel's function that sends a packet out of another interface.
const FUNCTION_REDIRECT: i32 = 23;
/// Offset of the packet's mark in the context of a program (`struct __sk_buff`).
const MARK_OFFSET: i16 = 8;

/// An instruction: `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the lower four bits, source in the upper ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers, offset, immediate }
}

/// `register = value`
const fn set(register: u8, value: i32) -> Instruction {
    instruction(0xb7, register, 0, value)
}

const EXIT: Instruction = instruction(0x95, 0, 0, 0);

/// Every packet at `from` leaves by the interface of index `to`, with `mark`.
///
/// # Errors
/// Errors of the system calls: `EPERM` without CAP_NET_ADMIN and CAP_BPF, `EINVAL` before Linux 6.6.
pub fn redirect(from: u32, door: Door, to: u32, mark: u32) -> io::Result<Attached> {
    attach(
        from,
        door,
        &[
            set(2, mark as i32),
            instruction(0x63, 0x21, MARK_OFFSET, 0), // *(u32 *)(packet + mark) = r2
            set(1, to as i32),
            set(2, 0),
            instruction(0x85, 0, 0, FUNCTION_REDIRECT),
            EXIT,
        ],
    )
}

/// No packet passes but those with `mark`.
///
/// # Errors
/// As [`redirect`].
pub fn only_marked(at: u32, door: Door, mark: u32) -> io::Result<Attached> {
    attach(
        at,
        door,
        &[
            instruction(0x61, 0x12, MARK_OFFSET, 0), // r2 = *(u32 *)(packet + mark)
            set(0, TCX_NEXT),
            instruction(0x16, 0x02, 1, mark as i32), // if the lower half of r2 is the mark, skip one
            set(0, TCX_DROP),
            EXIT,
        ],
    )
}

#[repr(C, align(8))]
struct LoadArguments {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    rest: [u64; 16],
}

#[repr(C, align(8))]
struct LinkArguments {
    program: u32,
    index: u32,
    kind: u32,
    flags: u32,
    rest: [u64; 4],
}

fn attach(index: u32, door: Door, program: &[Instruction]) -> io::Result<Attached> {
    let load = LoadArguments {
        kind: BPF_PROG_TYPE_SCHED_CLS,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        rest: [0; 16],
    };
    let program = call(BPF_PROG_LOAD, &load)?;
    let link = LinkArguments {
        program: program.as_raw_fd() as u32,
        index,
        kind: if door == Door::In { BPF_TCX_INGRESS } else { BPF_TCX_EGRESS },
        flags: 0,
        rest: [0; 4],
    };
    Ok(Attached { _link: call(BPF_LINK_CREATE, &link)? })
}

fn call<T>(command: libc::c_long, arguments: &T) -> io::Result<OwnedFd> {
    // SAFETY: the arguments are laid out as the kernel wants them for this command, and what they point
    // to outlives the call.
    descriptor(unsafe {
        libc::syscall(libc::SYS_bpf, command, &raw const *arguments, size_of::<T>())
    })
}
