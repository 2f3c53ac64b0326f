//! A core that executes without timing, an instruction a cycle, and then warms its caches.
//!
//! Its stores are changes by somebody outside of the coherence domain ([`Chip::changed_by_system`]), so whatever the
//! network interface does goes on beside it, with its own timing. It notes when it last touched each line ([`Trail`]).
//! An access beyond the node's own memory, such as to borrowed memory or scratchpads, is an instruction with timing
//! ([`Core::step`]), by the caches and interfaces as they are, after which the core goes on without. Copies of borrowed
//! blocks are not coherent: programs drive them out of the caches by what they touch. So, where a node has borrowed
//! memory, the caches hear of what all its cores have touched before each such access and each stop; and from time to
//! time, as another node may wait for what was driven out.
//!
//! Before the core has its timing back, these touches are made again through its private cache, oldest first: caches
//! and directories come to their state by their own protocol (SMARTS's functional warming, with the record of Barr et
//! al., "Accelerating Multiprocessor Simulation with a Memory Timestamp Record", ISPASS 2005).
//!
//! [`Core::step`]: crate::cpu::Core::step
//! [`Chip::changed_by_system`]: super::Chip::changed_by_system

use rackmem_riscv::code::Fetch;
use rackmem_riscv::csr::Counter;
use rackmem_riscv::exec::{Exit, Trap, execute};
use rackmem_riscv::functional::{Blocks, Break};
use rackmem_riscv::space::{Cause, Fault, Wanted};
use rackmem_riscv::{AmoOp, Hart, Port};
use serde::{Deserialize, Serialize};

use super::cache::PrivateCache;
use super::image::Image;
use super::map::AddressMap;
use super::mmu::Mmu;
use super::trail::{self, Touch, Trail};
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Line};
use crate::cpu::Stop;
use crate::engine::{Cycle, MOST};

/// Instructions between two looks at the rest of the chip. Longer than the loops from a load reserved to the branch
/// back that the specification promises to end.
const SLICE: u64 = 1000;

/// Cycles after an access to borrowed memory at which caches hear of what was touched since; each further time comes
/// after twice as many.
const QUIET_CYCLES: Cycle = 100_000;

/// Entries of the list of lines that were changed in a slice; a power of two.
const CHANGED: usize = 64;

/// The state of a core without timing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// Registers before the next instruction.
    pub hart: Hart,
    /// As in [`Fast`].
    pub due: Cycle,
    stop: Option<Stop>,
    is_stopped: bool,
    /// The latest touches, the oldest last.
    #[serde(with = "trail::saved")]
    pub touches: Vec<Touch>,
}

impl State {
    /// Checks a state that was read, of a node with these lines of memory.
    ///
    /// # Errors
    /// The first field that no core has so, and what is wrong with it.
    pub fn check(&self, has_line: impl Fn(Line) -> bool) -> Result<(), String> {
        self.hart.check().map_err(|wrong| format!("hart.{wrong}"))?;
        if self.due >= MOST && self.due < Cycle::MAX {
            return Err(format!("due: is {}, must be less than {MOST}", self.due));
        }
        match self.touches.iter().zip(0..).find(|(touch, _)| !has_line(touch.line)) {
            None => Ok(()),
            Some((Touch { line, .. }, at)) => {
                Err(format!("touches[{at}]: is of line {line:#x}, which is not in memory"))
            }
        }
    }
}

/// A core without timing.
#[derive(Clone, Debug)]
pub struct Fast {
    /// Registers before the next instruction.
    pub hart: Hart,
    blocks: Blocks,
    trail: Trail,
    /// Touches that are still to be made again, the oldest last.
    warming: Vec<Touch>,
    /// The cycle in which what it has executed is over.
    pub due: Cycle,
    stop: Option<Stop>,
    /// Its stop is with the operating system.
    is_stopped: bool,
    /// Its next instruction reaches beyond the node's own memory.
    goes_outside: bool,
    /// Caches hear of what was touched since they last did.
    is_heard: bool,
    /// The cycle in which they last did, and cycles up to the next time.
    heard_at: Cycle,
    quiet_cycles: Cycle,
}

impl Fast {
    /// Goes on from these registers.
    pub fn new(hart: Hart, now: Cycle) -> Fast {
        Fast {
            hart,
            blocks: Blocks::new(),
            trail: Trail::default(),
            warming: Vec::new(),
            due: now,
            stop: None,
            is_stopped: false,
            goes_outside: false,
            is_heard: false,
            heard_at: now,
            quiet_cycles: QUIET_CYCLES,
        }
    }

