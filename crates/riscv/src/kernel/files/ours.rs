//! Names of the kernel's own files, which no call changes, and what the links below `/proc/self/fd` say.

use super::names::{NO_FOLLOW, mode};
use super::on_disk::OnDisk;
use super::regular::Regular;
use super::table::{Open, OpenFile};
use super::{Context, Errno, Files, Process, Result, number};
use crate::kernel::synthetic::{Made, is_ours, normal};
use crate::kernel::{Kind, OpenMode, Opened, Status};

/// What the text of a link ends with whose file has no name any more.
const DELETED: &str = " (deleted)";

impl Files {
    /// Why nothing is made by a name; `None` if the name is one of the host's.
    pub(super) fn new_of_ours(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        name: &str,
    ) -> Option<Errno> {
        Some(match self.made(context, process, name)? {
            Ok(_) => Errno::EXIST,
            Err(errno) => errno,
        })
    }

    /// `mkdirat`, `unlinkat` and `renameat2` with a name of the kernel's; `None` if both are the host's.
    pub(super) fn change_of_ours(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        (number, flags): (u64, u64),
        (from, to): (&str, &str),
    ) -> Option<Result> {
        let is_rename = number == number::RENAMEAT2;
        if is_rename && is_ours(from) != is_ours(to) {
            return Some(Err(Errno::XDEV));
        }
        if number == number::MKDIRAT {
            return self.new_of_ours(context, process, from).map(Err);
        }
        let made = match self.made(context, process, from)? {
            Ok(made) => made,
            Err(errno) => return Some(Err(errno)),
        };
        let is_folder = matches!(made, Made::Folder(_));
        Some(match normal(from).as_str() {
            "/" if number == number::UNLINKAT && flags == 0 => Err(Errno::ISDIR),
            "/" => Err(Errno::BUSY),
            from if is_rename && from == normal(to) => Ok(0),
            _ if flags != 0 && !is_rename && !is_folder => Err(Errno::NOTDIR),
            from if from.starts_with("/dev") => Err(Errno::ACCES),
            _ => Err(Errno::PERM),
        })
    }

    /// Makes a file without a name (`O_TMPFILE`) in the file system of a folder.
    pub(super) fn open_nameless(
        &mut self,
        context: &mut Context<'_>,
        made: Option<Result<Made>>,
        folder: &str,
        (flags, permissions): (u64, u32),
    ) -> Result<(Open, Status)> {
        const EXCLUSIVE: u64 = 0o200;
        match made {
            None => {}
            Some(Ok(Made::Folder(_))) => return Err(Errno::OPNOTSUPP),
            Some(made) => return made.and(Err(Errno::NOTDIR)),
        }
        // One that nobody else can open gets no name either.
        let create_new = flags & EXCLUSIVE != 0;
        let mode = OpenMode { is_nameless: true, create_new, ..mode(flags, permissions) };
        let is_link = |found: Status| found.kind == Kind::Link;
        if flags & NO_FOLLOW != 0 && context.host.status(folder, false).is_ok_and(is_link) {
            return Err(Errno::NOTDIR);
        }
        let folder = folder.trim_end_matches('/');
        match context.host.open(folder, mode)? {
            Opened::File(file, status) => {
                let name = format!("{folder}/#{}", status.inode);
                Ok((Open::File(Regular::Disk(OnDisk::new(&name, file))), status))
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// What the link below `/proc/self/fd` says of a descriptor: the name that the file has now.
    pub(super) fn shown_link(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
    ) -> Result<String> {
        let OpenFile { open, status, .. } = self.table.any_file(descriptor)?;
        let (name, file) = match open {
            Open::File(Regular::Disk(file)) => (file.name(), &**file),
            Open::Path(path) if path.is_on_disk() => match path.file() {
                Some(file) => (path.name(), file),
                None => return self.table.link(descriptor),
            },
            Open::Folder(name, ..) if !is_ours(name) => {
                let named = context.host.status(name, false);
                let is_there = named.is_ok_and(|named| named.inode == status.inode);
                return Ok(if is_there { name.clone() } else { format!("{name}{DELETED}") });
            }
            _ => return self.table.link(descriptor),
        };
        // The host's own number is in the name of one that was made without.
        if name.ends_with(&format!("/#{}", status.inode)) {
            return Ok(format!("{}{DELETED}", normal(name)));
        }
        match context.host.name_of(file) {
            Ok(name) => Ok(name),
            Err(_) => self.table.link(descriptor),
        }
    }
}
