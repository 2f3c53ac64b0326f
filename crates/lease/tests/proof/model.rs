//! Invariants of every state, whichever process dies and whichever connection breaks.
//!
//! Each step consumes something that is never given back (a want, a life, a message, a connection),
//! so there are no cycles: a run that never gets stuck ends. The numbers of states are pinned; a change of the protocol
//! changes them: then look at why.

use std::collections::BTreeSet;

use rackmem_lease::borrowing::{Action as Outcome, State as Block};
use rackmem_lease::messages::Request;
use rackmem_lease::placement::LEASE_BYTES;
use rackmem_lease::quota::Account;
use rackmem_rmc::amt::State as Mapped;
use stateright::{Checker, Model, Property};

use crate::world::{Conn, End, Message, World};

#[derive(Clone, Debug)]
struct Case {
    borrowers: usize,
    /// Of each lender.
    sizes: Vec<u64>,
    /// Bytes that every borrower wants.
    wants: u64,
    copies: u32,
    /// Processes that may die; one of them does.
    mortals: Vec<End>,
    deaths: u8,
    breaks: u8,
    time_outs: u8,
    leaves: bool,
    memory_may_fail: bool,
    resumes: bool,
    /// Most bytes that the borrowers may have, which are of one node.
    quota: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    deaths: u8,
    breaks: u8,
    time_outs: u8,
    left: bool,
    closed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Want(usize),
    Release(usize),
    Deliver(Conn, usize),
    Notice(Conn, usize),
    Made(usize, u64, bool),
    Expire(usize, u64),
    ReportAnew(usize),
    TakeOver,
    Leave,
    EndOfGrace,
    Kill(End),
    Break(Conn),
    TimeOut(usize, usize),
}

impl Case {
    fn account(&self) -> Option<Account> {
        self.quota.map(|max| Account { node: 0, max_bytes: Some(max) })
    }

    /// Actions that happen by themselves sooner or later.
    fn progress(&self, state: &State) -> Vec<Action> {
        let world = &state.world;
        let mut actions = Vec::new();
        for (number, borrower) in world.borrowers.iter().enumerate().filter(|(_, b)| b.lives) {
            if !borrower.has_wanted {
                actions.push(Action::Want(number));
            }
            if borrower.outcome == Some(Outcome::Borrowed) && !borrower.has_released {
                actions.push(Action::Release(number));
            }
        }
        for (&conn, ways) in &world.conns {
            for (direction, way) in ways.iter().enumerate().filter(|(_, way)| !way.is_deaf) {
                if !way.messages.is_empty() {
                    actions.push(Action::Deliver(conn, direction));
                } else if way.is_ended {
                    actions.push(Action::Notice(conn, direction));
                }
            }
        }
        for (number, lender) in world.lenders.iter().enumerate().filter(|(_, l)| l.lives) {
            for &base in &lender.making {
                actions.push(Action::Made(number, base, true));
                if self.memory_may_fail {
                    actions.push(Action::Made(number, base, false));
                }
            }
            actions.extend(lender.orphans.iter().map(|&base| Action::Expire(number, base)));
            if lender.uplink.is_none() && world.monitor.is_some() {
                actions.push(Action::ReportAnew(number));
            }
        }
        if world.monitor.is_none() {
            actions.push(Action::TakeOver);
        }
        if state.left && !state.closed {
            actions.push(Action::EndOfGrace);
        }
        actions
    }

    fn failures(&self, state: &State, actions: &mut Vec<Action>) {
        let world = &state.world;
        if state.deaths > 0 {
            let lives = |end: &&End| match **end {
                End::Borrower(number) => world.borrowers[number].lives,
                End::Lender(number) => world.lenders[number].lives,
                End::Monitor => world.monitor.is_some(),
            };
            actions.extend(self.mortals.iter().filter(lives).map(|&end| Action::Kill(end)));
        }
        if state.breaks > 0 {
            let whole = world.conns.iter().filter(|(_, ways)| !ways.iter().any(|way| way.is_ended));
            actions.extend(whole.map(|(&conn, _)| Action::Break(conn)));
        }
        if state.time_outs > 0 {
            for (number, borrower) in world.borrowers.iter().enumerate().filter(|(_, b)| b.lives) {
                let blocks = borrower.machine.blocks().iter().enumerate();
                let resumes = |number: usize| {
                    let conn = borrower.blocks.get(number).and_then(|block| block.1);
                    conn.is_some_and(|conn| borrower.resuming.contains(&conn))
                };
                let waits = blocks.filter(|&(number, block)| {
                    matches!(block.state, Block::Pending | Block::Releasing) || resumes(number)
                });
                actions.extend(waits.map(|(block, _)| Action::TimeOut(number, block)));
            }
        }
        if self.leaves && !state.left && world.lenders[0].lives {
            actions.push(Action::Leave);
        }
    }
}

