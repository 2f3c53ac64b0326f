//! Effects of accesses and packets on a line, in one step each (CINI §3.2, Fig. 3).

use super::super::command::{self, Command, Wrong};
use super::super::line::{Holds, Line};
use super::super::packet::{Class, Packet};
use super::super::queue::{Queue, SHARED_ENTRY_WORDS};
use super::super::transfer::Transfer;
use super::super::{LINE_BYTES, Misuse, State, WORD_BYTES};
use super::{Job, Ni, Source, counter, descriptor};
use crate::block::{Words, mask, merge, words_at};

/// Bytes of a queue's descriptor that take items away.
const HEAD_BYTES: u64 = 0xff << (8 * descriptor::HEAD);

impl Ni {
    /// Whether there is room for the answer or acknowledgement that the arrival of a packet causes.
    pub fn has_room(&self, class: Class) -> bool {
        match class {
            Class::Read => self.answers.len() < self.spec.reads,
            Class::Write | Class::Reply => self.acks.len() < self.spec.acks,
            Class::Ack => true,
        }
    }

    /// A packet for this scratchpad arrives.
    ///
    /// # Errors
    /// [`Misuse`] by the sender's program.
    pub fn arrive(&mut self, packet: &Packet) -> Result<(), Misuse> {
        match *packet {
            Packet::Read { source, destination, ack, bytes } => {
                let transfer = Transfer { destination, ack, bytes, done: 0 };
                self.asked(self.offset(source)?, transfer)
            }
            Packet::Write { line, mask, words, ack, .. } => {
                let number = self.offset(line)? / LINE_BYTES;
                let is_refusal = ack != 0 && self.refuses(number, mask);
                if !is_refusal {
                    self.write(number, mask, &words)?;
                }
                if ack != 0 {
                    let bytes = mask.count_ones();
                    self.acks.push_back(Packet::Ack { address: ack, bytes, is_refusal });
                }
                Ok(())
            }
            Packet::Ack { address, bytes, is_refusal } => {
                let offset = self.offset(address)?;
                let at = (offset % LINE_BYTES / WORD_BYTES * WORD_BYTES) as usize;
                let words = words_at(at, &Packet::ack_word(bytes, is_refusal).to_le_bytes());
                self.write(offset / LINE_BYTES, mask(at, WORD_BYTES as usize), &words)
            }
        }
    }

    /// Whether a line is a single-reader queue that has no room for an item, and says so.
    fn refuses(&self, number: u32, mask: u64) -> bool {
        match self.line(number) {
            Line::SingleReader(queue) => self.spec.nacks && mask != HEAD_BYTES && queue.is_full(),
            _ => false,
        }
    }

    /// Bytes are written to a line: an event, if its state makes it one.
    pub(super) fn write(&mut self, number: u32, mask: u64, words: &Words) -> Result<(), Misuse> {
        let at = self.address(number);
        match self.lines[number as usize] {
            Line::Cache => return Err(Misuse::NotScratchpad(at)),
            Line::Plain => self.merge(number, mask, words),
            Line::Command { .. } => self.write_command(number, mask, words)?,
            Line::Counter { .. } => self.write_counter(number, mask, words),
            Line::SingleReader(queue) => self.write_single(number, queue, mask, words)?,
            Line::MultipleReader(queue, holds) => {
                let item = item_of(mask, words, queue.item_words).ok_or(Misuse::Item(at))?;
                self.data_for_readers(number, queue, holds, &item)?;
            }
        }
        self.changed.push(number);
        Ok(())
    }

    fn merge(&mut self, number: u32, mask: u64, words: &Words) {
        merge(&mut self.data[number as usize], words, mask);
    }

    fn write_command(&mut self, number: u32, mask: u64, words: &Words) -> Result<(), Misuse> {
        let at = self.address(number);
        let mut written = 0u8;
        for word in 0..8 {
            match (mask >> (8 * word)) as u8 {
                0 => {}
                0xff => written |= 1 << word,
                _ => return Err(Misuse::PartOfWord(at + 8 * word)),
            }
        }
        let Line::Command { valid, .. } = self.lines[number as usize] else { unreachable!() };
        if valid & written != 0 {
            let word = (valid & written).trailing_zeros();
            return Err(Misuse::DoubleWrite(at + u64::from(8 * word)));
        }
        self.merge(number, mask, words);
        let valid = valid | written;
        let content = self.data[number as usize];
        let is_complete = command::is_complete(&content, valid).map_err(|wrong| match wrong {
            Wrong::Opcode(opcode) => Misuse::Opcode(at, opcode),
            Wrong::Size(bytes) => Misuse::Size(at, bytes),
        })?;
        self.lines[number as usize] = Line::Command { valid, is_pending: is_complete };
        if is_complete {
            self.start(&self.command_in(number))?;
            self.jobs.push_back(Job::Command { line: number, done: 0 });
        }
        Ok(())
    }

    /// Checks the addresses of a command whose description is complete.
    fn start(&self, command: &Command) -> Result<(), Misuse> {
        self.check(command.destination, command.bytes)?;
        if command.ack != 0 {
            self.check(command.ack, 1)?;
        }
        if command.is_message { Ok(()) } else { self.check(command.source, command.bytes) }
    }

