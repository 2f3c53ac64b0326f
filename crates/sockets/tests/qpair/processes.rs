//! Ends in different processes: the test starts itself as the other one.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rackmem_fabric::Address;
use rackmem_sockets::{Descriptor, Kind, Link, QStream, Status, Terms};
use rustix::process::{Pid, Signal, kill_process};

use crate::carriers::{Carrier, LONG, over_all};

over_all!(
    streams_carry_bytes_in_order_to_another_process_and_back,
    what_was_sent_before_the_end_is_received,
    a_killed_peer_completes_everything_with_an_error,
    a_stopped_peer_completes_everything_with_an_error,
    sleepers_wake_when_the_peer_is_killed,
    offsets_of_a_hostile_peer_are_checked,
);

const TERMS: Terms = Terms { connections: 16, registered_bytes: 1 << 20 };

/// Starts this test program with only the test `name`, which finds the address in its environment.
fn other_process(name: &str, carrier: Carrier, address: &Address) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("QPAIR_ADDRESS", address.to_string())
        .env("QPAIR_CARRIER", format!("{carrier:?}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn connect() -> std::sync::Arc<Link> {
    let address = std::env::var("QPAIR_ADDRESS").unwrap().parse().unwrap();
    let is_sealed = std::env::var("QPAIR_CARRIER").unwrap() == format!("{:?}", Carrier::Sealed);
    let secret = is_sealed.then_some(Carrier::Sealed).and_then(Carrier::secret);
    Link::connect(&address, secret.as_ref(), TERMS).unwrap()
}

/// Sends back all messages, on as many connections as it is asked for.
#[test]
#[ignore = "the other process of a test"]
fn echo() {
    let link = connect();
    let streams: Vec<_> = (0..4).map(|_| QStream::new(link.open().unwrap()).unwrap()).collect();
    let threads = streams.into_iter().map(|mut stream| {
        std::thread::spawn(move || {
            let mut bytes = vec![0; 100_000];
            loop {
                match stream.read(&mut bytes).unwrap() {
                    0 => return,
                    length => stream.write_all(&bytes[..length]).unwrap(),
                }
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

fn streams_carry_bytes_in_order_to_another_process_and_back(carrier: Carrier) {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = carrier.listen(dir.path());
    let mut other = other_process("processes::echo", carrier, listener.address());
    let link = listener.accept().unwrap();
    let streams: Vec<_> = (0..4).map(|_| QStream::new(link.accept().unwrap()).unwrap()).collect();
    std::thread::scope(|scope| {
        for (number, mut stream) in streams.into_iter().enumerate() {
            scope.spawn(move || {
                let (mut sent, mut wanted) = (0_u64, 0_u64);
                let byte = |at: u64| (at * 7 + at / 251 + number as u64) as u8;
                for round in 0..400_u64 {
                    let length = (round * 977) % 9000 + 1;
                    let bytes: Vec<u8> = (sent..sent + length).map(byte).collect();
                    stream.write_all(&bytes).unwrap();
                    sent += length;
                    // A few rounds ahead, so that both directions are full.
                    while sent - wanted > 20_000 {
                        let mut back = vec![0; 3000];
                        let length = stream.read(&mut back).unwrap() as u64;
                        assert!(
                            (wanted..wanted + length)
                                .map(byte)
                                .eq(back[..length as usize].iter().copied())
                        );
                        wanted += length;
                    }
                }
                stream.shut_down().unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                assert!((wanted..sent).map(byte).eq(rest));
            });
        }
    });
    assert!(other.wait().unwrap().success());
}

/// Posts receives and sends without end, until it is killed.
#[test]
#[ignore = "the other process of a test"]
fn chatter() {
    let link = connect();
    let mut pair = link.open().unwrap();
    loop {
        pair.post_receive(Descriptor { offset: 0, size_bytes: 4096, id: 1 }).unwrap();
        pair.post_send(Descriptor { offset: 4096, size_bytes: 4096, id: 2 }).unwrap();
        pair.wait(LONG);
    }
}

fn a_killed_peer_completes_everything_with_an_error(carrier: Carrier) {
    for round in 0..5 {
        everything_completes(carrier, Duration::from_millis(5 + 20 * round), Signal::KILL);
    }
}

/// Its kernel answers for it, or its memory is there: nothing but its silence tells.
fn a_stopped_peer_completes_everything_with_an_error(carrier: Carrier) {
    everything_completes(carrier, Duration::from_millis(20), Signal::STOP);
}

/// Posts receives and sends as fast as they complete; after a while something happens to the peer.
fn everything_completes(carrier: Carrier, after: Duration, signal: Signal) {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = carrier.listen(dir.path());
    let mut other = other_process("processes::chatter", carrier, listener.address());
    let link = listener.accept().unwrap();
    let mut pair = link.accept().unwrap();
    let mut outstanding = [0_i64; 2];
    let mut messages = 0;
    let mut hit_at = Instant::now() + after;
    loop {
        for kind in [Kind::Send, Kind::Receive] {
            let descriptor = Descriptor { offset: 0, size_bytes: 4096, id: 0 };
            let is_posted = match kind {
                Kind::Send => pair.post_send(descriptor).unwrap(),
                Kind::Receive => pair.post_receive(descriptor).unwrap(),
            };
            outstanding[kind as usize] += i64::from(is_posted);
        }
        let completion = pair.wait(LONG).expect("nobody waits for ever");
        outstanding[completion.kind as usize] -= 1;
        messages += u64::from(completion.status == Status::Done);
        if completion.status != Status::Done {
            assert_eq!(completion.status, Status::Lost);
            break;
        }
        if messages > 0 && Instant::now() > hit_at {
            kill_process(Pid::from_child(&other), signal).unwrap();
            hit_at += LONG;
        }
    }
    while outstanding != [0, 0] {
        let completion = pair.poll().expect("all of it completes");
        outstanding[completion.kind as usize] -= 1;
        assert_eq!(completion.status, Status::Lost);
    }
    let error = link.accept().unwrap_err().to_string();
    let why = if signal == Signal::STOP { "silent" } else { "" };
    assert!(link.is_lost() && error.contains("is lost") && error.contains(why), "{error}");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Sends, and ends at once; much more has come than it has read.
#[test]
#[ignore = "the other process of a test"]
fn last_words() {
    let link = connect();
    let mut stream = QStream::new(link.open().unwrap()).unwrap();
    stream.write_all(&vec![7; 500_000]).unwrap();
    stream.shut_down().unwrap();
}

fn what_was_sent_before_the_end_is_received(carrier: Carrier) {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = carrier.listen(dir.path());
    let mut other = other_process("processes::last_words", carrier, listener.address());
    let link = listener.accept().unwrap();
    let mut stream = QStream::new(link.accept().unwrap()).unwrap();
    while stream.try_write(&[1; 1000]).is_ok_and(|sent| sent.is_some()) {}
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert!(bytes == vec![7; 500_000]);
    assert!(other.wait().unwrap().success());
}

/// A reader that waits and a writer without room, both asleep, when the peer dies.
#[test]
#[ignore = "the other process of a test"]
fn mute() {
    let link = connect();
    let _pairs: Vec<_> = (0..2).map(|_| link.open().unwrap()).collect();
    std::thread::sleep(LONG);
}

fn sleepers_wake_when_the_peer_is_killed(carrier: Carrier) {
    let dir = tempfile::TempDir::new().unwrap();
    let listener = carrier.listen(dir.path());
    let mut other = other_process("processes::mute", carrier, listener.address());
    let link = listener.accept().unwrap();
    let [mut reader, mut writer] = [(); 2].map(|()| QStream::new(link.accept().unwrap()).unwrap());
    std::thread::scope(|scope| {
        let reads = scope.spawn(move || reader.read(&mut [0; 10]));
        let writes = scope.spawn(move || writer.write(&[0; 10]));
        std::thread::sleep(Duration::from_millis(50));
        other.kill().unwrap();
        let error = reads.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let error = writes.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    });
    other.wait().unwrap();
}

/// A peer whose window has offsets that cannot be.
fn offsets_of_a_hostile_peer_are_checked(carrier: Carrier) {
    // The peer is this process's other end: its registered memory is smaller than it pretends.
    let (near, far) = carrier.linked(Terms { connections: 1, registered_bytes: 4096 });
    let (mut victim, mut hostile) = (near.open().unwrap(), far.accept().unwrap());
    hostile.post_receive(Descriptor { offset: 0, size_bytes: 4096, id: 0 }).unwrap();
    // A descriptor beyond the registered memory, put where the next one would be.
    hostile.forge_receive(1, u64::MAX - 100, 4096);
    for id in 0..2 {
        victim.post_send(Descriptor { offset: 0, size_bytes: 4096, id }).unwrap();
    }
    assert_eq!(victim.wait(LONG).map(|done| done.status), Some(Status::Done));
    assert_eq!(victim.wait(LONG).map(|done| done.status), Some(Status::Lost));
}
