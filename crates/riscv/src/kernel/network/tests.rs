//! Every order of what two ends of a connection do and of what arrives, with buffers of two bytes.

use std::collections::{HashSet, VecDeque};

use super::Kind;
use super::end::{End, Family};

/// Bytes of a buffer.
const CAPACITY: usize = 2;

/// Bytes that each program writes.
const BYTES: u8 = 3;

/// A program with one end of a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Side {
    /// Before the connection is accepted, and after it is forgotten, there is none.
    end: Option<End>,
    is_closed: bool,
    /// The program has shut both directions down.
    is_shut: bool,
    written: u8,
    read: u8,
    /// The stream of the other side is at its end, by a read.
    has_ended: bool,
    /// The connection was reset, by a call.
    is_reset: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    family: Family,
    sides: [Side; 2],
    /// What is under way to each side.
    under_way: [VecDeque<Kind>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Write {
        count: u8,
    },
    Read,
    GiveRoom,
    Finish,
    ShutDown,
    Close {
        aborts: bool,
    },
    Deliver,
    /// The listener's answer is that it is not there.
    Refuse,
}

const ACTS: [Act; 9] = [
    Act::Write { count: 1 },
    Act::Write { count: 3 },
    Act::Read,
    Act::GiveRoom,
    Act::Finish,
    Act::Close { aborts: false },
    Act::Close { aborts: true },
    Act::Deliver,
    Act::Refuse,
];

/// Fewer, with which a program shuts both directions down.
const ACTS_WITH_SHUTDOWN: [Act; 5] =
    [Act::Write { count: 3 }, Act::Read, Act::ShutDown, Act::Close { aborts: false }, Act::Deliver];

impl Side {
    fn new(end: Option<End>) -> Side {
        let (is_closed, is_shut, has_ended, is_reset) = (false, false, false, false);
        Side { end, is_closed, is_shut, written: 0, read: 0, has_ended, is_reset }
    }
}

impl World {
    fn new(family: Family) -> World {
        let mut world = World {
            family,
            sides: [Side::new(Some(End::connect(family, CAPACITY))), Side::new(None)],
            under_way: [VecDeque::new(), VecDeque::new()],
        };
        world.pump(0);
        world
    }

    /// Sends what an end says, and forgets the end if nobody needs it.
    fn pump(&mut self, side: usize) {
        let Some(end) = &mut self.sides[side].end else { return };
        self.under_way[1 - side].extend(end.take_out());
        if end.is_done() {
            self.sides[side].end = None;
        }
        self.check_room(side);
    }

    /// No more is under way than the receiver has room for, unless a Unix socket was closed.
    fn check_room(&self, from: usize) {
        if self.family == Family::Unix && self.sides[from].is_closed {
            return;
        }
        let arrived = self.sides[1 - from].end.as_ref().map_or(0, End::arrived_bytes);
        let lengths = self.under_way[1 - from].iter().map(|kind| match kind {
            Kind::Data(bytes) => bytes.len(),
            _ => 0,
        });
        assert!(arrived + lengths.sum::<usize>() <= CAPACITY);
    }

    fn deliver(&mut self, to: usize, accepts: bool) {
        let Some(kind) = self.under_way[to].pop_front() else { return };
        match (&mut self.sides[to].end, kind) {
            (_, Kind::Connect) if !accepts => self.under_way[1 - to].push_back(Kind::Refuse),
            (end, Kind::Connect) => *end = Some(End::accept(self.family, CAPACITY)),
            (Some(end), kind) if !end.is_over() => drop(end.receive(kind)),
            (_, Kind::Reset | Kind::Refuse | Kind::Room { .. }) => {}
            _ => self.under_way[1 - to].push_back(Kind::Reset),
        }
        self.pump(to);
    }

    /// Whether an act does anything; `false` if it can do nothing now.
    fn act(&mut self, at: usize, act: Act) -> bool {
        match act {
            Act::Deliver => {
                let is_some = !self.under_way[at].is_empty();
                self.deliver(at, true);
                return is_some;
            }
            Act::Refuse => {
                let asks = self.under_way[at].front() == Some(&Kind::Connect);
                if asks {
                    self.deliver(at, false);
                }
                return asks;
            }
            _ => {}
        }
        let side = &mut self.sides[at];
        let Some(end) = side.end.as_mut().filter(|_| !side.is_closed) else { return false };
        match act {
            Act::Write { count } => {
                let last = (side.written + count).min(BYTES);
                let bytes: Vec<u8> = (side.written..last).collect();
                match end.write(&bytes) {
                    Ok(Some(count)) => {
                        side.written += count as u8;
                    }
                    Ok(None) => return false,
                    Err(_) => side.is_reset |= end.is_over(),
                }
            }
            Act::Read => match end.first(1) {
                Ok(Some(bytes)) if bytes.is_empty() => side.has_ended = true,
                Ok(Some(bytes)) => {
                    assert!(!side.has_ended, "a stream goes on behind its end");
                    assert_eq!(bytes, [side.read], "a byte is lost, repeated or in disorder");
                    side.read += 1;
                    end.remove(1);
                }
                Ok(None) => return false,
                Err(_) => side.is_reset = true,
            },
            Act::GiveRoom => end.give_room(),
            Act::Finish => end.finish(),
            Act::ShutDown => return self.shut_down(at),
            Act::Close { aborts } => {
                end.close(aborts);
                side.is_closed = true;
                self.pump(at);
                return true;
            }
            Act::Deliver | Act::Refuse => {}
        }
        self.pump(at);
        true
    }

