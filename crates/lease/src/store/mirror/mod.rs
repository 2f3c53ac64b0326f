//! A borrowing's bytes, in one copy or several: writes go to all copies, reads to one.
//!
//! [`Replicas`] has the state of each copy. A lane that fails reopens by itself, and repeats requests that were not
//! answered; while another copy has the bytes it goes on with that instead. Pages that a copy misses meanwhile are
//! noted, a bit for each, and [`Synchroniser`] copies them: page by page while others write, the last of them while
//! nobody does.
//!
//! | party | enters the gate | notes a page |
//! |---|---|---|
//! | a writing lane | from asking to the answer | when the write was answered, for every copy that did not answer it |
//! | a writer of mapped bytes | around the write | after it |
//! | the synchroniser | closes it for the last pages | takes a page's bit before it reads the page |
//!
//! So a page whose bit is taken was either read after the last write to it, or its bit is set again.
//!
//! A copy that was away is fenced as a whole before it is filled: no request that an earlier lane has made can take
//! effect in it afterwards.

mod bitmap;
mod lane;
mod synchroniser;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use once_cell::race::OnceBox;

use self::bitmap::{Bitmap, pages_of};
use self::lane::MirrorLane;
use super::replicas::{Job, MAX_MEMBERS, Replicas, State, Verdict};
use super::{Lane, Store};
use crate::error::{Error, Result};
use crate::sync::wait::{Event, Gate, Guarded, Held, Lock};
use crate::sync::{AtomicBool, AtomicU32, fence};

pub use synchroniser::{Progress, Synchroniser};

/// Tells people what happens to a borrowing. It may be called by any thread of the process.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Time that accesses wait while no lender that has the bytes can be reached, unless another is given.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(120);

/// Times that reads and writes wait while no lender that has the bytes can be reached.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Total; after it the bytes are taken for lost.
    pub limit: Duration,
    /// Between two attempts.
    pub retry: Duration,
}

impl From<Duration> for Patience {
    fn from(limit: Duration) -> Patience {
        Patience { limit, retry: Duration::from_millis(200) }
    }
}

/// A borrowing's bytes; clones are the same.
#[derive(Clone)]
pub struct MirrorStore(Arc<Shared>);

struct Shared {
    size_bytes: u64,
    patience: Patience,
    tell: Tell,
    replicas: Guarded<Replicas>,
    /// The stores of the members.
    stores: [Guarded<Option<Arc<dyn Store>>>; MAX_MEMBERS],
    /// Pages that a member misses, as far as it has not all of them.
    missed: Box<[Bitmap]>,
    /// Pages that may not be zero.
    written: Bitmap,
    /// Members that are `Live`, and members that miss writes, as bits.
    live: AtomicU32,
    behind: AtomicU32,
    /// Counts the lives of each member's lanes: those of an earlier life say nothing of it.
    lives: [AtomicU32; MAX_MEMBERS],
    /// Counts changes of the members.
    changes: AtomicU32,
    changed: Event,
    /// Held shared by threads that write.
    gate: Gate,
    /// Name of the lender that was lost last, and the reason.
    last_loss: Guarded<Option<(String, String)>>,
    /// Name of the lender whose loss was the end of all copies, and the reason.
    lost: OnceBox<(String, String)>,
    /// No lender can be reached, and people know it.
    is_away: AtomicBool,
    /// Held while members change, and around a fork.
    fork: Lock,
    /// The first copy, if it is the only one and its lenders are on this host: its bytes stay mapped.
    mapped: Option<Arc<dyn Store>>,
    /// Wakes the keeper of the borrowing.
    alarm: OnceLock<OwnedFd>,
    /// In a child of fork there is none.
    has_keeper: AtomicBool,
}

