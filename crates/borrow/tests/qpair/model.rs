//! Every interleaving of the two ends of a connection (TSM, invariant h): messages go into buffers that were
//! posted, completions come in the order of descriptors, and each descriptor completes once, whichever end closes, at
//! any time. Over memory each end sees the actions of the other one at once; over a network it hears of them some time,
//! in order, and messages come in parts. That connections do not touch each other's memory is a matter of addresses:
//! see `messages`.

use std::collections::VecDeque;

use rackmem_borrow::qpair::queues::{
    Arrival, Completion, Descriptor, Kind, Queues, Shared, Status,
};
use stateright::{Checker, Model, Property};

const DEPTH: usize = 2;
/// Messages that each end sends and buffers that it posts, and their sizes.
const SENDS: [u64; 2] = [2, 3];
const BUFFERS: [u64; 3] = [2, 2, 3];
/// Bytes of a message that leave at once over a network.
const PART: u64 = 1;

/// An end's own state, and over a network its copy of the other one's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Window {
    receives: [Option<(u64, Descriptor)>; DEPTH],
    arrivals: [Option<(u64, Arrival)>; DEPTH],
    /// Messages in registered memory, each with the buffer that it lies in.
    stored: Vec<(u64, Descriptor)>,
    is_closed: bool,
    /// A place was written while it still held something.
    is_overrun: bool,
    known: Known,
    /// Bytes sent of the present outgoing message, and bytes received of the present incoming one.
    parts: [u64; 2],
    /// Frames on their way to this end.
    coming: VecDeque<Frame>,
}

/// An end's knowledge of the other one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Known {
    receives: [Option<(u64, Descriptor)>; DEPTH],
    delivered: u64,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Frame {
    Receive(u64, Descriptor),
    /// The number, the beginning of the part, the message, its buffer.
    Part(u64, u64, Descriptor, Descriptor),
    TooLong(u64, u64),
    Delivered(u64),
    Close,
}

struct Ends<'a> {
    own: &'a mut Window,
    peer: &'a mut Window,
    is_far: bool,
}

fn at(number: u64) -> usize {
    number as usize % DEPTH
}

impl Window {
    fn report(&mut self, number: u64, arrival: Arrival) {
        let place = &mut self.arrivals[at(number)];
        // The message that it held before must have been taken: then its buffer was posted again.
        self.is_overrun |= place.is_some_and(|(old, _)| old + DEPTH as u64 != number);
        *place = Some((number, arrival));
    }

    fn store(&mut self, number: u64, message: Descriptor, buffer: Descriptor) {
        self.stored.push((buffer.id, message));
        self.report(number, Arrival { length_bytes: message.size_bytes, is_too_long: false });
    }

    /// Takes the next frame; returns the answer to it.
    fn hear(&mut self) -> Option<Frame> {
        match self.coming.pop_front()? {
            Frame::Receive(number, buffer) => {
                self.known.receives[at(number)] = Some((number, buffer));
                None
            }
            Frame::Part(number, begins, message, buffer) => {
                let [_, come] = &mut self.parts;
                assert_eq!(*come, begins, "parts come in order, those of one message together");
                *come = begins + PART;
                if *come < message.size_bytes {
                    return None;
                }
                *come = 0;
                self.store(number, message, buffer);
                Some(Frame::Delivered(number + 1))
            }
            Frame::TooLong(number, length_bytes) => {
                self.report(number, Arrival { length_bytes, is_too_long: true });
                Some(Frame::Delivered(number + 1))
            }
            Frame::Delivered(number) => {
                self.known.delivered = number;
                None
            }
            Frame::Close => {
                self.known.is_closed = true;
                None
            }
        }
    }
}

impl Ends<'_> {
    fn peer_is_closed(&self) -> bool {
        if self.is_far { self.own.known.is_closed } else { self.peer.is_closed }
    }
}