    /// Goes on after a stop.
    pub fn resume(&mut self, hart: &Hart, at: Cycle) {
        self.hart = hart.clone();
        self.due = at;
        self.is_stopped = false;
        self.goes_outside = false;
    }

    /// Whether its next instruction has to be executed with timing, once.
    pub fn take_outside(&mut self) -> bool {
        if self.goes_outside {
            self.quiet_cycles = QUIET_CYCLES;
        }
        std::mem::take(&mut self.goes_outside)
    }

    /// Goes on with these registers after an instruction with timing, which may have come to a stop.
    pub fn come_back(&mut self, hart: Hart, at: Cycle, stop: Option<Stop>) {
        self.hart = hart;
        self.due = at;
        self.stop = stop;
    }

    /// Whether it has come to a stop, or to an instruction with timing.
    pub fn is_asked(&self) -> bool {
        self.stop.is_some() || self.goes_outside
    }

    /// Whether it has executed for so long that what it has touched may have driven something out of the caches for
    /// which others wait.
    pub fn is_quiet(&self, now: Cycle) -> bool {
        now >= self.heard_at + self.quiet_cycles
    }

    /// Makes the touches again of which the caches have not heard. Whether they have heard of all.
    pub fn tell_caches(&mut self, l1: &mut PrivateCache, wires: &mut Wires) -> bool {
        if !self.is_heard {
            self.is_heard = true;
            // More than there is room for, as not all sets are touched alike.
            self.warming = self.trail.end_stretch(2 * (wires.shared_lines + l1.lines()));
        }
        if self.warm(l1, wires) || l1.in_transition() > 0 {
            return false;
        }
        if self.is_quiet(wires.now) {
            self.quiet_cycles *= 2;
        }
        self.is_heard = false;
        self.heard_at = wires.now;
        true
    }

    /// All of it but decoded instructions.
    pub fn state(&self) -> State {
        State {
            hart: self.hart.clone(),
            due: self.due,
            stop: self.stop,
            is_stopped: self.is_stopped,
            touches: self.trail.clone().take(usize::MAX),
        }
    }

    /// Goes on from a state. Caches have heard of none of its touches.
    pub fn restore(state: State, map: &AddressMap) -> Fast {
        let State { hart, due, stop, is_stopped, touches } = state;
        let trail = Trail::of(&touches, map.has_window);
        Fast { stop, is_stopped, trail, ..Fast::new(hart, due) }
    }

    /// Goes on from the begin of a region of interest, if it stays there.
    pub fn release(&mut self, now: Cycle) {
        if self.due == Cycle::MAX {
            self.due = now + 1;
        }
    }

    /// The cycle in which it has something to do.
    pub fn is_due_at(&self) -> Option<Cycle> {
        (!self.is_stopped && self.due < Cycle::MAX).then_some(self.due)
    }

    /// Whether its stop is with the operating system.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Drops decoded instructions: the text has changed.
    pub fn forget_instructions(&mut self) {
        self.blocks.clear();
    }

    /// Executes a slice, whose time ends at `due`, after so many instructions of the core. How many it was.
    pub fn execute(&mut self, before: u64, wires: &mut Wires) -> u64 {
        let now = wires.now;
        if wires.map.has_window {
            self.trail.begin_stretch();
        }
        let mut done = 0;
        while done < SLICE && self.stop.is_none() && !self.goes_outside {
            done += self.run([now + done, before + done], SLICE - done, wires);
        }
        self.due = now + done;
        done
    }

    /// The stop that it has come to, once.
    pub fn take_stop(&mut self) -> Option<Stop> {
        let stop = self.stop.take();
        self.is_stopped |= stop.is_some();
        stop
    }

    /// Stops between two instructions.
    pub fn pause(&mut self) -> Option<Stop> {
        self.stop = Some(Stop::Paused);
        self.take_stop()
    }

