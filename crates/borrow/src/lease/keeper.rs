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

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::ANSWER;
use super::driver::{Driver, Terms};
use super::messages::{Reply, Request};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::net::link::Link;
use crate::net::socket::{is_refused, timespec, without_signals};
use crate::store::mirror::{Progress, Synchroniser, Tell};
use crate::store::replicas::{Job, MAX_MEMBERS};
use crate::store::window::Window;
use crate::store::{MirrorStore, Store};

/// A copy that was away for so long is replaced, if there is another lender.
pub const REPLACE_AFTER: Duration = Duration::from_secs(5);

/// Time between two attempts to reach a lender.
const RETRY: Duration = Duration::from_millis(200);

/// Time between two requests for memory in place of a copy that is lost, away or leaves.
const LEASE_RETRY: Duration = Duration::from_secs(1);

/// How long the keeper copies before it listens again.
const TURN: Duration = Duration::from_millis(20);

/// How long writers are kept out while the last pages are copied.
const CLOSED: Duration = Duration::from_millis(100);

/// What was borrowed, for the keeper and for those who ask.
#[derive(Default)]
pub(super) struct Places {
    pub drivers: Vec<Driver>,
    /// By member: the driver that borrowed it, and which of its copies it is.
    pub members: [Option<(usize, usize)>; MAX_MEMBERS],
}

impl Places {
    /// The blocks of a member: driver and numbers.
    fn blocks(&self, member: usize) -> Option<(usize, Vec<usize>)> {
        let (driver, copy) = self.members[member]?;
        let blocks = self.drivers[driver].books.borrowing.blocks();
        let of_copy = |&number: &usize| blocks[number].copy as usize == copy;
        Some((driver, (0..blocks.len()).filter(of_copy).collect()))
    }

    fn member_of(&self, line: &Line) -> Option<usize> {
        let copy = self.drivers[line.driver].books.borrowing.blocks()[line.block].copy as usize;
        self.members.iter().position(|place| *place == Some((line.driver, copy)))
    }

    /// Names of the lenders of all members.
    fn lenders(&self) -> Vec<String> {
        let members = (0..MAX_MEMBERS).filter_map(|member| self.blocks(member));
        let leases = members.flat_map(|(driver, blocks)| {
            blocks
                .into_iter()
                .filter_map(move |block| self.drivers[driver].books.leases[block].as_ref())
        });
        leases.map(|lease| lease.lender.name.clone()).collect()
    }

    /// A member's lenders, for people.
    fn names(&self, member: usize) -> String {
        let Some((driver, blocks)) = self.blocks(member) else { return "nobody".to_owned() };
        let leases = &self.drivers[driver].books.leases;
        let names = blocks.iter().filter_map(|&block| leases[block].as_ref());
        let names: Vec<&str> = names.map(|lease| lease.lender.name.as_str()).collect();
        format!("lender {}", names.join(", "))
    }
}

/// A connection to the lender of a block.
struct Line {
    driver: usize,
    block: usize,
    address: Option<Address>,
    link: Option<Link>,
    /// Since when there is no connection, and when to try again.
    broken: Option<(Instant, Instant)>,
}

/// A running keeper.
pub(super) struct Keeper {
    stop: OwnedFd,
    thread: Option<JoinHandle<Vec<Line>>>,
    places: Arc<Mutex<Places>>,
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    /// Keeps what a driver has borrowed, the members of `store` in the order of its copies.
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
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|error| Error::io("cannot make an eventfd", error))
        };
        let again = |fd: &OwnedFd| {
            fd.try_clone().map_err(|error| Error::io("cannot make an eventfd", error))
        };
        let (stop, alarm) = (event()?, event()?);
        store.set_alarm(again(&alarm)?);
        let lines = lines(&mut driver, 0);
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

    /// What is borrowed.
    pub fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.places)
    }

    /// What is borrowed, unless somebody looks at it.
    pub fn try_places(&self) -> Option<MutexGuard<'_, Places>> {
        self.places.try_lock().ok()
    }

    /// Stops, and gives everything back.
    pub fn release(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        let lines = thread.join().unwrap_or_default();
        let mut places = lock(&self.places);
        for line in lines {
            places.drivers[line.driver].links[line.block] = line.link;
        }
        places.members = Default::default();
        places.drivers.iter_mut().for_each(Driver::release);
    }
}

fn lines(driver: &mut Driver, number: usize) -> Vec<Line> {
    let links = std::mem::take(&mut driver.links);
    driver.links = links.iter().map(|_| None).collect();
    let line = |(block, link): (usize, Option<Link>)| {
        let address = link.as_ref().and_then(|link| link.peer().ok());
        Line { driver: number, block, address, link, broken: None }
    };
    links.into_iter().enumerate().map(line).collect()
}

