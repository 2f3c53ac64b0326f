//! Files that are sequences of bytes: of the host, or in memory.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use serde::{Deserialize, Serialize};

use super::anonymous::Anonymous;
use super::on_disk::OnDisk;
use crate::kernel::synthetic::normal;

/// An open file.
#[derive(Serialize, Deserialize)]
pub(super) enum Regular {
    Disk(OnDisk),
    Memory(Anonymous),
}

impl Regular {
    /// Its normal name, which one in memory has for shows only.
    pub(super) fn shown_name(&self) -> String {
        match self {
            Regular::Disk(file) => normal(file.name()),
            Regular::Memory(file) => file.name().to_owned(),
        }
    }

    pub(super) const fn is_in_memory(&self) -> bool {
        matches!(self, Regular::Memory(_))
    }

    pub(super) fn size_bytes(&self) -> io::Result<u64> {
        match self {
            Regular::Disk(file) => Ok(file.metadata()?.len()),
            Regular::Memory(file) => Ok(file.size_bytes()),
        }
    }

    pub(super) fn set_size(&mut self, size_bytes: u64) -> io::Result<()> {
        match self {
            Regular::Disk(file) => file.set_len(size_bytes),
            Regular::Memory(file) => {
                file.set_size(size_bytes);
                Ok(())
            }
        }
    }

    /// Makes the bytes from `begin` to `end`, which are in the file, be zeros.
    pub(super) fn zero(&mut self, begin: u64, end: u64) -> io::Result<()> {
        let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match self {
            Regular::Memory(file) => file.zero(begin, end),
            Regular::Disk(file) if fallocate(&**file, holes, begin, end - begin).is_ok() => {}
            Regular::Disk(_) => {
                let appends = self.set_append(false)?;
                let written = self.write_zeros(begin, end);
                self.set_append(appends)?;
                written?;
            }
        }
        Ok(())
    }

    /// Writes zeros where there is no hole, on a file system that cannot make one.
    fn write_zeros(&mut self, begin: u64, end: u64) -> io::Result<()> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let mut at = begin;
        while let Some(data) = self.next_data(at)?.filter(|&data| data < end) {
            let length = (end - data).min(ZEROS.len() as u64);
            self.write_at(&ZEROS[..length as usize], data)?;
            at = data + length;
        }
        Ok(())
    }

    /// Sets whether all that is written goes to its end. Returns whether it did so before.
    pub(super) fn set_append(&self, appends: bool) -> io::Result<bool> {
        let Regular::Disk(file) = self else { return Ok(false) };
        let mut flags = fcntl_getfl(&**file)?;
        let did = flags.contains(OFlags::APPEND);
        if did != appends {
            flags.set(OFlags::APPEND, appends);
            fcntl_setfl(&**file, flags)?;
        }
        Ok(did)
    }

    /// The next byte to be read or written.
    pub(super) fn position(&mut self) -> io::Result<u64> {
        match self {
            Regular::Disk(file) => file.stream_position(),
            Regular::Memory(file) => Ok(file.position()),
        }
    }

    pub(super) fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Regular::Disk(file) => file.seek(to),
            Regular::Memory(file) => file.seek(to),
        }
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Regular::Disk(file) => file.read_at(buffer, at),
            Regular::Memory(file) => Ok(file.read_at(buffer, at)),
        }
    }

    pub(super) fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        match self {
            Regular::Disk(file) => file.write_all_at(bytes, at),
            Regular::Memory(file) => file.write_at(bytes, at),
        }
    }

    /// The first place from `at` on that is in no hole; `None` if there is none to the end.
    pub(super) fn next_data(&mut self, at: u64) -> io::Result<Option<u64>> {
        let file = match self {
            Regular::Memory(file) => return Ok(file.next_data(at)),
            Regular::Disk(file) => file,
        };
        let position = file.stream_position()?;
        let found = rustix::fs::seek(&**file, rustix::fs::SeekFrom::Data(at));
        file.seek(SeekFrom::Start(position))?;
        match found {
            Ok(data) => Ok(Some(data)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            // A file system that knows of no holes.
            Err(rustix::io::Errno::INVAL) => Ok(Some(at)),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Regular::Disk(file) => file.read(buffer),
            Regular::Memory(file) => {
                let count = file.read_at(buffer, file.position());
                file.seek(SeekFrom::Current(count as i64))?;
                Ok(count)
            }
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Regular::Disk(file) => file.write_all(bytes),
            Regular::Memory(file) => {
                file.write_at(bytes, file.position())?;
                file.seek(SeekFrom::Current(bytes.len() as i64)).map(|_| ())
            }
        }
    }
}
