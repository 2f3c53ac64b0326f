//! Nodes with keys: each may do what its rights say, and holds no more than its quota.

mod support;

use std::path::Path;
use std::sync::Mutex;

use rackmem_fabric::Address;
use rackmem_fabric::credentials::Credentials;
use rackmem_fabric::keys::PrivateKey;
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::{Member, Proof};
use rackmem_fabric::rights::{Right, Rights};
use rackmem_lease::agent::{Agent, Config, Event, MonitorAt};
use rackmem_lease::messages::{Party, Reply, Request, Ticket};
use rackmem_lease::{Borrowed, Wanted, borrow, ledger};

use support::*;

/// Most pages that the borrower may have.
const QUOTA_PAGES: u64 = 8;

const LENDER: u16 = 0;
const BORROWER: u16 = 1;
const DEVICE: u16 = 2;
const OTHER_LENDER: u16 = 3;
const OUTSIDER: u16 = 4;

/// The proof of a node.
fn node(own: u16) -> Proof {
    let rights: [&[Right]; 5] = [
        &[Right::Lend, Right::Monitor],
        &[Right::Borrow],
        &[Right::Blk],
        &[Right::Lend],
        &[Right::Context, Right::Nic],
    ];
    let key = |nid: u16| PrivateKey::from_random([nid as u8 + 1; 32]);
    let member = |(nid, rights): (usize, &[Right])| Member {
        rights: rights.iter().copied().collect::<Rights>(),
        max_borrowed_bytes: (nid == usize::from(BORROWER)).then_some(QUOTA_PAGES * PAGE),
    };
    let members = rights.into_iter().enumerate().map(member).collect();
    let peers = (0..5).map(|nid| key(nid).public()).collect();
    let credentials = Credentials::Keys { own: key(own), peers, secret: None };
    Proof::of(credentials, members, Path::new("/etc/rackmem/lab.toml"))
}

/// An agent of a node, on a rack of its own as on a host of its own, and its address.
fn start_at(own: u16, config: Config) -> (Agent, Address) {
    let (listen, access) = (Some("127.0.0.1:0".to_owned()), Access::with_proof(node(own)));
    let (agent, events) = listening(Config { listen, access, ..config });
    (agent, listens_at(&events))
}

fn listens_at(events: &Mutex<Vec<Event>>) -> Address {
    let events = events.lock().unwrap();
    let address = events.iter().find_map(|event| match event {
        Event::Listens(address) => Some(address.clone()),
        _ => None,
    });
    address.expect("it said where it listens")
}

/// A request of a node to a monitor.
fn wanted_by(own: u16, monitor: &Address, pages: u64) -> Wanted {
    let (monitor, proof) = (Some(monitor.clone()), Some(node(own)));
    Wanted { monitor, proof, only_network: true, ..Wanted::new(pages * PAGE) }
}

fn refused(outcome: Result<Borrowed, rackmem_lease::Error>) -> String {
    outcome.expect_err("it is refused").to_string()
}

#[test]
fn memory_is_leased_to_nodes_with_the_right() {
    let (_lender, at) = start_at(LENDER, Config::lender(rack(), 64 * PAGE));
    let borrowed = borrow(&wanted_by(BORROWER, &at, 4)).unwrap();
    fill(&*borrowed.store(), 3);
    check(&*borrowed.store(), 3);
    let as_device = |own| Wanted { purpose: Right::Blk, ..wanted_by(own, &at, 1) };
    let why = refused(borrow(&as_device(BORROWER)));
    assert!(why.contains("node 1 does not have the right 'blk'"), "{why}");
    assert!(why.contains("/etc/rackmem/lab.toml"), "{why}");
    drop(borrow(&as_device(DEVICE)).unwrap());
    for other in [DEVICE, OTHER_LENDER] {
        let why = refused(borrow(&wanted_by(other, &at, 1)));
        assert!(why.contains(&format!("node {other} does not have the right 'borrow'")), "{why}");
    }
    // The ledger is for those that have part in it.
    let ask = |own| ledger(None, Some(&at), Some(node(own)));
    let why = ask(OUTSIDER).unwrap_err().to_string();
    assert!(why.contains("node 4 does not have the right 'lend' or 'borrow'"), "{why}");
    let known = ask(OTHER_LENDER).unwrap();
    assert_eq!(known.lenders[0].offer.node, Some(LENDER));
    assert_eq!(known.lenders[0].leases[0].node, Some(BORROWER));
}

