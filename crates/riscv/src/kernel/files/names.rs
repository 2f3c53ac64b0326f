//! Opening files, and their names.

use super::again::WithoutContent;
use super::on_disk::OnDisk;
use super::regular::Regular;
use super::status::AT_EMPTY_PATH;
use super::table::{APPEND, CLOEXEC, Open, OpenFile, PATH, READ_WRITE, WRITE_ONLY};
use super::{Context, Errno, Files, Process, Result, again, number};
use crate::kernel::synthetic::{self, Facts, Made};
use crate::kernel::{Change, Entry, Kind, OpenMode, Opened, Status};
use crate::names::bytes_of;

pub(super) const AT_FDCWD: u64 = -100i32 as u64;
const AT_REMOVEDIR: u64 = 0x200;
const DIRECTORY: u64 = 0o20_0000;
const NAMELESS: u64 = 0o2000_0000;
const TRUNCATE: u64 = 0o1000;
const CREATE: u64 = 0o100;
const EXCLUSIVE: u64 = 0o200;
pub(super) const NO_FOLLOW: u64 = 0o40_0000;

/// The most that programs get of a link's text.
const LONGEST_LINK: usize = 4096;

impl Files {
    /// The absolute name of the path at `address`, which begins in the folder of a descriptor if it is relative.
    pub(super) fn name(
        &mut self,
        context: &mut Context<'_>,
        folder: u64,
        address: u64,
    ) -> Result<String> {
        let path = context.read_string(address)?;
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.starts_with('/') {
            return Ok(path);
        }
        if folder as i32 as u64 == AT_FDCWD {
            return Ok(format!("{}/{path}", self.current));
        }
        let (name, ..) = self.open_folder(context, folder)?;
        Ok(format!("{name}/{path}"))
    }

    /// An open folder: its name, its entries when it was opened or listed, and the place of the next one. Its name is
    /// still its own, as a program that shares files may have put another folder there.
    fn open_folder(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
    ) -> Result<(&str, &mut Vec<Entry>, &mut usize)> {
        let OpenFile { open, status, .. } = self.table.any_file(descriptor)?;
        let Open::Folder(name, entries, next) = open else { return Err(Errno::NOTDIR) };
        let is_it = |found: Status| found.inode == status.inode;
        match synthetic::is_ours(name) || context.host.status(name, false).is_ok_and(is_it) {
            true => Ok((name, entries, next)),
            false => Err(Errno::NOENT),
        }
    }

    /// The file that the kernel makes up for a name; `None` if the name is one of the host's.
    pub(super) fn made(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        name: &str,
    ) -> Option<Result<Made>> {
        if !synthetic::is_ours(name) {
            return None;
        }
        let name = synthetic::normal(name);
        let descriptors = self.table.within(0, u32::MAX);
        let facts = Facts::new(process, (&descriptors, &self.current), context.host);
        let made = synthetic::open(&name, &facts);
        if made.is_none() && !synthetic::is_probed(&name) {
            context.host.warn(&format!(
                "{name} is not provided by the model's machine: the program gets ENOENT"
            ));
        }
        Some(made.ok_or(Errno::NOENT))
    }

