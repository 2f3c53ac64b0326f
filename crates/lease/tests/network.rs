//! Leases over TCP, on the loopback: the same bytes, secrets, and ends that do not keep to the
//! protocol.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use rackmem::rack::Rack;
use rackmem_fabric::Address;
use rackmem_fabric::net::SILENCE;
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::stranger::Strangers;
use rackmem_fabric::rights::Right;
use rackmem_lease::Error;
use rackmem_lease::agent::{Agent, Config, Event, MonitorAt};
use rackmem_lease::messages::{Party, Piece, Reply, Request, Ticket};
use rackmem_lease::store::packet::{self, HEADER_BYTES, Op};
use rackmem_lease::store::{HeapStore, Lane, MAX_OUTSTANDING, MAX_REQUEST_BYTES, Store};
use rackmem_lease::{Borrowed, Wanted, borrow, ledger};

use support::*;

fn networked(rack: &Rack, pages: u64) -> Config {
    let listen = Some("127.0.0.1:0".to_owned());
    let access = Access::insecure();
    Config { listen, access, ..Config::lender(rack.clone(), pages * PAGE) }
}

/// A lender on the network, and its address.
fn lender(config: Config) -> (Agent, Address) {
    let (agent, events) = listening(config);
    let address = events.lock().unwrap().iter().find_map(|event| match event {
        Event::Listens(address) => Some(address.clone()),
        _ => None,
    });
    (agent, address.expect("it said where it listens"))
}

fn over_network(rack: &Rack, pages: u64) -> Borrowed {
    borrow(&Wanted { only_network: true, ..wanted(rack, pages) }).unwrap()
}

#[test]
fn bytes_travel() {
    let rack = rack();
    let (_lender, _) = lender(networked(&rack, 64));
    let borrowed = over_network(&rack, 32);
    let store = borrowed.store();
    assert!(store.mapped().is_none());
    assert!(!borrowed.state().copies[0].leases[0].is_mapped);
    fill(&*store, 1);
    check(&*store, 1);
    let mut lane = store.lane().unwrap();
    let refused = lane.ask_read(31 * PAGE, 4097).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { .. }));
    lane.read(0, &mut [0]).unwrap();
    borrowed.release().unwrap();
    assert!(lane.read(0, &mut [0]).is_err());
}