impl MirrorStore {
    /// These copies, all of which are zeros.
    ///
    /// # Errors
    /// The kernel has no address space.
    ///
    /// # Panics
    /// There is none, or more than four, or they have different sizes.
    pub fn new(
        copies: Vec<Arc<dyn Store>>,
        patience: impl Into<Patience>,
        tell: Tell,
    ) -> Result<MirrorStore> {
        let size_bytes = copies[0].size_bytes();
        assert!(copies.iter().all(|copy| copy.size_bytes() == size_bytes), "copies of one size");
        let replicas = Replicas::new(copies.len());
        let mapped = match &copies[..] {
            [only] if only.mapped().is_some() => Some(only.clone()),
            _ => None,
        };
        let no_memory = |error| Error::io("no addresses for a borrowing's tables", error);
        let bitmap = || Bitmap::new(size_bytes).map_err(no_memory);
        let mut stores: [Guarded<Option<Arc<dyn Store>>>; MAX_MEMBERS] = Default::default();
        for (place, copy) in stores.iter_mut().zip(copies) {
            *place = Guarded::new(Some(copy));
        }
        Ok(MirrorStore(Arc::new(Shared {
            size_bytes,
            patience: patience.into(),
            tell,
            live: AtomicU32::new(replicas.mask(State::Live)),
            behind: AtomicU32::new(0),
            replicas: Guarded::new(replicas),
            stores,
            missed: (0..MAX_MEMBERS).map(|_| bitmap()).collect::<Result<_>>()?,
            written: bitmap()?,
            lives: Default::default(),
            changes: AtomicU32::new(0),
            changed: Event::default(),
            gate: Gate::default(),
            last_loss: Guarded::default(),
            lost: OnceBox::new(),
            is_away: AtomicBool::new(false),
            fork: Lock::default(),
            mapped,
            alarm: OnceLock::new(),
            has_keeper: AtomicBool::new(false),
        })))
    }

    /// Sets an eventfd that is signalled at every change of the copies and every failure of a lane.
    pub(crate) fn set_alarm(&self, alarm: OwnedFd) {
        let _ = self.0.alarm.set(alarm);
        self.0.has_keeper.store(true, Ordering::Release);
    }

    /// Without a keeper, nobody else brings a copy back that was away: when all others are lost, one that has missed
    /// nothing is tried.
    #[cold]
    fn fall_back(&self) {
        if self.0.has_keeper.load(Ordering::Acquire) || self.live() != 0 {
            return;
        }
        for member in 0..MAX_MEMBERS {
            if self.state(member) == State::Away
                && !self.misses(member)
                && self.rejoin(member).is_ok()
            {
                let missed = &self.0.missed[member];
                self.change(|replicas| {
                    if missed.is_empty() && replicas.in_state(State::Live).next().is_none() {
                        replicas.synchronised(member);
                    }
                });
            }
        }
    }

    /// Whether a copy lacks writes that were answered.
    pub fn misses(&self, member: usize) -> bool {
        !self.0.missed[member].is_empty()
    }

    /// Jobs that the state of the copies asks for, the most urgent first.
    pub fn jobs(&self) -> Vec<Job> {
        let _held = self.0.fork.hold();
        self.0.replicas.with(|replicas| replicas.jobs())
    }

    /// State of a copy.
    pub fn state(&self, member: usize) -> State {
        let _held = self.0.fork.hold();
        self.0.replicas.with(|replicas| replicas.state(member))
    }

    /// Whether fewer copies than wanted have every write.
    pub fn is_degraded(&self) -> bool {
        let _held = self.0.fork.hold();
        self.0.replicas.with(|replicas| replicas.is_degraded())
    }

    /// A copy's bytes.
    pub fn member(&self, member: usize) -> Option<Arc<dyn Store>> {
        let _held = self.0.fork.hold();
        self.0.stores[member].with(|store| store.clone())
    }

    /// Changes the members by a step of the state machine, for all readers and writers.
    fn change<T>(&self, step: impl FnOnce(&mut Replicas) -> T) -> T {
        let _held = self.0.fork.hold();
        self.change_held(step)
    }

    /// As `change`; the caller holds the lock.
    fn change_held<T>(&self, step: impl FnOnce(&mut Replicas) -> T) -> T {
        let shared = &*self.0;
        let (result, is_lost) = shared.replicas.with(|replicas| {
            let result = step(replicas);
            let behind = replicas.mask(State::Joining) | replicas.mask(State::Away);
            shared.behind.store(behind, Ordering::Release);
            shared.live.store(replicas.mask(State::Live), Ordering::Release);
            // Together with the one in `note`: either we see the page that was noted, or the writer our change.
            fence(Ordering::SeqCst);
            (result, replicas.is_lost(|member| shared.missed[member].is_empty()))
        });
        if is_lost {
            let nobody = || ("all lenders".to_owned(), "no copy is left".to_owned());
            let loss = shared.last_loss.with(Option::take).unwrap_or_else(nobody);
            let _ = shared.lost.set(Box::new(loss));
        }
        shared.changes.fetch_add(1, Ordering::AcqRel);
        shared.changed.signal();
        if let Some(alarm) = shared.alarm.get() {
            let _ = rustix::io::write(alarm, &1_u64.to_ne_bytes());
        }
        result
    }

