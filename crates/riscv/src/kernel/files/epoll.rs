//! `epoll`: descriptors that are watched over many calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::polling::{ERR, HUP, IN, OUT};
use super::table::{CLOEXEC, Open, OpenFile, READ_WRITE, Table, device};
use super::{Context, Errno, Files, Result};
use crate::kernel::Kind;
use crate::kernel::saved::{Checked, require};

/// One of several that watch a file is enough to be woken.
const EXCLUSIVE: u32 = 1 << 28;
const WAKE_UP: u32 = 1 << 29;
const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;

/// Of the bits of an interest, those that are no events.
const NO_EVENTS: u32 = EXCLUSIVE | WAKE_UP | ONE_SHOT | EDGE;

/// Of `epoll` that watches `epoll`: levels below the first one, at most.
const MOST_NESTED: usize = 4;

/// Bytes of `struct epoll_event`, which is not packed on RISC-V.
const EVENT_BYTES: u64 = 16;

/// A descriptor that is watched, and the open file that it stood for then. As on Linux it is watched until that file is
/// closed, which another descriptor may outlive.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Interest {
    descriptor: u32,
    pub file: u32,
    events: u32,
    data: u64,
    /// Its place in the row of those at which the next call looks, smaller than that of the next one; `None` if it is
    /// not in the row, as nothing has happened to its file since it was reported.
    turn: Option<u64>,
    /// Larger than that of every interest that was there before it.
    number: u64,
}

/// Interests in the order of their descriptors and files.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Interests(Vec<Interest>);

/// Places in a row, and numbers of interests, are below; a program takes longer than a life to get there.
const LAST: u64 = 1 << 62;

impl Interests {
    /// Checks what was read: `can_be_watched` says so of the number of an open file.
    pub(super) fn check(&self, can_be_watched: impl Fn(u32) -> bool) -> Checked {
        require(self.0.is_sorted_by(|one, next| one.key() < next.key()), || {
            "open: has an interest twice, or not in order".to_owned()
        })?;
        self.0.iter().try_for_each(|interest| {
            require(can_be_watched(interest.file), || {
                let Interest { descriptor, file, .. } = interest;
                format!("open.{descriptor}.file: {file} cannot be watched")
            })?;
            require(interest.turn.unwrap_or(0).max(interest.number) < LAST, || {
                format!("open.{}: its turn and number must be below {LAST}", interest.descriptor)
            })
        })
    }

    /// The place behind all in the row.
    fn next_turn(&self) -> u64 {
        self.0.iter().filter_map(|interest| interest.turn).max().map_or(0, |last| last + 1)
    }

    /// The number of a new interest.
    fn next_number(&self) -> u64 {
        self.0.iter().map(|interest| interest.number).max().map_or(0, |last| last + 1)
    }

    /// The interests in the row, in their order there.
    fn row(&self) -> Vec<usize> {
        let mut row: Vec<usize> =
            (0..self.0.len()).filter(|&at| self.0[at].turn.is_some()).collect();
        row.sort_by_key(|&at| self.0[at].turn);
        row
    }

    /// Puts interests into the row to whose files something has happened: one of these events, or anything if they are
    /// 0. As on Linux, the last that was added is the first. Returns whether there are any.
    fn note(&mut self, files: &Level, events: u32) -> bool {
        let is_noted = |interest: &&mut Interest| {
            let is_awaited = events == 0 || interest.events & events != 0;
            files.contains(&interest.file) && interest.is_enabled() && is_awaited
        };
        let first = self.next_turn();
        let mut noted: Vec<&mut Interest> = self.0.iter_mut().filter(is_noted).collect();
        noted.sort_by_key(|interest| Reverse(interest.number));
        for (turn, interest) in (first..).zip(&mut noted) {
            interest.turn.get_or_insert(turn);
        }
        !noted.is_empty()
    }

    /// The place of an interest, or the one that it would have.
    fn place(&self, key: (u32, u32)) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, Interest::key)
    }

    pub(super) fn has_any(&self, files: &BTreeSet<u32>) -> bool {
        self.0.iter().any(|interest| files.contains(&interest.file))
    }

    /// A file is closed.
    pub(super) fn forget(&mut self, file: u32) {
        self.0.retain(|interest| interest.file != file);
    }
}

impl Interest {
    const fn key(&self) -> (u32, u32) {
        (self.descriptor, self.file)
    }

    /// Whether it has not been reported as the only time.
    const fn is_enabled(&self) -> bool {
        self.events & !NO_EVENTS != 0
    }

    /// Whether it is one in changes.
    const fn is_edge(&self) -> bool {
        self.events & EDGE != 0
    }
}

impl Files {
    /// `epoll_create1`.
    pub(super) fn new_epoll(&mut self, flags: u64) -> Result {
        if flags & !CLOEXEC != 0 {
            return Err(Errno::INVAL);
        }
        let open = Open::Epoll(Interests::default());
        let file = OpenFile { open, flags: READ_WRITE, status: device(Kind::Device) };
        self.table.add(file, flags != 0)
    }