    pub(super) fn open(&mut self, context: &mut Context<'_>, process: &Process<'_>) -> Result {
        let [folder, path, mut flags, mode, ..] = context.args();
        if flags & PATH != 0 {
            flags &= PATH | DIRECTORY | NO_FOLLOW | CLOEXEC;
        }
        let is_nameless = flags & NAMELESS != 0;
        if is_nameless && (flags & DIRECTORY == 0 || flags & 3 == 0)
            || flags & CREATE != 0 && flags & DIRECTORY != 0
        {
            return Err(Errno::INVAL);
        }
        if let Some(status) = self.opening(context.hart) {
            let open = self.open_fifo(context, status, flags)?;
            return self.add_opened(open, status, flags);
        }
        let permissions = self.permissions_of(mode);
        let name = self.name(context, folder, path)?;
        let made = self.made(context, process, &name);
        if is_nameless {
            let (open, status) = self.open_nameless(context, made, &name, (flags, permissions))?;
            return self.add_opened(open, status, flags);
        }
        let (open, status) = match made {
            Some(Ok(_)) if flags & CREATE != 0 && flags & EXCLUSIVE != 0 => {
                return Err(Errno::EXIST);
            }
            Some(Ok(made @ (Made::Link(_) | Made::Descriptor(_)))) if flags & NO_FOLLOW != 0 => {
                match flags & PATH {
                    0 => return Err(Errno::LOOP),
                    _ => {
                        let path = WithoutContent::new(&name, None);
                        (Open::Path(path), made_status(&name, &made))
                    }
                }
            }
            Some(Ok(Made::Descriptor(descriptor))) => {
                self.open_again(context, descriptor, flags)?
            }
            Some(Ok(Made::Link(target))) => match self.made(context, process, &target) {
                Some(made) => open_made(&target, made?, flags)?,
                None => self.open_file(context, &target, flags, permissions)?,
            },
            Some(made) => open_made(&name, made?, flags)?,
            None => self.open_file(context, &name, flags, permissions)?,
        };
        if flags & DIRECTORY != 0 && !matches!(open, Open::Folder(..)) {
            return Err(Errno::NOTDIR);
        }
        self.add_opened(open, status, flags)
    }

    fn add_opened(&mut self, open: Open, status: Status, flags: u64) -> Result {
        let shown = flags & !(CLOEXEC | 0o1700);
        self.table.add(OpenFile { open, flags: shown, status }, flags & CLOEXEC != 0)
    }

    pub(super) fn open_file(
        &mut self,
        context: &mut Context<'_>,
        name: &str,
        flags: u64,
        permissions: u32,
    ) -> Result<(Open, Status)> {
        let is_set = |flag| flags & flag != 0;
        if is_set(PATH)
            && let Some(opened) = self.open_path(context, name, !is_set(NO_FOLLOW))?
        {
            return Ok(opened);
        }
        let is_link = |status: Status| status.kind == Kind::Link;
        if is_set(NO_FOLLOW) && context.host.status(name, false).is_ok_and(is_link) {
            let error = if is_set(DIRECTORY) { Errno::NOTDIR } else { Errno::LOOP };
            return Err(if is_set(CREATE) && is_set(EXCLUSIVE) { Errno::EXIST } else { error });
        }
        if is_set(DIRECTORY) && context.host.status(name, true)?.kind != Kind::Folder {
            return Err(Errno::NOTDIR);
        }
        Ok(match context.host.open(name, mode(flags, permissions))? {
            Opened::File(file, status) => {
                (Open::File(Regular::Disk(OnDisk::new(name, file))), status)
            }
            Opened::Folder(status, entries) => {
                (Open::Folder(context.host.enter(name)?, entries, 0), status)
            }
            Opened::Pipe(_) if is_set(DIRECTORY) => return Err(Errno::NOTDIR),
            Opened::Pipe(status) => (self.open_fifo(context, status, flags)?, status),
        })
    }

    pub(super) fn read_link(&mut self, context: &mut Context<'_>, process: &Process<'_>) -> Result {
        let [folder, path, to, size, ..] = context.args();
        if size as i32 <= 0 {
            return Err(Errno::INVAL);
        }
        let text = match context.read_string(path)?.is_empty() {
            true => self.open_link(context, process, folder)?,
            false => {
                let name = self.name(context, folder, path)?;
                self.text(context, process, &name)?
            }
        };
        let text = bytes_of(&text);
        let length = text.len().min(LONGEST_LINK).min(usize::try_from(size).unwrap_or(usize::MAX));
        context.memory.write(to, &text[..length])?;
        Ok(length as u64)
    }

