//! States of lines: conversions, and tags as the operating system sees them.

use super::super::line::{Holds, Line};
use super::super::queue::{Queue, SHARED_ENTRY_WORDS};
use super::super::{LINE_BYTES, Misuse, State};
use super::{Ni, counter};

impl Ni {
    /// Converts a line of which the cache has let go.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn convert(&mut self, number: u32, state_word: u64) -> Result<(), Misuse> {
        if self.line(number).is_in_use() || self.is_body[number as usize] {
            return Err(Misuse::InUse(self.address(number)));
        }
        self.claim_body(number, false);
        let new = self.converted(number, state_word);
        if let Ok(new) = new {
            self.lines[number as usize] = new;
            self.changed.push(number);
        }
        self.claim_body(number, true);
        new.map(|_| ())
    }

    fn converted(&self, number: u32, state_word: u64) -> Result<Line, Misuse> {
        let state = State::of(state_word as u8);
        let state = state.ok_or(Misuse::State(self.address(number), state_word as u8))?;
        Ok(match state {
            State::Cache => Line::Cache,
            State::Plain => Line::Plain,
            State::Command => Line::Command { valid: 0, is_pending: false },
            State::Counter => {
                Line::Counter { value: self.data[number as usize][counter::RESET], episodes: 0 }
            }
            State::SingleReader => Line::SingleReader(self.queue(number, state_word, None)?),
            State::MultipleReader => {
                let queue = self.queue(number, state_word, Some(SHARED_ENTRY_WORDS))?;
                Line::MultipleReader(queue, Holds::Data)
            }
        })
    }

    /// Notes whose the lines behind a descriptor are.
    fn claim_body(&mut self, number: u32, is_body: bool) {
        let bytes = self.line(number).body_bytes();
        let first = number as usize + 1;
        self.is_body[first..first + (bytes / LINE_BYTES) as usize].fill(is_body);
    }

    /// State and tag bits of a line, which the operating system reads to save it.
    pub fn tag(&self, number: u32, word: u32) -> u64 {
        match word {
            0 => self.line(number).state_word(),
            1 => self.line(number).tag_word(),
            _ => 0,
        }
    }

    /// Puts tag bits back.
    pub fn restore_tag(&mut self, number: u32, bits: u64) {
        self.lines[number as usize].restore(bits);
        self.changed.push(number);
    }

    fn queue(&self, number: u32, word: u64, entry_words: Option<u8>) -> Result<Queue, Misuse> {
        let at = self.address(number);
        let (item_words, body_bytes) = ((word >> 8) as u8, (word >> 16) as u32);
        let most_words = entry_words.unwrap_or(8);
        if !item_words.is_power_of_two() || item_words > most_words {
            return Err(Misuse::ItemWords(at, item_words));
        }
        let first = number as usize + 1;
        let last = first + (body_bytes / LINE_BYTES) as usize;
        let is_free = last <= self.lines.len()
            && self.lines[first..last].iter().all(Line::is_plain)
            && !self.is_body[first..last].contains(&true);
        if !Queue::can_have(body_bytes, number + 1) || !is_free {
            return Err(Misuse::Body(at, body_bytes));
        }
        Ok(Queue::new(item_words, entry_words.unwrap_or(item_words), body_bytes))
    }
}
