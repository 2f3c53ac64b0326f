//! The outgoing traffic controller: jobs become packets, in turn (CINI §3.1).

use super::super::command::{self, Command};
use super::super::line::Line;
use super::super::packet::{Class, Packet};
use super::super::transfer::{Content, Transfer, gather};
use super::super::{LINE_BYTES, Misuse, NOTIFICATIONS, WORD_BYTES};
use super::{Job, Ni, Source, counter};
use crate::block::{mask, words_at};

impl Ni {
    /// Whether something waits to leave.
    pub fn has_work(&self) -> bool {
        !(self.stores.is_empty()
            && self.jobs.is_empty()
            && self.answers.is_empty()
            && self.acks.is_empty()
            && self.combiner.is_empty())
    }

    /// The next packet to leave, of the most urgent class of which one `may` leave. One that is for
    /// this scratchpad itself leaves, too. Remote stores that could be joined by others leave when
    /// they are `ripe` and nothing else does.
    ///
    /// # Errors
    /// [`Misuse`] of the command whose turn it is.
    pub fn emit(
        &mut self,
        may: impl Fn(Class) -> bool,
        ripe: bool,
    ) -> Result<Option<Packet>, Misuse> {
        if may(Class::Ack)
            && let Some(ack) = self.acks.pop_front()
        {
            return Ok(Some(ack));
        }
        if may(Class::Reply)
            && let Some((source, transfer)) = self.answers.pop_front()
        {
            return self.answer(source, transfer).map(Some);
        }
        if ripe && self.stores.is_empty() && may(Class::Write) {
            self.flush();
        }
        self.stores_first = !self.stores_first;
        let store_waits = self.stores.front().is_some_and(|packet| may(packet.class()));
        if store_waits && (self.stores_first || self.jobs.is_empty()) {
            return Ok(self.stores.pop_front());
        }
        if let Some(&job) = self.jobs.front()
            && may(self.class_of(&job))
        {
            self.jobs.pop_front();
            return self.carry_on_outgoing(job);
        }
        Ok(if store_waits { self.stores.pop_front() } else { None })
    }

    /// The class of the next packet of a job.
    fn class_of(&self, job: &Job) -> Class {
        let Job::Command { line, .. } = *job else { return Class::Write };
        let command = self.command_in(line);
        if command.is_message || self.own_offset(command.source).is_some() {
            Class::Write
        } else {
            Class::Read
        }
    }

    /// The command of a line, with the places that its addresses stand for.
    pub(super) fn command_in(&self, line: u32) -> Command {
        let mut command = Command::of(&self.data[line as usize]);
        command.destination = self.table.place_of(command.destination, command.bytes);
        command.ack = self.table.place_of(command.ack, 1);
        if !command.is_message {
            command.source = self.table.place_of(command.source, command.bytes);
        }
        command
    }

    /// The offset of an address in this scratchpad, if it can be read at once.
    fn own_offset(&self, address: u64) -> Option<u32> {
        let offset = self.offset(address).ok()?;
        (!self.load_waits(offset)).then_some(offset)
    }

    /// The next packet of a command or a notification; none if a counter notifies nobody.
    fn carry_on_outgoing(&mut self, job: Job) -> Result<Option<Packet>, Misuse> {
        match job {
            Job::Command { line, done } => self.carry_on_command(line, done).map(Some),
            Job::Notify { line, next } => Ok(self.notify(line, next)),
        }
    }

    fn carry_on_command(&mut self, line: u32, done: u32) -> Result<Packet, Misuse> {
        let content = self.data[line as usize];
        let Command { is_message, bytes, destination, ack, source } = self.command_in(line);
        let mut transfer = Transfer { destination, ack, bytes, done };
        let packet = match (is_message, self.own_offset(source)) {
            (true, _) => transfer
                .next(|at, length| of_words(&content[command::SOURCE..], at, length), false)?,
            (false, Some(offset)) => {
                transfer.next(|at, length| self.bytes(offset + at, length), false)?
            }
            (false, None) => {
                transfer.done = bytes;
                Packet::Read { source, destination, ack, bytes }
            }
        };
        if transfer.is_done() {
            self.lines[line as usize] = Line::Command { valid: 0, is_pending: false };
            self.changed.push(line);
        } else {
            self.jobs.push_back(Job::Command { line, done: transfer.done });
        }
        Ok(packet)
    }

    fn notify(&mut self, line: u32, next: usize) -> Option<Packet> {
        let content = self.data[line as usize];
        let addresses = &content[counter::ADDRESSES..];
        let found = (next..NOTIFICATIONS).find(|&at| addresses[at] != 0);
        let more = found.is_some_and(|at| addresses[at + 1..].iter().any(|&address| address != 0));
        if more {
            self.jobs.push_back(Job::Notify { line, next: found.unwrap_or(next) + 1 });
        } else if let Line::Counter { episodes, .. } = &mut self.lines[line as usize] {
            *episodes -= 1;
            if *episodes > 0 {
                self.jobs.push_back(Job::Notify { line, next: 0 });
            }
        }
        found.map(|at| {
            store_word(self.table.place_of(addresses[at], WORD_BYTES), content[counter::SENT])
        })
    }

    /// The next packet of an answer.
    fn answer(&mut self, source: Source, mut transfer: Transfer) -> Result<Packet, Misuse> {
        let content = |at, length| match &source {
            Source::Own(offset) => self.bytes(offset + at, length),
            Source::Item(words) => of_words(words, at, length),
        };
        let packet = transfer.next(content, true)?;
        if !transfer.is_done() {
            self.answers.push_back((source, transfer));
        }
        Ok(packet)
    }

    /// Bytes of this scratchpad, for transfers of any alignment.
    fn bytes(&self, offset: u32, length: u32) -> Result<Content, Misuse> {
        gather(offset.into(), length, |line| self.load(line as u32))
    }
}

fn of_words(words: &[u64], at: u32, length: u32) -> Result<Content, Misuse> {
    let mut line = [0; 8];
    line[..words.len()].copy_from_slice(words);
    gather(at.into(), length, |_| Ok(line))
}

/// A store of a word that nobody acknowledges.
fn store_word(address: u64, value: u64) -> Packet {
    let line = address - address % u64::from(LINE_BYTES);
    let at = (address - line) as usize / WORD_BYTES as usize * WORD_BYTES as usize;
    let words = words_at(at, &value.to_le_bytes());
    Packet::Write { line, mask: mask(at, WORD_BYTES as usize), words, ack: 0, is_reply: false }
}
