//! State of a page: one word, and the steps that it may take.
//!
//! ```text
//!             fault                  delivered                evictor            moved out
//!   Empty ───────────▶ Held ────────────────────▶ Present ─────────────▶ Leaving ─────────▶ Staged
//!   Away ────────────▶ Held    (also Lost)           ▲                      │ zero: Empty      │
//!    ▲                  ▲                            │ moved back           ▼ as the lender    ▼ confirmed
//!    │                  └─── fault ── Staged, Standby┘                   Standby ◀─────────────┘
//!    └──────────────────────────── evictor ──────────────────────────────────┘
//! ```
//!
//! A page in `Held` or `Leaving` is in transit, and belongs to the thread that put it there: a fault's
//! handler, a thread that discards or moves it, or the evictor. All other threads wait on the word. All other
//! steps are taken by compare-and-swap, so exactly one wins. In `Staged` and `Standby` the page lies in the
//! staging area, and is no one's: the first thread that needs it takes it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rackmem_lease::sync::{AtomicU64, Bed};

/// Place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Nowhere: it reads as zeros, and occupies nothing.
    Empty = 0,
    /// In a slot of the store.
    Away = 1,
    /// Being brought, looked at or dropped.
    Held = 2,
    /// Mapped in the program.
    Present = 3,
    /// Being taken out of the program by the evictor.
    Leaving = 4,
    /// In the staging area; the store does not have it yet.
    Staged = 5,
    /// In the staging area, and the same in its slot of the store.
    Standby = 6,
    /// Gone with its lender.
    Lost = 7,
}

const STATES: [State; 8] = [
    State::Empty,
    State::Away,
    State::Held,
    State::Present,
    State::Leaving,
    State::Staged,
    State::Standby,
    State::Lost,
];

const STATE_MASK: u64 = 0xf;
/// Somebody sleeps until the page's transit ends.
const WAITERS: u64 = 1 << 4;
/// The evictor passes the page by once.
const HOT: u64 = 1 << 5;
/// The page was put aside to notice that a stream has come here.
const TRAP: u64 = 1 << 6;
const STAMP_SHIFT: u32 = 8;
/// Evictions are counted modulo this, to tell how long a page was away.
pub const STAMPS: u32 = 1 << 24;
const PAYLOAD_SHIFT: u32 = 32;

/// The word of a page. Zero is `Empty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry(u64);

impl Entry {
    /// Reads as zeros.
    pub const EMPTY: Entry = Entry(State::Empty as u64);
    /// Gone.
    pub const LOST: Entry = Entry(State::Lost as u64);

    fn in_frame(state: State, frame: u32) -> Entry {
        Entry(state as u64 | u64::from(frame) << PAYLOAD_SHIFT)
    }

    /// The word of a page in a slot, since eviction number `stamp`.
    pub fn away(slot: u32, stamp: u32) -> Entry {
        let stamp = u64::from(stamp % STAMPS) << STAMP_SHIFT;
        Entry(State::Away as u64 | stamp | u64::from(slot) << PAYLOAD_SHIFT)
    }

    /// The word of a page in transit, to or from a frame; [`super::frames::NO_FRAME`] if to none.
    pub fn held(frame: u32) -> Entry {
        Entry::in_frame(State::Held, frame)
    }

    /// Mapped, and accounted for by a frame.
    pub fn present(frame: u32, is_hot: bool) -> Entry {
        let entry = Entry::in_frame(State::Present, frame);
        if is_hot { Entry(entry.0 | HOT) } else { entry }
    }

    /// On its way out.
    pub fn leaving(frame: u32) -> Entry {
        Entry::in_frame(State::Leaving, frame)
    }

    /// The word of a page in the staging area.
    pub fn staged(frame: u32) -> Entry {
        Entry::in_frame(State::Staged, frame)
    }

