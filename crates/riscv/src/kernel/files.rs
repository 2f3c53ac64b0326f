//! Files and the standard streams.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};

use super::{Context, Errno, OpenMode, Result, Stream, number};

/// Open files of a process, at most.
const MOST_FILES: usize = 1024;

/// The most that one call moves, as for Linux; buffers of the kernel need not be larger.
const MOST_BYTES: u64 = 0x7fff_f000;

/// Bytes moved at once: the size of the kernel's buffer.
const CHUNK: u64 = 1 << 20;

/// Pieces of `readv` and `writev`, at most (`IOV_MAX`).
const MOST_PIECES: u64 = 1024;

const AT_FDCWD: u64 = -100i32 as u64;
const AT_EMPTY_PATH: u64 = 0x1000;

/// Target of a descriptor.
enum Open {
    Input,
    Output(Stream),
    File(File),
}

/// The descriptors of a process.
pub(super) struct Files {
    open: Vec<Option<Open>>,
}

impl Default for Files {
    fn default() -> Self {
        let streams = [Open::Input, Open::Output(Stream::Out), Open::Output(Stream::Err)];
        Files { open: streams.into_iter().map(Some).collect() }
    }
}

impl Files {
    pub(super) fn call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, ..] = context.args();
        Some(match number {
            number::READ => self.transfer(context, a0, &[(a1, a2)], Files::read),
            number::WRITE => self.transfer(context, a0, &[(a1, a2)], Files::write),
            number::READV => pieces(context, a1, a2)
                .and_then(|pieces| self.transfer(context, a0, &pieces, Files::read)),
            number::WRITEV => pieces(context, a1, a2)
                .and_then(|pieces| self.transfer(context, a0, &pieces, Files::write)),
            number::LSEEK => self.seek(a0, a1, a2),
            number::OPENAT => self.open(context),
            number::CLOSE => self.close(a0),
            number::FSTAT => self.stat(context, a0, a1),
            number::NEWFSTATAT => self.stat_at(context),
            number::READLINKAT => Err(Errno::INVAL),
            number::IOCTL => self.get(a0).and(Err(Errno::NOTTY)),
            number::FCNTL => self.get(a0).map(|_| 0),
            _ => return None,
        })
    }

    fn get(&mut self, descriptor: u64) -> Result<&mut Open> {
        let slot = self.open.get_mut(descriptor as u32 as usize);
        slot.and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    /// Moves pieces of user memory one after the other, until one is not moved whole. An error
    /// counts only if nothing was moved before.
    fn transfer(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        step: fn(&mut Open, &mut Context<'_>, u64, u64) -> Result,
    ) -> Result {
        let open = self.get(descriptor)?;
        let mut moved = 0;
        for &(start, length) in pieces {
            let length = length.min(MOST_BYTES - moved);
            let mut done = 0;
            while done < length {
                let wanted = (length - done).min(CHUNK);
                let count = match step(open, context, start.wrapping_add(done), wanted) {
                    Ok(count) => count,
                    Err(errno) if moved + done == 0 => return Err(errno),
                    Err(_) => 0,
                };
                done += count;
                if count < wanted {
                    return Ok(moved + done);
                }
            }
            moved += done;
        }
        Ok(moved)
    }

    fn read(open: &mut Open, context: &mut Context<'_>, to: u64, length: u64) -> Result {
        let mut buffer = vec![0; length as usize];
        let count = match open {
            Open::Input => context.host.input(&mut buffer)?,
            Open::Output(_) => return Err(Errno::BADF),
            Open::File(file) => file.read(&mut buffer)?,
        };
        context.memory.write(to, &buffer[..count])?;
        Ok(count as u64)
    }

    fn write(open: &mut Open, context: &mut Context<'_>, from: u64, length: u64) -> Result {
        let mut buffer = vec![0; length as usize];
        context.memory.read(from, &mut buffer)?;
        match open {
            Open::Input => return Err(Errno::BADF),
            Open::Output(stream) => context.host.output(*stream, &buffer)?,
            Open::File(file) => file.write_all(&buffer)?,
        }
        Ok(length)
    }

    fn seek(&mut self, descriptor: u64, offset: u64, whence: u64) -> Result {
        let Open::File(file) = self.get(descriptor)? else { return Err(Errno::SPIPE) };
        let position = match whence {
            0 => SeekFrom::Start(offset),
            1 => SeekFrom::Current(offset as i64),
            2 => SeekFrom::End(offset as i64),
            _ => return Err(Errno::INVAL),
        };
        Ok(file.seek(position)?)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result {
        let [directory, path, flags, ..] = context.args();
        let path = context.read_string(path)?;
        if directory as i32 as u64 != AT_FDCWD && !path.starts_with('/') {
            return Err(Errno::BADF);
        }
        let file = context.host.open(&path, open_mode(flags))?;
        let free = self.open.iter().position(Option::is_none);
        let descriptor = free.unwrap_or(self.open.len());
        if descriptor >= MOST_FILES {
            return Err(Errno::MFILE);
        }
        if descriptor == self.open.len() {
            self.open.push(None);
        }
        self.open[descriptor] = Some(Open::File(file));
        Ok(descriptor as u64)
    }

    fn close(&mut self, descriptor: u64) -> Result {
        self.get(descriptor)?;
        self.open[descriptor as u32 as usize] = None;
        Ok(0)
    }

    fn stat(&mut self, context: &mut Context<'_>, descriptor: u64, to: u64) -> Result {
        let metadata = match self.get(descriptor)? {
            Open::File(file) => Some(file.metadata()?),
            _ => None,
        };
        write_stat(context, to, metadata.as_ref())
    }

    fn stat_at(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, path, to, flags, ..] = context.args();
        let path = context.read_string(path)?;
        if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
            return self.stat(context, descriptor, to);
        }
        let file = context.host.open(&path, OpenMode { read: true, ..OpenMode::default() })?;
        write_stat(context, to, Some(&file.metadata()?))
    }
}

