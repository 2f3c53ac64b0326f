//! The blocks of a home for which something is under way.

use std::collections::VecDeque;

use crate::block::{Block, Line};
use crate::coherence::{Party, Request, home};

/// A block for which something is under way.
#[derive(Clone, Debug)]
pub struct Active {
    /// The home's state machine for this block.
    pub block: home::Block<Block>,
    /// Requests that wait for their turn.
    pub waiting: VecDeque<(Party, Request<Block>)>,
}

/// Those blocks. Their numbers lie together: they are looked through several times per request.
#[derive(Clone, Debug, Default)]
pub struct ActiveSet {
    lines: Vec<Line>,
    blocks: Vec<Active>,
}

impl ActiveSet {
    /// The position of a block, if something is under way for it.
    #[inline]
    pub fn position(&self, line: Line) -> Option<usize> {
        self.lines.iter().position(|&active| active == line)
    }

    /// Whether something is under way for a block.
    #[inline]
    pub fn contains(&self, line: Line) -> bool {
        self.lines.contains(&line)
    }

    /// A block for which something is under way.
    pub fn get(&self, line: Line) -> Option<&Active> {
        self.position(line).map(|at| &self.blocks[at])
    }

    /// The same, to change.
    pub fn get_mut(&mut self, line: Line) -> Option<&mut Active> {
        self.position(line).map(|at| &mut self.blocks[at])
    }

    /// The block at a position.
    #[inline]
    pub fn at_mut(&mut self, at: usize) -> &mut Active {
        &mut self.blocks[at]
    }

    /// Adds a block that is not in the set, without waiting requests.
    pub fn push(&mut self, line: Line, block: home::Block<Block>) {
        self.lines.push(line);
        self.blocks.push(Active { block, waiting: VecDeque::new() });
    }

    /// Forgets a block, unless requests wait for it.
    pub fn forget(&mut self, line: Line) {
        if let Some(at) = self.position(line)
            && self.blocks[at].waiting.is_empty()
        {
            self.lines.swap_remove(at);
            self.blocks.swap_remove(at);
        }
    }

    /// All blocks with their numbers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Line, &Active)> {
        self.lines.iter().copied().zip(&self.blocks)
    }
}