/// Addresses that borrowers can reach: lender, first, bytes, and the connection of the lease.
fn reachable(world: &World) -> Vec<(usize, u64, u64, Option<Conn>)> {
    let mut all = Vec::new();
    for borrower in world.borrowers.iter().filter(|borrower| borrower.lives) {
        for (block, slot) in borrower.slots.iter().enumerate() {
            let copy = borrower.machine.blocks()[block].copy as usize;
            let entry = slot.and_then(|slot| borrower.amts[copy].get(slot));
            if let Some(entry) = entry.filter(|entry| entry.state == Mapped::Active) {
                let conn = borrower.blocks[block].1;
                all.push((
                    usize::from(entry.destination),
                    entry.remote_base,
                    entry.size_bytes,
                    conn,
                ));
            }
        }
    }
    all
}

/// No two borrowers, copies or blocks have an address in common, and no lender lends more than it has.
fn has_one_user(_: &Case, state: &State) -> bool {
    let world = &state.world;
    let all = reachable(world);
    let meets = |a: &(usize, u64, u64, _), b: &(usize, u64, u64, _)| {
        a.0 == b.0 && a.1 < b.1 + b.2 && b.1 < a.1 + a.2
    };
    let apart = all.iter().enumerate().all(|(n, a)| all[n + 1..].iter().all(|b| !meets(a, b)));
    let within = world.lenders.iter().all(|lender| {
        let bytes: u64 = lender.memory.values().sum();
        bytes <= lender.size && lender.pool.leased_bytes() <= lender.size
    });
    apart && within && world.broken.is_none()
}

/// Memory in a borrower's address map exists at the lender, unless the borrower is yet to hear that its connection or
/// lease ended.
fn is_there(_: &Case, state: &State) -> bool {
    let world = &state.world;
    reachable(world).iter().all(|&(lender, base, bytes, conn)| {
        let Some(conn) = conn else { return false };
        let is_ended = world.conns.get(&conn).is_none_or(|ways| {
            let is_asked = world.borrowers.iter().any(|b| b.resuming.contains(&conn));
            is_asked
                || ways[1].is_ended
                || ways[0].messages.contains(&Message::Request(Request::Return))
        });
        let lender = &world.lenders[lender];
        is_ended || lender.lives && lender.memory.get(&base) == Some(&bytes)
    })
}

/// The node of all borrowers has no more than its quota of any lender; and in all, unless the monitor, which counts
/// that, may die.
fn keeps_quota(case: &Case, state: &State) -> bool {
    let Some(most) = case.quota else { return true };
    let leased = state.world.lenders.iter().map(|lender| lender.pool.leased_bytes());
    match case.mortals.contains(&End::Monitor) {
        true => leased.max().is_none_or(|bytes| bytes <= most),
        false => leased.sum::<u64>() <= most,
    }
}

/// When nothing more happens by itself, everybody has ended and nobody has kept anything.
fn ends_empty(case: &Case, state: &State) -> bool {
    if !case.progress(state).is_empty() {
        return true;
    }
    let world = &state.world;
    let borrowers = world.borrowers.iter().filter(|borrower| borrower.lives).all(|borrower| {
        let blocks = borrower.machine.blocks();
        let failed = borrower.outcome == Some(Outcome::Failed);
        (failed || borrower.outcome == Some(Outcome::Released))
            && blocks.iter().all(|block| block.state == Block::Free)
    });
    let lenders = world.lenders.iter().filter(|lender| lender.lives).all(|lender| {
        lender.pool.is_empty() && lender.memory.is_empty() && lender.making.is_empty()
    });
    let monitor = world.monitor.as_ref().is_some_and(|monitor| {
        let living = world.lenders.iter().filter(|lender| lender.lives).count();
        monitor.promises() == 0
            && monitor.listings().len() == living
            && monitor.listings().iter().all(|lender| lender.leases.is_empty())
    });
    let uplinks: BTreeSet<Conn> =
        world.lenders.iter().filter(|l| l.lives).filter_map(|l| l.uplink).collect();
    let conns = world.conns.keys().all(|conn| uplinks.contains(conn));
    reachable(world).is_empty() && borrowers && lenders && monitor && conns
}

fn is_borrowed(_: &Case, state: &State) -> bool {
    state.world.borrowers.iter().any(|b| b.outcome == Some(Outcome::Borrowed))
}

fn is_refused(_: &Case, state: &State) -> bool {
    state.world.borrowers.iter().any(|b| b.outcome == Some(Outcome::Failed))
}

fn all_are_served(_: &Case, state: &State) -> bool {
    state.world.borrowers.iter().all(|b| b.outcome == Some(Outcome::Released))
}