/// What the keeper's thread has.
struct Work {
    stop: OwnedFd,
    alarm: OwnedFd,
    places: Arc<Mutex<Places>>,
    lines: Vec<Line>,
    store: MirrorStore,
    terms: Terms,
    /// Where the only copy is mapped.
    window: Option<Arc<Window>>,
    tell: Tell,
    synchroniser: Option<Synchroniser>,
    /// Since when members are away, and when to look again.
    away: [Option<(Instant, Instant)>; MAX_MEMBERS],
    /// When to ask for memory again.
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

    /// Takes in what a lender says.
    fn hear(&mut self, number: usize) {
        let line = &mut self.lines[number];
        loop {
            let Some(link) = &mut line.link else { return };
            match link.poll::<Reply>() {
                Ok(Some(Reply::Notice(ms))) => return self.leaves(number, ms),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => {
                    line.link = None;
                    let mut places = lock(&self.places);
                    let books = &mut places.drivers[line.driver].books;
                    let is_local = books.leases[line.block].as_ref().is_none_or(|l| l.is_local);
                    if is_local || line.address.is_none() {
                        let _held = self.store.keep_from_forking();
                        books.lost(line.block, &reason(error));
                    } else {
                        line.broken = Some((Instant::now(), Instant::now()));
                    }
                    return;
                }
            }
        }
    }

    fn leaves(&mut self, number: usize, ms: u64) {
        let grace = Duration::from_millis(ms.min(u64::from(u32::MAX)));
        let line = &self.lines[number];
        let mut places = lock(&self.places);
        let member = places.member_of(line);
        let Some(lease) = &mut places.drivers[line.driver].books.leases[line.block] else { return };
        lease.notice = Some(Instant::now() + grace);
        let text = format!(
            "lender {} wants its memory back within {} s: looking for another lender",
            lease.lender.name,
            grace.as_secs_f64()
        );
        drop(places);
        self.say(&text);
        self.lease_at = Instant::now();
        member.into_iter().for_each(|member| self.store.leaves(member));
    }

    /// Tries to get connections back that broke.
    fn reconnect(&mut self) {
        for number in 0..self.lines.len() {
            let line = &self.lines[number];
            let Some((since, _)) = line.broken.filter(|(_, at)| Instant::now() >= *at) else {
                continue;
            };
            let resumed = self.resume(line);
            let line = &mut self.lines[number];
            let reason = match resumed {
                Ok(link) => {
                    (line.link, line.broken) = (Some(link), None);
                    continue;
                }
                Err(Error::Lost { reason, .. }) => reason,
                Err(error) if since.elapsed() > self.terms.patience => error.to_string(),
                Err(_) => {
                    line.broken = Some((since, Instant::now() + RETRY));
                    continue;
                }
            };
            line.broken = None;
            // In this order, as everywhere.
            let mut places = lock(&self.places);
            let _held = self.store.keep_from_forking();
            places.drivers[line.driver].books.lost(line.block, &reason);
        }
    }

    fn resume(&self, line: &Line) -> Result<Link> {
        let (Some(address), Some((base, token, lender))) = (&line.address, {
            let places = lock(&self.places);
            let lease = places.drivers[line.driver].books.leases[line.block].as_ref();
            lease.map(|lease| (lease.base, lease.token.clone(), lease.lender.name.clone()))
        }) else {
            return Err(Error::Stopped);
        };
        let lost = |reason: &str| Error::Lost { lender, reason: reason.to_owned() };
        let mut link = match Link::connect(address, self.terms.secret.as_ref(), ANSWER) {
            Err(error) if is_refused(&error) => return Err(lost("its process has ended")),
            link => link.map_err(not_for_good)?,
        };
        link.send(&Request::Resume { base, token }).map_err(not_for_good)?;
        match link.receive(ANSWER).map_err(not_for_good)? {
            Reply::Resumed => Ok(link),
            Reply::NoLease => Err(lost("it has the lease no more")),
            other => Err(Error::Protocol(format!("it answers {other:?}"))),
        }
    }

