//! Ends out of order.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crate::common::{Host, kill, until};
use crate::rig::{Carrier, PATIENCE, Service, assert_reset, over_both, server, tcp};

over_both!(
    a_reset_is_a_reset_at_the_other_end,
    nobody_hangs_whichever_proxy_is_killed,
    nobody_hangs_whichever_proxy_is_stopped,
);

fn a_reset_is_a_reset_at_the_other_end(carrier: Carrier) {
    let host = Host::new();
    let (address, streams) = server();
    let (_listen, _connect, port) = carrier.proxies(&host, &address, &[]);
    // The server hangs up with bytes that it has not read; and one that is not there at all.
    let mut client = tcp(port);
    client.write_all(b"unread").unwrap();
    let server = streams.recv_timeout(PATIENCE).unwrap();
    server.peek(&mut [0; 6]).unwrap();
    drop(server);
    assert_reset(client);
    let client = tcp(port);
    let server = streams.recv_timeout(PATIENCE).unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_reset(server);
}

fn nobody_hangs_whichever_proxy_is_killed(carrier: Carrier) {
    let host = Host::new();
    let (address, streams) = server();
    // The same address again and again: the one who connects finds the next one there.
    // Nobody else takes a port of this address while it is free.
    let meet = match carrier {
        Carrier::Memory => carrier.meet(&host),
        Carrier::Network => "127.0.0.2:0".to_owned(),
    };
    let (mut listen, meet) = Service::listen(&host, &meet, &address);
    let (mut connect, mut port) = Service::connect(&host, &meet, &[]);
    for round in 0..8 {
        // One that waits, one that sends to nobody who reads, one whose first direction has ended.
        let clients = [(); 3].map(|()| tcp(port));
        let servers = [(); 3].map(|()| streams.recv_timeout(PATIENCE).unwrap());
        let flood = std::thread::spawn({
            let mut client = clients[1].try_clone().unwrap();
            move || client.write_all(&vec![0; 64 << 20]).unwrap_err()
        });
        clients[2].shutdown(Shutdown::Write).unwrap();
        std::thread::sleep(Duration::from_millis(20 * (round / 2)));
        match round % 2 {
            0 => listen.kill(),
            _ => connect.kill(),
        }
        // The kernel says once that there was a reset: to the one that sends, if there is one.
        let [waiting, flooding, half] = clients;
        assert_reset(waiting);
        assert_reset(half);
        flood.join().unwrap();
        drop(flooding);
        // The pairs of servers and clients are not known: two of them are reset, whatever they wait for, and
        // so is the third, unless it saw its client's end before.
        for mut server in servers {
            let mut rest = vec![0; 1 << 20];
            while server.read(&mut rest).is_ok_and(|length| length > 0) {}
        }
        match round % 2 {
            0 => (listen, _) = Service::listen(&host, &meet, &address),
            _ => (connect, port) = Service::connect(&host, &meet, &[]),
        }
    }
    until("connections are carried again", || {
        let mut client = tcp(port);
        let is_carried = client.write_all(b"again").is_ok();
        is_carried && streams.recv_timeout(Duration::from_secs(1)).is_ok()
    });
    connect.end("TERM");
    listen.end("TERM");
}

/// Its kernel answers for it, so nobody is told by the kernel either.
fn nobody_hangs_whichever_proxy_is_stopped(carrier: Carrier) {
    for stops_listener in [true, false] {
        let host = Host::new();
        let (address, streams) = server();
        let (listen, connect, port) = carrier.proxies(&host, &address, &[]);
        let client = tcp(port);
        let server = streams.recv_timeout(PATIENCE).unwrap();
        if stops_listener {
            kill(listen.child.id(), "STOP");
            assert_reset(client);
        } else {
            kill(connect.child.id(), "STOP");
            assert_reset(server);
        }
    }
}
