//! The cache-integrated network interface of a tile (CINI §3), between its core, its private cache and the
//! network on chip. [`crate::scratchpad`] has its function, this module its timing.

use super::cache::{LastWay, PrivateCache};
use super::cache_integrated::SEND;
use super::layout::Part;
use super::message::Payload;
use super::ni::Timer;
use super::wires::{Event, Wires};
use crate::block::{Line, Words, bytes_of};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::ScratchpadSpec;
use crate::scratchpad::region::FIRST;
use crate::scratchpad::table::{Refusal, Region};
use crate::scratchpad::{
    LINE_BYTES, Misuse, Ni, NiSpec, NiState, Packet, Port, Regions, State, Stored, Target,
};

/// The state of the core's load from memory that is not its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// It has none.
    None,
    /// It was asked for.
    Asked,
    /// It has come.
    Answered(u64),
}

/// The network interface in a tile's private cache.
#[derive(Clone, Debug)]
pub struct Integrated {
    number: u16,
    ni: Ni,
    regions: Regions,
    way_bytes: u32,
    access_cycles: u64,
    send_cycles: u64,
    port: Port,
    combine_cycles: u64,
    load: Load,
    /// Cycle in which the core's store is done that is on the bus of the lock box.
    freed_at: Option<Cycle>,
    next_pump: Cycle,
    flush_at: Cycle,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets_out: u64,
    payload_bytes_out: u64,
    packets_in: u64,
    remote_stores: u64,
    remote_loads: u64,
}

impl Integrated {
    /// The interface of core `number`, if the machine has such.
    pub fn of(number: u16, machine: &Machine) -> Option<Box<Integrated>> {
        let regions = machine.regions()?;
        let ScratchpadSpec {
            job_entries,
            read_entries,
            ack_entries,
            store_entries,
            send_cycles,
            bytes_per_cycle,
            combine_cycles,
            nacks,
            ..
        } = machine.scratchpad;
        let spec = NiSpec {
            jobs: job_entries as usize,
            reads: read_entries as usize,
            acks: ack_entries as usize,
            stores: store_entries as usize,
            nacks,
        };
        Some(Box::new(Integrated {
            number,
            ni: Ni::new(number, regions, spec),
            regions,
            way_bytes: regions.scratchpad_bytes / machine.private_cache().ways,
            access_cycles: machine.private_cache().latency_cycles.into(),
            send_cycles: send_cycles.into(),
            port: Port::new(bytes_per_cycle, machine.noc.link_bytes),
            combine_cycles: combine_cycles.into(),
            load: Load::None,
            freed_at: None,
            next_pump: 0,
            flush_at: 0,
            counts: Counts::default(),
        }))
    }

    /// The line of a core's own scratchpad at an address, as the core may load it at any time;
    /// `None` if the load has an effect, or has to ask somebody else.
    #[inline]
    pub fn own_line(&self, line: Line) -> Option<&crate::scratchpad::line::Line> {
        let own = self.own(line * u64::from(LINE_BYTES))?;
        let found = self.ni.line(own / LINE_BYTES);
        (!matches!(found.state(), State::Cache | State::MultipleReader)).then_some(found)
    }

    /// The content of such a line.
    pub fn words(&self, line: Line) -> Words {
        let own = self.own(line * u64::from(LINE_BYTES)).unwrap_or(0);
        self.ni.load(own / LINE_BYTES).unwrap_or([0; 8])
    }

    /// The fixed address of the byte at an address of the core.
    #[inline]
    pub fn place_of(&self, address: u64) -> u64 {
        self.ni.table.place_of(address, 1)
    }

