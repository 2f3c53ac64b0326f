//! The services of a kernel's driver: time, streams, files, and the user's memory.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use crate::space::{Fault, Permissions};

/// Services that the kernel needs from its driver: time, streams, files, harts.
///
/// Names of files are absolute, and not normalised. The kernel answers for what is below `/proc`, `/sys` and `/dev`
/// itself. A host without files needs none of the functions that have a default.
pub trait Host {
    /// Nanoseconds since the program began; never goes back.
    fn now_ns(&mut self) -> u64;

    /// Takes what the program writes to its standard output or standard error. With `BrokenPipe` nobody reads it any
    /// more: the program gets `SIGPIPE`.
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()>;

    /// Fills `buffer` from standard input; returns the number of bytes read, 0 at the end.
    fn input(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Number of harts that the program may use.
    fn harts(&self) -> usize;

    /// Bytes of memory that the machine has.
    fn memory_bytes(&self) -> u64 {
        16 << 30
    }

    /// Waits until the programs that share files with this one and come before it are as far as it is. The kernel
    /// calls it before it reads or writes a file that is open; the functions below do so themselves.
    fn await_earlier(&mut self) {}

    /// Reports a warning to the user who runs the program.
    fn warn(&mut self, message: &str);

    /// Opens a file or a folder. The host resolves names and decides which files may be read and written.
    fn open(&mut self, _path: &str, _mode: OpenMode) -> io::Result<Opened> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Looks at a file; `follow` says whether at the one that a link leads to.
    fn status(&mut self, _path: &str, _follow: bool) -> io::Result<Status> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// The text of a link.
    fn read_link(&mut self, _path: &str) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// The name without links of a folder that becomes the current one.
    fn enter(&mut self, _path: &str) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Opens an open file again, which was opened by this name and perhaps has none any more.
    fn reopen(&mut self, _name: &str, _file: &File, _mode: OpenMode) -> io::Result<File> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// A name of an open file, absolute; ` (deleted)` follows the last one that it had.
    fn name_of(&mut self, _file: &File) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Opens a file, or a link unless `follow` says that it is followed, without its content.
    fn open_path(&mut self, _path: &str, _follow: bool) -> io::Result<(File, Status)> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// The text of an open link.
    fn read_open_link(&mut self, _link: &File) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Gives an open file, which was opened by this name, another one.
    fn link_open(&mut self, _name: &str, _file: &File, _to: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Gives an open file other permissions, which was opened by this name.
    fn permit(&mut self, _name: &str, _file: &File, _permissions: u32) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Changes names of files, and permissions.
    fn change(&mut self, _change: &Change<'_>) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// A standard stream that a program writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Flags of [`Host::open`], from those of `openat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // As in `std::fs::OpenOptions`.
pub struct OpenMode {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub truncate: bool,
    pub create: bool,
    pub create_new: bool,
    /// Bits that a file gets which is made.
    pub permissions: u32,
    /// The file was open before, so that its permissions do not matter.
    pub is_again: bool,
    /// The path is that of a folder, in whose file system a file without a name is made.
    pub is_nameless: bool,
}

/// A file that has been opened.
#[derive(Debug)]
pub enum Opened {
    /// A file of the host, and its status when it was opened.
    File(File, Status),
    /// A folder: its status, and what is in it, in the order of names.
    Folder(Status, Vec<Entry>),
    /// A pipe that the program has made by [`Change::MakePipe`], and its status. The host has only its name.
    Pipe(Status),
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name without the folder's.
    pub name: String,
    /// Kind of file.
    pub kind: Kind,
    /// As [`Status::inode`].
    pub inode: u64,
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A sequence of bytes.
    File,
    /// Names of other files.
    Folder,
    /// A symbolic link.
    Link,
    /// A terminal or device.
    Device,
    /// A pipe, with a name or without.
    Pipe,
    /// A socket, with a name or without.
    Socket,
}

/// What programs learn of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Kind of file.
    pub kind: Kind,
    /// Length in bytes.
    pub size: u64,
    /// Tells files apart. It depends on the order in which a program has seen them, and not on the host.
    pub inode: u64,
    /// The lower bits of `st_mode`.
    pub permissions: u32,
    /// Number of names.
    pub links: u64,
}

impl Status {
    /// Of a file of the kernel's own, with usual permissions.
    pub(super) const fn new(kind: Kind, inode: u64) -> Status {
        let (permissions, links) = match kind {
            Kind::File => (0o644, 1),
            Kind::Folder => (0o755, 2),
            Kind::Link => (0o777, 1),
            Kind::Device => (0o620, 1),
            Kind::Pipe => (0o600, 1),
            Kind::Socket => (0o777, 1),
        };
        Status { kind, size: 0, inode, permissions, links }
    }
}

/// A change of names or permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A new folder.
    MakeFolder(&'a str),
    /// A new file without bytes.
    MakeFile(&'a str),
    /// A new pipe with a name.
    MakePipe(&'a str),
    /// A new socket with a name.
    MakeSocket(&'a str),
    /// A file gets other permissions.
    Permit {
        /// One of its names, absolute.
        name: &'a str,
        /// Bits as of `chmod`.
        permissions: u32,
        /// Whether a symbolic link stands for the file that it leads to.
        follow: bool,
    },
    /// A file is removed.
    Remove(&'a str),
    /// An empty folder is removed.
    RemoveFolder(&'a str),
    /// A file gets a second name.
    Link {
        /// A name that it has.
        from: &'a str,
        /// The name that it gets.
        to: &'a str,
        /// Whether a symbolic link stands for the file that it leads to.
        follow: bool,
    },
    /// A new symbolic link.
    SymbolicLink {
        /// Where it leads.
        text: &'a str,
        /// The name that the link gets.
        name: &'a str,
    },
    /// A file or folder gets another name.
    Rename {
        /// The name that it has.
        from: &'a str,
        /// The name that it gets.
        to: &'a str,
        /// Whether a file of that name may be there, which is removed.
        replace: bool,
    },
    /// Two files or folders get each other's names.
    Exchange {
        /// The name of one.
        from: &'a str,
        /// The name of the other one.
        to: &'a str,
    },
}

/// User memory as the kernel needs it.
pub trait UserMemory {
    /// Copies user memory to `bytes`.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Fault>;

    /// Copies `bytes` to user memory: all of them, or none.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// Maps zeroed pages over whatever was there; `false` if there is not enough memory, and then nothing is mapped
    /// there.
    #[must_use]
    fn map(&mut self, address: u64, length: u64, permissions: Permissions) -> bool;

    /// Unmaps all pages of a range.
    fn unmap(&mut self, address: u64, length: u64);

    /// Changes permissions; `false` if not all of it is mapped.
    fn protect(&mut self, address: u64, length: u64, permissions: Permissions) -> bool;

    /// The permissions of the page at `address`, `None` if it is not mapped.
    fn permissions(&self, address: u64) -> Option<Permissions>;

    /// Makes mapped pages read as zeros.
    fn discard(&mut self, address: u64, length: u64);

    /// Whether [`UserMemory::map`] has failed in this call, and may not later. [`super::Kernel::call`] then ends with
    /// [`super::Effect::Sleep`] and delivers nothing: the call is to be made again, from the state before it.
    fn is_deferred(&self) -> bool {
        false
    }

    /// Has [`UserMemory::is_deferred`] be `false` again: this call is not to be made again.
    fn forget_deferred(&mut self) {}
}
