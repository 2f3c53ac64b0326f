//! Changes of names: what Linux makes of names with a slash or dots at their ends, and which places may be written.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::LocalHost;
use super::folder::{Lost, Place};
use super::held::{self, hold};
use crate::kernel::{Change, Errno, Host};

/// Whether a name is that of a folder, whatever is there: a link then stands for what it leads to.
pub(super) fn is_folders(name: &str) -> bool {
    name.ends_with('/') || name.ends_with("/.")
}

/// That there is a folder, or nothing, if the name is that of one.
pub(super) fn check_kind(name: &str, path: &Path) -> io::Result<()> {
    match is_folders(name) && held::find(path)?.is_some_and(|found| !found.is_dir()) {
        true => Err(io::ErrorKind::NotADirectory.into()),
        false => Ok(()),
    }
}

/// Whether the last part of a name is `.` or `..`, so that it is the name of nothing in its folder.
pub(super) fn ends_in_dots(name: &str) -> bool {
    let name = name.trim_end_matches('/');
    name.ends_with("/.") || name.ends_with("/..")
}

/// Permissions that a program gives a file. No other user of the host gets the rights of this one by it.
pub(super) fn permitted(permissions: u32) -> Permissions {
    Permissions::from_mode(permissions & 0o1777)
}

impl LocalHost {
    /// The place of a name that is about to be written.
    pub(super) fn own_place(&mut self, name: &str, follow: bool) -> io::Result<PathBuf> {
        let path = self.own_name(name, follow)?;
        check_kind(name, &path)?;
        Ok(path)
    }

    /// The same, whatever is there.
    fn own_name(&mut self, name: &str, follow: bool) -> io::Result<PathBuf> {
        let follow = follow || ends_in_dots(name);
        let Place { path, is_own, .. } = match self.folder.resolve(name, follow) {
            Err(Lost::Error(error)) => return Err(error),
            Err(Lost::Outside) => Place::default(),
            Ok(place) => place,
        };
        if is_own {
            if ends_in_dots(name) {
                check_kind(name, &path)?;
                held::metadata(&path)?;
            }
            return Ok(path);
        }
        self.warn(&format!(
            "{name} is outside of the run's folder: it may not be written; the program gets EROFS"
        ));
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// The place of a name that is about to be made, of a folder or something else.
    fn new_place(&mut self, name: &str, is_folder: bool) -> io::Result<PathBuf> {
        let path = self.own_name(name, false)?;
        if ends_in_dots(name) || held::find(&path)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match is_folder || !name.ends_with('/') {
            true => Ok(path),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Gives an open file of the program another name.
    pub(super) fn link_file(&mut self, file: &File, to: &str) -> io::Result<()> {
        let to = self.new_place(to, false)?;
        let found = file.metadata()?;
        hold(&to)?.link_file(file)?;
        let number = self.nameless.get(&(found.dev(), found.ino())).copied();
        if let Some(number) = number.filter(|_| found.nlink() == 0) {
            self.folder.numbers().keep(&found, number);
        }
        self.made.insert(to);
        Ok(())
    }

    pub(super) fn change_name(&mut self, change: &Change<'_>) -> io::Result<()> {
        match *change {
            Change::Permit { name, permissions, follow } => {
                let path = self.own_place(name, follow)?;
                self.folder.check_not_root(&path)?;
                held::set_permissions(&path, permitted(permissions))
            }
            Change::MakeFolder(name) => {
                let path = self.new_place(name, true)?;
                hold(&path)?.make_folder()?;
                self.made.insert(path);
                Ok(())
            }
            Change::MakeFile(name) => {
                let path = self.new_place(name, false)?;
                hold(&path)?.make_file()?;
                self.made.insert(path);
                Ok(())
            }
            Change::MakePipe(name) | Change::MakeSocket(name) => {
                let path = self.new_place(name, false)?;
                let is_pipe = matches!(change, Change::MakePipe(_));
                hold(&path)?.make_node(if is_pipe { FileType::Fifo } else { FileType::Socket })?;
                self.made.insert(path);
                Ok(())
            }
            Change::Remove(name) => {
                let path = self.own_place(name, false)?;
                let found = held::metadata(&path)?;
                if found.is_dir() {
                    return Err(Errno::ISDIR.into());
                }
                hold(&path)?.remove_file()?;
                self.folder.numbers().forget(&found);
                Ok(())
            }
            Change::RemoveFolder(name) => {
                let path = self.own_place(name, false)?;
                self.folder.check_not_root(&path)?;
                let found = held::metadata(&path)?;
                hold(&path)?.remove_folder()?;
                self.folder.numbers().forget(&found);
                Ok(())
            }
            Change::Link { from, to, follow } => {
                let from = self.own_place(from, follow || is_folders(from))?;
                held::metadata(&from)?;
                let to = self.new_place(to, false)?;
                hold(&from)?.link_to(&hold(&to)?)?;
                self.made.insert(to);
                Ok(())
            }
            Change::SymbolicLink { text, name } => {
                let path = self.new_place(name, false)?;
                hold(&path)?.make_link(text)?;
                self.made.insert(path);
                Ok(())
            }
            Change::Rename { from, to, replace } => self.rename(from, to, replace),
            Change::Exchange { from, to } => self.exchange(from, to),
        }
    }

    fn exchange(&mut self, from_name: &str, to_name: &str) -> io::Result<()> {
        let (from, to) = (self.own_name(from_name, false)?, self.own_name(to_name, false)?);
        if ends_in_dots(from_name) || ends_in_dots(to_name) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // Both have to be there before anything else of them counts.
        let found = [held::metadata(&from)?, held::metadata(&to)?];
        for (name, found) in [from_name, to_name].into_iter().zip(found) {
            if !found.is_dir() && name.ends_with('/') {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        self.folder.check_not_root(&from)?;
        self.folder.check_not_root(&to)?;
        hold(&from)?.exchange_with(&hold(&to)?)?;
        self.made.extend([from, to]);
        Ok(())
    }

    fn rename(&mut self, from_name: &str, to_name: &str, replace: bool) -> io::Result<()> {
        let (from, to) = (self.own_name(from_name, false)?, self.own_name(to_name, false)?);
        match (ends_in_dots(from_name), ends_in_dots(to_name)) {
            (true, _) => return Err(io::ErrorKind::ResourceBusy.into()),
            (_, true) if replace => return Err(io::ErrorKind::ResourceBusy.into()),
            (_, true) => return Err(io::ErrorKind::AlreadyExists.into()),
            _ => {}
        }
        let moved = held::metadata(&from)?;
        let replaced = held::find(&to)?;
        if replaced.is_some() && !replace {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !moved.is_dir() && (from_name.ends_with('/') || to_name.ends_with('/')) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.folder.check_not_root(&from)?;
        self.folder.check_not_root(&to)?;
        hold(&from)?.rename_to(&hold(&to)?, replace)?;
        if let Some(replaced) = replaced
            && (replaced.dev(), replaced.ino()) != (moved.dev(), moved.ino())
        {
            self.folder.numbers().forget(&replaced);
        }
        self.made.extend([from, to]);
        Ok(())
    }
}
