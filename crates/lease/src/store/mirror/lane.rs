//! One thread's way to the copies.

use std::time::Instant;

use super::super::queue::Queue;
use super::super::replicas::{MAX_MEMBERS, Verdict};
use super::super::{Lane, MAX_REQUEST_BYTES, Store};
use super::MirrorStore;
use crate::error::{Error, Result};

/// Bytes of writes that are kept until they are answered, to be asked for again if a lender does not.
const LOG_BYTES: usize = 4 << 20;

/// A request, as it can be asked for again.
#[derive(Clone, Copy, Debug)]
enum Op {
    Read,
    /// The bytes begin here in the log.
    Write(usize),
    Discard,
}

/// A request, and as bits the copies that have it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    op: Op,
    offset: u64,
    length: u64,
    members: u32,
}

/// A lane to one copy.
struct Open {
    lane: Box<dyn Lane>,
    /// The life of the member's lanes in which it was opened.
    life: u32,
    is_broken: bool,
}

pub(super) struct MirrorLane {
    store: MirrorStore,
    lanes: [Option<Open>; MAX_MEMBERS],
    /// The store's count of changes at which the lanes were looked at.
    changes: Option<u32>,
    queue: Queue<Asked>,
    log: Vec<u8>,
    /// Writes that were not answered; each is inside of the gate.
    inside: usize,
    /// Something that is outstanding is asked of nobody any more: it comes before all that is asked for later.
    is_behind: bool,
    /// Since when nobody could be reached.
    away_since: Option<Instant>,
    /// The error of the last lane that could not be opened.
    refused: Option<Error>,
    /// Whether some copy was reached. Until then there is nothing to wait for if this process has no descriptor left.
    is_open: bool,
}

impl MirrorLane {
    pub fn open(store: &MirrorStore) -> Result<MirrorLane> {
        let mut lane = MirrorLane {
            store: store.clone(),
            lanes: Default::default(),
            changes: None,
            queue: Queue::new(),
            log: Vec::new(),
            inside: 0,
            is_behind: false,
            away_since: None,
            refused: None,
            is_open: false,
        };
        match lane.reach() {
            Ok(()) | Err(Error::Lost { .. }) => {}
            Err(error) => return Err(error),
        }
        (lane.away_since, lane.is_open) = (None, true);
        Ok(lane)
    }

    /// Opens lanes to copies that became `Live`, and forgets those of copies that are not.
    fn refresh(&mut self) {
        let changes = self.store.0.changes.load(std::sync::atomic::Ordering::Acquire);
        if self.changes == Some(changes) {
            return;
        }
        self.changes = Some(changes);
        let live = self.store.live();
        for member in 0..MAX_MEMBERS {
            let life = self.store.life(member);
            let is_old = self.lanes[member].as_ref().is_some_and(|open| open.life != life);
            if live >> member & 1 == 0 || is_old {
                self.forget(member);
            }
            if live >> member & 1 == 1 && self.lanes[member].is_none() {
                self.open_one(member, life);
            }
        }
    }

    /// Drops the lane to a member: it answers nothing any more.
    fn forget(&mut self, member: usize) {
        if self.lanes[member].take().is_some() {
            self.unask(member);
        }
    }

    /// Marks requests of a member's lane as never to be answered by it.
    fn unask(&mut self, member: usize) {
        for number in 0..self.queue.len() {
            if let Some((.., is_open, asked)) = self.queue.get(number) {
                let members = asked.members & !(1 << member);
                self.is_behind |= is_open && members == 0;
                self.queue.set(number, Asked { members, ..asked });
            }
        }
    }

    fn open_one(&mut self, member: usize, life: u32) {
        let Some(store) = self.store.member(member) else { return };
        match store.lane() {
            Ok(lane) => self.lanes[member] = Some(Open { lane, life, is_broken: false }),
            Err(error) => {
                self.store.failed(member, life, &error);
                // It may be the last one: the next look is for it.
                self.changes = None;
                self.refused = Some(error);
            }
        }
    }

    /// Members that can be asked, as bits.
    fn usable(&self) -> u32 {
        let is_usable = |open: &Option<Open>| open.as_ref().is_some_and(|open| !open.is_broken);
        (0..MAX_MEMBERS)
            .filter(|&member| is_usable(&self.lanes[member]))
            .fold(0, |members, member| members | 1 << member)
            & self.store.live()
    }

