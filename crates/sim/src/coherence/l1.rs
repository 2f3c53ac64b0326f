//! A private cache's controller of one block: an L1, or the NI cache at the chip's edge (Manycore
//! NI §3.4), which acts like one.
//!
//! The controller deals in rights. Its user reads and writes [`Block::data`] upon [`Access::Hit`].

use arrayvec::ArrayVec;

use super::{Access, Content, Eviction, Forward, Grant, Message, Party, Request, Response, Source};

/// The right to a block, or what is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No copy.
    I,
    /// May read, as others may.
    S,
    /// The only copy, not modified. A store makes it [`State::M`] without a word.
    E,
    /// The only copy.
    M,
    /// No copy; GetS sent.
    IS,
    /// No copy; GetX sent.
    IM,
    /// A copy from before; GetX sent.
    SM,
    /// PutM sent; still answers for the block.
    MI,
    /// PutE sent; still answers for the block.
    EI,
    /// Put sent, but then the block had to be given away.
    II,
}

/// An action of the cache in answer to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<D> {
    /// Sends to the home of the block.
    ToHome(Message<D>),
    /// Sends to another private cache or a network interface.
    ToParty(Party, Response<D>),
    /// The transaction is over: accesses and evictions that had to wait may be tried again.
    Completed,
}

/// The actions of one step.
pub type Actions<D> = ArrayVec<Action<D>, 2>;

/// One block in a private cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block<D> {
    state: State,
    /// IM, SM: the block is here, acknowledgements are not.
    arrived: bool,
    /// IM, SM: acknowledgements that are missing. Negative if they came before the block.
    acks: i16,
    /// The block, while there is a copy.
    pub data: D,
}

impl<D: Content> Default for Block<D> {
    fn default() -> Self {
        Self { state: State::I, arrived: false, acks: 0, data: D::default() }
    }
}

impl<D: Content> Block<D> {
    /// A block that the cache does not have.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state of the block.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether nothing is under way.
    pub const fn is_stable(&self) -> bool {
        matches!(self.state, State::I | State::S | State::E | State::M)
    }

    /// Whether there is no copy and nothing under way, so that there is nothing to remember.
    pub const fn is_invalid(&self) -> bool {
        matches!(self.state, State::I)
    }

    /// Whether it can be read without asking anybody.
    #[inline]
    pub const fn is_readable(&self) -> bool {
        matches!(self.state, State::S | State::E | State::M)
    }

    /// Whether others ask this cache for the block.
    pub const fn is_owner(&self) -> bool {
        matches!(self.state, State::E | State::M | State::MI | State::EI)
    }

    /// Somebody writes the block to memory: a modified copy is not modified any more. Whether it was.
    pub const fn clean(&mut self) -> bool {
        let was_modified = matches!(self.state, State::M);
        if was_modified {
            self.state = State::E;
        }
        was_modified
    }

    /// The core wants to read.
    pub fn load(&mut self, out: &mut Actions<D>) -> Access {
        match self.state {
            State::S | State::E | State::M => Access::Hit,
            State::I => self.ask(State::IS, Request::GetS, out),
            _ => Access::Wait,
        }
    }

    /// The core wants to write.
    pub fn store(&mut self, out: &mut Actions<D>) -> Access {
        match self.state {
            State::E | State::M => {
                self.state = State::M;
                Access::Hit
            }
            State::S => self.ask(State::SM, Request::GetX, out),
            State::I => self.ask(State::IM, Request::GetX, out),
            _ => Access::Wait,
        }
    }

    /// The cache wants the room.
    pub fn evict(&mut self, out: &mut Actions<D>) -> Eviction {
        let (state, request) = match self.state {
            State::I => return Eviction::Gone,
            State::S => {
                *self = Self::new();
                return Eviction::Gone;
            }
            State::E => (State::EI, Request::PutE),
            State::M => (State::MI, Request::PutM(self.data)),
            _ => return Eviction::Wait,
        };
        self.ask(state, request, out);
        Eviction::Leaving
    }

    /// A forward or response has arrived.
    pub fn message(&mut self, message: Message<D>, out: &mut Actions<D>) {
        match message {
            Message::Forward(Forward::Inv { to }) => {
                self.invalidate();
                out.push(answer(to, Response::InvAck));
            }
            Message::Forward(Forward::PutAck) => self.put_ack(out),
            Message::Forward(forward) => self.give(forward, out),
            Message::Response(Response::Data { data, grant, acks, source }) => {
                self.receive(data, grant, i16::from(acks));
                self.try_complete(grant, source, out);
            }
            Message::Response(Response::InvAck) => {
                self.receive_ack();
                // With the block gone before, the last acknowledgement ends the wait.
                self.try_complete(Grant::Exclusive, Source::Home, out);
            }
            _ => self.illegal(message),
        }
    }