    /// Changes an entry of the core's address region table.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn map(&mut self, region: Region) -> Result<(), Refusal> {
        self.ni.table.set(region, &self.regions)
    }

    /// Whether full queues refuse items.
    pub const fn has_nacks(&self) -> bool {
        self.ni.has_nacks()
    }

    /// Whether something waits to leave.
    pub fn has_work(&self) -> bool {
        self.ni.has_work()
    }

    /// Its state; it has nothing under way.
    pub fn state(&self) -> NiState {
        self.ni.state()
    }

    /// Goes on from a state. Its lines are the cache's, which has nothing.
    ///
    /// # Errors
    /// No interface is in such a state: the field, and what is wrong with it.
    pub fn restore(
        &mut self,
        state: &NiState,
        cache: &mut PrivateCache,
        wires: &mut Wires,
    ) -> Result<(), String> {
        self.ni.restore(state)?;
        for number in state.scratchpad() {
            let (way, set) = self.place_in_cache(number * LINE_BYTES);
            if !matches!(cache.lock(set, way, wires), Ok(Some(()))) {
                return Err(format!("lines: line {number} is the last one of its set"));
            }
        }
        Ok(())
    }

    /// Way and set of a line.
    const fn place_in_cache(&self, offset: u32) -> (u32, u64) {
        (offset / self.way_bytes, (offset % self.way_bytes / LINE_BYTES) as u64)
    }

    fn own(&self, address: u64) -> Option<u32> {
        match self.regions.find(address) {
            Some(Target::Scratchpad { core, offset }) if core == self.number => Some(offset),
            _ => None,
        }
    }

    /// A load that was not answered at once, or is answered by somebody else; `None` as long as it
    /// has to be waited for.
    pub fn load(&mut self, address: u64, size: u8, wires: &mut Wires) -> Option<u64> {
        match std::mem::replace(&mut self.load, Load::None) {
            Load::Answered(value) => return Some(value),
            Load::Asked => {
                self.load = Load::Asked;
                return None;
            }
            Load::None => {}
        }
        let value = self.begin_load(address, size, wires);
        value.unwrap_or_else(|misuse| {
            wires.misused(self.number, misuse);
            None
        })
    }

    fn begin_load(
        &mut self,
        address: u64,
        size: u8,
        wires: &mut Wires,
    ) -> Result<Option<u64>, Misuse> {
        let target = self.regions.find(address).ok_or(Misuse::NoRegion(address))?;
        match target {
            Target::Tag { core, offset } if core == self.number => {
                let word = offset % LINE_BYTES / 8;
                return Ok(Some(self.ni.tag(offset / LINE_BYTES, word)));
            }
            Target::Tag { .. } => return Err(Misuse::Foreign(address)),
            Target::Scratchpad { core, offset } if core == self.number => {
                if !self.ni.load_waits(offset) {
                    let words = self.ni.load(offset / LINE_BYTES)?;
                    return Ok(Some(bytes_at(&words, offset % LINE_BYTES)));
                }
                // As any access it passes the cache's pipeline; only the answer is a packet that is sent.
                let read = self.ni.load_request(address, size);
                self.load = Load::Asked;
                wires.hand(1, Part::Integrated(self.number), Payload::Scratchpad(read));
                return Ok(None);
            }
            Target::Lock(lock) => {
                self.load = Load::Asked;
                if let Some(at) = wires.lock_box.take(lock, self.number, wires.now) {
                    wires.wheel.at(at, Event::Loaded(self.number, 0));
                }
                return Ok(None);
            }
            Target::Load(_) => return Err(Misuse::NoRegion(address)),
            Target::Scratchpad { .. } | Target::Dram { .. } => {}
        }
        self.load = Load::Asked;
        self.counts.remote_loads += 1;
        self.ni.ask(address, size);
        self.pump(wires);
        Ok(None)
    }

    /// The answer to the load has come.
    pub fn loaded(&mut self, value: u64) {
        debug_assert_eq!(self.load, Load::Asked);
        self.load = Load::Answered(value);
    }

    /// A store of the core to anything but ordinary memory; whether it is done.
    pub fn store(
        &mut self,
        address: u64,
        size: u8,
        value: u64,
        wires: &mut Wires,
    ) -> Result<bool, Misuse> {
        let stored = match self.regions.find(address).ok_or(Misuse::NoRegion(address))? {
            Target::Scratchpad { core, offset } if core == self.number => {
                let stored = self.ni.store(offset, size, value)?;
                if stored == Stored::Done {
                    self.port.core(wires.now);
                }
                stored
            }
            Target::Scratchpad { .. } | Target::Dram { .. } => {
                self.store_remote(address, size, value, wires)?
            }
            Target::Lock(lock) => return Ok(self.free_lock(lock, wires)),
            Target::Tag { .. } | Target::Load(_) => return Err(Misuse::NoRegion(address)),
        };
        self.pump(wires);
        Ok(stored == Stored::Done)
    }

    /// A store to the lock box is waited for: the bus has no buffers.
    fn free_lock(&mut self, lock: u16, wires: &mut Wires) -> bool {
        if let Some(at) = self.freed_at {
            self.freed_at = (wires.now < at).then_some(at);
            return self.freed_at.is_none();
        }
        let (at, next) = wires.lock_box.free(lock, wires.now);
        self.freed_at = Some(at);
        wires.wheel.at(at, Event::Filled(self.number));
        if let Some((core, answered_at)) = next {
            wires.wheel.at(answered_at, Event::Loaded(core, 0));
        }
        false
    }

    fn store_remote(
        &mut self,
        address: u64,
        size: u8,
        value: u64,
        wires: &mut Wires,
    ) -> Result<Stored, Misuse> {
        let stored = self.ni.store_remote(address, size, value)?;
        if stored == Stored::Done {
            self.counts.remote_stores += 1;
            self.flush_at = wires.now + self.combine_cycles;
        }
        Ok(stored)
    }

    /// Remote stores wait for no others.
    pub fn fence(&mut self, wires: &mut Wires) {
        self.ni.flush();
        self.pump(wires);
    }

    /// Has a packet pass the cache. Returns the cycles from its arrival to its effect; an answer to a load goes to the
    /// core.
    pub fn pass(&mut self, packet: &Packet, now: Cycle) -> u64 {
        match self.is_for_core(packet) {
            true => 1,
            false => self.port.arrive(packet.payload_bytes(), now) - now + self.access_cycles,
        }
    }

    fn is_for_core(&self, packet: &Packet) -> bool {
        matches!(self.regions.find(packet.to()), Some(Target::Load(_)))
    }

    /// Whether a packet that has come through the network may arrive.
    pub fn has_room(&self, packet: &Packet, now: Cycle) -> bool {
        let may_pass = self.port.may_arrive(now) || self.is_for_core(packet);
        may_pass && self.ni.has_room(packet.class())
    }

    /// The core reads or writes its cache.
    pub fn access(&mut self, now: Cycle) {
        self.port.core(now);
    }

    pub fn arrive(&mut self, packet: &Packet, wires: &mut Wires) -> Result<(), Misuse> {
        self.counts.packets_in += 1;
        if let (Packet::Write { words, .. }, Some(Target::Load(_))) =
            (packet, self.regions.find(packet.to()))
        {
            if self.load != Load::Asked {
                return Err(Misuse::NoRegion(packet.to()));
            }
            self.loaded(words[0]);
            return Ok(());
        }
        self.ni.arrive(packet)?;
        self.pump(wires);
        Ok(())
    }

    /// Blocks of which loads may show something else than before.
    pub fn take_changed(&mut self, into: &mut Vec<Line>) {
        let first = Regions::scratchpad(self.number, 0) / u64::from(LINE_BYTES);
        into.extend(self.ni.take_changed().map(|number| first + u64::from(number)));
    }

    /// The outgoing traffic controller: sends what can leave in this cycle.
    pub fn pump(&mut self, wires: &mut Wires) {
        while self.port.leaves_from() <= wires.now && self.ni.has_work() {
            let part = Part::Integrated(self.number);
            let may = |class| wires.port_has_room(part, Payload::vnet_of(class));
            let is_ripe = self.flush_at <= wires.now;
            match self.ni.emit(may, is_ripe) {
                Ok(Some(packet)) => self.send(packet, wires),
                // A counter without addresses, or nothing that may leave.
                Ok(None) => break,
                Err(misuse) => return wires.misused(self.number, misuse),
            }
        }
        if self.ni.has_work() {
            let next = self.port.leaves_from().max(wires.now + 1);
            let timer = Timer { part: Part::Integrated(self.number), what: SEND, index: 0 };
            wires.happen_by(&mut self.next_pump, next, Event::Ni(timer));
        }
    }

    fn send(&mut self, packet: Packet, wires: &mut Wires) {
        let payload_bytes = packet.payload_bytes();
        self.counts.packets_out += 1;
        self.counts.payload_bytes_out += u64::from(payload_bytes);
        self.port.leave(payload_bytes, wires.now);
        let Some(to) = wires.layout.part_of_target(&self.regions, packet.to()) else {
            return wires.misused(self.number, Misuse::NoRegion(packet.to()));
        };
        let from = Part::Integrated(self.number);
        // The packet's content was read from the cache.
        let delay = self.access_cycles + self.send_cycles;
        wires.send_after(delay, from, to, Payload::Scratchpad(packet));
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        let Counts { packets_out, payload_bytes_out, packets_in, remote_stores, remote_loads } =
            self.counts;
        for (name, value) in [
            ("packets_out", packets_out),
            ("payload_bytes_out", payload_bytes_out),
            ("packets_in", packets_in),
            ("remote_stores", remote_stores),
            ("remote_loads", remote_loads),
        ] {
            stats.insert(format!("integrated_ni[{}].{name}", self.number), value as f64);
        }
    }
}

