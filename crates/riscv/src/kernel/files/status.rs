//! What programs learn of files.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use super::again::WithoutContent;
use super::names::{AT_FDCWD, made_status};
use super::regular::Regular;
use super::table::{Open, OpenFile};
use super::{Context, Errno, Files, Process, Result, number};
use crate::kernel::misc::EPOCH_NS;
use crate::kernel::synthetic::{Made, is_ours, normal};
use crate::kernel::{Change, Kind, Status};
use crate::stack::USER;

const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_NO_AUTOMOUNT: u64 = 0x800;
pub(super) const AT_EMPTY_PATH: u64 = 0x1000;
const AT_STATX_SYNC_TYPE: u64 = 0x6000;

/// The bits of a mode that are not its type.
const PERMISSIONS: u32 = 0o7777;

const BLOCK: u64 = 512;

/// All files are as old as the calendar of programs.
const SECONDS: u64 = EPOCH_NS / 1_000_000_000;

impl Files {
    /// The status of the file at a path, or of a descriptor if the path is empty and `flags` permit that.
    fn status(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        (folder, path, flags): (u64, u64, u64),
    ) -> Result<Status> {
        let is_empty =
            flags & AT_EMPTY_PATH != 0 && (path == 0 || context.read_string(path)?.is_empty());
        if is_empty {
            if folder as i32 as u64 != AT_FDCWD {
                return self.open_status(context, folder);
            }
            let current = self.current.clone();
            return match self.made(context, process, &current) {
                Some(made) => Ok(made_status(&current, &made?)),
                None => Ok(context.host.status(&current, true)?),
            };
        }
        let name = self.name(context, folder, path)?;
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        match self.made(context, process, &name) {
            Some(Ok(Made::Descriptor(descriptor))) if follow => {
                self.open_status(context, descriptor)
            }
            Some(Ok(Made::Link(target))) if follow => Ok(context.host.status(&target, true)?),
            Some(made) => Ok(made_status(&name, &made?)),
            None => Ok(context.host.status(&name, follow)?),
        }
    }

    fn open_status(&mut self, context: &mut Context<'_>, descriptor: u64) -> Result<Status> {
        let OpenFile { open, status, .. } = self.table.any_file(descriptor)?;
        let on_disk: Option<&File> = match open {
            Open::File(Regular::Disk(file)) => Some(file),
            Open::Path(path) => path.file(),
            _ => None,
        };
        if let Some(file) = on_disk {
            let found = file.metadata()?;
            status.size = found.len();
            status.permissions = found.mode() & PERMISSIONS;
            status.links = found.nlink();
            return Ok(*status);
        }
        match open {
            Open::File(Regular::Memory(file)) => {
                (status.size, status.permissions) = (file.size_bytes(), file.permissions());
            }
            Open::Folder(name, ..) if !is_ours(name) => {
                let named = context.host.status(name, true);
                match named.ok().filter(|named| named.inode == status.inode) {
                    Some(named) => *status = named,
                    None => status.links = 0,
                }
            }
            _ => {}
        }
        Ok(*status)
    }

    pub(super) fn stat(&mut self, context: &mut Context<'_>, descriptor: u64, to: u64) -> Result {
        let status = self.open_status(context, descriptor)?;
        write_stat(context, to, status)
    }

    pub(super) fn stat_at(&mut self, context: &mut Context<'_>, process: &Process<'_>) -> Result {
        let [folder, path, to, flags, ..] = context.args();
        check_flags(flags)?;
        let status = self.status(context, process, (folder, path, flags))?;
        write_stat(context, to, status)
    }

    /// `statx`: everything that `stat` tells, in its other form.
    pub(super) fn statx(&mut self, context: &mut Context<'_>, process: &Process<'_>) -> Result {
        const BASIC: u32 = 0x7ff;
        const RESERVED: u64 = 0x8000_0000;
        let [folder, path, flags, mask, to, _] = context.args();
        check_flags(flags)?;
        if flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE || mask & RESERVED != 0 {
            return Err(Errno::INVAL);
        }
        let status = self.status(context, process, (folder, path, flags))?;
        let mode = mode(&status);
        let mut bytes = Vec::with_capacity(256);
        for half in [BASIC, 4096] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend([0; 8]);
        for half in [status.links as u32, USER as u32, USER as u32, mode] {
            bytes.extend(half.to_le_bytes());
        }
        for word in [status.inode, status.size, status.size.div_ceil(BLOCK), 0] {
            bytes.extend(word.to_le_bytes());
        }
        // Four times of 16 bytes; the second one is that of birth.
        for _ in 0..4 {
            bytes.extend(SECONDS.to_le_bytes());
            bytes.extend([0; 8]);
        }
        let device = [0, 0, 0, DEVICE as u32];
        for half in device {
            bytes.extend(half.to_le_bytes());
        }
        bytes.resize(256, 0);
        context.memory.write(to, &bytes)?;
        Ok(0)
    }

