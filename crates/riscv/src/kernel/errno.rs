//! Error numbers of Linux.

use std::io;

use crate::space::Fault;

/// An error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub u16);

#[allow(missing_docs)] // The names are those of `errno.h`.
impl Errno {
    pub const PERM: Errno = Errno(1);
    pub const NOENT: Errno = Errno(2);
    pub const SRCH: Errno = Errno(3);
    pub const INTR: Errno = Errno(4);
    pub const IO: Errno = Errno(5);
    pub const NXIO: Errno = Errno(6);
    pub const BADF: Errno = Errno(9);
    pub const CHILD: Errno = Errno(10);
    pub const AGAIN: Errno = Errno(11);
    pub const NOMEM: Errno = Errno(12);
    pub const ACCES: Errno = Errno(13);
    pub const FAULT: Errno = Errno(14);
    pub const BUSY: Errno = Errno(16);
    pub const EXIST: Errno = Errno(17);
    pub const XDEV: Errno = Errno(18);
    pub const NODEV: Errno = Errno(19);
    pub const NOTDIR: Errno = Errno(20);
    pub const ISDIR: Errno = Errno(21);
    pub const INVAL: Errno = Errno(22);
    pub const NFILE: Errno = Errno(23);
    pub const MFILE: Errno = Errno(24);
    pub const NOTTY: Errno = Errno(25);
    pub const FBIG: Errno = Errno(27);
    pub const NOSPC: Errno = Errno(28);
    pub const SPIPE: Errno = Errno(29);
    pub const ROFS: Errno = Errno(30);
    pub const PIPE: Errno = Errno(32);
    pub const RANGE: Errno = Errno(34);
    pub const NAMETOOLONG: Errno = Errno(36);
    pub const NOSYS: Errno = Errno(38);
    pub const NOTEMPTY: Errno = Errno(39);
    pub const LOOP: Errno = Errno(40);
    pub const NOTSOCK: Errno = Errno(88);
    pub const MSGSIZE: Errno = Errno(90);
    pub const NOPROTOOPT: Errno = Errno(92);
    pub const PROTONOSUPPORT: Errno = Errno(93);
    pub const SOCKTNOSUPPORT: Errno = Errno(94);
    pub const OPNOTSUPP: Errno = Errno(95);
    pub const AFNOSUPPORT: Errno = Errno(97);
    pub const ADDRINUSE: Errno = Errno(98);
    pub const ADDRNOTAVAIL: Errno = Errno(99);
    pub const NETUNREACH: Errno = Errno(101);
    pub const CONNABORTED: Errno = Errno(103);
    pub const CONNRESET: Errno = Errno(104);
    pub const ISCONN: Errno = Errno(106);
    pub const NOTCONN: Errno = Errno(107);
    pub const TIMEDOUT: Errno = Errno(110);
    pub const CONNREFUSED: Errno = Errno(111);
    pub const ALREADY: Errno = Errno(114);
    pub const INPROGRESS: Errno = Errno(115);

    /// Return value of a system call with this error: the negated number.
    pub const fn result(self) -> u64 {
        (self.0 as u64).wrapping_neg()
    }
}

impl From<Fault> for Errno {
    fn from(_: Fault) -> Errno {
        Errno::FAULT
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.0.into())
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        // The numbers of the host are those of RISC-V.
        if let Some(number) = error.raw_os_error() {
            return Errno(u16::try_from(number).unwrap_or(Errno::IO.0));
        }
        match error.kind() {
            io::ErrorKind::NotFound => Errno::NOENT,
            io::ErrorKind::PermissionDenied => Errno::ACCES,
            io::ErrorKind::AlreadyExists => Errno::EXIST,
            io::ErrorKind::IsADirectory => Errno::ISDIR,
            io::ErrorKind::NotADirectory => Errno::NOTDIR,
            io::ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
            io::ErrorKind::InvalidInput => Errno::INVAL,
            io::ErrorKind::ResourceBusy => Errno::BUSY,
            io::ErrorKind::BrokenPipe => Errno::PIPE,
            _ => Errno::IO,
        }
    }
}