    /// Executes up to `limit` instructions from a cycle on, after so many others.
    fn run(&mut self, begin: [u64; 2], limit: u64, wires: &mut Wires) -> u64 {
        let Wires { mmu, image: Some(image), changed, map, .. } = wires else { return 0 };
        let Fast { hart, blocks, trail, .. } = self;
        let (reserved, counts, told, code) = (None, None, [Line::MAX; CHANGED], Line::MAX);
        let own_bytes = map.own_bytes();
        let mut memory =
            Memory { mmu, image, trail, changed, map, own_bytes, told, reserved, counts, code };
        let (done, broken) = blocks.run(hart, &mut memory, limit);
        let (exit, inst) = match broken {
            None => return done,
            Some(Break::Fetch(fault)) => {
                self.stop = Some(Stop::Fault(fault));
                return done;
            }
            Some(Break::Exit(exit, inst)) => (exit, inst),
        };
        match exit {
            Exit::Stop(Reason::FenceI) => {
                hart.pc += u64::from(inst.len);
                blocks.clear();
                mmu.forget_instructions();
                return done + 1;
            }
            Exit::Stop(Reason::Counter) => {
                memory.counts = Some(begin.map(|count| count + done));
                let read = execute(hart, &inst, &mut memory);
                debug_assert!(read.is_ok(), "counters can always be read");
                return done + 1;
            }
            Exit::Stop(Reason::Outside) => self.goes_outside = true,
            Exit::Stop(Reason::Fault(fault)) => self.stop = Some(Stop::Fault(fault)),
            Exit::Trap(Trap::Ecall) => self.stop = Some(Stop::Ecall),
            Exit::Trap(Trap::Ebreak) => self.stop = Some(Stop::Ebreak),
            Exit::Trap(Trap::Illegal) => self.stop = Some(Stop::Illegal),
            Exit::Trap(Trap::Mark(mark)) => self.stop = Some(Stop::Mark(mark)),
        }
        done
    }

    /// Begins to warm the caches, with as many lines at most as they hold.
    pub fn begin_warming(&mut self, lines: usize, map: &AddressMap) {
        // Accesses to borrowed memory are amid the touches that caches have heard of: these are not made again.
        self.warming = match map.has_borrowed() {
            true => {
                let mut touches = self.trail.end_stretch(2 * lines);
                touches.append(&mut self.warming);
                touches
            }
            false => self.trail.take(lines),
        };
        self.is_heard = false;
    }

    /// Whether the caches are warm, and the time of what it has executed is over.
    pub fn is_warm(&self, now: Cycle) -> bool {
        self.warming.is_empty() && (self.due <= now || self.due == Cycle::MAX)
    }

    /// Makes a touch again. Whether there are more.
    pub fn warm(&mut self, l1: &mut PrivateCache, wires: &mut Wires) -> bool {
        let Some(touch) = self.warming.last() else { return false };
        let is_there = match touch.is_written {
            true => l1.store(touch.line, wires, |_| ()),
            false => l1.load(touch.line, wires).is_some(),
        };
        if is_there || l1.is_pending(touch.line) {
            self.warming.pop();
        }
        !self.warming.is_empty()
    }
}

/// Reasons to leave the hot loop.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Fault(Fault),
    /// It is not the node's own memory, or a fence for accesses to such.
    Outside,
    /// Decoded code has to go.
    FenceI,
    /// A counter is read.
    Counter,
}

/// The node's memory for a slice, in which nobody else acts.
struct Memory<'a> {
    mmu: &'a mut Mmu,
    image: &'a mut Image,
    trail: &'a mut Trail,
    /// Lines that it has changed, for the rest of the chip.
    changed: &'a mut Vec<Line>,
    map: &'a AddressMap,
    own_bytes: u64,
    /// The latest of them, direct-mapped.
    told: [Line; CHANGED],
    reserved: Option<Line>,
    /// Cycle and instructions, where a counter is read.
    counts: Option<[u64; 2]>,
    /// The virtual line of the latest instructions.
    code: Line,
}

