//! Handshake by which two processes agree on terms over a network. Both are trusted by then, or nobody needs to be.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use super::Wire;
use crate::window::Terms;
use rackmem_fabric::address::Address;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::SILENCE;
use rackmem_fabric::net::link::Link as Way;
use rackmem_fabric::net::names;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::stranger::Stranger;
use rackmem_fabric::rights::Right;

/// Tells versions of the frames apart.
const VERSION: u32 = 1;

/// The first message of the end that connects.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// It wants queue pairs.
    QueuePairs { version: u32, terms: Terms },
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    /// On these terms: frames follow.
    Agreed,
    /// No, for this reason.
    Refused(#[serde(deserialize_with = "names::take_sentence")] String),
}

/// Connects to the process that listens there.
///
/// # Errors
/// Nobody listens, it is another program, or it refuses; the text says what to do about it.
pub(crate) fn connect(address: &Address, proof: Option<&Proof>, terms: Terms) -> Result<Wire> {
    let ask = || {
        let mut way = Way::connect(address, proof, SILENCE)?;
        way.require(proof, Right::Context)?;
        way.send(&Request::QueuePairs { version: VERSION, terms })?;
        let reply = way.receive::<Reply>(SILENCE)?;
        Ok((way, reply))
    };
    let (way, reply) = ask().map_err(|error| explain(address, error))?;
    match reply {
        Reply::Agreed => start(way),
        Reply::Refused(why) => Err(Error::Refused(format!("{address} refuses: {why}"))),
    }
}

/// Takes a process that has connected.
///
/// # Errors
/// It proves nothing, is no such process, or wants too much.
pub(crate) fn accept(
    fd: OwnedFd,
    who: &str,
    proof: Option<&Proof>,
    stranger: &Stranger,
) -> Result<(Wire, Terms)> {
    let mut way = Way::welcome(fd, who, (proof, &[Right::Context]), stranger)?;
    let request = way.receive_by(stranger.deadline()).inspect_err(|error| {
        if matches!(error, Error::Protocol(_)) {
            let _ =
                way.send(&Reply::Refused("there are queue pairs here, and nothing else".into()));
        }
    });
    let Request::QueuePairs { version, terms } = request?;
    let judgement = match version {
        VERSION => terms.check(),
        _ => Err(Error::Protocol(format!(
            "it speaks version {version} of queue pairs, this is version {VERSION}: use the same \
             version of rackmem on all hosts"
        ))),
    };
    let reply = match &judgement {
        Ok(()) => Reply::Agreed,
        Err(error) => Reply::Refused(error.to_string()),
    };
    way.send(&reply)?;
    judgement?;
    Ok((start(way)?, terms))
}

fn start(way: Way) -> Result<Wire> {
    let (socket, keys, before) = way.into_parts();
    Wire::new(socket, keys, before)
}

/// Says what to do about one that is not there, or is somebody else.
fn explain(address: &Address, error: Error) -> Error {
    match error {
        Error::PeerLost { peer, reason } => Error::Protocol(format!(
            "{peer} gives no queue pairs: {reason}; name the address at which \
             `rackmem sockets listen`, or another listener for queue pairs, waits"
        )),
        Error::Protocol(why) => Error::Protocol(format!("{address}: {why}")),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use rackmem_fabric::Buffer;

    use super::*;
    use crate::{Access, Link, Listener};
    use rackmem_fabric::net::greet::Greeter;

    const TERMS: Terms = Terms { connections: 1, registered_bytes: 4096 };

    /// Sends this to a listener for queue pairs; returns its answer, and its own error.
    fn answer(message: &serde_json::Value) -> (String, String) {
        let anywhere = Address::Tcp("127.0.0.1:0".to_owned());
        let listener = Listener::bind(&anywhere, Access::insecure()).unwrap();
        let address = listener.address().clone();
        let finds = std::thread::spawn(move || listener.accept().unwrap_err().to_string());
        let mut way = Way::connect(&address, None, SILENCE).unwrap();
        way.send(message).unwrap();
        let found = finds.join().unwrap();
        match way.receive(SILENCE).unwrap() {
            Reply::Refused(why) => (why, found),
            Reply::Agreed => panic!("{message} is agreed to"),
        }
    }

    #[test]
    fn another_version_is_told_what_to_do() {
        let newer = Request::QueuePairs { version: VERSION + 1, terms: TERMS };
        let (why, found) = answer(&serde_json::to_value(&newer).unwrap());
        for text in [why, found] {
            assert!(text.contains("use the same version of rackmem on all hosts"), "{text}");
        }
    }

    #[test]
    fn who_wants_too_much_or_something_else_is_told() {
        let terms = Terms { connections: 0, ..TERMS };
        let greedy = Request::QueuePairs { version: VERSION, terms };
        let (why, _) = answer(&serde_json::to_value(&greedy).unwrap());
        assert!(why.contains("there may be up to"), "{why}");
        let (why, _) = answer(&serde_json::json!({"Borrow": 5}));
        assert!(why.contains("nothing else"), "{why}");
    }

    /// One that ends at once, one that speaks something else, one that says no in rackmem's own words.
    #[test]
    fn a_listener_for_something_else_is_named() {
        let frame = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        for (greets, says, expected) in [
            (false, Vec::new(), "gives no queue pairs"),
            (false, b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "is no rackmem"),
            (false, frame(r#"{"version":2,"nonce":null}"#), "use the same version"),
            (true, frame(r#"{"Pong":1}"#), "is no rackmem"),
            (true, frame(r#"{"Refused":"no"}"#), "refuses: no"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = Address::Tcp(listener.local_addr().unwrap().to_string());
            let other = std::thread::spawn(move || {
                let mut stream: TcpStream = listener.accept().unwrap().0;
                let (mut greeter, mut input) = (Greeter::new(None, &[]), Buffer::default());
                let (mut bytes, mut out) = ([0; 256], Vec::new());
                while greets && greeter.step(&mut input, &mut out).unwrap().is_none() {
                    stream.write_all(&std::mem::take(&mut out)).unwrap();
                    let n = stream.read(&mut bytes).unwrap();
                    input.extend(&bytes[..n]);
                }
                stream.write_all(&says).unwrap();
                // A frame that it does not understand, if one comes.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            });
            let error = Link::connect(&address, None, TERMS).unwrap_err().to_string();
            let is_named = error.contains(&address.to_string()) && error.contains(expected);
            assert!(is_named, "{expected}: {error}");
            other.join().unwrap();
        }
    }
}