/// Both sides have more to send than the kernel holds: a lane must not wait for a lender that waits
/// for it.
#[test]
fn full_pipes_in_both_directions_do_not_wait_for_each_other() {
    let rack = rack();
    let pages = 2 * MAX_REQUEST_BYTES as u64 / PAGE;
    let (_lender, _) = lender(networked(&rack, pages));
    let borrowed = over_network(&rack, pages);
    let mut lane = borrowed.store().lane().unwrap();
    let block = vec![7; MAX_REQUEST_BYTES];
    for _ in 0..MAX_OUTSTANDING / 8 {
        lane.ask_read(0, MAX_REQUEST_BYTES).unwrap();
    }
    lane.push().unwrap();
    for _ in 0..MAX_OUTSTANDING / 8 {
        lane.ask_write(MAX_REQUEST_BYTES as u64, &block).unwrap();
    }
    let mut bytes = vec![1; MAX_REQUEST_BYTES];
    for _ in 0..MAX_OUTSTANDING / 8 {
        lane.take(&mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
    while lane.outstanding() > 0 {
        lane.take(&mut []).unwrap();
    }
    lane.read(MAX_REQUEST_BYTES as u64, &mut bytes).unwrap();
    assert_eq!(bytes, block);
}

#[derive(Clone, Debug)]
enum Ask {
    Read(u64, usize),
    Write(u64, Vec<u8>),
    Discard(u64, u64),
    Push,
    Take,
}

fn ask(size: u64) -> impl Strategy<Value = Ask> {
    let at = move || 0..size;
    prop_oneof![
        4 => (at(), 0_usize..9000).prop_map(|(at, length)| Ask::Read(at, length)),
        4 => (at(), 0_usize..40_000, any::<u8>())
            .prop_map(|(at, length, byte)| Ask::Write(at, vec![byte; length])),
        2 => (at(), 0_u64..20_000).prop_map(|(at, length)| Ask::Discard(at, length)),
        1 => Just(Ask::Push),
        5 => Just(Ask::Take),
    ]
}

/// Does the same to two lanes; their answers must be the same.
fn compare(ours: &mut dyn Lane, theirs: &mut dyn Lane, asks: &[Ask]) {
    let mut lengths = std::collections::VecDeque::new();
    let take = |ours: &mut dyn Lane, theirs: &mut dyn Lane, length: usize| {
        let (mut a, mut b) = (vec![1; length], vec![2; length]);
        until("an answer comes", || ours.is_ready());
        ours.take(&mut a).unwrap();
        theirs.take(&mut b).unwrap();
        assert!(a == b, "answers differ");
    };
    for ask in asks {
        let (a, b, length) = match ask {
            Ask::Read(at, n) => (ours.ask_read(*at, *n), theirs.ask_read(*at, *n), *n),
            Ask::Write(at, bytes) => (ours.ask_write(*at, bytes), theirs.ask_write(*at, bytes), 0),
            Ask::Discard(at, n) => (ours.ask_discard(*at, *n), theirs.ask_discard(*at, *n), 0),
            Ask::Push => {
                ours.push().unwrap();
                continue;
            }
            Ask::Take => {
                if let Some(length) = lengths.pop_front() {
                    take(ours, theirs, length);
                }
                continue;
            }
        };
        assert_eq!(a.is_ok(), b.is_ok(), "{a:?} {b:?}");
        if a.is_ok() {
            lengths.push_back(length);
        }
        assert_eq!(ours.outstanding(), lengths.len());
    }
    while let Some(length) = lengths.pop_front() {
        take(ours, theirs, length);
    }
}

/// All kinds of stores against the one in this process's own memory.
#[test]
fn all_stores_are_alike() {
    let (one, many, copied) = (rack(), rack(), rack());
    let _lenders = [
        lender(networked(&one, 16)),
        lender(networked(&many, 5)),
        lender(networked(&many, 6)),
        lender(networked(&many, 7)),
        lender(networked(&copied, 16)),
        lender(networked(&copied, 16)),
    ];
    let twice = |only_network| Wanted { copies: 2, only_network, ..wanted(&copied, 16) };
    let borrowings = [
        borrow(&wanted(&many, 16)).unwrap(),
        borrow(&twice(false)).unwrap(),
        over_network(&one, 16),
    ];
    let stores: Vec<Arc<dyn Store>> = borrowings.iter().map(Borrowed::store).collect();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    let asks = prop::collection::vec(ask(16 * PAGE), 1..120);
    let same = |stores: &[Arc<dyn Store>], asks: &[Ask]| {
        for store in stores {
            let heap = HeapStore::new(16 * PAGE).unwrap();
            let mut lane = store.lane().unwrap();
            lane.discard(0, 16 * PAGE).unwrap();
            compare(&mut *lane, &mut *heap.lane().unwrap(), asks);
        }
    };
    runner
        .run(&asks, |asks| {
            same(&stores, &asks);
            Ok(())
        })
        .unwrap();
    drop(borrowings);
    let borrowings = [over_network(&many, 16), borrow(&twice(true)).unwrap()];
    let stores: Vec<Arc<dyn Store>> = borrowings.iter().map(Borrowed::store).collect();
    let asks = prop::collection::vec(ask(16 * PAGE), 1..120);
    runner
        .run(&asks, |asks| {
            same(&stores, &asks);
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_secret_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        Proof::read(&path).unwrap()
    };
    let right = file("right", "a secret of all hosts\n");
    let wrong = file("wrong", "a secret of some hosts");
    let here = rack();
    let (_lender, at) =
        lender(Config { access: Access::with_proof(secret()), ..networked(&here, 8) });
    let ask = |secret| ledger(None, Some(&at), secret).map_err(|error| error.to_string());
    assert!(ask(None).unwrap_err().contains("--secret FILE"));
    assert!(ask(Some(wrong)).unwrap_err().contains("another secret"));
    assert_eq!(ask(Some(right.clone())).unwrap().lenders.len(), 1);
    let remote = Wanted {
        monitor: Some(at.clone()),
        proof: Some(right.clone()),
        only_network: true,
        ..Wanted::new(8 * PAGE)
    };
    let borrowed = borrow(&remote).unwrap();
    fill(&*borrowed.store(), 2);
    check(&*borrowed.store(), 2);
    // One that has no secret is no partner of one that has.
    let (_open, open_at) = lender(networked(&rack(), 8));
    let error = ledger(None, Some(&open_at), Some(right)).unwrap_err().to_string();
    assert!(error.contains("was started without --secret"), "{error}");
}

/// Copies what travels between its callers and an address; all of it, of all connections.
fn relay(to: &Address) -> (Address, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    let (to, seen) = (to.to_string(), Arc::new(Mutex::new(Vec::new())));
    let kept = seen.clone();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
            for (from, to) in [(&near, &far), (&far, &near)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let kept = kept.clone();
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(n @ 1..) = from.read(&mut bytes) {
                        kept.lock().unwrap().extend(&bytes[..n]);
                        if to.write_all(&bytes[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (address, seen)
}

/// A monitor for one borrower, which it sends to this lender.
fn monitor_for(lender: Address, secret: Proof) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    std::thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        stream.set_nonblocking(true).unwrap();
        let stranger = Strangers::default().admit(stream.as_fd()).unwrap();
        let mut link = Link::welcome(stream.into(), "it", (Some(&secret), &[]), &stranger).unwrap();
        let Request::Want(want) = link.receive(PATIENCE).unwrap() else { panic!("no want") };
        let (size_bytes, ticket) = (want.size_bytes, Ticket { epoch: 0, number: 0 });
        let (lender, addresses) = (Party::default(), vec![lender]);
        let piece = Piece { lender, addresses, size_bytes, ticket };
        link.send(&Reply::Granted(vec![vec![piece]])).unwrap();
        let _ = link.receive::<Request>(PATIENCE);
    });
    address
}

/// A copy of a connection's bytes shows pages and messages only with `--cleartext`.
#[test]
fn an_eavesdropper_reads_nothing() {
    let text = b"the contents of a page, which are nobody's business";
    for (secret, is_read) in [(secret(), false), (secret().with_cleartext(true), true)] {
        let here = rack();
        let access = Access::with_proof(secret.clone());
        let (_lender, at) = lender(Config { access, ..networked(&here, 8) });
        let (relayed, seen) = relay(&at);
        let monitor = Some(monitor_for(relayed, secret.clone()));
        let wanted = Wanted { monitor, proof: Some(secret), ..Wanted::new(8 * PAGE) };
        let borrowed = borrow(&Wanted { only_network: true, ..wanted }).unwrap();
        let mut lane = borrowed.store().lane().unwrap();
        for page in 0..8 {
            lane.write(page * PAGE + 100, text).unwrap();
        }
        let mut bytes = vec![0; PAGE as usize];
        lane.read(3 * PAGE, &mut bytes).unwrap();
        assert_eq!(&bytes[100..100 + text.len()], text);
        let seen = seen.lock().unwrap();
        let has = |text: &[u8]| seen.windows(text.len()).any(|window| window == text);
        assert!(seen.len() > 8 * text.len(), "something travelled");
        assert_eq!((has(text), has(b"Leased")), (is_read, is_read));
    }
}

#[test]
fn without_a_secret_no_port_is_listened_at() {
    for listen in ["0.0.0.0:0", "127.0.0.1:0", "[::1]:0", "localhost:0"] {
        let listen = Some(listen.to_owned());
        let open = Config { listen, ..Config::lender(rack(), PAGE) };
        let error = Agent::start(open.clone(), |_| {}).err().unwrap().to_string();
        assert!(error.contains("--secret FILE") && error.contains("--insecure"), "{error}");
    }
    drop(lender(networked(&rack(), 1)));
}

#[test]
fn lenders_of_several_hosts_have_one_monitor() {
    // Racks stand for hosts: they do not see each other's sockets.
    let (a, b, c) = (rack(), rack(), rack());
    // Nobody else takes its port there while it is free.
    let listen = || Some("127.0.0.4:0".to_owned());
    let start_monitor = |listen| {
        let access = Access::insecure();
        lender(Config { listen, access, ..Config::monitor(a.clone()) })
    };
    let (monitor, at) = start_monitor(listen());
    let at_monitor = |config| Config { monitor: MonitorAt::Address(at.clone()), ..config };
    let (_first, _) = lender(at_monitor(networked(&b, 8)));
    let (_second, second_at) = lender(at_monitor(networked(&c, 8)));
    let wanted = Wanted { monitor: Some(at.clone()), only_network: true, ..Wanted::new(12 * PAGE) };
    let borrowed = borrow(&wanted).unwrap();
    fill(&*borrowed.store(), 4);
    let leases = || {
        let ledger = ledger(None, Some(&at), None).unwrap();
        ledger.lenders.iter().map(|lender| lender.leases.len()).sum::<usize>()
    };
    until("lenders have told the monitor", || leases() == 2);
    // A lender says where the monitor is.
    assert_eq!(ledger(None, Some(&second_at), None).unwrap().lenders.len(), 2);
    drop(monitor);
    check(&*borrowed.store(), 4);
    let (_monitor, _) = start_monitor(Some(at.to_string()));
    until("lenders have told the new monitor", || leases() == 2);
    check(&*borrowed.store(), 4);
}

/// A lease over the network, by hand: its connection, address and token.
fn lease(at: &Address, bytes: u64) -> (Link, u64, String) {
    let mut link = Link::connect(at, None, SILENCE).unwrap();
    let ticket = Ticket { epoch: 0, number: 0 };
    let borrower = Party::default();
    let purpose = Right::Borrow;
    let lease = Request::Lease { ticket, size_bytes: bytes, borrower, patience_ms: 0, purpose };
    link.send(&lease).unwrap();
    match link.receive(PATIENCE).unwrap() {
        Reply::Leased { base, token, .. } => (link, base, token),
        other => panic!("{other:?}"),
    }
}

/// Numbers lanes: one takes the place of another of its number.
static LANES: AtomicU64 = AtomicU64::new(0);

/// A lane, as a plain socket.
fn lane(at: &Address, base: u64, token: &str) -> Option<TcpStream> {
    let mut link = Link::connect(at, None, SILENCE).unwrap();
    // The borrower's own: those of its children would keep the lease.
    let owner = Party::default().pid;
    let (token, number) = (token.to_owned(), LANES.fetch_add(1, Ordering::Relaxed));
    link.send(&Request::Lane { base, token, owner, number }).unwrap();
    let reply: Reply = link.receive(PATIENCE).unwrap();
    let stream = TcpStream::from(link.into_parts().0);
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    (reply == Reply::LaneOpen).then_some(stream)
}

#[test]
fn a_hostile_borrower_gets_an_end_and_nobody_elses_bytes() {
    let rack = rack();
    let (_lender, at) = lender(networked(&rack, 64));
    let victim = over_network(&rack, 8);
    fill(&*victim.store(), 8);
    let (_lease, base, token) = lease(&at, PAGE);
    assert!(lane(&at, base, "").is_none(), "a wrong token");
    assert!(lane(&at, base - PAGE, &token).is_none(), "another's lease");
    let outside = |op, length, address| packet::Request { op, tag: 5, length, address }.encode();
    for header in [
        outside(Op::Read, 1, base - 1),
        outside(Op::Read, 2, base + PAGE - 1),
        outside(Op::Read, 1, 0),
        outside(Op::Write, 1, base + PAGE),
        outside(Op::Discard, u64::MAX, base),
        outside(Op::Discard, 1, u64::MAX),
        outside(Op::Read, u64::MAX, base),
        [255; HEADER_BYTES],
        [0; HEADER_BYTES],
    ] {
        let mut lane = lane(&at, base, &token).unwrap();
        lane.write_all(&header).unwrap();
        let mut answer = Vec::new();
        let _ = lane.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == packet::Status::OutOfRange as u8, "{answer:?}");
        assert!(answer.len() <= HEADER_BYTES);
    }
    check(&*victim.store(), 8);
}

#[test]
fn noise_ends_connections_and_nothing_else() {
    let rack = rack();
    let (_lender, at) = lender(networked(&rack, 64));
    let victim = over_network(&rack, 8);
    fill(&*victim.store(), 8);
    let (_lease, base, token) = lease(&at, PAGE);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(64));
    let noise = prop::collection::vec(any::<u8>(), 1..400);
    runner
        .run(&noise, |noise| {
            let mut control = TcpStream::connect(at.to_string()).unwrap();
            let _ = control.write_all(&noise);
            let mut lane = lane(&at, base, &token).unwrap();
            let _ = lane.write_all(&noise);
            Ok(())
        })
        .unwrap();
    // Well-formed messages in the wrong place.
    let lane = Request::Lane { base, token: String::new(), owner: 1, number: 0 };
    let fence = Request::Fence { base, token: String::new(), owner: 1 };
    let resume = Request::Resume { base, token: String::new() };
    for request in [Request::Return, Request::Ended(base), lane, fence, resume] {
        Link::connect(&at, None, SILENCE).unwrap().send(&request).unwrap();
    }
    check(&*victim.store(), 8);
    let state = victim.state();
    assert!(!state.is_lost);
}

/// A borrower that turns the connection of its lease into a lane has not got a lease for ever.
#[test]
fn a_connection_that_becomes_a_lane_gives_its_lease_back() {
    let rack = rack();
    let (_lender, at) = lender(networked(&rack, 8));
    let (mut link, base, token) = lease(&at, PAGE);
    let pages = || leased(&rack)[0].1;
    assert_eq!(pages(), 1);
    link.send(&Request::Lane { base, token, owner: Party::default().pid, number: 0 }).unwrap();
    until("the lease has ended", || pages() == 0);
}

#[test]
fn a_lease_has_whole_pages() {
    let rack = rack();
    let (_lender, at) = lender(networked(&rack, 8));
    let mut link = Link::connect(&at, None, SILENCE).unwrap();
    let (ticket, borrower) = (Ticket { epoch: 0, number: 0 }, Party::default());
    let (size_bytes, purpose) = (PAGE + 14, Right::Borrow);
    let lease = Request::Lease { ticket, size_bytes, borrower, patience_ms: 0, purpose };
    link.send(&lease).unwrap();
    let reply = link.receive(PATIENCE).unwrap();
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("whole pages")), "{reply:?}");
}

