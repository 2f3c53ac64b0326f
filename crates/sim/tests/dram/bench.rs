//! A channel under traffic.

use rackmem_sim::dram::{Channel, ChannelStats, Done, Issued, Kind, Mapping, Request, Tick};
use rackmem_sim::engine::Random;
use rackmem_sim::machine::spec::DramSpec;

/// A request that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Not before this tick; later if there is no room.
    pub at: Tick,
    pub kind: Kind,
    pub line: u64,
}

/// A request, with the ticks of its arrival and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub kind: Kind,
    pub line: u64,
    pub arrival: Tick,
    pub done: Tick,
}

/// Ticks in which any number of requests that fit into the queues is done.
const NEVER: Tick = 1_000_000;

/// A channel and all that was asked of it; requests are named by their position in `outcomes`.
pub struct Bench {
    pub spec: DramSpec,
    pub channel: Channel,
    pub outcomes: Vec<Outcome>,
    /// Tick at which requests last came or commands were last asked for.
    pub now: Tick,
    done: Vec<Done>,
    answered: usize,
}

impl Bench {
    pub fn new(spec: &DramSpec) -> Bench {
        let channel = Channel::new(spec);
        let (outcomes, done) = (Vec::new(), Vec::new());
        Bench { spec: spec.clone(), channel, outcomes, now: 0, done, answered: 0 }
    }

    /// The same, keeping all commands.
    pub fn recording(spec: &DramSpec) -> Bench {
        let mut bench = Bench::new(spec);
        bench.channel.record();
        bench
    }

    /// Makes a request as soon as it may be made; its name.
    pub fn ask(&mut self, Wish { at, kind, line }: Wish) -> usize {
        self.now = self.now.max(at);
        let since = self.now;
        while !self.channel.has_room(kind) {
            let next = self.channel.next().expect("a full queue has something to do");
            assert!(next < since + NEVER, "no room for a {kind:?} of {line} since {since}");
            self.advance(next);
        }
        let id = self.outcomes.len();
        self.outcomes.push(Outcome { kind, line, arrival: self.now, done: 0 });
        self.channel.push(self.now, Request { id: id as u32, line, kind }, &mut self.done);
        self.settle();
        id
    }

    pub fn read(&mut self, at: Tick, line: u64) -> usize {
        self.ask(Wish { at, kind: Kind::Read, line })
    }

    pub fn write(&mut self, at: Tick, line: u64) -> usize {
        self.ask(Wish { at, kind: Kind::Write, line })
    }

    /// Lets time go by.
    pub fn advance(&mut self, to: Tick) {
        self.now = self.now.max(to);
        self.channel.advance(to, &mut self.done);
        self.settle();
    }

    /// Until nothing waits.
    pub fn drain(&mut self) {
        self.advance(self.now);
        self.channel.finish(self.now);
        let since = self.now;
        while let Some(next) = self.channel.next() {
            let waiting = self.channel.waiting();
            assert!(next < since + NEVER, "{waiting} requests wait for ever since {since}");
            self.advance(next);
        }
        assert_eq!(self.answered, self.outcomes.len(), "requests without an answer");
        assert_eq!(self.channel.waiting(), 0);
    }

    pub fn run(&mut self, wishes: &[Wish]) {
        for &wish in wishes {
            self.ask(wish);
        }
        self.drain();
    }

    /// From a request's arrival to the end of its data.
    pub fn latency(&self, id: usize) -> Tick {
        self.outcomes[id].done - self.outcomes[id].arrival
    }

    pub fn commands(&self) -> &[Issued] {
        self.channel.recorded()
    }

    pub fn stats(&self) -> ChannelStats {
        self.channel.stats(self.now)
    }

    fn settle(&mut self) {
        for Done { id, kind, at } in self.done.drain(..) {
            let outcome = &mut self.outcomes[id as usize];
            assert_eq!(outcome.kind, kind);
            assert_eq!(outcome.done, 0, "request {id} is done twice");
            outcome.done = at;
            self.answered += 1;
        }
    }
}

/// One rank, so that nothing but its banks matters; no refresh.
pub fn one_rank() -> DramSpec {
    DramSpec { ranks: 1, refresh: false, ..DramSpec::default() }
}

/// The first block of a row.
pub fn line_of(spec: &DramSpec, bank: u64, row: u64) -> u64 {
    let columns = spec.row_bytes / 64;
    let line = (row * u64::from(spec.ranks * spec.banks) + bank) * columns;
    let place = Mapping::new(spec).place(line);
    assert_eq!((place.bank as u64, place.row), (bank, row), "for the default mapping only");
    line
}

/// Random requests: number of blocks, share of writes, distance, and in per cent the share of requests
/// whose block follows the last one.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub lines: u64,
    pub writes_percent: u64,
    pub gap: Tick,
    pub runs_percent: u64,
    /// Now and then nothing is asked for this long.
    pub pause: Tick,
}

impl Traffic {
    pub fn wishes(&self, count: usize, seed: u64) -> Vec<Wish> {
        let mut random = Random::new(seed, 1);
        let (mut at, mut line) = (0, 0);
        let wish = |_| {
            at += random.below(2 * self.gap + 1);
            if random.below(100) == 0 {
                at += random.below(self.pause + 1);
            }
            let follows = random.below(100) < self.runs_percent;
            line = if follows { (line + 1) % self.lines } else { random.below(self.lines) };
            let write = random.below(100) < self.writes_percent;
            Wish { at, kind: if write { Kind::Write } else { Kind::Read }, line }
        };
        (0..count).map(wish).collect()
    }
}
