//! A program that is executed piece by piece: the nodes, side by side for a fabric latency at a time
//! ([`crate::run::Rack`]), their drivers' notices and their output.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rackmem_riscv::host::Numbers;
use rackmem_riscv::kernel::Stream;
use rackmem_riscv::{Mark, Stop};

use super::checkpoint::{Checkpoint, Head, State, Taken, only};
use super::node::Node;
use super::outcome::{End, NodeOutcome, Outcome};
use super::part::Part;
use super::{ExecError, Job, Options, Process, is_mirrored, nodes_of, processes};
use crate::chip::probe::Probe;
use crate::chip::wires::Pace;
use crate::chip::wires::latency_cycles;
use crate::chip::{Chip, host_memory};
use crate::engine::{Crew, Cycle};
use crate::figures::Figures;
use crate::machine::{Kind, Machine};
use crate::recipe;
use crate::run::{Node as _, Rack, threads};

/// Epochs between two reports of progress.
const EPOCHS_PER_REPORT: u64 = 1 << 10;

/// Cycles that the others go on after the failure of a node: of what all find wrong only one may say why.
const LAST_WORDS_CYCLES: Cycle = 50_000;

/// Cycles after which an instruction that a core executes with timing has come to its end, unless it waits for another
/// core: more than any way through a chip takes.
const STEP_CYCLES: Cycle = 1_000_000;

/// Cycles after which operations should have come to their end: 10 s at 1 GHz, in which the largest transfers of full
/// queues end many times over.
const LONGEST_REST_CYCLES: Cycle = 10_000_000_000;

/// The place up to which a piece goes; without any it goes to the end of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until<'a> {
    /// Nothing of this cycle or later is simulated.
    pub cycle: Option<Cycle>,
    /// Node 0 prints a text. The piece goes on to the end of the fabric latency in which it does.
    pub output: Option<&'a str>,
    /// All cores together have executed so many instructions since the begin of the program, to the end of the fabric
    /// latency in which they have.
    pub instructions: Option<u64>,
    /// The region of interest begins, or ends: the first thread comes to its begin, the last one to its end. The piece
    /// goes on to the end of the fabric latency; the end of a region that is as short is not seen.
    pub mark: Option<Mark>,
}

/// Reasons why a run is over.
enum Over {
    /// All processes have ended, or one has failed.
    Ended,
    /// They will not, and this is why.
    Cut(String),
}

/// A rack with a process on every node, between two pieces of its program.
///
/// The pieces together are the run that goes through without a pause: the same results, to the byte.
pub struct Session {
    rack: Rack<Node>,
    /// Those of files: nodes may share them.
    inodes: Arc<Mutex<Numbers>>,
    began: Instant,
    cut_short: Option<String>,
    is_over: bool,
    epochs: u64,
    pace: Pace,
    /// Threads in a region of interest.
    inside: u64,
    /// Whether there were some after none, and none after some, in the latest epoch.
    has_begun: bool,
    has_ended: bool,
    /// Whether cores have executed with timing, so that caches hold what no checkpoint has.
    has_been_timed: bool,
    /// The machine's name and clock.
    machine: (String, f64),
}

