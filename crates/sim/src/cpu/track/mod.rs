//! The track of a thread, for people to look at: slices of time that nest, for functions, system calls and waits.
//!
//! A core that has a track tells it of what retires ([`stack`]); the operating system adds the rest. Slices are
//! recorded in a window of time, and as many as there is room for; the stack of open ones is kept from the begin of the
//! thread to the end of the window, so that the window begins with all that is open then.

mod stack;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rackmem_riscv::{Hart, Symbols, abi};

use crate::engine::Cycle;

/// Frames that a track keeps at most. Deeper calls are counted, and have no slices.
pub const DEEPEST: usize = 256;

/// Length of `ecall`.
const ECALL_BYTES: u64 = 4;

/// `rt_sigreturn`, the call that ends a handler of a signal.
const SIGRETURN: u64 = 139;

/// What a slice stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The function that begins at this address; `None` where the program has no symbols.
    Function(Option<u64>),
    /// A system call, from the `ecall` to the instruction after it.
    Call(Box<Call>),
    /// The thread does not have a core, for this reason.
    Wait(&'static str),
    /// A handler of a signal, with what it interrupts around it.
    Handler,
}

/// A system call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its number, in `a7`.
    pub number: u64,
    /// As in Linux, or in the driver's header.
    pub name: String,
    /// The arguments that matter: name and value.
    pub args: Vec<(&'static str, String)>,
    /// Its result, negative for an error; `None` if it had not returned when the record ended.
    pub result: Option<i64>,
}

/// A stretch of time on a track, cut to the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its first cycle.
    pub begin: Cycle,
    /// The cycle in which it was over.
    pub end: Cycle,
    /// What it stands for.
    pub what: What,
}

/// An open slice.
#[derive(Clone, Debug)]
struct Frame {
    what: What,
    /// Addresses of the function.
    code: Range<u64>,
    /// Function: the address to which it returns. Call: that of its `ecall`.
    back: u64,
    /// The stack pointer before the call.
    sp: u64,
    /// Where its slice is recorded, if it is.
    place: Option<usize>,
}

/// The places for slices that the tracks of a node share.
#[derive(Debug)]
pub struct Room(AtomicUsize);

impl Room {
    /// Places for so many.
    pub fn new(slices: usize) -> Room {
        Room(AtomicUsize::new(slices))
    }

    /// Takes a place; false if there is none left.
    pub fn take(&self) -> bool {
        // A node is simulated by one thread at a time.
        let taken = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }
}

/// What was recorded on a track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slices {
    /// In the order of their begins; what is around another one comes first.
    pub slices: Vec<Slice>,
    /// Regions of interest.
    pub regions: Vec<Range<Cycle>>,
    /// Slices for which there was no room.
    pub dropped: u64,
    /// The begin of the first one of these.
    pub whole_to: Option<Cycle>,
}

/// The track of a thread.
#[derive(Clone, Debug)]
pub struct Track {
    window: Range<Cycle>,
    symbols: Arc<Symbols>,
    room: Arc<Room>,
    /// The outermost first.
    frames: Vec<Frame>,
    /// Calls below the deepest frame.
    beyond: u64,
    /// The stack pointer, as far as instructions have retired.
    sp: u64,
    /// The address at which it stopped.
    stopped_at: u64,
    has_begun: bool,
    is_over: bool,
    region: Option<Cycle>,
    recorded: Slices,
}

impl Track {
    /// The track of a thread that begins with these registers.
    pub fn new(window: Range<Cycle>, symbols: Arc<Symbols>, room: Arc<Room>, hart: &Hart) -> Track {
        Track {
            window,
            symbols,
            room,
            frames: Vec::new(),
            beyond: 0,
            sp: hart.x[abi::SP],
            stopped_at: hart.pc,
            has_begun: false,
            is_over: false,
            region: None,
            recorded: Slices::default(),
        }
    }

    /// The program has these functions from now on.
    pub fn learn(&mut self, symbols: &Arc<Symbols>) {
        self.symbols = Arc::clone(symbols);
    }

    /// The thread has stopped before the instruction at `pc`.
    pub fn stop(&mut self, pc: u64) {
        self.stopped_at = pc;
    }

    /// The instruction at which it has stopped is a system call. One that is made again goes on.
    pub fn call(&mut self, call: Call, now: Cycle) {
        let is_again = self.frames.last().is_some_and(|top| self.is_call_here(top));
        if !is_again {
            let (what, back) = (What::Call(Box::new(call)), self.stopped_at);
            self.open(Frame { what, code: 0..0, back, sp: self.sp, place: None }, now);
        }
    }

    fn is_call_here(&self, frame: &Frame) -> bool {
        matches!(frame.what, What::Call(_)) && frame.back == self.stopped_at
    }