#[test]
fn lenders_and_monitors_need_their_rights() {
    let (_lender, at) = start_at(LENDER, Config::lender(rack(), 8 * PAGE));
    let at_monitor = |own, at: &Address| Config {
        monitor: MonitorAt::Address(at.clone()),
        access: Access::with_proof(node(own)),
        listen: Some("127.0.0.1:0".to_owned()),
        ..Config::lender(rack(), 8 * PAGE)
    };
    let refusal = |config| Agent::start(config, |_| {}).err().expect("it is refused").to_string();
    let why = refusal(at_monitor(BORROWER, &at));
    assert!(why.contains("node 1 does not have the right 'lend'"), "{why}");
    drop(start_at(OTHER_LENDER, at_monitor(OTHER_LENDER, &at)));
    let (_monitor, false_at) = start_at(OTHER_LENDER, Config::monitor(rack()));
    let expected = "is not used: node 3 does not have the right 'monitor'";
    let why = refusal(at_monitor(LENDER, &false_at));
    assert!(why.contains(expected), "{why}");
    let why = refused(borrow(&wanted_by(BORROWER, &false_at, 1)));
    assert!(why.contains(expected), "{why}");
}

#[test]
fn a_node_holds_no_more_than_its_quota() {
    let (_lender, at) = start_at(LENDER, Config::lender(rack(), 64 * PAGE));
    let (_other, _) = start_at(
        OTHER_LENDER,
        Config { monitor: MonitorAt::Address(at.clone()), ..Config::lender(rack(), 64 * PAGE) },
    );
    let first = borrow(&wanted_by(BORROWER, &at, QUOTA_PAGES / 2)).unwrap();
    let why = refused(borrow(&Wanted { copies: 2, ..wanted_by(BORROWER, &at, 3) }));
    assert!(why.contains("node 1 may borrow 32K in all, has 16K and wants 24K more"), "{why}");
    let second = borrow(&wanted_by(BORROWER, &at, QUOTA_PAGES / 2)).unwrap();
    assert!(refused(borrow(&wanted_by(BORROWER, &at, 1))).contains("has 32K and wants 4K more"));
    drop(borrow(&Wanted { purpose: Right::Blk, ..wanted_by(DEVICE, &at, 16) }).unwrap());
    first.release().unwrap();
    // The lender has reported the end before it answered.
    let third = borrow(&wanted_by(BORROWER, &at, 2)).unwrap();
    drop((second, third));
}

#[test]
fn a_lender_refuses_what_the_monitor_did_not_decide() {
    let (_lender, at) = start_at(LENDER, Config::lender(rack(), 64 * PAGE));
    let ask = |own, pages: u64| {
        let mut link = Link::connect(&at, Some(&node(own)), PATIENCE).unwrap();
        let (ticket, borrower) = (Ticket { epoch: 0, number: 0 }, Party::default());
        let (size_bytes, purpose) = (pages * PAGE, Right::Borrow);
        let lease = Request::Lease { ticket, size_bytes, borrower, patience_ms: 0, purpose };
        link.send(&lease).unwrap();
        (link.receive::<Reply>(PATIENCE).unwrap(), link)
    };
    let (kept, _link) = ask(BORROWER, QUOTA_PAGES - 1);
    assert!(matches!(kept, Reply::Leased { .. }), "{kept:?}");
    let (reply, _) = ask(BORROWER, 2);
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("may borrow 32K")), "{reply:?}");
    let (reply, _) = ask(OTHER_LENDER, 1);
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("'borrow'")), "{reply:?}");
}
