//! Effects of the wheel's events.

use super::Chip;
use super::layout::Part;
use super::wires::Event;

impl Chip {
    #[inline]
    pub(super) fn happen(&mut self, event: Event) {
        let Chip { wires, tiles, ni_caches, rmcs, homes, memories, .. } = self;
        match event {
            Event::Arrive(tag) => self.arrive_locally(tag),
            Event::Admit(n) => self.admit(n),
            Event::Enter(tag, from) => wires.enter(tag, from),
            Event::LookedUp(tag) => {
                let letter = wires.letters.take(tag);
                if let Part::Home(n) = letter.to {
                    homes[usize::from(n)].looked_up(letter.payload, wires);
                }
            }
            Event::LookedUpAgain(tag) => {
                let letter = wires.letters.take(tag);
                if let Part::Home(n) = letter.to {
                    homes[usize::from(n)].looked_up_again(letter.payload, wires);
                }
            }
            Event::Core(n) => tiles[usize::from(n)].step(wires),
            Event::Drain(n) => tiles[usize::from(n)].drain(wires),
            Event::Poll { front: Part::Tile(n), index } => {
                if let Some(ni) = &mut tiles[usize::from(n)].ni {
                    ni.front.poll(index, &mut ni.cache, wires);
                }
            }
            Event::Poll { front, index } => {
                let ni = &mut ni_caches[usize::from(number_of(front))];
                ni.front.poll(index, &mut ni.cache, wires);
            }
            Event::Complete { front: Part::Tile(n), index } => {
                if let Some(ni) = &mut tiles[usize::from(n)].ni {
                    ni.front.write_completion(index, &mut ni.cache, wires);
                }
            }
            Event::Complete { front, index } => {
                let ni = &mut ni_caches[usize::from(number_of(front))];
                ni.front.write_completion(index, &mut ni.cache, wires);
            }
            Event::Unroll(n) => rmcs[usize::from(n)].unroll(wires),
            Event::Memory(n) => memories[usize::from(n)].go_on(wires),
            Event::Cpu(n) => wires.tick_now(n),
            Event::Accessed(tag) => {
                let letter = wires.letters.take(tag);
                tiles[usize::from(number_of(letter.to))].integrated(letter.payload, wires);
            }
            Event::Filled(n) => tiles[usize::from(n)].told(wires),
            Event::Loaded(n, value) => tiles[usize::from(n)].loaded(value, wires),
            Event::Integrated(n) => tiles[usize::from(n)].pump_integrated(wires),
            Event::Dma => {
                if let Some(dma) = &mut self.dma {
                    dma.pump(wires);
                }
            }
            Event::NodeRmc => wires.rmc_now = true,
            Event::WindowRead => {
                if let Some(window) = &mut self.window {
                    window.go_on(wires);
                }
            }
            Event::WindowEngine => {
                if let Some(window) = &mut self.window {
                    window.run_engine(wires);
                }
            }
            Event::Pump(Part::Port(n)) => self.pump_port(n),
            Event::Pump(part) => self.pump_tile(number_of(part)),
        }
    }
}

fn number_of(part: Part) -> u16 {
    match part {
        Part::Tile(n)
        | Part::Home(n)
        | Part::Memory(n)
        | Part::NiCache(n)
        | Part::Engine(n)
        | Part::Rrpp(n)
        | Part::Port(n)
        | Part::Integrated(n) => n,
        Part::Dma | Part::Window => 0,
    }
}