    /// While it is held nobody forks: for changes of state that a child of fork inherits.
    pub(crate) fn keep_from_forking(&self) -> Held<'_> {
        self.0.fork.hold()
    }

    /// A copy's memory is gone, for this reason.
    pub fn lose(&self, member: usize, error: &Error) {
        if let Error::Lost { lender, reason } = error {
            self.0.last_loss.with(|last| *last = Some((lender.clone(), reason.clone())));
        }
        self.remove(member);
    }

    /// A copy's memory is not used any more.
    pub fn remove(&self, member: usize) {
        self.change(|replicas| replicas.lost(member));
        drop(self.0.stores[member].with(|store| store.take()));
    }

    /// A copy's lender wants its memory back.
    pub fn leaves(&self, member: usize) {
        self.change(|replicas| replicas.leaves(member));
    }

    /// A copy has been away for long.
    pub fn is_overdue(&self, member: usize) {
        self.change(|replicas| replicas.is_overdue(member));
    }

    /// Lenders are being asked for a further copy.
    pub fn leasing(&self, member: usize) {
        self.change(|replicas| replicas.leasing(member));
    }

    /// A further copy, of zeros, or `None`: it is not to be had.
    pub fn leased(&self, member: usize, store: Option<Arc<dyn Store>>) {
        let shared = &*self.0;
        let is_there = store.is_some();
        // Before it can be taken for one that misses nothing.
        shared.missed[member].copy_from(&shared.written);
        let _held = shared.fork.hold();
        shared.lives[member].fetch_add(1, Ordering::AcqRel);
        shared.stores[member].with(|place| *place = store);
        self.change_held(|replicas| replicas.leased(member, is_there));
        // And what was written while nobody noted it yet.
        shared.missed[member].merge(&shared.written);
    }

    /// The bytes of a copy that nobody reads yet are there from now on.
    pub(crate) fn replace(&self, member: usize, store: Arc<dyn Store>) {
        let _held = self.0.fork.hold();
        drop(self.0.stores[member].with(|place| place.replace(store)));
    }

    /// Sees whether the lender of a copy that is away answers again; from then on the copy is `Joining`.
    ///
    /// # Errors
    /// [`Error::Broken`]: not now; [`Error::Lost`]: for good.
    pub fn rejoin(&self, member: usize) -> Result<()> {
        let Some(store) = self.member(member) else { return Ok(()) };
        store.fence()?;
        self.0.lives[member].fetch_add(1, Ordering::AcqRel);
        self.change(|replicas| replicas.rejoined(member));
        Ok(())
    }

    /// Number of the present life of a member's lanes.
    fn life(&self, member: usize) -> u32 {
        self.0.lives[member].load(Ordering::Acquire)
    }

    /// Consequence of the failure of a member's lane, which was opened in this life.
    fn failed(&self, member: usize, life: u32, error: &Error) -> Verdict {
        match error {
            _ if self.life(member) != life => Verdict::WithoutIt,
            Error::Lost { .. } => {
                self.lose(member, error);
                Verdict::WithoutIt
            }
            _ => self.change(|replicas| replicas.failed(member)),
        }
    }

    /// Members that are `Live`, as bits.
    fn live(&self) -> u32 {
        self.0.live.load(Ordering::Acquire)
    }

    /// Pages of this range are about to be written.
    fn mark(&self, offset: u64, length: u64) {
        self.0.written.set(pages_of(offset, length));
    }

    /// A write to this range was answered by these members only. Returns whether it counts: one of them has every
    /// write still, now that the others' miss is noted.
    fn note(&self, answered: u32, offset: u64, length: u64) -> bool {
        fence(Ordering::SeqCst);
        let behind = self.0.behind.load(Ordering::Acquire) & !answered;
        if behind != 0 {
            for member in (0..MAX_MEMBERS).filter(|member| behind >> member & 1 == 1) {
                self.0.missed[member].set(pages_of(offset, length));
            }
            fence(Ordering::SeqCst);
        }
        self.live() & answered != 0
    }

    /// Whether it is known that nobody has the bytes any more.
    fn is_lost(&self) -> bool {
        self.0.lost.get().is_some()
    }

    /// Everything that has every write is gone.
    #[cold]
    fn error(&self) -> Error {
        let (lender, reason) = self.0.lost.get().cloned().unwrap_or_default();
        Error::Lost { lender, reason }
    }

    /// Whether to wait further for a copy with the bytes, of which none could be reached since `since`.
    ///
    /// # Errors
    /// All copies are lost, or the wait has lasted for as long as the program may stand still.
    #[cold]
    fn check_patience(&self, since: Instant, error: Option<&Error>) -> Result<()> {
        let shared = &*self.0;
        if since.elapsed() >= shared.patience.limit {
            let (lender, reason) = explain(error);
            let seconds = shared.patience.limit.as_secs_f64();
            let reason = format!("it could not be reached for {seconds} s ({reason})");
            let _ = shared.lost.set(Box::new((lender, reason)));
        }
        self.check()
    }

    /// Waits for a moment, or until something changes, for a copy that has the bytes, of which none could be reached
    /// since `since`. The first moment passes in silence: a lender that has died is known to be dead after it.
    #[cold]
    fn wait(&self, since: Instant, error: Option<&Error>) {
        let shared = &*self.0;
        let ticket = shared.changed.ticket();
        if since.elapsed() >= shared.patience.retry && !shared.is_away.swap(true, Ordering::AcqRel)
        {
            let (lender, reason) = explain(error);
            let seconds = shared.patience.limit.as_secs_f64();
            (shared.tell)(&format!(
                "{lender} cannot be reached ({reason}): the program stands still for up to {seconds} s"
            ));
        }
        shared.changed.wait(ticket, Some(shared.patience.retry));
    }

    /// Somebody answered.
    fn is_reached(&self) {
        if self.0.is_away.load(Ordering::Relaxed) && self.0.is_away.swap(false, Ordering::AcqRel) {
            (self.0.tell)("the lender answers again; the program goes on");
        }
    }
}

