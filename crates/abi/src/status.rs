/// Outcome of an operation, as carried by reply packets and completion queue entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// Offset plus length exceeds the destination's segment.
    OutOfSegment = 1,
    /// The destination has not joined the context, or its process has left it in order.
    NoContext = 2,
    /// The context was opened without the right that the operation needs.
    NoPermission = 3,
    /// No node has this number.
    NoNode = 4,
    /// The destination, or its process, died. Every way of progress distinguishes this from [`Status::NoContext`].
    NodeLost = 5,
    /// The local buffer is not memory that the controller may use.
    BadLocalBuffer = 6,
    /// An atomic whose offset is not a multiple of 8 or whose length is not 8.
    MisalignedAtomic = 7,
    /// The work queue entry names no operation.
    BadOperation = 8,
}

impl Status {
    /// Every status, in the order of its code.
    pub const ALL: [Status; 9] = [
        Status::Ok,
        Status::OutOfSegment,
        Status::NoContext,
        Status::NoPermission,
        Status::NoNode,
        Status::NodeLost,
        Status::BadLocalBuffer,
        Status::MisalignedAtomic,
        Status::BadOperation,
    ];

    /// The status with this code.
    pub const fn from_code(code: u8) -> Option<Status> {
        if (code as usize) < Self::ALL.len() { Some(Self::ALL[code as usize]) } else { None }
    }

    /// The value that C functions return: 0 or a negative `errno` of Linux.
    pub const fn errno(self) -> i32 {
        match self {
            Status::Ok => 0,
            Status::OutOfSegment => -34,     // ERANGE
            Status::NoContext => -2,         // ENOENT
            Status::NoPermission => -13,     // EACCES
            Status::NoNode => -6,            // ENXIO
            Status::NodeLost => -112,        // EHOSTDOWN
            Status::BadLocalBuffer => -14,   // EFAULT
            Status::MisalignedAtomic => -22, // EINVAL
            Status::BadOperation => -95,     // EOPNOTSUPP
        }
    }

    /// A short explanation for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::OutOfSegment => "offset plus length is outside the remote segment",
            Status::NoContext => "the remote node has not joined the context",
            Status::NoPermission => "the context was opened without this right",
            Status::NoNode => "no such node in the rack",
            Status::NodeLost => "the remote node or its process is gone",
            Status::BadLocalBuffer => "the local buffer is not usable memory",
            Status::MisalignedAtomic => "an atomic needs 8 bytes at a multiple of 8",
            Status::BadOperation => "no such operation",
        }
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.describe())
    }
}

impl core::error::Error for Status {}
