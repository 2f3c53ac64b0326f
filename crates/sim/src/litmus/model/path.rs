//! All paths of a thread, given the values that locations may have.

use std::collections::BTreeSet;

use rackmem_riscv::exec::split::{Access, AccessKind, Issued, complete, issue};
use rackmem_riscv::{Class, Hart, Inst, decode};

use super::event::{EVENTS, Event, Kind, Path, Set};
use super::{Excess, LOOPS};
use crate::litmus::test::{BRANCH_BYTES, Layout, Place, Test, Thread};

/// A fence that has been passed.
#[derive(Clone, Copy, Debug)]
struct Fence {
    /// Operations before it.
    before: usize,
    predecessors: u8,
    successors: u8,
    /// Stores before it are ordered before stores only.
    is_tso: bool,
}

const READ: u8 = 2;
const WRITE: u8 = 1;

/// Most paths of a thread.
const PATHS: usize = 4096;

/// Values that each location may have.
pub(super) type Domain = Vec<BTreeSet<u64>>;

/// A thread on its way.
#[derive(Clone)]
struct Walk {
    step: usize,
    hart: Hart,
    /// By register: the operations on whose results its value depends.
    sources: [Set; 32],
    control: Set,
    events: Vec<Event>,
    fences: Vec<Fence>,
    /// The latest load that reserved, unless a store conditional came behind it.
    reserved: Option<usize>,
    /// Backward branches taken.
    loops: usize,
}

/// Explores one thread.
pub(super) struct Explorer<'a> {
    test: &'a Test,
    thread: &'a Thread,
    insts: Vec<Inst>,
    layout: &'a Layout,
    domain: &'a Domain,
    paths: Vec<Path>,
}

impl<'a> Explorer<'a> {
    pub(super) fn new(
        test: &'a Test,
        thread: &'a Thread,
        layout: &'a Layout,
        domain: &'a Domain,
    ) -> Explorer<'a> {
        let insts = thread.steps.iter().map(|step| decode(step.word)).collect();
        Explorer { test, thread, insts, layout, domain, paths: Vec::new() }
    }

    pub(super) fn explore(mut self) -> Result<Vec<Path>, Excess> {
        let mut hart = Hart::new(0);
        for &(register, value) in &self.thread.registers {
            hart.x[usize::from(register)] = self.layout.bits(value);
        }
        hart.x[0] = 0;
        let start = Walk {
            step: 0,
            hart,
            sources: [0; 32],
            control: 0,
            events: Vec::new(),
            fences: Vec::new(),
            reserved: None,
            loops: 0,
        };
        self.walk(start)?;
        Ok(self.paths)
    }

    /// Goes on to the end, on all ways.
    fn walk(&mut self, mut walk: Walk) -> Result<(), Excess> {
        while let Some(inst) = self.insts.get(walk.step).copied() {
            if walk.events.len() >= EVENTS {
                return Err(Excess::Events);
            }
            walk.hart.pc = 0;
            let issued = issue(&mut walk.hart, &inst, |_| 0);
            let Ok(issued) = issued else { unreachable!("no instruction of a test traps") };
            match issued {
                Issued::Done if inst.class() == Class::Branch => {
                    if !self.branch(&mut walk, &inst) {
                        return Ok(());
                    }
                }
                Issued::Done => {
                    let sources = sources(&walk, &inst, 0) | sources(&walk, &inst, 1);
                    set_sources(&mut walk, &inst, sources);
                    walk.step += 1;
                }
                Issued::Access(access) => match access.kind {
                    AccessKind::FenceI => walk.step += 1,
                    AccessKind::Fence { predecessors, successors } => {
                        let is_tso = inst.imm as u32 >> 8 & 15 == 8;
                        let before = walk.events.len();
                        walk.fences.push(Fence { before, predecessors, successors, is_tso });
                        walk.step += 1;
                    }
                    _ => return self.access(walk, &inst, &access),
                },
            }
        }
        self.end(walk, None)
    }

    fn end(&mut self, walk: Walk, trap: Option<u64>) -> Result<(), Excess> {
        if self.paths.len() >= PATHS {
            return Err(Excess::Paths);
        }
        self.paths.push(Path { events: walk.events, registers: walk.hart.x, trap });
        Ok(())
    }

    /// A branch; `false` if this way has gone round often enough.
    fn branch(&self, walk: &mut Walk, inst: &Inst) -> bool {
        walk.control |= sources(walk, inst, 0) | sources(walk, inst, 1);
        let target = self.thread.steps[walk.step].target;
        let is_taken = walk.hart.pc == BRANCH_BYTES as u64;
        let next = target.filter(|_| is_taken).unwrap_or(walk.step + 1);
        walk.loops += usize::from(next <= walk.step);
        walk.step = next;
        walk.loops <= LOOPS
    }

    /// An access, with each value that it may load.
    fn access(&mut self, walk: Walk, inst: &Inst, access: &Access) -> Result<(), Excess> {
        let Some(place) = self.layout.place(access.address) else {
            return self.end(walk, Some(access.address));
        };
        let event = event(&walk, inst, access, place);
        let size = self.test.bytes;
        let data = self.test.stored(access.data);
        match access.kind {
            AccessKind::Store => {
                let event = Event { stores: Some(data), ..event };
                self.go_on(walk, inst, Some(event), None)
            }
            AccessKind::StoreConditional => {
                if walk.reserved.is_some() {
                    let event = Event { stores: Some(data), pair: walk.reserved, ..event };
                    self.go_on(walk.clone(), inst, Some(event), Some(0))?;
                }
                self.go_on(walk, inst, None, Some(1))
            }
            _ => {
                for &value in &self.domain[place] {
                    let stores = match access.kind {
                        AccessKind::Amo(op) => Some(op.apply(size, value, access.data)),
                        _ => None,
                    };
                    let event = Event { loads: Some(value), stores, ..event };
                    self.go_on(walk.clone(), inst, Some(event), Some(value))?;
                }
                Ok(())
            }
        }
    }

    /// Goes on behind an access, with the value that it has got.
    fn go_on(
        &mut self,
        mut walk: Walk,
        inst: &Inst,
        event: Option<Event>,
        value: Option<u64>,
    ) -> Result<(), Excess> {
        let number = walk.events.len();
        walk.events.extend(event);
        match event.map(|event| event.kind) {
            Some(Kind::LoadReserved) => walk.reserved = Some(number),
            Some(Kind::StoreConditional) | None => walk.reserved = None,
            _ => {}
        }
        if let Some(value) = value {
            complete(&mut walk.hart, inst, value);
            set_sources(&mut walk, inst, if event.is_some() { 1 << number } else { 0 });
        }
        walk.step += 1;
        self.walk(walk)
    }
}

