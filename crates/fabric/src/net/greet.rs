//! The handshake of connections over TCP: the fabric's greeting, and what the ends of borrowed memory say in it.
//!
//! Without a secret ([`super::access`]) the handshake is the same with a key that everybody has: it proves nothing, and
//! nothing is encrypted.

use std::sync::Arc;

use crate::credentials::{Credentials, Psk};
use crate::greeter::{self, Called};
use crate::greeting::{self, GreetingError};
use crate::{Buffer, Records, Seal};
use serde::{Deserialize, Serialize};

use super::names;
use super::secret::Secret;
use crate::error::Error;

/// Version of the messages behind the handshake; another one is refused with a sentence.
pub const PROTOCOL_VERSION: u32 = 3;

/// Bytes that a peer may send before it is trusted: a frame of the handshake and its head.
pub const MAX_STRANGER_BYTES: usize = greeting::MAX_FRAME_BYTES + 16;

/// Key of connections that prove nothing.
const NO_SECRET: Psk = [0; 32];

/// First bytes of the end that was called. Versions before 3 wait for such a frame, and say that the versions differ.
const BANNER: &[u8] = b"\x1a\0\0\0{\"version\":3,\"nonce\":null}";

/// First message of the end that connects.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Hello {
    /// Version of the messages behind the handshake.
    protocol: u32,
    /// Whether the connection is encrypted from here on.
    sealed: bool,
}

/// Keys of a connection; `None` in cleartext.
pub type Keys = Option<Box<Records>>;

/// The credentials of an end with this secret.
pub fn credentials(secret: Option<&Secret>) -> Credentials {
    Credentials::Secret(*secret.map_or(&NO_SECRET, Secret::psk))
}

fn is_sealed(secret: Option<&Secret>) -> bool {
    secret.is_some_and(|secret| !secret.is_cleartext())
}

/// The keys, if it is sealed. What has come behind the handshake is opened.
fn keys(seal: Seal, is_sealed: bool, input: &mut Buffer) -> Result<Keys, GreetingError> {
    if !is_sealed {
        return Ok(None);
    }
    let records = Records::new(seal, input).map_err(|_| GreetingError::Secret)?;
    Ok(Some(Box::new(records)))
}

/// The end that has connected, until it has the answer.
#[derive(Debug)]
pub struct Calling {
    calling: greeter::Calling,
    is_sealed: bool,
}

impl Calling {
    /// A handshake, whose first bytes are appended.
    pub fn new(secret: Option<&Secret>, out: &mut Vec<u8>) -> Calling {
        let is_sealed = is_sealed(secret);
        let hello = Hello { protocol: PROTOCOL_VERSION, sealed: is_sealed };
        let calling = greeter::Calling::new(&credentials(secret), 0, &hello, out);
        Calling { calling, is_sealed }
    }

    /// Goes as far as the input allows, and appends the bytes to send. Returns the keys of a peer that has answered.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn step(
        &mut self,
        input: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Option<Keys>, GreetingError> {
        if input.len() < BANNER.len() && BANNER.starts_with(input.bytes()) {
            return Ok(None);
        }
        if input.bytes().starts_with(BANNER) {
            input.take(BANNER.len());
        }
        match self.calling.step::<()>(input, out)? {
            Some(((), seal)) => keys(seal, self.is_sealed, input).map(Some),
            None => Ok(None),
        }
    }
}

/// The error of a handshake with `name` that failed, with its remedy, for the end that has connected.
pub fn explain(name: &str, secret: Option<&Secret>, error: GreetingError) -> Error {
    match (error, secret) {
        (GreetingError::NoDaemon, _) => Error::Protocol(format!(
            "{name} is no rackmem of this version: use the same version of rackmem on all hosts"
        )),
        (error @ GreetingError::Version(_), _) => Error::Protocol(format!("{name}: {error}")),
        (GreetingError::Secret, None) => {
            Error::Refused(format!("{name} wants a secret: name its file by --secret FILE"))
        }
        (GreetingError::Secret, Some(_)) => Error::Refused(format!(
            "{name} has another secret, or was started without --secret: the files must be the same"
        )),
        (GreetingError::Refused(why), _) => {
            Error::Refused(format!("{name} refuses: {}", names::printable(&why)))
        }
        (error, _) => Error::Refused(format!("{name}: {error}")),
    }
}

/// The end that was called, until its peer has proved that it knows the secret.
#[derive(Debug)]
pub struct Greeter {
    called: Called<Hello>,
    is_sealed: bool,
    has_spoken: bool,
}

impl Greeter {
    /// A handshake that waits for its first bytes.
    pub fn new(secret: Option<&Secret>) -> Greeter {
        let called = Called::new(&Arc::new(credentials(secret)));
        Greeter { called, is_sealed: is_sealed(secret), has_spoken: false }
    }

    /// Goes as far as the input allows, and appends the bytes to send, also with an error. Returns the keys of a peer
    /// that has proved itself.
    ///
    /// # Errors
    /// The handshake has failed, and with it the connection.
    pub fn step(
        &mut self,
        input: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Option<Keys>, GreetingError> {
        if !std::mem::replace(&mut self.has_spoken, true) {
            out.extend_from_slice(BANNER);
        }
        let is_sealed = self.is_sealed;
        match self.called.step(input, out, |hello, _| judge(hello, is_sealed))? {
            Some((_, seal)) => keys(seal, is_sealed, input).map(Some),
            None => Ok(None),
        }
    }
}

fn judge(hello: &Hello, is_sealed: bool) -> Result<(), String> {
    if hello.protocol != PROTOCOL_VERSION {
        return Err(format!(
            "version {} of the protocol meets version {PROTOCOL_VERSION}: use the same version of rackmem on all hosts",
            hello.protocol
        ));
    }
    let (says, does_not) = match (hello.sealed, is_sealed) {
        (true, false) => ("there", "here"),
        (false, true) => ("here", "there"),
        _ => return Ok(()),
    };
    Err(format!(
        "--cleartext was said {says} and not {does_not}: say it at both ends, or at neither"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::frame;

    #[test]
    fn older_versions_read_which_version_this_is() {
        let mut out = Vec::new();
        let step = Greeter::new(None).step(&mut Buffer::default(), &mut out);
        assert!(step.unwrap().is_none());
        let said: serde_json::Value =
            frame::decode(frame::first(&out, 100).unwrap().unwrap()).unwrap();
        assert_eq!(said["version"], PROTOCOL_VERSION);
    }
}
