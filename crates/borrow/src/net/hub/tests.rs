//! A hub's messages from peers, and the limits of strangers.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use super::*;
use crate::net::secret::{self, End};

/// Longest wait for something that happens sooner or later.
const BOUND: Duration = Duration::from_secs(60);

#[test]
fn time_in_which_nobody_looked_is_nobodys_silence() {
    let (patience, away) = (Duration::from_millis(10), Duration::from_millis(100));
    let mut hub = Hub::new(None).unwrap();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let begun = Instant::now();
    let peer = hub.adopt(ours.into(), true);
    std::thread::sleep(away);
    hub.wait(patience, &mut Vec::new()).unwrap();
    let silence = hub.silence(peer);
    assert!(silence + away <= begun.elapsed() + patience, "{silence:?}");
}

/// A hub with one peer that has to prove that it knows the secret, and the peer's end after the hub's hello.
fn stranger() -> (Hub, UnixStream, Nonce) {
    let mut hub = Hub::new(Some(secret())).unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    hub.welcome(ours.into(), None).unwrap();
    let mut length = [0; 4];
    theirs.read_exact(&mut length).unwrap();
    let mut hello = vec![0; u32::from_le_bytes(length) as usize];
    theirs.read_exact(&mut hello).unwrap();
    let hello: Hello = frame::decode(&hello).unwrap();
    (hub, theirs, hello.nonce.unwrap())
}

fn secret() -> Secret {
    Secret::new(b"nobody guesses this")
}

/// All that a hub sees of a peer that says this and no more.
fn seen_of(mut hub: Hub, mut peer: UnixStream, said: &[u8]) -> Vec<String> {
    peer.set_nonblocking(true).unwrap();
    let _ = peer.write(said);
    let mut seen = Vec::new();
    let deadline = Instant::now() + BOUND;
    while !seen.iter().any(|seen| matches!(seen, Seen::Gone(..)))
        && hub.peers[&1].frames.waiting() == 0
    {
        assert!(Instant::now() < deadline, "the peer is neither gone nor has more to say");
        hub.wait(Duration::from_millis(10), &mut seen).unwrap();
    }
    let names = |seen: &Seen| match seen {
        Seen::Message(_, frame) => String::from_utf8_lossy(frame).into_owned(),
        Seen::Gone(..) => "gone".to_owned(),
    };
    seen.iter().map(names).collect()
}

fn proof(secret: &Secret, theirs: &Nonce) -> Vec<u8> {
    let nonce = secret::nonce().unwrap();
    let signature = secret.sign(End::Connector, theirs, &nonce);
    frame::encode(&Proof { nonce, signature }).unwrap()
}

#[test]
fn a_stranger_has_one_frame() {
    let (show, rest) = (frame::encode(&"Show").unwrap(), [1, 0, 0]);
    let (hub, peer, nonce) = stranger();
    let said = [&proof(&secret(), &nonce)[..], &show, &rest].concat();
    assert_eq!(seen_of(hub, peer, &said), ["\"Show\""], "the right proof");
    let (hub, peer, nonce) = stranger();
    let wrong = proof(&Secret::new(b"somebody guesses"), &nonce);
    let said = [&wrong[..], &proof(&secret(), &nonce), &show].concat();
    assert_eq!(seen_of(hub, peer, &said), ["gone"], "the right one behind a wrong one");
    let (hub, peer, nonce) = stranger();
    let said = [&[0; 4][..], &proof(&secret(), &nonce), &show].concat();
    assert_eq!(seen_of(hub, peer, &said), ["gone"], "the right one behind nothing");
}

#[test]
fn no_more_of_a_stranger_is_kept_than_a_frame() {
    let (mut hub, mut peer, _) = stranger();
    let most = MAX_FIRST_FRAME_BYTES as u32;
    peer.set_nonblocking(true).unwrap();
    let flood = [&most.to_le_bytes()[..], &vec![b' '; 1 << 20]].concat();
    assert!(peer.write(&flood).unwrap() > 2 * MAX_FIRST_FRAME_BYTES);
    let stranger = hub.peers.get_mut(&1).unwrap();
    assert!(stranger.take_in().is_none());
    assert_eq!(stranger.frames.waiting(), 4 + MAX_FIRST_FRAME_BYTES);
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
fn a_hub_without_descriptors_rests_and_serves_who_is_there() {
    if std::env::var_os(IS_SHORT).is_none() {
        let name = "net::hub::tests::a_hub_without_descriptors_rests_and_serves_who_is_there";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let status = again.args(["--exact", name, "--nocapture"]).env(IS_SHORT, "1").status();
        assert!(status.unwrap().success());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hub.sock");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut hub = Hub::new(None).unwrap();
    hub.listen_local(listener.into(), 0o600);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let old = hub.adopt(ours.into(), true);
    let _new = UnixStream::connect(&path).unwrap();
    let files = use_up_descriptors();
    let mut seen = Vec::new();
    hub.wait(BOUND, &mut seen).unwrap();
    for _ in 0..3 {
        let until = hub.shortage.expect("there was no descriptor for the new peer");
        hub.wait(BOUND, &mut seen).unwrap();
        assert!(Instant::now() >= until, "it tried again too early");
    }
    theirs.write_all(&frame::encode(&"Show").unwrap()).unwrap();
    let deadline = Instant::now() + BOUND;
    while seen.is_empty() {
        assert!(Instant::now() < deadline, "the old peer is not heard");
        hub.wait(BOUND, &mut seen).unwrap();
    }
    assert!(matches!(seen[0], Seen::Message(peer, _) if peer == old), "{seen:?}");
    assert!(hub.shortage.is_some() && hub.peers.len() == 1);
    drop(files);
    while hub.peers.len() == 1 {
        assert!(Instant::now() < deadline, "the new peer is not accepted");
        hub.wait(BOUND, &mut seen).unwrap();
    }
    assert_eq!(hub.shortage, None);
}
