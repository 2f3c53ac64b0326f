//! Ends over UDP on this host, in threads and in processes that die.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rackmem_fabric::credentials::Credentials;
use rackmem_fabric::error::Error;
use rackmem_fabric::greeting::GreetingError;
use rackmem_fabric::keys::PrivateKey;
use rackmem_fabric::net::proof::{Member, Proof};
use rackmem_fabric::rights::Right;
use rackmem_fabric::udp::{Faults, LinkListener, LinkStream, Settings};

const PATIENCE: Duration = Duration::from_secs(10);

fn settings() -> Settings {
    Settings { window: 64, dead_after: PATIENCE }
}

fn here() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn secret() -> Arc<Credentials> {
    Arc::new(Credentials::Secret([7; 32]))
}

fn bad(seed: u64) -> Faults {
    Faults {
        seed,
        loss_permille: 50,
        duplication_permille: 50,
        corruption_permille: 50,
        reordering_permille: 50,
        delay: Duration::from_micros(50),
        dies_after: None,
    }
}

/// A link within this process.
fn linked(settings: Settings, faults: Option<Faults>) -> (LinkStream, LinkStream) {
    let mut listener = LinkListener::bind(here(), secret(), settings, faults).unwrap();
    let address = listener.address().unwrap();
    let ask = move || LinkStream::connect(address, &secret(), settings, faults, PATIENCE);
    let asking = thread::spawn(ask);
    let mut answering = listener.accept().unwrap();
    while !asking.is_finished() {
        answering.drive().unwrap();
        answering.wait(Some(Duration::from_millis(1))).unwrap();
    }
    (asking.join().unwrap().unwrap(), answering)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn a_stream_of_bytes_arrives_over_a_bad_wire() {
    let (mut sender, mut receiver) = linked(settings(), Some(bad(11)));
    let sent = bytes(8_000_000);
    let expected = sent.clone();
    let reading = thread::spawn(move || {
        let mut got = vec![0; expected.len()];
        receiver.read_exact(&mut got).unwrap();
        assert!(got == expected, "bytes differ");
        // An end that has all bytes still has to acknowledge them until the other end has heard it.
        receiver.receive(1).unwrap_err()
    });
    sender.write_all(&sent).unwrap();
    sender.drain().unwrap();
    assert!(sender.stats().resent > 0, "the wire was bad: {:?}", sender.stats());
    sender.close();
    let error = reading.join().unwrap();
    assert!(matches!(error, Error::PeerLost { .. }), "{error}");
}

#[test]
fn both_directions_at_once() {
    let (a, b) = linked(settings(), None);
    let work = |mut stream: LinkStream| {
        thread::spawn(move || {
            let (mut pushed, mut taken) = (0u32, 0u32);
            while taken < 20_000 || pushed < 20_000 {
                while pushed < 20_000 && stream.push(1, &pushed.to_le_bytes()).unwrap() {
                    pushed += 1;
                }
                let any = stream.drive().unwrap();
                while let Some(message) = stream.front(1) {
                    assert_eq!(message, taken.to_le_bytes());
                    stream.consume(1);
                    taken += 1;
                }
                if !any {
                    stream.wait(None).unwrap();
                }
            }
            stream.drain().unwrap();
            stream
        })
    };
    let (a, b) = (work(a), work(b));
    let _both_stay_until_both_have_all = (a.join().unwrap(), b.join().unwrap());
}

#[test]
fn nobody_there_is_an_error_in_time() {
    let mut listener = LinkListener::bind(here(), secret(), settings(), None).unwrap();
    assert!(listener.try_accept().unwrap().is_none());
    // A port that the listener had given back might be somebody else's by then.
    let silent = std::net::UdpSocket::bind(here()).unwrap();
    let address = silent.local_addr().unwrap();
    let patience = Duration::from_millis(200);
    let error = LinkStream::connect(address, &secret(), settings(), None, patience).unwrap_err();
    assert!(error.to_string().contains("nobody answered within 0.2 s"), "{error}");
}

#[test]
fn a_process_that_is_gone_is_noticed_at_once() {
    let (mut a, b) = linked(settings(), None);
    a.send(1, b"are you there").unwrap();
    // As when a process is killed: its socket goes without a word.
    drop(b);
    let error = loop {
        match a.send(1, b"and now") {
            Ok(()) => a.wait(Some(Duration::from_millis(1))).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("nobody listens there"), "{error}");
}

#[test]
fn a_host_that_is_gone_is_noticed_in_time() {
    // Long enough for both to begin, however busy their host is.
    let settings = Settings { window: 64, dead_after: Duration::from_secs(3) };
    let (mut a, _it_says_nothing_more) = linked(settings, None);
    let error = loop {
        match a.receive(1) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("nothing was heard"), "{error}");
}

/// A listener that accepts until a link comes.
fn accepting(mut listener: LinkListener) -> (SocketAddr, thread::JoinHandle<LinkStream>) {
    let address = listener.address().unwrap();
    (address, thread::spawn(move || listener.accept().unwrap()))
}

#[test]
fn another_secret_gets_no_link() {
    let listener = LinkListener::bind(here(), secret(), settings(), None).unwrap();
    let (address, accepting) = accepting(listener);
    let other = Credentials::Secret([8; 32]);
    let refused = LinkStream::connect(address, &other, settings(), None, PATIENCE);
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Unproved { error: GreetingError::Secret, .. }), "{error}");
    assert!(!accepting.is_finished());
    let ask = move || LinkStream::connect(address, &secret(), settings(), None, PATIENCE);
    let asking = thread::spawn(ask);
    let mut stream = accepting.join().unwrap();
    let hearing = thread::spawn(move || asking.join().unwrap().unwrap().receive(0).unwrap());
    stream.send(0, b"hello").unwrap();
    stream.drain().unwrap();
    assert_eq!(hearing.join().unwrap(), b"hello");
}