impl Session {
    /// The rack of a machine, with its program loaded on every node; nothing has been executed.
    ///
    /// # Errors
    /// The machine cannot execute programs, or one of these is none.
    pub fn new(
        machine: &Machine,
        jobs: &[Job<'_>],
        options: &Options<'_>,
    ) -> Result<Session, ExecError> {
        check(machine, jobs)?;
        let processes = processes(machine, jobs).into_iter();
        let nodes = processes.map(|process| Node::new(process, machine, options));
        let nodes = nodes.collect::<Result<Vec<Node>, ExecError>>()?;
        Ok(Session::of(nodes, Numbers::default(), machine))
    }

    /// The program of a checkpoint, where it was taken, on the nodes of a machine.
    ///
    /// # Errors
    /// The machine has too few cores or too little memory for the program, or a file that was open is not there any
    /// more.
    pub fn restore(
        machine: &Machine,
        checkpoint: &Checkpoint,
        options: &Options<'_>,
    ) -> Result<Session, ExecError> {
        let (head, job) = (checkpoint.head(), checkpoint.job());
        check(machine, &[job])?;
        let clock = head.taken.clock(machine);
        let cycle = checkpoint.begin(machine);
        let node = |(process, (state, contents)): (Process<'_>, (&State, &Vec<u8>))| {
            Node::restore(process, machine, options, (state.clone(), contents, clock, cycle))
        };
        let states = head.nodes.iter().zip(checkpoint.contents());
        let nodes = processes(machine, &[job]).into_iter().zip(states).map(node);
        let nodes = nodes.collect::<Result<Vec<Node>, ExecError>>()?;
        let session = Session::of(nodes, head.inodes.clone(), machine);
        Ok(Session { pace: Pace::Fast, inside: head.inside, ..session })
    }

    fn of(mut nodes: Vec<Node>, inodes: Numbers, machine: &Machine) -> Session {
        let inodes = Arc::new(Mutex::new(inodes));
        for node in &mut nodes {
            node.system.host.share_numbers(Arc::clone(&inodes));
        }
        let rack =
            Rack::of(nodes, latency_cycles(machine).max(1), threads(machine), is_mirrored(machine));
        Session {
            rack,
            inodes,
            began: Instant::now(),
            cut_short: None,
            is_over: false,
            epochs: 0,
            pace: Pace::Timed,
            inside: 0,
            has_begun: false,
            has_ended: false,
            has_been_timed: false,
            machine: (machine.name.clone(), machine.clock_ghz),
        }
    }

    /// Executes a piece. Whether the program goes on after it.
    pub fn run(&mut self, until: Until<'_>, options: &mut Options<'_>) -> bool {
        self.warm(options);
        self.has_been_timed = true;
        self.go(until, options)
    }

    fn go(&mut self, until: Until<'_>, options: &mut Options<'_>) -> bool {
        if !self.is_over
            && let Some(over) = self.piece(until, options)
        {
            self.is_over = true;
            self.cut_short = match over {
                Over::Ended => None,
                Over::Cut(why) => Some(why),
            };
        }
        !self.is_over
    }

    /// Executes a piece without timing, an instruction a cycle, but for accesses beyond a node's own memory. Whether
    /// the program goes on after it.
    pub fn fast_forward(&mut self, until: Until<'_>, options: &mut Options<'_>) -> bool {
        for node in self.rack.nodes.iter_mut() {
            node.chip.wires.holds_at_begin = until.mark == Some(Mark::Begin);
        }
        self.set_pace(Pace::Fast);
        self.go(until, options)
    }

    /// After a piece without timing, brings the caches to the state that it leaves them in. [`Session::run`] does so by
    /// itself; measurements of counters begin after it.
    pub fn warm(&mut self, options: &mut Options<'_>) {
        if self.pace.is_untimed() {
            self.set_pace(Pace::Warming);
            self.go(Until::default(), options);
            self.set_pace(Pace::Timed);
        }
    }

    /// The state of the program where a fast-forward has ended, if all before it was one, too. `part` is to be measured
    /// after it. Operations that are under way come to their end before, which takes them their time.
    ///
    /// # Errors
    /// Cores have executed with timing, the program has ended, there are several, or operations do not come to their
    /// end.
    pub fn checkpoint(
        &mut self,
        jobs: &[Job<'_>],
        part: Part,
        options: &mut Options<'_>,
    ) -> Result<Checkpoint, ExecError> {
        let job = only(jobs)?;
        let wrong = |why: &str| Err(ExecError::Checkpoint(why.to_owned()));
        if self.is_over {
            return wrong("the program has ended: there is nothing to go on from");
        }
        if self.has_been_timed || !self.pace.is_untimed() {
            return wrong(
                "a checkpoint is taken where a fast-forward from the begin of the program ends, before anything is \
                 executed with timing",
            );
        }
        self.come_to_rest(options)?;
        self.each_chip(Chip::write_back_borrowed);
        self.rack.exchange();
        self.come_to_rest(options)?;
        let nodes = (0..).zip(self.rack.nodes.iter_mut()).map(|(nid, node): (u16, &mut Node)| {
            node.save().map_err(|why| ExecError::Checkpoint(format!("node {nid} {why}")))
        });
        let (nodes, contents) = nodes.collect::<Result<(Vec<_>, Vec<_>), ExecError>>()?;
        let (machine, clock_ghz) = self.machine.clone();
        let (cycle, instructions) = (self.cycle(), self.instructions());
        let taken = Taken { machine, clock_ghz, cycle, instructions };
        let (args, env) = (job.args.to_vec(), job.env.to_vec());
        let inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let head = Head { taken, part, args, env, inside: self.inside, inodes, nodes };
        Checkpoint::new(head, job.program, contents)
    }

    /// Has the network interfaces bring what they have under way to its end, while no core executes.
    fn come_to_rest(&mut self, options: &mut Options<'_>) -> Result<(), ExecError> {
        if self.is_at_rest() {
            return Ok(());
        }
        self.set_pace(Pace::Held);
        let begin = self.cycle();
        for cycles in [STEP_CYCLES, LONGEST_REST_CYCLES] {
            let cycle = Some(begin + cycles);
            if self.go(Until { cycle, ..Until::default() }, options) && self.is_at_rest() {
                return Ok(());
            }
            if self.is_over || self.has_only_steps() {
                break;
            }
        }
        let is_waiting = !self.is_at_rest() && self.has_only_steps();
        let nodes = &self.rack.nodes;
        let has_ended = nodes.iter().all(|node| node.system.end.is_some());
        let has_ended = has_ended || last_words(nodes, options).is_some();
        // It goes on, unless it has ended or was stopped.
        self.is_over &= has_ended || nodes.iter().any(|node| node.next_cycle().is_some());
        if !self.is_over {
            self.cut_short = None;
            self.set_pace(Pace::Fast);
        }
        let why = match &self.cut_short {
            Some(why) => why.clone(),
            None if is_waiting => "a core waits for another one, as for a lock".to_owned(),
            None => self.left(),
        };
        Err(ExecError::Checkpoint(format!(
            "operations of network interfaces do not come to their end: {why}; take the checkpoint earlier or later"
        )))
    }

    /// Names the work of all nodes that is not done.
    fn left(&self) -> String {
        let nodes = (0..).zip(self.rack.nodes.iter());
        let left = nodes.flat_map(|(nid, node): (u16, _)| {
            node.chip.left().into_iter().map(move |what| format!("node {nid}, {what}"))
        });
        left.collect::<Vec<String>>().join("; ")
    }

    /// Whether nothing is under way but instructions that cores execute with timing.
    fn has_only_steps(&self) -> bool {
        self.rack.nodes.iter().all(|node| {
            let steps = node.chip.tiles.iter().filter_map(|tile| tile.cpu.as_ref());
            let steps = steps.filter(|cpu| cpu.is_stepping()).count();
            node.chip.left().len() == steps && node.system.has_no_letters()
        })
    }

    fn is_at_rest(&self) -> bool {
        let is_at_rest = |node: &Node| node.chip.left().is_empty() && node.system.has_no_letters();
        self.rack.nodes.iter().all(is_at_rest)
    }

    /// Whether the program goes on.
    pub const fn is_running(&self) -> bool {
        !self.is_over
    }

    fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        self.each_chip(|chip| chip.set_pace(pace));
    }

    /// Prepares the chips for a measurement of their traffic: last-level caches are full, as workloads begin with
    /// them, and operations of programs are followed.
    pub(super) fn follow_traffic(&mut self, machine: &Machine) {
        self.each_chip(|chip| {
            chip.warm(machine);
            let queue_lines = chip.wires.layout.queue_lines();
            chip.wires.probe = Probe::of_programs(machine, queue_lines);
        });
    }

    /// Whether a thread is in its region of interest.
    pub(super) const fn is_inside(&self) -> bool {
        self.inside > 0
    }

    /// The chip of node 0.
    pub(super) fn first(&mut self) -> &mut Chip {
        &mut self.rack.nodes[0].chip
    }

    /// Brings the counts of cores that sleep up to now.
    pub(super) fn settle(&mut self) {
        self.each_chip(Chip::settle);
    }

    /// Does something with all chips. Those with nothing to do are behind, and are about to have something.
    pub(super) fn each_chip(&mut self, mut work: impl FnMut(&mut Chip)) {
        let now = self.cycle();
        for node in self.rack.nodes.iter_mut() {
            node.chip.wires.now = now;
            work(&mut node.chip);
        }
    }

    /// Runs until all processes have ended, or to the place that is given; `None` if they go on after it.
    fn piece(&mut self, until: Until<'_>, options: &mut Options<'_>) -> Option<Over> {
        let most = [options.max_cycles, until.cycle.map(|cycle| cycle.saturating_sub(1))];
        let most = most.into_iter().flatten().min().unwrap_or(Cycle::MAX);
        let mut seen = self.rack.nodes[0].system.host.stdout.len();
        loop {
            self.epochs += 1;
            let next = self.rack.nodes.iter().filter_map(Node::next_cycle).min();
            if let Some(over) = over(&self.rack.nodes, next, options) {
                return Some(over);
            }
            let Some(next) = next else { return Some(Over::Ended) };
            let end = last_words(&self.rack.nodes, options);
            if end.is_none() && until.cycle.is_some_and(|cycle| next >= cycle) {
                return None;
            }
            let last = self.rack.epoch(next, end.unwrap_or(most));
            self.pass_notices();
            pass_output(&mut self.rack.nodes, options);
            self.note_marks();
            let is_there =
                until.output.is_some_and(|text| prints(&self.rack.nodes[0], &mut seen, text))
                    || self.has_reached(until);
            if is_there && last_words(&self.rack.nodes, options).is_none() {
                return None;
            }
            let is_reported = self.epochs % EPOCHS_PER_REPORT == 0;
            if options.stop.is_some_and(Stop::take)
                || is_reported && options.progress.is_some_and(|progress| !progress(last))
            {
                return Some(Over::Cut("interrupted".to_owned()));
            }
        }
    }

    /// Counts the threads that have come to the begin or the end of a region of interest in the latest epoch.
    fn note_marks(&mut self) {
        (self.has_begun, self.has_ended) = (false, false);
        let nodes = self.rack.nodes.iter_mut();
        let mut marks: Vec<(Cycle, Mark)> =
            nodes.flat_map(|node| node.system.marks.drain(..)).collect();
        marks.sort_by_key(|&(cycle, mark)| (cycle, mark == Mark::End));
        for (_, mark) in marks {
            let was_inside = self.inside > 0;
            self.inside = match mark {
                Mark::Begin => self.inside + 1,
                Mark::End => self.inside.saturating_sub(1),
            };
            // Without timing a thread may stay at any begin, which then ends the piece.
            self.has_begun |= mark == Mark::Begin && (!was_inside || self.pace == Pace::Fast);
            self.has_ended |= was_inside && self.inside == 0;
        }
    }

    /// Whether a piece ends here.
    fn has_reached(&self, until: Until<'_>) -> bool {
        let is_warm = || self.rack.nodes.iter().all(|node| node.chip.is_warm());
        until.instructions.is_some_and(|count| self.instructions() >= count)
            || until.mark == Some(Mark::Begin) && self.has_begun
            || until.mark == Some(Mark::End) && self.has_ended
            || self.pace == Pace::Warming && is_warm()
            || self.pace == Pace::Held && self.is_at_rest()
    }

    /// Whether a program has ever had more than one thread.
    pub(super) fn has_had_threads(&self) -> bool {
        self.rack.nodes.iter().any(|node| node.system.has_had_threads())
    }

    /// Instructions that all cores have executed, with and without timing.
    pub fn instructions(&self) -> u64 {
        self.rack.nodes.iter().map(|node| node.system.instructions(&node.chip)).sum()
    }

    /// Those without timing.
    pub fn fast_forwarded(&self) -> u64 {
        self.rack.nodes.iter().map(|node| node.system.fast_forwarded(&node.chip)).sum()
    }

    /// Delivers the notices of all drivers to all others, and what operating systems say to one: node by node, so that
    /// the order is always the same.
    fn pass_notices(&mut self) {
        let Rack { nodes, latency_cycles, is_mirrored, .. } = &mut self.rack;
        for number in nodes.numbers() {
            let notices = std::mem::take(&mut nodes[number].system.device.outbox);
            // The mirror image is the other one of two.
            let from = if *is_mirrored { number as u16 ^ 1 } else { number as u16 };
            for (at, notice) in notices {
                for (_, node) in (0..).zip(nodes.iter_mut()).filter(|&(to, _)| to != from) {
                    node.system.device.receive(at + *latency_cycles, from, notice);
                }
            }
            for (at, to, letter) in nodes[number].system.take_letters() {
                nodes[usize::from(to)].system.receive(at, from, letter);
            }
        }
    }

    /// The cycle that the slowest node has come to.
    pub fn cycle(&self) -> Cycle {
        self.rack.nodes.iter().map(|node| node.chip.wires.now).max().unwrap_or(0)
    }

    /// Reads all counters.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for (nid, node) in self.rack.nodes.iter().enumerate() {
            figures.add_under(&format!("node[{nid}]."), node.figures());
        }
        figures
    }

    /// What node 0 has printed so far, if no sink took it.
    pub fn printed(&self) -> Vec<u8> {
        self.rack.nodes[0].system.host.stdout.clone()
    }

    /// The outcome; processes that have not ended are stopped.
    pub fn finish(mut self, mut options: Options<'_>) -> Outcome {
        for node in self.rack.nodes.iter_mut() {
            node.system.stop(End::Stopped, &mut node.chip);
        }
        pass_output(&mut self.rack.nodes, &mut options);
        let stats = self.figures().since(&Figures::default());
        let cycles = self.cycle();
        let nodes: Vec<NodeOutcome> = self.rack.nodes.iter_mut().map(Node::outcome).collect();
        Outcome {
            cut_short: self.cut_short,
            cycles,
            instructions: nodes.iter().map(|node| node.instructions).sum(),
            seconds: self.began.elapsed().as_secs_f64(),
            inputs: inputs(&nodes, options.folder.as_deref()),
            nodes,
            stats,
            measured: None,
            restored: None,
        }
    }
}

