//! A core that executes a program, between its L1 and the cycles of the chip.

use rackmem_riscv::space::{Cause, Fault, Wanted};
use rackmem_riscv::{Hart, Inst, abi};
use serde::{Deserialize, Serialize};

use super::cache::PrivateCache;
use super::device_port::DevicePort;
use super::fast::{self, Fast};
use super::integrated;
use super::layout::Queue;
use super::probe::ReadId;
use super::through::Through;
use super::wires::{Event, Pace, Wires};
use super::write_through::{Look, WriteThrough};
use crate::block::{BLOCK_BYTES, Line, Words};
use crate::cpu::{Core, Lives, Next, Port, Program, Stats, Stop, Stretch, Tally, Track, Translate};
use crate::engine::{Cycle, MOST};
use crate::machine::Machine;
use crate::scratchpad::Target;
use crate::scratchpad::region::{FIRST, LOCK_BOX, NAMES_END};

/// The state of a core between two of its instructions, while it executes without timing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    stats: Stats,
    gives_way: bool,
    pub fast: fast::State,
}

impl State {
    /// Instructions that it has executed.
    pub const fn executed(&self) -> u64 {
        self.stats.retired.saturating_add(self.stats.fast_forwarded)
    }

    /// Checks a state that was read, of a node with these lines of memory.
    ///
    /// # Errors
    /// The first field that no core has so, and what is wrong with it.
    pub fn check(&self, has_line: impl Fn(Line) -> bool) -> Result<(), String> {
        if let Some((name, count)) = self.stats.named().find(|&(_, count)| count >= MOST) {
            return Err(format!("stats.{name}: is {count}, must be less than {MOST}"));
        }
        self.fast.check(has_line).map_err(|wrong| format!("fast.{wrong}"))
    }
}

/// A core that executes a program.
#[derive(Clone, Debug)]
pub struct Cpu {
    number: u16,
    core: Core,
    /// Its write-through L1, if the private cache is not its L1.
    front: Option<WriteThrough>,
    /// Its stores to borrowed memory, if they go through.
    through: Option<Through>,
    /// Its way to devices of other nodes, if there is one.
    devices: Option<DevicePort>,
    /// Cycle of its latest tick.
    ticked_at: Cycle,
    /// Result of this cycle, if it has come before the end of all messages.
    ticked: Option<Next>,
    /// In its place, while it executes without timing.
    fast: Option<Box<Fast>>,
    /// It executes an instruction with timing, and then goes on without.
    is_stepping: bool,
    /// The operating system wants it for another thread.
    gives_way: bool,
}

impl Cpu {
    /// Core `number`, which begins with these registers in the cycle after this one.
    pub fn new(number: u16, machine: &Machine, hart: &Hart, wires: &mut Wires) -> Cpu {
        wires.tick_next(number);
        if wires.pace == Pace::Timed {
            return Cpu::of(number, machine, Core::new(&machine.cpu_spec(), hart, wires.now));
        }
        let core = Core::paused(&machine.cpu_spec(), Stats::default(), wires.now);
        let fast = Some(Box::new(Fast::new(hart.clone(), wires.now + 1)));
        Cpu { fast, ..Cpu::of(number, machine, core) }
    }

    fn of(number: u16, machine: &Machine, core: Core) -> Cpu {
        Cpu {
            number,
            core,
            front: WriteThrough::of(number, machine),
            through: Through::of(number, machine),
            devices: DevicePort::of(number, machine),
            ticked_at: 0,
            ticked: None,
            fast: None,
            is_stepping: false,
            gives_way: false,
        }
    }

    /// Its state, if it executes without timing.
    pub fn state(&self) -> Option<State> {
        let fast = self.without_timing()?.state();
        Some(State { stats: *self.core.stats(), gives_way: self.gives_way, fast })
    }

    /// Core `number`, which goes on from this state.
    pub fn restore(number: u16, machine: &Machine, state: State, wires: &mut Wires) -> Cpu {
        let core = Core::paused(&machine.cpu_spec(), state.stats, wires.now);
        let fast = Fast::restore(state.fast, &wires.map);
        let cpu = Cpu {
            fast: Some(Box::new(fast)),
            gives_way: state.gives_way,
            ..Cpu::of(number, machine, core)
        };
        cpu.tick_when_due(wires);
        cpu
    }

    /// Makes it go on without timing, when what it has executed is over.
    fn tick_when_due(&self, wires: &mut Wires) {
        if let Some(due) = self.fast.as_ref().and_then(|fast| fast.is_due_at()) {
            self.tick_at(due, wires);
        }
    }

