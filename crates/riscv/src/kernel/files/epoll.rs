//! `epoll`: descriptors that are watched over many calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::polling::{ERR, HUP};
use super::table::{CLOEXEC, Open, OpenFile, READ_WRITE, device};
use super::{Context, Errno, Files, Result};
use crate::kernel::Kind;

const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;

/// Bytes of `struct epoll_event`, which is not packed on RISC-V.
const EVENT_BYTES: u64 = 16;

/// A descriptor that is watched.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Interest {
    /// The open file behind the descriptor: a closed one is not watched any more.
    pub file: u32,
    events: u32,
    data: u64,
    /// Events that were reported and are still there, of an interest in changes.
    seen: u32,
}

/// Interests by descriptor.
pub(super) type Interests = BTreeMap<u32, Interest>;

impl Files {
    /// `epoll_create1`.
    pub(super) fn new_epoll(&mut self, flags: u64) -> Result {
        if flags & !CLOEXEC != 0 {
            return Err(Errno::INVAL);
        }
        let open = Open::Epoll(Interests::new());
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
        let key = descriptor as u32;
        let file = self.table.slot(descriptor)?.file;
        match self.table.get(descriptor)? {
            // Chains of them could be rings.
            Open::Epoll(_) => return Err(Errno::INVAL),
            open if !open.can_be_watched() => return Err(Errno::PERM),
            _ => {}
        }
        let epoll = self.named(context, epoll)?;
        let is_known = self.interests(epoll)?.get(&key).is_some_and(|known| known.file == file);
        let interest = match operation {
            REMOVE => None,
            _ => {
                let events = context.read_u32(event)?;
                let data = context.read_u64(event.wrapping_add(8))?;
                Some(Interest { file, events, data, seen: 0 })
            }
        };
        let interests = self.interests(epoll)?;
        match (operation, interest) {
            (ADD, _) if is_known => return Err(Errno::EXIST),
            (REMOVE | CHANGE, _) if !is_known => return Err(Errno::NOENT),
            (ADD | CHANGE, Some(interest)) => drop(interests.insert(key, interest)),
            (REMOVE, _) => drop(interests.remove(&key)),
            _ => return Err(Errno::INVAL),
        }
        context.has_changed = true;
        Ok(0)
    }

    /// Up to `most` events of an open file of `epoll`: events and data. Notes them as reported.
    fn take_events(&mut self, epoll: u32, most: usize, takes: bool) -> Result<Vec<(u32, u64)>> {
        let interests: Vec<(u32, Interest)> =
            self.interests(epoll)?.iter().map(|(&key, &interest)| (key, interest)).collect();
        let mut found = Vec::new();
        for (key, mut interest) in interests {
            let is_open = self.table.slot(key.into()).is_ok_and(|slot| slot.file == interest.file);
            if !is_open {
                self.interests(epoll)?.remove(&key);
                continue;
            }
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
                self.interests(epoll)?.insert(key, interest);
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
            for interest in interests.values_mut().filter(|one| one.file == pipe_or_event) {
                interest.seen = 0;
            }
        });
    }
}
