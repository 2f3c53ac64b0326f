//! Model checking: two ends of a link, and every order of sending, arriving, losing, damaging,
//! consuming and timers that strike too early.
//!
//! Timers that strike in time do so when nothing else can happen. Everything else uses up something:
//! a message, a frame on the wire, a fault. So there are no cycles: what never gets stuck gets done.
//!
//! The numbers of states are pinned. A change of the protocol changes them; then look at why.

use std::collections::VecDeque;

use rackmem_rmc::link::{Header, Kind, Port, Verdict};
use stateright::{Checker, Model, Property};

const WINDOW: u32 = 4;

/// Close to where sequence numbers wrap.
const FIRST: u32 = u32::MAX - 1;

/// A frame on the wire and the message in it; `None` if it was damaged.
type Frame = Option<(Header, u8)>;

#[derive(Clone, Debug)]
struct World {
    window: u32,
    /// Room of each receiver.
    room: [u32; 2],
    /// Messages that each end has to send.
    messages: [u8; 2],
    /// Frames that a direction of the wire holds.
    wire: usize,
    losses: u8,
    damages: u8,
    early_timers: u8,
    /// Whether timers also strike when nothing is under way, which asks for lost credits.
    asks: bool,
    goals: Vec<Goal>,
}

type Goal = (&'static str, fn(&World, &State) -> bool);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    port: Port,
    ring: [u8; WINDOW as usize],
    pushed: u8,
    /// Messages accepted, and those of them that have left.
    accepted: u8,
    consumed: u8,
    /// A message arrived that was not the next one.
    confused: bool,
    /// Verdict on the last frame with data.
    last: Option<Kindness>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kindness {
    Accepted,
    Duplicate,
    Gap,
    NoRoom,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    ends: [End; 2],
    /// `wires[n]` leads away from end `n`.
    wires: [VecDeque<Frame>; 2],
    losses: u8,
    damages: u8,
    early_timers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Push(usize),
    Send(usize),
    Arrive(usize),
    Lose(usize),
    Damage(usize),
    Consume(usize),
    EarlyTimer(usize),
    Timer(usize),
}

impl End {
    fn new(window: u32, room: u32) -> Self {
        Self {
            port: Port::starting_at(window, room, FIRST),
            ring: [0; WINDOW as usize],
            pushed: 0,
            accepted: 0,
            consumed: 0,
            confused: false,
            last: None,
        }
    }

    fn arrive(&mut self, frame: Frame) {
        let Some((header, message)) = frame else {
            self.port.damaged();
            return;
        };
        self.last = match self.port.receive(&header) {
            None => return,
            Some(Verdict::Accept) => {
                self.confused |= message != self.accepted;
                self.accepted += 1;
                Some(Kindness::Accepted)
            }
            Some(Verdict::Duplicate) => Some(Kindness::Duplicate),
            Some(Verdict::Gap) => Some(Kindness::Gap),
            Some(Verdict::NoRoom) => Some(Kindness::NoRoom),
        };
    }
}

impl World {
    fn new(messages: [u8; 2]) -> Self {
        Self {
            window: 2,
            room: [1, 2],
            messages,
            wire: 2,
            losses: 0,
            damages: 0,
            early_timers: 0,
            asks: true,
            goals: Vec::new(),
        }
    }

    fn timer_runs(&self, end: &End) -> bool {
        end.port.sender.is_waiting() && (self.asks || end.port.sender.in_flight() > 0)
    }

    fn moves(&self, state: &State, actions: &mut Vec<Action>) {
        for (n, end) in state.ends.iter().enumerate() {
            if end.pushed < self.messages[n] && !end.port.sender.is_full() {
                actions.push(Action::Push(n));
            }
            if state.wires[n].len() < self.wire && end.port.is_ready() {
                actions.push(Action::Send(n));
            }
            if !state.wires[n].is_empty() {
                actions.push(Action::Arrive(n));
            }
            if end.consumed < end.accepted {
                actions.push(Action::Consume(n));
            }
        }
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        for n in 0..2 {
            if !state.wires[n].is_empty() && state.losses < self.losses {
                actions.push(Action::Lose(n));
            }
            if state.wires[n].front().is_some_and(Option::is_some) && state.damages < self.damages {
                actions.push(Action::Damage(n));
            }
            if self.timer_runs(&state.ends[n]) && state.early_timers < self.early_timers {
                actions.push(Action::EarlyTimer(n));
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            ends: [0, 1].map(|n| End::new(self.window, self.room[n])),
            wires: Default::default(),
            losses: 0,
            damages: 0,
            early_timers: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.moves(state, actions);
        let quiet = actions.is_empty();
        self.faults(state, actions);
        if quiet {
            let late = (0..2).filter(|&n| self.timer_runs(&state.ends[n])).map(Action::Timer);
            actions.extend(late);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Push(n) => {
                let end = &mut next.ends[n];
                let sequence = end.port.push().expect("the window has room");
                end.ring[end.port.sender.place(sequence)] = end.pushed;
                end.pushed += 1;
            }
            Action::Send(n) => {
                let end = &mut next.ends[n];
                let header = end.port.poll().expect("it is ready");
                let message = match header.kind {
                    Kind::Data => end.ring[end.port.sender.place(header.sequence)],
                    _ => 0,
                };
                next.wires[n].push_back(Some((header, message)));
            }
            Action::Arrive(n) => {
                let frame = next.wires[n].pop_front().expect("a frame is there");
                next.ends[1 - n].arrive(frame);
            }
            Action::Lose(n) => {
                next.wires[n].pop_front();
                next.losses += 1;
            }
            Action::Damage(n) => {
                next.wires[n][0] = None;
                next.damages += 1;
            }
            Action::Consume(n) => {
                next.ends[n].consumed += 1;
                next.ends[n].port.consume();
            }
            Action::EarlyTimer(n) => {
                next.ends[n].port.timeout();
                next.early_timers += 1;
            }
            Action::Timer(n) => next.ends[n].port.timeout(),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("exactly once and in order", |_, state: &State| {
                state.ends.iter().all(|end| !end.confused)
            }),
            Property::always("nothing is made up", |_, state: &State| {
                (0..2).all(|n| state.ends[n].accepted <= state.ends[1 - n].pushed)
            }),
            Property::always("no overflow", |world: &World, state: &State| {
                state.ends.iter().zip(world.room).all(|(end, room)| {
                    u32::from(end.accepted - end.consumed) <= room
                        && end.last != Some(Kindness::NoRoom)
                })
            }),
            Property::eventually("all arrives, and both know", |world: &World, state: &State| {
                (0..2).all(|n| {
                    state.ends[1 - n].consumed == world.messages[n]
                        && state.ends[n].port.sender.kept() == 0
                        && state.ends[n].pushed == world.messages[n]
                })
            }),
        ];
        let goals = self.goals.iter().map(|&(name, reached)| Property::sometimes(name, reached));
        properties.extend(goals);
        properties
    }
}

const DUPLICATE: Goal = ("a frame arrives twice", |_, state| {
    state.ends.iter().any(|end| end.last == Some(Kindness::Duplicate))
});
const GAP: Goal =
    ("a frame is missing", |_, state| state.ends.iter().any(|end| end.last == Some(Kindness::Gap)));
const NO_CREDIT: Goal = ("a frame waits for room at the peer", |_, state| {
    state.ends.iter().any(|end| {
        let sender = &end.port.sender;
        sender.base() != FIRST && sender.in_flight() == 0 && sender.is_waiting()
    })
});
const WINDOW_FULL: Goal = ("the window is full", |world, state| {
    let left = |n: usize| state.ends[n].pushed < world.messages[n];
    (0..2).any(|n| left(n) && state.ends[n].port.sender.is_full())
});
const WRAPPED: Goal = ("sequence numbers wrap", |_, state| {
    state.ends.iter().any(|end| end.port.receiver.expected() < FIRST)
});

fn check(world: World, states: usize) {
    let checker = world.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states, "number of states");
}

#[test]
fn a_link_without_faults() {
    let mut world = World::new([3, 2]);
    world.goals = vec![WINDOW_FULL, WRAPPED];
    check(world, 9_366);
}

#[test]
fn whatever_is_lost_is_sent_again() {
    let mut world = World::new([3, 1]);
    world.losses = 2;
    world.goals = vec![GAP, NO_CREDIT, WINDOW_FULL, WRAPPED];
    check(world, 15_521);
}

#[test]
fn whatever_is_damaged_is_sent_again() {
    let mut world = World::new([3, 1]);
    (world.damages, world.losses) = (2, 1);
    world.goals = vec![GAP, NO_CREDIT, WINDOW_FULL, WRAPPED];
    check(world, 804_692);
}

#[test]
fn timers_that_strike_too_early_do_no_harm() {
    let mut world = World::new([3, 0]);
    (world.losses, world.damages, world.early_timers) = (1, 1, 2);
    world.goals = vec![DUPLICATE, GAP, NO_CREDIT, WRAPPED];
    check(world, 278_511);
}

#[test]
fn a_wide_window_over_little_room() {
    let mut world = World::new([4, 0]);
    (world.window, world.room, world.wire) = (4, [1, 2], 3);
    (world.losses, world.damages) = (1, 1);
    world.goals = vec![GAP, NO_CREDIT, WRAPPED];
    check(world, 17_085);
}

/// A sender must ask, because no receiver sends a lost credit again by itself. And a proof that the
/// checker would notice.
#[test]
fn without_asking_a_lost_credit_is_the_end() {
    let mut world = World::new([2, 0]);
    world.losses = 1;
    world.asks = false;
    let checker = world.checker().spawn_bfs().join();
    let path = checker.discovery("all arrives, and both know").expect("a standstill");
    let state = path.last_state();
    assert_eq!(state.losses, 1);
    assert!(state.ends[0].port.sender.kept() > 0 && state.ends[0].port.sender.in_flight() == 0);
}
