//! Waiting for several files at once: `ppoll` and `pselect6`.

use super::table::{Open, OpenFile};
use super::{Context, Errno, Files, Result, Way};

pub(super) const IN: u32 = 1;
pub(super) const OUT: u32 = 4;
pub(super) const ERR: u32 = 8;
pub(super) const HUP: u32 = 0x10;
const NVAL: u32 = 0x20;
pub(super) const NORMAL_IN: u32 = 0x40;
pub(super) const NORMAL_OUT: u32 = 0x100;
pub(super) const READ_HUP: u32 = 0x2000;

/// Descriptors of one call, at most.
const MOST: u64 = 1024;

impl Files {
    /// Events of a descriptor that are there now.
    pub(super) fn ready(&mut self, descriptor: u64) -> Result<u32> {
        let able = |reads: bool, writes: bool| {
            let reading = if reads { IN | NORMAL_IN } else { 0 };
            let writing = if writes { OUT | NORMAL_OUT } else { 0 };
            reading | writing
        };
        let file = self.table.file(descriptor)?;
        let (reads, writes) = (file.permits(Way::Read), file.permits(Way::Write));
        let OpenFile { open, .. } = file;
        Ok(match open {
            Open::Input => able(true, false),
            Open::Output(_) => able(false, true),
            Open::Event { count, .. } => able(*count > 0, *count < u64::MAX - 1),
            Open::Timer(timer) => able(timer.is_readable(), false),
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
            Open::Epoll(_) => able(self.has_events(descriptor)?, false),
            _ => able(true, true),
        })
    }

    /// `ppoll`.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Result {
        const BYTES: u64 = 8;
        let [list, count, timeout, ..] = context.args();
        if count > MOST {
            return Err(Errno::INVAL);
        }
        let mut ready = 0;
        for index in 0..count {
            let at = list.wrapping_add(BYTES * index);
            let word = context.read_u64(at)?;
            let (descriptor, wanted) = (word as u32 as i32, (word >> 32) as u32 & 0xffff);
            let found = match descriptor {
                0.. => self.ready(descriptor as u64).unwrap_or(NVAL),
                _ => 0,
            };
            let events = found & (wanted | ERR | HUP | NVAL);
            context.memory.write(at.wrapping_add(6), &(events as u16).to_le_bytes())?;
            ready += u64::from(events != 0);
        }
        if ready > 0 { Ok(ready) } else { context.wait_for(timeout) }
    }

    /// `pselect6`.
    pub(super) fn select(&mut self, context: &mut Context<'_>) -> Result {
        let [count, sets @ .., timeout, _] = context.args();
        if count > MOST {
            return Err(Errno::INVAL);
        }
        let bytes = count.div_ceil(64) * 8;
        let wanted = [IN | HUP | ERR, OUT | ERR, 0];
        let (mut ready, mut results) = (0, Vec::new());
        for (set, wanted) in sets.into_iter().zip(wanted) {
            if set == 0 {
                continue;
            }
            let mut bits = vec![0; bytes as usize];
            context.memory.read(set, &mut bits)?;
            for descriptor in 0..count {
                let (byte, bit) = ((descriptor / 8) as usize, 1u8 << (descriptor % 8));
                if bits[byte] & bit != 0 {
                    let is_ready = self.ready(descriptor)? & wanted != 0;
                    bits[byte] &= if is_ready { u8::MAX } else { !bit };
                    ready += u64::from(is_ready);
                }
            }
            results.push((set, bits));
        }
        // Sets keep what is wanted until the call is over.
        let outcome = if ready > 0 { ready } else { context.wait_for(timeout)? };
        for (set, bits) in results {
            context.memory.write(set, &bits)?;
        }
        Ok(outcome)
    }
}

impl Context<'_> {
    /// Nothing is ready: waits until something is, or for the time at an address, of which 0 is none.
    pub(in crate::kernel) fn wait_for(&mut self, timeout: u64) -> Result {
        let timeout = if timeout == 0 { None } else { Some(self.read_time(timeout)?) };
        self.wait_ns(timeout)
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
