//! Bytes and ends of connections that proxies carry.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Host, until};
use crate::rig::{
    Carrier, PATIENCE, Service, bytes, echo, over_both, path, server, tcp, there_and_back,
};

over_both!(
    many_connections_carry_megabytes_both_ways,
    more_connections_than_places_wait_for_theirs,
    one_direction_ends_and_the_other_goes_on,
    who_does_not_read_stops_the_sender_and_nobody_else,
    unix_sockets_are_carried_and_what_stops_is_removed,
    redis_does_not_notice,
);

fn many_connections_carry_megabytes_both_ways(carrier: Carrier) {
    let host = Host::new();
    let (listen, connect, port) = carrier.proxies(&host, &echo(), &[]);
    there_and_back(tcp(port), bytes(0, 24 << 20));
    std::thread::scope(|scope| {
        for seed in 0..40 {
            scope.spawn(move || there_and_back(tcp(port), bytes(seed, 300_000)));
        }
    });
    // Numbers of connections come again and again.
    for seed in 0..400 {
        there_and_back(tcp(port), bytes(seed, 100));
    }
    for (service, signal) in [(connect, "INT"), (listen, "TERM")] {
        let said = service.end(signal);
        assert!(said.starts_with("carried 441 connections: 0 not ended in order, "), "{said}");
    }
    assert!(!path(&host).exists());
}

fn more_connections_than_places_wait_for_theirs(carrier: Carrier) {
    let host = Host::new();
    let (_listen, connect, port) = carrier.proxies(&host, &echo(), &["--sockets", "3"]);
    std::thread::scope(|scope| {
        for seed in 0..24 {
            scope.spawn(move || there_and_back(tcp(port), bytes(seed, 50_000)));
        }
    });
    let said = connect.end("TERM");
    assert!(said.starts_with("carried 24 connections: 0 not ended in order, "), "{said}");
}

fn one_direction_ends_and_the_other_goes_on(carrier: Carrier) {
    let host = Host::new();
    let (address, streams) = server();
    let (_listen, _connect, port) = carrier.proxies(&host, &address, &[]);
    let mut client = tcp(port);
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut server = streams.recv_timeout(PATIENCE).unwrap();
    let mut question = String::new();
    server.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    // The client's direction has ended long ago.
    for part in 0..3 {
        std::thread::sleep(Duration::from_millis(20));
        server.write_all(&bytes(part, 100_000)).unwrap();
        let mut answer = vec![0; 100_000];
        client.read_exact(&mut answer).unwrap();
        assert!(answer == bytes(part, 100_000));
    }
    drop(server);
    assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
}

fn who_does_not_read_stops_the_sender_and_nobody_else(carrier: Carrier) {
    let host = Host::new();
    let (address, streams) = server();
    let (_listen, _connect, port) = carrier.proxies(&host, &address, &[]);
    let client = tcp(port);
    let mut server = streams.recv_timeout(PATIENCE).unwrap();
    // More than all sockets and buffers hold, before anybody reads; longer than a stall.
    let sent = bytes(3, 64 << 20);
    let wanted = sent.clone();
    let writes = std::thread::spawn({
        let mut client = client.try_clone().unwrap();
        move || {
            client.write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!writes.is_finished(), "somebody has taken 64 MiB that nobody has read");
    let mut other = tcp(port);
    other.write_all(b"x").unwrap();
    let mut seen = [0];
    streams.recv_timeout(PATIENCE).unwrap().read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"x");
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    assert!(got == wanted);
    writes.join().unwrap();
}

fn unix_sockets_are_carried_and_what_stops_is_removed(carrier: Carrier) {
    let host = Host::new();
    let (_listen, meet) = Service::listen(&host, &carrier.meet(&host), &echo());
    let at = host.racks().join("near");
    let args = ["sockets", "connect", &meet, "--listen", at.to_str().unwrap()];
    let connect = Service::start(&host, &args);
    let mut client = UnixStream::connect(&at).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
    // It ends while a connection is there.
    let said = connect.end("INT");
    assert!(said.starts_with("carried 1 connection: "), "{said}");
    assert_eq!(client.read(&mut back).unwrap(), 0);
    assert!(!at.exists());
}

fn redis_does_not_notice(carrier: Carrier) {
    let is_there = |name| Command::new(name).arg("--version").output().is_ok();
    if !is_there("redis-server") || !is_there("redis-cli") {
        eprintln!("not tested: Redis is not installed");
        return;
    }
    let host = Host::new();
    let socket = host.racks().join("redis");
    let redis = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket", socket.to_str().unwrap()])
        .current_dir(host.racks())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("Redis listens", || UnixStream::connect(&socket).is_ok());
    let (_listen, _connect, port) = carrier.proxies(&host, socket.to_str().unwrap(), &[]);
    let port = port.to_string();
    let cli = |args: &[&str]| {
        let done = Command::new("redis-cli").args(["-p", &port]).args(args).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    let value = "v".repeat(100_000);
    assert_eq!(cli(&["set", "key", &value]), "OK\n");
    assert_eq!(cli(&["get", "key"]), value + "\n");
    assert_eq!(cli(&["eval", "return redis.call('strlen', KEYS[1])", "1", "key"]), "100000\n");
    let mut redis = redis;
    redis.kill().unwrap();
    redis.wait().unwrap();
    assert_ne!(cli(&["ping"]), "PONG\n");
}
