//! The home's controller of one block: its directory entry and the transaction under way (Manycore
//! NI §3.1, Fig. 2).
//!
//! The LLC belongs to the controller's user: each step gets the LLC's copy of the block, and says what to
//! write there. It need not hold every block that private caches hold (non-inclusive). A modified block
//! that it evicts goes to memory, ahead of any later [`Action::ReadMemory`] of the block.

use arrayvec::ArrayVec;

use super::{
    Content, Forward, Grant, MAX_CACHES, Message, Party, Request, Response, Source, Update,
};

/// The copies of the block, as far as the home knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Directory {
    /// Nobody: LLC or memory hold the block.
    Uncached,
    /// At most these caches, one bit each; LLC or memory hold the block too.
    Shared(u128),
    /// This cache, which may have modified the block.
    Owned(Party),
}

/// An action of the home in answer to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<D> {
    /// Sends to a private cache or network interface.
    Send(Party, Message<D>),
    /// Sends [`Forward::Inv`] to each of these caches.
    Invalidate {
        /// One bit each.
        sharers: u128,
        /// Receiver of their acknowledgements: the home if `None`.
        to: Option<Party>,
    },
    /// Reads the block from memory, to be brought by [`Block::memory`].
    ReadMemory,
    /// Writes the block to the LLC, be it there or not.
    WriteLlc {
        /// The block.
        data: D,
        /// Whether it may differ from memory; otherwise it equals memory.
        dirty: bool,
    },
    /// The request is done, at once or after a while: the next one may be given to the block.
    Finished,
}

/// The actions of one step.
pub type Actions<D> = ArrayVec<Action<D>, 3>;

/// The transaction under way: until it ends, the block takes no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Transaction<D> {
    /// Memory reads the block, which is then sent so.
    Memory { to: Party, grant: Grant, acks: u8, once: bool },
    /// Memory reads the block for the LLC alone.
    Prefetch,
    /// The requester will say when it has everything. It brings the block if a modified one is
    /// shared from now on.
    Unblock { from: Party, to_share: bool },
    /// All copies come back, then the update (if any) is made.
    Collect { update: Option<(Party, Update<D>)>, old: Option<D>, dirty: bool },
}

/// One block at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block<D> {
    directory: Directory,
    transaction: Option<Transaction<D>>,
}

impl<D: Content> Default for Block<D> {
    fn default() -> Self {
        Self { directory: Directory::Uncached, transaction: None }
    }
}

impl<D: Content> Block<D> {
    /// A block that no private cache has.
    pub fn new() -> Self {
        Self::default()
    }

    /// A block of which the directory says this.
    pub const fn with(directory: Directory) -> Self {
        Self { directory, transaction: None }
    }

    /// The directory entry. During a transaction it may already be what it will be.
    pub const fn directory(&self) -> Directory {
        self.directory
    }

