//! Opening again what a descriptor stands for, as the links below `/proc/self/fd` do; and files without their content.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use super::anonymous::Anonymous;
use super::on_disk::OnDisk;
use super::regular::Regular;
use super::table::{Open, OpenFile, PATH};
use super::{Context, Errno, Files, Result, names};
use crate::host::permits;
use crate::kernel::synthetic::is_ours;
use crate::kernel::{Host, Kind, OpenMode, Status};

pub(super) const XDEV: Errno = Errno::XDEV;

/// A file that is open without its content, whichever names it has meanwhile.
#[derive(Serialize, Deserialize)]
pub(super) struct WithoutContent {
    /// As the program gave it, absolute.
    pub name: String,
    /// None for a file that the kernel makes up, and between being read with the kernel and
    /// [`crate::kernel::Kernel::reopen`].
    #[serde(skip)]
    file: Option<File>,
}

impl WithoutContent {
    pub(super) fn new(name: &str, file: Option<File>) -> WithoutContent {
        WithoutContent { name: name.to_owned(), file }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The file, if it is the host's.
    pub(super) const fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub(super) fn is_on_disk(&self) -> bool {
        !is_ours(&self.name)
    }

    fn again(&self) -> io::Result<WithoutContent> {
        let file = self.file.as_ref().map(File::try_clone).transpose()?;
        Ok(WithoutContent { name: self.name.clone(), file })
    }

    /// Opens it again by its name, after it was read.
    pub(super) fn reopen(&mut self, status: &Status, host: &mut dyn Host) -> io::Result<()> {
        if self.is_on_disk() {
            self.file = Some(host.open_path(&self.name, status.kind != Kind::Link)?.0);
        }
        Ok(())
    }
}

impl Files {
    /// The open file of a descriptor, once more, with flags and a place of its own.
    pub(super) fn open_again(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        flags: u64,
    ) -> Result<(Open, Status)> {
        const NXIO: Errno = Errno(6);
        let is_written = flags & 3 != 0;
        let OpenFile { open, status, .. } = self.table.any_file(descriptor)?;
        let status = *status;
        let open = match open {
            Open::File(Regular::Disk(file)) if flags & PATH != 0 => {
                Open::Path(WithoutContent::new(file.name(), Some(file.try_clone()?)))
            }
            Open::File(Regular::Disk(file)) => {
                let again = context.host.reopen(file.name(), file, names::mode(flags, 0))?;
                Open::File(Regular::Disk(OnDisk::new(file.name(), again)))
            }
            Open::File(Regular::Memory(file)) => {
                Open::File(Regular::Memory(memory_again(file, flags)?))
            }
            // The same file, even if another one has its name now.
            Open::Path(path) if flags & PATH != 0 => Open::Path(path.again()?),
            Open::Path(_) if status.kind == Kind::Link && flags & PATH == 0 => {
                return Err(Errno::LOOP);
            }
            Open::Folder(..) if is_written => return Err(Errno::ISDIR),
            Open::Folder(name, entries, _) if is_ours(name) => {
                Open::Folder(name.clone(), entries.clone(), 0)
            }
            Open::Path(WithoutContent { name, file: Some(file) }) if status.kind == Kind::File => {
                let again = context.host.reopen(name, file, names::mode(flags, 0))?;
                Open::File(Regular::Disk(OnDisk::new(name, again)))
            }
            Open::Path(_) if status.kind == Kind::Pipe => self.open_fifo(context, status, flags)?,
            Open::Folder(name, ..) | Open::Path(WithoutContent { name, .. }) => {
                let name = name.clone();
                return self.open_file(context, &name, flags, 0);
            }
            &mut Open::Pipe(number) => {
                let is_named = self.table.pipe(number)?.fifo.is_some() && flags & PATH == 0;
                if is_named { self.open_fifo(context, status, flags)? } else { Open::Pipe(number) }
            }
            Open::Text(..) if is_written => return Err(Errno::ACCES),
            Open::Text(text, _) => Open::Text(text.clone(), 0),
            Open::Input => Open::Input,
            Open::Output(stream) => Open::Output(*stream),
            Open::Null => Open::Null,
            Open::Zero => Open::Zero,
            Open::Full => Open::Full,
            Open::Random => Open::Random,
            Open::Event { .. } | Open::Timer(_) | Open::Epoll(_) | Open::Socket(_) => {
                return Err(NXIO);
            }
        };
        Ok((open, status))
    }

    /// Opens a file without its content (`O_PATH`); `None` if it is a folder, which is open as others are.
    pub(super) fn open_path(
        &mut self,
        context: &mut Context<'_>,
        name: &str,
        follow: bool,
    ) -> Result<Option<(Open, Status)>> {
        if context.host.status(name, follow)?.kind == Kind::Folder {
            return Ok(None);
        }
        let (file, status) = context.host.open_path(name, follow)?;
        Ok(Some((Open::Path(WithoutContent::new(name, Some(file))), status)))
    }

    /// Gives an open file another name (`linkat` of a descriptor).
    pub(super) fn link_open(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        to: &str,
    ) -> Result {
        if descriptor as i32 as u64 == names::AT_FDCWD {
            return Err(not_linked(context, to, Errno::PERM));
        }
        match &self.table.any_file(descriptor)?.open {
            Open::File(Regular::Disk(file)) => context.host.link_open(file.name(), file, to)?,
            Open::Path(WithoutContent { name, file: Some(file) }) => {
                context.host.link_open(name, file, to)?;
            }
            Open::Folder(..) => return Err(not_linked(context, to, Errno::PERM)),
            _ => return Err(not_linked(context, to, XDEV)),
        }
        Ok(0)
    }

    /// `truncate` by the link of a descriptor.
    pub(super) fn truncate_open(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        length: u64,
    ) -> Result {
        let mode = OpenMode { write: true, ..OpenMode::default() };
        let OpenFile { open, status, .. } = self.table.any_file(descriptor)?;
        let (name, file): (&str, &File) = match open {
            Open::File(Regular::Disk(file)) => (file.name(), &**file),
            Open::Path(WithoutContent { name, file: Some(file) }) if status.kind == Kind::File => {
                (name.as_str(), file)
            }
            Open::File(file) => return Ok(file.set_size(length).map(|()| 0)?),
            Open::Folder(..) => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        };
        context.host.reopen(name, file, mode)?.set_len(length)?;
        Ok(0)
    }
}

/// Opens a file in memory again, as its permissions allow.
fn memory_again(file: &Anonymous, flags: u64) -> Result<Anonymous> {
    let mut again = file.again();
    if flags & PATH == 0 {
        let mode = names::mode(flags, 0);
        permits(file.permissions(), OpenMode { write: mode.write || mode.truncate, ..mode })?;
        if mode.truncate {
            again.set_size(0);
        }
    }
    Ok(again)
}

/// Why a file gets no other name, unless one has it already.
pub(super) fn not_linked(context: &mut Context<'_>, to: &str, why: Errno) -> Errno {
    if context.host.status(to, false).is_ok() { Errno::EXIST } else { why }
}
