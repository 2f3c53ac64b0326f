//! Open files that calls hold while they wait.
//!
//! A call that waits is made again when something has changed. As on Linux it goes on with the open files that it began
//! with: other threads may close their descriptors meanwhile, or have them stand for other files. The files stay open
//! until the call ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Context, Files, Result};
use crate::kernel::saved::{Checked, require};

/// Numbers of the open files of a call, by the descriptors that it names.
pub(in crate::kernel) type Held = BTreeMap<u32, u32>;

/// The open files of calls that wait, by hart.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Holds(BTreeMap<usize, Held>);

impl Holds {
    /// Checks what was read, where `is_open` says which open files there are.
    pub(super) fn check(&self, is_open: impl Fn(u32) -> bool) -> Checked {
        let mut files = self.0.values().flat_map(BTreeMap::values);
        require(files.all(|&file| is_open(file)), || {
            "holds: has a file that is not open".to_owned()
        })
    }

    /// Whether a call holds an open file.
    pub(super) fn has(&self, file: u32) -> bool {
        self.0.values().flat_map(BTreeMap::values).any(|&held| held == file)
    }
}

impl Files {
    /// Checks that harts which hold files have threads.
    pub(in crate::kernel) fn check_holders(&self, has_thread: impl Fn(usize) -> bool) -> Checked {
        let stray = self.table.holds.0.keys().find(|&&hart| !has_thread(hart));
        require(stray.is_none(), || {
            format!("files.table.holds.{}: no thread has this number", stray.unwrap_or(&0))
        })
    }

    /// The number of the open file that a descriptor stands for in a call.
    pub(super) fn meant(&mut self, context: &Context<'_>, descriptor: u64) -> Result<u32> {
        match context.held.get(&(descriptor as u32)) {
            Some(&file) => Ok(file),
            None => self.table.content_number(descriptor),
        }
    }

    /// The same. The call keeps to it if it waits.
    pub(super) fn named(&mut self, context: &mut Context<'_>, descriptor: u64) -> Result<u32> {
        let file = self.meant(context, descriptor)?;
        context.held.insert(descriptor as u32, file);
        Ok(file)
    }

    /// The open files that a hart's call holds, which is made again.
    pub(in crate::kernel) fn held(&self, hart: usize) -> Held {
        self.table.holds.0.get(&hart).cloned().unwrap_or_default()
    }

    /// A hart's call waits, with these open files.
    pub(in crate::kernel) fn hold(&mut self, hart: usize, held: Held) {
        if !held.is_empty() {
            self.table.holds.0.insert(hart, held);
        }
    }

    /// A hart's call does not wait any more. Returns whether other threads may see a difference, as files are closed
    /// that only the call has held.
    pub(in crate::kernel) fn let_go(&mut self, hart: usize) -> bool {
        let held = self.table.holds.0.remove(&hart).unwrap_or_default();
        let mut has_changed = false;
        for file in held.into_values() {
            let pipe = self.table.pipe_of(file);
            if self.table.release(file) {
                self.note_end_of(pipe);
                has_changed = true;
            }
        }
        self.note_sockets() || has_changed
    }
}
