//! Open files of the host, which are saved by name and place.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{OFlags, fcntl_getfl};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

use super::Files;
use super::regular::Regular;
use super::table::{APPEND, Open, OpenFile, WRITE_ONLY};
use crate::fnv::{BASIS, fnv1a};
use crate::kernel::{Host, Kernel, Kind, OpenMode, Opened};

/// A file of the host that is open.
pub(super) struct OnDisk {
    /// As the program's folder has it.
    name: String,
    /// None between being read with the kernel and [`Kernel::reopen`].
    file: Option<File>,
    saved: Saved,
}

/// The part of it that is saved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Saved {
    name: String,
    /// The next byte to be read or written.
    position: u64,
    size_bytes: u64,
    /// Of the bytes that it has, if it is only read.
    fingerprint: u64,
    permissions: u32,
}

impl OnDisk {
    pub(super) fn new(name: &str, file: File) -> OnDisk {
        OnDisk { name: name.to_owned(), file: Some(file), saved: Saved::default() }
    }

    /// Its name as the program gave it, absolute.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Opens it again, with the content that it had: what has been written behind its end is cut off.
    fn reopen(&mut self, flags: u64, host: &mut dyn Host) -> io::Result<()> {
        let writes = flags & 3 != 0;
        let mode = OpenMode {
            read: flags & 3 != WRITE_ONLY,
            write: writes,
            append: flags & APPEND != 0,
            is_again: true,
            ..OpenMode::default()
        };
        // To open a pipe could wait for ever.
        if host.status(&self.name, true)?.kind != Kind::File {
            return Err(io::Error::other("is no file any more"));
        }
        let Opened::File(mut file, status) = host.open(&self.name, mode)? else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let Saved { position, size_bytes, fingerprint, permissions, .. } = self.saved;
        if status.size < size_bytes {
            let why = format!("has {} bytes, and had {size_bytes} then", status.size);
            return Err(io::Error::other(why));
        }
        if !writes && self::fingerprint(&file, size_bytes)? != fingerprint {
            return Err(io::Error::other("has another content than it had then"));
        }
        if writes && status.size > size_bytes {
            file.set_len(size_bytes)?;
        }
        if writes && status.permissions != permissions {
            host.permit(&self.name, &file, permissions)?;
        }
        file.seek(SeekFrom::Start(position))?;
        self.file = Some(file);
        Ok(())
    }
}

impl Deref for OnDisk {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("a kernel that was read has opened its files again")
    }
}

impl DerefMut for OnDisk {
    fn deref_mut(&mut self) -> &mut File {
        self.file.as_mut().expect("a kernel that was read has opened its files again")
    }
}

impl Serialize for OnDisk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut file: &File = self;
        let wrong = |error: io::Error| ser::Error::custom(format!("{}: {error}", self.name));
        let position = file.stream_position().map_err(wrong)?;
        let found = file.metadata().map_err(wrong)?;
        let (size_bytes, permissions) = (found.len(), found.mode() & 0o7777);
        let fingerprint = fingerprint(file, size_bytes).map_err(wrong)?;
        let name = self.name.clone();
        Saved { name, position, size_bytes, fingerprint, permissions }.serialize(serializer)
    }
}

/// Of the first bytes of a file; 0 if it may be written: a run from the checkpoint on may have done so.
fn fingerprint(file: &File, size_bytes: u64) -> io::Result<u64> {
    if fcntl_getfl(file)? & OFlags::ACCMODE != OFlags::RDONLY {
        return Ok(0);
    }
    let (mut hash, mut at) = (BASIS, 0);
    let mut buffer = vec![0; 1 << 16];
    while at < size_bytes {
        let length = (size_bytes - at).min(buffer.len() as u64) as usize;
        file.read_exact_at(&mut buffer[..length], at)?;
        hash = fnv1a(hash, &buffer[..length]);
        at += length as u64;
    }
    Ok(hash)
}

impl<'de> Deserialize<'de> for OnDisk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OnDisk, D::Error> {
        let saved = Saved::deserialize(deserializer)?;
        Ok(OnDisk { name: saved.name.clone(), file: None, saved })
    }
}

impl Files {
    /// Whether a file of the host is open.
    pub(in crate::kernel) const fn has_any_on_disk(&self) -> bool {
        self.table.has_any_on_disk()
    }

    /// That the names of open files still name them.
    fn check_names(&mut self, host: &mut dyn Host) -> Result<(), String> {
        for OpenFile { open, status, .. } in self.table.files_mut() {
            let name = match open {
                Open::File(Regular::Disk(file)) => &file.name,
                Open::Path(path) if path.is_on_disk() => &path.name,
                _ => continue,
            };
            let named = host.status(name, status.kind != Kind::Link);
            if !named.is_ok_and(|named| named.inode == status.inode) {
                return Err(format!(
                    "{name}: is open and has another name now, or none, so that nothing can open it again"
                ));
            }
        }
        Ok(())
    }

    fn reopen(&mut self, host: &mut dyn Host) -> Result<(), String> {
        self.share_contents();
        for OpenFile { open, flags, status } in self.table.files_mut() {
            let (result, name) = match open {
                Open::File(Regular::Disk(file)) => (file.reopen(*flags, host), &file.name),
                Open::Path(path) => (path.reopen(status, host), &path.name),
                _ => continue,
            };
            result.map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }
}

impl Kernel {
    /// That files which are open can be opened again by their names.
    ///
    /// # Errors
    /// One has been renamed, replaced or removed: its name and the reason.
    pub fn check_names(&mut self, host: &mut dyn Host) -> Result<(), String> {
        self.files.check_names(host)
    }

    /// Opens the files again that were open when the kernel was saved.
    ///
    /// # Errors
    /// One of them is gone or shorter than it was: its name and the reason.
    pub fn reopen(&mut self, host: &mut dyn Host) -> Result<(), String> {
        self.files.reopen(host)
    }
}
