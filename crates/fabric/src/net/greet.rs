//! The handshake of connections over TCP: the fabric's greeting, and what the ends of borrowed memory say in it.
//!
//! The end that was called speaks first: a banner, in the clear, with its version and, where keys are the proof, the
//! number of its node. The other end looks up the key of that node, so one that lies cannot go on.
//!
//! Without a proof ([`super::access`]) the handshake is the same with a key that everybody has: it proves nothing, and
//! nothing is encrypted.

use std::sync::{Arc, LazyLock};

use crate::credentials::Credentials;
use crate::greeter::{self, Called};
use crate::greeting::{self, GreetingError};
use crate::rights::Right;
use crate::{Buffer, Records, Seal};
use serde::{Deserialize, Serialize};

use super::proof::Proof;
use super::{frame, names};
use crate::error::Error;

/// Version of the messages behind the handshake; another one is refused with a sentence.
pub const PROTOCOL_VERSION: u32 = 3;

/// Bytes that a peer may send before it is trusted: a frame of the handshake and its head.
pub const MAX_STRANGER_BYTES: usize = greeting::MAX_FRAME_BYTES + 16;

/// Longest banner. A frame of the handshake behind it begins with letters, which are a greater length.
const MAX_BANNER_BYTES: usize = 256;

/// Credentials of connections that prove nothing.
static NOTHING: LazyLock<Arc<Credentials>> =
    LazyLock::new(|| Arc::new(Credentials::Secret([0; 32])));

/// First frame of the end that was called. Versions before 3 wait for such a one, and say that the versions differ.
#[derive(Debug, Serialize, Deserialize)]
struct Banner {
    version: u32,
    nonce: Option<()>,
    /// The callee's node, if keys tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u16>,
}

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

/// A peer that has proved itself.
#[derive(Debug)]
pub struct Met {
    /// Keys of the connection.
    pub keys: Keys,
    /// Its node, if it has proved itself by a key.
    pub node: Option<u16>,
}

/// The credentials of an end with this proof.
pub fn credentials(proof: Option<&Proof>) -> &Arc<Credentials> {
    proof.map_or(&NOTHING, Proof::credentials)
}

fn is_sealed(proof: Option<&Proof>) -> bool {
    proof.is_some_and(|proof| !proof.is_cleartext())
}

/// A peer, and its keys if what travels is sealed. What has come behind the handshake is opened.
fn met(
    seal: Seal,
    is_sealed: bool,
    node: Option<u16>,
    input: &mut Buffer,
) -> Result<Met, GreetingError> {
    if !is_sealed {
        return Ok(Met { keys: None, node });
    }
    let records = Records::new(seal, input).map_err(|_| GreetingError::Secret)?;
    Ok(Met { keys: Some(Box::new(records)), node })
}

/// The end that has connected, until it has the answer.
#[derive(Debug)]
pub struct Calling {
    credentials: Arc<Credentials>,
    is_sealed: bool,
    /// The callee's node, once its banner has said it.
    node: Option<u16>,
    /// The handshake, once it is known with whom.
    calling: Option<greeter::Calling>,
    has_banner: bool,
}

impl Calling {
    /// A handshake. Its first bytes are appended, unless they depend on the node that has been called.
    pub fn new(proof: Option<&Proof>, out: &mut Vec<u8>) -> Calling {
        let (credentials, is_sealed) = (credentials(proof).clone(), is_sealed(proof));
        let mut calling =
            Calling { credentials, is_sealed, node: None, calling: None, has_banner: false };
        if proof.is_none_or(|proof| !proof.has_keys()) {
            calling.call(0, out);
        }
        calling
    }

    fn call(&mut self, node: u16, out: &mut Vec<u8>) {
        let hello = Hello { protocol: PROTOCOL_VERSION, sealed: self.is_sealed };
        self.calling = Some(greeter::Calling::new(&self.credentials, node, &hello, out));
    }

    /// Goes as far as the input allows, and appends the bytes to send. Returns a peer that has answered.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn step(
        &mut self,
        input: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Option<Met>, GreetingError> {
        if !self.has_banner {
            let Some(banner) = take_banner(input)? else { return Ok(None) };
            self.has_banner = true;
            if self.calling.is_none() {
                self.call_back(&banner, out)?;
            }
        }
        let calling = self.calling.as_mut().ok_or(GreetingError::NoDaemon)?;
        match calling.step::<()>(input, out)? {
            Some(((), seal)) => met(seal, self.is_sealed, self.node, input).map(Some),
            None => Ok(None),
        }
    }