impl Shared for Ends<'_> {
    fn publish(&mut self, number: u64, buffer: Descriptor) {
        let place = &mut self.own.receives[at(number)];
        self.own.is_overrun |= place.is_some_and(|(old, _)| old + DEPTH as u64 != number);
        *place = Some((number, buffer));
        if self.is_far {
            self.peer.coming.push_back(Frame::Receive(number, buffer));
        }
    }

    fn posted(&mut self, number: u64) -> Option<Descriptor> {
        let receives = if self.is_far { &self.own.known.receives } else { &self.peer.receives };
        let (there, buffer) = receives[at(number)]?;
        (there == number).then_some(buffer)
    }

    fn deliver(&mut self, number: u64, message: Descriptor, buffer: Descriptor) -> bool {
        if !self.is_far {
            self.peer.store(number, message, buffer);
            return true;
        }
        let [left, _] = &mut self.own.parts;
        self.peer.coming.push_back(Frame::Part(number, *left, message, buffer));
        *left += PART;
        let is_all = *left >= message.size_bytes;
        if is_all {
            *left = 0;
        }
        is_all
    }

    fn delivered(&mut self) -> u64 {
        if self.is_far { self.own.known.delivered } else { u64::MAX }
    }

    fn refuse(&mut self, number: u64, length_bytes: u64) {
        match self.is_far {
            true => self.peer.coming.push_back(Frame::TooLong(number, length_bytes)),
            false => self.peer.report(number, Arrival { length_bytes, is_too_long: true }),
        }
    }

    fn arrived(&mut self, number: u64) -> Option<Arrival> {
        let (there, arrival) = self.own.arrivals[at(number)]?;
        (there == number).then_some(arrival)
    }

    fn collect(&mut self, _: u64, _: Arrival, _: Descriptor) {}
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    queues: Queues,
    window: Window,
    sent: usize,
    posted: usize,
    taken: Vec<Completion>,
}

/// Connections of two ends each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State(Vec<[End; 2]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Send,
    Post,
    Progress,
    Poll,
    Close,
    Hear,
}

struct Connections {
    connections: usize,
    may_close: bool,
    is_far: bool,
}

/// Identifiers tell connection, end, queue and number.
fn id(connection: usize, end: usize, kind: Kind, number: usize) -> u64 {
    (connection * 1000 + end * 100 + kind as usize * 10 + number) as u64
}

impl Model for Connections {
    type State = State;
    type Action = (usize, usize, Step);