    /// The word of a page in the staging area and in the store.
    pub fn standby(frame: u32, is_trap: bool) -> Entry {
        let entry = Entry::in_frame(State::Standby, frame);
        if is_trap { Entry(entry.0 | TRAP) } else { entry }
    }

    /// Place of the page.
    pub fn state(self) -> State {
        STATES[(self.0 & STATE_MASK) as usize & 7]
    }

    /// The frame, in all states but `Empty`, `Away` and `Lost`.
    pub fn frame(self) -> u32 {
        (self.0 >> PAYLOAD_SHIFT) as u32
    }

    /// Whether the page has a frame.
    pub fn has_frame(self) -> bool {
        !matches!(self.state(), State::Empty | State::Away | State::Lost)
    }

    /// The slot, in `Away`.
    pub fn slot(self) -> u32 {
        (self.0 >> PAYLOAD_SHIFT) as u32
    }

    /// Number of the eviction that sent it `Away`.
    pub fn stamp(self) -> u32 {
        (self.0 >> STAMP_SHIFT) as u32 % STAMPS
    }

    /// Whether a stream was to be noticed here.
    pub fn is_trap(self) -> bool {
        self.0 & TRAP != 0
    }

    /// Whether it belongs to somebody, and others wait.
    pub fn is_in_transit(self) -> bool {
        matches!(self.state(), State::Held | State::Leaving)
    }

    /// Action of a thread that faulted at the page.
    pub fn on_fault(self) -> OnFault {
        match self.state() {
            State::Empty => OnFault::Zero,
            State::Away => OnFault::Fetch,
            State::Held | State::Leaving => OnFault::Wait,
            State::Present => OnFault::Look,
            State::Staged | State::Standby => OnFault::MoveBack,
            State::Lost => OnFault::GiveUp,
        }
    }

    /// The page as the evictor's hand leaves it: on its way out, or without the mark that saved it. `None`:
    /// the evictor has no business with it.
    pub fn on_sweep(self) -> Option<Entry> {
        match self.state() {
            State::Present if self.0 & HOT != 0 => Some(Entry(self.0 & !HOT)),
            State::Present => Some(Entry::leaving(self.frame())),
            _ => None,
        }
    }

    /// The page after the store confirmed it; `None` if it was needed meanwhile.
    pub fn on_confirmed(self) -> Option<Entry> {
        (self.state() == State::Staged).then(|| Entry::standby(self.frame(), false))
    }

    /// The page as it leaves local memory; `None` if it was needed meanwhile.
    pub fn on_retire(self, slot: u32, stamp: u32) -> Option<Entry> {
        (self.state() == State::Standby).then(|| Entry::away(slot, stamp))
    }
}

/// Action of a thread that faulted at a page. All but `Wait` and `GiveUp` begin by holding the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// Deliver zeros.
    Zero,
    /// Read the slot.
    Fetch,
    /// Move the page back from the staging area.
    MoveBack,
    /// It should be there: another thread's fault brought it, or the program dropped it by a system call
    /// that no one told us of. Then it reads as zeros.
    Look,
    /// It is in transit.
    Wait,
    /// It is lost.
    GiveUp,
}

/// A page's word where all threads see it.
#[derive(Debug, Default)]
pub struct Cell {
    word: AtomicU64,
    bed: Bed,
}

// SAFETY: an atomic beside nothing; zero is `Empty`.
#[cfg(not(loom))]
unsafe impl rackmem_lease::sync::lazy::Zeroable for Cell {}

impl Cell {
    /// The word.
    pub fn load(&self) -> Entry {
        Entry(self.word.load(Ordering::Acquire))
    }

