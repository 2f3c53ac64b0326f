//! Blocks of borrowed memory in the caches of a node, of which its lender knows nothing.

use super::Chip;
use super::ni::Ni;
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};

impl Ni {
    /// The operating system has changed a block of borrowed memory: its lender learns of it.
    fn written_by_system(&mut self, line: Line, change: Block, wires: &mut Wires) {
        match self {
            Ni::Window(window) => window.written_by_system(line, change, wires),
            Ni::Bridge(bridge) => bridge.written_by_system(line, change, wires),
            _ => {}
        }
    }
}

impl Chip {
    /// The operating system changes a block of borrowed memory; `changed_by_system` tells of it.
    pub fn change_borrowed(&mut self, line: Line, change: Block) {
        let Chip { wires, homes, ni, .. } = self;
        ni.written_by_system(line, change, wires);
        homes[usize::from(wires.layout.home_of(line))].change_borrowed(line, change);
    }

    /// Lets the operating system see stores that wait in combining buffers.
    pub fn show_stores(&mut self) {
        let Chip { wires, tiles, .. } = self;
        let Some(image) = &mut wires.image else { return };
        for through in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()?.through()) {
            through.show(image);
        }
    }

    /// Stores that wait in combining buffers leave for their lenders: their cores are about to go.
    pub fn send_stores(&mut self) {
        self.show_stores();
        let Chip { wires, tiles, ni, .. } = self;
        for through in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()?.through()) {
            for (line, change) in through.pending() {
                ni.written_by_system(line, change, wires);
            }
        }
    }

    /// Blocks have come to a home from their lender with another content than copies had.
    #[inline]
    pub(super) fn tell_refreshed(&mut self, home: u16) {
        let Chip { wires, tiles, homes, .. } = self;
        while let Some(line) = homes[usize::from(home)].take_refreshed() {
            for cpu in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()) {
                cpu.changed(line, wires);
            }
        }
    }

    /// Combining buffers and caches write all that this node has changed of borrowed memory to its lenders. Copies
    /// stay.
    pub fn write_back_borrowed(&mut self) {
        let Chip { wires, tiles, .. } = self;
        for through in tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()?.through()) {
            through.fence(wires);
        }
        let first = wires.map.own_bytes() / BLOCK_BYTES;
        let lines = wires.image.as_ref().map_or_else(Vec::new, |image| image.lines_from(first));
        self.clean_borrowed(lines);
    }

    /// The operating system writes borrowed blocks that this node's caches have changed to their lender. Copies stay.
    pub fn clean_borrowed(&mut self, lines: impl IntoIterator<Item = Line>) {
        let Chip { wires, tiles, homes, ni, .. } = self;
        for line in lines {
            let home = &mut homes[usize::from(wires.layout.home_of(line))];
            let is_modified =
                tiles.iter_mut().fold(home.clean(line, wires), |is_modified, tile| {
                    tile.l1.clean(line) || is_modified
                });
            if let Some(content) = wires.content(line).filter(|_| is_modified) {
                ni.written_by_system(line, content, wires);
            }
        }
    }

    /// Blocks of borrowed memory have been written past this node's caches: copies have the new content, which is the
    /// lender's, and readers are notified.
    #[inline]
    pub(super) fn tell_outdated(&mut self) {
        while let Chip { wires, tiles, homes, ni: Ni::Bridge(bridge), .. } = self
            && let Some((line, change)) = bridge.take_outdated()
        {
            let home = &mut homes[usize::from(wires.layout.home_of(line))];
            home.change_borrowed(line, change);
            if !change.is_change() {
                home.clean(line, wires);
                for tile in tiles.iter_mut() {
                    tile.l1.clean(line);
                }
            }
            self.changed_by_system(line);
        }
    }
}
