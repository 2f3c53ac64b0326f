//! Scheduling: policies, priorities and cores of threads. They are kept for programs that ask, and change nothing:
//! threads have the cores in the order of their numbers.

use serde::{Deserialize, Serialize};

use super::threads::{PROCESS, Thread, Threads};
use super::{Context, Errno, Result, number};
use crate::stack::USER;

const OTHER: u32 = 0;
const FIFO: u32 = 1;
const ROUND_ROBIN: u32 = 2;
const BATCH: u32 = 3;
const IDLE: u32 = 5;
const DEADLINE: u32 = 6;

/// A flag beside the policy.
const RESET_ON_FORK: u32 = 0x4000_0000;

/// The highest priority of a real-time policy.
const HIGHEST: u32 = 99;

/// Words of a set of cores.
const WORDS: usize = 16;

/// Scheduling of a thread.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Priorities {
    /// -20 to 19.
    nice: i8,
    policy: u32,
    /// The cores that the program has chosen; `None` for all.
    cores: Option<[u64; WORDS]>,
    /// Threads that this one makes do not have its real-time policy.
    #[serde(default)]
    resets: bool,
}

impl Priorities {
    /// Those of a new thread, from the one that makes it: users have no real-time policies to be reset.
    pub(super) const fn fork(&mut self) {
        self.resets = false;
    }
}

impl Threads {
    pub(super) fn scheduling_call(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
    ) -> Option<Result> {
        let [a0, a1, a2, ..] = context.args();
        let hart = context.hart;
        Some(match number {
            number::GETPRIORITY => self.priority(hart, a0, a1),
            number::SETPRIORITY => self.set_priority(hart, (a0, a1), a2),
            number::SCHED_GETSCHEDULER if (a0 as i32) < 0 => Err(Errno::INVAL),
            number::SCHED_GETSCHEDULER => {
                let Priorities { policy, resets, .. } = match self.find(hart, a0) {
                    Ok(thread) => thread.traits.priorities,
                    Err(errno) => return Some(Err(errno)),
                };
                Ok((policy | if resets { RESET_ON_FORK } else { 0 }).into())
            }
            number::SCHED_SETSCHEDULER if (a1 as i32) < 0 => Err(Errno::INVAL),
            number::SCHED_SETSCHEDULER => self.set_policy(context, (a0, Some(a1 as u32), a2)),
            number::SCHED_SETPARAM => self.set_policy(context, (a0, None, a1)),
            number::SCHED_GETPARAM if a1 == 0 || (a0 as i32) < 0 => Err(Errno::INVAL),
            number::SCHED_GETPARAM => {
                let found = self.find(hart, a0).map(|_| ());
                found.and_then(|()| Ok(context.memory.write(a1, &[0; 4]).map(|()| 0)?))
            }
            number::SCHED_GET_PRIORITY_MAX => highest(a0 as u32),
            number::SCHED_GET_PRIORITY_MIN => highest(a0 as u32).map(|highest| highest.min(1)),
            number::SCHED_SETAFFINITY => self.choose_cores(context),
            number::SCHED_GETAFFINITY => self.cores(context),
            _ => return None,
        })
    }

    /// Threads that the arguments of `getpriority` mean: one, those of the process, or those of the user.
    fn meant(&mut self, hart: usize, which: u64, who: u64) -> Result<Vec<&mut Thread>> {
        const ONE: u32 = 0;
        const GROUP: u32 = 1;
        const ALL_OF_USER: u32 = 2;
        let who = u64::from(who as u32);
        match which as u32 {
            ONE => Ok(vec![self.find(hart, who)?]),
            GROUP if who == 0 || who == PROCESS => Ok(self.all_mut().collect()),
            ALL_OF_USER if who == 0 || who == USER => Ok(self.all_mut().collect()),
            GROUP | ALL_OF_USER => Err(Errno::SRCH),
            _ => Err(Errno::INVAL),
        }
    }

