//! A run: time goes by, requests come and go.

use std::collections::VecDeque;

use super::{Access, BLOCK_BYTES, Latency, Outcome, Report};
use crate::dram::{Channel, ChannelStats, Done, Kind, Request, Tick};
use crate::machine::Machine;
use crate::measure::Histogram;

/// A request of which the end may not be known yet.
struct Pending {
    access: Access,
    /// Tick in which a channel took it.
    arrival: Tick,
    done: Option<Tick>,
}

struct Run {
    channels: Vec<Channel>,
    interleave: u64,
    /// Requests from number `first` on.
    pending: VecDeque<Pending>,
    first: u64,
    done: Vec<Done>,
    /// Tick of the last request.
    last: Tick,
    /// Last tick of the run.
    end: Tick,
    /// Latencies of reads and of writes.
    latencies: [Histogram; 2],
    began: Option<Tick>,
    last_done: Tick,
    unfinished: u64,
    held_up: u64,
}

/// Runs the memory of a machine until all requests are done, or for so many `clocks`; `each` is given those that are
/// done, in their order.
///
/// # Errors
/// The first of the traffic or of `each`.
pub fn run<E>(
    machine: &Machine,
    mut traffic: impl Iterator<Item = Result<Access, E>>,
    clocks: Option<Tick>,
    mut each: impl FnMut(&Outcome) -> Result<(), E>,
) -> Result<Report, E> {
    let channel = Channel::new(&machine.dram);
    let mut run = Run {
        channels: vec![channel; machine.memory.controllers.into()],
        interleave: machine.memory.interleave_bytes,
        pending: VecDeque::new(),
        first: 0,
        done: Vec::new(),
        last: 0,
        end: clocks.unwrap_or(Tick::MAX),
        latencies: Default::default(),
        began: None,
        last_done: 0,
        unfinished: 0,
        held_up: 0,
    };
    while let Some(access) = traffic.next().transpose()? {
        if !run.ask(access) {
            run.leave_out(access, traffic)?;
            break;
        }
        run.settle(&mut each)?;
    }
    run.drain();
    run.settle(&mut each)?;
    run.give_up();
    run.settle(&mut each)?;
    Ok(run.report(machine))
}

impl Run {
    /// Makes a request as soon as it can be made; whether the run goes on.
    fn ask(&mut self, access: Access) -> bool {
        let Access { at, address, kind } = access;
        let due = at.unwrap_or(self.last) + 1;
        let mut now = due.max(self.last + 1);
        let (number, line) = self.place(address);
        if now > self.end {
            return false;
        }
        for channel in &mut self.channels {
            channel.advance(now - 1, &mut self.done);
        }
        let channel = &mut self.channels[number];
        while !channel.has_room(kind) {
            let next = channel.next().expect("a full queue has something to do");
            now = now.max(next + 1);
            if now > self.end {
                return false;
            }
            channel.advance(next, &mut self.done);
        }
        let id = (self.first + self.pending.len() as u64) as u32;
        self.pending.push_back(Pending { access, arrival: now, done: None });
        channel.push(now, Request { id, line, kind }, &mut self.done);
        self.began.get_or_insert(now);
        self.held_up += now - due;
        self.last = now;
        true
    }

    /// The run has ended before this request was made. It is unfinished, and so are those behind it, if they were due:
    /// they were held up. A request without a clock is due when the one before it was made.
    fn leave_out<E>(
        &mut self,
        first: Access,
        rest: impl Iterator<Item = Result<Access, E>>,
    ) -> Result<(), E> {
        let end = self.end;
        let is_due = |at: Option<Tick>| at.is_some_and(|at| at < end);
        self.unfinished += u64::from(is_due(first.at) || first.at.is_none() && self.last < end);
        for access in rest {
            if !is_due(access?.at) {
                break;
            }
            self.unfinished += 1;
        }
        Ok(())
    }

    /// The channel of an address, and the number of its block there.
    #[inline]
    fn place(&self, address: u64) -> (usize, u64) {
        let count = self.channels.len() as u64;
        if count == 1 {
            return (0, address / BLOCK_BYTES);
        }
        let piece = address / self.interleave;
        let within = piece / count * self.interleave + address % self.interleave;
        ((piece % count) as usize, within / BLOCK_BYTES)
    }

    /// Until nothing waits, or the end.
    fn drain(&mut self) {
        for channel in &mut self.channels {
            channel.advance(self.last, &mut self.done);
            channel.finish(self.last);
            while let Some(next) = channel.next().filter(|&next| next <= self.end) {
                channel.advance(next, &mut self.done);
            }
        }
    }

    /// What is not done by now has no end.
    fn give_up(&mut self) {
        for pending in &mut self.pending {
            pending.done.get_or_insert(Tick::MAX);
        }
    }

    /// Hands out the requests whose end is known, in their order.
    fn settle<E>(&mut self, each: &mut impl FnMut(&Outcome) -> Result<(), E>) -> Result<(), E> {
        for Done { id, at, .. } in self.done.drain(..) {
            let place = id.wrapping_sub(self.first as u32) as usize;
            self.pending[place].done = Some(at);
        }
        while let Some(&Pending { access, arrival, done: Some(done) }) = self.pending.front() {
            let Access { address, kind, .. } = access;
            let latency = done.saturating_sub(arrival);
            let outcome =
                Outcome { index: self.first, arrival: arrival - 1, address, kind, latency };
            self.pending.pop_front();
            self.first += 1;
            if done > self.end || done == Tick::MAX {
                self.unfinished += 1;
                continue;
            }
            self.latencies[usize::from(kind == Kind::Write)].add(latency);
            self.last_done = self.last_done.max(done);
            each(&outcome)?;
        }
        Ok(())
    }

    fn report(&self, machine: &Machine) -> Report {
        let end = if self.end == Tick::MAX { self.last_done } else { self.end };
        let clocks = end - self.began.unwrap_or(end).min(end);
        let stats: Vec<ChannelStats> =
            self.channels.iter().map(|channel| channel.stats(end)).collect();
        let sum = |of: fn(&ChannelStats) -> u64| stats.iter().map(of).sum::<u64>();
        let latency = |of: &Histogram| of.summary().map(Latency::from).unwrap_or_default();
        let [reads, writes] = self.latencies.each_ref().map(latency);
        let per_clock = |amount: u64| amount as f64 / clocks.max(1) as f64;
        let bytes = (reads.count + writes.count) * BLOCK_BYTES;
        Report {
            reads,
            writes,
            unfinished: self.unfinished,
            clocks,
            held_up_mean: self.held_up as f64 / self.first.max(1) as f64,
            outstanding_mean: per_clock(self.latencies.iter().map(Histogram::sum).sum()),
            bandwidth_gbps: per_clock(bytes) * 1000.0 / super::timing(machine).tck_ps as f64,
            bus_use: per_clock(sum(|stats| stats.data_ticks)) / stats.len() as f64,
            row_hits: sum(|stats| stats.row_hits),
            row_misses: sum(|stats| stats.row_misses),
            row_conflicts: sum(|stats| stats.row_conflicts),
            forwarded: sum(|stats| stats.forwarded),
            merged: sum(|stats| stats.merged),
            refreshes: sum(|stats| stats.refreshes),
        }
    }
}