    /// The registers and state without timing, unless an instruction with timing is under way.
    fn without_timing(&self) -> Option<&Fast> {
        self.fast.as_deref().filter(|_| !self.is_stepping)
    }

    /// Whether it executes an instruction with timing, and then goes on without.
    pub const fn is_stepping(&self) -> bool {
        self.is_stepping
    }

    /// Its registers; it has stopped.
    pub fn hart(&self) -> Hart {
        self.without_timing().map_or_else(|| self.core.hart(), |fast| fast.hart.clone())
    }

    /// Address of the oldest instruction that is not done.
    pub fn pc(&self) -> u64 {
        self.without_timing().map_or_else(|| self.core.oldest_pc(), |fast| fast.hart.pc)
    }

    /// Its stores to borrowed memory, if they go through.
    pub fn through(&mut self) -> Option<&mut Through> {
        self.through.as_mut()
    }

    /// Its way to devices, if there is one.
    pub fn device_port(&mut self) -> Option<&mut DevicePort> {
        self.devices.as_mut()
    }

    /// Records the lives of its instructions.
    pub fn record_lives(&mut self, stretch: Stretch) {
        self.core.record_lives(stretch);
    }

    /// The lives that were recorded, up to the latest [`Cpu::settle`].
    pub fn take_lives(&mut self) -> Lives {
        self.core.take_lives()
    }

    /// As [`Core::forget_lives`].
    pub fn forget_lives(&mut self) {
        self.core.forget_lives();
    }

    /// As [`Core::stop_lives`].
    pub fn stop_lives(&mut self) {
        self.core.stop_lives();
    }

    /// Counts by intervals.
    pub fn record_tally(&mut self, tally: Tally) {
        self.core.record_tally(tally);
    }

    /// What was counted, up to the latest [`Cpu::settle`].
    pub fn take_tally(&mut self) -> Option<Tally> {
        self.core.take_tally()
    }

    /// The track of its thread, for the operating system to put and take, up to the latest [`Cpu::settle`].
    pub fn track(&mut self) -> &mut Option<Box<Track>> {
        self.core.track()
    }

    /// Gives a core that is new the track of its thread, which begins with these registers.
    pub fn begin_track(&mut self, mut track: Option<Box<Track>>, hart: &Hart, now: Cycle) {
        if let Some(track) = track.as_mut().filter(|_| self.fast.is_none()) {
            track.go_on(hart.pc, hart.x[abi::SP], now + 1);
        }
        *self.core.track() = track;
    }

    /// Goes on without timing, in the next cycle.
    fn speed_up(&mut self, now: Cycle) {
        self.leave_track(now);
        self.fast = Some(Box::new(Fast::new(self.core.hart(), now + 1)));
    }

    fn leave_track(&mut self, now: Cycle) {
        if let Some(track) = self.core.track() {
            track.forget(now);
        }
    }

    /// Executes the next instruction with timing, from the next cycle on.
    fn step(&mut self, wires: &mut Wires) {
        let Some(fast) = &self.fast else { return };
        self.core.resume(&fast.hart, wires.now);
        self.core.step();
        self.is_stepping = true;
        wires.tick_next(self.number);
    }

    /// Goes on without timing after an instruction with it, which has come to a stop of its own or to none.
    fn step_back(&mut self, stop: Stop, wires: &mut Wires) -> Option<Stop> {
        self.leave_track(wires.now);
        self.is_stepping = false;
        let fast = self.fast.as_mut()?;
        let stop = Some(stop).filter(|&stop| stop != Stop::Paused);
        fast.come_back(self.core.hart(), wires.now + 1, stop);
        wires.tick_next(self.number);
        None
    }

    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// Goes on after a stop with these registers, at cycle `at` or in the next one.
    pub fn resume(&mut self, hart: &Hart, at: Cycle, wires: &mut Wires) {
        self.gives_way = false;
        let before = at.max(wires.now + 1) - 1;
        if wires.pace != Pace::Timed {
            let fast = self.fast.get_or_insert_with(|| Box::new(Fast::new(hart.clone(), 0)));
            fast.resume(hart, before + 1);
            if before + 1 < Cycle::MAX {
                self.tick_at(before + 1, wires);
            }
            return;
        }
        self.core.resume(hart, before);
        wires.probe.went_on(self.number, before + 1);
        self.tick_at(before + 1, wires);
    }

    /// Has it stop with [`Stop::Paused`] as soon as it can.
    pub fn give_way(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        self.gives_way = true;
        if self.fast.is_none() {
            self.settle(l1, wires);
            self.core.pause(true);
        }
    }

