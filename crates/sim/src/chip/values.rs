//! Contents of blocks behind the private caches.

use crate::block::{Block, Line};

const PAGE: u64 = 64;

/// Contents of the blocks of some regions, zero until written. A block outside of all regions is always
/// read as zero and costs nothing: synthetic workloads move such blocks.
#[derive(Clone, Debug, Default)]
pub struct Values {
    regions: Vec<Region>,
}

#[derive(Clone, Debug)]
struct Region {
    start: Line,
    pages: Vec<Option<Box<[Block; PAGE as usize]>>>,
}

impl Values {
    /// Memory of the host for each block that is kept, besides its content.
    pub const INDEX_BYTES: f64 = size_of::<Option<Box<Block>>>() as f64 / PAGE as f64;

    /// Keeps the contents of these blocks from now on.
    pub fn keep(&mut self, start: Line, lines: u64) {
        let pages = lines.div_ceil(PAGE) as usize;
        self.regions.push(Region { start, pages: vec![None; pages] });
    }

    #[inline]
    pub fn get(&self, line: Line) -> Block {
        for region in &self.regions {
            if let Some((page, at)) = region.place(line) {
                return region.pages[page].as_ref().map_or(Block::ZERO, |page| page[at]);
            }
        }
        Block::ZERO
    }

    /// Changes the content of a block.
    #[inline]
    pub fn set(&mut self, line: Line, block: Block) {
        for region in &mut self.regions {
            if let Some((page, at)) = region.place(line) {
                let page = &mut region.pages[page];
                page.get_or_insert_with(|| Box::new([Block::ZERO; PAGE as usize]))[at] = block;
                return;
            }
        }
    }
}

impl Region {
    #[inline]
    fn place(&self, line: Line) -> Option<(usize, usize)> {
        let index = line.wrapping_sub(self.start);
        let page = (index / PAGE) as usize;
        (page < self.pages.len()).then_some((page, (index % PAGE) as usize))
    }
}