    /// Calls that change owner or times of the file at a path, which stay as they are: it has to be there.
    pub(super) fn exists(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        number: u64,
    ) -> Result {
        let [folder, path, _, flags, other_flags, _] = context.args();
        let flags = if number == number::FCHOWNAT { other_flags } else { flags };
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::INVAL);
        }
        let has_times = number != number::UTIMENSAT || are_times(context)?;
        if number == number::UTIMENSAT && path == 0 {
            return match folder as i32 as u64 {
                AT_FDCWD => Err(Errno::FAULT),
                _ if flags != 0 || !has_times => Err(Errno::INVAL),
                _ => self.table.get(folder).map(|_| 0),
            };
        }
        self.status(context, process, (folder, path, flags))?;
        if has_times { Ok(0) } else { Err(Errno::INVAL) }
    }

    /// The permissions of a file that is made with this mode.
    pub(super) const fn permissions_of(&self, mode: u64) -> u32 {
        mode as u32 & PERMISSIONS & !self.mask
    }

    /// `fchmod`.
    pub(super) fn permit_open(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        mode: u64,
    ) -> Result {
        let file = self.table.content_number(descriptor)?;
        self.permit_file(context, file, mode)
    }

    /// The same of an open file, also if it is open without its content.
    fn permit_file(&mut self, context: &mut Context<'_>, file: u32, mode: u64) -> Result {
        let permissions = mode as u32 & PERMISSIONS;
        let OpenFile { open, status, .. } = self.table.by_number(file)?;
        match open {
            Open::File(Regular::Memory(file)) => file.permit(permissions),
            Open::Path(_) if status.kind == Kind::Link => return Err(Errno::OPNOTSUPP),
            Open::Path(path) => {
                let file = path.file().ok_or(Errno::PERM)?;
                context.host.permit(path.name(), file, permissions)?;
            }
            Open::File(Regular::Disk(file)) => {
                context.host.permit(file.name(), file, permissions)?;
            }
            Open::Folder(name, ..) if is_ours(name) => return Err(Errno::PERM),
            Open::Folder(name, ..) => {
                context.host.change(&Change::Permit { name, permissions, follow: false })?;
            }
            Open::Text(..) => return Err(Errno::PERM),
            _ => status.permissions = permissions,
        }
        Ok(0)
    }

    /// `fchmodat`.
    pub(super) fn permit(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        flags: u64,
    ) -> Result {
        let [folder, path, mode, ..] = context.args();
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::INVAL);
        }
        if flags & AT_EMPTY_PATH != 0 && context.read_string(path)?.is_empty() {
            if folder as i32 as u64 != AT_FDCWD {
                let file = self.table.file_number(folder)?;
                return self.permit_file(context, file, mode);
            }
            let (name, permissions) = (self.current.clone(), mode as u32 & PERMISSIONS);
            context.host.change(&Change::Permit { name: &name, permissions, follow: false })?;
            return Ok(0);
        }
        let name = self.name(context, folder, path)?;
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        let name = match self.made(context, process, &name) {
            Some(Ok(Made::Descriptor(descriptor))) if follow => {
                let file = self.table.file_number(descriptor)?;
                return self.permit_file(context, file, mode);
            }
            Some(Ok(Made::Link(target))) if follow && !is_ours(&target) => target,
            Some(made) => return made.and(Err(Errno::PERM)),
            None => name,
        };
        let status = context.host.status(&name, follow)?;
        if status.kind == Kind::Link {
            return Err(Errno::OPNOTSUPP);
        }
        let permissions = mode as u32 & PERMISSIONS;
        context.host.change(&Change::Permit { name: &name, permissions, follow })?;
        Ok(0)
    }

    /// `faccessat`: the permissions of the owner count, who the program is.
    pub(super) fn access(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        flags: u64,
    ) -> Result {
        const EFFECTIVE: u64 = 0x200;
        let [folder, path, wanted, ..] = context.args();
        if wanted & !7 != 0 || flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | EFFECTIVE) != 0 {
            return Err(Errno::INVAL);
        }
        let status = self.status(context, process, (folder, path, flags))?;
        match wanted as u32 & !(status.permissions >> 6) {
            0 => Ok(0),
            _ => Err(Errno::ACCES),
        }
    }
}

/// Kinds of file systems (`linux/magic.h`).
const DISK: u64 = 0xef53;
const MEMORY: u64 = 0x0102_1994;
const PROCESSES: u64 = 0x9fa0;
const SYSTEM: u64 = 0x6265_6572;
const TERMINALS: u64 = 0x1cd1;
const PIPES: u64 = 0x5049_5045;
const SOCKETS: u64 = 0x534f_434b;
const NAMELESS: u64 = 0x0904_1934;