    /// The pace has changed: it goes on at that as soon as it can.
    pub fn set_pace(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        match (wires.pace, &mut self.fast) {
            (Pace::Fast, None) => {
                self.settle(l1, wires);
                let has_stopped = self.core.stopped().is_some();
                self.core.pause(true);
                if !has_stopped && self.core.stopped().is_some() {
                    self.speed_up(wires.now);
                }
            }
            (Pace::Warming, Some(fast)) => {
                fast.begin_warming(wires.shared_lines + l1.lines(), &wires.map);
                wires.tick_next(self.number);
            }
            (Pace::Timed, None) => self.core.pause(false),
            (Pace::Timed, fast @ Some(_)) if self.is_stepping => {
                *fast = None;
                self.is_stepping = false;
                self.core.pause(self.gives_way);
                wires.tick_next(self.number);
            }
            (Pace::Timed, fast @ Some(_)) => {
                if let Some(fast) = fast.take().filter(|fast| !fast.is_stopped()) {
                    // One that stays where it is has no time of its own.
                    let at = if fast.due < Cycle::MAX { fast.due } else { wires.now };
                    let gives_way = self.gives_way;
                    self.resume(&fast.hart, at, wires);
                    self.gives_way = gives_way;
                    self.core.pause(gives_way);
                }
            }
            (Pace::Fast, Some(fast)) => {
                fast.release(wires.now);
                self.tick_when_due(wires);
            }
            (Pace::Warming, None) | (Pace::Held, _) => {}
        }
    }

    /// Whether its caches are warm, and the time of what it has executed without timing is over.
    pub fn is_warm(&self, now: Cycle) -> bool {
        self.fast.as_ref().is_none_or(|fast| fast.is_warm(now))
    }

    /// A cycle without timing.
    fn tick_fast(&mut self, l1: &mut PrivateCache, wires: &mut Wires) -> Option<Stop> {
        let fast = self.fast.as_mut()?;
        if wires.pace == Pace::Warming {
            if fast.warm(l1, wires) {
                wires.tick_next(self.number);
            }
            return None;
        }
        if wires.pace == Pace::Held || wires.hears && !self.tell_caches(l1, wires) {
            return None;
        }
        let fast = self.fast.as_mut()?;
        if wires.now < fast.due || fast.is_stopped() {
            return None;
        }
        let own = 1 << self.number;
        let is_shared = wires.map.has_borrowed();
        let is_quiet = is_shared && wires.unheard & own != 0 && fast.is_quiet(wires.now);
        if !fast.is_asked() && !self.gives_way && !is_quiet {
            wires.asks &= !own;
            // Whatever it touched now, those that wait would have to wait for.
            if wires.asks != 0 {
                wires.tick_next(self.number);
                return None;
            }
            let done = fast.execute(self.core.stats().executed(), wires);
            self.core.count_fast_forwarded(done);
            if done > 0 {
                wires.unheard |= own;
                let due = fast.due;
                self.tick_at(due, wires);
                return None;
            }
        }
        if is_shared && wires.unheard != 0 {
            wires.hears = true;
            wires.asks |= own;
            wires.cpus_next |= wires.unheard | own;
            return None;
        }
        wires.asks &= !own;
        if let Some(stop) = fast.take_stop() {
            return Some(stop);
        }
        if std::mem::take(&mut self.gives_way) {
            return fast.pause();
        }
        match fast.take_outside() {
            true => self.step(wires),
            false => wires.tick_next(self.number),
        }
        None
    }

    /// Has the caches hear of what the core has touched, as all cores do now. Whether it may go on.
    fn tell_caches(&mut self, l1: &mut PrivateCache, wires: &mut Wires) -> bool {
        let Some(fast) = &mut self.fast else { return true };
        let own = 1 << self.number;
        if wires.unheard & own != 0 && fast.tell_caches(l1, wires) {
            wires.unheard &= !own;
        }
        wires.hears = wires.unheard != 0;
        if wires.hears && (wires.unheard & own != 0 || wires.now >= fast.due) {
            wires.tick_next(self.number);
        }
        !wires.hears
    }

    /// Something has happened in the L1: accesses that waited may be tried again, if any, and some
    /// blocks have gone.
    ///
    /// Data that have come are used at once, before the next message: from the NI cache behind it, a block
    /// may be asked back in the very cycle in which it arrives, again and again.
    #[inline]
    pub fn told(&mut self, is_complete: bool, l1: &mut PrivateCache, wires: &mut Wires) {
        self.note_lost(l1, wires);
        if !is_complete || !self.core.complete() {
            return;
        }
        if self.ticked.is_some() {
            return wires.tick_next(self.number);
        }
        let now = wires.now;
        let Cpu { core, front, through, devices, .. } = self;
        self.ticked = Some(core.tick(now, &mut View { front, through, devices, l1, wires }));
        self.ticked_at = now;
        self.note_lost(l1, wires);
        wires.tick_now(self.number);
    }

