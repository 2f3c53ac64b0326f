//! Leases on one host: the shares of borrowers and lenders, and each way in which a lease ends.

mod support;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rackmem::rack::Rack;
use rackmem_fabric::net::access::Access;
use rackmem_lease::Error;
use rackmem_lease::agent::{Agent, Config, Event};
use rackmem_lease::{Wanted, borrow};

use support::*;

#[test]
fn memory_is_borrowed_used_and_given_back() {
    let rack = rack();
    let lender = lend(&rack, "a", 64);
    let borrowed = borrow(&wanted(&rack, 16)).unwrap();
    let store = borrowed.store();
    assert_eq!(store.size_bytes(), 16 * PAGE);
    fill(&*store, 3);
    check(&*store, 3);
    let mapped = store.mapped().unwrap();
    // SAFETY: the store lives, and nobody writes.
    assert_eq!(unsafe { mapped.add(5 * PAGE as usize).read() }, 8);
    assert_eq!(leased(&rack), [("a".to_owned(), 16)]);
    let state = borrowed.state();
    assert!(!state.is_lost && !state.is_degraded && state.copies[0].leases[0].is_mapped);
    borrowed.release().unwrap();
    assert_eq!(leased(&rack), [("a".to_owned(), 0)]);
    assert!(matches!(store.check(), Err(Error::Lost { .. })));
    assert!(store.lane().unwrap().read(0, &mut [0]).is_err());
    drop(lender);
    assert!(!directory(&rack).exists());
}

#[test]
fn the_next_borrower_sees_nothing_of_the_last() {
    let rack = rack();
    let _lender = lend(&rack, "a", 16);
    for round in 1..5 {
        let borrowed = borrow(&wanted(&rack, 16)).unwrap();
        let mut bytes = [1; PAGE as usize];
        let store = borrowed.store();
        let mut lane = store.lane().unwrap();
        for page in 0..16 {
            lane.read(page * PAGE, &mut bytes).unwrap();
            assert_eq!(bytes, [0; PAGE as usize], "round {round}, page {page}");
        }
        fill(&*store, round);
    }
}

#[test]
fn several_lenders_lend_together() {
    let rack = rack();
    let _lenders = [lend(&rack, "a", 10), lend(&rack, "b", 8), lend(&rack, "c", 6)];
    let borrowed = borrow(&wanted(&rack, 20)).unwrap();
    assert_eq!(borrowed.state().copies[0].leases.len(), 3);
    let store = borrowed.store();
    assert!(store.mapped().is_some());
    fill(&*store, 7);
    check(&*store, 7);
    // Across the borders of leases, and out of the end.
    let mut lane = store.lane().unwrap();
    let mut bytes = vec![0; 11 * PAGE as usize];
    lane.read(9 * PAGE, &mut bytes).unwrap();
    assert_eq!(bytes[PAGE as usize - 1..][..2], [16, 17]);
    lane.discard(9 * PAGE + 1, 10 * PAGE).unwrap();
    lane.read(9 * PAGE, &mut bytes[..2]).unwrap();
    assert_eq!(bytes[..2], [16, 0]);
    assert!(matches!(lane.ask_read(20 * PAGE - 1, 2), Err(Error::OutOfRange { .. })));
    assert_eq!(leased(&rack).iter().map(|(_, pages)| pages).sum::<u64>(), 20);
}