    /// `getpriority`: 20 less the nice value, so that no result looks like an error.
    fn priority(&mut self, hart: usize, which: u64, who: u64) -> Result {
        let meant = self.meant(hart, which, who)?;
        let nice = meant.iter().map(|thread| thread.traits.priorities.nice).min();
        Ok((20 - i64::from(nice.unwrap_or(0))) as u64)
    }

    fn set_priority(&mut self, hart: usize, (which, who): (u64, u64), nice: u64) -> Result {
        let nice = (nice as i32).clamp(-20, 19) as i8;
        let mut result = Ok(0);
        for thread in self.meant(hart, which, who)? {
            let priorities = &mut thread.traits.priorities;
            // Users have no right to a lower value.
            if nice < priorities.nice {
                result = Err(Errno::ACCES);
            } else {
                priorities.nice = nice;
            }
        }
        result
    }

    /// `sched_setscheduler`, and without a policy `sched_setparam`.
    fn set_policy(
        &mut self,
        context: &mut Context<'_>,
        (id, policy, from): (u64, Option<u32>, u64),
    ) -> Result {
        if from == 0 || (id as i32) < 0 {
            return Err(Errno::INVAL);
        }
        let priority = context.read_u32(from)?;
        let priorities = &mut self.find(context.hart, id)?.traits.priorities;
        let resets = policy.map_or(priorities.resets, |policy| policy & RESET_ON_FORK != 0);
        let policy = policy.map_or(priorities.policy, |policy| policy & !RESET_ON_FORK);
        let is_allowed = match policy {
            OTHER | BATCH | IDLE => priority == 0,
            FIFO | ROUND_ROBIN => (1..=HIGHEST).contains(&priority),
            _ => false,
        };
        if !is_allowed {
            return Err(Errno::INVAL);
        }
        // Users have no right to a real-time policy, nor to take the flag away.
        if policy == FIFO || policy == ROUND_ROBIN || priorities.resets && !resets {
            return Err(Errno::PERM);
        }
        (priorities.policy, priorities.resets) = (policy, resets);
        Ok(0)
    }

    fn choose_cores(&mut self, context: &mut Context<'_>) -> Result {
        let [id, size, from, ..] = context.args();
        let mut bytes = [0; 8 * WORDS];
        let size = (size as u32 as usize).min(bytes.len());
        context.memory.read(from, &mut bytes[..size])?;
        let mut chosen = all_cores(context);
        for (word, bytes) in chosen.iter_mut().zip(bytes.chunks_exact(8)) {
            *word &= u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let thread = self.find(context.hart, id)?;
        if chosen == [0; WORDS] {
            return Err(Errno::INVAL);
        }
        thread.traits.priorities.cores = Some(chosen);
        Ok(0)
    }

    /// `sched_getaffinity`: one bit per core; returns the bytes that were written.
    fn cores(&mut self, context: &mut Context<'_>) -> Result {
        let [id, size, to, ..] = context.args();
        let words = context.host.harts().div_ceil(64).min(WORDS);
        let bytes = words as u64 * 8;
        if size < bytes || size % 8 != 0 {
            return Err(Errno::INVAL);
        }
        let chosen = self.find(context.hart, id)?.traits.priorities.cores;
        let cores = chosen.unwrap_or_else(|| all_cores(context));
        context.write_words(to, &cores[..words])?;
        Ok(bytes)
    }
}

/// The cores of the machine.
fn all_cores(context: &Context<'_>) -> [u64; WORDS] {
    let harts = context.host.harts();
    std::array::from_fn(|word| match harts.saturating_sub(word * 64) {
        64.. => u64::MAX,
        rest => (1 << rest) - 1,
    })
}

/// The highest priority of a policy.
fn highest(policy: u32) -> Result {
    match policy {
        FIFO | ROUND_ROBIN => Ok(HIGHEST.into()),
        OTHER | BATCH | IDLE | DEADLINE => Ok(0),
        _ => Err(Errno::INVAL),
    }
}
