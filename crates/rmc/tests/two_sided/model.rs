//! Messages go into buffers that were posted, completions come in the order of descriptors, and each descriptor
//! completes once, whichever end closes or loses the other one, at any time. That connections do not touch each
//! other's memory is a matter of addresses: see the tests of those that check them.

use rackmem_rmc::two_sided::{Arrival, Completion, Descriptor, Kind, Queues, Status};
use stateright::{Checker, Model, Property};

use super::carriers::{Carrier, DEPTH, Ends, Frame, Window};

/// Messages that each end sends and buffers that it posts, and their sizes.
const SENDS: [u64; 2] = [2, 3];
const BUFFERS: [u64; 3] = [2, 2, 3];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    queues: Queues,
    window: Window,
    sent: usize,
    posted: usize,
    taken: Vec<Completion>,
}

/// The two ends of a connection.
type State = [End; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Send,
    Post,
    Progress,
    /// The end learns that the other one is gone; messages may have come since it last looked.
    Finish,
    Poll,
    Close,
    /// The link breaks: frames that have not been heard never are.
    Lose,
    Hear,
}

/// The way in which a connection may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    GoOn,
    Close,
    Lose,
}

struct Connection {
    depth: usize,
    carrier: Carrier,
    may: May,
}

/// Identifiers tell end, queue and number.
fn id(end: usize, kind: Kind, number: usize) -> u64 {
    (end * 100 + kind as usize * 10 + number) as u64
}

impl End {
    /// Posts the next message; a full SQ refuses it, and nothing has changed.
    fn send(&mut self, number: usize) {
        let id = id(number, Kind::Send, self.sent);
        let message = Descriptor { offset: 0, size_bytes: SENDS[self.sent], id };
        let has_room = self.queues.has_send_room();
        assert_eq!(self.queues.post_send(message), has_room);
        self.sent += usize::from(has_room);
    }

    fn post(&mut self, number: usize, publish: impl FnOnce(&mut Window, u64, Descriptor)) {
        let id = id(number, Kind::Receive, self.posted);
        let buffer = Descriptor { offset: 0, size_bytes: BUFFERS[self.posted], id };
        let has_room = self.queues.has_receive_room();
        let publish = |n, buffer| publish(&mut self.window, n, buffer);
        assert_eq!(self.queues.post_receive(buffer, publish), has_room);
        self.posted += usize::from(has_room);
    }
}

impl End {
    /// Completions of a queue that were taken.
    fn of(&self, kind: Kind) -> impl Iterator<Item = &Completion> {
        self.taken.iter().filter(move |taken| taken.kind == kind)
    }

    /// Descriptors of a queue that were posted, and whose completions were not taken.
    fn in_use(&self, kind: Kind) -> usize {
        let posted = if kind == Kind::Send { self.sent } else { self.posted };
        posted - self.of(kind).count()
    }

    /// If the peer has closed: whether all that it stored was received, and all that it is known to have was sent.
    fn has_all_that_came(&self) -> bool {
        let done = |kind| self.of(kind).filter(|taken| taken.length_bytes > 0).count() as u64;
        self.queues.end() != Some(Status::Closed)
            || self.queues.completed() > 0
            || done(Kind::Receive) >= self.window.stored.len() as u64
                && done(Kind::Send) >= self.window.delivered()
    }
}

impl Model for Connection {
    type State = State;
    type Action = (usize, Step);

    fn init_states(&self) -> Vec<State> {
        let end = || End {
            queues: Queues::new(self.depth),
            window: Window::default(),
            sent: 0,
            posted: 0,
            taken: Vec::new(),
        };
        vec![[end(), end()]]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>) {
        for (number, end) in state.iter().enumerate() {
            // One end sends, the other one receives and answers once; it is the same code.
            let wanted = [
                (end.sent < SENDS.len() - number, Step::Send),
                (end.posted < BUFFERS.len() - (1 - number) * 2, Step::Post),
                (true, Step::Progress),
                (self.may != May::GoOn, Step::Finish),
                (end.queues.completed() > 0, Step::Poll),
                (self.may == May::Close && number == 1, Step::Close),
                (self.may == May::Lose && number == 1 && !end.window.is_lost, Step::Lose),
                (!end.window.coming.is_empty(), Step::Hear),
            ];
            if !end.window.is_closed {
                let steps = wanted.into_iter().filter(|(may, _)| *may);
                actions.extend(steps.map(|(_, step)| (number, step)));
            }
        }
    }

