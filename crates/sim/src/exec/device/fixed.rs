//! Places that network interfaces in tiles have for what a process shares with them: each core's queues and the node's
//! segment are where they always are. An RMC takes memory of the process as it is.

use std::collections::HashMap;

use rackmem_riscv::space::PAGE;

use super::State;
use crate::block::{BLOCK_BYTES, Line};
use crate::chip::Chip;
use crate::chip::front::CONTEXT;
use crate::chip::layout::Layout;
use crate::chip::ni::Ni;
use crate::exec::controller::{self, Segment};
use crate::exec::pages::{SEGMENT, pages};

/// Such places on a machine, of the queues and the segment of a checkpoint.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    /// Virtual and physical addresses of rings, and their bytes.
    rings: Vec<(u64, u64, u64)>,
    /// Physical pages of rings by their virtual ones.
    pages: HashMap<u64, u64>,
    segment: Option<Segment>,
}

impl Fixed {
    /// The physical page of a page of queues; `None` if it may be anywhere.
    pub fn of_queue(&self, address: u64) -> Option<u64> {
        self.pages.get(&address).copied()
    }

    /// The physical page of a page of the segment; `None` if the page is not of it, or may be anywhere.
    pub fn of_segment(&self, address: u64) -> Option<u64> {
        let Segment { address: first, bytes } = self.segment?;
        let offset = address.checked_sub(first).filter(|&offset| offset < bytes)?;
        Some(SEGMENT + offset)
    }

    /// Virtual addresses of the blocks of the rings, with their places.
    pub fn ring_lines(&self) -> impl Iterator<Item = (u64, Line)> {
        self.rings.iter().flat_map(|&(address, place, bytes)| {
            let blocks = (0..bytes).step_by(BLOCK_BYTES as usize);
            blocks.map(move |at| (address + at, (place + at) / BLOCK_BYTES))
        })
    }

    fn add_ring(&mut self, address: u64, place: u64, bytes: u64) {
        self.rings.push((address, place, bytes));
        self.pages.extend(pages(address, bytes).zip(pages(place, bytes)));
    }
}

impl State {
    /// The places that are fixed on the machine of a chip.
    ///
    /// # Errors
    /// The interfaces cannot have what is there: setting, problem and remedy.
    pub fn fixed(&self, chip: &Chip) -> Result<Fixed, String> {
        let mut fixed = Fixed::default();
        if let Ni::QueuePairs(ni) = &chip.ni {
            fixed.segment = self.segment_of_tiles(ni.backends.segment_bytes())?;
            self.add_rings_of_tiles(&chip.wires.layout, &mut fixed)?;
        }
        Ok(fixed)
    }

    /// The segment, of so many bytes at most.
    fn segment_of_tiles(&self, most: u64) -> Result<Option<Segment>, String> {
        let mut found = None;
        for (ctx_id, context) in (0..).zip(&self.contexts) {
            let Some(segment) = context.segment else { continue };
            if ctx_id != CONTEXT {
                return Err(format!(
                    "ni.placement: the checkpoint has a part in context {ctx_id}, and network interfaces in tiles have \
                     context {CONTEXT} alone"
                ));
            }
            if segment.bytes > most {
                return Err(format!(
                    "workload.footprint_bytes: the segment of the checkpoint has {} bytes; give the nodes as many",
                    segment.bytes
                ));
            }
            found = Some(segment);
        }
        Ok(found)
    }

    fn add_rings_of_tiles(&self, layout: &Layout, fixed: &mut Fixed) -> Result<(), String> {
        let mut owned = vec![false; usize::from(layout.tiles)];
        for pair in self.queue_pairs.values() {
            let core = pair.core;
            let Some(is_owned) = owned.get_mut(usize::from(core)) else {
                return Err(format!(
                    "tiles.columns, tiles.rows: the checkpoint has a queue pair of core {core}; give the nodes more"
                ));
            };
            if std::mem::replace(is_owned, true) {
                return Err(format!(
                    "ni.placement: core {core} has two queue pairs in the checkpoint, and network interfaces in tiles \
                     have one for each core; use \"sonuma\""
                ));
            }
            let rings = pair.rings.iter().zip(pair.ring_bytes());
            for ((&(address, ..), bytes), place) in
                rings.zip(controller::places_in_tile(core, layout))
            {
                if address % PAGE != place % PAGE {
                    return Err(format!(
                        "ni.wq_entries: the queues of core {core} begin elsewhere in their pages than in the \
                         checkpoint; take it on a machine with network interfaces in tiles, and with the same entries"
                    ));
                }
                fixed.add_ring(address, place, bytes);
            }
        }
        Ok(())
    }
}