    /// The interests of an open `epoll`.
    fn interests(&mut self, epoll: u32) -> Result<&mut Interests> {
        match &mut self.table.by_number(epoll)?.open {
            Open::Epoll(interests) => Ok(interests),
            _ => Err(Errno::INVAL),
        }
    }

    /// `epoll_ctl`.
    pub(super) fn watch(&mut self, context: &mut Context<'_>) -> Result {
        const ADD: u64 = 1;
        const REMOVE: u64 = 2;
        const CHANGE: u64 = 3;
        let [epoll, operation, descriptor, event, ..] = context.args();
        let described = match operation as u32 as u64 {
            REMOVE => None,
            _ => Some((context.read_u32(event)?, context.read_u64(event.wrapping_add(8))?)),
        };
        let epoll = self.named(context, epoll)?;
        let file = self.table.slot(descriptor)?.file;
        if !self.table.get(descriptor)?.can_be_watched() {
            return Err(Errno::PERM);
        }
        let place = self.interests(epoll)?.place((descriptor as u32, file));
        let nests = matches!(self.table.get(descriptor)?, Open::Epoll(_));
        if file == epoll {
            return Err(Errno::INVAL);
        }
        let is_exclusive = |events: u32| events & EXCLUSIVE != 0;
        if let Some((events, _)) = described.filter(|&(events, _)| is_exclusive(events)) {
            let allowed = IN | OUT | ERR | HUP | WAKE_UP | EDGE | EXCLUSIVE;
            if operation != ADD || nests || events & !allowed != 0 {
                return Err(Errno::INVAL);
            }
        }
        if operation == ADD && nests {
            self.table.check_nested(epoll, file)?;
        }
        let interest = described.map(|(events, data)| Interest {
            descriptor: descriptor as u32,
            file,
            events: events | ERR | HUP,
            data,
            turn: None,
            number: 0,
        });
        let number = self.interests(epoll)?.next_number();
        let Interests(interests) = self.interests(epoll)?;
        match (operation, place, interest) {
            (ADD, Ok(_), _) => return Err(Errno::EXIST),
            (ADD, Err(at), Some(interest)) => interests.insert(at, Interest { number, ..interest }),
            (REMOVE | CHANGE, Err(_), _) => return Err(Errno::NOENT),
            (CHANGE, Ok(at), _) if is_exclusive(interests[at].events) => return Err(Errno::INVAL),
            (CHANGE, Ok(at), Some(interest)) => {
                let Interest { turn, number, .. } = interests[at];
                interests[at] = Interest { turn, number, ..interest };
            }
            (REMOVE, Ok(at), _) => drop(interests.remove(at)),
            _ => return Err(Errno::INVAL),
        }
        if operation != REMOVE {
            self.begin_watching(epoll, (descriptor as u32, file))?;
        }
        context.has_changed = true;
        Ok(0)
    }

    /// An interest that is new, or has changed, is in the row if its file has an event.
    fn begin_watching(&mut self, epoll: u32, key: (u32, u32)) -> Result<()> {
        let interests = self.interests(epoll)?;
        let Ok(at) = interests.place(key) else { return Ok(()) };
        let (interest, turn) = (interests.0[at], interests.next_turn());
        if interest.turn.is_none() && self.events_of(&interest, &mut Known::new())? != 0 {
            self.interests(epoll)?.0[at].turn = Some(turn);
            self.note_change(epoll, IN);
        }
        Ok(())
    }

    /// Puts those behind the row that have events and are interested in more than changes: nobody has noted these.
    fn complete_row(&mut self, epoll: u32, known: &mut Known) -> Result<()> {
        let mut turn = self.interests(epoll)?.next_turn();
        for at in 0..self.interests(epoll)?.0.len() {
            let interest = self.interests(epoll)?.0[at];
            let is_missing = interest.turn.is_none() && !interest.is_edge();
            if is_missing && self.events_of(&interest, known)? != 0 {
                self.interests(epoll)?.0[at].turn = Some(turn);
                turn += 1;
            }
        }
        Ok(())
    }

