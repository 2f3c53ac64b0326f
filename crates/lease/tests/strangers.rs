//! Peers that prove nothing, at the listeners of leases and queue pairs: they get an end, soon, and nobody else waits.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rackmem_fabric::Address;
use rackmem_fabric::error::Error;
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::greet::Calling;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::stranger::{MAX_FIRST_FRAME_BYTES, MAX_STRANGERS};
use rackmem_lease::agent::{Agent, Config, Event};
use rackmem_lease::messages::{Reply, Request};
use rackmem_sockets::{self as qpair, Terms};

use support::*;

const TERMS: Terms = Terms { connections: 1, registered_bytes: 4096 };

/// A listener that wants the secret.
enum Guarded {
    Lender(Agent, Address),
    QueuePairs(Address),
}

impl Guarded {
    fn lender(secret: Proof) -> Guarded {
        let listen = Some("127.0.0.1:0".to_owned());
        let access = Access::with_proof(secret);
        let config = Config { listen, access, ..Config::lender(rack(), 8 * PAGE) };
        let (agent, events) = listening(config);
        let address = events.lock().unwrap().iter().find_map(|event| match event {
            Event::Listens(address) => Some(address.clone()),
            _ => None,
        });
        Guarded::Lender(agent, address.unwrap())
    }

    /// Each caller has a thread, as in `rackmem sockets listen`.
    fn queue_pairs() -> Guarded {
        let anywhere = Address::Tcp("127.0.0.1:0".to_owned());
        let listener = qpair::Listener::bind(&anywhere, Access::with_proof(secret())).unwrap();
        let address = listener.address().clone();
        std::thread::spawn(move || {
            while let Ok(caller) = listener.next() {
                std::thread::spawn(move || {
                    if let Ok(link) = caller.link() {
                        let _ = link.accept();
                    }
                });
            }
        });
        Guarded::QueuePairs(address)
    }

    fn all() -> [Guarded; 2] {
        [Guarded::lender(secret()), Guarded::queue_pairs()]
    }

