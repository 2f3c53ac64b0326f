use super::Tick;
use super::bank_queues::BankQueues;
use super::command::{Command, Issued};
use super::devices::Devices;
use super::mapping::Mapping;
use super::queues::{At, Queues};
use super::schedule::{Deed, Planned, Schedule, Want};
use super::stats::ChannelStats;
use super::timing::{Kind, Timing};
use crate::dram::spec::{DramPagePolicy, DramScheduler, DramSpec};

/// A block to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name in [`Done`].
    pub id: u32,
    /// Number of the block among those of the channel.
    pub line: u64,
    /// Read or write.
    pub kind: Kind,
}

/// A request whose data have a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The name that the request gave.
    pub id: u32,
    /// Read or write, as requested.
    pub kind: Kind,
    /// End of its last data on the wires. It is known as soon as the command is given, so it lies ahead.
    pub at: Tick,
}

/// A channel: its parts, the requests that wait, and which command is next.
#[derive(Clone, Debug)]
pub struct Channel {
    mapping: Mapping,
    closes_rows: bool,
    pub(super) devices: Devices,
    pub(super) queues: Queues,
    pub(super) schedule: Schedule,
    pub(super) next: Option<Planned>,
    pub(super) stats: ChannelStats,
    record: Option<Vec<Issued>>,
}

impl Channel {
    /// A channel as a machine has it, at time 0: all banks closed, nothing waiting.
    pub fn new(spec: &DramSpec) -> Channel {
        let timing = Timing::of(spec);
        let banks = (spec.ranks * spec.banks) as usize;
        let [reads, writes] = match spec.scheduler {
            DramScheduler::BankQueues => BankQueues::entries(spec),
            _ => [spec.read_queue as usize, spec.write_queue as usize],
        };
        let mut channel = Channel {
            mapping: Mapping::new(spec),
            closes_rows: spec.page_policy == DramPagePolicy::Closed,
            devices: Devices::new(timing, spec),
            queues: Queues::new(reads, writes, banks),
            schedule: Schedule::new(spec, timing.ticks(spec.age_limit_ns)),
            next: None,
            stats: ChannelStats::default(),
            record: None,
        };
        channel.next = channel.plan(0);
        channel
    }

    /// Times of the channel's parts, in ticks.
    pub fn timing(&self) -> &Timing {
        &self.devices.timing
    }

    /// Keeps all commands from now on, those of idle times too.
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// The commands since then, in the order of their times.
    pub fn recorded(&self) -> &[Issued] {
        self.record.as_deref().unwrap_or_default()
    }

    /// Whether another request of this kind may come.
    #[inline]
    pub fn has_room(&self, kind: Kind) -> bool {
        match &self.schedule.banks {
            Some(banks) => banks.has_room(kind),
            None => self.queues.has_room(kind),
        }
    }

    /// Reads and writes whose data have no time yet.
    pub fn waiting(&self) -> usize {
        self.queues.len(Kind::Read) + self.queues.len(Kind::Write)
    }

