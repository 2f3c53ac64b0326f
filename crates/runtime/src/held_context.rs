//! A context of a run over several hosts: on each host it lives as long as a process of the run holds it.
//!
//! The hosts agree on number and incarnation before; on each, whoever comes first makes the context. Holders share a
//! lock (flock) on a file beside the context's file. The last one can make the lock exclusive, and removes the context.
//! The lock of a context whose holders were killed is free; the next holder removes that context.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::rack::{Rack, check_ctx_id};

/// Permissions of the context's file: only the user of the run may join.
const MODE: u32 = 0o600;

/// Time to wait for another holder that is just making or removing the context.
const TURN: Duration = Duration::from_secs(10);

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// A context that is there until this value and those of other processes are dropped.
#[derive(Debug)]
pub struct HeldContext {
    rack: Rack,
    ctx_id: u16,
    lock: File,
}

impl HeldContext {
    /// Makes the context, or holds the one that another process of the run has made.
    ///
    /// # Errors
    /// A context with this number and another incarnation is there, or the file system refuses.
    pub fn hold(rack: &Rack, ctx_id: u16, incarnation: u64) -> Result<HeldContext> {
        check_ctx_id(ctx_id)?;
        sweep(rack);
        let deadline = Instant::now() + TURN;
        loop {
            let held = match make(rack, ctx_id, incarnation) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    join(rack, ctx_id, incarnation)
                }
                made => made.map(Some),
            };
            match held.map_err(|error| refusal(rack, ctx_id, error))? {
                Some(held) => return Ok(held),
                None if Instant::now() >= deadline => {
                    return Err(refusal(rack, ctx_id, io::ErrorKind::TimedOut.into()));
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Number of the context in its rack.
    pub fn ctx_id(&self) -> u16 {
        self.ctx_id
    }
}

fn refusal(rack: &Rack, ctx_id: u16, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::new(
            libc::EEXIST,
            format!(
                "context {ctx_id} of rack '{}' on this host belongs to something else",
                rack.name()
            ),
        ),
        _ => rack.cannot_create(ctx_id, error),
    }
}

fn make(rack: &Rack, ctx_id: u16, incarnation: u64) -> io::Result<HeldContext> {
    let lock = rack.link_context(ctx_id, MODE, incarnation, |inode| {
        // That of an earlier context with this inode, whose last holder was killed while it removed it.
        let _ = fs::remove_file(rack.run_path(inode));
        let lock = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(rack.run_path(inode))?;
        flock(&lock, FlockOperation::NonBlockingLockShared)?;
        Ok(lock)
    })?;
    Ok(HeldContext { rack: rack.clone(), ctx_id, lock })
}

/// Removes what killed holders have left of other runs.
fn sweep(rack: &Rack) {
    for ctx_id in rack.contexts() {
        // The context is open until the lock is, so no other file gets its inode.
        let Ok(context) = File::open(rack.context_path(ctx_id)) else { continue };
        let Ok(inode) = context.metadata().map(|context| context.ino()) else { continue };
        let Ok(lock) = File::open(rack.run_path(inode)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(rack, ctx_id, &lock);
        }
    }
}

/// Holds the context that is there; `None`: it has just gone, or is going.
fn join(rack: &Rack, ctx_id: u16, incarnation: u64) -> io::Result<Option<HeldContext>> {
    // While it is open, no other file gets its inode.
    let Some(context) = unless_missing(File::open(rack.context_path(ctx_id)))? else {
        return Ok(None);
    };
    let inode = context.metadata()?.ino();
    let is_there = || -> io::Result<bool> {
        let found = unless_missing(fs::metadata(rack.context_path(ctx_id)))?;
        Ok(found.is_some_and(|found| found.ino() == inode))
    };
    let of_something_else = || Err(io::ErrorKind::AlreadyExists.into());
    let Some(lock) = unless_missing(File::open(rack.run_path(inode)))? else {
        return if is_there()? { of_something_else() } else { Ok(None) };
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // Its holders were killed.
        remove(rack, ctx_id, &lock);
        return Ok(None);
    }
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        other => other?,
    }
    match (is_there()?, rack.incarnation(inode) == incarnation) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(HeldContext { rack: rack.clone(), ctx_id, lock })),
        (true, false) => of_something_else(),
    }
}

fn unless_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Removes a context whose lock we have alone. The lock's file goes with the context, so as long as it has a name the
/// context's file is the one that it stands beside.
fn remove(rack: &Rack, ctx_id: u16, lock: &File) {
    if lock.metadata().is_ok_and(|lock| lock.nlink() > 0) {
        let _ = rack.remove_context(ctx_id);
    }
}

impl Drop for HeldContext {
    fn drop(&mut self) {
        // Of several that try at once, the last to give its share up succeeds.
        if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&self.rack, self.ctx_id, &self.lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rack(dir: &tempfile::TempDir) -> Rack {
        Rack::in_directory(dir.path(), "r")
    }

    #[test]
    fn the_last_holder_removes_it() {
        let dir = tempfile::tempdir().unwrap();
        let rack = rack(&dir);
        let first = HeldContext::hold(&rack, 5, 77).unwrap();
        let second = HeldContext::hold(&rack, 5, 77).unwrap();
        drop(first);
        assert_eq!(rack.contexts(), [5]);
        let third = HeldContext::hold(&rack, 5, 77).unwrap();
        drop(second);
        assert_eq!(rack.contexts(), [5]);
        drop(third);
        assert_eq!(rack.left_in_contexts(), 0);
    }

    #[test]
    fn a_context_of_something_else_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let rack = rack(&dir);
        rack.create_context(5, 0o600).unwrap();
        let error = HeldContext::hold(&rack, 5, 77).unwrap_err();
        assert_eq!(error.errno(), libc::EEXIST, "{error}");
        let other = HeldContext::hold(&rack, 6, 1).unwrap();
        assert_eq!(HeldContext::hold(&rack, 6, 2).unwrap_err().errno(), libc::EEXIST);
        drop(other);
        assert_eq!(rack.contexts(), [5]);
        assert!(
            HeldContext::hold(&rack, MAX, 77).unwrap_err().to_string().contains("out of range")
        );
    }

    const MAX: u16 = rackmem_rmc::MAX_CONTEXTS as u16;

    #[test]
    fn what_killed_holders_have_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let rack = rack(&dir);
        let killed = HeldContext::hold(&rack, 5, 1).unwrap();
        flock(&killed.lock, FlockOperation::Unlock).unwrap();
        let next = HeldContext::hold(&rack, 6, 2).unwrap();
        assert_eq!(rack.contexts(), [6]);
        drop(next);
        let next = HeldContext::hold(&rack, 5, 2).unwrap();
        // The one that was thought dead finds its context gone, and leaves the new one alone.
        drop(killed);
        assert_eq!(rack.contexts(), [5]);
        drop(next);
        assert_eq!(rack.left_in_contexts(), 0);
    }

    #[test]
    fn many_holders_come_and_go_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let rack = rack(&dir);
        let hold = || {
            for _ in 0..100 {
                let held = HeldContext::hold(&rack, 5, 77).unwrap();
                assert!(rack.context_path(held.ctx_id()).exists());
            }
        };
        std::thread::scope(|threads| (0..4).for_each(|_| _ = threads.spawn(hold)));
        assert_eq!(rack.left_in_contexts(), 0);
    }
}
