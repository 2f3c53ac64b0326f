//! Clients that ask for something else, say nothing, or never end get an answer or are cut; others get their page.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::client::{connect, get, metrics, port_in, receive, send};
use crate::common::{Host, until};

/// A rack of one node with metrics.
fn rack() -> (Host, u16) {
    let host = Host::new();
    host.ok(&["up", "--nodes", "1", "--metrics", "127.0.0.1:0"]);
    let log = fs::read_to_string(host.racks().join("default/node-0.log")).unwrap();
    let port = port_in(&log).expect("the log says where");
    (host, port)
}

fn end(host: &Host) {
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn other_requests_get_other_answers() {
    let (host, port) = rack();
    let request = |line: &str, more: &str| {
        send(port, &format!("{line}\r\nHost: localhost:{port}\r\n{more}\r\n"))
    };
    assert_eq!(get(port, "/metrics?a=b").status, 200);
    assert_eq!(get(port, "/").status, 404);
    assert_eq!(get(port, "/../metrics").status, 404);
    let whole = request("GET /metrics HTTP/1.1", "");
    let head = request("HEAD /metrics HTTP/1.1", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.header("content-length").is_some() && !whole.body.is_empty());
    assert_eq!(send(port, "GET /metrics HTTP/1.0\r\n\r\n").status, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let refused = request(&format!("{method} /metrics HTTP/1.1"), "Content-Length: 0\r\n");
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    }
    // The body of a request is thrown away, and does not cost the answer.
    let body = "x".repeat(50_000);
    let length = format!("Content-Length: {}\r\n", body.len());
    let mut stream = connect(port);
    let post = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{length}\r\n{body}");
    stream.write_all(post.as_bytes()).unwrap();
    assert_eq!(receive(stream).status, 405);
    let rebound = send(port, "GET /metrics HTTP/1.1\r\nHost: rack.example\r\n\r\n");
    assert_eq!(rebound.status, 403);
    assert_eq!(send(port, "GET /metrics HTTP/1.1\r\n\r\n").status, 400);
    for garbage in
        ["\0\0\0\0\r\n\r\n", "\x16\x03\x01 hello\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n"]
    {
        assert_eq!(send(port, garbage).status, 400, "{garbage:?}");
    }
    metrics(port);
    end(&host);
}

#[test]
fn a_header_without_end_is_cut() {
    let (host, port) = rack();
    let mut stream = connect(port);
    let line = format!("A: {}\r\n", "a".repeat(200));
    let begun = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
    stream.write_all(begun.as_bytes()).unwrap();
    // It is refused after 8 KiB; what is still sent is thrown away or refused by the kernel.
    let _ = (0..1000).try_for_each(|_| stream.write_all(line.as_bytes()));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 431 "), "{text}");
    let long = format!("{begun}A: {}\r\n\r\n", "a".repeat(8192));
    assert_eq!(send(port, &long).status, 431);
    metrics(port);
    end(&host);
}

/// Clients that send a byte now and then do not get more time than others.
#[test]
fn slow_clients_are_cut_in_time() {
    let (host, port) = rack();
    let silent = connect(port);
    let mut slow = connect(port);
    let mut half_open = connect(port);
    half_open.write_all(b"GET /metrics HTTP/1.0\r\n").unwrap();
    half_open.shutdown(Shutdown::Write).unwrap();
    assert_eq!(half_open.read(&mut [0]).unwrap(), 0, "nobody waits for the rest");
    let begun = Instant::now();
    slow.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let is_cut = |mut stream: &std::net::TcpStream| match stream.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => panic!("an answer to what was not asked"),
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    while slow.write_all(b"G").is_ok() && !is_cut(&slow) {
        assert!(begun.elapsed() < Duration::from_secs(50), "it is still served");
        metrics(port);
    }
    assert!(begun.elapsed() > Duration::from_secs(3), "it had no time");
    assert!(is_cut(&silent));
    end(&host);
}

#[test]
fn a_crowd_keeps_nobody_out() {
    let (host, port) = rack();
    let crowd: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = connect(port);
            stream.write_all(b"GET /").unwrap();
            stream
        })
        .collect();
    let before = metrics(port);
    let descriptors = fs::read_dir(format!("/proc/{}/fd", host.daemon(0))).unwrap().count();
    assert!(descriptors < 120, "{descriptors} descriptors");
    metrics(port).follows(&before);
    drop(crowd);
    let few = || fs::read_dir(format!("/proc/{}/fd", host.daemon(0))).unwrap().count() < 40;
    until("the crowd is gone", few);
    host.ok(&["status"]);
    end(&host);
}

/// Clients that ask and do not read hold a response, and no one up.
#[test]
fn readers_that_do_not_read_hold_nobody_up() {
    let (host, port) = rack();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let silent: Vec<_> = (0..80)
        .map(|_| {
            let mut stream = connect(port);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        metrics(port);
    }
    drop(silent);
    end(&host);
}
