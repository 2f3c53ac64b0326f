//! What the operating system adds to the tracks of threads.
//!
//! Each of these does nothing unless tracks are recorded.

use rackmem_riscv::{Hart, Mark, abi};

use super::{System, Thread};
use crate::chip::Chip;
use crate::chip::cpu::Cpu;
use crate::cpu::Track;
use crate::engine::Cycle;
use crate::exec::pages::User;
use crate::exec::tracks::describe;

impl Thread {
    /// The reason why it has no core, if it will have it again.
    const fn waits_for(&self) -> Option<&'static str> {
        match self {
            Thread::Ready { .. } => Some("waits for its turn"),
            Thread::Asleep { .. } => Some("asleep"),
            Thread::Watching { .. } => Some("watches a word of memory"),
            Thread::Asking { .. } => Some("waits for another node"),
            Thread::Idle | Thread::Running => None,
        }
    }
}

impl System {
    /// Has a core record what is asked for.
    pub(super) fn record(&self, cpu: &mut Cpu) {
        if let Some(stretch) = &self.pipeline {
            cpu.record_lives(stretch.clone());
        }
        if let Some(recorder) = &self.recorder {
            cpu.record_tally(recorder.tally());
        }
    }

    /// The track of a thread that has its core.
    fn running<'a>(&self, number: usize, chip: &'a mut Chip) -> Option<&'a mut Track> {
        self.recorder.as_ref()?;
        let core = self.turns.core_of(number);
        chip.tiles[core].cpu.as_mut()?.track().as_deref_mut()
    }

    /// A thread begins.
    pub(super) fn note_start(&mut self, number: usize, hart: &Hart) {
        let id = self.kernel.thread_id(number).unwrap_or_default();
        if let Some(recorder) = &mut self.recorder {
            recorder.start(number, id, hart);
        }
    }

    /// A thread that runs has stopped at `pc`.
    pub(super) fn note_stop(&self, number: usize, pc: u64, chip: &mut Chip) {
        if let Some(track) = self.running(number, chip) {
            track.stop(pc);
        }
    }

    /// A thread makes a system call.
    pub(super) fn note_call(&mut self, number: usize, hart: &Hart, chip: &mut Chip) {
        if self.running(number, chip).is_none_or(|track| track.is_over()) {
            return;
        }
        let args = std::array::from_fn(|at| hart.x[abi::A0 + at]);
        let mut user = User { pages: &mut self.pages, chip };
        let call = describe(hart.x[abi::A7], args, &mut user);
        let now = chip.wires.now;
        if let Some(track) = self.running(number, chip) {
            track.call(call, now);
        }
    }

    /// A thread comes to the begin or the end of a region of interest.
    pub(super) fn note_mark(&self, number: usize, mark: Mark, chip: &mut Chip) {
        let now = chip.wires.now;
        if let Some(track) = self.running(number, chip) {
            match mark {
                Mark::Begin => track.begin_region(now),
                Mark::End => track.end_region(now),
            }
        }
    }

    /// A thread that runs is this from now on, and gives its core back.
    pub(super) fn note_leave(&mut self, number: usize, thread: &Thread, chip: &mut Chip) {
        let Some(recorder) = &mut self.recorder else { return };
        let (core, now) = (self.turns.core_of(number), chip.wires.now);
        let track = chip.tiles[core].cpu.as_mut().and_then(|cpu| cpu.track().take());
        recorder.end_turn(number, now);
        *recorder.track(number) = track;
        match (thread.waits_for(), recorder.track(number)) {
            (Some(why), Some(track)) => track.wait(why, now),
            _ => recorder.end(number, now),
        }
    }

    /// A thread could go on, if it had its core.
    pub(super) fn note_ready(&mut self, number: usize, now: Cycle) {
        let Some(recorder) = &mut self.recorder else { return };
        if let (Some(why), Some(track)) = (self.threads[number].waits_for(), recorder.track(number))
        {
            track.wait(why, now);
        }
    }

    /// A thread goes on with these registers, so many cycles later. Gives its track, which the core has if the thread
    /// has kept that.
    pub(super) fn note_resume(
        &mut self,
        number: usize,
        hart: &Hart,
        cycles: Cycle,
        cpu: Option<&mut Cpu>,
        now: Cycle,
    ) -> Option<Box<Track>> {
        let recorder = self.recorder.as_mut()?;
        recorder.begin_turn(number, now);
        let away = recorder.track(number).take();
        let mut track = away.or_else(|| cpu.and_then(|cpu| cpu.track().take()))?;
        track.resume(hart, now, now.saturating_add(cycles.max(1)));
        Some(track)
    }

    /// A core has come to its end. Its thread may have it.
    pub(super) fn note_core_end(&mut self, cpu: &mut Cpu, core: u16, now: Cycle) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(tally) = cpu.take_tally() {
            recorder.count(core, tally, now);
        }
        if let Some(number) = self.turns.holder(core.into()) {
            recorder.end_turn(number, now);
            *recorder.track(number) = cpu.track().take();
        }
    }

    /// Learns the functions of libraries that the program has loaded since the last time.
    pub(super) fn note_libraries(&mut self, chip: &mut Chip) {
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.may_learn()) else {
            return;
        };
        let Some(symbols) = recorder.learn(self.kernel.code(), &self.host) else { return };
        let cores = chip.tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut());
        for track in cores.filter_map(|cpu| cpu.track().as_mut()) {
            track.learn(&symbols);
        }
    }

    /// The process goes on from a checkpoint: its threads are where they are.
    pub(super) fn note_restored(&mut self, chip: &mut Chip) {
        let now = chip.wires.now;
        self.note_libraries(chip);
        for number in 0..self.threads.len() {
            let core = self.turns.core_of(number);
            let hart = match &self.threads[number] {
                Thread::Idle => continue,
                Thread::Running => chip.tiles[core].cpu.as_ref().map(Cpu::hart),
                Thread::Ready { hart }
                | Thread::Asleep { hart, .. }
                | Thread::Watching { hart, .. }
                | Thread::Asking { hart } => Some((**hart).clone()),
            };
            let Some(hart) = hart else { continue };
            self.note_start(number, &hart);
            self.note_ready(number, now);
            let Some(recorder) = &mut self.recorder else { return };
            if matches!(self.threads[number], Thread::Running)
                && let Some(cpu) = &mut chip.tiles[core].cpu
            {
                recorder.begin_turn(number, now);
                *cpu.track() = recorder.track(number).take();
            }
        }
    }
}