    fn address(&self) -> &Address {
        match self {
            Guarded::Lender(_, address) | Guarded::QueuePairs(address) => address,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address().to_string()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Uses the listener as a peer that knows the secret.
    fn is_used(&self, secret: Option<&Proof>) -> Result<(), Error> {
        match self {
            Guarded::Lender(_, address) => {
                let mut link = Link::connect(address, secret, PATIENCE)?;
                link.send(&Request::Ping)?;
                assert_eq!(link.receive::<Reply>(PATIENCE)?, Reply::Pong);
            }
            Guarded::QueuePairs(address) => {
                qpair::Link::connect(address, secret, TERMS)?;
            }
        }
        Ok(())
    }
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

fn hello(secret: &Proof) -> Vec<u8> {
    let mut hello = Vec::new();
    Calling::new(Some(secret), &mut hello);
    hello
}

/// The longest hello that a listener waits for.
fn long_hello() -> Vec<u8> {
    let length = (MAX_FIRST_FRAME_BYTES as u16).to_le_bytes();
    let head = &hello(&secret())[..8];
    [head, &length, &[b' '; MAX_FIRST_FRAME_BYTES]].concat()
}

/// The bytes that a listener sends until it hangs up.
fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset is an end, too: it left unread what came.
    if let Err(error) = stream.read_to_end(&mut said) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    said
}

/// Whether a listener has not hung up yet.
fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut said = [0; 256];
    loop {
        match stream.read(&mut said) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn the_wrong_secret_and_none_are_refused_and_the_right_one_is_not() {
    for guarded in Guarded::all() {
        let wrong = Proof::secret(b"a secret of some hosts");
        let refused = |secret| guarded.is_used(secret).unwrap_err().to_string();
        assert!(refused(None).contains("wants a secret"));
        assert!(refused(Some(&wrong)).contains("another secret"));
        guarded.is_used(Some(&secret())).unwrap();
    }
}

#[test]
fn the_first_wrong_frame_is_the_last() {
    let json = |text: &str| framed(text.as_bytes());
    let wrong = hello(&Proof::secret(b"a secret of some hosts"));
    let hello = hello(&secret());
    let with_length = |bytes: usize| {
        let length = (bytes as u16).to_le_bytes();
        [&hello[..8], &length, &vec![b' '; bytes]].concat()
    };
    for guarded in Guarded::all() {
        for attack in [
            vec![0; 1 << 20],
            framed(&[]),
            with_length(MAX_FIRST_FRAME_BYTES + 1),
            with_length(MAX_FIRST_FRAME_BYTES),
            vec![0xff; 4],
            json("\"Show\""),
            [&wrong[..], &hello].concat(),
            [&wrong[..], &json("\"Show\"")].concat(),
            // A recorded hello gets an answer, and nothing more without the keys.
            [&hello[..], &json("\"Show\"")].concat(),
            [&hello[..], &hello].concat(),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        ] {
            let mut stream = guarded.connect();
            // It may hang up before all of it is sent.
            let _ = stream.write_all(&attack);
            let said = rest(&stream);
            // First the banner for older versions, then, after a hello, the answer.
            let is_greeting = said.get(4..).is_some_and(|said| said.starts_with(b"{\"version\":"));
            assert!(said.is_empty() || is_greeting && said.len() < 200, "{said:?}");
        }
        guarded.is_used(Some(&secret())).unwrap();
    }
}

/// Bytes that come one by one put nothing off.
#[test]
fn a_slow_stranger_has_one_deadline() {
    for guarded in Guarded::all() {
        let mut stream = guarded.connect();
        // Never the whole frame, which would be the end for another reason.
        let mut bytes = long_hello().into_iter().take(1000);
        let pause = Duration::from_millis(50);
        assert!(stream.read(&mut [0; 256]).is_ok(), "what older versions understand");
        stream.set_read_timeout(Some(pause)).unwrap();
        let is_over = |stream: &mut TcpStream| match stream.read(&mut [0; 256]) {
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            Ok(_) => true,
        };
        while !is_over(&mut stream) {
            let _ = stream.write_all(&[bytes.next().expect("it ends before these bytes do")]);
        }
        guarded.is_used(Some(&secret())).unwrap();
    }
}

/// More of them than there are places, and each with most of a frame.
#[test]
fn silent_strangers_keep_nobody_out() {
    for guarded in Guarded::all() {
        let mut held = Vec::new();
        for _ in 0..3 * MAX_STRANGERS {
            let mut stream = guarded.connect();
            let _ = stream.write_all(&long_hello()[..4000]);
            held.push(stream);
            if held.len() % MAX_STRANGERS == 0 {
                guarded.is_used(Some(&secret())).unwrap();
            }
        }
        // All the others had to go when the last ones came.
        let open = held.iter().filter(|stream| is_open(stream)).count();
        assert!(open <= MAX_STRANGERS, "{open}");
    }
}

/// After its first wrong frame a trusted peer gets no answer, and no lease is left of it.
#[test]
fn a_trusted_peer_ends_with_its_first_wrong_frame() {
    let secret = secret().with_cleartext(true);
    let Guarded::Lender(_agent, address) = Guarded::lender(secret.clone()) else { unreachable!() };
    let link = Link::connect(&address, Some(&secret), PATIENCE).unwrap();
    let mut stream = TcpStream::from(link.into_parts().0);
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let lease =
        br#"{"Lease":[{"epoch":0,"number":0},4096,{"name":"","host":"","host_id":"","pid":1}]}"#;
    stream.write_all(&[framed(&[]), framed(lease)].concat()).unwrap();
    assert_eq!(rest(&stream), b"");
    let mut link = Link::connect(&address, Some(&secret), PATIENCE).unwrap();
    link.send(&Request::Show).unwrap();
    let Reply::Ledger(ledger) = link.receive(PATIENCE).unwrap() else { panic!("no ledger") };
    assert_eq!(ledger.lenders[0].leases, []);
}

/// Names with control characters, or without end, are no names.
#[test]
fn names_that_do_not_show_are_refused() {
    let Guarded::Lender(_agent, address) = Guarded::lender(secret()) else { unreachable!() };
    for name in ["\u{1b}[2J", "a\nb", "\u{202e}x", &"n".repeat(200)] {
        let party = serde_json::json!({"name": name, "host": "h", "host_id": "i", "pid": 1});
        let offer = serde_json::json!({"Offer": [{
            "lender": party, "addresses": [], "size_bytes": 4096, "is_leaving": false, "network": "none",
        }, []]});
        let lease = serde_json::json!({"Lease": [{"epoch": 0, "number": 0}, 4096, party]});
        for request in [offer, lease] {
            let mut link = Link::connect(&address, Some(&secret()), PATIENCE).unwrap();
            link.send(&request).unwrap();
            let answered = link.receive::<Reply>(PATIENCE);
            assert!(matches!(answered, Err(Error::PeerLost { .. })), "{name:?}: {answered:?}");
        }
        let config = Config { name: Some(name.to_owned()), ..Config::lender(rack(), PAGE) };
        assert!(Agent::start(config, |_| {}).is_err(), "{name:?}");
    }
    let mut link = Link::connect(&address, Some(&secret()), PATIENCE).unwrap();
    link.send(&Request::Show).unwrap();
    let Reply::Ledger(ledger) = link.receive(PATIENCE).unwrap() else { panic!("no ledger") };
    assert_eq!(ledger.lenders.len(), 1);
}

/// Another user gets through to a socket whose permissions somebody has widened; its owner has not said so.
#[test]
fn other_users_come_to_a_socket_if_its_mode_says_so() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tested as an ordinary user: another user's processes");
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (mode, may_come) in [(0o600, false), (0o666, true)] {
        let path = dir.path().join(format!("at-{mode:o}"));
        let access = Access { mode, ..Access::default() };
        let listener = qpair::Listener::bind(&Address::Unix(path.clone()), access).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let (sender, came) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(caller) = listener.next() {
                if sender.send(caller).is_err() {
                    return;
                }
            }
        });
        let at = Address::Unix(path.clone());
        let other = {
            let at = at.clone();
            std::thread::spawn(move || {
                become_nobody();
                qpair::Link::connect(&at, None, TERMS).map(drop)
            })
        };
        if may_come {
            came.recv_timeout(PATIENCE).unwrap().link().unwrap();
        }
        assert_eq!(other.join().unwrap().is_ok(), may_come, "{mode:o}");
        // Root may in any case.
        let root = std::thread::spawn(move || qpair::Link::connect(&at, None, TERMS).map(drop));
        came.recv_timeout(PATIENCE).unwrap().link().unwrap();
        root.join().unwrap().unwrap();
    }
}

/// The same at the socket of a lender.
#[test]
fn other_users_are_no_borrowers_unless_the_mode_says_so() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tested as an ordinary user: another user's processes");
    }
    for (mode, may_come) in [(0o600, false), (0o666, true)] {
        let rack = rack();
        let access = Access { mode, ..Access::default() };
        let _lender = start(Config { access, ..Config::lender(rack.clone(), PAGE) });
        let socket = directory(&rack).join("monitor.sock");
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
        // The rack's directory may be closed to others: this one is not.
        let beside = rackmem::rack::base_dir().parent().unwrap().to_owned();
        let open = tempfile::tempdir_in(beside).unwrap();
        std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = open.path().join("at");
        std::fs::hard_link(&socket, &path).unwrap();
        let asking = std::thread::spawn(move || {
            become_nobody();
            let mut stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let _ = stream.write_all(&framed(b"\"Show\""));
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).is_ok()
        });
        assert_eq!(asking.join().unwrap(), may_come, "{mode:o}");
    }
}

/// This thread becomes another user's; the others stay.
fn become_nobody() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: no pointers; the raw system call changes the calling thread alone.
    assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, NOBODY, -1) }, 0);
}
