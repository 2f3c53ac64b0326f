//! Limits of resources: `prlimit64`. That of descriptors has an effect; the others are kept for programs that ask.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Context, Errno, Kernel, Result, number};

const STACK: u32 = 3;
const FILES: u32 = 7;
const NICE: u32 = 13;
const REAL_TIME: u32 = 14;

/// Resources that Linux has limits for.
const RESOURCES: u32 = 16;

/// No limit.
const NONE: u64 = u64::MAX;

/// A limit, and how far the program may raise it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Limit {
    now: u64,
    most: u64,
}

/// The limits that the program has set, by resource.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Limits {
    set: BTreeMap<u32, Limit>,
}

impl Limits {
    /// That of a resource, where the first thread has a stack of so many bytes.
    fn get(&self, resource: u32, stack_bytes: u64) -> Limit {
        let initial = match resource {
            STACK if stack_bytes > 0 => Limit { now: stack_bytes, most: NONE },
            STACK => Limit { now: 8 << 20, most: NONE },
            FILES => Limit { now: 1024, most: 1024 },
            NICE | REAL_TIME => Limit { now: 0, most: 0 },
            _ => Limit { now: NONE, most: NONE },
        };
        self.set.get(&resource).copied().unwrap_or(initial)
    }

    fn change(&mut self, resource: u32, before: Limit, limit: Limit) -> Result<()> {
        if limit.now > limit.most {
            return Err(Errno::INVAL);
        }
        if limit.most > before.most {
            return Err(Errno::PERM);
        }
        self.set.insert(resource, limit);
        Ok(())
    }
}

impl Kernel {
    pub(super) fn limit_call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, a3, ..] = context.args();
        Some(match number {
            number::GETRLIMIT => self.limit(context, (0, a0), 0, a1),
            number::SETRLIMIT if a1 == 0 => Err(Errno::FAULT),
            number::SETRLIMIT => self.limit(context, (0, a0), a1, 0),
            number::PRLIMIT64 => self.limit(context, (a0, a1), a2, a3),
            _ => return None,
        })
    }

    /// Sets a limit to that at `new`, and writes the one of before to `old`; 0 stands for neither.
    fn limit(
        &mut self,
        context: &mut Context<'_>,
        (id, resource): (u64, u64),
        new: u64,
        old: u64,
    ) -> Result {
        let asked = match new {
            0 => None,
            _ => Some(Limit {
                now: context.read_u64(new)?,
                most: context.read_u64(new.wrapping_add(8))?,
            }),
        };
        self.threads.find(context.hart, id)?;
        let resource = resource as u32;
        if resource >= RESOURCES {
            return Err(Errno::INVAL);
        }
        let before = self.limits.get(resource, self.program.stack_bytes);
        if let Some(limit) = asked {
            self.limits.change(resource, before, limit)?;
            if resource == FILES {
                self.files.limit_descriptors(limit.now);
            }
        }
        if old != 0 {
            context.write_words(old, &[before.now, before.most])?;
        }
        Ok(0)
    }
}