    /// Takes a step unless another was faster. Not for pages in transit, whose word others may mark.
    pub fn step(&self, from: Entry, to: Entry) -> bool {
        debug_assert!(!from.is_in_transit());
        self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends the transit of a page that the caller holds, and wakes threads that wait for it.
    pub fn settle(&self, to: Entry) {
        let from = self.word.swap(to.0, Ordering::AcqRel);
        debug_assert!(Entry(from).is_in_transit());
        if from & WAITERS != 0 {
            self.bed.wake(self.futex(), i32::MAX);
        }
    }

    /// Sleeps while the page is in the transit that was seen, at most for `limit`; may wake early.
    pub fn wait(&self, seen: Entry, limit: Option<Duration>) {
        let marked = seen.0 | WAITERS;
        let mark =
            || self.word.compare_exchange(seen.0, marked, Ordering::Relaxed, Ordering::Relaxed);
        if seen.0 != marked && mark().is_err() {
            return;
        }
        let load = || self.word.load(Ordering::Relaxed) as u32;
        self.bed.sleep(self.futex(), load, marked as u32, limit);
    }

    /// The half of the word that has the state.
    fn futex(&self) -> *const u32 {
        let halves = std::ptr::from_ref(&self.word).cast::<u32>();
        // SAFETY: the second half of the word, where it is the low one.
        if cfg!(target_endian = "big") { unsafe { halves.add(1) } } else { halves }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use rackmem_lease::sync::AtomicU32;

    const FRAME: u32 = 7;
    const SLOT: u32 = 3;

    /// A page, and counts of its ways from its slot and to it.
    #[derive(Default)]
    struct Page {
        cell: Cell,
        brought: AtomicU32,
        retired: AtomicU32,
        /// Steps of threads that hold the page; odd during a step.
        held: AtomicU32,
    }

    impl Page {
        fn hold(&self) {
            assert_eq!(self.held.fetch_add(1, Ordering::Relaxed) % 2, 0, "another holds it");
        }

        fn settle(&self, to: Entry) {
            assert_eq!(self.held.fetch_add(1, Ordering::Relaxed) % 2, 1);
            self.cell.settle(to);
        }

        fn fault(&self) {
            loop {
                let seen = self.cell.load();
                match seen.on_fault() {
                    OnFault::Fetch if self.cell.step(seen, Entry::held(FRAME)) => {
                        self.hold();
                        self.brought.fetch_add(1, Ordering::Relaxed);
                        return self.settle(Entry::present(FRAME, false));
                    }
                    OnFault::MoveBack if self.cell.step(seen, Entry::held(seen.frame())) => {
                        self.hold();
                        return self.settle(Entry::present(FRAME, false));
                    }
                    OnFault::Fetch | OnFault::MoveBack => {}
                    OnFault::Look => return,
                    OnFault::Wait => self.cell.wait(seen, None),
                    OnFault::Zero | OnFault::GiveUp => panic!("nobody drops the page"),
                }
            }
        }

        /// Sends the page away as far as nobody needs it.
        fn evict(&self) {
            let seen = self.cell.load();
            let Some(leaving) = seen.on_sweep() else { return };
            if !self.cell.step(seen, leaving) {
                return;
            }
            self.hold();
            self.settle(Entry::staged(FRAME));
            let staged = self.cell.load();
            let Some(standby) = staged.on_confirmed() else { return };
            if !self.cell.step(staged, standby) {
                return;
            }
            let seen = self.cell.load();
            let Some(away) = seen.on_retire(SLOT, 0) else { return };
            if self.cell.step(seen, away) {
                self.retired.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Two threads fault while a third sends the page away: one at a time holds it, it comes as often as it went,
    /// and nobody sleeps for ever.
    #[test]
    fn a_page_has_one_holder_and_wakes_who_waits() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let page = Arc::new(Page::default());
            assert!(page.cell.step(Entry::EMPTY, Entry::away(SLOT, 0)));
            let threads = [Page::fault, Page::evict].map(|work| {
                let page = page.clone();
                thread::spawn(move || work(&page))
            });
            page.fault();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let times = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
            let is_away = page.cell.load().state() == State::Away;
            assert_eq!(times(&page.brought), times(&page.retired) + u32::from(!is_away));
            assert!(!page.cell.load().is_in_transit());
        });
    }
}