    /// Calls the node that the callee says that it is.
    fn call_back(&mut self, banner: &Banner, out: &mut Vec<u8>) -> Result<(), GreetingError> {
        let kinds = (NOTHING.kind().name(), self.credentials.kind().name());
        let node = banner.node.ok_or(GreetingError::Kind(kinds.0, kinds.1))?;
        if !self.credentials.knows(node) {
            return Err(GreetingError::NoSuchNode(node));
        }
        self.node = Some(node);
        self.call(node, out);
        Ok(())
    }
}

/// The banner at the beginning of the input; `None`: it is not whole.
fn take_banner(input: &mut Buffer) -> Result<Option<Banner>, GreetingError> {
    let banner = frame::take::<Banner>(input, MAX_BANNER_BYTES);
    match banner.map_err(|_| GreetingError::NoDaemon)? {
        Some(banner) if banner.version != PROTOCOL_VERSION => Err(GreetingError::NoDaemon),
        banner => Ok(banner),
    }
}

/// The error of a handshake with `name` that failed, with its remedy, for the end that has connected.
pub fn explain(name: &str, proof: Option<&Proof>, error: GreetingError) -> Error {
    let has_keys = proof.is_some_and(Proof::has_keys);
    match (error, proof) {
        (GreetingError::NoDaemon, _) => Error::Protocol(format!(
            "{name} is no rackmem of this version: use the same version of rackmem on all hosts"
        )),
        (error @ GreetingError::Version(_), _) => Error::Protocol(format!("{name}: {error}")),
        (GreetingError::Kind(..), _) if has_keys => Error::Refused(format!(
            "{name} asks for no keys: start it with --rack-file FILE, the same rack file as here"
        )),
        (GreetingError::Kind(theirs, _), _) => Error::Refused(format!(
            "{name} asks for {theirs}: name the rack file that has them by --rack-file FILE"
        )),
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

/// The end that was called, until its peer has proved itself.
#[derive(Debug)]
pub struct Greeter {
    called: Called<Hello>,
    proof: Option<Proof>,
    /// Rights of which the peer has to have one.
    rights: &'static [Right],
    node: Option<u16>,
    has_spoken: bool,
}

impl Greeter {
    /// A handshake that waits for its first bytes, with a peer that has one of these rights.
    pub fn new(proof: Option<&Proof>, rights: &'static [Right]) -> Greeter {
        let called = Called::new(credentials(proof));
        Greeter { called, proof: proof.cloned(), rights, node: None, has_spoken: false }
    }

    /// Goes as far as the input allows, and appends the bytes to send, also with an error. Returns a peer that has
    /// proved itself.
    ///
    /// # Errors
    /// The handshake has failed, and with it the connection.
    pub fn step(
        &mut self,
        input: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<Option<Met>, GreetingError> {
        if !std::mem::replace(&mut self.has_spoken, true) {
            let node = self.proof.as_ref().and_then(Proof::own_node);
            let banner = Banner { version: PROTOCOL_VERSION, nonce: None, node };
            out.extend(frame::encode(&banner, MAX_BANNER_BYTES).expect("a short frame"));
        }
        let (proof, rights, from) = (self.proof.as_ref(), self.rights, &mut self.node);
        let is_sealed = is_sealed(proof);
        let answer = self.called.step(input, out, |hello, node| {
            *from = node;
            judge(hello, is_sealed)?;
            proof.map_or(Ok(()), |proof| proof.check(node, rights))
        })?;
        match answer {
            Some((_, seal)) => met(seal, is_sealed, self.node, input).map(Some),
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
    use std::path::Path;

    use super::*;
    use crate::keys::PrivateKey;
    use crate::net::proof::Member;

    fn key(number: u8) -> PrivateKey {
        PrivateKey::from_random([number; 32])
    }

    /// Node `own` of a rack of two, with this private key; node 1 may only borrow.
    fn node(own: u8) -> Proof {
        let peers = [0, 1].map(|nid| key(nid).public()).to_vec();
        let may_borrow =
            Member { rights: [Right::Borrow].into_iter().collect(), ..Member::default() };
        let credentials = Credentials::Keys { own: key(own), peers, secret: None };
        Proof::of(credentials, vec![Member::default(), may_borrow], Path::new("rack.toml"))
    }

    type Outcome = Result<Met, GreetingError>;

    /// Both ends of a handshake, whose bytes come one at a time.
    fn meet(
        caller: Option<&Proof>,
        callee: Option<&Proof>,
        rights: &'static [Right],
    ) -> (Outcome, Option<Outcome>) {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let (mut calling, mut greeter) =
            (Calling::new(caller, &mut there), Greeter::new(callee, rights));
        let (mut heard, mut answered) = (Buffer::default(), Buffer::default());
        let mut called = greeter.step(&mut heard, &mut back).transpose();
        let outcome = loop {
            let Some(byte) = (!back.is_empty()).then(|| back.remove(0)) else {
                break Err(GreetingError::NoDaemon);
            };
            answered.extend(&[byte]);
            let step = calling.step(&mut answered, &mut there).transpose();
            for byte in there.drain(..) {
                heard.extend(&[byte]);
                called = called.or_else(|| greeter.step(&mut heard, &mut back).transpose());
            }
            if let Some(outcome) = step {
                break outcome;
            }
        };
        (outcome, called)
    }

    #[test]
    fn older_versions_read_which_version_this_is() {
        for (proof, own) in [(None, None), (Some(node(1)), Some(1))] {
            let mut out = Vec::new();
            let step = Greeter::new(proof.as_ref(), &[]).step(&mut Buffer::default(), &mut out);
            assert!(step.unwrap().is_none());
            let said: serde_json::Value =
                frame::decode(frame::first(&out, 100).unwrap().unwrap()).unwrap();
            assert_eq!(said["version"], PROTOCOL_VERSION);
            assert_eq!(said.get("node").and_then(serde_json::Value::as_u64), own);
        }
    }

    #[test]
    fn both_ends_know_which_node_has_proved_itself() {
        let (caller, callee) = meet(Some(&node(1)), Some(&node(0)), &[Right::Borrow]);
        assert_eq!((caller.unwrap().node, callee.unwrap().unwrap().node), (Some(0), Some(1)));
        let secret = Proof::secret(b"a secret of all hosts");
        let (caller, callee) = meet(Some(&secret), Some(&secret), &[Right::Borrow]);
        assert_eq!((caller.unwrap().node, callee.unwrap().unwrap().node), (None, None));
    }

    #[test]
    fn a_node_without_the_right_is_told_which() {
        let (caller, callee) = meet(Some(&node(1)), Some(&node(0)), &[Right::Nic, Right::Blk]);
        let why = explain("lender", Some(&node(1)), caller.unwrap_err()).to_string();
        assert!(why.contains("node 1 does not have the right 'nic' or 'blk'"), "{why}");
        assert!(callee.unwrap().is_err());
    }

    #[test]
    fn ends_with_other_proofs_are_told_what_to_name() {
        let (secret, keys) = (Proof::secret(b"a secret of all hosts"), node(0));
        for (caller, callee, expected) in [
            (Some(&keys), None, "asks for no keys: start it with --rack-file"),
            (Some(&keys), Some(&secret), "asks for no keys: start it with --rack-file"),
            (Some(&secret), Some(&keys), "asks for keys: name the rack file"),
            (None, Some(&keys), "asks for keys: name the rack file"),
            (None, Some(&secret), "wants a secret: name its file by --secret"),
        ] {
            let (outcome, called) = meet(caller, callee, &[]);
            let why = explain("lender", caller, outcome.unwrap_err()).to_string();
            assert!(why.contains(expected), "{why}");
            assert!(called.is_none_or(|called| called.is_err()));
        }
    }

    #[test]
    fn one_that_says_it_is_another_node_gets_no_further() {
        let mut out = Vec::new();
        let mut calling = Calling::new(Some(&node(0)), &mut out);
        for (liar, expected) in [(1, None), (7, Some(GreetingError::NoSuchNode(7)))] {
            let banner = Banner { version: PROTOCOL_VERSION, nonce: None, node: Some(liar) };
            let mut input = Buffer::default();
            input.extend(&frame::encode(&banner, MAX_BANNER_BYTES).unwrap());
            let mut calling = Calling::new(Some(&node(0)), &mut out);
            assert_eq!(calling.step(&mut input, &mut out).err(), expected);
        }
        // The hello was for node 1, and node 0 cannot read it.
        let mut greeter = Greeter::new(Some(&node(0)), &[]);
        let mut heard = Buffer::default();
        heard.extend(&out);
        let error = greeter.step(&mut heard, &mut Vec::new()).unwrap_err();
        assert_eq!(error, GreetingError::Misled);
        assert!(calling.step(&mut Buffer::default(), &mut out).unwrap().is_none());
    }
}