#[test]
fn errors_teach() {
    let rack = rack();
    let nobody = borrow(&wanted(&rack, 1)).unwrap_err().to_string();
    assert!(nobody.contains("`rackmem lend 2G`"), "{nobody}");
    let _lenders = [lend(&rack, "a", 200 << 8), lend(&rack, "b", 100 << 8)];
    let much = borrow(&wanted(&rack, 512 << 8)).unwrap_err().to_string();
    assert!(
        much.contains("512M wanted; 2 lenders offer 300M in all, the largest piece is 200M"),
        "{much}"
    );
    let mut copies = wanted(&rack, 150 << 8);
    copies.copies = 2;
    let copies = borrow(&copies).unwrap_err().to_string();
    assert!(copies.contains("for copy 2 1 lender offers 100M"), "{copies}");
    let lie = Agent::start(Config::lender(rack.clone(), 1 << 50), |_| {}).err().unwrap();
    assert!(lie.to_string().contains("MemAvailable"), "{lie}");
    let second = Agent::start(Config::monitor(rack.clone()), |_| {}).err().unwrap();
    assert!(second.to_string().contains("another process already"), "{second}");
}

#[test]
fn a_lender_that_dies_is_noticed() {
    let rack = rack();
    let lender = lend(&rack, "a", 8);
    let borrowed = borrow(&wanted(&rack, 8)).unwrap();
    let store = borrowed.store();
    let mut lane = store.lane().unwrap();
    lane.write(0, &[1]).unwrap();
    drop(lender);
    until("the loss is noticed", || store.check().is_err());
    let error = lane.read(0, &mut [0]).unwrap_err();
    assert!(matches!(error, Error::Lost { .. }));
    assert!(error.to_string().contains("lender a"), "{error}");
    assert!(borrowed.state().is_lost);
}

#[test]
fn of_two_copies_one_may_be_lost() {
    let rack = rack();
    let (first, _second) = (lend(&rack, "a", 9), lend(&rack, "b", 8));
    let borrowed = {
        let mut wanted = wanted(&rack, 8);
        wanted.copies = 2;
        borrow(&wanted).unwrap()
    };
    let store = borrowed.store();
    assert!(store.mapped().is_none());
    fill(&*store, 9);
    let mut lane = store.lane().unwrap();
    lane.ask_read(0, 4096).unwrap();
    lane.ask_write(PAGE, &[1; 4096]).unwrap();
    lane.ask_read(PAGE, 4096).unwrap();
    assert_eq!(leased(&rack), [("a".to_owned(), 8), ("b".to_owned(), 8)]);
    drop(first);
    until("the loss is noticed", || borrowed.state().is_degraded);
    let mut bytes = [0; 4096];
    lane.take(&mut bytes).unwrap();
    assert_eq!(bytes, [9; 4096]);
    lane.take(&mut []).unwrap();
    lane.take(&mut bytes).unwrap();
    assert_eq!(bytes, [1; 4096]);
    lane.write(PAGE, &[10; 4096]).unwrap();
    check(&*store, 9);
    assert!(!borrowed.state().is_lost);
}

#[test]
fn a_lender_that_leaves_gives_grace() {
    let rack = rack();
    let grace = Duration::from_millis(300);
    let (lender, events) = listening(Config { grace, ..Config::lender(rack.clone(), 8 * PAGE) });
    let borrowed = borrow(&wanted(&rack, 4)).unwrap();
    let store = borrowed.store();
    lender.leave();
    until("the borrower is told", || borrowed.state().copies[0].leases[0].notice_ms.is_some());
    let full = borrow(&wanted(&rack, 1)).unwrap_err();
    assert!(full.to_string().contains("rackmem lend"), "{full}");
    until("the grace is over", || store.check().is_err());
    has_ended(lender);
    assert!(events.lock().unwrap().iter().any(|event| matches!(event, Event::Leased(..))));
    assert!(!directory(&rack).exists());
}

#[test]
fn leaving_ends_with_the_last_lease() {
    let rack = rack();
    let lender = start(Config { grace: PATIENCE, ..Config::lender(rack.clone(), 8 * PAGE) });
    let borrowed = borrow(&wanted(&rack, 4)).unwrap();
    lender.leave();
    borrowed.release().unwrap();
    has_ended(lender);
    assert!(!directory(&rack).exists());
}

