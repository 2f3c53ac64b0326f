//! Work of a chip that is not done.

use super::Chip;
use super::cpu::Cpu;

impl Chip {
    /// Numbers of things under way, by part; nothing once a chip has come to rest.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut note = |what: String, count: usize| {
            if count > 0 {
                left.push(format!("{what}: {count}"));
            }
        };
        note("letters".to_owned(), self.wires.letters.len());
        note("network".to_owned(), usize::from(!self.wires.net.is_idle()));
        note("departures".to_owned(), self.wires.departures.len());
        for (n, inbox) in self.inboxes.iter().enumerate() {
            note(format!("inbox of home[{n}]"), inbox.letters.len());
        }
        for (n, home) in self.homes.iter().enumerate() {
            note(format!("home[{n}]"), home.inside());
        }
        for (n, memory) in self.memories.iter().enumerate() {
            note(format!("memory[{n}]"), memory.waiting());
        }
        for (n, tile) in self.tiles.iter().enumerate() {
            note(format!("accesses to the L1 of tile[{n}]"), tile.driver.waiting());
            note(format!("L1 of tile[{n}]"), tile.l1.in_transition());
            let steps = tile.cpu.as_ref().is_some_and(Cpu::is_stepping);
            note(format!("an instruction of core[{n}]"), usize::from(steps));
        }
        left.extend(self.ni.under_way(&self.tiles));
        left
    }
}