    /// Writes up to `most` events of an open file of `epoll` to user memory; returns their count. As on Linux,
    /// interests that were reported and may be so again go to the end of the row, and one whose event cannot be written
    /// stays where it is: that is an error if it is the first event.
    fn report_events(
        &mut self,
        context: &mut Context<'_>,
        epoll: u32,
        (to, most): (u64, u64),
    ) -> Result {
        let (mut count, mut again) = (0, Vec::new());
        let mut known = Known::new();
        self.complete_row(epoll, &mut known)?;
        for at in self.interests(epoll)?.row() {
            if count == most {
                break;
            }
            let mut interest = self.interests(epoll)?.0[at];
            let ready = self.events_of(&interest, &mut known)?;
            interest.turn = None;
            if ready != 0 {
                let words = [u64::from(ready), interest.data];
                match context.write_words(to.wrapping_add(EVENT_BYTES * count), &words) {
                    Err(errno) if count == 0 => return Err(errno),
                    Err(_) => break,
                    Ok(()) => count += 1,
                }
                if interest.events & ONE_SHOT != 0 {
                    interest.events &= NO_EVENTS;
                } else if !interest.is_edge() {
                    again.push(at);
                }
            }
            self.interests(epoll)?.0[at] = interest;
        }
        let interests = self.interests(epoll)?;
        for (turn, at) in (interests.next_turn()..).zip(again) {
            interests.0[at].turn = Some(turn);
        }
        Ok(count)
    }

    /// Events of an interest that are there.
    fn events_of(&mut self, interest: &Interest, known: &mut Known) -> Result<u32> {
        Ok(self.ready_within(interest.file, known)? & interest.events)
    }

    /// Whether an `epoll` has an event. As on Linux, those before the first that has one leave the row.
    pub(super) fn has_events(&mut self, epoll: u32, known: &mut Known) -> Result<bool> {
        if let Some(&answer) = known.get(&epoll) {
            return Ok(answer);
        }
        self.complete_row(epoll, known)?;
        let mut answer = false;
        for at in self.interests(epoll)?.row() {
            let interest = self.interests(epoll)?.0[at];
            if self.events_of(&interest, known)? != 0 {
                answer = true;
                break;
            }
            self.interests(epoll)?.0[at].turn = None;
        }
        known.insert(epoll, answer);
        Ok(answer)
    }

    /// `epoll_pwait` and, with a `struct timespec`, `epoll_pwait2`.
    pub(super) fn wait_for_events(&mut self, context: &mut Context<'_>, is_second: bool) -> Result {
        let [epoll, to, most, timeout, ..] = context.args();
        let most = most as i32;
        if most <= 0 {
            return Err(Errno::INVAL);
        }
        let epoll = self.named(context, epoll)?;
        match self.report_events(context, epoll, (to, most as u64))? {
            0 if is_second => context.wait_for(timeout),
            0 => {
                let milliseconds = u64::try_from(timeout as i32).ok();
                context.wait_ns(milliseconds.map(|count| count * 1_000_000))
            }
            count => Ok(count),
        }
    }

    /// One of these events has happened to a file, or anything if they are 0: interests in it look at it, and those in
    /// an `epoll` that has one.
    pub(super) fn note_change(&mut self, changed: u32, mut events: u32) {
        let mut level = Level::from([changed]);
        while !level.is_empty() {
            level = self.table.note_interests(&level, events);
            events = IN;
        }
    }
}

/// Open files, some of them `epoll`: as many steps from another one.
type Level = BTreeSet<u32>;

/// Of each `epoll` that was asked, whether it has an event.
pub(super) type Known = BTreeMap<u32, bool>;

impl Table {
    /// Has interests in these files look at them; returns the numbers of their `epoll`.
    fn note_interests(&mut self, files: &Level, events: u32) -> Level {
        let mut noted = Level::new();
        for (&number, file) in self.files_with_numbers() {
            if let Open::Epoll(interests) = &mut file.open
                && interests.note(files, events)
            {
                noted.insert(number);
            }
        }
        noted
    }

    /// How many levels of `epoll` are below an open file; `None` if there are too many, as in a ring.
    pub(super) fn epoll_depth(&self, file: u32) -> Option<usize> {
        let depth = self.levels(file, Table::below).count() - 1;
        (depth <= MOST_NESTED + 1).then_some(depth)
    }

    /// An open file, then the `epoll` that are a step further each time. Rings are left after some steps.
    fn levels(
        &self,
        file: u32,
        step: impl Fn(&Table, &Level) -> Level,
    ) -> impl Iterator<Item = Level> {
        let next = move |level: &Level| Some(step(self, level)).filter(|level| !level.is_empty());
        std::iter::successors(Some(Level::from([file])), next).take(MOST_NESTED + 3)
    }

    /// The `epoll` that one of these watches.
    fn below(&self, level: &Level) -> Level {
        let interests = level.iter().filter_map(|&file| self.interests_of(file));
        let files = interests.flat_map(|Interests(interests)| interests.iter().map(|it| it.file));
        files.filter(|&file| self.interests_of(file).is_some()).collect()
    }

    /// That one `epoll` may watch another one: no ring comes of it, and no long chain.
    fn check_nested(&self, epoll: u32, watched: u32) -> Result<()> {
        let height = self.levels(epoll, Table::watching).count() - 1;
        let depth = self.levels(watched, Table::below).count() - 1;
        let mut below = self.levels(watched, Table::below);
        match below.any(|level| level.contains(&epoll)) || height + 1 + depth > MOST_NESTED {
            true => Err(Errno::LOOP),
            false => Ok(()),
        }
    }
}