impl Model for Case {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            world: World::new(self.borrowers, &self.sizes, self.resumes, self.account()),
            deaths: self.deaths,
            breaks: self.breaks,
            time_outs: self.time_outs,
            left: false,
            closed: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.progress(state));
        self.failures(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let world = &mut state.world;
        match action {
            Action::Want(number) => world.want(number, self.wants, self.copies),
            Action::Release(number) => world.release(number),
            Action::Deliver(conn, direction) => world.deliver(conn, direction),
            Action::Notice(conn, direction) => world.notice(conn, direction),
            Action::Made(number, user, is_there) => world.made(number, user, is_there),
            Action::Expire(number, base) => world.expire(number, base),
            Action::ReportAnew(number) => world.report_anew(number),
            Action::TakeOver => world.take_over(),
            Action::Leave => {
                state.left = true;
                world.leave(0);
            }
            Action::EndOfGrace => {
                state.closed = true;
                if world.lenders[0].lives {
                    world.end_of_grace(0);
                }
            }
            Action::Kill(end) => {
                state.deaths -= 1;
                world.kill(end);
            }
            Action::Break(conn) => {
                state.breaks -= 1;
                world.break_conn(conn);
            }
            Action::TimeOut(number, block) => {
                state.time_outs -= 1;
                world.time_out(number, block);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a lease has one user", has_one_user),
            Property::always("what can be reached is there", is_there),
            Property::always("a node has no more than it may", keeps_quota),
            Property::always("everybody ends and nothing is kept", ends_empty),
            Property::sometimes("somebody borrows", is_borrowed),
            Property::sometimes("somebody is refused", is_refused),
            Property::sometimes("all are served", all_are_served),
        ]
    }
}

const PAGE: u64 = LEASE_BYTES;

fn case(borrowers: usize, sizes: &[u64], wants: u64) -> Case {
    Case {
        borrowers,
        sizes: sizes.to_vec(),
        wants,
        copies: 1,
        mortals: Vec::new(),
        deaths: 0,
        breaks: 0,
        time_outs: 0,
        leaves: false,
        memory_may_fail: false,
        resumes: false,
        quota: None,
    }
}

fn walk(case: Case, states: usize) {
    let checker = case.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states);
}

#[test]
fn two_borrowers_want_what_one_can_have() {
    walk(case(2, &[PAGE], PAGE), 2_549);
}

#[test]
fn any_process_may_die() {
    let mortals = vec![End::Borrower(0), End::Lender(0), End::Monitor];
    walk(Case { mortals, deaths: 1, ..case(2, &[PAGE], PAGE) }, 36_630);
}

#[test]
fn two_of_three_processes_may_die() {
    let mortals = vec![End::Borrower(0), End::Lender(0), End::Monitor];
    let one = Case { memory_may_fail: true, ..case(1, &[PAGE], PAGE) };
    walk(Case { mortals, deaths: 2, ..one }, 2_160);
}

#[test]
fn any_connection_may_break() {
    walk(Case { breaks: 2, memory_may_fail: true, ..case(1, &[PAGE], PAGE) }, 6_659);
}

#[test]
fn connections_of_rivals_may_break() {
    walk(Case { breaks: 1, ..case(2, &[PAGE], PAGE) }, 126_235);
}

#[test]
fn pieces_come_together_or_not_at_all() {
    let mortals = vec![End::Lender(0), End::Lender(1), End::Monitor];
    let spread = case(1, &[PAGE, 2 * PAGE], 3 * PAGE);
    walk(Case { mortals, deaths: 1, memory_may_fail: true, ..spread }, 16_518);
}

#[test]
fn copies_outlive_each_other() {
    let mortals = vec![End::Lender(0), End::Borrower(0)];
    let twice = Case { copies: 2, ..case(1, &[PAGE, PAGE], PAGE) };
    walk(Case { mortals, deaths: 2, ..twice }, 3_141);
}

#[test]
fn lenders_that_do_not_answer_are_left() {
    walk(Case { time_outs: 2, breaks: 1, ..case(1, &[PAGE, PAGE], 2 * PAGE) }, 77_111);
}

#[test]
fn a_node_stays_within_its_quota() {
    walk(Case { quota: Some(PAGE), ..case(2, &[PAGE, PAGE], PAGE) }, 2_549);
}

#[test]
fn a_lender_keeps_the_quota_when_the_monitor_dies() {
    let mortals = vec![End::Monitor];
    let quota = Case { quota: Some(PAGE), ..case(2, &[2 * PAGE], PAGE) };
    walk(Case { mortals, deaths: 1, ..quota }, 27_787);
}

#[test]
fn a_lender_may_leave_at_any_time() {
    walk(Case { leaves: true, time_outs: 1, ..case(2, &[PAGE], PAGE) }, 59_816);
}

#[test]
fn a_lease_outlives_its_connections() {
    let resumes = Case { resumes: true, memory_may_fail: true, ..case(1, &[PAGE], PAGE) };
    walk(Case { breaks: 3, time_outs: 1, ..resumes }, 116_423);
}

#[test]
fn leases_of_rivals_are_resumed_or_expire() {
    walk(Case { resumes: true, breaks: 1, ..case(2, &[PAGE], PAGE) }, 148_193);
}

#[test]
fn a_lease_is_resumed_while_its_lender_leaves_or_dies() {
    let mortals = vec![End::Lender(0), End::Borrower(0)];
    let resumes = Case { resumes: true, leaves: true, ..case(1, &[PAGE], PAGE) };
    walk(Case { mortals, deaths: 1, breaks: 2, ..resumes }, 299_346);
}