    /// The text of a link.
    fn text(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        name: &str,
    ) -> Result<String> {
        Ok(match self.made(context, process, name) {
            Some(Ok(Made::Link(text))) => text,
            Some(Ok(Made::Descriptor(descriptor))) => self.shown_link(context, descriptor)?,
            Some(Ok(_)) => return Err(Errno::INVAL),
            Some(Err(errno)) => return Err(errno),
            None => context.host.read_link(name)?,
        })
    }

    /// The text of an open link, which its descriptor alone names.
    fn open_link(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        descriptor: u64,
    ) -> Result<String> {
        if descriptor as i32 as u64 == AT_FDCWD {
            return Err(Errno::NOENT);
        }
        let OpenFile { open, status, .. } = self.table.any_file(descriptor)?;
        let Open::Path(path) = open else { return Err(Errno::NOENT) };
        match path.file() {
            _ if status.kind != Kind::Link => Err(Errno::NOENT),
            Some(link) => Ok(context.host.read_open_link(link)?),
            None => {
                let name = path.name.clone();
                self.text(context, process, &name)
            }
        }
    }

    pub(super) fn current(&mut self, context: &mut Context<'_>, to: u64, size: u64) -> Result {
        let text = [&bytes_of(&self.current)[..], &[0]].concat();
        if size < text.len() as u64 {
            return Err(Errno::RANGE);
        }
        context.memory.write(to, &text)?;
        Ok(text.len() as u64)
    }

    /// `chdir`.
    pub(super) fn enter(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        path: u64,
    ) -> Result {
        let name = self.name(context, AT_FDCWD, path)?;
        self.current = match self.made(context, process, &name) {
            Some(Ok(Made::Folder(_))) => synthetic::normal(&name),
            Some(Ok(Made::Link(target))) if synthetic::is_ours(&target) => target,
            Some(Ok(Made::Link(target))) => context.host.enter(&target)?,
            Some(Ok(_)) => return Err(Errno::NOTDIR),
            Some(Err(errno)) => return Err(errno),
            None => context.host.enter(&name)?,
        };
        Ok(0)
    }

    /// `fchdir`.
    pub(super) fn enter_open(&mut self, descriptor: u64) -> Result {
        let Open::Folder(name, ..) = &self.table.any_file(descriptor)?.open else {
            return Err(Errno::NOTDIR);
        };
        self.current = name.clone();
        Ok(0)
    }

