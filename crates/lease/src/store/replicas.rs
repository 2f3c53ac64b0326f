//! States of the copies of a borrowing: readable, behind or lost, and the jobs that make it whole again.
//!
//! ```text
//!            lease made             synchronised            lender silent
//!   Empty ──▶ Leasing ──▶ Joining ───────────────▶ Live ─────────────────▶ Away
//!     ▲                      ▲  └──── lender silent ──▶ Away     │            │
//!     │                      └──────── lender is back ───────────┼────────────┘
//!     └──────────────── lender dead, or copy replaced ───────────┘
//! ```
//!
//! A `Live` copy has every write that was acknowledged. A write is acknowledged by all `Live` copies, or by those that
//! are left of them; pages that `Away` and `Joining` copies miss are noted and copied before they are `Live`. There is
//! always a `Live` copy, or one that has missed nothing, until the last one is lost.
//!
//! A pure state machine: [`super::mirror`] runs it for threads that read and write, the keeper of a borrowing carries
//! out its jobs, and a simulated world runs it under seeded faults.

use serde::Serialize;

/// Copies that a borrowing has at a time, those included that replace others.
pub const MAX_MEMBERS: usize = 8;

/// State of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// There is none.
    Empty,
    /// Lenders are being asked for it.
    Leasing,
    /// The synchroniser writes it, and it misses the writes of others.
    Joining,
    /// It has every acknowledged write.
    Live,
    /// Its lender does not answer, and it misses writes.
    Away,
}

/// Consequence of a failure of a copy's lane for the thread that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Others have the bytes: go on without it.
    WithoutIt,
    /// It is the last one: wait until it answers again.
    Wait,
}

/// A job of the keeper of a borrowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Lease memory for a further copy, to be this member.
    Lease(usize),
    /// See whether the lender answers again.
    Rejoin(usize),
    /// Copy the pages that the member misses.
    Synchronise(usize),
    /// Give the member's memory back: another has taken its place.
    Retire(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Member {
    state: State,
    /// Its lender wants the memory back.
    is_leaving: bool,
    /// It has been away for so long that another copy is to take its place.
    is_overdue: bool,
}

const NOBODY: Member = Member { state: State::Empty, is_leaving: false, is_overdue: false };

/// The copies of a borrowing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replicas {
    members: [Member; MAX_MEMBERS],
    wanted: usize,
}

impl Replicas {
    /// `wanted` copies, all `Live`.
    ///
    /// # Panics
    /// More than half of [`MAX_MEMBERS`], which leaves no room to replace all of them.
    pub fn new(wanted: usize) -> Replicas {
        assert!((1..=MAX_MEMBERS / 2).contains(&wanted), "one to {} copies", MAX_MEMBERS / 2);
        let mut members = [NOBODY; MAX_MEMBERS];
        members[..wanted].iter_mut().for_each(|member| member.state = State::Live);
        Replicas { members, wanted }
    }

    /// State of a member.
    pub fn state(&self, member: usize) -> State {
        self.members[member].state
    }

