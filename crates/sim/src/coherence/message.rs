//! Messages about one block between private caches, network interfaces, homes and memory controllers.

/// A participant that a home can name: a private cache (an L1, a pair of L1 and NI cache, an NI
/// cache at the edge) or a network interface unit that accesses memory without a cache.
///
/// Private caches have the numbers below [`MAX_CACHES`], as their copies are tracked in a bit mask.
pub type Party = u16;

/// Private caches of one chip.
pub const MAX_CACHES: usize = 128;

/// The right that a block is granted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grant {
    /// Others may have copies.
    Shared,
    /// Nobody else has a copy; the block is as in LLC or memory.
    Exclusive,
    /// Nobody else has a copy; the block may differ from LLC and memory.
    Modified,
}

/// The sender of the block of a [`Response::Data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The home, or the network interface's cache to the L1 in front of it.
    Home,
    /// An owner that has not changed it.
    CleanOwner,
    /// An owner that has changed it: if it is shared from now on, the LLC needs it too.
    DirtyOwner,
}

/// A change of a block that its home carries out for a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update<D> {
    /// Replaces the whole block: its old content is not needed.
    Replace(D),
    /// Changes a part, as the model's user of the block defines it: needs the old content, which
    /// the answer brings back.
    Modify(D),
}

/// To the home of the block (virtual network 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request<D> {
    /// A private cache wants a copy to read (the paper's GetRO).
    GetS,
    /// A private cache wants the only copy.
    GetX,
    /// The owner gives up a block that it may have changed.
    PutM(D),
    /// The owner gives up a block that it has not changed. Shared copies go silently.
    PutE,
    /// A network interface reads the block once and keeps no copy.
    ReadOnce,
    /// A network interface changes the block and keeps no copy.
    Update(Update<D>),
}

/// From the home to a private cache (virtual network 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forward {
    /// Drop the copy, then send [`Response::InvAck`] to `to`.
    Inv {
        /// Receiver of the acknowledgement: the requester, or the home itself if `None`.
        to: Option<Party>,
    },
    /// Owner: send the block to `to` and keep a shared copy.
    FwdGetS {
        /// The requester.
        to: Party,
    },
    /// Owner: send the block to `to` and drop it.
    FwdGetX {
        /// The requester.
        to: Party,
    },
    /// Owner: send the block to `to`, which will not keep it, and go on as before.
    FwdRead {
        /// The requester.
        to: Party,
    },
    /// Owner: send the block to the home ([`Response::Recalled`]) and drop it.
    Recall,
    /// The home has taken note of a PutM or PutE.
    PutAck,
}

/// Ends a wait (virtual network 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Response<D> {
    /// Home or owner to requester: the block.
    Data {
        /// The block.
        data: D,
        /// The right that comes with it: to read, or to write.
        grant: Grant,
        /// To be used after so many [`Response::InvAck`] (the paper's MissNotify).
        acks: u8,
        /// Sender of the block.
        source: Source,
    },
    /// A sharer to the requester or the home: the copy is gone.
    InvAck,
    /// Former owner to home: the block, which may differ from LLC and memory if `dirty`.
    Recalled {
        /// The block.
        data: D,
        /// Whether it was modified.
        dirty: bool,
    },
    /// Requester to home: the transaction is over. With the block if it came modified from its
    /// owner and is now shared, so that the LLC is up to date.
    Unblock(Option<D>),
    /// Home to network interface: the update is done; the old block if it was asked for.
    Updated(Option<D>),
}

impl<D> Response<D> {
    /// Whether a network interface that gets this for its [`Request::ReadOnce`] has to send
    /// [`Response::Unblock`]`(None)` to the home: the home waits for it only while an owner is asked.
    pub const fn read_needs_unblock(&self) -> bool {
        matches!(self, Response::Data { source: Source::CleanOwner | Source::DirtyOwner, .. })
    }
}

/// Any of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message<D> {
    /// Virtual network 0.
    Request(Request<D>),
    /// Virtual network 1.
    Forward(Forward),
    /// Virtual network 2.
    Response(Response<D>),
}

impl<D> Message<D> {
    /// Whether the message carries a block.
    pub const fn has_data(&self) -> bool {
        matches!(
            self,
            Message::Request(Request::PutM(_) | Request::Update(_))
                | Message::Response(
                    Response::Data { .. }
                        | Response::Recalled { .. }
                        | Response::Unblock(Some(_))
                        | Response::Updated(Some(_))
                )
        )
    }
}