    /// A request arrives at tick `now`, at which all has happened that belongs before it. A read of a
    /// block that waits to be written is answered at once, unless all go in order anyway.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn push(&mut self, now: Tick, request: Request, done: &mut Vec<Done>) {
        if now > 0 {
            self.advance(now - 1, done);
        }
        let Request { id, line, kind } = request;
        let place = self.mapping.place(line);
        if self.schedule.banks.is_some() {
            return self.push_to_bank(now, request, place, done);
        }
        let same = |entry: &super::queues::Entry| entry.line == line;
        let overtakes = kind == Kind::Read && self.schedule.robin.is_none();
        if overtakes && self.queues.find(Kind::Write, place.bank, same).is_some() {
            self.stats.forwarded += 1;
            done.push(Done { id, kind, at: now });
            return;
        }
        self.queues.push(id, line, kind, place, now);
        self.next = self.plan_arrival(self.next, now, kind, place.bank, place.row);
        if cfg!(debug_assertions) {
            self.schedule.all_changed();
            let (short, long) = (self.next, self.plan(now));
            assert_eq!(short, long, "a short cut that leads somewhere else");
        }
    }

    /// The next tick in which anything happens for a request, if one waits.
    #[inline]
    pub fn next(&self) -> Option<Tick> {
        self.next.filter(|_| !self.queues.is_empty()).map(|next| next.at)
    }

    /// Gives all commands up to and including tick `to`; adds the requests that are done with them.
    pub fn advance(&mut self, to: Tick, done: &mut Vec<Done>) {
        while let Some(next) = self.next
            && next.at <= to
        {
            if self.queues.is_empty() && self.record.is_none() && self.skip(to) {
                continue;
            }
            self.happen(next, done);
        }
    }

    /// No more requests come after tick `now`, so that none that waits need wait for others.
    pub fn finish(&mut self, now: Tick) {
        if self.schedule.banks.is_some() {
            self.finish_banks(now);
        }
    }

    /// Counters up to tick `now`.
    pub fn stats(&self, now: Tick) -> ChannelStats {
        let mut later = self.clone();
        later.record = None;
        later.advance(now, &mut Vec::new());
        later.stats
    }

    /// Refreshes of an idle stretch at once.
    fn skip(&mut self, to: Tick) -> bool {
        let refreshes = self.devices.refresh_idle(to);
        self.stats.refreshes += refreshes;
        if refreshes > 0 {
            if let Some(robin) = &mut self.schedule.robin {
                robin.pass(refreshes);
            }
            if let Some(banks) = &mut self.schedule.banks {
                banks.forget();
            }
            self.next = self.plan(self.devices.command);
        }
        refreshes > 0
    }

    fn happen(&mut self, planned: Planned, done: &mut Vec<Done>) {
        self.take_turn(&planned);
        self.bank_has_turn(&planned);
        let Planned { at, deed, .. } = planned;
        match deed {
            Deed::Look => {}
            Deed::Pass => self.pass(at),
            Deed::Close(bank) => {
                self.devices.precharge(at, bank);
                self.schedule.changed(bank);
                self.note(at, bank, Command::Precharge, None);
            }
            Deed::PrechargeAll(rank) => {
                self.devices.precharge_all(at, rank);
                self.rank_changed(rank);
                self.note_rank(at, rank, Command::PrechargeAll);
            }
            Deed::Refresh(rank) => {
                self.devices.refresh(at, rank);
                self.rank_changed(rank);
                self.stats.refreshes += 1;
                self.note_rank(at, rank, Command::Refresh);
            }
            Deed::Serve(Want::Precharge, entry) => self.precharge(at, entry),
            Deed::Serve(Want::Activate, entry) => self.activate(at, entry),
            Deed::Serve(Want::Access, entry) => self.access(at, entry, done),
        }
        self.next = self.plan(at);
    }

    fn precharge(&mut self, at: Tick, number: At) {
        self.begin(at, number);
        let entry = self.queues.get_mut(number);
        entry.precharged = true;
        let (bank, id) = (usize::from(entry.bank), entry.id);
        self.devices.precharge(at, bank);
        self.go_on_with(number);
        self.note(at, bank, Command::Precharge, Some(id));
    }

    fn activate(&mut self, at: Tick, number: At) {
        self.begin(at, number);
        let entry = self.queues.get_mut(number);
        entry.activated = true;
        let (bank, row, id) = (usize::from(entry.bank), entry.row, entry.id);
        self.devices.activate(at, bank, row);
        self.go_on_with(number);
        self.note(at, bank, Command::Activate { row }, Some(id));
    }

    fn access(&mut self, at: Tick, number: At, done: &mut Vec<Done>) {
        self.begin(at, number);
        let entry = self.queues.remove(number);
        let (kind, bank, row) = (entry.kind, usize::from(entry.bank), entry.row);
        let waits = |kind| self.queues.find(kind, bank, |other| other.row == row).is_some();
        let auto = self.closes_rows && !Kind::ALL.into_iter().any(waits);
        self.devices.access(at, bank, kind, auto);
        self.schedule.changed(bank);
        self.schedule.groups_changed();
        let stats = &mut self.stats;
        match (entry.precharged, entry.activated) {
            (true, _) => stats.row_conflicts += 1,
            (false, true) => stats.row_misses += 1,
            (false, false) => stats.row_hits += 1,
        }
        match kind {
            Kind::Read => stats.reads += 1,
            Kind::Write => stats.writes += 1,
        }
        stats.data_ticks += self.devices.timing.burst;
        stats.longest_ticks = stats.longest_ticks.max(at - entry.arrival);
        let answer = Done { id: entry.id, kind, at: at + self.devices.timing.until_data_end(kind) };
        done.push(answer);
        if let Some(banks) = &mut self.schedule.banks {
            self.stats.merged += banks.leave(at, bank, number, answer, done);
        }
        let command = match kind {
            Kind::Read => Command::Read { auto },
            Kind::Write => Command::Write { auto },
        };
        self.note(at, bank, command, Some(entry.id));
    }

    /// A command is given for a request: with the first one its wait is over.
    fn begin(&mut self, at: Tick, number: At) {
        let entry = self.queues.get(number);
        let first = !entry.precharged && !entry.activated;
        if first && entry.kind == Kind::Read {
            self.stats.read_wait_ticks += at - entry.arrival;
        }
    }

    fn rank_changed(&mut self, rank: usize) {
        for bank in self.devices.banks_of(rank) {
            self.schedule.changed(bank);
        }
        for group in self.devices.groups_of(rank) {
            self.schedule.group_changed(group);
        }
    }

    fn note_rank(&mut self, at: Tick, rank: usize, command: Command) {
        self.note(at, self.devices.banks_of(rank).start, command, None);
    }

    fn note(&mut self, at: Tick, bank: usize, command: Command, id: Option<u32>) {
        let rank = self.devices.rank_of(bank);
        if let Some(record) = &mut self.record {
            record.push(Issued { at, rank, bank, command, id });
        }
    }
}