    /// Waits until a copy can be asked.
    #[cold]
    fn reach(&mut self) -> Result<()> {
        let since = *self.away_since.get_or_insert_with(Instant::now);
        let mut last = None;
        loop {
            self.store.check_patience(since, last.as_ref())?;
            self.store.fall_back();
            self.refresh();
            for member in 0..MAX_MEMBERS {
                let Some(open) = self.lanes[member].as_mut().filter(|open| open.is_broken) else {
                    continue;
                };
                match open.lane.reopen() {
                    Ok(()) => open.is_broken = false,
                    Err(error) => {
                        self.fail(member, &error);
                        last = Some(error);
                    }
                }
            }
            let refused = self.refused.take();
            if self.usable() != 0 {
                return Ok(());
            }
            last = refused.or(last);
            if let Some(error) =
                last.take_if(|error| !self.is_open && Error::is_at_limit(error.errno()))
            {
                return Err(error);
            }
            self.store.wait(since, last.as_ref());
        }
    }

    /// A member's lane failed.
    #[cold]
    fn fail(&mut self, member: usize, error: &Error) {
        let Some(open) = &mut self.lanes[member] else { return };
        open.is_broken = true;
        let life = open.life;
        match self.store.failed(member, life, error) {
            Verdict::WithoutIt => self.forget(member),
            Verdict::Wait => self.unask(member),
        }
    }

    /// Calls `ask` with a member's lane. Returns whether that succeeded.
    fn with(&mut self, member: usize, ask: impl FnOnce(&mut dyn Lane) -> Result<()>) -> bool {
        let Some(open) = self.lanes[member].as_mut().filter(|open| !open.is_broken) else {
            return false;
        };
        match ask(&mut *open.lane) {
            Ok(()) => true,
            Err(error) => {
                self.fail(member, &error);
                false
            }
        }
    }

    /// Asks one copy for bytes, or all for a change. Returns the members that were asked.
    fn submit(&mut self, asked: &Asked, bytes: Option<&[u8]>) -> u32 {
        self.refresh();
        let mut members = 0;
        let usable = self.usable();
        for member in (0..MAX_MEMBERS).filter(|member| usable >> member & 1 == 1) {
            let log = std::mem::take(&mut self.log);
            let length = asked.length as usize;
            let is_asked = self.with(member, |lane| match asked.op {
                Op::Read => lane.ask_read(asked.offset, length),
                Op::Write(at) => {
                    lane.ask_write(asked.offset, bytes.unwrap_or(&log[at..][..length]))
                }
                Op::Discard => lane.ask_discard(asked.offset, asked.length),
            });
            self.log = log;
            if is_asked {
                members |= 1 << member;
                if matches!(asked.op, Op::Read) {
                    break;
                }
            }
        }
        members
    }

    /// Takes the answers to a change. Whether it is made; else it is to be asked for again.
    fn take_change(&mut self, number: usize, asked: &Asked) -> bool {
        self.queue.set(number, Asked { members: 0, ..*asked });
        let mut answered = 0;
        for member in (0..MAX_MEMBERS).filter(|member| asked.members >> member & 1 == 1) {
            if self.with(member, |lane| lane.take(&mut [])) {
                answered |= 1 << member;
            }
        }
        let is_made = answered != 0 && self.store.note(answered, asked.offset, asked.length);
        if is_made {
            self.leave();
        }
        is_made
    }

    /// A change is made.
    fn leave(&mut self) {
        self.inside -= 1;
        self.store.0.gate.leave();
        if self.inside == 0 {
            self.log.clear();
        }
        self.answered();
    }

    /// Somebody has answered.
    fn answered(&mut self) {
        if self.away_since.take().is_some() {
            self.store.is_reached();
        }
    }

    /// Takes all answers, into the stash; requests without an answer are asked again, in order. No later request has
    /// changed the bytes of a read, see `before_change`.
    fn settle(&mut self) -> Result<()> {
        for number in 0..self.queue.len() {
            self.settle_one(number);
        }
        for number in 0..self.queue.len() {
            while let Some((.., true, asked)) = self.queue.get(number) {
                let members = self.submit(&asked, None);
                self.queue.set(number, Asked { members, ..asked });
                self.settle_one(number);
                if self.usable() == 0 {
                    self.reach_or_end()?;
                }
            }
        }
        self.is_behind = false;
        Ok(())
    }

    /// Takes the copies' answers to a request; without an answer it stays open.
    fn settle_one(&mut self, number: usize) {
        let Some((.., true, asked)) = self.queue.get(number) else { return };
        if !matches!(asked.op, Op::Read) {
            if self.take_change(number, &asked) {
                self.queue.stash(number);
            }
            return;
        }
        let mut bytes = std::mem::take(&mut self.queue.spare);
        bytes.resize(asked.length as usize, 0);
        if self.take_read(&asked, &mut bytes) {
            self.queue.stash(number).copy_from_slice(&bytes);
        }
        self.queue.spare = bytes;
    }