    /// Shuts both directions down.
    fn shut_down(&mut self, at: usize) -> bool {
        let side = &mut self.sides[at];
        let is_open = |end: &&mut End| !end.is_connecting() && !end.is_over();
        let Some(end) = side.end.as_mut().filter(is_open) else { return false };
        if std::mem::replace(&mut side.is_shut, true) {
            return false;
        }
        end.stop_reading();
        end.finish();
        self.pump(at);
        true
    }

    /// Whether bytes that a side writes to one that has shut both directions down end the connection.
    fn ends_by_writing(&self, at: usize) -> bool {
        let mut world = self.clone();
        let Some(end) = &mut world.sides[at].end else { return true };
        let _ = end.write(&[0]);
        world.pump(at);
        world.settle();
        world.sides[at].end.as_ref().is_none_or(End::is_written_out)
    }

    /// Delivers and reads until nothing changes.
    fn settle(&mut self) {
        loop {
            let before = self.clone();
            for at in [0, 1] {
                while !self.under_way[at].is_empty() {
                    self.deliver(at, true);
                }
                self.act(at, Act::Read);
            }
            if *self == before {
                return;
            }
        }
    }

    /// What has to be so when programs read what arrives and do nothing else any more.
    fn check(&self) {
        let mut world = self.clone();
        world.settle();
        for at in [0, 1] {
            let (side, other) = (&world.sides[at], &world.sides[1 - at]);
            let is_whole = [side, other].iter().all(|side| !side.is_closed && !side.is_reset);
            let is_over = |side: &Side| side.end.as_ref().is_none_or(End::is_over);
            if is_whole && !is_over(side) && !is_over(other) {
                assert_eq!(side.written, other.read, "bytes stay under way");
            }
            if other.is_closed && !side.is_closed && side.end.is_some() {
                let mut nobody = world.clone();
                assert!(nobody.act(at, Act::Read), "a reader waits for one that has closed");
                let waits = !nobody.act(at, Act::Write { count: 1 });
                assert!(!waits, "a writer waits for one that has closed");
                let is_whole = self.family == Family::Inet || side.read == other.written;
                assert!(is_whole, "a Unix socket loses bytes when it is closed");
            }
            if other.is_shut && !side.is_closed {
                assert!(world.ends_by_writing(at), "bytes go to one that neither reads nor writes");
            }
        }
        for at in [0, 1] {
            world.act(at, Act::Close { aborts: false });
        }
        world.settle();
        for side in &world.sides {
            assert!(side.end.is_none(), "an end is left over when both are closed");
        }
    }
}

/// Visits all states that two ends can come to. Returns their number, and in how many both streams had ended with all
/// bytes.
fn walk(family: Family, acts: &[Act]) -> (usize, usize) {
    let mut known = HashSet::new();
    let mut left = vec![World::new(family)];
    let mut ended = 0;
    while let Some(world) = left.pop() {
        if !known.insert(world.clone()) {
            continue;
        }
        world.check();
        ended += usize::from(world.sides.iter().all(|side| side.has_ended && side.read == BYTES));
        for at in [0, 1] {
            for &act in acts {
                let mut next = world.clone();
                if next.act(at, act) {
                    left.push(next);
                }
            }
        }
    }
    (known.len(), ended)
}

#[test]
fn two_ends_of_tcp_lose_nothing_and_leave_nobody_waiting() {
    let (states, ended) = walk(Family::Inet, &ACTS);
    println!("{states} states, {ended} ended");
    assert!(states > 10_000 && ended > 0);
}

#[test]
fn two_ends_of_unix_sockets_lose_nothing_and_leave_nobody_waiting() {
    let (states, ended) = walk(Family::Unix, &ACTS);
    println!("{states} states, {ended} ended");
    assert!(states > 10_000 && ended > 0);
}

#[test]
fn tcp_refuses_bytes_when_both_directions_are_shut_down() {
    let (states, ended) = walk(Family::Inet, &ACTS_WITH_SHUTDOWN);
    println!("{states} states, {ended} ended");
    assert!(states > 10_000 && ended > 0);
}

#[test]
fn buffers_hold_no_more_than_their_capacity() {
    let mut end = End::paired(Family::Inet, CAPACITY);
    assert_eq!(end.write(b"abcde"), Ok(Some(CAPACITY)));
    assert_eq!(end.take_out(), [Kind::Data(b"ab".to_vec())], "the other end has room");
    assert_eq!(end.write(b"cde"), Ok(Some(CAPACITY)));
    assert_eq!(end.write(b"e"), Ok(None));
    assert!(end.take_out().is_empty(), "it has no more");
}

#[test]
fn bytes_stay_until_they_are_removed() {
    let mut end = End::paired(Family::Inet, 4);
    end.receive(Kind::Data(b"abc".to_vec()));
    assert_eq!(end.first(2), Ok(Some(b"ab".to_vec())));
    assert_eq!(end.first(4), Ok(Some(b"abc".to_vec())));
    end.remove(1);
    assert!(end.take_out().is_empty(), "less than half is read");
    end.give_room();
    assert_eq!(end.take_out(), [Kind::Room { bytes: 1 }]);
    assert_eq!(end.first(4), Ok(Some(b"bc".to_vec())));
}
