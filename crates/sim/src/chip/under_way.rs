//! Work of a chip that is not done.

use super::Chip;

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
        for (n, port) in self.ports.iter().enumerate() {
            note(format!("port[{n}]"), port.replies.len());
        }
        for (n, home) in self.homes.iter().enumerate() {
            note(format!("home[{n}]"), home.inside());
        }
        for (n, memory) in self.memories.iter().enumerate() {
            note(format!("memory[{n}]"), memory.waiting());
        }
        for (n, rrpp) in self.rrpps.iter().enumerate() {
            let (waiting, accesses) = rrpp.under_way();
            note(format!("rrpp[{n}]"), waiting + accesses);
        }
        for (n, rmc) in self.rmcs.iter().enumerate() {
            note(format!("rmc[{n}]"), rmc.under_way());
        }
        if let Some(window) = &self.window {
            note("window".to_owned(), window.under_way());
        }
        for (n, tile) in self.tiles.iter().enumerate() {
            note(format!("accesses to the L1 of tile[{n}]"), tile.driver.waiting());
            note(format!("L1 of tile[{n}]"), tile.l1.in_transition());
            let front = tile.ni.as_ref().map_or(0, |ni| ni.front.under_way());
            note(format!("frontend of tile[{n}]"), front);
        }
        for (n, ni) in self.ni_caches.iter().enumerate() {
            note(format!("ni_cache[{n}]"), ni.cache.in_transition());
            note(format!("frontend of ni_cache[{n}]"), ni.front.under_way());
        }
        left
    }
}
