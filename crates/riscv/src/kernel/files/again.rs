//! Opening again what a descriptor stands for, as the links below `/proc/self/fd` do; and files without their content.

use super::on_disk::OnDisk;
use super::regular::Regular;
use super::table::{Open, OpenFile, PATH};
use super::{Context, Errno, Files, Result, names};
use crate::kernel::synthetic::is_ours;
use crate::kernel::{Kind, Status};

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
                Open::Path(file.name().to_owned())
            }
            Open::File(Regular::Disk(file)) => {
                let again = context.host.reopen(file.name(), file, names::mode(flags, 0))?;
                Open::File(Regular::Disk(OnDisk::new(file.name(), again)))
            }
            // The same file, even if another one has its name now.
            Open::Path(name) if flags & PATH != 0 => Open::Path(name.clone()),
            Open::Path(_) if status.kind == Kind::Link && flags & PATH == 0 => {
                return Err(Errno::LOOP);
            }
            Open::Folder(..) if is_written => return Err(Errno::ISDIR),
            Open::Folder(name, entries, _) if is_ours(name) => {
                Open::Folder(name.clone(), entries.clone(), 0)
            }
            Open::Folder(name, ..) | Open::Path(name) => {
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
            Open::Event { .. }
            | Open::Timer(_)
            | Open::Epoll(_)
            | Open::Socket(_)
            | Open::File(_) => {
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
        let status = context.host.status(name, follow)?;
        Ok((status.kind != Kind::Folder).then(|| (Open::Path(name.to_owned()), status)))
    }
}
