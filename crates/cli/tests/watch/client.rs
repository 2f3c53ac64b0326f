//! A client of pages, which sends what it likes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::text::Page;

/// Bound on every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A connection to `127.0.0.1:PORT`.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Sends bytes and takes the response.
pub fn send(port: u16, request: &str) -> Answer {
    let mut stream = connect(port);
    stream.write_all(request.as_bytes()).expect("it is read");
    receive(stream)
}

/// The response of a request that was sent.
pub fn receive(mut stream: TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response with an end");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect(head);
    let status = status.parse().expect("a number");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// The page of this path.
pub fn get(port: u16, path: &str) -> Answer {
    send(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
}

/// `/metrics`, which is there.
pub fn metrics(port: u16) -> Page {
    let answer = get(port, "/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let length: usize = answer.header("content-length").expect("a length").parse().unwrap();
    assert_eq!(length, answer.body.len());
    Page::parse(&answer.body)
}

/// The port of a URL of this host in a text.
pub fn port_in(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("http://127.0.0.1:")?;
    rest.split('/').next()?.parse().ok()
}