#[test]
fn another_lender_becomes_the_monitor_and_nothing_is_forgotten() {
    let rack = rack();
    let first = lend(&rack, "a", 8);
    let _second = lend(&rack, "b", 8);
    let of_second = {
        let all = borrow(&wanted(&rack, 8)).unwrap();
        let both = borrow(&wanted(&rack, 8)).unwrap();
        if all.state().copies[0].leases[0].lender.name == "b" { all } else { both }
    };
    fill(&*of_second.store(), 5);
    drop(first);
    assert_eq!(leased(&rack), [("b".to_owned(), 8)]);
    let full = borrow(&wanted(&rack, 1)).unwrap_err().to_string();
    assert!(full.contains("all that is lent is in use"), "{full}");
    check(&*of_second.store(), 5);
    of_second.release().unwrap();
    borrow(&wanted(&rack, 8)).unwrap();
}

/// Waits until a lender that leaves has ended.
fn has_ended(lender: Agent) {
    until("the lender ends", || lender.has_ended());
}

fn listens_at(events: &[Event]) -> Option<SocketAddr> {
    events.iter().find_map(|event| match event {
        Event::Listens(address) => Some(address.to_string().parse().unwrap()),
        _ => None,
    })
}

/// A lender `a` that is reached by lanes, its address, and a wish for its memory.
fn lender_by_lanes(rack: &Rack) -> (Agent, Option<SocketAddr>, Wanted) {
    let [_, (config, wanted)] = ways(rack);
    let (lender, events) = listening(Config { name: Some("a".to_owned()), ..config });
    let at = listens_at(&events.lock().unwrap());
    (lender, at, wanted)
}

/// A network that forgets connections ends no lease: the borrower proves that it is the same, and goes on.
#[test]
fn a_lease_outlives_its_connections() {
    let rack = rack();
    let (_lender, at, wanted) = lender_by_lanes(&rack);
    let borrowed = borrow(&wanted).unwrap();
    let store = borrowed.store();
    fill(&*store, 4);
    let mut lane = store.lane().unwrap();
    let to_lender = || connections().into_iter().filter(|(_, peer)| Some(*peer) == at);
    for round in 0..5 {
        until("the lease has a connection, and the lane", || {
            to_lender().any(|(fd, _)| !blocks(&fd)) && to_lender().any(|(fd, _)| blocks(&fd))
        });
        to_lender().for_each(|(fd, _)| rustix::net::connect_unspec(&fd).unwrap());
        lane.write(0, &[round]).unwrap();
        let mut bytes = [0; PAGE as usize];
        for page in 1..8 {
            lane.read(page * PAGE, &mut bytes).unwrap();
            assert_eq!(bytes, [4 + page as u8; PAGE as usize], "round {round}, page {page}");
        }
        lane.read(0, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[1]), (round, 4));
    }
    assert!(!borrowed.state().is_lost);
    assert_eq!(leased(&rack), [("a".to_owned(), 8)]);
    borrowed.release().unwrap();
    until("it is given back", || leased(&rack) == [("a".to_owned(), 0)]);
}

/// A borrower that ends while its connection is broken tells the lender over another one.
#[test]
fn a_lease_without_a_connection_is_given_back() {
    let rack = rack();
    let (_lender, at, wanted) = lender_by_lanes(&rack);
    for round in 0..20 {
        let borrowed = borrow(&wanted).unwrap();
        for (fd, _) in connections().into_iter().filter(|(_, peer)| Some(*peer) == at) {
            rustix::net::connect_unspec(&fd).unwrap();
        }
        borrowed.release().unwrap();
        // The lender has answered that it has it: nothing is left to wait for.
        assert_eq!(leased(&rack), [("a".to_owned(), 0)], "round {round}");
    }
}

/// Both ways to the lenders of a rack: by their memory, and by lanes.
fn ways(rack: &Rack) -> [(Config, Wanted); 2] {
    let config = Config { grace: PATIENCE, ..Config::lender(rack.clone(), 8 * PAGE) };
    let listen = Some("127.0.0.1:0".to_owned());
    let network = Config { listen, access: Access::insecure(), ..config.clone() };
    let wanted = wanted(rack, 8);
    [(config, wanted.clone()), (network, Wanted { only_network: true, ..wanted })]
}

