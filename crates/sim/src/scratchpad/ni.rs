//! The network interface of one private cache: what accesses and packets do to its lines, and which
//! packets leave because of that (CINI §3.2 to §3.4).

use std::collections::VecDeque;

use super::combine::Combiner;
use super::command::{self, Command, Wrong};
use super::line::{Holds, Line};
use super::packet::{Class, Packet};
use super::queue::{Queue, SHARED_ENTRY_WORDS};
use super::region::{Regions, Target};
use super::{LINE_BYTES, Misuse, NOTIFICATIONS, State, WORD_BYTES, Words};
use crate::sonuma::memory::{bytes_of, mask, merge, words_at};

/// Words of counters.
mod counter {
    pub(super) const VALUE: usize = 0;
    pub(super) const RESET: usize = 1;
    pub(super) const SENT: usize = 2;
    pub(super) const ADDRESSES: usize = 4;
}

/// Words of the descriptors of queues.
mod descriptor {
    pub(super) const ITEM: usize = 0;
    pub(super) const TAIL: usize = 1;
    pub(super) const HEAD: usize = 2;
}

const _: () = assert!(counter::ADDRESSES + NOTIFICATIONS == 8, "addresses fill the line");

/// What an interface is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiSpec {
    /// Commands and notifications in the job list.
    pub jobs: usize,
    /// Reads of others that are being answered.
    pub reads: usize,
    /// Acknowledgements that have not left; arrivals that cause one wait for room.
    pub acks: usize,
    /// Packets of remote stores that have not left.
    pub stores: usize,
}

/// What became of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is done, or has left.
    Done,
    /// There is no room: again when something has left.
    Wait,
}

/// Something that leaves as one packet or as several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// The command in a line, of which so many bytes have left.
    Command { line: u32, done: u32 },
    /// The notifications of a counter, from an address on.
    Notify { line: u32, next: usize },
    /// Bytes of this scratchpad that a read asked for.
    Answer { offset: u32, transfer: Transfer },
    /// An item of a multiple-reader queue that met its request.
    Item { words: Words, transfer: Transfer },
}

/// Where the bytes of an answer go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    destination: u64,
    ack: u64,
    bytes: u32,
    done: u32,
}

/// The interface of one core's private cache.
#[derive(Clone, Debug)]
pub struct Ni {
    core: u16,
    regions: Regions,
    spec: NiSpec,
    lines: Vec<Line>,
    data: Vec<Words>,
    combiner: Combiner,
    stores: VecDeque<Packet>,
    jobs: VecDeque<Job>,
    answers: VecDeque<Job>,
    acks: VecDeque<Packet>,
    stores_first: bool,
    changed: Vec<u32>,
}

impl Ni {
    /// The interface of a core; all lines belong to the cache.
    pub fn new(core: u16, regions: Regions, spec: NiSpec) -> Ni {
        let lines = (regions.scratchpad_bytes / LINE_BYTES) as usize;
        Ni {
            core,
            regions,
            spec,
            lines: vec![Line::Cache; lines],
            data: vec![[0; 8]; lines],
            combiner: Combiner::default(),
            stores: VecDeque::new(),
            jobs: VecDeque::new(),
            answers: VecDeque::new(),
            acks: VecDeque::new(),
            stores_first: false,
            changed: Vec::new(),
        }
    }

    /// What is known of a line.
    pub fn line(&self, number: u32) -> &Line {
        &self.lines[number as usize]
    }

