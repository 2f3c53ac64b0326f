//! Keeps a borrowing whole: a thread that hears its lenders, and carries out the jobs of [`crate::store::replicas`].
//!
//! | what happens | what is done |
//! |---|---|
//! | a lender of this host hangs up | its copy is lost, and made anew of other lenders |
//! | a connection over the network breaks | another takes its place, unless the lender has the lease no more |
//! | a lender leaves | the copy is made anew of other lenders, and then given back |
//! | a copy is away | its lender is asked again and again; after [`REPLACE_AFTER`] others are, too |
//!
//! The thread belongs to the process that borrowed. A child of fork has none: it has the copies that it was born with.

mod jobs;
mod line;
mod places;

use rackmem_fabric::descriptors;
use rackmem_fabric::error::Error as Plain;
use rackmem_fabric::net::SILENCE;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rackmem_fabric::socket::timespec;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use self::line::Line;
pub(super) use self::places::Places;
use self::places::lock;
use super::claim::give_back;
use super::driver::{Driver, Terms};
use crate::error::{Error, Result};
use crate::store::mirror::{Synchroniser, Tell};
use crate::store::replicas::MAX_MEMBERS;
use crate::store::window::Window;
use crate::store::{MirrorStore, Store};
use rackmem_fabric::net::socket::without_signals;

/// A copy that was away for so long is replaced, if there is another lender.
pub const REPLACE_AFTER: Duration = Duration::from_secs(5);

/// Time between two attempts to reach a lender.
const RETRY: Duration = Duration::from_millis(200);

/// Time between two requests for memory in place of a copy that is lost, away or leaves.
const LEASE_RETRY: Duration = Duration::from_secs(1);

/// Time after which the keeper stops copying to listen again.
const TURN: Duration = Duration::from_millis(20);

/// Longest time that writers are kept out while the last pages are copied.
const CLOSED: Duration = Duration::from_millis(100);

/// A running keeper.
pub(super) struct Keeper {
    stop: OwnedFd,
    thread: Option<JoinHandle<Vec<Line>>>,
    places: Arc<Mutex<Places>>,
}

impl Keeper {
    /// Keeps the copies that a driver has borrowed, the members of `store` in their order.
    ///
    /// # Errors
    /// The kernel has no descriptor or thread.
    pub fn start(
        mut driver: Driver,
        terms: Terms,
        store: &MirrorStore,
        tell: Tell,
    ) -> Result<Keeper> {
        let event = || {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            descriptors::beyond_limit(|| eventfd(0, flags))
                .map(descriptors::own)
                .map_err(|error| Error::io("cannot make an eventfd", error))
        };
        let again = |fd: &OwnedFd| {
            descriptors::again(fd).map_err(|error| Error::io("cannot make an eventfd", error))
        };
        let (stop, alarm) = (event()?, event()?);
        store.set_alarm(again(&alarm)?);
        let lines = line::lines(&mut driver, 0);
        let window = store.mapped().map(|_| driver.window().clone());
        let copies = driver.books.maps.len();
        let mut places = Places { drivers: vec![driver], ..Places::default() };
        for copy in 0..copies {
            places.members[copy] = Some((0, copy));
        }
        let places = Arc::new(Mutex::new(places));
        let work = Work {
            stop: again(&stop)?,
            alarm,
            places: places.clone(),
            lines,
            store: store.clone(),
            terms,
            window,
            tell,
            synchroniser: None,
            away: [None; MAX_MEMBERS],
            lease_at: Instant::now(),
            is_refused: false,
        };
        let thread = without_signals(|| {
            let thread = std::thread::Builder::new().name("rackmem-leases".to_owned());
            thread.spawn(move || work.run())
        });
        let thread = thread.map_err(|error| Error::io("cannot start a thread", error))?;
        Ok(Keeper { stop, thread: Some(thread), places })
    }