    /// Drops a shared copy, if there is one.
    pub(super) fn invalidate(&mut self) {
        match self.state {
            State::S => *self = Self::new(),
            // The home has not come to our request yet, so nothing of the answer can be here.
            State::SM if !self.arrived && self.acks == 0 => {
                *self = Self { state: State::IM, ..Self::new() };
            }
            State::IM if !self.arrived && self.acks == 0 => {}
            State::I | State::IS | State::II => {}
            _ => self.illegal("an invalidation"),
        }
    }

    /// Becomes the owner by means that the home knows nothing of.
    pub(super) fn put(&mut self, data: D, dirty: bool) {
        assert!(self.is_invalid(), "a block from inside the pair in {self:?}");
        let state = if dirty { State::M } else { State::E };
        *self = Self { state, data, ..Self::new() };
    }

    /// Ceases to be the owner by means that the home knows nothing of.
    pub(super) fn take(&mut self) -> (D, bool) {
        assert!(matches!(self.state, State::E | State::M), "no block to take in {self:?}");
        let taken = (self.data, self.state == State::M);
        *self = Self::new();
        taken
    }

    fn ask(&mut self, state: State, request: Request<D>, out: &mut Actions<D>) -> Access {
        self.state = state;
        out.push(Action::ToHome(Message::Request(request)));
        Access::Miss
    }

    fn put_ack(&mut self, out: &mut Actions<D>) {
        match self.state {
            State::MI | State::EI | State::II => *self = Self::new(),
            _ => self.illegal("PutAck"),
        }
        out.push(Action::Completed);
    }

    /// The home asks the owner for the block.
    fn give(&mut self, forward: Forward, out: &mut Actions<D>) {
        if !self.is_owner() {
            self.illegal(forward);
        }
        let data = self.data;
        let dirty = matches!(self.state, State::M | State::MI);
        let source = if dirty { Source::DirtyOwner } else { Source::CleanOwner };
        let shared = Response::Data { data, grant: Grant::Shared, acks: 0, source };
        let leaving = !self.is_stable();
        match forward {
            Forward::FwdRead { to } => out.push(Action::ToParty(to, shared)),
            Forward::FwdGetS { to } => {
                out.push(Action::ToParty(to, shared));
                match leaving {
                    true => *self = Self { state: State::II, ..Self::new() },
                    false => self.state = State::S,
                }
            }
            Forward::FwdGetX { .. } | Forward::Recall => {
                let grant = if dirty { Grant::Modified } else { Grant::Exclusive };
                out.push(match forward {
                    Forward::FwdGetX { to } => {
                        Action::ToParty(to, Response::Data { data, grant, acks: 0, source })
                    }
                    _ => answer(None, Response::Recalled { data, dirty }),
                });
                let state = if leaving { State::II } else { State::I };
                *self = Self { state, ..Self::new() };
            }
            Forward::Inv { .. } | Forward::PutAck => unreachable!("not for owners"),
        }
    }

    fn receive(&mut self, data: D, grant: Grant, acks: i16) {
        match (self.state, grant) {
            (State::IS, Grant::Shared | Grant::Exclusive) if acks == 0 => {}
            (State::IM | State::SM, Grant::Exclusive | Grant::Modified) if !self.arrived => {}
            _ => self.illegal((grant, acks)),
        }
        self.data = data;
        self.arrived = true;
        self.acks += acks;
    }

    fn receive_ack(&mut self) {
        match self.state {
            State::IM | State::SM => self.acks -= 1,
            _ => self.illegal("InvAck"),
        }
    }

    /// Resumes when block and acknowledgements are here, and tells the home.
    fn try_complete(&mut self, grant: Grant, source: Source, out: &mut Actions<D>) {
        if !self.arrived || self.acks > 0 {
            return;
        }
        if self.acks < 0 {
            self.illegal("more acknowledgements than announced");
        }
        let state = match (self.state, grant) {
            (State::IS, Grant::Shared) => State::S,
            (State::IS, _) => State::E,
            _ => State::M,
        };
        *self = Self { state, data: self.data, ..Self::new() };
        let changed = grant == Grant::Shared && source == Source::DirtyOwner;
        out.push(answer(None, Response::Unblock(changed.then_some(self.data))));
        out.push(Action::Completed);
    }

    #[cold]
    #[track_caller]
    fn illegal(&self, event: impl std::fmt::Debug) -> ! {
        panic!("a private cache cannot take {event:?} in {self:?}")
    }
}

/// A response to a party, or to the home if that waits.
fn answer<D>(to: Option<Party>, response: Response<D>) -> Action<D> {
    match to {
        Some(party) => Action::ToParty(party, response),
        None => Action::ToHome(Message::Response(response)),
    }
}
