//! Requests to the listener of pages: any bytes, cut anywhere. How they are cut changes nothing, an answer is what HTTP
//! calls one, pages are for those alone who name this host, and a connection ends when its client hangs up.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;

use crate::http::connection::Connection;
use crate::http::request::{Parsed, Request, Response, parse};

/// The listener's files themselves: the command around them would be built with them.
#[allow(dead_code, unreachable_pub, reason = "the rest of the command is not here")]
#[path = "../../crates/cli/src/http"]
mod http {
    pub mod connection;
    pub mod request;
}

const BODY: &str = "the page";

fn page(_: &Request) -> Response {
    Response::page("text/plain", BODY)
}

/// Both ends of a connection; neither blocks.
fn ends() -> (TcpStream, TcpStream) {
    let (client, server) = UnixStream::pair().unwrap();
    // Neither end is asked for its address, which is all that another kind of sockets would change.
    let [client, server] = [client, server].map(|end| TcpStream::from(OwnedFd::from(end)));
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    (client, server)
}

/// What a client gets that sends `bytes` in pieces of `piece` bytes, and hangs up.
fn answer(bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut client, server) = ends();
    let mut connection = Connection::new(server);
    for part in bytes.chunks(piece) {
        client.write_all(part).unwrap();
        connection.go_on(&mut page).unwrap();
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert!(connection.go_on(&mut page).is_err(), "nobody is there any more");
    drop(connection);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    answer
}

/// Checks that it is an answer of HTTP. Returns its status, its body, and the length that it says of that.
fn check(answer: &[u8]) -> (u16, &[u8], usize) {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(answer).unwrap();
    let httparse::Status::Complete(head_bytes) = parsed else { panic!("half an answer") };
    let length = response.headers.iter().find(|header| header.name == "Content-Length").unwrap();
    let length = std::str::from_utf8(length.value).unwrap().parse().unwrap();
    (response.code.unwrap(), &answer[head_bytes..], length)
}

/// Whether a name can be one of this host: what else is all digits is no name that others could have been given.
fn is_of_this_host(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    let address = name.strip_prefix("localhost").unwrap_or(&name);
    let is_number = address.chars().all(|c| c.is_ascii_digit() || ".:[]+".contains(c));
    let first = address.trim_start_matches('[');
    is_number && (address.len() < name.len() || first.starts_with("127.") || first.starts_with([':', '0']))
}

/// The hosts that a request names.
fn hosts(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let head = text.lines().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let header = head.filter_map(|line| line.split_once(':'));
    let host = header.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    host.map(|(_, value)| value.to_owned()).collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((piece, bytes)) = data.split_first() else { return };
    let answer = answer(bytes, usize::from(*piece) + 1);
    let expected = match parse(bytes) {
        Parsed::Part => return assert!(answer.is_empty(), "an answer to half a request"),
        Parsed::Refused(response) => response.encode(false),
        Parsed::Whole(request) => {
            assert!(!request.path.contains('?'));
            let named = hosts(bytes);
            assert!(named.len() <= 1 && named.iter().all(|name| is_of_this_host(name)), "{named:?}");
            page(&request).encode(request.head_only)
        }
    };
    assert_eq!(answer, expected, "cutting has changed something");
    let (status, body, length) = check(&answer);
    assert!(status == 200 || (400..=431).contains(&status), "{status}");
    let is_head = body.is_empty() && length == BODY.len() && status == 200;
    assert!(body.len() == length || is_head, "{} of {length} bytes", body.len());
});
