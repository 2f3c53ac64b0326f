//! Futexes: harts that wait until another one has changed a word.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::saved::{Checked, require};
use super::{Context, Effect, Errno, Kernel, Result};

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;

/// Mask of the operation without `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
const COMMAND: u64 = 0x7f;
const CLOCK_REALTIME: u64 = 0x100;

const ANY: u32 = u32::MAX;

#[derive(Serialize, Deserialize)]
struct Waiter {
    hart: usize,
    address: u64,
    bits: u32,
}

/// Harts that wait, the longest waiting first.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Futexes {
    waiters: Vec<Waiter>,
}

impl Futexes {
    /// Checks what was read: each waiter has a thread, and waits once.
    pub(super) fn check(&self, has_thread: impl Fn(usize) -> bool) -> Checked {
        let mut seen = BTreeSet::new();
        for (at, Waiter { hart, .. }) in self.waiters.iter().enumerate() {
            require(has_thread(*hart) && seen.insert(*hart), || {
                format!(
                    "futexes.waiters[{at}].hart: no thread {hart} is there that waits only once"
                )
            })?;
        }
        Ok(())
    }

    /// Ends the waiting of a hart; `false` if it does not wait here.
    pub(super) fn remove(&mut self, hart: usize) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.hart != hart);
        self.waiters.len() < before
    }

    /// Takes up to `count` harts out that wait at `address` for one of `bits`.
    pub(super) fn wake(&mut self, address: u64, count: u64, bits: u32) -> Vec<usize> {
        let mut woken = Vec::new();
        self.waiters.retain(|waiter| {
            let chosen = waiter.address == address
                && waiter.bits & bits != 0
                && (woken.len() as u64) < count;
            if chosen {
                woken.push(waiter.hart);
            }
            !chosen
        });
        woken
    }

    /// Moves up to `count` waiters from `from` to `to`; returns their number.
    fn requeue(&mut self, from: u64, to: u64, count: u64) -> u64 {
        let mut moved = 0;
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.address == from) {
            if moved == count {
                break;
            }
            waiter.address = to;
            moved += 1;
        }
        moved
    }
}

/// A count of harts; negative ones of C programs mean one, as in Linux.
fn count(argument: u64) -> u64 {
    (argument as i32).max(1) as u64
}

impl Kernel {
    pub(super) fn futex(&mut self, context: &mut Context<'_>) -> Result<(u64, Effect)> {
        let [address, operation, value, timeout, second, third] = context.args();
        if address % 4 != 0 {
            return Err(Errno::INVAL);
        }
        let command = operation & COMMAND;
        if operation & CLOCK_REALTIME != 0 && command != WAIT_BITSET {
            return Err(Errno::NOSYS);
        }
        if matches!(command, WAIT_BITSET | WAKE_BITSET) && third as u32 == 0 {
            return Err(Errno::INVAL);
        }
        let woken = match command {
            WAIT => return self.wait(context, ANY, false),
            WAIT_BITSET => return self.wait(context, third as u32, true),
            WAKE => self.wake(context, address, count(value), ANY),
            WAKE_BITSET => self.wake(context, address, count(value), third as u32),
            REQUEUE | CMP_REQUEUE => {
                if (value as i32) < 0 || (timeout as i32) < 0 || second % 4 != 0 {
                    return Err(Errno::INVAL);
                }
                if command == CMP_REQUEUE && context.read_u32(address)? != third as u32 {
                    return Err(Errno::AGAIN);
                }
                // `timeout` is the number of harts to move.
                let woken = self.wake(context, address, (value as i32).max(0) as u64, ANY);
                woken + self.futexes.requeue(address, second, (timeout as i32).max(0) as u64)
            }
            WAKE_OP => self.wake_op(context)?,
            _ => return Err(Errno::NOSYS),
        };
        Ok((woken, Effect::Return))
    }

    fn wake(&mut self, context: &mut Context<'_>, address: u64, count: u64, bits: u32) -> u64 {
        let woken = self.futexes.wake(address, count, bits);
        let number = woken.len() as u64;
        context.woken.extend(woken);
        number
    }

    fn wait(
        &mut self,
        context: &mut Context<'_>,
        bits: u32,
        is_absolute: bool,
    ) -> Result<(u64, Effect)> {
        let [address, operation, expected, timeout, ..] = context.args();
        let until_ns = match timeout {
            0 => None,
            _ => {
                let time = context.read_time(timeout)?;
                let now = context.host.now_ns();
                Some(match (is_absolute, operation & CLOCK_REALTIME != 0) {
                    (true, true) => time.saturating_sub(super::misc::EPOCH_NS),
                    (true, false) => time,
                    (false, _) => now.saturating_add(time),
                })
            }
        };
        if context.read_u32(address)? != expected as u32 {
            return Err(Errno::AGAIN);
        }
        self.futexes.waiters.push(Waiter { hart: context.hart, address, bits });
        Ok((0, Effect::Sleep { until_ns }))
    }

    /// Changes a second word, wakes at the first one, and at the second if its old value passes a
    /// comparison (`FUTEX_WAKE_OP`).
    fn wake_op(&mut self, context: &mut Context<'_>) -> Result {
        let [address, _, value, value2, second, encoded] = context.args();
        let encoded = encoded as u32;
        let sign_extended = |bits: u32| (bits << 20) as i32 >> 20;
        let (operand, comparand) =
            (sign_extended(encoded >> 12 & 0xfff), sign_extended(encoded & 0xfff));
        let operand = if encoded >> 31 == 1 { 1 << (operand & 31) } else { operand };
        let old = context.read_u32(second)? as i32;
        let new = match encoded >> 28 & 7 {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return Err(Errno::NOSYS),
        };
        context.memory.write(second, &new.to_le_bytes())?;
        let passes = match encoded >> 24 & 15 {
            0 => old == comparand,
            1 => old != comparand,
            2 => old < comparand,
            3 => old <= comparand,
            4 => old > comparand,
            5 => old >= comparand,
            _ => return Err(Errno::NOSYS),
        };
        let mut woken = self.wake(context, address, count(value), ANY);
        if passes {
            woken += self.wake(context, second, count(value2), ANY);
        }
        Ok(woken)
    }
}