    /// Somebody outside of the coherence domain, such as the operating system, has changed a block
    /// after this cycle's tick.
    pub fn changed(&mut self, line: Line, wires: &mut Wires) {
        if self.core.lost(line) {
            wires.tick_next(self.number);
        }
    }

    /// One cycle, after all messages of this cycle; whether it has stopped.
    #[inline]
    pub fn tick(&mut self, l1: &mut PrivateCache, wires: &mut Wires) -> Option<Stop> {
        if self.without_timing().is_some() {
            return self.tick_fast(l1, wires);
        }
        let now = wires.now;
        if let Some(fast) = self.fast.as_mut().filter(|_| wires.pace == Pace::Warming)
            && fast.warm(l1, wires)
        {
            wires.tick_next(self.number);
        }
        let next = match self.ticked.take() {
            Some(next) => next,
            None => {
                let Cpu { core, front, through, devices, .. } = self;
                let next = core.tick(now, &mut View { front, through, devices, l1, wires });
                self.ticked_at = now;
                self.note_lost(l1, wires);
                next
            }
        };
        match next {
            Next::At(at) => self.tick_at(at, wires),
            Next::Told => {}
            Next::Stopped(stop) if self.is_stepping => return self.step_back(stop, wires),
            Next::Stopped(Stop::Paused) if !std::mem::take(&mut self.gives_way) => {
                self.speed_up(now);
                wires.tick_next(self.number);
            }
            Next::Stopped(stop) => return Some(stop),
        }
        None
    }

    /// Tells the core which blocks have gone, taken away or driven out.
    #[inline]
    fn note_lost(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        for line in l1.lost.drain(..) {
            if let Some(front) = &mut self.front {
                front.lose(line);
            }
            if !self.core.lost(line) {
                continue;
            }
            match self.ticked_at == wires.now {
                true => wires.tick_next(self.number),
                false => wires.tick_now(self.number),
            }
        }
    }

    /// Wakes it, with its counts up to the end of this cycle: something is about to change that it
    /// could not be told of.
    pub fn settle(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        if self.core.stopped().is_some() {
            return;
        }
        let now = wires.now;
        let Cpu { core, front, through, devices, .. } = self;
        core.settle(now, &mut View { front, through, devices, l1, wires });
        wires.tick_next(self.number);
    }

    /// Drops fetched instructions: the text has changed by other means than this core's stores.
    pub fn forget_instructions(&mut self) {
        if let Some(fast) = &mut self.fast {
            fast.forget_instructions();
        }
        self.core.forget_instructions();
    }

    #[inline]
    fn tick_at(&self, at: Cycle, wires: &mut Wires) {
        if at <= wires.now + 1 {
            wires.tick_next(self.number);
        } else {
            wires.wheel.at(at, Event::Cpu(self.number));
        }
    }
}

/// The core's view of its surroundings in a cycle.
struct View<'a> {
    front: &'a mut Option<WriteThrough>,
    through: &'a mut Option<Through>,
    devices: &'a mut Option<DevicePort>,
    l1: &'a mut PrivateCache,
    wires: &'a mut Wires,
}

impl Port for View<'_> {
    #[inline]
    fn load(&mut self, line: Line) -> Option<Words> {
        if let Some(through) = self.through
            && !through.may_load(line, self.wires)
        {
            return None;
        }
        match self.front {
            None if self.wires.probe.follows(line) => self.load_of_queue(line),
            None => self.l1.load(line, self.wires),
            Some(_) => self.load_through(line, true),
        }
    }

    fn fetch(&mut self, line: Line) -> bool {
        self.load_through(line, false).is_some()
    }

    #[inline]
    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        if self.wires.probe.follows(line) {
            return self.store_to_queue(line, change);
        }
        let is_done = self.l1.store(line, self.wires, change);
        if is_done {
            self.access_private_cache();
        }
        is_done
    }

    #[inline]
    fn special_from(&self) -> Line {
        self.wires.map.special_from
    }

    fn is_plain(&self, line: Line) -> bool {
        match &self.l1.integrated {
            Some(own) => own.own_line(line).is_some(),
            // Besides registers of devices, only stores to borrowed memory are special.
            None => self.devices.is_none(),
        }
    }

    fn special_load(&mut self, address: u64, size: u8) -> Option<u64> {
        if let Some(port) = self.devices {
            return port.access(address, size, None, self.wires);
        }
        self.l1.integrated.as_mut()?.load(address, size, self.wires)
    }

    fn special_store(&mut self, address: u64, size: u8, value: u64) -> bool {
        if let Some(through) = self.through {
            return through.store(address, size, value, self.wires);
        }
        if let Some(port) = self.devices {
            return port.access(address, size, Some(value), self.wires).is_some();
        }
        let is_done = integrated::store(self.l1, address, size, value, self.wires);
        if let Some(own) = &mut self.l1.integrated {
            own.take_changed(&mut self.l1.lost);
        }
        is_done
    }

    fn is_waited_for(&self, line: Line) -> bool {
        self.wires.map.regions.is_some() && line >= LOCK_BOX / BLOCK_BYTES
    }

    fn keeps_stores_in_order(&self) -> bool {
        self.through.is_none()
    }

    fn fence(&mut self) -> bool {
        if let Some(own) = &mut self.l1.integrated {
            own.fence(self.wires);
        }
        self.through.as_mut().is_none_or(|through| through.fence(self.wires))
    }
}

