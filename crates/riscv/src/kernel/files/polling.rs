//! Waiting for several files at once: `ppoll` and `pselect6`.

use super::epoll::Known;
use super::table::{MOST_FILES, Open, OpenFile};
use super::{Context, Errno, Files, Result, Way};

pub(super) const IN: u32 = 1;
pub(super) const OUT: u32 = 4;
pub(super) const ERR: u32 = 8;
pub(super) const HUP: u32 = 0x10;
const NVAL: u32 = 0x20;
pub(super) const NORMAL_IN: u32 = 0x40;
pub(super) const NORMAL_OUT: u32 = 0x100;
pub(super) const BAND_OUT: u32 = 0x200;
pub(super) const READ_HUP: u32 = 0x2000;

impl Files {
    /// Events of an open file that are there now.
    pub(super) fn ready(&mut self, number: u32) -> Result<u32> {
        self.ready_within(number, &mut Known::new())
    }

    /// The same, with what is known of `epoll` at this time.
    pub(super) fn ready_within(&mut self, number: u32, known: &mut Known) -> Result<u32> {
        let able = |reads: bool, writes: bool| {
            let reading = if reads { IN | NORMAL_IN } else { 0 };
            let writing = if writes { OUT | NORMAL_OUT } else { 0 };
            reading | writing
        };
        let file = self.table.by_number(number)?;
        let (reads, writes) = (file.permits(Way::Read), file.permits(Way::Write));
        let OpenFile { open, .. } = file;
        Ok(match open {
            Open::Input => able(true, false),
            Open::Output(_) => able(false, true),
            Open::Event { count, .. } => {
                let reading = if *count > 0 { IN } else { 0 };
                reading | if *count < u64::MAX - 1 { OUT } else { 0 }
            }
            Open::Timer(timer) if timer.is_readable() => IN,
            Open::Timer(_) => 0,
            Open::Pipe(number) => {
                let number = *number;
                let has_writer = self.table.has_end(number, Way::Write);
                let has_reader = self.table.has_end(number, Way::Read);
                let pipe = self.table.pipe(number)?;
                let hung_up = if !has_writer && pipe.had_writer() { HUP } else { 0 };
                let broken = if has_reader { 0 } else { ERR };
                able(reads && pipe.is_readable(), writes && pipe.is_writable()) | hung_up | broken
            }
            &mut Open::Socket(number) => self.socket_events(number)?,
            Open::Epoll(_) => able(self.has_events(number, known)?, false),
            _ => able(true, true),
        })
    }

    /// Events of one of the descriptors that a call waits for; `NVAL` if it stands for nothing.
    ///
    /// As on Linux, a call that waits is woken by the files that it began with, and looks then at those that its
    /// descriptors stand for by now.
    fn look(&mut self, context: &mut Context<'_>, descriptor: u32, view: View) -> u32 {
        let file = match view {
            View::Begun => self.named(context, descriptor.into()),
            View::Now => self.table.content_number(descriptor.into()),
        };
        file.and_then(|file| self.ready(file)).unwrap_or(NVAL)
    }

