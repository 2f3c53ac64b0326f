//! Copies the pages that a member misses, from one that misses nothing.

use rackmem_fabric::error::Error as Plain;
use std::time::Duration;

use rackmem::shm::mapping::PAGE_BYTES;

use super::super::replicas::{MAX_MEMBERS, State};
use super::super::{Lane, Store};
use super::MirrorStore;
use crate::error::Result;

/// Pages that are copied together.
const RUN_PAGES: u64 = 64;

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Pages that were copied.
    Copied(u64),
    /// The member misses nothing that was written before the step.
    Nothing,
    /// There is nobody to copy from at the moment.
    NoSource,
}

/// Copies the pages that a member misses.
pub struct Synchroniser {
    store: MirrorStore,
    member: usize,
    life: u32,
    to: Box<dyn Lane>,
    from: Option<(usize, u32, Box<dyn Lane>)>,
    /// Page at which the next search begins.
    next: u64,
    buffer: Vec<u8>,
}

impl Synchroniser {
    /// A synchroniser for a member that is `Joining`.
    ///
    /// # Errors
    /// The member cannot be reached; the store knows it then.
    pub fn new(store: &MirrorStore, member: usize) -> Result<Synchroniser> {
        let life = store.life(member);
        let to = store.member(member).map_or_else(|| Err(store.error()), |store| store.lane());
        let to = to.inspect_err(|error| {
            store.failed(member, life, error);
        })?;
        let buffer = vec![0; RUN_PAGES as usize * PAGE_BYTES];
        Ok(Synchroniser { store: store.clone(), member, life, to, from: None, next: 0, buffer })
    }

    /// The member that is synchronised.
    pub fn member(&self) -> usize {
        self.member
    }

    /// Copies some pages.
    ///
    /// # Errors
    /// The member cannot be reached; the store knows it then. Or it is another copy by now, or was away meanwhile.
    pub fn step(&mut self) -> Result<Progress> {
        let shared = self.store.0.clone();
        if self.store.life(self.member) != self.life {
            // Its lane is one to the lender before, whose memory may be there still.
            return Err(Plain::Stopped.into());
        }
        let missed = &shared.missed[self.member];
        let run = missed.next_run(self.next, RUN_PAGES).or_else(|| missed.next_run(0, RUN_PAGES));
        let Some(pages) = run else { return Ok(Progress::Nothing) };
        if !self.has_source() {
            return Ok(Progress::NoSource);
        }
        let (offset, end) = (pages.start * PAGE_BYTES as u64, pages.end * PAGE_BYTES as u64);
        let end = end.min(self.store.size_bytes());
        let bytes = &mut self.buffer[..(end - offset) as usize];
        missed.clear(pages.clone());
        if let Some((source, life, lane)) = &mut self.from
            && let Err(error) = lane.read(offset, bytes)
        {
            missed.set(pages);
            self.store.failed(*source, *life, &error);
            self.from = None;
            return Ok(Progress::Copied(0));
        }
        let written = match bytes.iter().all(|&byte| byte == 0) {
            true => self.to.discard(offset, end - offset),
            false => self.to.write(offset, bytes),
        };
        if let Err(error) = written {
            missed.set(pages);
            self.store.failed(self.member, self.life, &error);
            return Err(error);
        }
        self.next = pages.end;
        Ok(Progress::Copied(pages.end - pages.start))
    }

    /// Whether there is a lane to a member that has everything.
    fn has_source(&mut self) -> bool {
        let live = self.store.live();
        self.from.take_if(|(source, life, _)| {
            live >> *source & 1 == 0 || self.store.life(*source) != *life
        });
        for source in (0..MAX_MEMBERS).filter(|member| live >> member & 1 == 1) {
            if self.from.is_some() {
                break;
            }
            let life = self.store.life(source);
            match self.store.member(source).map(|store| store.lane()) {
                Some(Ok(lane)) => self.from = Some((source, life, lane)),
                Some(Err(error)) => {
                    self.store.failed(source, life, &error);
                }
                None => {}
            }
        }
        self.from.is_some()
    }

    /// Copies the last pages while nobody writes, and makes the member `Live`; `prepare` is called right before, while
    /// the member's bytes are the others'. Returns false if writers did not rest within the limit, or others have
    /// to be copied from and cannot: then it is to be tried again.
    ///
    /// # Errors
    /// The member cannot be reached, or `prepare` failed.
    pub fn finish(
        &mut self,
        limit: Duration,
        prepare: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let store = self.store.clone();
        let missed = &store.0.missed[self.member];
        if store.live() == 0 && missed.is_empty() && store.life(self.member) == self.life {
            // Nobody can answer a write: those that wait are asked again, of this member.
            prepare()?;
            return Ok(self.conclude());
        }
        if !store.0.gate.close_within(limit) {
            return Ok(false);
        }
        let copied = self.copy_last().and_then(|is_whole| match is_whole {
            true => prepare().map(|()| self.conclude()),
            false => Ok(false),
        });
        store.0.gate.open();
        copied
    }

    fn copy_last(&mut self) -> Result<bool> {
        loop {
            match self.step()? {
                Progress::Nothing => return Ok(true),
                Progress::NoSource => return Ok(false),
                Progress::Copied(_) => {}
            }
        }
    }

    fn conclude(&mut self) -> bool {
        let member = self.member;
        self.store.change(|replicas| {
            let was_joining = replicas.state(member) == State::Joining;
            replicas.synchronised(member);
            was_joining
        })
    }
}
