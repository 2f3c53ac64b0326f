//! Files, pipes and the standard streams.
//!
//! | file | content |
//! |---|---|
//! | `table` | descriptors, and what they stand for |
//! | `names` | opening, and names of files |
//! | `held` | open files of calls that wait |
//! | `advice` | what is said of the use of files |
//! | `again` | opening what is open again, and `O_PATH` |
//! | `transfer` | reading and writing |
//! | `copies` | moving bytes from one file to another |
//! | `regular` | files that are sequences of bytes |
//! | `on_disk` | those of the host, and how they are saved |
//! | `anonymous` | those in memory |
//! | `mapped` | files of shared mappings |
//! | `status` | what programs learn of files |
//! | `locks` | locks on files |
//! | `ours` | names below `/proc`, `/sys` and `/dev`, which stay as they are |
//! | `pipes` | pipes and event counters |
//! | `fifos` | pipes with names |
//! | `timer` | timers that are files |
//! | `sockets` | stream sockets |
//! | `polling`, `epoll` | waiting for several of them |

mod advice;
mod again;
mod anonymous;
mod copies;
mod epoll;
mod fifos;
mod held;
mod locks;
mod mapped;
mod names;
mod on_disk;
mod ours;
mod pipes;
mod polling;
mod regular;
mod sockets;
mod status;
mod table;
mod timer;
mod transfer;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::saved::Checked;
use super::synthetic::Process;
use super::{Context, Errno, Result, number};
use table::{Open, Table};

pub(super) use held::Held;
pub(super) use mapped::Place;
pub(super) use names::empties;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Way {
    Read,
    Write,
}

/// The descriptors of a process, and its current folder.
#[derive(Serialize, Deserialize)]
pub(super) struct Files {
    table: Table,
    /// Without links.
    current: String,
    /// Permissions that files do not get when they are made.
    mask: u32,
    /// Bytes of standard input that the host has given, and that found no place in user memory.
    #[serde(default)]
    input: VecDeque<u8>,
    /// State of the random numbers of `getrandom` and `/dev/urandom`.
    pub random: u64,
}

impl Files {
    pub(super) fn new(seed: u64) -> Files {
        let current = crate::host::FOLDER.to_owned();
        let input = VecDeque::new();
        Files { table: Table::default(), current, mask: 0o022, input, random: seed }
    }

    /// Descriptors are below `most` from now on.
    pub(super) fn limit_descriptors(&mut self, most: u64) {
        self.table.limit = Some(usize::try_from(most).unwrap_or(usize::MAX));
    }

    /// Checks what was read.
    pub(super) fn check(&self) -> Checked {
        self.table.check().map_err(|wrong| format!("files.table.{wrong}"))
    }

    pub(super) fn call(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
        process: &Process<'_>,
    ) -> Option<Result> {
        if let Some(result) = self.lock_call(number, context) {
            return Some(result);
        }
        let socket_result = self.socket_call(number, context);
        let mut result = match socket_result {
            Some(result) => result,
            None => self.dispatch(number, context, process)?,
        };
        // A call that has moved bytes succeeds; the next one meets the error.
        if result.is_err() && context.wait.is_none() && context.moved > 0 {
            context.raised = None;
            result = Ok(context.moved);
        }
        context.has_changed |= self.note_sockets();
        Some(result)
    }