    fn init_states(&self) -> Vec<State> {
        let end = || End {
            queues: Queues::new(DEPTH),
            window: Window::default(),
            sent: 0,
            posted: 0,
            taken: Vec::new(),
        };
        vec![State((0..self.connections).map(|_| [end(), end()]).collect())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>) {
        for (connection, ends) in state.0.iter().enumerate() {
            for (number, end) in ends.iter().enumerate() {
                // One end sends, the other one receives and answers once; it is the same code.
                let may_send = end.sent < SENDS.len() - number;
                let may_post = end.posted < BUFFERS.len() - (1 - number) * 2;
                let wanted = [
                    (may_send && end.queues.has_send_room(), Step::Send),
                    (may_post && end.queues.has_receive_room(), Step::Post),
                    (true, Step::Progress),
                    (end.queues.completed() > 0, Step::Poll),
                    (self.may_close && number == 1 && !end.window.is_closed, Step::Close),
                    (!end.window.coming.is_empty(), Step::Hear),
                ];
                if !end.window.is_closed {
                    let steps = wanted.into_iter().filter(|(may, _)| *may);
                    actions.extend(steps.map(|(_, step)| (connection, number, step)));
                }
            }
        }
    }

    fn next_state(&self, last: &State, (connection, number, step): Self::Action) -> Option<State> {
        let mut state = last.clone();
        let [left, right] = &mut state.0[connection];
        let (end, other) = if number == 0 { (left, right) } else { (right, left) };
        let End { queues, window, sent, posted, taken } = end;
        let mut shared = Ends { own: window, peer: &mut other.window, is_far: self.is_far };
        match step {
            Step::Send => {
                let id = id(connection, number, Kind::Send, *sent);
                let message = Descriptor { offset: 0, size_bytes: SENDS[*sent], id };
                assert!(queues.post_send(message));
                *sent += 1;
            }
            Step::Post => {
                let id = id(connection, number, Kind::Receive, *posted);
                let buffer = Descriptor { offset: 0, size_bytes: BUFFERS[*posted], id };
                assert!(queues.post_receive(buffer, &mut shared));
                *posted += 1;
            }
            Step::Progress => {
                queues.progress(&mut shared);
                if shared.peer_is_closed() {
                    queues.finish(Status::Closed, &mut shared);
                }
            }
            Step::Poll => taken.push(queues.poll()?),
            Step::Close => {
                window.is_closed = true;
                if self.is_far {
                    other.window.coming.push_back(Frame::Close);
                }
            }
            Step::Hear => other.window.coming.extend(window.hear()),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "completions come in the order of descriptors, each once",
                |_, state| {
                    ends(state).all(|(connection, number, end)| {
                        [Kind::Send, Kind::Receive].into_iter().all(|kind| {
                            let of_kind = end.taken.iter().filter(|taken| taken.kind == kind);
                            let mut expected = (0..).map(|n| id(connection, number, kind, n));
                            of_kind.map(|taken| taken.id).all(|id| Some(id) == expected.next())
                        })
                    })
                },
            ),
            Property::always(
                "a message is stored only into a buffer that the other end posted",
                |_, state| {
                    ends(state).all(|(connection, number, end)| {
                        let posted = |buffer: u64| {
                            (0..end.posted)
                                .any(|n| id(connection, number, Kind::Receive, n) == buffer)
                        };
                        let sender = |message: Descriptor| (message.id / 100 % 10) as usize;
                        let mut stored = end.window.stored.iter();
                        stored.all(|&(buffer, message)| {
                            posted(buffer) && sender(message) == 1 - number
                        })
                    })
                },
            ),
            Property::always("what is said to be sent is there", |_, state: &State| {
                state.0.iter().all(|ends| (0..2).all(|sender| sent_is_there(ends, sender)))
            }),
            Property::always("no place is used before it is free", |_, state| {
                ends(state).all(|(_, _, end)| !end.window.is_overrun)
            }),
            Property::always(
                "what is received was sent, in order, or was too long",
                |_, state: &State| {
                    state.0.iter().all(|ends| (0..2).all(|receiver| messages_match(ends, receiver)))
                },
            ),
            Property::sometimes("a message is too long", |_, state| {
                any(state, |taken| taken.kind == Kind::Receive && taken.status == Status::TooLong)
            }),
            Property::sometimes("a send waits for a buffer", |_, state| {
                ends(state).any(|(_, _, end)| end.queues.waiting_sends() == DEPTH)
            }),
            Property::sometimes("all is done, or closed", |model, state| match model.may_close {
                // Two messages one way, one the other way; a buffer stays.
                false => ends(state).all(|(_, _, end)| end.taken.len() == 3),
                true => any(state, |taken| taken.status == Status::Closed),
            }),
        ]
    }
}

fn ends(state: &State) -> impl Iterator<Item = (usize, usize, &End)> {
    let connections = state.0.iter().enumerate();
    connections.flat_map(|(connection, ends)| {
        ends.iter().enumerate().map(move |(number, end)| (connection, number, end))
    })
}

fn any(state: &State, is_it: impl Fn(&Completion) -> bool) -> bool {
    ends(state).any(|(_, _, end)| end.taken.iter().any(&is_it))
}

fn messages_match(ends: &[End; 2], receiver: usize) -> bool {
    let received = ends[receiver].taken.iter().filter(|taken| taken.kind == Kind::Receive);
    let sent = SENDS.iter().zip(BUFFERS);
    received.filter(|taken| matches!(taken.status, Status::Done | Status::TooLong)).zip(sent).all(
        |(taken, (&size, buffer))| {
            taken.length_bytes == size && (taken.status == Status::TooLong) == (size > buffer)
        },
    )
}

/// Messages that have completed have reached the other end, whether it has looked or not.
fn sent_is_there(ends: &[End; 2], sender: usize) -> bool {
    let done = |taken: &&Completion| taken.kind == Kind::Send && taken.status == Status::Done;
    ends[sender].taken.iter().filter(done).count() <= ends[1 - sender].window.stored.len()
}

fn walk(may_close: bool, is_far: bool) -> usize {
    let checker = Connections { connections: 1, may_close, is_far }.checker().spawn_dfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn one_connection_in_every_order() {
    assert_eq!(walk(false, false), 601);
}

#[test]
fn one_connection_that_closes_at_any_time() {
    assert_eq!(walk(true, false), 2289);
}

#[test]
fn one_connection_over_a_network_in_every_order() {
    assert_eq!(walk(false, true), 7684);
}

#[test]
fn one_connection_over_a_network_that_closes_at_any_time() {
    assert_eq!(walk(true, true), 21_610);
}