    /// Whether a transaction is under way, so that requests have to wait.
    pub const fn is_busy(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether the block is being fetched into the LLC alone.
    pub const fn is_prefetching(&self) -> bool {
        matches!(self.transaction, Some(Transaction::Prefetch))
    }

    /// Whether memory has been asked for the block.
    pub const fn is_fetching(&self) -> bool {
        matches!(self.transaction, Some(Transaction::Prefetch | Transaction::Memory { .. }))
    }

    /// Whether a copy is on its way between caches, or to the home, that may be modified.
    pub const fn is_moving(&self) -> bool {
        matches!(self.transaction, Some(Transaction::Collect { .. } | Transaction::Unblock { .. }))
    }

    /// Whether there is nothing to remember.
    pub const fn is_idle(&self) -> bool {
        !self.is_busy() && matches!(self.directory, Directory::Uncached)
    }

    /// The block has changed by means that the protocol knows nothing of.
    pub fn refresh(&mut self, data: D) {
        if let Some(Transaction::Collect { old: Some(old), .. }) = &mut self.transaction {
            *old = data;
        }
    }

    /// Begins with a request; `llc` is the block if the LLC has it.
    pub fn request(
        &mut self,
        from: Party,
        request: Request<D>,
        llc: Option<D>,
        out: &mut Actions<D>,
    ) {
        if self.is_busy() {
            self.illegal(from, request);
        }
        match request {
            Request::GetS => self.get_s(from, llc, out),
            Request::GetX => self.get_x(from, llc, out),
            Request::PutM(data) => self.put(from, Some(data), out),
            Request::PutE => self.put(from, None, out),
            Request::ReadOnce => self.read_once(from, llc, out),
            Request::Update(update) => self.collect(Some((from, update)), llc, out),
        }
    }

    /// Begins to take back all copies, as the directory wants the room of the entry. At the end
    /// the block is idle.
    pub fn recall(&mut self, out: &mut Actions<D>) {
        if self.is_busy() {
            self.illegal(0, "a recall");
        }
        self.collect(None, None, out);
    }

    /// Begins to fetch an idle block into the LLC, which does not have it.
    pub fn prefetch(&mut self, out: &mut Actions<D>) {
        if !self.is_idle() {
            self.illegal(0, "a prefetch");
        }
        self.transaction = Some(Transaction::Prefetch);
        out.push(Action::ReadMemory);
    }

    /// A response has arrived.
    pub fn response(&mut self, from: Party, response: Response<D>, out: &mut Actions<D>) {
        match (response, &mut self.transaction, &mut self.directory) {
            (
                Response::Unblock(data),
                &mut Some(Transaction::Unblock { from: who, to_share }),
                _,
            ) if who == from && (to_share || data.is_none()) => {
                self.transaction = None;
                out.extend(data.map(|data| Action::WriteLlc { data, dirty: true }));
                out.push(Action::Finished);
            }
            (Response::InvAck, Some(Transaction::Collect { .. }), Directory::Shared(sharers))
                if *sharers & bit(from) != 0 =>
            {
                *sharers &= !bit(from);
                if *sharers == 0 {
                    self.directory = Directory::Uncached;
                }
                self.try_finish(out);
            }
            (
                Response::Recalled { data, dirty: changed },
                Some(Transaction::Collect { old, dirty, .. }),
                &mut Directory::Owned(owner),
            ) if owner == from => {
                (*old, *dirty) = (Some(data), changed);
                self.directory = Directory::Uncached;
                self.try_finish(out);
            }
            _ => self.illegal(from, response),
        }
    }

    /// Memory brings the block.
    pub fn memory(&mut self, data: D, out: &mut Actions<D>) {
        match &mut self.transaction {
            &mut Some(Transaction::Memory { to, grant, acks, once }) => {
                out.push(Action::WriteLlc { data, dirty: false });
                self.transaction = None;
                self.send_data(to, data, grant, acks, once, out);
            }
            Some(Transaction::Prefetch) => {
                out.push(Action::WriteLlc { data, dirty: false });
                out.push(Action::Finished);
                self.transaction = None;
            }
            Some(Transaction::Collect { old: old @ None, .. }) => {
                *old = Some(data);
                self.try_finish(out);
            }
            _ => self.illegal(0, "a block from memory"),
        }
    }

    fn get_s(&mut self, from: Party, llc: Option<D>, out: &mut Actions<D>) {
        match self.directory {
            Directory::Uncached => {
                self.directory = Directory::Owned(from);
                self.supply(from, llc, Grant::Exclusive, 0, out);
            }
            Directory::Shared(sharers) => {
                self.directory = Directory::Shared(sharers | bit(from));
                self.supply(from, llc, Grant::Shared, 0, out);
            }
            Directory::Owned(owner) if owner != from => {
                self.directory = Directory::Shared(bit(owner) | bit(from));
                self.forward(owner, Forward::FwdGetS { to: from }, from, out);
            }
            Directory::Owned(_) => self.illegal(from, "GetS"),
        }
    }

    fn get_x(&mut self, from: Party, llc: Option<D>, out: &mut Actions<D>) {
        let before = std::mem::replace(&mut self.directory, Directory::Owned(from));
        match before {
            Directory::Uncached => self.supply(from, llc, Grant::Exclusive, 0, out),
            Directory::Shared(sharers) => {
                let sharers = sharers & !bit(from);
                if sharers != 0 {
                    out.push(Action::Invalidate { sharers, to: Some(from) });
                }
                self.supply(from, llc, Grant::Exclusive, sharers.count_ones() as u8, out);
            }
            Directory::Owned(owner) if owner != from => {
                self.forward(owner, Forward::FwdGetX { to: from }, from, out);
            }
            Directory::Owned(_) => self.illegal(from, "GetX"),
        }
    }

    fn put(&mut self, from: Party, data: Option<D>, out: &mut Actions<D>) {
        // Otherwise it was asked for the block while the Put was on its way: too late.
        if self.directory == Directory::Owned(from) {
            self.directory = Directory::Uncached;
            out.extend(data.map(|data| Action::WriteLlc { data, dirty: true }));
        }
        out.push(Action::Send(from, Message::Forward(Forward::PutAck)));
        out.push(Action::Finished);
    }

    fn read_once(&mut self, from: Party, llc: Option<D>, out: &mut Actions<D>) {
        match (self.directory, llc) {
            (Directory::Owned(owner), _) => {
                self.forward(owner, Forward::FwdRead { to: from }, from, out);
            }
            (_, Some(data)) => self.send_data(from, data, Grant::Shared, 0, true, out),
            (_, None) => self.fetch(from, Grant::Shared, 0, true, out),
        }
    }

    /// Asks the owner, and waits for the requester.
    fn forward(&mut self, owner: Party, forward: Forward, from: Party, out: &mut Actions<D>) {
        let to_share = matches!(forward, Forward::FwdGetS { .. });
        out.push(Action::Send(owner, Message::Forward(forward)));
        self.transaction = Some(Transaction::Unblock { from, to_share });
    }

    /// Sends the block to a cache from the LLC or from memory.
    fn supply(&mut self, to: Party, llc: Option<D>, grant: Grant, acks: u8, out: &mut Actions<D>) {
        match llc {
            Some(data) => self.send_data(to, data, grant, acks, false, out),
            None => self.fetch(to, grant, acks, false, out),
        }
    }

    fn fetch(&mut self, to: Party, grant: Grant, acks: u8, once: bool, out: &mut Actions<D>) {
        out.push(Action::ReadMemory);
        self.transaction = Some(Transaction::Memory { to, grant, acks, once });
    }

    fn send_data(
        &mut self,
        to: Party,
        data: D,
        grant: Grant,
        acks: u8,
        once: bool,
        out: &mut Actions<D>,
    ) {
        let data = Response::Data { data, grant, acks, source: Source::Home };
        out.push(Action::Send(to, Message::Response(data)));
        if once {
            // No copy is kept, so there is no need to know when it arrives.
            out.push(Action::Finished);
        } else {
            self.transaction = Some(Transaction::Unblock { from: to, to_share: false });
        }
    }

    /// Begins to take back all copies.
    fn collect(
        &mut self,
        update: Option<(Party, Update<D>)>,
        llc: Option<D>,
        out: &mut Actions<D>,
    ) {
        let mut old = llc;
        match self.directory {
            Directory::Uncached => {}
            Directory::Shared(sharers) => out.push(Action::Invalidate { sharers, to: None }),
            Directory::Owned(owner) => {
                // The LLC may be behind; the owner brings the block.
                old = None;
                out.push(Action::Send(owner, Message::Forward(Forward::Recall)));
            }
        }
        let owned = matches!(self.directory, Directory::Owned(_));
        if matches!(update, Some((_, Update::Modify(_)))) && old.is_none() && !owned {
            out.push(Action::ReadMemory);
        }
        self.transaction = Some(Transaction::Collect { update, old, dirty: false });
        self.try_finish(out);
    }

    /// Makes the update when no copy is left and the old content, if needed, is here.
    fn try_finish(&mut self, out: &mut Actions<D>) {
        let Some(Transaction::Collect { update, old, dirty }) = self.transaction else { return };
        if self.directory != Directory::Uncached {
            return;
        }
        match (update, old) {
            (None, Some(data)) if dirty => out.push(Action::WriteLlc { data, dirty }),
            (None, _) => {}
            (Some((from, Update::Replace(data))), _) => updated(from, data, None, out),
            (Some((from, Update::Modify(change))), Some(old)) => {
                updated(from, old.modified(change), Some(old), out);
            }
            (Some((_, Update::Modify(_))), None) => return,
        }
        self.transaction = None;
        out.push(Action::Finished);
    }

    #[cold]
    #[track_caller]
    fn illegal(&self, from: Party, event: impl std::fmt::Debug) -> ! {
        panic!("a home cannot take {event:?} from {from} in {self:?}")
    }
}

fn updated<D>(to: Party, data: D, old: Option<D>, out: &mut Actions<D>) {
    out.push(Action::WriteLlc { data, dirty: true });
    out.push(Action::Send(to, Message::Response(Response::Updated(old))));
}

/// A cache's bit in a mask of sharers.
fn bit(cache: Party) -> u128 {
    assert!(usize::from(cache) < MAX_CACHES, "party {cache} is not a private cache");
    1 << cache
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    struct Byte(u8);

    impl Content for Byte {
        fn modified(self, change: Self) -> Self {
            change
        }
    }

    #[test]
    fn a_prefetch_fills_the_llc_and_leaves_nothing_else() {
        let (mut block, mut out) = (Block::<Byte>::new(), Actions::new());
        block.prefetch(&mut out);
        assert_eq!(out[..], [Action::ReadMemory]);
        assert!(block.is_busy() && block.is_fetching() && block.is_prefetching());
        out.clear();
        block.memory(Byte(7), &mut out);
        assert_eq!(out[..], [Action::WriteLlc { data: Byte(7), dirty: false }, Action::Finished]);
        assert!(block.is_idle() && !block.is_fetching());
    }

    #[test]
    #[should_panic(expected = "a prefetch")]
    fn a_block_that_somebody_has_is_not_prefetched() {
        Block::<Byte>::with(Directory::Owned(1)).prefetch(&mut Actions::new());
    }
}
