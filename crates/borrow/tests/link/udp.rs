//! Ends over UDP on this host, in threads and in processes that die.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rackmem_borrow::Error;
use rackmem_borrow::link::handshake::Message;
use rackmem_borrow::link::{Faults, LinkListener, LinkStream, Settings};
use rackmem_borrow::net::access::Access;
use rackmem_borrow::net::secret::Secret;

const PATIENCE: Duration = Duration::from_secs(10);

fn settings() -> Settings {
    Settings { window: 64, dead_after: PATIENCE }
}

fn here() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn secret() -> Secret {
    Secret::new(b"nobody guesses this")
}

fn access() -> Access {
    Access::with_secret(secret())
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
    let mut listener = LinkListener::bind(here(), access(), settings, faults).unwrap();
    let address = listener.address().unwrap();
    let ask = move || LinkStream::connect(address, Some(&secret()), settings, faults, PATIENCE);
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
    let mut listener = LinkListener::bind(here(), access(), settings(), None).unwrap();
    assert!(listener.try_accept().unwrap().is_none());
    // A port that the listener had given back might be somebody else's by then.
    let silent = std::net::UdpSocket::bind(here()).unwrap();
    let address = silent.local_addr().unwrap();
    let patience = Duration::from_millis(200);
    let error = LinkStream::connect(address, None, settings(), None, patience).unwrap_err();
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

#[test]
fn without_a_secret_no_port_is_listened_at() {
    let error = LinkListener::bind(here(), Access::default(), settings(), None).unwrap_err();
    assert!(error.to_string().contains("--secret FILE, or say --insecure"), "{error}");
    LinkListener::bind(here(), Access::insecure(), settings(), None).unwrap();
}

/// A listener that accepts until a link comes.
fn accepting(mut listener: LinkListener) -> (SocketAddr, thread::JoinHandle<LinkStream>) {
    let address = listener.address().unwrap();
    (address, thread::spawn(move || listener.accept().unwrap()))
}

#[test]
fn another_secret_or_none_gets_no_link() {
    let listener = LinkListener::bind(here(), access(), settings(), None).unwrap();
    let (address, accepting) = accepting(listener);
    for secret in [None, Some(&Secret::new(b"somebody guesses this"))] {
        let refused = LinkStream::connect(address, secret, settings(), None, PATIENCE);
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
        assert!(error.to_string().contains("has another secret"), "{error}");
    }
    assert!(!accepting.is_finished());
    let ask = move || LinkStream::connect(address, Some(&secret()), settings(), None, PATIENCE);
    let asking = thread::spawn(ask);
    let mut stream = accepting.join().unwrap();
    let hearing = thread::spawn(move || asking.join().unwrap().unwrap().receive(0).unwrap());
    stream.send(0, b"hello").unwrap();
    stream.drain().unwrap();
    assert_eq!(hearing.join().unwrap(), b"hello");
}

/// A stranger that does not answer at the address that it sends from gets neither a link nor an answer longer than its
/// question; old proofs begin nothing.
#[test]
fn what_has_not_been_challenged_begins_nothing() {
    let mut listener = LinkListener::bind(here(), access(), settings(), None).unwrap();
    let address = listener.address().unwrap();
    let stranger = std::net::UdpSocket::bind(here()).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    let (listened, connector) = ([7; 16], [8; 16]);
    let guessed = Message::Prove { listener: listened, connector, max_bytes: 1400 }.encode();
    let hello = Message::Hello { connector }.encode();
    for datagram in [&guessed, &[&guessed[..], &[0; 16]].concat(), &hello] {
        stranger.send_to(datagram, address).unwrap();
    }
    let mut bytes = [0; 256];
    let length = loop {
        assert!(listener.try_accept().unwrap().is_none());
        stranger.set_nonblocking(true).unwrap();
        match stranger.recv(&mut bytes) {
            Ok(length) => break length,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    };
    let answer = Message::decode(&bytes[..length]);
    let Some(Message::Challenge { listener: nonce, connector: echoed }) = answer else {
        panic!("{answer:?}");
    };
    assert!(length <= hello.len() && echoed == connector);
    // The nonce is for the address that asked, and for this connector.
    let elsewhere = std::net::UdpSocket::bind(here()).unwrap();
    let stolen = Message::Prove { listener: nonce, connector, max_bytes: 1400 }.encode();
    elsewhere.send_to(&[&stolen[..], &[0; 16]].concat(), address).unwrap();
    stranger.send_to(&stolen, address).unwrap();
    let denied = loop {
        assert!(listener.try_accept().unwrap().is_none());
        if let Ok(length) = stranger.recv(&mut bytes) {
            break Message::decode(&bytes[..length]);
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(denied, Some(Message::Denied { listener: nonce, connector }));
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.recv(&mut bytes).is_err());
}

/// Datagrams that arrive from the peer's own address, as spoofed ones do.
#[test]
fn forged_datagrams_are_dropped_and_counted() {
    let (mut near, far) = linked(settings(), None);
    let bye = Message::Bye { session: 0 }.encode();
    for forged in [&bytes(100)[..], &bye, &[&bye[..], &[0; 16]].concat(), &[]] {
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
    let mut listener = LinkListener::bind(here(), access(), settings(), None).unwrap();
    let address = listener.address().unwrap();
    let stranger = std::net::UdpSocket::bind(here()).unwrap();
    for length in 0..64 {
        stranger.send_to(&bytes(length), address).unwrap();
    }
    let asking = thread::spawn(move || {
        let connected = LinkStream::connect(address, Some(&secret()), settings(), None, PATIENCE);
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