impl View<'_> {
    /// A load of a block of a queue.
    fn load_of_queue(&mut self, line: Line) -> Option<Words> {
        let words = self.l1.load(line, self.wires);
        if self.wires.layout.queue_of(line) == Some(Queue::Completion) {
            let Wires { probe, counts, latencies, layout, now, .. } = &mut *self.wires;
            probe.looked(layout.owner_of(line), line, words.is_some(), *now, |latency| {
                counts.reads += 1;
                latencies.add(latency);
            });
        }
        words
    }

    /// Stores to a block of a queue, which leave together. A WQ entry is whole with its first word (`rackmem_abi`).
    fn store_to_queue(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        let mut changed = [false; 8];
        let is_done = self.l1.store(line, self.wires, |words| {
            let before = *words;
            change(words);
            changed = std::array::from_fn(|word| words[word] != before[word]);
        });
        let Wires { probe, layout, now, .. } = &mut *self.wires;
        for word in (0..changed.len()).filter(|&word| changed[word]) {
            if let Some(slot) = layout.published(line, word) {
                probe.posted(ReadId { core: layout.owner_of(line), slot }, *now);
            }
        }
        is_done
    }

    /// A load by way of the write-through L1, in which lines of memory and of plain scratchpad stay
    /// that are not instructions.
    fn load_through(&mut self, line: Line, is_data: bool) -> Option<Words> {
        let is_special = line >= self.special_from();
        let own = self.l1.integrated.as_ref().filter(|_| is_special);
        let (words, kept) = match own {
            Some(own) => {
                let is_scratchpad =
                    own.own_line(line).is_some_and(crate::scratchpad::line::Line::is_plain);
                (Some(own.words(line)), is_scratchpad)
            }
            None => (self.l1.load(line, self.wires), is_data),
        };
        let Some(front) = self.front else { return words };
        let asks = match words {
            None => front.miss(line),
            Some(_) => match front.look(line, kept, self.wires) {
                Look::Hit => return words,
                look => look == Look::Ask,
            },
        };
        if asks {
            self.access_private_cache();
        }
        None
    }

    /// The core has an access to its private cache, which a network interface may share.
    #[inline]
    fn access_private_cache(&mut self) {
        if let Some(own) = &mut self.l1.integrated {
            own.access(self.wires.now);
        }
    }
}

impl Translate for View<'_> {
    #[inline]
    fn translate(&mut self, address: u64, wanted: Wanted) -> Result<u64, Fault> {
        match self.wires.map.regions {
            Some(regions) if (FIRST..NAMES_END).contains(&address) => {
                let own = self.l1.integrated.as_ref();
                let place = own.map_or(address, |own| own.place_of(address));
                let fault = |cause| Fault { address, wanted, cause };
                match (regions.find(place), wanted) {
                    (None | Some(Target::Load(_)), _) => Err(fault(Cause::Unmapped)),
                    (Some(_), Wanted::Execute) => Err(fault(Cause::Forbidden)),
                    (Some(_), _) => Ok(place),
                }
            }
            _ => self.wires.mmu.translate(address, wanted),
        }
    }
}

impl Program for View<'_> {
    #[inline(always)]
    fn inst(&mut self, pc: u64) -> Result<&Inst, Fault> {
        let Wires { mmu, image, .. } = &mut *self.wires;
        mmu.inst(pc, image.as_ref().expect("programs have memory"))
    }

    fn fence_i(&mut self) {
        self.wires.mmu.forget_instructions();
    }
}
