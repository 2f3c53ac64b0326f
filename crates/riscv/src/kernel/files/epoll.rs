//! `epoll`: descriptors that are watched over many calls.

use serde::{Deserialize, Serialize};

use super::polling::{ERR, HUP};
use super::table::{CLOEXEC, Open, OpenFile, READ_WRITE, device};
use super::{Context, Errno, Files, Result};
use crate::kernel::Kind;
use crate::kernel::saved::{Checked, require};

const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;

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
        let file = self.table.slot(descriptor)?.file;
        match self.table.get(descriptor)? {
            // Chains of them could be rings.
            Open::Epoll(_) => return Err(Errno::INVAL),
            open if !open.can_be_watched() => return Err(Errno::PERM),
            _ => {}
        }
        let epoll = self.named(context, epoll)?;
        let place = self.interests(epoll)?.place((descriptor as u32, file));
        let interest = match operation {
            REMOVE => None,
            _ => {
                let events = context.read_u32(event)?;
                let data = context.read_u64(event.wrapping_add(8))?;
                Some(Interest { descriptor: descriptor as u32, file, events, data, seen: 0 })
            }
        };
        let Interests(interests) = self.interests(epoll)?;
        match (operation, place, interest) {
            (ADD, Ok(_), _) => return Err(Errno::EXIST),
            (ADD, Err(at), Some(interest)) => interests.insert(at, interest),
            (REMOVE | CHANGE, Err(_), _) => return Err(Errno::NOENT),
            (CHANGE, Ok(at), Some(interest)) => interests[at] = interest,
            (REMOVE, Ok(at), _) => drop(interests.remove(at)),
            _ => return Err(Errno::INVAL),
        }
        context.has_changed = true;
        Ok(0)
    }

    /// Up to `most` events of an open file of `epoll`: events and data. Notes them as reported.
    fn take_events(&mut self, epoll: u32, most: usize, takes: bool) -> Result<Vec<(u32, u64)>> {
        let mut found = Vec::new();
        for at in 0..self.interests(epoll)?.0.len() {
            let mut interest = self.interests(epoll)?.0[at];
            let ready = self.ready(interest.file)? & (interest.events | ERR | HUP);
            let is_edge = interest.events & EDGE != 0;
            let fresh = if is_edge { ready & !interest.seen } else { ready };
            interest.seen &= ready;
            if fresh != 0 && found.len() < most {
                found.push((ready, interest.data));
                interest.seen = ready;
                if interest.events & ONE_SHOT != 0 {
                    interest.events = ONE_SHOT;
                }
            }
            if takes {
                self.interests(epoll)?.0[at] = interest;
            }
        }
        Ok(found)
    }

    pub(super) fn has_events(&mut self, epoll: u32) -> Result<bool> {
        Ok(!self.take_events(epoll, 1, false)?.is_empty())
    }

    /// `epoll_pwait` and, with a `struct timespec`, `epoll_pwait2`.
    pub(super) fn wait_for_events(&mut self, context: &mut Context<'_>, is_second: bool) -> Result {
        let [epoll, to, most, timeout, ..] = context.args();
        let most = most as i32;
        if most <= 0 {
            return Err(Errno::INVAL);
        }
        let epoll = self.named(context, epoll)?;
        let found = self.take_events(epoll, most as usize, true)?;
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

    /// Something was written or read: interests in changes report it again.
    pub(super) fn note_change(&mut self, pipe_or_event: u32) {
        self.table.for_each_epoll(|interests| {
            for interest in interests.0.iter_mut().filter(|one| one.file == pipe_or_event) {
                interest.seen = 0;
            }
        });
    }
}
