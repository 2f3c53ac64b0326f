//! Leases on one host: who gets what, and what happens at each end.

mod support;

use std::time::Duration;

use rackmem_borrow::Error;
use rackmem_borrow::agent::{Agent, Config, Event};
use rackmem_borrow::lease::borrow;

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
    assert!(store.lane().is_err());
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
    lender.join();
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
    lender.join();
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
