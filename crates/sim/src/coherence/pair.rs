//! The NI cache at the back side of an unmodified L1 (Manycore NI §3.4): its controller of one
//! block.
//!
//! All that the L1 says passes through here, and all that the network says to the two, which are
//! one party for the home. Inside, the block moves without the home's knowledge:
//!
//! | | NI cache has it | L1 owns it | else |
//! |---|---|---|---|
//! | core reads | gets a clean copy; E, M -> O | | asks the home |
//! | core writes | E, M, O: gets the block; S: drops it, asks the home | | asks the home |
//! | NI reads | hit | takes it and is O; the L1 keeps a clean copy | asks the home |
//! | NI writes | E, M: hit; O: invalidates the L1 first | takes it away | invalidates the L1, asks the home |
//!
//! The *owned* state O of the paper is E or M of the cache's own controller, an [`l1::Block`], with
//! the note that the block is *lent*: the L1 may have a copy that must be invalidated before the
//! block is written or leaves the pair. The home sees E and M only.
//!
//! The controller knows the owner of the block from the messages that have passed. That is true as of the
//! last message sent to the L1, so a message of the L1 may be older. The wires keep the order; hence an
//! answer to a question that was sent down comes after everything the L1 sent before, and a Put from an L1
//! that has been asked for the block since is out of date and acknowledged here.
//!
//! The pair has one transaction with the home per block. While it is the NI cache's, or the L1 has
//! been asked something here, a request of the L1 waits in the controller, and a forward too in the
//! latter case (room for one of each per block is enough). The wires are always taken from: a request
//! of the L1 that the network has no room for must not keep back the answers behind it.
//! [`Block::resume`] takes them up; call it after every other call and after the
//! accesses that [`Action::Completed`] allows, until it says that there is nothing to do.

use arrayvec::ArrayVec;

use super::{
    Access, Content, Eviction, Forward, Grant, Message, Party, Request, Response, Source, l1,
};

/// The number of the pair, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Number of the pair.
    pub party: Party,
    /// Whether there is an owned state. Otherwise the NI cache writes a modified block back to the
    /// home before the L1 gets a copy (plain MESI), and takes the L1's block away to read it.
    pub owned: bool,
}

/// An action of the controller in answer to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<D> {
    /// Sends to the home of the block.
    ToHome(Message<D>),
    /// Sends to another private cache or a network interface.
    ToParty(Party, Response<D>),
    /// Sends to the L1 in front, for [`l1::Block::message`].
    ToL1(Message<D>),
    /// Accesses and evictions of the NI cache that had to wait may be tried again.
    Completed,
}

/// The actions of one step.
pub type Actions<D> = ArrayVec<Action<D>, 2>;

/// The NI cache's right to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// As a private cache's.
    Plain(l1::State),
    /// Answers for the block, while the L1 may have a clean copy.
    Owned {
        /// Whether the block is modified.
        dirty: bool,
    },
}

/// The request that the L1 has to answer, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// The block, for the NI cache.
    Give,
    /// To drop its copy, as the NI wants to write.
    DropToStore,
    /// To drop its copy, as the NI cache wants the room.
    DropToEvict,
    /// To drop its copy, as another wants the block.
    DropToForward(Forward),
}

/// The L1's transaction with the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outside {
    /// Until its Unblock passes.
    Get,
    /// Until its PutAck passes.
    Put,
}

/// One block in the NI cache of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block<D> {
    config: Config,
    /// The NI cache is E or M, and the L1 may have a copy.
    lent: bool,
    /// The L1 is E or M, as far as it has been told.
    l1_owns: bool,
    /// The next Unblock of the L1 is for a block from here.
    local_unblock: bool,
    outside: Option<Outside>,
    question: Option<Question>,
    /// The NI cache as a private cache; its messages go out as the pair's.
    ni: l1::Block<D>,
    /// Waits for the answer to the question.
    forward: Option<Forward>,
    /// Of the L1; waits for the NI cache.
    request: Option<Request<D>>,
}

