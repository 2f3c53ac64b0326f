//! Errors are reported, and disturb nobody.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use crate::common::Host;
use crate::rig::{PATIENCE, Service, assert_reset, bytes, echo, path, server, tcp, there_and_back};

#[test]
fn what_is_wrong_is_said() {
    let host = Host::new();
    let qp = path(&host);
    let qp = qp.to_str().unwrap();
    fn connecting<'a>(qp: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["sockets", "connect", qp, "--insecure"], more].concat()
    }
    let nobody = host.fails(1, &connecting(qp, &["--listen", "127.0.0.1:0"]));
    assert!(nobody.contains("start `rackmem sockets listen` there first"), "{nobody}");
    let _listen = Service::listen(&host, qp, "127.0.0.1:1");
    let twice = host.fails(1, &["sockets", "listen", qp, "--to", "127.0.0.1:1"]);
    assert!(twice.contains("cannot listen at") && twice.contains("another path"), "{twice}");
    let (_connect, port) = Service::connect(&host, qp, &[]);
    let taken = host.fails(1, &connecting(qp, &["--listen", &format!("127.0.0.1:{port}")]));
    assert!(taken.contains("cannot listen at 127.0.0.1"), "{taken}");
    let path = path(&host);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if !rustix::process::geteuid().is_root() {
        let denied = host.fails(1, &connecting(qp, &["--listen", "127.0.0.1:0"]));
        assert!(
            denied.contains("only users with write access to that file may connect"),
            "{denied}"
        );
    }
    // There is no such server.
    assert_reset(tcp(port));
    host.fails(2, &connecting(qp, &["--listen", "127.0.0.1:0", "--sockets", "0"]));
    host.fails(2, &connecting(qp, &["--listen", "nowhere"]));
    let neither = host.fails(2, &connecting("redis.qp", &["--listen", "127.0.0.1:0"]));
    assert!(neither.contains("expected HOST:PORT, or a path with a '/' in it"), "{neither}");
    let file = host.racks().join("file");
    std::fs::write(&file, "mine").unwrap();
    let file_path = file.to_str().unwrap();
    let refused = [
        host.fails(1, &["sockets", "listen", file_path, "--to", "127.0.0.1:1"]),
        host.fails(1, &["sockets", "connect", qp, "--listen", file_path]),
    ];
    for refused in refused {
        assert!(refused.contains("is no socket: remove it, or choose another path"), "{refused}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let port = host.fails(1, &["sockets", "connect", qp, "--listen", "127.0.0.1:0"]);
    assert!(port.contains("listen at a path") && port.contains("--insecure"), "{port}");
}

#[test]
fn what_is_wrong_over_a_network_is_said() {
    let host = Host::new();
    let connecting = |meet: &str, more: &[&str]| {
        let args = ["sockets", "connect", meet, "--listen", "127.0.0.1:0", "--insecure"];
        host.fails(1, &[&args, more].concat())
    };
    let nobody = connecting("127.0.0.1:1", &[]);
    assert!(nobody.contains("start `rackmem sockets listen` there first"), "{nobody}");
    // Servers of other protocols: one that says something, and one that waits to be spoken to.
    let talker = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = talker.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in talker.incoming() {
            let _ = stream.unwrap().write_all(b"220 mail.example.org ESMTP ready\r\n");
        }
    });
    let other = connecting(&at, &[]);
    assert!(other.contains(&at) && other.contains("is no rackmem"), "{other}");
    let (mute, _streams) = server();
    let silent = connecting(&mute, &[]);
    assert!(silent.contains("does not answer") && silent.contains("sockets listen"), "{silent}");

    let secrets = ["one", "two"]
        .map(|name| host.secret(name, &format!("the secret of {name} and nobody else")));
    let listen = |meet: &str, more: &[&str]| {
        [&["sockets", "listen", meet, "--to", "127.0.0.1:1"], more].concat().join("\n")
    };
    for open in ["0.0.0.0:0", "127.0.0.1:0"] {
        let refused = host.fails(1, &listen(open, &[]).lines().collect::<Vec<_>>());
        assert!(
            refused.contains("--secret FILE, or their keys by --rack-file FILE, or say --insecure"),
            "{refused}"
        );
    }
    let guarded = listen("127.0.0.1:0", &["--secret", &secrets[0]]);
    let guarded = Service::start(&host, &guarded.lines().collect::<Vec<_>>());
    let meet = guarded.said.split(' ').nth(3).unwrap();
    let without = connecting(meet, &[]);
    assert!(without.contains("wants a secret: name its file by --secret FILE"), "{without}");
    let wrong = connecting(meet, &["--secret", &secrets[1]]);
    assert!(wrong.contains("the files must be the same"), "{wrong}");
    let (_connect, port) = Service::connect(&host, meet, &["--secret", &secrets[0]]);
    assert_reset(tcp(port));
    let plain = Service::listen(&host, "127.0.0.1:0", "127.0.0.1:1");
    let one_sided = connecting(&plain.1, &["--secret", &secrets[0]]);
    assert!(one_sided.contains("was started without --secret"), "{one_sided}");
}

/// Noise at the port does not keep clients that keep to the protocol from being served.
#[test]
fn noise_at_the_port_disturbs_nobody() {
    let host = Host::new();
    let (_listen, meet) = Service::listen(&host, "127.0.0.1:0", &echo());
    let noises: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
        b"\x12\0\0\0{\"QueuePairs\":null}",
        b"\x38\0\0\0{\"QueuePairs\":{\"version\":99,\"terms\":{\"connections\":1}}}",
    ];
    let mut held = Vec::new();
    for noise in noises {
        let mut stream = TcpStream::connect(&meet).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(noise).unwrap();
        held.push(stream);
    }
    let (_connect, port) = Service::connect(&host, &meet, &[]);
    there_and_back(tcp(port), bytes(1, 100_000));
    for mut stream in held {
        // It is hung up, with or without a sentence.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
    there_and_back(tcp(port), bytes(2, 100_000));
}
