//! The handshake of connections over TCP: the fabric's greeting, and what the ends of borrowed memory say in it.
//!
//! Without a secret ([`super::access`]) the handshake is the same with a key that everybody has: it proves nothing, and
//! nothing is encrypted.

use std::sync::Arc;

use crate::credentials::{Credentials, Kind, Psk};
use crate::greeting::{self, Callee, Caller, GreetingError, Unproved};
use crate::{Buffer, Records, Seal};
use serde::{Deserialize, Serialize};

use super::names;
use super::secret::Secret;
use crate::error::Error;

/// Version of the messages of borrowed memory and lent devices behind the handshake; another one is refused with a sentence.
pub const PROTOCOL_VERSION: u32 = 3;

/// Bytes that a peer may send before it is trusted: a frame of the handshake and its head.
pub const MAX_STRANGER_BYTES: usize = greeting::MAX_FRAME_BYTES + 16;

/// Key of connections that prove nothing.
const NO_SECRET: Psk = [0; 32];

/// First bytes of the end that was called. Versions before 3 wait for such a frame, and say that the versions differ.
const BANNER: &[u8] = b"\x1a\0\0\0{\"version\":3,\"nonce\":null}";

/// First message of the end that connects.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    /// Version of the messages behind the handshake.
    protocol: u32,
    /// Whether the connection is encrypted from here on.
    sealed: bool,
}

/// Keys of a connection; `None` in cleartext.
pub type Keys = Option<Box<Records>>;

/// What an end proves itself by.
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
    caller: Caller,
    is_sealed: bool,
}

impl Calling {
    /// A handshake, and its first bytes.
    pub fn new(secret: Option<&Secret>) -> (Calling, Vec<u8>) {
        let is_sealed = is_sealed(secret);
        let hello = Hello { protocol: PROTOCOL_VERSION, sealed: is_sealed };
        let (caller, first) = Caller::new(&credentials(secret), 0, &hello);
        (Calling { caller, is_sealed }, first)
    }

    /// The last bytes to send, and the keys; `Err(self)`: the answer has not come wholly.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn answered(
        self,
        input: &mut Buffer,
    ) -> Result<Result<(Vec<u8>, Keys), Calling>, GreetingError> {
        let is_sealed = self.is_sealed;
        if input.len() < BANNER.len() && BANNER.starts_with(input.bytes()) {
            return Ok(Err(self));
        }
        if input.bytes().starts_with(BANNER) {
            input.take(BANNER.len());
        }
        let met = match self.caller.answered::<()>(input.bytes())? {
            Ok(met) => met,
            Err(caller) => return Ok(Err(Calling { caller, is_sealed })),
        };
        input.take(met.taken);
        Ok(Ok((met.confirm, keys(met.seal, is_sealed, input)?)))
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
    stage: Option<Stage>,
    is_sealed: bool,
}

#[derive(Debug)]
enum Stage {
    /// Nothing was said.
    New(Callee),
    Called(Callee),
    Proving(Unproved),
}

impl Greeter {
    /// A handshake that waits for its first bytes.
    pub fn new(secret: Option<&Secret>) -> Greeter {
        let stage = Some(Stage::New(Callee::new(&Arc::new(credentials(secret)))));
        Greeter { stage, is_sealed: is_sealed(secret) }
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
        loop {
            match self.stage.take() {
                Some(Stage::New(callee)) => {
                    out.extend_from_slice(BANNER);
                    self.stage = Some(Stage::Called(callee));
                }
                Some(Stage::Called(callee)) => match self.hear(callee, input, out)? {
                    Ok(stage) => self.stage = Some(stage),
                    Err(callee) => {
                        self.stage = Some(Stage::Called(callee));
                        return Ok(None);
                    }
                },
                Some(Stage::Proving(unproved)) => match unproved.prove(input.bytes())? {
                    Ok((seal, taken)) => {
                        input.take(taken);
                        return keys(seal, self.is_sealed, input).map(Some);
                    }
                    Err(unproved) => {
                        self.stage = Some(Stage::Proving(unproved));
                        return Ok(None);
                    }
                },
                // It has failed before.
                None => return Err(GreetingError::NoDaemon),
            }
        }
    }

    fn hear(
        &self,
        callee: Callee,
        input: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Result<Stage, Callee>, GreetingError> {
        let asked = callee.hear::<Hello>(input.bytes()).inspect_err(|error| {
            out.extend(greeting::refusal(error, Kind::Secret).unwrap_or_default());
        })?;
        let asked = match asked {
            Ok(asked) => asked,
            Err(callee) => return Ok(Err(callee)),
        };
        input.take(asked.taken);
        let judgement = self.judge(&asked.hello);
        let (bytes, unproved) = asked.answer(judgement.clone());
        out.extend(bytes);
        judgement.map_err(GreetingError::Refused)?;
        Ok(Ok(Stage::Proving(unproved)))
    }

    fn judge(&self, hello: &Hello) -> Result<(), String> {
        if hello.protocol != PROTOCOL_VERSION {
            return Err(format!(
                "version {} of the protocol meets version {PROTOCOL_VERSION}: use the same version of rackmem on all \
                 hosts",
                hello.protocol
            ));
        }
        match (hello.sealed, self.is_sealed) {
            (true, false) => {
                Err("--cleartext was said there and not here: say it at both ends, or at \
                                  neither"
                    .to_owned())
            }
            (false, true) => {
                Err("--cleartext was said here and not there: say it at both ends, or at \
                                  neither"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
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
