//! Effects of the wheel's events.

use super::Chip;
use super::layout::Part;
use super::wires::Event;

impl Chip {
    #[inline]
    pub(super) fn happen(&mut self, event: Event) {
        let Chip { wires, tiles, homes, memories, ni, .. } = self;
        match event {
            Event::Arrive(tag) => self.arrive_locally(tag),
            Event::Admit(n) => self.admit(n),
            Event::Enter(tag, from) => wires.enter(tag, from),
            Event::LookedUp(tag, again) => {
                let letter = wires.letters.take(tag);
                if let Part::Home(n) = letter.to {
                    homes[usize::from(n)].looked_up(letter.payload, again, wires);
                }
            }
            Event::Core(n) => tiles[usize::from(n)].step(wires),
            Event::Drain(n) => tiles[usize::from(n)].drain(wires),
            Event::Memory(n) => memories[usize::from(n)].go_on(wires),
            Event::Cpu(n) => wires.tick_now(n),
            Event::Filled(n) => tiles[usize::from(n)].told(wires),
            Event::Loaded(n, value) => tiles[usize::from(n)].loaded(value, wires),
            Event::Ni(timer) => {
                ni.happen(timer, tiles, wires);
                self.tell_outdated();
            }
        }
    }
}