    fn next_state(&self, last: &State, (number, step): Self::Action) -> Option<State> {
        let mut state = last.clone();
        let [left, right] = &mut state;
        let (end, other) = if number == 0 { (left, right) } else { (right, left) };
        let carrier = self.carrier;
        match step {
            Step::Send => end.send(number),
            Step::Post => end.post(number, |own, n, buffer| {
                use rackmem_rmc::two_sided::Shared as _;
                Ends { own, peer: &mut other.window, carrier }.publish(n, buffer);
            }),
            Step::Progress => {
                let mut ends = Ends { own: &mut end.window, peer: &mut other.window, carrier };
                if carrier == Carrier::Channel {
                    ends.drive(&mut end.queues);
                } else {
                    end.queues.progress(&mut ends);
                }
            }
            Step::Finish => {
                let mut ends = Ends { own: &mut end.window, peer: &mut other.window, carrier };
                let status = ends.gone()?;
                end.queues.finish(status, &mut ends);
            }
            Step::Poll => end.taken.push(end.queues.poll()?),
            Step::Close => {
                end.window.is_closed = true;
                if carrier == Carrier::Network {
                    other.window.tell(Frame::Close);
                }
            }
            Step::Lose => {
                for window in [&mut end.window, &mut other.window] {
                    window.is_lost = true;
                    window.coming.clear();
                }
            }
            Step::Hear if carrier == Carrier::Channel => {
                end.window.arrive(&mut end.queues, &mut other.window);
            }
            Step::Hear => {
                if let Some(answer) = end.window.hear() {
                    other.window.tell(answer);
                }
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "completions come in the order of descriptors, each once",
                |_, state: &State| ends(state).all(|(number, end)| comes_in_order(number, end)),
            ),
            Property::always(
                "a message is stored only into a buffer that the other end posted",
                |_, state: &State| ends(state).all(|(number, end)| lies_in_buffers(number, end)),
            ),
            Property::always("what is said to be sent is there", |_, state: &State| {
                (0..2).all(|sender| sent_is_there(state, sender))
            }),
            Property::always("no place is used before it is free", |_, state: &State| {
                state.iter().all(|end| !end.window.is_overrun)
            }),
            Property::always("what is received was sent, in order, or was too long", |_, state| {
                (0..2).all(|receiver| messages_match(state, receiver))
            }),
            Property::always("at the end everything has completed", |_, state: &State| {
                state.iter().all(|End { queues, sent, posted, taken, .. }| {
                    queues.end().is_none() || taken.len() + queues.completed() == sent + posted
                })
            }),
            Property::always(
                "a place is free when its completion was taken",
                |model: &Connection, state: &State| {
                    [Kind::Send, Kind::Receive]
                        .into_iter()
                        .all(|kind| state.iter().all(|end| end.in_use(kind) <= model.depth))
                },
            ),
            Property::always(
                "what came before the end has completed as such",
                |_, state: &State| state.iter().all(End::has_all_that_came),
            ),
            Property::sometimes("a message is too long", |_, state| {
                any(state, |taken| taken.kind == Kind::Receive && taken.status == Status::TooLong)
            }),
            Property::sometimes(
                "the SQ is full of sends that wait",
                |model: &Connection, state: &State| {
                    let End { queues, sent, taken, .. } = &state[0];
                    *sent == model.depth && taken.is_empty() && queues.completed() == 0
                },
            ),
            Property::sometimes("all is done, or ended", |model: &Connection, state: &State| {
                match model.may {
                    // Two messages one way, one the other way; a buffer stays.
                    May::GoOn => state.iter().all(|end| end.taken.len() == 3),
                    May::Close => any(state, |taken| taken.status == Status::Closed),
                    May::Lose => any(state, |taken| taken.status == Status::Lost),
                }
            }),
        ]
    }
}

fn ends(state: &State) -> impl Iterator<Item = (usize, &End)> {
    state.iter().enumerate()
}

fn any(state: &State, is_it: impl Fn(&Completion) -> bool) -> bool {
    state.iter().any(|end| end.taken.iter().any(&is_it))
}