    /// Lines of which loads may show something else than before; who polls them has to look again.
    pub fn take_changed(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.changed);
    }

    /// A line as loads see it, which change nothing.
    ///
    /// # Errors
    /// It is no scratchpad line.
    pub fn load(&self, number: u32) -> Result<Words, Misuse> {
        let mut words = self.data[number as usize];
        match self.line(number) {
            Line::Cache => return Err(Misuse::NotScratchpad(self.address(number))),
            Line::Counter { value, .. } => words[counter::VALUE] = *value,
            Line::SingleReader(queue) | Line::MultipleReader(queue, _) => {
                words[descriptor::TAIL] = queue.tail.into();
                words[descriptor::HEAD] = queue.head.into();
            }
            Line::Plain | Line::Command { .. } => {}
        }
        Ok(words)
    }

    /// Whether a load of this byte waits for data of a multiple-reader queue.
    pub fn load_waits(&self, offset: u32) -> bool {
        let is_item = offset % LINE_BYTES < WORD_BYTES;
        is_item && self.line(offset / LINE_BYTES).state() == State::MultipleReader
    }

    /// A store of the core to its own scratchpad.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn store(&mut self, offset: u32, size: u8, value: u64) -> Result<Stored, Misuse> {
        let (number, at) = (offset / LINE_BYTES, (offset % LINE_BYTES) as usize);
        if let Line::Command { is_pending: true, .. } = self.line(number) {
            return Ok(Stored::Wait);
        }
        if self.line(number).state() == State::Command && self.jobs.len() >= self.spec.jobs {
            // Its last word could come now.
            return Ok(Stored::Wait);
        }
        let words = words_at(at, &value.to_le_bytes()[..size.into()]);
        self.write(number, mask(at, size.into()), &words)?;
        Ok(Stored::Done)
    }

    /// A store of the core to somebody else's scratchpad, or to uncached memory.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn store_remote(&mut self, address: u64, size: u8, value: u64) -> Result<Stored, Misuse> {
        self.check(address, 1)?;
        if self.stores.len() >= self.spec.stores {
            return Ok(Stored::Wait);
        }
        self.stores.extend(self.combiner.store(address, size, value).into_iter().flatten());
        Ok(Stored::Done)
    }

    /// Lets remote stores leave that wait for others to the same line.
    pub fn flush(&mut self) {
        self.stores.extend(self.combiner.flush());
    }

    /// A load of the core that somebody else answers, or that has to wait: the answer is written to
    /// [`Regions::load`]. It leaves after all stores before it.
    pub fn ask(&mut self, address: u64, size: u8) {
        self.flush();
        let destination = Regions::load(self.core);
        let bytes = size.into();
        self.stores.push_back(Packet::Read { source: address, destination, ack: 0, bytes });
    }

    /// Converts a line of which the cache has let go. `body_lines` behind it belong to a queue.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn convert(&mut self, number: u32, state_word: u64) -> Result<(), Misuse> {
        let at = self.address(number);
        let state = State::of(state_word as u8).ok_or(Misuse::State(at, state_word as u8))?;
        if self.line(number).is_in_use() || (state != State::Plain && self.is_in_body(number)) {
            return Err(Misuse::InUse(at));
        }
        let new = match state {
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
        };
        if state == State::Cache {
            self.data[number as usize] = [0; 8];
        }
        self.lines[number as usize] = new;
        self.changed.push(number);
        Ok(())
    }

    /// Whether a line belongs to the body of a queue: the descriptor is before it, with nothing but plain
    /// lines in between.
    fn is_in_body(&self, number: u32) -> bool {
        let number = number as usize;
        let before = self.lines[..number].iter().rposition(|line| !line.is_plain());
        match before.map(|at| (at, self.lines[at])) {
            Some((at, Line::SingleReader(queue) | Line::MultipleReader(queue, _))) => {
                self.lines[number].is_plain()
                    && number - at <= (queue.body_bytes / LINE_BYTES) as usize
            }
            _ => false,
        }
    }

    /// State and tag bits of a line: what the operating system reads to save it.
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

    /// Whether there is room for what the arrival of a packet causes.
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
    /// [`Misuse`] of whoever has sent it.
    pub fn arrive(&mut self, packet: &Packet) -> Result<(), Misuse> {
        match *packet {
            Packet::Read { source, destination, ack, bytes } => {
                let transfer = Transfer { destination, ack, bytes, done: 0 };
                self.asked(self.offset(source)?, transfer)
            }
            Packet::Write { line, mask, words, ack, .. } => {
                self.write(self.offset(line)? / LINE_BYTES, mask, &words)?;
                if ack != 0 {
                    self.acks.push_back(Packet::Ack { address: ack, bytes: mask.count_ones() });
                }
                Ok(())
            }
            Packet::Ack { address, bytes } => {
                let offset = self.offset(address)?;
                let at = (offset % LINE_BYTES / WORD_BYTES * WORD_BYTES) as usize;
                let words = words_at(at, &u64::from(bytes).to_le_bytes());
                self.write(offset / LINE_BYTES, mask(at, WORD_BYTES as usize), &words)
            }
        }
    }

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
            && let Some(job) = self.answers.pop_front()
        {
            return self.carry_on(job).map(Some);
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

    fn address(&self, number: u32) -> u64 {
        Regions::scratchpad(self.core, number * LINE_BYTES)
    }

    /// Where an address that somebody else has sent here is in this scratchpad.
    fn offset(&self, address: u64) -> Result<u32, Misuse> {
        match self.regions.find(address) {
            Some(Target::Scratchpad { core, offset }) if core == self.core => Ok(offset),
            _ => Err(Misuse::NoRegion(address)),
        }
    }

    /// Checks that all bytes from an address on are in one region that transfers may reach.
    fn check(&self, address: u64, bytes: u32) -> Result<(), Misuse> {
        let last = address.wrapping_add(u64::from(bytes) - 1);
        match (self.regions.find(address), self.regions.find(last)) {
            (
                Some(Target::Scratchpad { core, .. }),
                Some(Target::Scratchpad { core: same, .. }),
            ) if core == same => Ok(()),
            (Some(Target::Dram { .. }), Some(Target::Dram { .. })) => Ok(()),
            (Some(_), _) => Err(Misuse::NoRegion(last)),
            (None, _) => Err(Misuse::NoRegion(address)),
        }
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
        let body = self.lines.get(first..last);
        let is_plain = body.is_some_and(|body| body.iter().all(|line| *line == Line::Plain));
        if !Queue::can_have(body_bytes, number + 1) || !is_plain {
            return Err(Misuse::Body(at, body_bytes));
        }
        Ok(Queue::new(item_words, entry_words.unwrap_or(item_words), body_bytes))
    }

    /// Bytes are written to a line: an event, if its state makes it one.
    fn write(&mut self, number: u32, mask: u64, words: &Words) -> Result<(), Misuse> {
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
            self.start(&Command::of(&content))?;
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
        const HEAD_BYTES: u64 = 0xff << (8 * descriptor::HEAD);
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

    /// A read arrives.
    fn asked(&mut self, offset: u32, transfer: Transfer) -> Result<(), Misuse> {
        let number = offset / LINE_BYTES;
        let at = self.address(number);
        if !self.load_waits(offset) {
            if self.line(number).state() == State::Cache {
                return Err(Misuse::NotScratchpad(at));
            }
            self.answers.push_back(Job::Answer { offset, transfer });
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
        self.answers.push_back(Job::Item { words, transfer });
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

    /// The class of the next packet of a job.
    fn class_of(&self, job: &Job) -> Class {
        let Job::Command { line, .. } = *job else { return Class::Write };
        let command = Command::of(&self.data[line as usize]);
        if command.is_message || self.own_offset(command.source).is_some() {
            Class::Write
        } else {
            Class::Read
        }
    }

    /// Where an address is in this scratchpad, if it can be read at once.
    fn own_offset(&self, address: u64) -> Option<u32> {
        let offset = self.offset(address).ok()?;
        (!self.load_waits(offset)).then_some(offset)
    }

    /// The next packet of a command or a notification; none if a counter notifies nobody.
    fn carry_on_outgoing(&mut self, job: Job) -> Result<Option<Packet>, Misuse> {
        match job {
            Job::Command { line, done } => self.carry_on_command(line, done).map(Some),
            Job::Notify { line, next } => Ok(self.notify(line, next)),
            Job::Answer { .. } | Job::Item { .. } => {
                unreachable!("answers have a list of their own")
            }
        }
    }

    fn carry_on_command(&mut self, line: u32, done: u32) -> Result<Packet, Misuse> {
        let content = self.data[line as usize];
        let Command { is_message, bytes, destination, ack, source } = Command::of(&content);
        let mut transfer = Transfer { destination, ack, bytes, done };
        let packet = match (is_message, self.own_offset(source)) {
            (true, _) => {
                let data = &bytes_of(&content)[8 * command::SOURCE..];
                self.piece(&mut transfer, |_, at| Ok(data[at as usize]), false)?
            }
            (false, Some(offset)) => {
                self.piece(&mut transfer, |ni, at| ni.byte(offset + at), false)?
            }
            (false, None) => {
                transfer.done = bytes;
                Packet::Read { source, destination, ack, bytes }
            }
        };
        if transfer.done < bytes {
            self.jobs.push_back(Job::Command { line, done: transfer.done });
        } else {
            self.lines[line as usize] = Line::Command { valid: 0, is_pending: false };
            self.changed.push(line);
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
        found.map(|at| store_word(addresses[at], content[counter::SENT]))
    }

    /// The next packet of an answer.
    fn carry_on(&mut self, job: Job) -> Result<Packet, Misuse> {
        match job {
            Job::Answer { offset, mut transfer } => {
                let packet = self.piece(&mut transfer, |ni, at| ni.byte(offset + at), true)?;
                if transfer.done < transfer.bytes {
                    self.answers.push_back(Job::Answer { offset, transfer });
                }
                Ok(packet)
            }
            Job::Item { words, mut transfer } => {
                let data = bytes_of(&words);
                let packet = self.piece(&mut transfer, |_, at| Ok(data[at as usize]), true)?;
                if transfer.done < transfer.bytes {
                    self.answers.push_back(Job::Item { words, transfer });
                }
                Ok(packet)
            }
            Job::Command { .. } | Job::Notify { .. } => unreachable!("these are no answers"),
        }
    }

    /// A byte of this scratchpad, for transfers of any alignment.
    fn byte(&self, offset: u32) -> Result<u8, Misuse> {
        let words = self.load(offset / LINE_BYTES)?;
        Ok((words[(offset % LINE_BYTES / 8) as usize] >> (8 * (offset % 8))) as u8)
    }

    /// The next packet of a transfer: as much as is in one line of the destination.
    fn piece(
        &self,
        transfer: &mut Transfer,
        byte: impl Fn(&Ni, u32) -> Result<u8, Misuse>,
        is_reply: bool,
    ) -> Result<Packet, Misuse> {
        let Transfer { destination, ack, bytes, done } = *transfer;
        let at = destination + u64::from(done);
        let first = (at % u64::from(LINE_BYTES)) as usize;
        let length = (bytes - done).min(LINE_BYTES - first as u32);
        let mut content = [0; LINE_BYTES as usize];
        for index in 0..length {
            content[index as usize] = byte(self, done + index)?;
        }
        transfer.done += length;
        Ok(Packet::Write {
            line: at - first as u64,
            mask: mask(first, length as usize),
            words: words_at(first, &content[..length as usize]),
            ack,
            is_reply,
        })
    }
}

/// A store of a word that nobody acknowledges.
fn store_word(address: u64, value: u64) -> Packet {
    let line = address - address % u64::from(LINE_BYTES);
    let at = (address - line) as usize / WORD_BYTES as usize * WORD_BYTES as usize;
    let words = words_at(at, &value.to_le_bytes());
    Packet::Write { line, mask: mask(at, WORD_BYTES as usize), words, ack: 0, is_reply: false }
}

/// What is written to a descriptor, as an item: from the first byte on and no longer than one.
fn item_of(mask: u64, words: &Words, item_words: u8) -> Option<Words> {
    let bytes = mask.trailing_ones();
    let is_whole = mask.count_ones() == bytes && bytes > 0;
    let fits = bytes <= u32::from(item_words) * WORD_BYTES;
    let mut item = [0; 8];
    merge(&mut item, words, mask);
    debug_assert_eq!(descriptor::ITEM, 0);
    (is_whole && fits).then_some(item)
}