    /// The thread does not have its core from now on.
    pub fn wait(&mut self, why: &'static str, now: Cycle) {
        self.end_wait(now);
        let what = What::Wait(why);
        self.open(Frame { what, code: 0..0, back: 0, sp: self.sp, place: None }, now);
    }

    fn end_wait(&mut self, now: Cycle) {
        if self.frames.last().is_some_and(|top| matches!(top.what, What::Wait(_))) {
            self.close(now);
        }
    }

    /// The thread has its core from now on, and goes on with these registers in cycle `at`.
    pub fn resume(&mut self, hart: &Hart, now: Cycle, at: Cycle) {
        self.end_wait(now);
        let returns = matches!(self.frames.last(), Some(Frame { what: What::Call(call), .. })
            if call.number == SIGRETURN);
        if returns {
            self.close(at);
            let handler = self.frames.iter().rposition(|frame| frame.what == What::Handler);
            self.cut(handler.unwrap_or(self.frames.len()), at);
            self.sp = hart.x[abi::SP];
            self.end_call(hart, at);
        } else if hart.pc == self.stopped_at.wrapping_add(ECALL_BYTES) {
            self.end_call(hart, at);
        } else if hart.pc != self.stopped_at {
            self.handle(hart, now);
        }
    }

    /// Ends the innermost slice if it is a call that has returned.
    fn end_call(&mut self, hart: &Hart, at: Cycle) {
        let Some(Frame { what: What::Call(_), back, place, .. }) = self.frames.last() else {
            return;
        };
        if hart.pc != back.wrapping_add(ECALL_BYTES) {
            return;
        }
        if let Some(place) = *place
            && let What::Call(call) = &mut self.recorded.slices[place].what
        {
            call.result = Some(hart.x[abi::A0] as i64);
        }
        self.close(at);
    }

    /// A region of interest begins.
    pub fn begin_region(&mut self, now: Cycle) {
        self.region.get_or_insert(now);
    }

    /// A region of interest ends.
    pub fn end_region(&mut self, now: Cycle) {
        let Some(begin) = self.region.take() else { return };
        let cut = begin.max(self.window.start)..now.min(self.window.end);
        if cut.is_empty() {
            return;
        }
        match self.room.take() {
            true => self.recorded.regions.push(cut),
            false => self.drop_slice(cut.start),
        }
    }

    /// Whether nothing more is recorded after this cycle.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends all that is open, and gives what was recorded.
    pub fn finish(mut self, now: Cycle) -> Slices {
        self.end_region(now);
        self.advance(now);
        self.cut(0, now);
        let mut recorded = self.recorded;
        // Calls may be over in a cycle to come.
        recorded.slices.iter_mut().for_each(|slice| slice.end = slice.end.min(now));
        recorded
    }

    /// Something happens in this cycle: the window may have begun, or be over.
    fn advance(&mut self, now: Cycle) {
        let Range { start, end } = self.window;
        if !self.has_begun && now >= start {
            self.has_begun = true;
            (0..self.frames.len()).for_each(|at| self.place(at, start));
        }
        if !self.is_over && now >= end {
            self.is_over = true;
            self.frames.iter().filter_map(|frame| frame.place).for_each(|place| {
                self.recorded.slices[place].end = end;
            });
            self.frames.clear();
        }
    }

    fn open(&mut self, frame: Frame, now: Cycle) {
        self.advance(now);
        if self.is_over {
            return;
        }
        self.frames.push(frame);
        if self.has_begun {
            self.place(self.frames.len() - 1, now);
        }
    }

    /// Ends the innermost slice.
    fn close(&mut self, now: Cycle) {
        self.advance(now);
        let Some(Frame { place: Some(place), .. }) = self.frames.pop() else { return };
        match self.recorded.slices[place].begin > now {
            // It was to begin in a cycle that does not come. So were all after it, which have ended.
            true => self.recorded.slices.truncate(place),
            false => self.recorded.slices[place].end = now,
        }
    }

    /// Ends the innermost slices, but for so many outer ones.
    fn cut(&mut self, frames: usize, now: Cycle) {
        while self.frames.len() > frames {
            self.close(now);
        }
    }

    /// Records the slice of a frame, from `begin` on.
    fn place(&mut self, frame: usize, begin: Cycle) {
        let frame = &mut self.frames[frame];
        if frame.what == What::Function(None) {
            return;
        }
        if !self.room.take() {
            return self.drop_slice(begin);
        }
        frame.place = Some(self.recorded.slices.len());
        let what = frame.what.clone();
        self.recorded.slices.push(Slice { begin, end: Cycle::MAX, what });
    }

    fn drop_slice(&mut self, begin: Cycle) {
        let Slices { dropped, whole_to, .. } = &mut self.recorded;
        *dropped += 1;
        whole_to.get_or_insert(begin);
    }
}
