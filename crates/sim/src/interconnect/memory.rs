//! A node's memory: a DDR3 channel of `dram/`, and the accesses that wait for lines of it.

use std::collections::VecDeque;

use super::time::{Ps, ps};
use crate::block::BLOCK_BYTES;
use crate::dram::{Channel, Done, Kind, Request};
use crate::engine::Slab;
use crate::machine::spec::DramSpec;

#[derive(Clone, Copy, Debug)]
struct Want {
    line: u64,
    kind: Kind,
    id: u32,
}

/// An access, and how many of its lines are not there yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    access: u32,
    lines: u64,
    last: Ps,
}

#[derive(Clone, Debug)]
pub struct Memory {
    channel: Channel,
    tick_ps: Ps,
    controller_ps: Ps,
    pending: Slab<Pending>,
    waiting: VecDeque<Want>,
    done: Vec<Done>,
    /// Time at which it wants to be looked at.
    next_look: Option<Ps>,
}

impl Memory {
    pub fn new(spec: &DramSpec) -> Memory {
        let channel = Channel::new(spec);
        let tick_ps = channel.timing().tck_ps;
        Memory {
            channel,
            tick_ps,
            controller_ps: ps(spec.controller_ns),
            pending: Slab::default(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            next_look: None,
        }
    }

    /// An access begins. `finished` gets all accesses whose end is known, with it.
    pub fn access(
        &mut self,
        now: Ps,
        access: u32,
        address: u64,
        bytes: u32,
        is_write: bool,
        finished: &mut Vec<(u32, Ps)>,
    ) {
        let first = address / BLOCK_BYTES;
        let lines = (address + u64::from(bytes.max(1)) - 1) / BLOCK_BYTES - first + 1;
        let id = self.pending.put(Pending { access, lines, last: 0 });
        let kind = if is_write { Kind::Write } else { Kind::Read };
        self.waiting.extend((first..first + lines).map(|line| Want { line, kind, id }));
        self.go_on(now, finished);
    }

    /// Gives the commands that are due.
    pub fn go_on(&mut self, now: Ps, finished: &mut Vec<(u32, Ps)>) {
        self.channel.advance(now / self.tick_ps, &mut self.done);
        let tick = now.div_ceil(self.tick_ps);
        while let Some(&Want { line, kind, id }) = self.waiting.front()
            && self.channel.has_room(kind)
        {
            self.waiting.pop_front();
            self.channel.push(tick, Request { id, line, kind }, &mut self.done);
        }
        let mut done = std::mem::take(&mut self.done);
        for Done { id, at, .. } in done.drain(..) {
            let pending = self.pending.get_mut(id);
            pending.lines -= 1;
            pending.last = pending.last.max(at * self.tick_ps);
            if pending.lines == 0 {
                let Pending { access, last, .. } = self.pending.take(id);
                finished.push((access, last + self.controller_ps));
            }
        }
        self.done = done;
    }

    /// Time at which it has to be looked at next, unless that is planned already.
    pub fn look(&mut self, now: Ps) -> Option<Ps> {
        let next = (self.channel.next()? * self.tick_ps).max(now + 1);
        if self.next_look.is_some_and(|look| look > now && look <= next) {
            return None;
        }
        self.next_look = Some(next);
        Some(next)
    }
}
