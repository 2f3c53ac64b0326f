//! The state of an interface that has nothing under way, to go on from it. Lines are saved as the operating system
//! saves them, by words of state and tag bits.

use serde::{Deserialize, Serialize};

use super::super::line::State as LineState;
use super::super::table::Region;
use super::Ni;
use crate::block::Words;

/// Lines and table of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    lines: Vec<Saved>,
    table: Vec<Region>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    number: u32,
    state: u64,
    tag: u64,
    words: Words,
}

impl State {
    /// Whether it is that of an interface that nobody has used.
    pub fn is_unused(&self) -> bool {
        *self == State::default()
    }

    /// Numbers of the lines that are scratchpad.
    pub fn scratchpad(&self) -> impl Iterator<Item = u32> {
        let lines = self.lines.iter().filter(|line| line.state as u8 != LineState::Cache as u8);
        lines.map(|line| line.number)
    }
}

impl Ni {
    /// Its state; it has nothing under way.
    pub fn state(&self) -> State {
        let saved = |number: usize| Saved {
            number: number as u32,
            state: self.lines[number].state_word(),
            tag: self.lines[number].tag_word(),
            words: self.data[number],
        };
        let is_used = |line: &Saved| (line.state, line.words) != (0, [0; 8]);
        let lines = (0..self.lines.len()).map(saved).filter(is_used).collect();
        State { lines, table: self.table.regions().to_vec() }
    }

    /// Goes on from a state; all lines still are the cache's.
    ///
    /// # Errors
    /// No interface is in such a state: the field, and what is wrong with it.
    pub fn restore(&mut self, state: &State) -> Result<(), String> {
        let mut free_from = 0;
        for (at, line) in state.lines.iter().enumerate() {
            let words = self.data.get_mut(line.number as usize);
            let words = words.filter(|_| line.number >= free_from);
            *words.ok_or_else(|| {
                format!("lines[{at}]: there is no further line {}", line.number)
            })? = line.words;
            free_from = line.number + 1;
        }
        // Bodies of queues are plain before the queues are there.
        let is_plain = |line: &Saved| line.state as u8 == LineState::Plain as u8;
        let (plain, others): (Vec<&Saved>, Vec<&Saved>) =
            state.lines.iter().partition(|line| is_plain(line));
        for line in plain.into_iter().chain(others) {
            self.convert(line.number, line.state).map_err(|misuse| format!("lines: {misuse}"))?;
            self.restore_tag(line.number, line.tag);
        }
        for (at, &region) in state.table.iter().enumerate() {
            let entered = self.table.set(region, &self.regions);
            entered.map_err(|refusal| format!("table[{at}]: {region:x?} is {refusal:?}"))?;
        }
        Ok(())
    }
}