    /// `mkdirat`, `unlinkat` and `renameat2`.
    pub(super) fn change(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        number: u64,
    ) -> Result {
        const NOREPLACE: u64 = 1;
        const EXCHANGE: u64 = 2;
        let [a0, a1, a2, a3, a4, _] = context.args();
        // File systems need not have whiteouts.
        if number == number::RENAMEAT2 && !matches!(a4, 0 | NOREPLACE | EXCHANGE) {
            return Err(Errno::INVAL);
        }
        if number == number::UNLINKAT && u64::from(a2 as u32) & !AT_REMOVEDIR != 0 {
            return Err(Errno::INVAL);
        }
        let name = self.name(context, a0, a1)?;
        let to = match number {
            number::RENAMEAT2 => self.name(context, a2, a3)?,
            _ => String::new(),
        };
        if number == number::UNLINKAT
            && a2 & AT_REMOVEDIR != 0
            && let Some(errno) = not_removed(&name)
        {
            return match self.made(context, process, &name) {
                Some(made) => made.and(Err(errno)),
                None => Ok(context.host.enter(&name)?).and(Err(errno)),
            };
        }
        if let Some(result) = self.change_of_ours(context, process, (number, a2), (&name, &to)) {
            return result;
        }
        let change = match number {
            number::MKDIRAT => Change::MakeFolder(&name),
            number::UNLINKAT if a2 & AT_REMOVEDIR != 0 => Change::RemoveFolder(&name),
            number::UNLINKAT => Change::Remove(&name),
            _ if a4 == EXCHANGE => Change::Exchange { from: &name, to: &to },
            _ => Change::Rename { from: &name, to: &to, replace: a4 & NOREPLACE == 0 },
        };
        let folder = |context: &mut Context<'_>, name: &str| match number {
            number::RENAMEAT2
                if context.host.status(name, false).is_ok_and(|it| it.kind == Kind::Folder) =>
            {
                context.host.enter(name).ok()
            }
            _ => None,
        };
        let moved = [folder(context, &name), folder(context, &to)];
        context.host.change(&change)?;
        let now = [folder(context, &to), folder(context, &name)];
        // The other one is replaced, unless they have changed names.
        let both = if a4 == EXCHANGE { 2 } else { 1 };
        let moves = moved.into_iter().zip(now).take(both).filter_map(|(from, to)| from.zip(to));
        self.follow_folders(&moves.collect::<Vec<_>>());
        if number == number::MKDIRAT {
            let permissions = self.permissions_of(a2);
            context.host.change(&Change::Permit { name: &name, permissions, follow: false })?;
        }
        Ok(0)
    }

    /// Folders have other names now, and so have open ones that are in them, and the current one.
    fn follow_folders(&mut self, moves: &[(String, String)]) {
        let open = self.table.files_mut().filter_map(|file| match &mut file.open {
            Open::Folder(name, ..) | Open::Path(WithoutContent { name, .. }) => Some(name),
            _ => None,
        });
        for name in open.chain([&mut self.current]) {
            let moved = moves.iter().find_map(|(from, to)| {
                let rest = name.strip_prefix(from.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
            });
            if let Some(moved) = moved {
                *name = moved;
            }
        }
    }

    /// `linkat` and `symlinkat`.
    pub(super) fn link(
        &mut self,
        context: &mut Context<'_>,
        process: &Process<'_>,
        number: u64,
    ) -> Result {
        const FOLLOW: u64 = 0x400;
        let [a0, a1, a2, a3, flags, _] = context.args();
        if number == number::SYMLINKAT {
            let text = context.read_string(a0)?;
            if text.is_empty() {
                return Err(Errno::NOENT);
            }
            let name = self.name(context, a1, a2)?;
            if let Some(errno) = self.new_of_ours(context, process, &name) {
                return Err(errno);
            }
            context.host.change(&Change::SymbolicLink { text: &text, name: &name })?;
            return Ok(0);
        }
        if flags & !(FOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::INVAL);
        }
        let follow = flags & FOLLOW != 0;
        if flags & AT_EMPTY_PATH != 0 && context.read_string(a1)?.is_empty() {
            let to = self.name(context, a2, a3)?;
            return self.link_open(context, a0, &to);
        }
        let (from, to) = (self.name(context, a0, a1)?, self.name(context, a2, a3)?);
        if let Some(errno) = self.new_of_ours(context, process, &to) {
            return Err(if errno == Errno::EXIST { errno } else { Errno::XDEV });
        }
        match self.made(context, process, &from) {
            Some(Ok(Made::Descriptor(descriptor))) if follow => {
                return self.link_open(context, descriptor, &to);
            }
            Some(made) => return made.and(Err(again::not_linked(context, &to, again::XDEV))),
            None => {}
        }
        context.host.change(&Change::Link { from: &from, to: &to, follow })?;
        Ok(0)
    }

    /// `getdents64`.
    pub(super) fn list(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        to: u64,
        size: u64,
    ) -> Result {
        const HEADER: usize = 19;
        self.table.get(descriptor)?;
        let (name, entries, next) = self.open_folder(context, descriptor)?;
        // Changes since it was opened show where a list begins.
        let mode = OpenMode { read: true, ..OpenMode::default() };
        if *next == 0
            && !synthetic::is_ours(name)
            && let Opened::Folder(_, now) = context.host.open(name, mode)?
        {
            *entries = now;
        }
        let mut bytes = Vec::new();
        let mut at = *next;
        // The two entries that every folder has come first.
        while at < entries.len() + 2 {
            let (name, kind, inode) = match at {
                0 => (b".".to_vec(), Kind::Folder, 1),
                1 => (b"..".to_vec(), Kind::Folder, 1),
                _ => {
                    let entry = &entries[at - 2];
                    (bytes_of(&entry.name), entry.kind, entry.inode)
                }
            };
            let length = (HEADER + name.len() + 1).next_multiple_of(8);
            if (bytes.len() + length) as u64 > size {
                break;
            }
            let end = bytes.len() + length;
            at += 1;
            bytes.extend(inode.to_le_bytes());
            bytes.extend((at as u64).to_le_bytes());
            bytes.extend((length as u16).to_le_bytes());
            bytes.push(letter(kind));
            bytes.extend(name);
            bytes.resize(end, 0);
        }
        if bytes.is_empty() && at < entries.len() + 2 {
            return Err(Errno::INVAL);
        }
        context.memory.write(to, &bytes)?;
        *next = at;
        Ok(bytes.len() as u64)
    }
}

