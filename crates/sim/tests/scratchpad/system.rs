//! Some interfaces and a DMA engine, and a network that delivers in any order.

use rackmem_sim::scratchpad::dram::Dram;
use rackmem_sim::scratchpad::{
    LINE_BYTES, Misuse, Ni, NiSpec, Packet, Regions, State, Stored, Target,
};

/// Chooses the next of so many possibilities.
pub trait Choose {
    /// A number below `count`.
    fn choose(&mut self, count: usize) -> usize;
}

/// The oldest packet first.
pub struct InOrder;

impl Choose for InOrder {
    fn choose(&mut self, _count: usize) -> usize {
        0
    }
}

/// Any packet, by a linear congruential generator.
pub struct Random(pub u64);

impl Choose for Random {
    fn choose(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % count
    }
}

/// Interfaces, with what is under way between them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct System {
    pub nis: Vec<Ni>,
    pub dram: Dram,
    pub regions: Regions,
    pub network: Vec<Packet>,
    /// Results of loads, by core.
    pub loaded: Vec<Vec<u64>>,
    /// Acknowledged bytes that have arrived, in all.
    pub acked_bytes: u64,
}

pub const BYTES: u32 = 8192;

impl System {
    /// Cores whose lines are all scratchpad.
    pub fn new(cores: u16) -> System {
        System::of(cores, BYTES, false)
    }

    /// The same with queues that refuse what they have no room for.
    pub fn refusing(cores: u16) -> System {
        System::of(cores, BYTES, true)
    }

    /// The same with little scratchpad, and no memory.
    pub fn small(cores: u16) -> System {
        System::of(cores, 1024, false)
    }

    fn of(cores: u16, scratchpad_bytes: u32, nacks: bool) -> System {
        let spec = NiSpec { jobs: 4, reads: 2, acks: 2, stores: 4, nacks };
        let dram_bytes = if scratchpad_bytes == BYTES { 1 << 20 } else { 0 };
        let regions = Regions { cores, scratchpad_bytes, dram_bytes, locks: 0 };
        let mut nis: Vec<Ni> = (0..cores).map(|core| Ni::new(core, regions, spec)).collect();
        for ni in &mut nis {
            (0..scratchpad_bytes / LINE_BYTES).for_each(|line| ni.convert(line, 1).unwrap());
        }
        let dram = Dram::new(regions.dram_bytes, 2);
        let loaded = vec![Vec::new(); cores.into()];
        System { nis, dram, regions, network: Vec::new(), loaded, acked_bytes: 0 }
    }

    /// Makes a line of a core something.
    pub fn mark(&mut self, core: u16, line: u32, state: State) {
        self.nis[usize::from(core)].convert(line, state as u64).unwrap();
    }

    /// Makes a line the descriptor of a queue.
    pub fn mark_queue(&mut self, core: u16, line: u32, state: State, words: u64, bytes: u64) {
        let word = state as u64 | words << 8 | bytes << 16;
        self.nis[usize::from(core)].convert(line, word).unwrap();
    }

    /// A core stores a word somewhere, as often as it takes.
    pub fn store(&mut self, core: u16, address: u64, value: u64, choose: &mut impl Choose) {
        while self.try_store(core, address, value).unwrap() == Stored::Wait {
            assert!(self.step(choose).unwrap(), "nothing moves, and the store waits");
        }
    }

    pub fn try_store(&mut self, core: u16, address: u64, value: u64) -> Result<Stored, Misuse> {
        let ni = &mut self.nis[usize::from(core)];
        match self.regions.find(address) {
            Some(Target::Scratchpad { core: own, offset }) if own == core => {
                ni.store(offset, 8, value)
            }
            _ => {
                let stored = ni.store_remote(address, 8, value);
                ni.flush();
                stored
            }
        }
    }

    /// Number of things that can happen next.
    pub fn possibilities(&self) -> usize {
        self.leaving().len() + self.arriving().len()
    }

    /// Forgets which lines have changed: nobody polls.
    pub fn forget_changes(&mut self) {
        for ni in &mut self.nis {
            ni.take_changed().for_each(drop);
        }
    }

    /// Interfaces with a packet to send; the DMA engine comes last.
    fn leaving(&self) -> Vec<usize> {
        let has_work = |&n: &usize| match self.nis.get(n) {
            Some(ni) => ni.has_work(),
            None => self.dram.has_work(),
        };
        (0..=self.nis.len()).filter(has_work).collect()
    }

    /// Packets that could arrive.
    fn arriving(&self) -> Vec<usize> {
        (0..self.network.len()).filter(|&at| self.has_room(&self.network[at])).collect()
    }

    /// One thing happens, if anything can: a packet leaves, or one arrives.
    pub fn step(&mut self, choose: &mut impl Choose) -> Result<bool, Misuse> {
        let (leaving, arriving) = (self.leaving(), self.arriving());
        let count = leaving.len() + arriving.len();
        if count == 0 {
            assert!(self.network.is_empty(), "packets that nobody has room for, for ever");
            return Ok(false);
        }
        let chosen = choose.choose(count);
        match leaving.get(chosen) {
            Some(&n) if n == self.nis.len() => self.network.extend(self.dram.emit(|_| true)),
            Some(&n) => {
                let packet = self.nis[n].emit(|_| true, true)?;
                self.network.extend(packet);
            }
            None => {
                let packet = self.network.remove(arriving[chosen - leaving.len()]);
                self.arrive(&packet)?;
            }
        }
        self.forget_changes();
        Ok(true)
    }

    /// Until nothing can happen any more.
    pub fn settle(&mut self, choose: &mut impl Choose) {
        while self.step(choose).unwrap() {}
    }

    fn has_room(&self, packet: &Packet) -> bool {
        match self.regions.find(packet.to()) {
            Some(Target::Scratchpad { core, .. }) => {
                self.nis[usize::from(core)].has_room(packet.class())
            }
            Some(Target::Dram { .. }) => self.dram.has_room(packet.class()),
            _ => true,
        }
    }

    fn arrive(&mut self, packet: &Packet) -> Result<(), Misuse> {
        if let Packet::Ack { bytes, .. } = packet {
            self.acked_bytes += u64::from(*bytes);
        }
        match self.regions.find(packet.to()).expect("packets are for somebody") {
            Target::Scratchpad { core, .. } => self.nis[usize::from(core)].arrive(packet)?,
            Target::Dram { .. } => self.dram.arrive(packet),
            Target::Load(core) => {
                let Packet::Write { words, .. } = packet else { panic!("{packet:?}") };
                self.loaded[usize::from(core)].push(words[0]);
            }
            other => panic!("packet for {other:?}"),
        }
        Ok(())
    }

    /// A word of a scratchpad, as its core sees it.
    pub fn word(&self, core: u16, offset: u32) -> u64 {
        let words = self.nis[usize::from(core)].load(offset / LINE_BYTES).unwrap();
        words[(offset % LINE_BYTES / 8) as usize]
    }

    /// Bytes of a scratchpad.
    pub fn bytes(&self, core: u16, offset: u32, length: u32) -> Vec<u8> {
        (offset..offset + length)
            .map(|at| (self.word(core, at / 8 * 8) >> (8 * (at % 8))) as u8)
            .collect()
    }
}

/// The address of a byte of a core's scratchpad.
pub fn at(core: u16, offset: u32) -> u64 {
    Regions::scratchpad(core, offset)
}