    /// Members in this state.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = usize> + '_ {
        (0..MAX_MEMBERS).filter(move |&member| self.state(member) == state)
    }

    /// Members in this state as bits.
    pub fn mask(&self, state: State) -> u32 {
        self.in_state(state).fold(0, |mask, member| mask | 1 << member)
    }

    /// Number of copies that are wanted.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether fewer `Live` copies are there than wanted.
    pub fn is_degraded(&self) -> bool {
        self.in_state(State::Live).count() < self.wanted
    }

    /// Whether no copy has all acknowledged writes. `is_whole` says whether a member has missed none.
    pub fn is_lost(&self, is_whole: impl Fn(usize) -> bool) -> bool {
        let is_there = |state| matches!(state, State::Joining | State::Away);
        !(0..MAX_MEMBERS).any(|member| {
            let state = self.state(member);
            state == State::Live || is_there(state) && is_whole(member)
        })
    }

    /// A lane to a member failed, or did not answer.
    pub fn failed(&mut self, member: usize) -> Verdict {
        match self.state(member) {
            State::Live if self.in_state(State::Live).count() == 1 => Verdict::Wait,
            State::Live | State::Joining => {
                self.members[member].state = State::Away;
                Verdict::WithoutIt
            }
            _ => Verdict::WithoutIt,
        }
    }

    /// A member's memory is gone.
    pub fn lost(&mut self, member: usize) {
        self.members[member] = NOBODY;
    }

    /// The lender wants a member's memory back.
    pub fn leaves(&mut self, member: usize) {
        if self.state(member) != State::Empty {
            self.members[member].is_leaving = true;
        }
    }

    /// A member has been away for long: another is to take its place, unless it comes back before.
    pub fn is_overdue(&mut self, member: usize) {
        if self.state(member) == State::Away {
            self.members[member].is_overdue = true;
        }
    }

    /// Lenders are being asked for a further copy.
    pub fn leasing(&mut self, member: usize) {
        debug_assert_eq!(self.state(member), State::Empty);
        self.members[member].state = State::Leasing;
    }

    /// A further copy's memory is there, or is not to be had.
    pub fn leased(&mut self, member: usize, is_there: bool) {
        if self.state(member) == State::Leasing {
            self.members[member].state = if is_there { State::Joining } else { State::Empty };
        }
    }

    /// The lender of a member that was away answers, and nothing that was asked of it before has any effect from here.
    pub fn rejoined(&mut self, member: usize) {
        if self.state(member) == State::Away {
            self.members[member].state = State::Joining;
        }
    }

    /// A member misses nothing, and nobody writes.
    pub fn synchronised(&mut self, member: usize) {
        if self.state(member) == State::Joining {
            self.members[member].state = State::Live;
            self.members[member].is_overdue = false;
        }
    }

    /// Jobs that the state of the copies asks for, the most urgent first.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        let stays = |member: &Member| !member.is_leaving && !member.is_overdue;
        let staying = |state: &[State]| {
            self.members.iter().filter(|m| state.contains(&m.state) && stays(m)).count()
        };
        let live = staying(&[State::Live]);
        for (number, member) in self.members.iter().enumerate() {
            let is_spare = live >= self.wanted && member.state != State::Empty;
            match member.state {
                State::Live | State::Away | State::Joining if is_spare && !stays(member) => {
                    jobs.push(Job::Retire(number));
                }
                State::Joining => jobs.push(Job::Synchronise(number)),
                State::Away => jobs.push(Job::Rejoin(number)),
                _ => {}
            }
        }
        let coming = staying(&[State::Live, State::Joining, State::Away, State::Leasing]);
        if coming < self.wanted {
            jobs.extend(self.in_state(State::Empty).next().map(Job::Lease));
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_copy_is_waited_for() {
        let mut replicas = Replicas::new(2);
        assert_eq!(replicas.failed(0), Verdict::WithoutIt);
        assert_eq!(replicas.failed(1), Verdict::Wait);
        assert_eq!(replicas.jobs(), [Job::Rejoin(0)]);
        replicas.rejoined(0);
        assert_eq!(replicas.jobs(), [Job::Synchronise(0)]);
        replicas.synchronised(0);
        assert!(replicas.jobs().is_empty() && !replicas.is_degraded());
    }

    #[test]
    fn a_copy_that_is_lost_is_made_anew() {
        let mut replicas = Replicas::new(2);
        replicas.lost(0);
        assert!(replicas.is_degraded() && !replicas.is_lost(|_| false));
        assert_eq!(replicas.jobs(), [Job::Lease(0)]);
        replicas.leasing(0);
        assert!(replicas.jobs().is_empty());
        replicas.leased(0, true);
        replicas.lost(1);
        assert!(replicas.is_lost(|_| false), "the new one has not everything yet");
    }

    #[test]
    fn a_lender_that_leaves_is_replaced_before_it_goes() {
        let mut replicas = Replicas::new(1);
        replicas.leaves(0);
        assert_eq!(replicas.jobs(), [Job::Lease(1)]);
        replicas.leasing(1);
        replicas.leased(1, true);
        assert_eq!(replicas.jobs(), [Job::Synchronise(1)]);
        replicas.synchronised(1);
        assert_eq!(replicas.jobs(), [Job::Retire(0)]);
        replicas.lost(0);
        assert!(replicas.jobs().is_empty() && !replicas.is_degraded());
    }

    #[test]
    fn a_copy_that_is_back_in_time_stays() {
        let mut replicas = Replicas::new(2);
        replicas.failed(1);
        replicas.is_overdue(1);
        assert_eq!(replicas.jobs(), [Job::Rejoin(1), Job::Lease(2)]);
        replicas.rejoined(1);
        replicas.synchronised(1);
        assert!(replicas.jobs().is_empty());
    }

    #[test]
    fn a_copy_that_missed_nothing_takes_the_place_of_the_last() {
        let mut replicas = Replicas::new(2);
        replicas.failed(0);
        replicas.lost(1);
        assert!(!replicas.is_lost(|member| member == 0));
        assert!(replicas.is_lost(|_| false));
    }
}