    /// `ppoll`.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Result {
        const BYTES: u64 = 8;
        let [list, count, timeout, ..] = context.args();
        let timeout = context.read_timeout(timeout)?;
        let count = u64::from(count as u32);
        if count > self.table.most() as u64 {
            return Err(Errno::INVAL);
        }
        let places = (0..count).map(|index| list.wrapping_add(BYTES * index));
        let words = places.clone().map(|at| context.read_u64(at)).collect::<Result<Vec<_>>>()?;
        let mut events = Vec::new();
        for view in context.views().iter().copied() {
            events.clear();
            for &word in &words {
                let (descriptor, wanted) = (word as u32, (word >> 32) as u32 & 0xffff);
                let is_one = descriptor as i32 >= 0;
                let found = if is_one { self.look(context, descriptor, view) } else { 0 };
                events.push(found & (wanted | ERR | HUP | NVAL));
            }
            if !context.is_late() && events.iter().all(|&events| events == 0) {
                break;
            }
        }
        for (at, &events) in places.zip(&events) {
            context.memory.write(at.wrapping_add(6), &(events as u16).to_le_bytes())?;
        }
        match events.iter().filter(|&&events| events != 0).count() {
            0 => context.wait_ns(timeout),
            ready => Ok(ready as u64),
        }
    }

    /// `pselect6`.
    pub(super) fn select(&mut self, context: &mut Context<'_>) -> Result {
        let [count, sets @ .., timeout, _] = context.args();
        let timeout = context.read_timeout(timeout)?;
        if (count as i32) < 0 {
            return Err(Errno::INVAL);
        }
        // There are no descriptors above.
        let count = u64::from(count as u32).min(MOST_FILES as u64);
        let bytes = count.div_ceil(64) * 8;
        let mut asked = Vec::new();
        for (set, wanted) in sets.into_iter().zip([IN | HUP | ERR, OUT | ERR, 0]) {
            let mut bits = vec![0; bytes as usize];
            if set != 0 {
                context.memory.read(set, &mut bits)?;
                asked.push((set, wanted, bits));
            }
        }
        let (mut ready, mut results) = (0, Vec::new());
        for view in context.views().iter().copied() {
            (ready, results) = (0, asked.clone());
            for (_, wanted, bits) in &mut results {
                ready += self.select_of(context, (count as u32, view), *wanted, bits)?;
            }
            if !context.is_late() && ready == 0 {
                break;
            }
        }
        // Sets keep what is wanted until the call is over.
        let outcome = if ready > 0 { ready } else { context.wait_ns(timeout)? };
        for (set, _, bits) in results {
            context.memory.write(set, &bits)?;
        }
        Ok(outcome)
    }

    /// Leaves those descriptors in a set that have one of the wanted events; returns their number. One that stands for
    /// nothing is refused, or has every event if the call has been waiting.
    fn select_of(
        &mut self,
        context: &mut Context<'_>,
        (count, view): (u32, View),
        wanted: u32,
        bits: &mut [u8],
    ) -> Result {
        let mut ready = 0;
        // Bits behind the last descriptor are not asked for.
        for descriptor in count..8 * bits.len() as u32 {
            bits[(descriptor / 8) as usize] &= !(1 << (descriptor % 8));
        }
        for descriptor in 0..count {
            let (byte, bit) = ((descriptor / 8) as usize, 1u8 << (descriptor % 8));
            if bits[byte] & bit == 0 {
                continue;
            }
            let found = self.look(context, descriptor, view);
            if found == NVAL && view == View::Begun {
                return Err(Errno::BADF);
            }
            let is_ready = found & (wanted | NVAL) != 0;
            bits[byte] &= if is_ready { u8::MAX } else { !bit };
            ready += u64::from(is_ready);
        }
        Ok(ready)
    }
}

/// Which open files a call looks at that waits for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// Those that its descriptors stood for when it began.
    Begun,
    /// Those that they stand for now.
    Now,
}

impl Context<'_> {
    /// The open files that a call looks at, one after the other as long as there is something to see: when it begins,
    /// all are the same.
    fn views(&self) -> &'static [View] {
        if self.held.is_empty() { &[View::Begun] } else { &[View::Begun, View::Now] }
    }

    /// Whether the time is over for which the call waits.
    fn is_late(&mut self) -> bool {
        self.deadline.is_some_and(|until| until <= self.host.now_ns())
    }

    /// Nothing is ready: waits until something is, or for the time at an address, of which 0 is none.
    pub(in crate::kernel) fn wait_for(&mut self, timeout: u64) -> Result {
        let timeout = self.read_timeout(timeout)?;
        self.wait_ns(timeout)
    }

    /// The time at an address, of which 0 is none.
    fn read_timeout(&mut self, timeout: u64) -> Result<Option<u64>> {
        if timeout == 0 { Ok(None) } else { self.read_time(timeout).map(Some) }
    }

    /// The same for so many nanoseconds; for ever with `None`.
    pub(super) fn wait_ns(&mut self, timeout: Option<u64>) -> Result {
        let now = self.host.now_ns();
        let until = self.deadline.or(timeout.map(|timeout| now.saturating_add(timeout)));
        match until {
            Some(until) if until <= now => Ok(0),
            _ => Err(self.block(until)),
        }
    }
}