    /// Locks the table of drivers and copies.
    pub fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.places)
    }

    /// Locks the table of drivers and copies, unless somebody else holds it.
    pub fn try_places(&self) -> Option<MutexGuard<'_, Places>> {
        self.places.try_lock().ok()
    }

    /// Stops, once it has carried out the job that it is at, and gives everything back.
    pub fn release(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        let lines = thread.join().unwrap_or_default();
        let mut places = lock(&self.places);
        let deadline = Instant::now() + SILENCE;
        for line in lines {
            let driver = &mut places.drivers[line.driver];
            if line.is_owed && Instant::now() < deadline {
                let claim = driver.claim(line.block);
                let _ =
                    claim.map(|claim| claim.resume().and_then(|link| give_back(link, deadline)));
            } else {
                driver.links[line.block] = line.link;
            }
        }
        places.members = Default::default();
        places.drivers.iter_mut().for_each(|driver| driver.release(deadline));
    }
}

/// State of the keeper's thread.
struct Work {
    stop: OwnedFd,
    alarm: OwnedFd,
    places: Arc<Mutex<Places>>,
    lines: Vec<Line>,
    store: MirrorStore,
    terms: Terms,
    /// Addresses of the only copy, if it is mapped.
    window: Option<Arc<Window>>,
    tell: Tell,
    synchroniser: Option<Synchroniser>,
    /// Since when members are away, and when to look again.
    away: [Option<(Instant, Instant)>; MAX_MEMBERS],
    /// Time of the next request for memory.
    lease_at: Instant,
    /// People know that there is no memory for a further copy.
    is_refused: bool,
}

impl Work {
    fn run(mut self) -> Vec<Line> {
        let mut limit = None;
        loop {
            let Some(ready) = self.wait(limit) else { return self.lines };
            for line in ready {
                self.hear(line);
            }
            self.reconnect();
            self.look_for_losses();
            limit = self.work();
        }
    }

    /// Waits until a lender speaks, something changes, or the time is over; `None`: it is to stop.
    fn wait(&self, limit: Option<Duration>) -> Option<Vec<usize>> {
        let mut fds =
            vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
        let open: Vec<usize> =
            (0..self.lines.len()).filter(|&line| self.lines[line].link.is_some()).collect();
        for link in self.lines.iter().filter_map(|line| line.link.as_ref()) {
            fds.push(PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, limit.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        if !fds[0].revents().is_empty() {
            return None;
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ready = open.into_iter().zip(&fds[2..]).filter(|(_, fd)| is_ready(fd));
        let ready = ready.map(|(line, _)| line).collect();
        drop(fds);
        let _ = rustix::io::read(&self.alarm, &mut [0; 8]);
        Some(ready)
    }

    fn say(&self, text: &str) {
        (self.tell)(text);
    }

    /// Takes out copies whose memory is gone.
    fn look_for_losses(&mut self) {
        for member in 0..MAX_MEMBERS {
            if lock(&self.places).members[member].is_none() {
                continue;
            }
            let error = match self.store.member(member).map(|store| store.check()) {
                Some(Ok(())) => continue,
                Some(Err(error)) => error,
                // A lane has found it out before.
                None => Error::Plain(Plain::Stopped),
            };
            let names = lock(&self.places).names(member);
            self.store.lose(member, &error);
            self.drop_copy(member, "it is lost");
            let why = match error {
                Error::Lost { reason, .. } => format!(" ({reason})"),
                _ => String::new(),
            };
            self.say(&match self.store.check() {
                Ok(()) => format!("{names} is lost{why}: going on with what other lenders have"),
                Err(_) => format!("{names} is lost{why}, and with it the memory that it had lent"),
            });
            self.lease_at = Instant::now();
        }
    }

    /// Lets go of a member's leases.
    fn drop_copy(&mut self, member: usize, reason: &str) {
        let mut places = lock(&self.places);
        let Some((driver, blocks)) = places.blocks(member) else { return };
        places.members[member] = None;
        let held = self.store.keep_from_forking();
        for &block in &blocks {
            places.drivers[driver].books.without(block, reason);
        }
        drop(held);
        drop(places);
        // Children of fork may have the connection still: the lease is theirs then.
        self.lines.retain_mut(|line| {
            let is_meant = line.driver == driver && blocks.contains(&line.block);
            line.is_owed |= is_meant && line.broken.is_some();
            !is_meant || line.is_owed
        });
        self.synchroniser.take_if(|synchroniser| synchroniser.member() == member);
        self.away[member] = None;
    }
}
