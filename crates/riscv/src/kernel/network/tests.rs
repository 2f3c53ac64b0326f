//! Every order of what two ends of a connection do and of what arrives, with buffers of two bytes; also of a connection
//! that follows another one between the same ports while segments of that are under way.

use std::collections::{HashSet, VecDeque};

use super::end::{End, Family, Route};
use super::{Connection, Kind};

/// Bytes of a buffer.
const CAPACITY: usize = 2;

/// Bytes that each program writes.
const BYTES: u8 = 3;

const FIRST: Connection = Connection { node: 0, count: 0 };
const SECOND: Connection = Connection { node: 0, count: 1 };

/// The first byte that programs write by the second connection: more than any of the first.
const SECOND_BYTES: u8 = 100;

/// A program with one end of a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Side {
    /// Before the connection is accepted, and after it is forgotten, there is none.
    end: Option<End>,
    is_closed: bool,
    /// The program has shut both directions down.
    is_shut: bool,
    /// The next byte that it writes, and that it reads.
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
    under_way: [VecDeque<(Connection, Kind)>; 2],
    /// The connection that the first side has asked for.
    connection: Connection,
    is_refused: bool,
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
    /// The side that has asked does so again, by another connection.
    AskAgain,
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

/// Those with which connections follow each other.
const ACTS_AGAIN: [Act; 7] = [
    Act::Write { count: 3 },
    Act::Read,
    Act::Finish,
    Act::Close { aborts: false },
    Act::Close { aborts: true },
    Act::Deliver,
    Act::AskAgain,
];

impl Side {
    fn new(end: Option<End>) -> Side {
        let (is_closed, is_shut, has_ended, is_reset) = (false, false, false, false);
        let is_second = end.as_ref().is_some_and(|end| end.connection() == SECOND);
        let first = if is_second { SECOND_BYTES } else { 0 };
        Side { end, is_closed, is_shut, written: first, read: first, has_ended, is_reset }
    }

    /// Whether it has read all that the other side writes by a connection, and the end of that.
    fn has_all(&self, connection: Connection) -> bool {
        let first = if connection == SECOND { SECOND_BYTES } else { 0 };
        self.has_ended && self.read == first + BYTES
    }
}

impl World {
    fn new(family: Family) -> World {
        let mut world = World {
            family,
            sides: [Side::new(Some(End::connect(FIRST, family, CAPACITY))), Side::new(None)],
            under_way: [VecDeque::new(), VecDeque::new()],
            connection: FIRST,
            is_refused: false,
        };
        world.pump(0);
        world
    }

    /// Sends what an end says, and forgets the end if nobody needs it.
    fn pump(&mut self, side: usize) {
        let Some(end) = &mut self.sides[side].end else { return };
        let connection = end.connection();
        self.under_way[1 - side].extend(end.take_out().into_iter().map(|kind| (connection, kind)));
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
        let Some(connection) = self.sides[from].end.as_ref().map(End::connection) else { return };
        let is_other = |end: &&End| end.connection() == connection;
        let other = self.sides[1 - from].end.as_ref().filter(is_other);
        let arrived = other.map_or(0, End::arrived_bytes);
        let lengths = self.under_way[1 - from].iter().map(|(of, kind)| match kind {
            Kind::Data(bytes) if *of == connection => bytes.len(),
            _ => 0,
        });
        assert!(arrived + lengths.sum::<usize>() <= CAPACITY);
    }