/// A process that listens as a monitor and lender, and answers `reply` to everything.
fn impostor(greets: bool, reply: Vec<u8>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    std::thread::spawn(move || {
        for stream in listener.incoming().take(64) {
            let mut stream = stream.unwrap();
            if greets {
                let _ = greet(&mut stream, None);
            }
            let _ = stream.write_all(&reply);
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    address
}

#[test]
fn a_hostile_monitor_gets_an_error() {
    let framed = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let hello_of_version_2 = framed(r#"{"version":2,"nonce":null}"#);
    for (number, reply) in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        hello_of_version_2,
        vec![255; 64],
        framed("\"LaneOpen\""),
        framed("{\"Granted\":[]}"),
        framed("{\"Granted\":[[]]}"),
        framed("{\"Granted\":[[],[],[]]}"),
        framed("{\"Leased\":{\"base\":0,\"size_bytes\":1,\"token\":\"\"}}"),
        framed(&granted(&[piece("", u64::MAX), piece("", 4097)])),
    ]
    .into_iter()
    .enumerate()
    {
        let greets = number > 1;
        let monitor = Some(impostor(greets, reply));
        let error = borrow(&Wanted { monitor, ..Wanted::new(PAGE) }).unwrap_err().to_string();
        let is_version = error.contains("use the same version of rackmem on all hosts");
        assert!(greets || is_version, "{error}");
        assert!(!error.is_empty());
    }
}

/// A monitor's answer: one copy, of these pieces.
fn granted(pieces: &[String]) -> String {
    format!(r#"{{"Granted":[[{}]]}}"#, pieces.join(","))
}

/// A piece of a lender that has no name. The addresses are in quotes and between commas.
fn piece(addresses: &str, size_bytes: u64) -> String {
    let lender = r#"{"name":"","host":"","host_id":"","pid":0}"#;
    let ticket = r#"{"epoch":0,"number":0}"#;
    format!(
        r#"{{"lender":{lender},"addresses":[{addresses}],"size_bytes":{size_bytes},"ticket":{ticket}}}"#
    )
}

#[test]
fn noise_from_a_lender_breaks_the_lane_and_nothing_else() {
    let frame = |text: &str| {
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes
    };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(32));
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    runner
        .run(&noise, |noise| {
            // Monitor, lender and lane of the same connectionful of lies.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = listener.local_addr().unwrap();
            let piece = granted(&[piece(&format!("\"{at}\""), 8192)]);
            let leased = r#"{"Leased":{"base":1,"size_bytes":8192,"token":"t"}}"#;
            let liar = std::thread::spawn(move || {
                let mut open = Vec::new();
                for reply in [piece.as_str(), leased, "\"LaneOpen\""] {
                    let (mut stream, _) = listener.accept().unwrap();
                    let asked = greet(&mut stream, None).unwrap();
                    if asked.is_empty() {
                        let _ = stream.read(&mut [0; 4096]);
                    }
                    stream.write_all(&frame(reply)).unwrap();
                    open.push(stream);
                }
                let mut lane = open.pop().unwrap();
                let mut bytes = [0; HEADER_BYTES];
                let _ = lane.read_exact(&mut bytes);
                let _ = lane.write_all(&noise);
                drop(open);
            });
            let monitor = Some(Address::Tcp(at.to_string()));
            let borrowed = borrow(&Wanted { monitor, ..Wanted::new(2 * PAGE) }).unwrap();
            let store = borrowed.store();
            let mut lane = store.lane().unwrap();
            let error = lane.read(0, &mut [0; 64]).unwrap_err();
            assert!(matches!(error, Error::Lost { .. }), "{error}");
            assert!(lane.read(0, &mut [0; 64]).is_err() && store.check().is_err());
            liar.join().unwrap();
            Ok(())
        })
        .unwrap();
}