#[test]
fn ends_with_keys_meet_and_strangers_do_not() {
    let key = |number| PrivateKey::from_random([number; 32]);
    let peers: Vec<_> = (0..2).map(|number| key(number).public()).collect();
    let keys =
        |own| Arc::new(Credentials::Keys { own: key(own), peers: peers.clone(), secret: None });
    let listener = LinkListener::bind(here(), keys(0), settings(), None).unwrap();
    let (address, accepting) = accepting(listener);
    let refused = LinkStream::connect(address, &keys(9), settings(), None, PATIENCE);
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Unproved { error: GreetingError::NotListed, .. }), "{error}");
    let caller = keys(1);
    let ask = move || LinkStream::connect(address, &caller, settings(), None, PATIENCE).unwrap();
    let asking = thread::spawn(ask);
    let mut stream = accepting.join().unwrap();
    let mut connected = asking.join().unwrap();
    stream.send(0, b"hello").unwrap();
    assert_eq!(connected.receive(0).unwrap(), b"hello");
}

#[test]
fn a_link_is_given_to_nodes_with_the_right() {
    let key = |number| PrivateKey::from_random([number; 32]);
    let peers: Vec<_> = (0..3).map(|number| key(number).public()).collect();
    let keys = |own| Credentials::Keys { own: key(own), peers: peers.clone(), secret: None };
    let without = Member { rights: [Right::Borrow].into_iter().collect(), ..Member::default() };
    let members = vec![without, Member::default(), Member::default()];
    let proof = Proof::of(keys(2), members, Path::new("rack.toml"));
    let listener = LinkListener::bind(here(), proof.credentials().clone(), settings(), None);
    let (address, accepting) = accepting(listener.unwrap().admitting(proof, &[Right::Nic]));
    let refused = LinkStream::connect(address, &keys(0), settings(), None, PATIENCE).unwrap_err();
    assert!(refused.to_string().contains("node 0 does not have the right 'nic'"), "{refused}");
    let caller = keys(1);
    let ask = move || LinkStream::connect(address, &caller, settings(), None, PATIENCE).unwrap();
    let asking = thread::spawn(ask);
    let (mut stream, mut connected) = (accepting.join().unwrap(), asking.join().unwrap());
    // What comes before the other end has the link is sent again by an end that is driven; this one is not.
    stream.send(0, b"hello").unwrap();
    assert_eq!(connected.receive(0).unwrap(), b"hello");
}

/// Datagrams that arrive from the peer's own address, as spoofed ones do.
#[test]
fn forged_datagrams_are_dropped_and_counted() {
    let (mut near, far) = linked(settings(), None);
    for forged in [&bytes(100)[..], &[0; 24], &bytes(1), &[]] {
        rustix::net::send(&far, forged, rustix::net::SendFlags::empty()).unwrap();
    }
    while near.stats().forged < 4 {
        near.drive().unwrap();
        near.wait(Some(Duration::from_millis(1))).unwrap();
    }
    assert_eq!((near.stats().forged, near.stats().damaged), (4, 0));
}

#[test]
fn strangers_at_the_door_are_ignored() {
    let mut listener = LinkListener::bind(here(), secret(), settings(), None).unwrap();
    let address = listener.address().unwrap();
    let stranger = std::net::UdpSocket::bind(here()).unwrap();
    for length in 0..64 {
        stranger.send_to(&bytes(length), address).unwrap();
    }
    let asking = thread::spawn(move || {
        let connected = LinkStream::connect(address, &secret(), settings(), None, PATIENCE);
        let mut stream = connected.unwrap();
        stream.send(0, b"hello").unwrap();
        stream.drain().unwrap();
        stream
    });
    let mut stream = listener.accept().unwrap();
    assert_eq!(stream.receive(0).unwrap(), b"hello");
    stream.drain().unwrap();
    asking.join().unwrap();
}