    fn write_counter(&mut self, number: u32, mask: u64, words: &Words) {
        const VALUE_BYTES: u64 = 0xff << (8 * counter::VALUE);
        self.merge(number, mask & !VALUE_BYTES, words);
        if mask & VALUE_BYTES == 0 {
            return;
        }
        let mut added = [0; 8];
        merge(&mut added, words, mask & VALUE_BYTES);
        let reset = self.data[number as usize][counter::RESET];
        let Line::Counter { value, episodes } = &mut self.lines[number as usize] else {
            unreachable!("only counters count")
        };
        *value = value.wrapping_add(added[counter::VALUE]);
        if *value == 0 && added[counter::VALUE] != 0 {
            *value = reset;
            *episodes += 1;
            if *episodes == 1 {
                self.jobs.push_back(Job::Notify { line: number, next: 0 });
            }
        }
    }

    fn write_single(
        &mut self,
        number: u32,
        mut queue: Queue,
        mask: u64,
        words: &Words,
    ) -> Result<(), Misuse> {
        let at = self.address(number);
        if mask == HEAD_BYTES {
            let head = words[descriptor::HEAD];
            let is_head = u32::try_from(head).is_ok_and(|head| queue.release(head));
            if !is_head {
                return Err(Misuse::Head(at, head));
            }
        } else {
            let item = item_of(mask, words, queue.item_words).ok_or(Misuse::Item(at))?;
            let place = queue.enqueue().ok_or(Misuse::Overflow(at))?;
            self.put_item(number, place, &item, queue.item_words);
        }
        self.lines[number as usize] = Line::SingleReader(queue);
        Ok(())
    }

    /// Data arrives at a multiple-reader queue: it meets the oldest request, or waits.
    fn data_for_readers(
        &mut self,
        number: u32,
        mut queue: Queue,
        mut holds: Holds,
        item: &Words,
    ) -> Result<(), Misuse> {
        if holds == Holds::Requests && !queue.is_empty() {
            let transfer = self.request_at(number, queue.dequeue().expect("it is not empty"));
            self.answer_item(*item, transfer, queue.item_words);
        } else {
            holds = Holds::Data;
            let place = queue.enqueue().ok_or(Misuse::Overflow(self.address(number)))?;
            self.put_item(number, place, item, SHARED_ENTRY_WORDS);
        }
        self.lines[number as usize] = Line::MultipleReader(queue, holds);
        Ok(())
    }

    fn asked(&mut self, offset: u32, transfer: Transfer) -> Result<(), Misuse> {
        let number = offset / LINE_BYTES;
        let at = self.address(number);
        if !self.load_waits(offset) {
            if self.line(number).state() == State::Cache {
                return Err(Misuse::NotScratchpad(at));
            }
            self.answers.push_back((Source::Own(offset), transfer));
            return Ok(());
        }
        let Line::MultipleReader(mut queue, mut holds) = self.lines[number as usize] else {
            unreachable!("only reads of these queues wait")
        };
        if holds == Holds::Data && !queue.is_empty() {
            let place = queue.dequeue().expect("it is not empty");
            let item = self.item_at(number, place);
            self.answer_item(item, transfer, queue.item_words);
        } else {
            holds = Holds::Requests;
            let place = queue.enqueue().ok_or(Misuse::Overflow(at))?;
            let request =
                [transfer.destination, transfer.ack, transfer.bytes.into(), 0, 0, 0, 0, 0];
            self.put_item(number, place, &request, SHARED_ENTRY_WORDS);
        }
        self.lines[number as usize] = Line::MultipleReader(queue, holds);
        self.changed.push(number);
        Ok(())
    }

    fn answer_item(&mut self, words: Words, mut transfer: Transfer, item_words: u8) {
        transfer.bytes = transfer.bytes.min(u32::from(item_words) * WORD_BYTES);
        self.answers.push_back((Source::Item(words), transfer));
    }

    /// Puts an item at a place in the body behind a descriptor.
    fn put_item(&mut self, number: u32, place: u32, item: &Words, words: u8) {
        let line = number + 1 + place / LINE_BYTES;
        let first = (place % LINE_BYTES / WORD_BYTES) as usize;
        let words = usize::from(words).min(8 - first);
        self.data[line as usize][first..first + words].copy_from_slice(&item[..words]);
        self.changed.push(line);
    }

    fn item_at(&self, number: u32, place: u32) -> Words {
        let line = (number + 1 + place / LINE_BYTES) as usize;
        let first = (place % LINE_BYTES / WORD_BYTES) as usize;
        let mut item = [0; 8];
        item[..8 - first].copy_from_slice(&self.data[line][first..]);
        item
    }

    fn request_at(&self, number: u32, place: u32) -> Transfer {
        let [destination, ack, bytes, ..] = self.item_at(number, place);
        Transfer { destination, ack, bytes: bytes as u32, done: 0 }
    }
}

/// The item that a write to a descriptor makes: from the first byte on and no longer than one.
fn item_of(mask: u64, words: &Words, item_words: u8) -> Option<Words> {
    let bytes = mask.trailing_ones();
    let is_whole = mask.count_ones() == bytes && bytes > 0;
    let fits = bytes <= u32::from(item_words) * WORD_BYTES;
    let mut item = [0; 8];
    merge(&mut item, words, mask);
    debug_assert_eq!(descriptor::ITEM, 0);
    (is_whole && fits).then_some(item)
}