impl Memory<'_> {
    #[inline(always)]
    fn write(&mut self, phys: u64, size: u8, data: u64) {
        let line = phys / BLOCK_BYTES;
        self.trail.write(line);
        let told = &mut self.told[line as usize % CHANGED];
        if std::mem::replace(told, line) != line {
            self.changed.push(line);
        }
        crate::cpu::write_word(self.image.block_mut(line), (phys % BLOCK_BYTES) as u8, size, data);
    }

    #[inline(always)]
    fn read(&mut self, phys: u64, size: u8) -> u64 {
        let line = phys / BLOCK_BYTES;
        self.trail.read(line);
        crate::cpu::read_word(self.image.words(line), (phys % BLOCK_BYTES) as u8, size)
    }

    /// The place of an access in the node's own memory.
    #[inline(always)]
    fn place(&mut self, address: u64, wanted: Wanted) -> Result<u64, Reason> {
        match self.mmu.translate(address, wanted) {
            Ok(phys) if phys < self.own_bytes => Ok(phys),
            other => Err(self.outside(address, other)),
        }
    }

    #[cold]
    fn outside(&self, address: u64, place: Result<u64, Fault>) -> Reason {
        match place {
            Err(fault) if !self.map.has_name(address) => Reason::Fault(fault),
            _ => Reason::Outside,
        }
    }

    /// The place of an atomic.
    fn aligned(&mut self, address: u64, size: u8, wanted: Wanted) -> Result<u64, Reason> {
        if address % u64::from(size) != 0 {
            return Err(Reason::Fault(Fault { address, wanted, cause: Cause::Misaligned }));
        }
        self.place(address, wanted)
    }

    /// An access that lies in two lines, byte by byte.
    #[cold]
    fn places(&mut self, address: u64, size: u8, wanted: Wanted) -> Result<[u64; 8], Reason> {
        let mut places = [0; 8];
        for (at, place) in (0..).zip(&mut places[..usize::from(size)]) {
            let byte = address.wrapping_add(at);
            *place = self.place(byte, wanted)?;
        }
        Ok(places)
    }
}

/// Whether an access lies in two lines.
#[inline(always)]
fn crosses(address: u64, size: u8) -> bool {
    address % BLOCK_BYTES + u64::from(size) > BLOCK_BYTES
}

impl Fetch for Memory<'_> {
    fn fetch(&self, address: u64) -> Result<u16, Fault> {
        self.mmu.text(self.image).fetch(address)
    }

    #[inline(always)]
    fn enter(&mut self, pc: u64) {
        if pc / BLOCK_BYTES != self.code {
            self.code = pc / BLOCK_BYTES;
            if let Ok(phys) = self.mmu.translate(pc, Wanted::Execute) {
                self.trail.read(phys / BLOCK_BYTES);
            }
        }
    }
}

impl Port for Memory<'_> {
    type Stop = Reason;

    #[inline(always)]
    fn load(&mut self, address: u64, size: u8) -> Result<u64, Reason> {
        if crosses(address, size) {
            let places = self.places(address, size, Wanted::Read)?;
            let bytes = places[..usize::from(size)].iter().rev();
            return Ok(bytes.fold(0, |value, &phys| value << 8 | self.read(phys, 1)));
        }
        let phys = self.place(address, Wanted::Read)?;
        Ok(self.read(phys, size))
    }

    #[inline(always)]
    fn store(&mut self, address: u64, size: u8, data: u64) -> Result<(), Reason> {
        if crosses(address, size) {
            let places = self.places(address, size, Wanted::Write)?;
            for (at, &phys) in places[..usize::from(size)].iter().enumerate() {
                self.write(phys, 1, data >> (8 * at));
            }
            return Ok(());
        }
        let phys = self.place(address, Wanted::Write)?;
        self.write(phys, size, data);
        Ok(())
    }

    fn amo(&mut self, op: AmoOp, address: u64, size: u8, operand: u64) -> Result<u64, Reason> {
        let phys = self.aligned(address, size, Wanted::Write)?;
        let old = self.read(phys, size);
        self.write(phys, size, op.apply(size, old, operand));
        Ok(old)
    }

    fn load_reserved(&mut self, address: u64, size: u8) -> Result<u64, Reason> {
        let phys = self.aligned(address, size, Wanted::Read)?;
        self.reserved = Some(phys / BLOCK_BYTES);
        Ok(self.read(phys, size))
    }

    fn store_conditional(&mut self, address: u64, size: u8, data: u64) -> Result<bool, Reason> {
        let phys = self.aligned(address, size, Wanted::Write)?;
        let stands = self.reserved.take() == Some(phys / BLOCK_BYTES);
        if stands {
            self.write(phys, size, data);
        }
        Ok(stands)
    }

    fn fence(&mut self, _predecessors: u8, _successors: u8) -> Result<(), Reason> {
        if self.map.has_slow_stores() { Err(Reason::Outside) } else { Ok(()) }
    }

    fn fence_i(&mut self) -> Result<(), Reason> {
        Err(Reason::FenceI)
    }

    fn counter(&mut self, counter: Counter) -> Result<u64, Reason> {
        let [cycle, instructions] = self.counts.ok_or(Reason::Counter)?;
        Ok(if counter == Counter::Instret { instructions } else { cycle })
    }
}
