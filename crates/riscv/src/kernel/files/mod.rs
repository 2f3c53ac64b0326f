//! Files, pipes and the standard streams.
//!
//! | file | content |
//! |---|---|
//! | `table` | descriptors, and what they stand for |
//! | `names` | opening, and names of files |
//! | `transfer` | reading and writing |
//! | `status` | what programs learn of files |

mod names;
mod status;
mod table;
mod transfer;

use super::synthetic::Process;
use super::{Context, Errno, Result, number};
use table::Table;

/// The descriptors of a process, and its current folder.
pub(super) struct Files {
    table: Table,
    /// Without links.
    current: String,
    /// State of the random numbers of `getrandom` and `/dev/urandom`.
    pub random: u64,
}

impl Files {
    pub(super) fn new(seed: u64) -> Files {
        let current = crate::host::FOLDER.to_owned();
        Files { table: Table::default(), current, random: seed }
    }

    pub(super) fn call(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
        process: &Process<'_>,
    ) -> Option<Result> {
        let [a0, a1, a2, a3, ..] = context.args();
        Some(match number {
            number::READ => self.read(context, a0, &[(a1, a2)], None),
            number::WRITE => self.write(context, a0, &[(a1, a2)], None),
            number::READV => transfer::pieces(context, a1, a2)
                .and_then(|pieces| self.read(context, a0, &pieces, None)),
            number::WRITEV => transfer::pieces(context, a1, a2)
                .and_then(|pieces| self.write(context, a0, &pieces, None)),
            number::PREAD64 => self.read(context, a0, &[(a1, a2)], Some(a3)),
            number::PWRITE64 => self.write(context, a0, &[(a1, a2)], Some(a3)),
            number::PREADV => transfer::pieces(context, a1, a2)
                .and_then(|pieces| self.read(context, a0, &pieces, Some(a3))),
            number::PWRITEV => transfer::pieces(context, a1, a2)
                .and_then(|pieces| self.write(context, a0, &pieces, Some(a3))),
            number::LSEEK => self.seek(a0, a1, a2),
            number::FTRUNCATE => self.truncate(a0, a1),
            number::FSYNC | number::FDATASYNC => self.table.get(a0).map(|_| 0),
            number::OPENAT => self.open(context, process),
            number::CLOSE => self.table.close(a0).map(|()| 0),
            number::FSTAT => self.stat(context, a0, a1),
            number::NEWFSTATAT => self.stat_at(context, process),
            number::STATX => self.statx(context, process),
            number::FACCESSAT | number::FACCESSAT2 => self.access(context, process),
            number::READLINKAT => self.read_link(context, process),
            number::GETCWD => self.current(context, a0, a1),
            number::CHDIR => self.enter(context, a0),
            number::GETDENTS64 => self.list(context, a0, a1, a2),
            number::MKDIRAT | number::UNLINKAT | number::RENAMEAT2 => self.change(context, number),
            number::DUP => self.table.duplicate(a0, 0),
            number::DUP3 => self.table.replace(a0, a1, a2),
            number::IOCTL => self.table.get(a0).and(Err(Errno::NOTTY)),
            number::FCNTL => self.control(a0, a1, a2),
            _ => return None,
        })
    }

    /// `fcntl`.
    fn control(&mut self, descriptor: u64, command: u64, argument: u64) -> Result {
        const DUPFD: u64 = 0;
        const GETFD: u64 = 1;
        const SETFD: u64 = 2;
        const GETFL: u64 = 3;
        const SETFL: u64 = 4;
        /// Locks on files: nobody else is there.
        const GETLK: u64 = 5;
        const SETLK: u64 = 6;
        const SETLKW: u64 = 7;
        const OFD_SETLK: u64 = 37;
        const OFD_SETLKW: u64 = 38;
        const DUPFD_CLOEXEC: u64 = 1030;
        self.table.get(descriptor)?;
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
            GETFL => Ok(self.table.file(descriptor)?.flags),
            SETFL => {
                let file = self.table.file(descriptor)?;
                let settable = table::NONBLOCK | table::APPEND;
                file.flags = file.flags & !settable | argument & settable;
                Ok(0)
            }
            GETLK | SETLK | SETLKW | OFD_SETLK | OFD_SETLKW => Ok(0),
            _ => Err(Errno::INVAL),
        }
    }
}
