//! `epoll`: descriptors that are watched over many calls.

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
    /// Events that were reported and are still there, of an interest in changes.
    seen: u32,
}

/// Interests in the order of their descriptors and files.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Interests(Vec<Interest>);

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
            })
        })
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
            seen: 0,
        });
        let Interests(interests) = self.interests(epoll)?;
        match (operation, place, interest) {
            (ADD, Ok(_), _) => return Err(Errno::EXIST),
            (ADD, Err(at), Some(interest)) => interests.insert(at, interest),
            (REMOVE | CHANGE, Err(_), _) => return Err(Errno::NOENT),
            (CHANGE, Ok(at), _) if is_exclusive(interests[at].events) => return Err(Errno::INVAL),
            (CHANGE, Ok(at), Some(interest)) => interests[at] = interest,
            (REMOVE, Ok(at), _) => drop(interests.remove(at)),
            _ => return Err(Errno::INVAL),
        }
        context.has_changed = true;
        Ok(0)
    }

    /// Up to `most` events of an open file of `epoll`: events and data. Notes them as reported.
    fn take_events(&mut self, epoll: u32, most: usize) -> Result<Vec<(u32, u64)>> {
        let mut found = Vec::new();
        let mut known = Known::new();
        for at in 0..self.interests(epoll)?.0.len() {
            let mut interest = self.interests(epoll)?.0[at];
            let (ready, fresh) = self.events_of(&interest, &mut known)?;
            interest.seen &= ready;
            if fresh != 0 && found.len() < most {
                found.push((ready, interest.data));
                interest.seen = ready;
                if interest.events & ONE_SHOT != 0 {
                    interest.events &= NO_EVENTS;
                }
            }
            self.interests(epoll)?.0[at] = interest;
        }
        Ok(found)
    }

    /// Events of an interest that are there, and those that are to be reported.
    fn events_of(&mut self, interest: &Interest, known: &mut Known) -> Result<(u32, u32)> {
        let ready = self.ready_within(interest.file, known)? & interest.events;
        let is_edge = interest.events & EDGE != 0;
        Ok((ready, if is_edge { ready & !interest.seen } else { ready }))
    }

    /// Whether an `epoll` has an event.
    pub(super) fn has_events(&mut self, epoll: u32, known: &mut Known) -> Result<bool> {
        if let Some(&answer) = known.get(&epoll) {
            return Ok(answer);
        }
        let mut answer = false;
        for at in 0..self.interests(epoll)?.0.len() {
            let interest = self.interests(epoll)?.0[at];
            if self.events_of(&interest, known)?.1 != 0 {
                answer = true;
                break;
            }
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
        let found = self.take_events(epoll, most as usize)?;
        for (at, (events, data)) in (0..).zip(&found) {
            let words = [u64::from(*events), *data];
            context.write_words(to.wrapping_add(EVENT_BYTES * at), &words)?;
        }
        match found.len() {
            0 if is_second => context.wait_for(timeout),
            0 => {
                let milliseconds = u64::try_from(timeout as i32).ok();
                context.wait_ns(milliseconds.map(|count| count * 1_000_000))
            }
            count => Ok(count as u64),
        }
    }

    /// Something was written or read: interests in changes report it again, also those in an `epoll` that watches it.
    pub(super) fn note_change(&mut self, changed: u32) {
        let mut level = Level::from([changed]);
        while !level.is_empty() {
            self.table.for_each_epoll(|interests| {
                for interest in interests.0.iter_mut().filter(|one| level.contains(&one.file)) {
                    interest.seen = 0;
                }
            });
            level = self.table.watching(&level);
        }
    }
}

/// Open files, some of them `epoll`: as many steps from another one.
type Level = BTreeSet<u32>;

/// Of each `epoll` that was asked, whether it has an event.
pub(super) type Known = BTreeMap<u32, bool>;

impl Table {
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