impl<D: Content> Block<D> {
    /// A block that neither of the two owns.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            ni: l1::Block::new(),
            lent: false,
            l1_owns: false,
            local_unblock: false,
            outside: None,
            question: None,
            forward: None,
            request: None,
        }
    }

    /// The NI cache's state of the block.
    pub const fn state(&self) -> State {
        match (self.lent, self.ni.state()) {
            (true, state) => State::Owned { dirty: matches!(state, l1::State::M) },
            (false, state) => State::Plain(state),
        }
    }

    /// Whether there is nothing to remember: neither of the two owns the block, the NI cache has no
    /// copy, nothing is under way. The L1 may have a shared copy.
    pub fn is_idle(&self) -> bool {
        *self == Self::new(self.config)
    }

    /// Whether the NI cache has no copy and nothing is under way there, so that the block does not
    /// take room in it.
    pub const fn is_invalid(&self) -> bool {
        self.ni.is_invalid() && self.question.is_none()
    }

    /// The block, to be read and written upon [`Access::Hit`].
    pub const fn data(&mut self) -> &mut D {
        &mut self.ni.data
    }

    /// The NI wants to read (polls a WQ).
    pub fn read(&mut self, out: &mut Actions<D>) -> Access {
        if self.is_waiting() {
            return Access::Wait;
        }
        if self.l1_owns {
            let to = self.config.party;
            return self.take_from_l1(
                match self.config.owned {
                    true => Forward::FwdGetS { to },
                    false => Forward::FwdGetX { to },
                },
                out,
            );
        }
        self.ni(out, |ni, out| ni.load(out))
    }

    /// The NI wants to write (a CQ entry).
    pub fn write(&mut self, out: &mut Actions<D>) -> Access {
        if self.is_waiting() {
            return Access::Wait;
        }
        if self.l1_owns {
            return self.take_from_l1(Forward::FwdGetX { to: self.config.party }, out);
        }
        if self.ni.is_owner() && !self.lent {
            return self.ni(out, |ni, out| ni.store(out));
        }
        self.ask_l1_to_drop(Question::DropToStore, out);
        Access::Miss
    }

    /// The NI cache wants the room.
    pub fn evict(&mut self, out: &mut Actions<D>) -> Eviction {
        if self.is_waiting() {
            return Eviction::Wait;
        }
        if self.lent {
            self.ask_l1_to_drop(Question::DropToEvict, out);
            return Eviction::Leaving;
        }
        self.ni(out, |ni, out| ni.evict(out))
    }

    /// The L1 sends something.
    pub fn from_l1(&mut self, sent: l1::Action<D>, out: &mut Actions<D>) {
        match sent {
            l1::Action::ToHome(Message::Request(request)) if self.ni_is_busy() => {
                assert!(self.request.is_none(), "{request:?} before the last one in {self:?}");
                self.request = Some(request);
            }
            l1::Action::ToHome(Message::Request(request)) => self.l1_request(request, out),
            l1::Action::ToHome(Message::Response(Response::Unblock(None)))
                if self.local_unblock =>
            {
                self.local_unblock = false;
            }
            l1::Action::ToHome(message @ Message::Response(Response::Unblock(_))) => {
                assert_eq!(self.outside, Some(Outside::Get), "{message:?} in {self:?}");
                self.outside = None;
                out.push(Action::ToHome(message));
                out.push(Action::Completed);
            }
            l1::Action::ToHome(message) => out.push(Action::ToHome(message)),
            l1::Action::ToParty(to, response) if to == self.config.party => {
                self.l1_answer(response, out);
            }
            l1::Action::ToParty(to, response) => out.push(Action::ToParty(to, response)),
            l1::Action::Completed => panic!("not for the wire"),
        }
    }

    /// The network brings something for the pair.
    pub fn from_network(&mut self, message: Message<D>, out: &mut Actions<D>) {
        match message {
            Message::Forward(forward) if self.question.is_some() => {
                assert!(self.forward.is_none(), "{forward:?} beside another in {self:?}");
                self.forward = Some(forward);
            }
            Message::Forward(forward) => self.network_forward(forward, out),
            Message::Response(response) if self.outside == Some(Outside::Get) => {
                if let Response::Data { grant: Grant::Exclusive | Grant::Modified, .. } = response {
                    self.l1_owns = true;
                }
                out.push(Action::ToL1(message));
            }
            _ => self.ni(out, |ni, out| ni.message(message, out)),
        }
    }

    /// Takes up one message that had to wait, if it need not any more.
    pub fn resume(&mut self, out: &mut Actions<D>) -> bool {
        if self.question.is_some() {
            return false;
        }
        if let Some(forward) = self.forward.take() {
            self.network_forward(forward, out);
            return true;
        }
        if !self.ni.is_stable() {
            return false;
        }
        let Some(request) = self.request.take() else { return false };
        self.l1_request(request, out);
        true
    }

    /// Whether the NI cache's accesses have to wait.
    const fn is_waiting(&self) -> bool {
        self.outside.is_some() || self.ni_is_busy()
    }

    /// Whether the L1's requests have to wait, and the NI cache's own.
    const fn ni_is_busy(&self) -> bool {
        self.question.is_some() || !self.ni.is_stable()
    }

    /// A step of the NI cache's own controller.
    fn ni<R>(
        &mut self,
        out: &mut Actions<D>,
        step: impl FnOnce(&mut l1::Block<D>, &mut l1::Actions<D>) -> R,
    ) -> R {
        let mut actions = l1::Actions::new();
        let result = step(&mut self.ni, &mut actions);
        out.extend(actions.into_iter().map(|action| match action {
            l1::Action::ToHome(message) => Action::ToHome(message),
            l1::Action::ToParty(to, response) => Action::ToParty(to, response),
            l1::Action::Completed => Action::Completed,
        }));
        result
    }

    fn take_from_l1(&mut self, forward: Forward, out: &mut Actions<D>) -> Access {
        self.l1_owns = false;
        self.question = Some(Question::Give);
        out.push(Action::ToL1(Message::Forward(forward)));
        Access::Miss
    }

    fn ask_l1_to_drop(&mut self, question: Question, out: &mut Actions<D>) {
        self.question = Some(question);
        let to = Some(self.config.party);
        out.push(Action::ToL1(Message::Forward(Forward::Inv { to })));
    }

    fn l1_answer(&mut self, response: Response<D>, out: &mut Actions<D>) {
        match (self.question.take(), response) {
            (Some(Question::Give), Response::Data { data, grant, source, acks: 0 }) => {
                self.ni.put(data, source == Source::DirtyOwner);
                self.lent = grant == Grant::Shared;
                out.push(Action::Completed);
            }
            (Some(Question::DropToStore), Response::InvAck) => {
                self.lent = false;
                if self.ni(out, |ni, out| ni.store(out)) == Access::Hit {
                    out.push(Action::Completed);
                }
            }
            (Some(Question::DropToEvict), Response::InvAck) => {
                self.lent = false;
                self.ni(out, |ni, out| ni.evict(out));
            }
            (Some(Question::DropToForward(forward)), Response::InvAck) => {
                self.lent = false;
                self.ni(out, |ni, out| ni.message(Message::Forward(forward), out));
                out.push(Action::Completed);
            }
            (question, _) => panic!("{response:?} is no answer to {question:?} in {self:?}"),
        }
    }

    fn l1_request(&mut self, request: Request<D>, out: &mut Actions<D>) {
        assert!(self.outside.is_none(), "{request:?} beside another in {self:?}");
        match (request, self.ni.state()) {
            (Request::PutM(_) | Request::PutE, _) if self.l1_owns => {
                self.l1_owns = false;
                self.go_outside(Outside::Put, request, out);
            }
            (Request::PutM(_) | Request::PutE, _) => {
                // It has had no copy since, whatever it was asked for.
                self.lent = false;
                out.push(Action::ToL1(Message::Forward(Forward::PutAck)));
            }
            (_, l1::State::I) if !self.l1_owns => self.go_outside(Outside::Get, request, out),
            (Request::GetS, l1::State::S) => self.supply(self.ni.data, Grant::Shared, out),
            (Request::GetS, l1::State::E | l1::State::M) if self.config.owned => {
                self.lent = true;
                self.supply(self.ni.data, Grant::Shared, out);
            }
            (Request::GetS, l1::State::M) => {
                self.request = Some(request);
                self.ni(out, |ni, out| ni.evict(out));
            }
            (Request::GetX, l1::State::S) => {
                self.ni.invalidate();
                self.go_outside(Outside::Get, request, out);
            }
            (Request::GetS | Request::GetX, l1::State::E | l1::State::M) => {
                let (data, dirty) = self.ni.take();
                self.lent = false;
                self.l1_owns = true;
                let grant = if dirty { Grant::Modified } else { Grant::Exclusive };
                self.supply(data, grant, out);
            }
            _ => panic!("an L1 cannot ask {request:?} in {self:?}"),
        }
    }

    fn go_outside(&mut self, outside: Outside, request: Request<D>, out: &mut Actions<D>) {
        self.outside = Some(outside);
        out.push(Action::ToHome(Message::Request(request)));
    }

    /// Gives the L1 what it would have got from the home.
    fn supply(&mut self, data: D, grant: Grant, out: &mut Actions<D>) {
        self.local_unblock = true;
        let data = Response::Data { data, grant, acks: 0, source: Source::Home };
        out.push(Action::ToL1(Message::Response(data)));
    }

    fn network_forward(&mut self, forward: Forward, out: &mut Actions<D>) {
        let message = Message::Forward(forward);
        match forward {
            Forward::PutAck if self.outside == Some(Outside::Put) => {
                self.outside = None;
                out.push(Action::ToL1(message));
                out.push(Action::Completed);
            }
            Forward::PutAck => self.ni(out, |ni, out| ni.message(message, out)),
            Forward::Inv { .. } => {
                // The L1 acknowledges for both: whoever waits is named in the message.
                self.ni.invalidate();
                out.push(Action::ToL1(message));
            }
            Forward::FwdGetX { .. } | Forward::Recall if self.lent => {
                self.ask_l1_to_drop(Question::DropToForward(forward), out);
            }
            _ if self.ni.is_owner() => {
                // After FwdGetS it is shared all over, so the L1's copy is nothing special.
                self.lent &= matches!(forward, Forward::FwdRead { .. });
                self.ni(out, |ni, out| ni.message(message, out));
            }
            _ => {
                self.l1_owns &= matches!(forward, Forward::FwdRead { .. });
                out.push(Action::ToL1(message));
            }
        }
    }
}
