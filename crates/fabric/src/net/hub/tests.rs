//! A hub's messages from peers, and the limits of strangers.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use super::*;
use crate::net::greet::Calling;

/// Longest wait for something that happens sooner or later.
const BOUND: Duration = Duration::from_secs(60);

#[test]
fn time_in_which_nobody_looked_is_nobodys_silence() {
    let (patience, away) = (Duration::from_millis(10), Duration::from_millis(100));
    let mut hub = Hub::new(None, &[]).unwrap();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let begun = Instant::now();
    let peer = hub.adopt(ours.into(), None, true);
    std::thread::sleep(away);
    hub.wait(patience, &mut Vec::new()).unwrap();
    let silence = hub.silence(peer);
    assert!(silence + away <= begun.elapsed() + patience, "{silence:?}");
}

/// A hub with one peer that has to prove that it knows the secret, and the peer's end.
fn stranger() -> (Hub, UnixStream) {
    let mut hub = Hub::new(Some(secret()), &[]).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    hub.welcome(ours.into(), None, None).unwrap();
    theirs.set_nonblocking(true).unwrap();
    (hub, theirs)
}

fn secret() -> Proof {
    Proof::secret(b"nobody guesses this")
}

/// All that a hub sees of a peer that says this and no more.
fn seen_of(hub: &mut Hub, mut peer: &UnixStream, said: &[u8]) -> Vec<String> {
    let _ = peer.write(said);
    let mut seen = Vec::new();
    let deadline = Instant::now() + BOUND;
    while seen.is_empty() && hub.peers.values().any(|peer| peer.input.is_empty()) {
        assert!(Instant::now() < deadline, "the peer is neither gone nor has more to say");
        hub.wait(Duration::from_millis(10), &mut seen).unwrap();
    }
    let names = |seen: &Seen| match seen {
        Seen::Message(_, frame) => String::from_utf8_lossy(frame).into_owned(),
        Seen::Gone(..) => "gone".to_owned(),
    };
    seen.iter().map(names).collect()
}

/// A handshake, and its first bytes.
fn call(secret: &Proof) -> (Calling, Vec<u8>) {
    let mut first = Vec::new();
    (Calling::new(Some(secret), &mut first), first)
}

/// The rest of a handshake, and the keys.
fn prove(hub: &mut Hub, mut peer: &UnixStream, mut calling: Calling) -> (Vec<u8>, Keys) {
    let (mut input, mut out, mut bytes) = (Buffer::default(), Vec::new(), [0; 256]);
    let deadline = Instant::now() + BOUND;
    loop {
        assert!(Instant::now() < deadline, "the hub does not answer");
        hub.wait(Duration::from_millis(10), &mut Vec::new()).unwrap();
        if let Ok(n) = peer.read(&mut bytes) {
            input.extend(&bytes[..n]);
        }
        if let Some(met) = calling.step(&mut input, &mut out).unwrap() {
            return (out, met.keys);
        }
    }
}

#[test]
fn a_stranger_has_one_frame() {
    let show = frame::encode(&"Show", 100).unwrap();
    let (mut hub, peer) = stranger();
    let (calling, first) = call(&secret());
    assert_eq!((&peer).write(&first).unwrap(), first.len());
    let (mut said, keys) = prove(&mut hub, &peer, calling);
    keys.unwrap().sealer.seal(&[&show[..], &[1, 0, 0]].concat(), &mut said).unwrap();
    assert_eq!(seen_of(&mut hub, &peer, &said), ["\"Show\""], "the right proof");
    let (mut hub, peer) = stranger();
    let (_, wrong) = call(&Proof::secret(b"somebody guesses"));
    let said = [&wrong[..], &first, &show].concat();
    assert_eq!(seen_of(&mut hub, &peer, &said), ["gone"], "the right one behind a wrong one");
    let (mut hub, peer) = stranger();
    let said = [&[0; 4][..], &first, &show].concat();
    assert_eq!(seen_of(&mut hub, &peer, &said), ["gone"], "the right one behind nothing");
    let (mut hub, peer) = stranger();
    let said = [&first[..], &[4, 0, 1, 2, 3, 4]].concat();
    assert_eq!(seen_of(&mut hub, &peer, &said), ["gone"], "a hello of somebody without its keys");
}