    /// Takes copies out whose memory is gone.
    fn look_for_losses(&mut self) {
        for member in 0..MAX_MEMBERS {
            if lock(&self.places).members[member].is_none() {
                continue;
            }
            let error = match self.store.member(member).map(|store| store.check()) {
                Some(Ok(())) => continue,
                Some(Err(error)) => error,
                // A lane has found it out before.
                None => Error::Stopped,
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
        self.lines.retain(|line| line.driver != driver || !blocks.contains(&line.block));
        self.synchroniser.take_if(|synchroniser| synchroniser.member() == member);
        self.away[member] = None;
    }

    /// Does what is to be done; returns when to look again.
    fn work(&mut self) -> Option<Duration> {
        if self.store.check().is_err() {
            return None;
        }
        let mut limit = self.lines.iter().any(|line| line.broken.is_some()).then_some(RETRY);
        for job in self.store.jobs() {
            let next = match job {
                Job::Retire(member) => self.retire(member),
                Job::Synchronise(member) => self.synchronise(member),
                Job::Rejoin(member) => self.rejoin(member),
                Job::Lease(member) => self.lease(member),
            };
            limit = Some(limit.map_or(next, |limit| limit.min(next)));
        }
        limit
    }

    fn retire(&mut self, member: usize) -> Duration {
        let names = lock(&self.places).names(member);
        self.store.remove(member);
        self.drop_copy(member, "another lender has taken its place");
        self.say(&format!("{names} has its memory back: another lender has the bytes"));
        Duration::ZERO
    }

    /// Copies for a while what a member misses.
    fn synchronise(&mut self, member: usize) -> Duration {
        self.away[member] = None;
        let mut synchroniser = match self.synchroniser.take() {
            Some(synchroniser) if synchroniser.member() == member => synchroniser,
            _ => match Synchroniser::new(&self.store, member) {
                Ok(synchroniser) => synchroniser,
                Err(_) => return RETRY,
            },
        };
        let begun = Instant::now();
        let next = loop {
            match synchroniser.step() {
                Ok(Progress::Copied(_)) if begun.elapsed() >= TURN => break Duration::ZERO,
                Ok(Progress::Copied(_)) => {}
                Ok(Progress::NoSource) => break RETRY,
                Ok(Progress::Nothing) => match self.finish(&mut synchroniser) {
                    Ok(true) => return Duration::ZERO,
                    Ok(false) => break RETRY,
                    Err(_) => return RETRY,
                },
                Err(_) => return RETRY,
            }
        };
        self.synchroniser = Some(synchroniser);
        next
    }

    fn finish(&mut self, synchroniser: &mut Synchroniser) -> Result<bool> {
        let member = synchroniser.member();
        let is_done = synchroniser.finish(CLOSED, || {
            let mut places = lock(&self.places);
            let (Some(window), Some((driver, _))) = (&self.window, places.members[member]) else {
                return Ok(());
            };
            let store = places.drivers[driver].map_at(window)?;
            drop(places);
            self.store.replace(member, Arc::new(store));
            Ok(())
        })?;
        if is_done {
            let names = lock(&self.places).names(member);
            let are = if self.store.is_degraded() { "one more copy is" } else { "all copies are" };
            self.say(&format!("{are} whole, with the one at {names}"));
        }
        Ok(is_done)
    }

    fn rejoin(&mut self, member: usize) -> Duration {
        let now = Instant::now();
        let (since, at) = *self.away[member].get_or_insert((now, now));
        if since.elapsed() >= REPLACE_AFTER {
            self.store.is_overdue(member);
        }
        if now >= at {
            if at == since {
                let names = lock(&self.places).names(member);
                self.say(&format!(
                    "{names} does not answer: going on with what other lenders have"
                ));
            }
            match self.store.rejoin(member) {
                Ok(()) => return Duration::ZERO,
                Err(Error::Lost { .. }) => return Duration::ZERO,
                Err(_) => self.away[member] = Some((since, Instant::now() + RETRY)),
            }
        }
        RETRY
    }

    /// Borrows a further copy.
    fn lease(&mut self, member: usize) -> Duration {
        let left = self.lease_at.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return left;
        }
        self.lease_at = Instant::now() + LEASE_RETRY;
        let mut terms = self.terms.clone();
        terms.want.copies = 1;
        terms.want.avoid = lock(&self.places).lenders();
        terms.only_mapped = self.window.is_some();
        self.store.leasing(member);
        match Driver::borrow(terms) {
            Ok(mut driver) => {
                let store = driver.stores().remove(0);
                let mut places = lock(&self.places);
                let number = places.drivers.len();
                self.lines.extend(lines(&mut driver, number));
                places.drivers.push(driver);
                places.members[member] = Some((number, 0));
                drop(places);
                self.is_refused = false;
                self.store.leased(member, Some(Arc::new(store)));
                Duration::ZERO
            }
            Err(error) => {
                self.store.leased(member, None);
                if !std::mem::replace(&mut self.is_refused, true) {
                    let host = if self.window.is_some() { " on this host" } else { "" };
                    self.say(&format!("no other lender{host} has room for a copy yet: {error}"));
                }
                LEASE_RETRY
            }
        }
    }
}

/// A connection that is lost says nothing of the lease.
fn not_for_good(error: Error) -> Error {
    match error {
        Error::Lost { lender, reason } => Error::Broken { lender, reason },
        other => other,
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::Lost { reason, .. } => reason,
        other => other.to_string(),
    }
}