/// The file system that a normal name of the kernel's is in.
fn system_of(name: &str) -> u64 {
    match name.split('/').nth(1) {
        Some("proc") => PROCESSES,
        Some("sys") => SYSTEM,
        Some("dev") => MEMORY,
        _ => DISK,
    }
}

impl Files {
    /// `statfs`.
    pub(super) fn stat_system(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
    ) -> Result {
        let [path, to, ..] = context.args();
        let name = self.name(context, AT_FDCWD, path)?;
        let system = match self.made(context, process, &name) {
            Some(Ok(Made::Descriptor(descriptor))) => self.system(descriptor)?,
            Some(Ok(Made::Link(target))) if !is_ours(&target) => {
                context.host.status(&target, true)?;
                DISK
            }
            Some(made) => made.map(|_| system_of(&normal(&name)))?,
            None => {
                context.host.status(&name, true)?;
                DISK
            }
        };
        write_system(context, to, system)
    }

    /// `fstatfs`.
    pub(super) fn stat_open_system(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        to: u64,
    ) -> Result {
        let system = self.system(descriptor)?;
        write_system(context, to, system)
    }

    /// The file system of an open file.
    fn system(&mut self, descriptor: u64) -> Result {
        Ok(match &self.table.any_file(descriptor)?.open {
            Open::File(Regular::Disk(_)) => DISK,
            Open::Folder(name, ..) | Open::Path(WithoutContent { name, .. }) => {
                system_of(&normal(name))
            }
            Open::Text(..) => PROCESSES,
            Open::Input | Open::Output(_) => TERMINALS,
            Open::Socket(_) => SOCKETS,
            Open::Event { .. } | Open::Timer(_) | Open::Epoll(_) => NAMELESS,
            Open::Pipe(number) => {
                let number = *number;
                if self.table.pipe(number)?.fifo.is_some() { DISK } else { PIPES }
            }
            _ => MEMORY,
        })
    }
}

/// Writes a `struct statfs` (`asm-generic/statfs.h`). The disk of the model's machine is empty.
fn write_system(context: &mut Context<'_>, to: u64, system: u64) -> Result {
    const BLOCK_BYTES: u64 = 4096;
    const LONGEST_NAME: u64 = 255;
    const DISK_BYTES: u64 = 1 << 40;
    /// The flags are there.
    const VALID: u64 = 0x20;
    let bytes = match system {
        DISK => DISK_BYTES,
        MEMORY => context.host.memory_bytes(),
        _ => 0,
    };
    let blocks = bytes / BLOCK_BYTES;
    let mut words = [0; 15];
    words[..7].copy_from_slice(&[system, BLOCK_BYTES, blocks, blocks, blocks, blocks, blocks]);
    words[8..11].copy_from_slice(&[LONGEST_NAME, BLOCK_BYTES, VALID]);
    context.write_words(to, &words)?;
    Ok(0)
}

/// The number of the one device on which all files are.
const DEVICE: u64 = 1;

/// Type and permissions of a file.
const fn mode(status: &Status) -> u32 {
    let kind = match status.kind {
        Kind::File => 0o100_000,
        Kind::Folder => 0o040_000,
        Kind::Link => 0o120_000,
        Kind::Device => 0o020_000,
        Kind::Pipe => 0o010_000,
        Kind::Socket => 0o140_000,
    };
    kind | status.permissions
}

/// Refuses flags that calls for the status of a file do not have.
fn check_flags(flags: u64) -> Result<()> {
    let known = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE;
    if u64::from(flags as u32) & !known == 0 { Ok(()) } else { Err(Errno::INVAL) }
}

/// Whether the times for `utimensat` are some.
fn are_times(context: &mut Context<'_>) -> Result<bool> {
    const NOW: u64 = 0x3fff_ffff;
    const OMIT: u64 = 0x3fff_fffe;
    const NS: u64 = 1_000_000_000;
    let [_, _, times, ..] = context.args();
    let mut are_times = true;
    for time in [times, times.wrapping_add(16)].into_iter().filter(|_| times != 0) {
        let nanoseconds = context.read_u64(time.wrapping_add(8))?;
        are_times &= nanoseconds < NS || nanoseconds == NOW || nanoseconds == OMIT;
    }
    Ok(are_times)
}

/// Writes a `struct stat` (`asm-generic/stat.h`). Streams are terminals: programs then write line by line.
fn write_stat(context: &mut Context<'_>, to: u64, status: Status) -> Result {
    let mode = u64::from(mode(&status));
    let links = u64::from(status.links as u32);
    let words = [
        DEVICE,
        status.inode,
        mode | links << 32, // st_mode, st_nlink
        USER | USER << 32,  // st_uid, st_gid
        0,                  // st_rdev
        0,
        status.size,
        4096, // st_blksize
        status.size.div_ceil(BLOCK),
        SECONDS, // times
        0,
        SECONDS,
        0,
        SECONDS,
        0,
        0,
    ];
    context.write_words(to, &words)?;
    Ok(0)
}
