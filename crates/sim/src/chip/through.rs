//! A core's stores to borrowed memory that go through the caches (TSM §2.1.2): between the core, its
//! combining buffers and the homes.

use super::image::Image;
use super::layout::Part;
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Request, Update};
use crate::machine::Machine;
use crate::machine::spec::Placement;
use crate::window::combining::Combining;

/// The buffers of a core, and their way out.
#[derive(Clone, Debug)]
pub struct Through {
    number: u16,
    combining: Combining,
}

impl Through {
    /// Those of core `number`, if stores of this machine go through.
    pub fn of(number: u16, machine: &Machine) -> Option<Through> {
        let is_there = machine.ni.placement == Placement::Window && machine.window.is_through();
        let buffers = machine.window.combining_buffers as usize;
        is_there.then(|| Through { number, combining: Combining::new(buffers) })
    }

    /// A store; whether it is in a buffer. Otherwise it is to be tried again when something has been
    /// taken.
    pub fn store(&mut self, address: u64, size: u8, value: u64, wires: &mut Wires) -> bool {
        let (line, offset) = (address / BLOCK_BYTES, (address % BLOCK_BYTES) as usize);
        let bytes = value.to_le_bytes();
        let is_stored = self.combining.store(line, offset, &bytes[..usize::from(size)]);
        self.send(wires);
        is_stored
    }

    /// Whether a line can be read: stores to it have to be on their way to the lender.
    pub fn may_load(&mut self, line: Line, wires: &mut Wires) -> bool {
        if self.combining.is_empty() {
            return true;
        }
        let is_there = self.combining.close(line);
        if is_there {
            self.send(wires);
        }
        !is_there
    }

    /// A fence: whether all stores before it have been taken.
    pub fn fence(&mut self, wires: &mut Wires) -> bool {
        self.combining.close_all();
        self.send(wires);
        self.combining.is_empty()
    }

    /// Lets the operating system see stores that are not on their way yet.
    pub fn show(&self, image: &mut Image) {
        for (line, change) in self.pending() {
            image.change(line, change);
        }
    }

    /// Stores that are not on their way yet.
    pub fn pending(&self) -> impl Iterator<Item = (Line, Block)> + '_ {
        self.combining.pending()
    }

    /// The root complex has taken the stores that were sent of a line.
    pub fn taken(&mut self, line: Line, wires: &mut Wires) {
        self.combining.taken(line);
        self.send(wires);
    }

    fn send(&mut self, wires: &mut Wires) {
        while let Some((line, block)) = self.combining.send() {
            let message = Message::Request(Request::Update(Update::Replace(block)));
            wires.ask_home(Part::Engine(self.number), line, message);
        }
    }
}