/// A store of the core that is not to ordinary memory, conversions of lines among them; whether it is
/// done.
pub fn store(
    cache: &mut PrivateCache,
    address: u64,
    size: u8,
    value: u64,
    wires: &mut Wires,
) -> bool {
    let Some(mut own) = cache.integrated.take() else { return true };
    let result = match own.regions.find(address) {
        Some(Target::Tag { core, .. }) if core != own.number => Err(Misuse::Foreign(address)),
        Some(Target::Tag { offset, .. }) => own.convert(cache, offset, value, wires),
        _ => own.store(address, size, value, wires),
    };
    cache.integrated = Some(own);
    result.unwrap_or_else(|misuse| {
        let number = cache.integrated.as_ref().map_or(0, |own| own.number);
        wires.misused(number, misuse);
        false
    })
}

impl Integrated {
    /// Converts a line: the cache lets go of it, or gets it back.
    fn convert(
        &mut self,
        cache: &mut PrivateCache,
        offset: u32,
        value: u64,
        wires: &mut Wires,
    ) -> Result<bool, Misuse> {
        let number = offset / LINE_BYTES;
        if offset % LINE_BYTES / 8 != 0 {
            self.ni.restore_tag(number, value);
            return Ok(true);
        }
        let (way, set) = self.place_in_cache(offset);
        let was_cache = self.ni.line(number).state() == State::Cache;
        let is_cache = State::of(value as u8) == Some(State::Cache);
        if was_cache && !is_cache {
            let address = FIRST + u64::from(offset);
            let locked = cache.lock(set, way, wires);
            let Some(()) = locked.map_err(|LastWay| Misuse::LastWay(address))? else {
                return Ok(false);
            };
        }
        self.ni.convert(number, value)?;
        if is_cache && !was_cache {
            cache.unlock(set, way);
        }
        Ok(true)
    }
}

/// Up to eight bytes of a line, from a place on.
fn bytes_at(words: &Words, offset: u32) -> u64 {
    let bytes = bytes_of(words);
    let from = offset as usize;
    let to = (from + 8).min(bytes.len());
    let mut value = [0; 8];
    value[..to - from].copy_from_slice(&bytes[from..to]);
    u64::from_le_bytes(value)
}