/// Whether a node has printed a text since `seen` bytes of its output were looked at.
fn prints(node: &Node, seen: &mut usize, text: &str) -> bool {
    let printed = &node.system.host.stdout;
    // A text may begin in what was looked at.
    let from = seen.saturating_sub(text.len().saturating_sub(1)).min(printed.len());
    let is_fresh = printed.len() > *seen;
    *seen = printed.len();
    is_fresh && printed[from..].windows(text.len().max(1)).any(|found| found == text.as_bytes())
}

/// Fingerprints of files that processes have read; empty of those that one of them looked for before they were there.
fn inputs(nodes: &[NodeOutcome], folder: Option<&Path>) -> BTreeMap<String, String> {
    let mut was_there = BTreeMap::new();
    for (name, was) in nodes.iter().flat_map(|node| &node.inputs) {
        *was_there.entry(name).or_insert(true) &= was;
    }
    let fingerprint = |(name, was_there): (&String, bool)| {
        let found = was_there.then(|| recipe::fingerprint_file(folder, name));
        (name.clone(), found.unwrap_or_default())
    };
    was_there.into_iter().map(fingerprint).collect()
}

/// Whether programs can be executed on such nodes, and on so many of them.
fn check(machine: &Machine, jobs: &[Job<'_>]) -> Result<(), ExecError> {
    if jobs.is_empty() || jobs.iter().any(|job| job.nodes == 0) {
        return Err(ExecError::Machine("a program needs a node at least".to_owned()));
    }
    let nodes = u16::try_from(nodes_of(jobs));
    let nodes = nodes
        .map_err(|_| ExecError::Machine(format!("a rack has no more than {} nodes", u16::MAX)))?;
    if machine.kind != Kind::Chip {
        let kind = machine.kind.name();
        let instead = match machine.kind {
            Kind::Soc => "deoi-cores and thunder-cores are such nodes with cores that execute",
            _ => "programs need chips: \"chip\"",
        };
        let why = format!("kind: is \"{kind}\", which executes nothing; {instead}");
        return Err(ExecError::Machine(why));
    }
    machine.ni.placement.check_programs(machine, nodes).map_err(ExecError::Machine)?;
    host_memory::check_programs(machine, nodes).map_err(ExecError::Machine)
}

/// Whether the run is over before the cycle `next`, in which the next thing happens.
fn over(nodes: &Crew<Node>, next: Option<Cycle>, options: &Options<'_>) -> Option<Over> {
    if nodes.iter().all(|node| node.system.end.is_some()) {
        return Some(Over::Ended);
    }
    if let Some(last) = last_words(nodes, options) {
        return next.is_none_or(|next| next > last).then_some(Over::Ended);
    }
    let why = match (next, options.max_cycles) {
        (None, _) if nodes.iter().any(|node| node.system.is_running()) => {
            "it loops for ever: what it looks at does not change any more".to_owned()
        }
        (None, _) => "all processes wait for each other".to_owned(),
        (Some(next), Some(most)) if next > most => {
            format!("not at its end after {most} cycles (--max-cycles, --max-time)")
        }
        _ => {
            let most = options.max_instructions?;
            let executed = |node: &Node| node.system.instructions(&node.chip);
            if nodes.iter().map(executed).sum::<u64>() < most {
                return None;
            }
            format!("not at its end after {most} instructions (--max-instructions)")
        }
    };
    let places: Vec<String> =
        nodes.iter().flat_map(|node| node.system.describe(&node.chip)).collect();
    Some(Over::Cut(format!("{why}\n{}", places.join("\n"))))
}

/// The last cycle of a run in which a node has failed. Nothing that was to come of the run comes any more.
fn last_words(nodes: &Crew<Node>, options: &Options<'_>) -> Option<Cycle> {
    let ends = nodes.iter().filter_map(|node| node.system.end.as_ref());
    let failed = ends.filter(|(end, _)| !end.is_success()).map(|&(_, cycle)| cycle).min()?;
    Some((failed + LAST_WORDS_CYCLES).min(options.max_cycles.unwrap_or(Cycle::MAX)))
}

/// Passes on what processes have written, if there is a sink.
fn pass_output(nodes: &mut Crew<Node>, options: &mut Options<'_>) {
    let Some(sink) = &mut options.sink else { return };
    for (nid, node) in (0..).zip(nodes.iter_mut()) {
        let (out, err) = node.system.take_output();
        for (stream, bytes) in [(Stream::Out, out), (Stream::Err, err)] {
            if !bytes.is_empty() && !sink(nid, stream, &bytes) {
                node.system.host.is_unread[(stream == Stream::Err) as usize] = true;
            }
        }
    }
}