fn comes_in_order(number: usize, end: &End) -> bool {
    [Kind::Send, Kind::Receive].into_iter().all(|kind| {
        let mut expected = (0..).map(|n| id(number, kind, n));
        end.of(kind).map(|taken| taken.id).all(|id| Some(id) == expected.next())
    })
}

fn lies_in_buffers(number: usize, end: &End) -> bool {
    let posted = |buffer: u64| (0..end.posted).any(|n| id(number, Kind::Receive, n) == buffer);
    let sender = |message: Descriptor| (message.id / 100) as usize;
    let mut stored = end.window.stored.iter();
    stored.all(|&(buffer, message)| posted(buffer) && sender(message) == 1 - number)
}

fn messages_match(ends: &State, receiver: usize) -> bool {
    let sent = SENDS.iter().zip(BUFFERS);
    let received = ends[receiver].of(Kind::Receive);
    received.filter(|taken| matches!(taken.status, Status::Done | Status::TooLong)).zip(sent).all(
        |(taken, (&size, buffer))| {
            taken.length_bytes == size && (taken.status == Status::TooLong) == (size > buffer)
        },
    )
}

/// Messages that have completed have reached the other end, whether it has looked or not.
fn sent_is_there(ends: &State, sender: usize) -> bool {
    let done = |taken: &&Completion| taken.status == Status::Done;
    ends[sender].of(Kind::Send).filter(done).count() <= ends[1 - sender].window.stored.len()
}

fn walk(carrier: Carrier, may: May) -> usize {
    check(Connection { depth: DEPTH, carrier, may })
}

fn check(connection: Connection) -> usize {
    let checker = connection.checker().spawn_dfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn queues_of_one_place() {
    for (carrier, states) in
        [(Carrier::Memory, 235), (Carrier::Network, 1385), (Carrier::Channel, 485)]
    {
        assert_eq!(check(Connection { depth: 1, carrier, may: May::GoOn }), states, "{carrier:?}");
    }
}

#[test]
fn over_memory_in_every_order() {
    assert_eq!(walk(Carrier::Memory, May::GoOn), 601);
}

#[test]
fn over_memory_closed_at_any_time() {
    assert_eq!(walk(Carrier::Memory, May::Close), 2365);
}

#[test]
fn over_memory_lost_at_any_time() {
    assert_eq!(walk(Carrier::Memory, May::Lose), 17_373);
}

#[test]
fn over_a_network_in_every_order() {
    assert_eq!(walk(Carrier::Network, May::GoOn), 7684);
}

#[test]
fn over_a_network_closed_at_any_time() {
    assert_eq!(walk(Carrier::Network, May::Close), 22_152);
}

#[test]
fn over_a_network_lost_at_any_time() {
    assert_eq!(walk(Carrier::Network, May::Lose), 101_339);
}

#[test]
fn by_a_channel_in_every_order() {
    assert_eq!(walk(Carrier::Channel, May::GoOn), 1303);
}

/// A peer that says that a message lies in a buffer which is too short for it is lost.
#[test]
fn what_cannot_be_ends_the_connection() {
    let mut queues = Queues::new(DEPTH);
    let mut windows = [Window::default(), Window::default()];
    let [own, peer] = &mut windows;
    assert!(queues.post_receive(Descriptor { offset: 0, size_bytes: 2, id: 7 }, |_, _| {}));
    own.forge(Arrival { length_bytes: 3, is_too_long: false });
    assert!(!queues.progress(&mut Ends { own, peer, carrier: Carrier::Memory }));
    let lost = Completion { kind: Kind::Receive, id: 7, length_bytes: 0, status: Status::Lost };
    assert_eq!(
        (queues.end(), queues.poll(), queues.poll()),
        (Some(Status::Lost), Some(lost), None)
    );
    // Whatever is posted after the end completes with it.
    assert!(queues.post_send(Descriptor { offset: 0, size_bytes: 1, id: 8 }));
    assert_eq!(queues.poll().map(|send| (send.id, send.status)), Some((8, Status::Lost)));
}

#[test]
fn buffers_lie_inside_registered_memory() {
    let inside = |offset, size_bytes| Descriptor { offset, size_bytes, id: 0 }.is_inside(100, 50);
    assert!(inside(100, 50) && inside(149, 1) && inside(150, 0));
    assert!(!inside(99, 1) && !inside(149, 2) && !inside(151, 0) && !inside(120, u64::MAX));
}
