//! The network interface of one private cache: effects of accesses and packets on its lines, and the
//! packets that leave because of them (CINI §3.2 to §3.4).

mod events;
mod lines;
mod outgoing;
mod saved;

use std::collections::VecDeque;

use super::combine::Combiner;
use super::line::Line;
use super::packet::Packet;
use super::region::{Regions, Target};
use super::table::Table;
use super::transfer::Transfer;
use super::{LINE_BYTES, Misuse, NOTIFICATIONS, State, WORD_BYTES};
use crate::block::{Words, mask, words_at};

pub use saved::State as NiState;

/// Sizes of an interface's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NiSpec {
    /// Commands and notifications in the job list.
    pub jobs: usize,
    /// Reads of others that are being answered.
    pub reads: usize,
    /// Acknowledgements that have not left; arrivals that cause one wait for room.
    pub acks: usize,
    /// Packets of remote stores that have not left.
    pub stores: usize,
    /// Full single-reader queues refuse items that name an acknowledgement address.
    pub nacks: bool,
}

/// The result of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is done, or has left.
    Done,
    /// There is no room: again when something has left.
    Wait,
}

/// Something that leaves as one packet or as several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Job {
    /// The command in a line, of which so many bytes have left.
    Command { line: u32, done: u32 },
    /// The notifications of a counter, from an address on.
    Notify { line: u32, next: usize },
}

/// The data of an answer to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// Bytes of this scratchpad, from an offset on.
    Own(u32),
    /// An item of a multiple-reader queue that met its request.
    Item(Words),
}

/// The interface of one core's private cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ni {
    core: u16,
    regions: Regions,
    /// The core's address region table.
    pub table: Table,
    spec: NiSpec,
    lines: Vec<Line>,
    data: Vec<Words>,
    /// Lines that belong to a queue.
    is_body: Vec<bool>,
    combiner: Combiner,
    stores: VecDeque<Packet>,
    jobs: VecDeque<Job>,
    answers: VecDeque<(Source, Transfer)>,
    acks: VecDeque<Packet>,
    stores_first: bool,
    changed: Vec<u32>,
}

/// Words of counters.
mod counter {
    pub(super) const VALUE: usize = 0;
    pub(super) const RESET: usize = 1;
    pub(super) const SENT: usize = 2;
    pub(super) const ADDRESSES: usize = 4;
}

/// Words of the descriptors of queues.
mod descriptor {
    pub(super) const ITEM: usize = 0;
    pub(super) const TAIL: usize = 1;
    pub(super) const HEAD: usize = 2;
}

const _: () = assert!(counter::ADDRESSES + NOTIFICATIONS == 8, "addresses fill the line");

impl Ni {
    /// The interface of a core; all lines belong to the cache.
    pub fn new(core: u16, regions: Regions, spec: NiSpec) -> Ni {
        let lines = (regions.scratchpad_bytes / LINE_BYTES) as usize;
        Ni {
            core,
            regions,
            table: Table::default(),
            spec,
            lines: vec![Line::Cache; lines],
            data: vec![[0; 8]; lines],
            is_body: vec![false; lines],
            combiner: Combiner::default(),
            stores: VecDeque::new(),
            jobs: VecDeque::new(),
            answers: VecDeque::new(),
            acks: VecDeque::new(),
            stores_first: false,
            changed: Vec::new(),
        }
    }

    /// Whether full queues refuse items ([`NiSpec::nacks`]).
    pub const fn has_nacks(&self) -> bool {
        self.spec.nacks
    }

    /// State and tag bits of a line.
    pub fn line(&self, number: u32) -> &Line {
        &self.lines[number as usize]
    }

    /// Lines of which loads may show something else than before; cores that poll them have to look again.
    pub fn take_changed(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.changed.drain(..)
    }

    /// A line as loads see it, which change nothing.
    ///
    /// # Errors
    /// It is no scratchpad line.
    pub fn load(&self, number: u32) -> Result<Words, Misuse> {
        let mut words = self.data[number as usize];
        match self.line(number) {
            Line::Cache => return Err(Misuse::NotScratchpad(self.address(number))),
            Line::Counter { value, .. } => words[counter::VALUE] = *value,
            Line::SingleReader(queue) | Line::MultipleReader(queue, _) => {
                words[descriptor::TAIL] = queue.tail.into();
                words[descriptor::HEAD] = queue.head.into();
            }
            Line::Plain | Line::Command { .. } => {}
        }
        Ok(words)
    }

    /// Whether a load of this byte waits for data of a multiple-reader queue.
    pub fn load_waits(&self, offset: u32) -> bool {
        let is_item = offset % LINE_BYTES < WORD_BYTES;
        is_item && self.line(offset / LINE_BYTES).state() == State::MultipleReader
    }

    /// A store of the core to its own scratchpad.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn store(&mut self, offset: u32, size: u8, value: u64) -> Result<Stored, Misuse> {
        let (number, at) = (offset / LINE_BYTES, (offset % LINE_BYTES) as usize);
        if let Line::Command { is_pending: true, .. } = self.line(number) {
            return Ok(Stored::Wait);
        }
        if self.line(number).state() == State::Command && self.jobs.len() >= self.spec.jobs {
            // Its last word could come now.
            return Ok(Stored::Wait);
        }
        let words = words_at(at, &value.to_le_bytes()[..size.into()]);
        self.write(number, mask(at, size.into()), &words)?;
        Ok(Stored::Done)
    }

    /// A store of the core to somebody else's scratchpad, or to uncached memory.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn store_remote(&mut self, address: u64, size: u8, value: u64) -> Result<Stored, Misuse> {
        self.check(address, 1)?;
        if self.stores.len() >= self.spec.stores {
            return Ok(Stored::Wait);
        }
        self.stores.extend(self.combiner.store(address, size, value).into_iter().flatten());
        Ok(Stored::Done)
    }

    /// Lets remote stores leave that wait for others to the same line.
    pub fn flush(&mut self) {
        self.stores.extend(self.combiner.flush());
    }

    /// A load of the core that somebody else answers, or that has to wait: the answer is written to
    /// [`Regions::load`]. It leaves after all stores before it.
    pub fn ask(&mut self, address: u64, size: u8) {
        self.flush();
        self.stores.push_back(self.load_request(address, size));
    }

    /// The packet that such a load sends.
    pub fn load_request(&self, address: u64, size: u8) -> Packet {
        let destination = Regions::load(self.core);
        Packet::Read { source: address, destination, ack: 0, bytes: size.into() }
    }

    fn address(&self, number: u32) -> u64 {
        Regions::scratchpad(self.core, number * LINE_BYTES)
    }

    /// The offset in this scratchpad of an address that somebody else has sent here.
    fn offset(&self, address: u64) -> Result<u32, Misuse> {
        match self.regions.find(address) {
            Some(Target::Scratchpad { core, offset }) if core == self.core => Ok(offset),
            _ => Err(Misuse::NoRegion(address)),
        }
    }

    /// Checks that all bytes from an address on are in one region that transfers may reach.
    fn check(&self, address: u64, bytes: u32) -> Result<(), Misuse> {
        let last = address.wrapping_add(u64::from(bytes) - 1);
        match (self.regions.find(address), self.regions.find(last)) {
            (
                Some(Target::Scratchpad { core, .. }),
                Some(Target::Scratchpad { core: same, .. }),
            ) if core == same => Ok(()),
            (Some(Target::Dram { .. }), Some(Target::Dram { .. })) => Ok(()),
            (Some(_), _) => Err(Misuse::NoRegion(last)),
            (None, _) => Err(Misuse::NoRegion(address)),
        }
    }
}