    fn dispatch(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
        process: &Process<'_>,
    ) -> Option<Result> {
        let [a0, a1, a2, a3, ..] = context.args();
        Some(match number {
            number::READ => self.read(context, a0, &[(a1, a2)], None),
            number::WRITE => self.write(context, a0, &[(a1, a2)], None),
            number::READV
            | number::WRITEV
            | number::PREADV
            | number::PWRITEV
            | number::PREADV2
            | number::PWRITEV2 => self.vectored(context, number),
            number::PREAD64 => self.read(context, a0, &[(a1, a2)], Some(a3)),
            number::PWRITE64 => self.write(context, a0, &[(a1, a2)], Some(a3)),
            number::SENDFILE => self.send_file(context),
            number::COPY_FILE_RANGE => self.copy_range(context),
            number::SPLICE | number::TEE => self.splice(context, number),
            number::LSEEK => self.named(context, a0).and_then(|file| self.seek(file, a1, a2)),
            number::TRUNCATE => self.truncate_named(context, process),
            number::FTRUNCATE => self.truncate(a0, a1),
            number::FALLOCATE => self.allocate(a0, a1, (a2, a3)),
            number::FSYNC
            | number::FDATASYNC
            | number::SYNC_FILE_RANGE
            | number::FADVISE64
            | number::READAHEAD => self.advise(context, number),
            // Written bytes need no flush. Owners of files are the model's own.
            number::SYNCFS | number::FCHOWN => self.table.get(a0).map(|_| 0),
            number::SYNC => Ok(0),
            number::FCHOWNAT | number::UTIMENSAT => self.exists(context, process, number),
            number::FCHMOD => self.permit_open(context, a0, a1),
            number::FCHMODAT => self.permit(context, process, 0),
            number::FCHMODAT2 => self.permit(context, process, a3),
            number::UMASK => Ok(std::mem::replace(&mut self.mask, a0 as u32 & 0o777).into()),
            number::OPENAT => self.open(context, process),
            number::CLOSE => self.close(context, a0).map(|()| 0),
            number::CLOSE_RANGE => self.close_range(context, process.threads),
            number::PIPE2 => self.pipe(context, a0, a1),
            number::EVENTFD2 => self.event(a0, a1),
            number::TIMERFD_CREATE | number::TIMERFD_SETTIME | number::TIMERFD_GETTIME => {
                self.timer_call(number, context)
            }
            number::MEMFD_CREATE => self.new_anonymous(context, a0, a1),
            number::PPOLL => self.poll(context),
            number::PSELECT6 => self.select(context),
            number::EPOLL_CREATE1 => self.new_epoll(a0),
            number::EPOLL_CTL => self.watch(context),
            number::EPOLL_PWAIT => self.wait_for_events(context, false),
            number::EPOLL_PWAIT2 => self.wait_for_events(context, true),
            number::FSTAT => self.stat(context, a0, a1),
            number::NEWFSTATAT => self.stat_at(context, process),
            number::STATFS => self.stat_system(context, process),
            number::FSTATFS => self.stat_open_system(context, a0, a1),
            number::STATX => self.statx(context, process),
            number::FACCESSAT => self.access(context, process, 0),
            number::FACCESSAT2 => self.access(context, process, a3),
            number::READLINKAT => self.read_link(context, process),
            number::GETCWD => self.current(context, a0, a1),
            number::CHDIR => self.enter(context, process, a0),
            number::FCHDIR => self.enter_open(a0),
            number::GETDENTS64 => self.list(context, a0, a1, a2),
            number::MKDIRAT | number::UNLINKAT | number::RENAMEAT2 => {
                self.change(context, process, number)
            }
            number::MKNODAT => self.make_node(context, process),
            number::LINKAT | number::SYMLINKAT => self.link(context, process, number),
            number::DUP => self.table.duplicate(a0, 0),
            number::DUP3 => self.ending(context, a1, |table| table.replace(a0, a1, a2)),
            number::IOCTL => self.device_control(context),
            number::FCNTL => self.control(context, a0, a1, a2),
            _ => return None,
        })
    }

    fn close(&mut self, context: &mut Context<'_>, descriptor: u64) -> Result<()> {
        self.ending(context, descriptor, |table| table.close(descriptor))
    }

    /// Has a call `end` what a descriptor stands for. If its open file is closed by that, as no other descriptor stands
    /// for it, a thread that waits at the other end of a pipe looks again.
    fn ending<T>(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        end: impl FnOnce(&mut Table) -> Result<T>,
    ) -> Result<T> {
        let file = self.table.file_number(descriptor);
        let pipe = file.ok().and_then(|file| self.table.pipe_of(file));
        let result = end(&mut self.table)?;
        if file.is_ok_and(|file| self.table.by_number(file).is_err()) {
            self.note_end_of(pipe);
        }
        context.has_changed = true;
        Ok(result)
    }

    /// An open file of a pipe is closed: those at the other end see it if it was the last one.
    fn note_end_of(&mut self, pipe: Option<u32>) {
        let Some(pipe) = pipe else { return };
        let has_end = |way| self.table.has_end(pipe, way);
        if has_end(Way::Read) != has_end(Way::Write) {
            [Way::Read, Way::Write].into_iter().for_each(|way| self.note_pipe(pipe, way, 0));
        }
    }

    fn close_range(&mut self, context: &mut Context<'_>, threads: usize) -> Result {
        /// One thread alone shares its descriptors with nobody.
        const UNSHARE: u32 = 2;
        const CLOSE_ON_EXEC: u32 = 4;
        let [first, last, flags, ..] = context.args().map(|argument| argument as u32);
        let known = if threads == 1 { UNSHARE | CLOSE_ON_EXEC } else { CLOSE_ON_EXEC };
        if first > last || flags & !known != 0 {
            return Err(Errno::INVAL);
        }
        for descriptor in self.table.within(first, last) {
            if flags & CLOSE_ON_EXEC != 0 {
                self.table.slot(descriptor)?.close_on_exec = true;
            } else {
                self.close(context, descriptor)?;
            }
        }
        Ok(0)
    }