/// The error of `rmdir` for a name that ends in `.` or `..`: that is no folder's name in the one above.
fn not_removed(name: &str) -> Option<Errno> {
    match name.trim_end_matches('/').rsplit('/').next() {
        Some(".") => Some(Errno::INVAL),
        Some("..") => Some(Errno::NOTEMPTY),
        _ => None,
    }
}

/// A kind of file as `d_type` of `struct dirent` has it.
const fn letter(kind: Kind) -> u8 {
    match kind {
        Kind::Pipe => 1,
        Kind::Device => 2,
        Kind::Folder => 4,
        Kind::File => 8,
        Kind::Link => 10,
        Kind::Socket => 12,
    }
}

/// How the host opens a file for flags of `openat`.
pub(super) const fn mode(flags: u64, permissions: u32) -> OpenMode {
    OpenMode {
        read: flags & 3 != WRITE_ONLY,
        write: flags & 3 != 0,
        append: flags & APPEND != 0,
        truncate: flags & TRUNCATE != 0,
        create: flags & CREATE != 0,
        create_new: flags & CREATE != 0 && flags & EXCLUSIVE != 0,
        permissions,
        is_again: false,
        is_nameless: false,
    }
}

/// Whether an `openat` empties the file that it opens.
pub(in crate::kernel) fn empties(context: &Context<'_>) -> bool {
    context.args()[2] & TRUNCATE != 0
}

fn open_made(name: &str, made: Made, flags: u64) -> Result<(Open, Status)> {
    let is_written = flags & 3 == WRITE_ONLY || flags & 3 == READ_WRITE;
    let status = made_status(name, &made);
    let open = match made {
        Made::Text(_) if is_written => return Err(Errno::ACCES),
        Made::Text(text) => Open::Text(text, 0),
        Made::Folder(_) if is_written || flags & CREATE != 0 => return Err(Errno::ISDIR),
        Made::Folder(entries) => Open::Folder(synthetic::normal(name), entries, 0),
        Made::Null => Open::Null,
        Made::Zero => Open::Zero,
        Made::Full => Open::Full,
        Made::Random => Open::Random,
        Made::Link(_) | Made::Descriptor(_) => return Err(Errno::NOENT),
    };
    Ok((open, status))
}

/// The status of a file that the kernel makes up.
pub(super) fn made_status(name: &str, made: &Made) -> Status {
    let kind = match made {
        Made::Text(_) => Kind::File,
        Made::Folder(_) => Kind::Folder,
        Made::Link(_) | Made::Descriptor(_) => Kind::Link,
        _ => Kind::Device,
    };
    // Files below /proc have a size that nobody knows.
    let status = Status::new(kind, synthetic::inode(&synthetic::normal(name)));
    match made {
        Made::Folder(entries) => {
            let folders = entries.iter().filter(|entry| entry.kind == Kind::Folder).count();
            Status { links: 2 + folders as u64, ..status }
        }
        _ => status,
    }
}
