//! Requests that wait: lists through one pool, of all reads, of all writes, and of those of each bank,
//! each in the order of arrival.

use super::Tick;
use super::mapping::Place;
use super::timing::Kind;

/// Number of an entry of the pool.
pub(super) type At = u16;

const NONE: At = At::MAX;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub id: u32,
    pub line: u64,
    pub kind: Kind,
    pub row: u64,
    pub arrival: Tick,
    /// Orders requests by arrival.
    pub stamp: u64,
    pub bank: u16,
    /// A read of the same block came before this write: that one goes first.
    pub held: bool,
    /// The bank's row has been closed for it.
    pub precharged: bool,
    /// Its row has been opened for it.
    pub activated: bool,
    links: [Links; 2],
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
struct Links {
    previous: At,
    next: At,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: At,
    last: At,
}

const UNLINKED: Links = Links { previous: NONE, next: NONE };
const EMPTY: List = List { first: NONE, last: NONE };

/// The kind of list that an entry's links are of.
#[derive(Clone, Copy)]
enum Of {
    All = 0,
    Bank = 1,
}

/// The requests of a channel that wait.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    entries: Vec<Entry>,
    free: Vec<At>,
    /// Of all banks, by kind.
    all: [List; 2],
    /// By kind and bank.
    banks: [Vec<List>; 2],
    lengths: [usize; 2],
    capacities: [usize; 2],
    stamp: u64,
}

impl Queues {
    pub fn new(reads: usize, writes: usize, banks: usize) -> Queues {
        let unused = Entry {
            id: 0,
            line: 0,
            kind: Kind::Read,
            row: 0,
            arrival: 0,
            stamp: 0,
            bank: 0,
            held: false,
            precharged: false,
            activated: false,
            links: [UNLINKED; 2],
        };
        Queues {
            entries: vec![unused; reads + writes],
            free: (0..(reads + writes) as At).rev().collect(),
            all: [EMPTY; 2],
            banks: [vec![EMPTY; banks], vec![EMPTY; banks]],
            lengths: [0; 2],
            capacities: [reads, writes],
            stamp: 0,
        }
    }

    #[inline]
    pub fn len(&self, kind: Kind) -> usize {
        self.lengths[kind.index()]
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lengths == [0; 2]
    }

    #[inline]
    pub fn has_room(&self, kind: Kind) -> bool {
        self.lengths[kind.index()] < self.capacities[kind.index()]
    }

    #[inline]
    pub fn get(&self, at: At) -> &Entry {
        &self.entries[usize::from(at)]
    }

    #[inline]
    pub fn get_mut(&mut self, at: At) -> &mut Entry {
        &mut self.entries[usize::from(at)]
    }

    /// The oldest request of a kind.
    #[inline]
    pub fn oldest(&self, kind: Kind) -> Option<At> {
        some(self.all[kind.index()].first)
    }

    /// The oldest request of a bank.
    #[inline]
    pub fn first(&self, kind: Kind, bank: usize) -> Option<At> {
        some(self.banks[kind.index()][bank].first)
    }

    /// The next younger request of the same kind and bank.
    #[inline]
    pub fn after(&self, at: At) -> Option<At> {
        some(self.get(at).links[Of::Bank as usize].next)
    }

    /// The oldest request of a kind and bank of which `is_it` holds.
    #[inline]
    pub fn find(&self, kind: Kind, bank: usize, is_it: impl Fn(&Entry) -> bool) -> Option<At> {
        let mut next = self.first(kind, bank);
        while let Some(at) = next {
            if is_it(self.get(at)) {
                return Some(at);
            }
            next = self.after(at);
        }
        None
    }

    /// Adds a request as the youngest one; its number.
    ///
    /// # Panics
    /// If there is no room.
    pub fn push(&mut self, id: u32, line: u64, kind: Kind, place: Place, arrival: Tick) -> At {
        assert!(self.has_room(kind), "no room for another {kind:?}");
        let older_read = |entry: &Entry| entry.line == line;
        let held = kind == Kind::Write && self.find(Kind::Read, place.bank, older_read).is_some();
        let at = self.free.pop().expect("as many entries as requests");
        self.stamp += 1;
        self.entries[usize::from(at)] = Entry {
            id,
            line,
            kind,
            row: place.row,
            arrival,
            stamp: self.stamp,
            bank: place.bank as u16,
            held,
            precharged: false,
            activated: false,
            links: [UNLINKED; 2],
        };
        self.link(Of::All, at);
        self.link(Of::Bank, at);
        self.lengths[kind.index()] += 1;
        at
    }

    /// Whether a write has to wait for a read of the same block; younger ones never do.
    #[inline]
    pub fn is_held(&self, entry: &Entry) -> bool {
        let same = |read: &Entry| read.line == entry.line;
        entry.held && self.find(Kind::Read, usize::from(entry.bank), same).is_some()
    }

    pub fn remove(&mut self, at: At) -> Entry {
        self.unlink(Of::All, at);
        self.unlink(Of::Bank, at);
        self.free.push(at);
        let entry = *self.get(at);
        self.lengths[entry.kind.index()] -= 1;
        entry
    }

    #[inline]
    fn list(&mut self, of: Of, at: At) -> &mut List {
        let Entry { kind, bank, .. } = *self.get(at);
        match of {
            Of::All => &mut self.all[kind.index()],
            Of::Bank => &mut self.banks[kind.index()][usize::from(bank)],
        }
    }

    fn link(&mut self, of: Of, at: At) {
        let list = self.list(of, at);
        let last = std::mem::replace(&mut list.last, at);
        if last == NONE {
            list.first = at;
        } else {
            self.get_mut(last).links[of as usize].next = at;
            self.get_mut(at).links[of as usize].previous = last;
        }
    }

    fn unlink(&mut self, of: Of, at: At) {
        let Links { previous, next } = self.get(at).links[of as usize];
        match some(previous) {
            Some(previous) => self.get_mut(previous).links[of as usize].next = next,
            None => self.list(of, at).first = next,
        }
        match some(next) {
            Some(next) => self.get_mut(next).links[of as usize].previous = previous,
            None => self.list(of, at).last = previous,
        }
    }
}

#[inline]
fn some(at: At) -> Option<At> {
    (at != NONE).then_some(at)
}