    /// `ioctl`.
    fn device_control(&mut self, context: &mut Context<'_>) -> Result {
        const FIONREAD: u32 = 0x541b;
        const FIONBIO: u32 = 0x5421;
        const FIOASYNC: u32 = 0x5452;
        const FIONCLEX: u32 = 0x5450;
        const FIOCLEX: u32 = 0x5451;
        let [descriptor, command, argument, ..] = context.args();
        if matches!(command as u32, FIOCLEX | FIONCLEX) {
            self.table.content_number(descriptor)?;
            self.table.slot(descriptor)?.close_on_exec = command as u32 == FIOCLEX;
            return Ok(0);
        }
        let file = self.table.file(descriptor)?;
        match (command as u32, &mut file.open) {
            (FIONBIO, _) => {
                let nonblock = if context.read_u32(argument)? == 0 { 0 } else { table::NONBLOCK };
                file.flags = file.flags & !table::NONBLOCK | nonblock;
            }
            (FIOASYNC, open) => {
                let signals = if context.read_u32(argument)? == 0 { 0 } else { table::ASYNC };
                if (file.flags ^ signals) & table::ASYNC != 0 && !open.may_signal() {
                    return Err(Errno::NOTTY);
                }
                file.flags = file.flags & !table::ASYNC | signals;
            }
            (FIONREAD, Open::File(file)) => {
                let left = file.size_bytes()?.saturating_sub(file.position()?) as u32;
                context.memory.write(argument, &left.to_le_bytes())?;
            }
            (FIONREAD, &mut Open::Pipe(number)) => {
                let count = self.table.pipe(number)?.length() as u32;
                context.memory.write(argument, &count.to_le_bytes())?;
            }
            (FIONREAD, &mut Open::Socket(number)) => {
                let count = self.arrived_bytes(number)? as u32;
                context.memory.write(argument, &count.to_le_bytes())?;
            }
            _ => return Err(Errno::NOTTY),
        }
        Ok(0)
    }

    /// `fcntl`, without locks.
    fn control(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        command: u64,
        argument: u64,
    ) -> Result {
        const DUPFD: u64 = 0;
        const GETFD: u64 = 1;
        const SETFD: u64 = 2;
        const GETFL: u64 = 3;
        const SETFL: u64 = 4;
        const SETOWN: u64 = 8;
        const GETOWN: u64 = 9;
        const SETSIG: u64 = 10;
        const GETSIG: u64 = 11;
        const DUPFD_CLOEXEC: u64 = 1030;
        const SET_PIPE_SIZE: u64 = 1031;
        const GET_PIPE_SIZE: u64 = 1032;
        self.table.slot(descriptor)?;
        match command {
            DUPFD | DUPFD_CLOEXEC => {
                let copy = self.table.duplicate(descriptor, argument)?;
                if command == DUPFD_CLOEXEC {
                    self.table.slot(copy)?.close_on_exec = true;
                }
                Ok(copy)
            }
            GETFD => Ok(self.table.slot(descriptor)?.close_on_exec.into()),
            SETFD => {
                self.table.slot(descriptor)?.close_on_exec = argument & 1 != 0;
                Ok(0)
            }
            GETFL => Ok(self.table.any_file(descriptor)?.flags),
            SETFL => {
                let file = self.table.file(descriptor)?;
                let settable = table::NONBLOCK | table::APPEND | table::ASYNC;
                file.flags = file.flags & !settable | argument & settable;
                if let Open::File(open) = &file.open {
                    open.set_append(argument & table::APPEND != 0)?;
                }
                Ok(0)
            }
            // No signal has an owner to which it goes.
            GETOWN | GETSIG => self.table.get(descriptor).map(|_| 0),
            SETOWN | SETSIG if argument as u32 == 0 => self.table.get(descriptor).map(|_| 0),
            GET_PIPE_SIZE => Ok(self.pipe_of(descriptor)?.capacity() as u64),
            SET_PIPE_SIZE => {
                context.has_changed = true;
                let size = self.pipe_of(descriptor)?.resize(argument)?;
                let file = self.table.file_number(descriptor)?;
                if let Some(pipe) = self.table.pipe_of(file) {
                    self.note_pipe(pipe, Way::Write, 0);
                }
                Ok(size)
            }
            _ => self.table.get(descriptor).and(Err(Errno::INVAL)),
        }
    }

    /// The pipe that a descriptor stands for.
    fn pipe_of(&mut self, descriptor: u64) -> Result<&mut pipes::Pipe> {
        match *self.table.get(descriptor)? {
            Open::Pipe(number) => self.table.pipe(number),
            _ => Err(Errno::BADF),
        }
    }
}