/// Name of the lender that could not be reached, and the reason.
fn explain(error: Option<&Error>) -> (String, String) {
    match error {
        Some(Error::Broken { lender, reason }) => (lender.clone(), reason.clone()),
        Some(error) => ("a lender".to_owned(), error.to_string() + &error.hint()),
        None => ("a lender".to_owned(), "it does not answer".to_owned()),
    }
}

impl Store for MirrorStore {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        Ok(Box::new(MirrorLane::open(self)?))
    }

    fn mapped(&self) -> Option<*mut u8> {
        self.0.mapped.as_ref().and_then(|store| store.mapped())
    }

    fn begin_write(&self) {
        self.0.gate.enter();
    }

    fn end_write(&self, offset: u64, length: u64) {
        self.mark(offset, length);
        self.note(0, offset, length);
        self.0.gate.leave();
    }

    fn check(&self) -> Result<()> {
        if self.is_lost() {
            return Err(self.error());
        }
        // A process without a keeper learns here what another has found out.
        let live = self.live();
        for member in (0..MAX_MEMBERS).filter(|member| live >> member & 1 == 1) {
            if let Some(Err(error)) =
                self.0.stores[member].with(|store| store.as_ref().map(|store| store.check()))
            {
                self.lose(member, &error);
            }
        }
        if self.is_lost() { Err(self.error()) } else { Ok(()) }
    }

    fn before_fork(&self) {
        self.0.fork.acquire();
    }

    fn after_fork_in_parent(&self) {
        self.0.fork.release();
    }

    fn after_fork_in_child(&self) {
        let shared = &*self.0;
        shared.has_keeper.store(false, Ordering::Release);
        shared.gate.reset();
        shared.changed.forget_waiters();
        // Threads of the parent may have looked at the time, but nobody changed anything.
        shared.replicas.reset();
        shared.stores.iter().for_each(Guarded::reset);
        shared.last_loss.reset();
        // Nobody synchronises in the child: it has the copies that it was born with.
        self.change_held(|replicas| {
            for member in 0..MAX_MEMBERS {
                if matches!(replicas.state(member), State::Joining | State::Leasing) {
                    replicas.lost(member);
                }
            }
        });
        shared.fork.release();
    }
}