/// The `struct iovec`s at `address`: starts and lengths of pieces.
fn pieces(context: &mut Context<'_>, address: u64, count: u64) -> Result<Vec<(u64, u64)>> {
    if count > MOST_PIECES {
        return Err(Errno::INVAL);
    }
    (0..count)
        .map(|index| {
            let at = address.wrapping_add(16 * index);
            Ok((context.read_u64(at)?, context.read_u64(at.wrapping_add(8))?))
        })
        .collect()
}

fn open_mode(flags: u64) -> OpenMode {
    const CREATE: u64 = 0o100;
    const EXCLUSIVE: u64 = 0o200;
    const TRUNCATE: u64 = 0o1000;
    const APPEND: u64 = 0o2000;
    let (access, is_set) = (flags & 3, |flag| flags & flag != 0);
    OpenMode {
        read: access != 1,
        write: access != 0,
        append: is_set(APPEND),
        truncate: is_set(TRUNCATE),
        create: is_set(CREATE),
        create_new: is_set(CREATE) && is_set(EXCLUSIVE),
    }
}

/// Writes a `struct stat` (`asm-generic/stat.h`). Without metadata it is a terminal's: programs
/// then write line by line.
fn write_stat(context: &mut Context<'_>, to: u64, metadata: Option<&Metadata>) -> Result {
    const REGULAR: u32 = 0o100_644;
    const DIRECTORY: u32 = 0o040_755;
    const CHARACTERS: u32 = 0o020_620;
    const BLOCK: u64 = 512;
    let (mode, size) = match metadata {
        Some(metadata) if metadata.is_dir() => (DIRECTORY, 0),
        Some(metadata) => (REGULAR, metadata.len()),
        None => (CHARACTERS, 0),
    };
    let user = crate::stack::USER;
    let words = [
        1,                         // st_dev
        1,                         // st_ino
        u64::from(mode) | 1 << 32, // st_mode, st_nlink
        user | user << 32,         // st_uid, st_gid
        0,                         // st_rdev
        0,
        size,
        4096, // st_blksize
        size.div_ceil(BLOCK),
        0, // times
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    context.write_words(to, &words)?;
    Ok(0)
}