#[test]
fn no_more_of_a_stranger_is_kept_than_a_frame() {
    let (mut hub, mut peer) = stranger();
    let (_, first) = call(&secret());
    let head = [&first[..8], &u16::to_le_bytes(crate::greeting::MAX_FRAME_BYTES as u16)].concat();
    let flood = [&head[..], &vec![b' '; 1 << 20]].concat();
    assert!(peer.write(&flood).unwrap() > 2 * MAX_STRANGER_BYTES);
    let stranger = hub.peers.get_mut(&1).unwrap();
    assert!(stranger.take_in().is_none());
    assert_eq!(stranger.input.len(), MAX_STRANGER_BYTES);
    let mut seen = Vec::new();
    hub.wait(Duration::from_millis(10), &mut seen).unwrap();
    assert!(matches!(seen[..], [Seen::Gone(..)]) && hub.peers.is_empty());
}

/// Marks the process that has too few descriptors.
const IS_SHORT: &str = "RACKMEM_TEST_SHORTAGE";

/// Opens files until there is no descriptor left.
fn use_up_descriptors() -> Vec<std::fs::File> {
    let few = rustix::process::Rlimit { current: Some(128), maximum: Some(128) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    files
}

/// In a process of its own: the limit on descriptors is the process's.
#[test]
fn a_hub_without_descriptors_turns_one_away_and_serves_who_is_there() {
    if std::env::var_os(IS_SHORT).is_none() {
        let name =
            "net::hub::tests::a_hub_without_descriptors_turns_one_away_and_serves_who_is_there";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let status = again.args(["--exact", name, "--nocapture"]).env(IS_SHORT, "1").status();
        assert!(status.unwrap().success());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hub.sock");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut hub = Hub::new(None, &[]).unwrap();
    hub.listen_local(listener.into(), 0o600);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let old = hub.adopt(ours.into(), None, true);
    let _told = UnixStream::connect(&path).unwrap();
    let _new = UnixStream::connect(&path).unwrap();
    let files = use_up_descriptors();
    let mut seen = Vec::new();
    hub.wait(BOUND, &mut seen).unwrap();
    for _ in 0..3 {
        let until = hub.shortage.expect("there was no descriptor for the new peer");
        hub.wait(BOUND, &mut seen).unwrap();
        assert!(Instant::now() >= until, "it tried again too early");
    }
    theirs.write_all(&frame::encode(&"Show", 100).unwrap()).unwrap();
    let deadline = Instant::now() + BOUND;
    while seen.is_empty() {
        assert!(Instant::now() < deadline, "the old peer is not heard");
        hub.wait(BOUND, &mut seen).unwrap();
    }
    assert!(matches!(seen[0], Seen::Message(peer, _) if peer == old), "{seen:?}");
    assert!(hub.shortage.is_some() && hub.peers.len() == 2);
    let (told, new) = (old + 1, old + 2);
    let why = hub.turned_away(told).expect("it came when there was no descriptor left");
    assert!(why.contains("may have 128 files open"), "{why}");
    // The next one is turned away in its place.
    hub.hang_up(told);
    while hub.turned_away(new).is_none() {
        assert!(Instant::now() < deadline, "the place is not used again");
        hub.wait(BOUND, &mut seen).unwrap();
    }
    hub.hang_up(new);
    drop(files);
    let _last = UnixStream::connect(&path).unwrap();
    while hub.peers.len() == 1 {
        assert!(Instant::now() < deadline, "the new peer is not accepted");
        hub.wait(BOUND, &mut seen).unwrap();
    }
    assert_eq!((hub.shortage, hub.turned_away(new + 1)), (None, None));
}
