//! A request as far as a page needs it, and the response.

use std::net::IpAddr;

/// Longest request: its line and its header.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;

/// Lines of a header.
const MAX_HEADERS: usize = 64;

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The path without its query.
    pub path: String,
    /// Whether only the head of the response is wanted.
    pub head_only: bool,
}

/// A response; its status is 200 unless it is a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: u16,
    reason: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Response {
    /// A page of this type.
    pub fn page(content_type: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response { status: 200, reason: "OK", content_type, body: body.into() }
    }

    /// No page for now, and why.
    pub fn unavailable(why: &str) -> Response {
        Response::refusal(503, "Service Unavailable", why)
    }

    /// There is no such page.
    pub(super) fn not_found() -> Response {
        Response::refusal(404, "Not Found", "there is no such page")
    }

    fn refusal(status: u16, reason: &'static str, why: &str) -> Response {
        let body = format!("{why}\n").into_bytes();
        Response { status, reason, content_type: "text/plain; charset=utf-8", body }
    }

    /// The bytes to send.
    pub fn encode(&self, head_only: bool) -> Vec<u8> {
        let Response { status, reason, content_type, body } = self;
        let allow = if *status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let mut bytes = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: {POLICY}\r\nConnection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        if !head_only {
            bytes.extend_from_slice(body);
        }
        bytes
    }
}

/// What a page may load: its own scripts and data. Charts bring styles of their own.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; \
                      style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What has come of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Not all of it.
    Part,
    /// All of it.
    Whole(Request),
    /// Something that gets no page.
    Refused(Response),
}

/// Parses the bytes that have come so far.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < MAX_REQUEST_BYTES => return Parsed::Part,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            let why = format!(
                "a request has at most {MAX_REQUEST_BYTES} bytes and {MAX_HEADERS} headers"
            );
            let reason = "Request Header Fields Too Large";
            return Parsed::Refused(Response::refusal(431, reason, &why));
        }
        Err(error) => {
            return Parsed::Refused(Response::refusal(400, "Bad Request", &error.to_string()));
        }
    }
    if let Err(refusal) = check_host(&request) {
        return Parsed::Refused(refusal);
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            let why = "pages can be read, and nothing else";
            return Parsed::Refused(Response::refusal(405, "Method Not Allowed", why));
        }
    };
    let target = request.path.unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Parsed::Whole(Request { path, head_only })
}

/// Whether the client means this host.
fn check_host(request: &httparse::Request<'_, '_>) -> Result<(), Response> {
    let mut hosts =
        request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let refuse = |why| Err(Response::refusal(400, "Bad Request", why));
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_of_this_host(host.value) => Ok(()),
        (Some(_), None) => Err(Response::refusal(
            403,
            "Forbidden",
            "the page has no such name: ask for localhost or an address of the loopback network",
        )),
        (Some(_), Some(_)) => refuse("a request names one host"),
        // Browsers name the host always.
        (None, _) if request.version == Some(0) => Ok(()),
        (None, _) => refuse("a request of HTTP/1.1 names the host"),
    }
}

fn is_of_this_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (text, "80"),
    };
    if port.parse::<u16>().is_err() {
        return false;
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> u16 {
        match parse(text.as_bytes()) {
            Parsed::Part => 100,
            Parsed::Whole(_) => 200,
            Parsed::Refused(response) => response.status,
        }
    }

    #[test]
    fn only_whole_requests_of_this_host_get_pages() {
        for (expected, text) in [
            (200, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9469\r\n\r\n"),
            (200, "HEAD / HTTP/1.1\r\nhost: LOCALHOST\r\n\r\n"),
            (200, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
            (200, "GET / HTTP/1.0\r\n\r\n"),
            (400, "GET / HTTP/1.1\r\n\r\n"),
            (400, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
            (403, "GET / HTTP/1.1\r\nHost: rebound.example:9469\r\n\r\n"),
            (403, "GET / HTTP/1.1\r\nHost: 127.0.0.1.example\r\n\r\n"),
            (403, "GET / HTTP/1.1\r\nHost: 192.168.0.1\r\n\r\n"),
            (403, "GET / HTTP/1.1\r\nHost: localhost:port\r\n\r\n"),
            (405, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"),
            (400, "\u{1}\u{2}\u{3}\r\n\r\n"),
            (400, "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
            (100, "GET / HTTP/1.1\r\nHost: local"),
        ] {
            assert_eq!(status(text), expected, "{text:?}");
        }
        let long =
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}", "a".repeat(MAX_REQUEST_BYTES));
        assert_eq!(status(&long), 431);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: a\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(status(&many), 431);
    }

    /// Requests of which bytes were changed, cut off or doubled end in an answer or wait for more.
    #[test]
    fn no_bytes_upset_it() {
        let good = b"GET /metrics?a HTTP/1.1\r\nHost: [::1]:9469\r\nAccept: */*\r\n\r\n";
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut seen = [0; 3];
        for _ in 0..50_000 {
            let mut bytes = good.to_vec();
            for _ in 0..random(4) {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes[at] = random(256) as u8,
                    1 => bytes.truncate(at + 1),
                    _ => bytes.extend_from_within(at..),
                }
            }
            seen[match parse(&bytes) {
                Parsed::Part => 0,
                Parsed::Whole(request) => {
                    assert!(request.path.len() < bytes.len());
                    1
                }
                Parsed::Refused(response) => {
                    assert!((400..=431).contains(&response.status));
                    2
                }
            }] += 1;
        }
        assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
    }

    #[test]
    fn queries_are_left_out() {
        let parsed = parse(b"GET /metrics?name=a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let path = "/metrics".to_owned();
        assert_eq!(parsed, Parsed::Whole(Request { path, head_only: false }));
    }

    #[test]
    fn a_head_has_the_length_of_the_body_and_no_body() {
        let page = Response::page("text/plain", "12345");
        let (whole, head) = (page.encode(false), page.encode(true));
        assert_eq!(whole.strip_suffix(b"12345"), Some(&head[..]));
        assert!(String::from_utf8(head).unwrap().contains("\r\nContent-Length: 5\r\n"));
    }
}