#[test]
fn the_only_copy_moves_when_its_lender_leaves() {
    for way in 0..2 {
        let rack = rack();
        let (config, wanted) = ways(&rack)[way].clone();
        let named = |name: &str| Config { name: Some(name.to_owned()), ..config.clone() };
        let mut lender = start(named("a"));
        let borrowed = borrow(&wanted).unwrap();
        let store = borrowed.store();
        let mapped = store.mapped();
        fill(&*store, 9);
        for next in ["b", "c", "d"] {
            let successor = start(named(next));
            lender.leave();
            // It ends when nobody has anything of it any more.
            has_ended(std::mem::replace(&mut lender, successor));
            check(&*store, 9);
            assert_eq!(leased(&rack), [(next.to_owned(), 8)]);
            assert_eq!(store.mapped(), mapped);
            if let Some(base) = mapped {
                // SAFETY: the store lives, and nobody writes.
                assert_eq!(unsafe { base.add(5 * PAGE as usize).read() }, 14);
            }
        }
        assert!(!borrowed.state().is_lost && !borrowed.state().is_degraded);
    }
}

#[test]
fn copies_are_made_anew_while_lenders_end_one_after_the_other() {
    for way in 0..2 {
        let rack = rack();
        let (config, wanted) = ways(&rack)[way].clone();
        let named = |number: usize| Config { name: Some(number.to_string()), ..config.clone() };
        let mut lenders: VecDeque<Agent> = (0..2).map(|number| start(named(number))).collect();
        let borrowed = borrow(&Wanted { copies: 2, ..wanted }).unwrap();
        let store = borrowed.store();
        fill(&*store, 3);
        for number in 2..6 {
            lenders.push_back(start(named(number)));
            let lender = lenders.pop_front().unwrap();
            if number % 2 == 0 {
                lender.leave();
                has_ended(lender);
            } else {
                // As by its death.
                drop(lender);
            }
            check(&*store, 3);
            let pages = |(_, pages): &(String, u64)| *pages;
            until("the two lenders that are left have a copy each", || {
                let state = borrowed.state();
                let is_whole = !state.is_degraded && state.copies.len() == 2;
                is_whole && leased(&rack).iter().map(pages).eq([8, 8])
            });
        }
        check(&*store, 3);
    }
}

/// A child of fork has no thread that hears lenders, and finds the right bytes all the same.
#[test]
fn a_child_reads_what_was_there_when_its_lender_has_ended() {
    let rack = rack();
    let grace = Duration::from_millis(10);
    let lender = start(Config { grace, ..Config::lender(rack.clone(), 8 * PAGE) });
    let borrowed = borrow(&wanted(&rack, 8)).unwrap();
    let store = borrowed.store();
    fill(&*store, 200);
    let mapped = store.mapped().unwrap() as usize;
    let (mut told, mut tell) = UnixStream::pair().unwrap();
    // SAFETY: the child reads a socket and memory, takes no lock that another thread may hold, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut byte = [0];
        let _ = told.read_exact(&mut byte);
        // SAFETY: the mapping stays as long as the store.
        let page =
            |number: usize| unsafe { ((mapped + number * PAGE as usize) as *const u8).read() };
        let is_right = (0..8).all(|number| page(number) == 200_u8.wrapping_add(number as u8));
        let is_over = store.check().is_err();
        // SAFETY: ends the child without its parent's destructors.
        unsafe { libc::_exit(i32::from(!is_right) + 2 * i32::from(!is_over)) };
    }
    lender.leave();
    has_ended(lender);
    tell.write_all(&[1]).unwrap();
    let mut status = 0;
    // SAFETY: waits for the child from above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "1: wrong bytes, 2: it does not know that the lease is over");
}
