//! Checkpoints of which anything can be changed, for the fuzz target.

use super::Checkpoint;

impl Checkpoint {
    /// The head as JSON, and the packed pages of each node.
    pub fn parts(&self) -> (&str, &[Vec<u8>]) {
        (&self.text, &self.contents)
    }

    /// The same with others of these, as if they had been read.
    ///
    /// # Errors
    /// The field that no checkpoint has so, and what is wrong with it.
    pub fn with_parts(&self, head: String, contents: Vec<Vec<u8>>) -> Result<Checkpoint, String> {
        Checkpoint::read_from(head, self.program.clone(), contents)
    }
}