/// The operations on which a source register depends.
fn sources(walk: &Walk, inst: &Inst, which: usize) -> Set {
    inst.sources()[which].map_or(0, |register| walk.sources[register.index()])
}

fn set_sources(walk: &mut Walk, inst: &Inst, sources: Set) {
    if let Some(register) = inst.dest() {
        walk.sources[register.index()] = sources;
    }
}

/// An operation without its values.
fn event(walk: &Walk, inst: &Inst, access: &Access, place: Place) -> Event {
    let kind = match access.kind {
        AccessKind::Amo(_) => Kind::Amo,
        AccessKind::LoadReserved => Kind::LoadReserved,
        AccessKind::StoreConditional => Kind::StoreConditional,
        _ => Kind::Plain,
    };
    let is_load = matches!(access.kind, AccessKind::Load | AccessKind::LoadReserved);
    Event {
        kind,
        place,
        loads: None,
        stores: None,
        // `lr.rl` and `sc.aq` say nothing by themselves.
        acquire: access.acquire && kind != Kind::StoreConditional || is_both(access),
        release: access.release && kind != Kind::LoadReserved || is_both(access),
        address: sources(walk, inst, 0),
        data: if is_load { 0 } else { sources(walk, inst, 1) },
        control: walk.control,
        fenced: fenced(walk, kind, is_load),
        pair: None,
    }
}

fn is_both(access: &Access) -> bool {
    access.acquire && access.release
}

/// The operations that fences order before the next one.
fn fenced(walk: &Walk, kind: Kind, is_load: bool) -> Set {
    let next = match kind {
        Kind::Amo => READ | WRITE,
        _ if is_load => READ,
        _ => WRITE,
    };
    let mut set = 0;
    for fence in walk.fences.iter().filter(|fence| fence.successors & next != 0) {
        for (number, event) in walk.events[..fence.before].iter().enumerate() {
            let loads = event.loads.is_some() && fence.predecessors & READ != 0;
            let stores = event.stores.is_some() && fence.predecessors & WRITE != 0;
            let stores = stores && (!fence.is_tso || next & WRITE != 0);
            set |= Set::from(loads || stores) << number;
        }
    }
    set
}