    fn deliver(&mut self, to: usize, accepts: bool) {
        let Some((connection, kind)) = self.under_way[to].pop_front() else { return };
        let end = &mut self.sides[to].end;
        match (Route::of(end.as_ref(), connection, &kind), end) {
            (Route::Asks, _) if !accepts => {
                self.is_refused = true;
                self.under_way[1 - to].push_back((connection, Kind::Refuse));
            }
            (Route::Asks, end) => {
                // The program of the earlier connection is not looked at any more.
                end.as_mut().map(End::make_room);
                self.pump(to);
                let end = End::accept(connection, self.family, CAPACITY);
                self.sides[to] = Side::new(Some(end));
            }
            (Route::Known, Some(end)) => drop(end.receive(kind)),
            (Route::Unknown, _) => self.under_way[1 - to].push_back((connection, Kind::Reset)),
            _ => {}
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
                let asks = matches!(self.under_way[at].front(), Some((_, Kind::Connect)));
                if asks {
                    self.deliver(at, false);
                }
                return asks;
            }
            Act::AskAgain => return self.ask_again(at),
            _ => {}
        }
        let side = &mut self.sides[at];
        let Some(end) = side.end.as_mut().filter(|_| !side.is_closed) else { return false };
        match act {
            Act::Write { count } => {
                let last =
                    (side.written + count).min(side.written / SECOND_BYTES * SECOND_BYTES + BYTES);
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
            Act::Deliver | Act::Refuse | Act::AskAgain => {}
        }
        self.pump(at);
        true
    }

    /// Has the side that has asked ask again, from the same port, when the node has forgotten the first connection.
    fn ask_again(&mut self, at: usize) -> bool {
        let has_end = self.sides[at].end.as_ref().is_some_and(|end| !end.is_over());
        if at != 0 || has_end || self.connection == SECOND {
            return false;
        }
        self.connection = SECOND;
        self.sides[0] = Side::new(Some(End::connect(SECOND, self.family, CAPACITY)));
        self.pump(0);
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
        let is_over = |side: &Side| side.end.as_ref().is_none_or(End::is_over);
        let is_disturbed =
            world.is_refused || world.sides.iter().any(|side| side.is_closed || side.is_shut);
        let ends = world.sides.iter().any(is_over);
        assert!(is_disturbed || !ends, "a connection ends that nobody has ended");
        for at in [0, 1] {
            let (side, other) = (&world.sides[at], &world.sides[1 - at]);
            let is_whole = [side, other].iter().all(|side| !side.is_closed && !side.is_reset);
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

/// Visits all states that two ends can come to. Returns their number, and in how many both streams of the last
/// connection that `acts` have had ended with all bytes.
fn walk(family: Family, acts: &[Act]) -> (usize, usize) {
    let mut known = HashSet::new();
    let mut left = vec![World::new(family)];
    let mut ended = 0;
    while let Some(world) = left.pop() {
        if !known.insert(world.clone()) {
            continue;
        }
        world.check();
        let last = if acts.contains(&Act::AskAgain) { SECOND } else { FIRST };
        ended += usize::from(world.sides.iter().all(|side| side.has_all(last)));
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
fn a_connection_has_nothing_of_the_one_before() {
    let (states, ended) = walk(Family::Inet, &ACTS_AGAIN);
    println!("{states} states, {ended} ended");
    assert!(states > 10_000 && ended > 0);
}

#[test]
fn buffers_hold_no_more_than_their_capacity() {
    let mut end = End::paired(FIRST, Family::Inet, CAPACITY);
    assert_eq!(end.write(b"abcde"), Ok(Some(CAPACITY)));
    assert_eq!(end.take_out(), [Kind::Data(b"ab".to_vec())], "the other end has room");
    assert_eq!(end.write(b"cde"), Ok(Some(CAPACITY)));
    assert_eq!(end.write(b"e"), Ok(None));
    assert!(end.take_out().is_empty(), "it has no more");
}

#[test]
fn bytes_stay_until_they_are_removed() {
    let mut end = End::paired(FIRST, Family::Inet, 4);
    end.receive(Kind::Data(b"abc".to_vec()));
    assert_eq!(end.first(2), Ok(Some(b"ab".to_vec())));
    assert_eq!(end.first(4), Ok(Some(b"abc".to_vec())));
    end.remove(1);
    assert!(end.take_out().is_empty(), "less than half is read");
    end.give_room();
    assert_eq!(end.take_out(), [Kind::Room { bytes: 1 }]);
    assert_eq!(end.first(4), Ok(Some(b"bc".to_vec())));
}