    fn take_read(&mut self, asked: &Asked, into: &mut [u8]) -> bool {
        let member = asked.members.trailing_zeros() as usize;
        let is_taken = member < MAX_MEMBERS && self.with(member, |lane| lane.take(into));
        if is_taken {
            self.answered();
        }
        is_taken
    }

    /// As `reach`; if it fails, it does so for good, and nothing is outstanding any more.
    fn reach_or_end(&mut self) -> Result<()> {
        self.reach().inspect_err(|_| self.end())
    }

    fn end(&mut self) {
        self.queue.clear();
        self.lanes = Default::default();
        for _ in 0..std::mem::take(&mut self.inside) {
            self.store.0.gate.leave();
        }
        self.log.clear();
    }

    /// Asks for something, and waits until somebody can be asked.
    fn ask(&mut self, op: Op, offset: u64, length: u64, bytes: Option<&[u8]>) -> Result<()> {
        if self.store.is_lost() {
            self.end();
            return Err(self.store.error());
        }
        self.refresh();
        if self.is_behind {
            self.settle()?;
        }
        let mut asked = Asked { op, offset, length, members: 0 };
        asked.members = self.submit(&asked, bytes);
        match op {
            Op::Read => self.queue.push_read(offset, length as usize, asked),
            _ => self.queue.push_other(asked),
        }
        if asked.members == 0 {
            self.store.check().inspect_err(|_| self.end())?;
            self.settle()?;
        }
        Ok(())
    }

    /// Before bytes change: reads of them are answered first, for were they made again later, they would see the
    /// change; there is room for the bytes; and nobody synchronises the last pages.
    fn before_change(&mut self, offset: u64, length: u64, logged: usize) -> Result<()> {
        self.store.check_range(offset, length)?;
        if self.queue.has_read_of(offset, length) || self.log.len() + logged > LOG_BYTES {
            self.settle()?;
        }
        if !self.store.0.gate.try_enter() {
            // Our own writes would keep the gate from closing.
            self.settle()?;
            self.store.0.gate.enter();
        }
        self.inside += 1;
        self.store.mark(offset, length);
        Ok(())
    }
}

impl Drop for MirrorLane {
    fn drop(&mut self) {
        // Changes that were asked for are made at all copies, or noted.
        for number in 0..self.queue.len() {
            self.settle_one(number);
        }
        self.end();
    }
}

impl Lane for MirrorLane {
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()> {
        assert!(length <= MAX_REQUEST_BYTES);
        self.store.check_range(offset, length as u64)?;
        self.ask(Op::Read, offset, length as u64, None)
    }

    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        assert!(from.len() <= MAX_REQUEST_BYTES);
        self.before_change(offset, from.len() as u64, from.len())?;
        let at = self.log.len();
        self.log.extend_from_slice(from);
        self.ask(Op::Write(at), offset, from.len() as u64, Some(from))
    }

    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()> {
        self.before_change(offset, length, 0)?;
        self.ask(Op::Discard, offset, length, None)
    }

    fn push(&mut self) -> Result<()> {
        for member in 0..MAX_MEMBERS {
            self.with(member, |lane| lane.push());
        }
        self.store.check().inspect_err(|_| self.end())
    }

    fn take(&mut self, into: &mut [u8]) -> Result<()> {
        if self.queue.len() == 0 {
            return Err(self.store.error());
        }
        let (_, length, is_read, is_open, asked) = self.queue.get(0).expect("it is not empty");
        assert_eq!(into.len(), length, "the buffer has the length of the request");
        let is_there = match (is_open, is_read) {
            (false, _) => true,
            (true, true) => {
                if self.take_read(&asked, into) {
                    return self.queue.take(into, |_, _, _| Ok(()));
                }
                false
            }
            (true, false) => {
                let is_made = self.take_change(0, &asked);
                if is_made {
                    self.queue.stash(0);
                }
                is_made
            }
        };
        if !is_there {
            self.settle()?;
        }
        self.queue.take(into, |_, _, _| Ok(()))
    }

    fn reopen(&mut self) -> Result<()> {
        self.end();
        self.changes = None;
        self.reach()
    }

    fn is_ready(&mut self) -> bool {
        let Some((.., true, asked)) = self.queue.get(0) else { return self.queue.len() > 0 };
        let lanes = self.lanes.iter_mut().enumerate();
        lanes.filter(|(member, _)| asked.members >> member & 1 == 1).all(|(_, open)| {
            open.as_mut().is_none_or(|open| open.is_broken || open.lane.is_ready())
        })
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }
}
