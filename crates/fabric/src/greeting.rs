//! The handshake of two daemons: a state machine between bytes that came and bytes to send.
//!
//! ```text
//! caller                                         callee
//!   head, Noise (Hello) ──▶
//!                                    ◀── head, Noise (Welcome or refusal)
//!   an empty record ──▶
//! ```
//!
//! The head is magic, version, verdict, kind of the proofs, length. Noise's part of the messages is by kind:
//!
//! | [`Kind`] | pattern | hello | answer |
//! |---|---|---|---|
//! | a secret | `NNpsk0` | psk, e | e, ee |
//! | keys | `IK` | e, es, s, ss | e, ee, se |
//! | both | `IKpsk1` | e, es, s, ss, psk | e, ee, se |
//! | a guest's | `NNpsk0` | number, psk, e | e, ee |
//!
//! The hello is encrypted by the secret, or to the callee's key and by the caller's. So a callee that can read it knows
//! that the caller, or somebody who has recorded the caller, has them. The empty record, which needs the keys of this
//! connection, rules the second out: nothing happens for a hello before it. A stranger gets one frame of at most
//! [`MAX_FRAME_BYTES`].
//!
//! A *guest* is a process that a daemon has asked another daemon to admit: its first frame names the admission, in
//! cleartext, and its secret is the random key of that admission.
//!
//! # Decisions
//!
//! - *`IK`, for both ends have the file.* The caller knows the key of the node that it calls, so two messages are
//!   enough, as with a secret, and the caller's own key does not travel in the clear. `XX` would need a third one, `KK`
//!   a guess of the caller before its message is read.
//! - *The secret beside keys is `psk1`*: it is mixed in before the hello is encrypted. With `psk2` a callee would read
//!   the hello of a caller without the secret, answer it, and never learn why the caller hung up.
//! - *Reasons of a refusal are in the clear.* They say which proof has failed and nothing of the callee's file. A
//!   man in the middle may forge them: that ends a handshake, which he could do anyway.
//! - *Callees with keys multiply up to three times before they refuse a hello*, where a secret costs a hash. The number
//!   of handshakes at a time and the turns of other connections bound that; silent strangers cost nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snow::HandshakeState;

use crate::Seal;
use crate::credentials::{Credentials, Kind};
use crate::ucx::Address;

/// Changes with the handshake and with the messages behind it.
pub const VERSION: u16 = 4;

/// Longest frame of a handshake.
pub const MAX_FRAME_BYTES: usize = 4096;

const MAGIC: [u8; 4] = *b"rmem";

/// Magic, version, verdict, kind, length.
pub(crate) const HEAD_BYTES: usize = 10;

/// The callee's part of a frame, before there are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok = 0,
    OtherVersion = 1,
    OtherSecret = 2,
    OtherKind = 3,
    Stranger = 4,
    OtherKey = 5,
    /// Over datagrams: say it again, bound to the cookie of this frame.
    Again = 6,
}

/// Use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Messages between daemons.
    Control,
    /// Packets.
    Data,
    /// Packets of one process, for one context.
    Guest,
}

/// First message of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name of the rack.
    pub rack: String,
    /// Nodes of the rack, as the caller's file has them.
    pub nodes: u16,
    /// The caller's node.
    pub from: u16,
    /// The caller's address, as its rack file has it.
    pub address: SocketAddr,
    /// The node that the caller means.
    pub to: u16,
    /// Random number of the caller's daemon: another one after each start.
    pub incarnation: u64,
    /// Use of the connection.
    pub purpose: Purpose,
    /// Whether the connection is encrypted from here on.
    pub sealed: bool,
    /// Version of the program, for people.
    pub version: String,
    /// Where packets find the caller, if they travel by UCX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Address>,
}

/// Answer of the callee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Random number of the callee's daemon.
    pub incarnation: u64,
    /// Version of its program, for people.
    pub version: String,
    /// Where packets find the callee, if they travel by UCX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Address>,
}

/// A handshake that failed, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GreetingError {
    /// The peer is no daemon of a rack.
    #[error("no rackmem daemon answers there")]
    NoDaemon,
    /// The versions of the protocol differ.
    #[error(
        "it speaks version {0} of the protocol between hosts, this one version {VERSION}: install one version on all \
         hosts"
    )]
    Version(u16),
    /// The secrets differ.
    #[error("it has another secret: copy secret_file to all hosts")]
    Secret,
    /// The ends prove themselves by different means: the peer's, and those of this end.
    #[error("it asks for {0}, this node for {1}: give all hosts the same rack file")]
    Kind(&'static str, &'static str),
    /// The callee's rack file has no node with the key of this caller.
    #[error("the key of this node is not in its rack file: give all hosts the same one")]
    NotListed,
    /// The callee does not have the key that this caller's rack file has for it.
    #[error("it has another key than the rack file here has for it: give all hosts the same one")]
    OtherKey,
    /// The caller's key is none of the rack file, or is not its own.
    #[error("it does not have a key of the rack file here")]
    Stranger,
    /// The caller's hello is good, and its keys are not those of this connection.
    #[error("it repeats what it has recorded of another handshake")]
    Recorded,
    /// The caller expects another key of this callee.
    #[error("it expects another key of this node: give all hosts the same rack file")]
    Misled,
    /// The callee says that it is a node which the rack file here does not have.
    #[error("it is node {0}, which the rack file here does not have: give all hosts the same one")]
    NoSuchNode(u16),
    /// The callee refuses, for this reason.
    #[error("it refuses: {0}")]
    Refused(String),
}

type Result<T> = std::result::Result<T, GreetingError>;

/// Bytes of an admission's number.
const ADMISSION_BYTES: usize = 8;

/// The number of the admission that the first frame of a caller names; `None`: it names none, or is not whole.
pub fn admission_of(input: &[u8]) -> Option<u64> {
    let frame = parse(input).ok().flatten().filter(|frame| frame.kind == Kind::Guest as u8)?;
    frame.message.first_chunk::<ADMISSION_BYTES>().map(|number| u64::from_le_bytes(*number))
}

/// A frame: head and Noise message.
pub(crate) fn frame(verdict: Verdict, kind: Kind, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[verdict as u8, kind as u8]);
    bytes.extend_from_slice(&(message.len() as u16).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// A frame that has come.
pub(crate) struct Frame<'a> {
    pub(crate) verdict: u8,
    kind: u8,
    pub(crate) message: &'a [u8],
    /// Its length.
    taken: usize,
}

impl Frame<'_> {
    /// Refuses the proofs of another kind than this end's.
    fn check(&self, ours: Kind) -> Result<()> {
        let theirs = Kind::ALL.into_iter().find(|kind| *kind as u8 == self.kind);
        match theirs {
            Some(theirs) if theirs == ours => Ok(()),
            Some(theirs) => Err(GreetingError::Kind(theirs.name(), ours.name())),
            None => Err(GreetingError::NoDaemon),
        }
    }
}

/// The frame at the beginning of the input; `None`: it is not whole.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Frame<'_>>> {
    if !input.starts_with(&MAGIC[..input.len().min(MAGIC.len())]) {
        return Err(GreetingError::NoDaemon);
    }
    let Some(head) = input.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let version = u16::from_le_bytes([head[4], head[5]]);
    if version != VERSION {
        return Err(GreetingError::Version(version));
    }
    let length = usize::from(u16::from_le_bytes([head[8], head[9]]));
    if length > MAX_FRAME_BYTES {
        return Err(GreetingError::NoDaemon);
    }
    let (verdict, kind, taken) = (head[6], head[7], HEAD_BYTES + length);
    let message = input.get(HEAD_BYTES..taken);
    Ok(message.map(|message| Frame { verdict, kind, message, taken }))
}

/// The part of a handshake that both ends know before it, and that it does not go on without.
fn prologue(cookie: &[u8]) -> Vec<u8> {
    [&MAGIC, cookie].concat()
}

fn write(noise: &mut HandshakeState, payload: &impl Serialize) -> Vec<u8> {
    let payload = serde_json::to_vec(payload).expect("plain data");
    let mut message = vec![0; payload.len() + 128];
    let length = noise.write_message(&payload, &mut message).expect("a short message, in turn");
    message.truncate(length);
    message
}

/// The payload of a message; `None`: it is not authentic.
fn open(noise: &mut HandshakeState, message: &[u8]) -> Option<Vec<u8>> {
    let mut payload = vec![0; message.len()];
    let length = noise.read_message(message, &mut payload).ok()?;
    payload.truncate(length);
    Some(payload)
}

fn decode<T: for<'a> Deserialize<'a>>(payload: &[u8]) -> Result<T> {
    serde_json::from_slice(payload).map_err(|_| GreetingError::NoDaemon)
}

fn keys(noise: HandshakeState) -> Seal {
    Seal::new(noise.into_stateless_transport_mode().expect("both messages were exchanged"))
}

/// The end that has connected.
#[derive(Debug)]
pub struct Caller {
    noise: Box<HandshakeState>,
    kind: Kind,
}

impl Caller {
    /// A handshake with a node, and its first bytes.
    ///
    /// # Panics
    /// There are keys, and none for this node.
    pub fn new(credentials: &Credentials, node: u16, hello: &impl Serialize) -> (Caller, Vec<u8>) {
        Caller::bound(credentials, node, hello, &[])
    }

    /// The same, which a callee hears with this cookie only.
    ///
    /// # Panics
    /// As there.
    pub(crate) fn bound(
        credentials: &Credentials,
        node: u16,
        hello: &impl Serialize,
        cookie: &[u8],
    ) -> (Caller, Vec<u8>) {
        let mut noise = Box::new(credentials.caller(&prologue(cookie), node));
        let mut message = write(&mut noise, hello);
        if let Credentials::Guest { admission, .. } = credentials {
            message.splice(..0, admission.to_le_bytes());
        }
        let kind = credentials.kind();
        (Caller { noise, kind }, frame(Verdict::Ok, kind, &message))
    }

    /// The callee's answer and the keys; `Err(self)`: the answer has not come wholly.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn answered<W: for<'a> Deserialize<'a>>(
        mut self,
        input: &[u8],
    ) -> Result<std::result::Result<Met<W>, Caller>> {
        let Some(answer) = parse(input)? else { return Ok(Err(self)) };
        answer.check(self.kind)?;
        match answer.verdict {
            verdict if verdict == Verdict::Ok as u8 => {}
            verdict if verdict == Verdict::OtherSecret as u8 => return Err(GreetingError::Secret),
            verdict if verdict == Verdict::Stranger as u8 => return Err(GreetingError::NotListed),
            verdict if verdict == Verdict::OtherKey as u8 => return Err(GreetingError::OtherKey),
            _ => return Err(GreetingError::NoDaemon),
        }
        let is_by_key = matches!(self.kind, Kind::Keys | Kind::Both);
        let payload = open(&mut self.noise, answer.message);
        let payload = payload.ok_or(match is_by_key {
            true => GreetingError::OtherKey,
            false => GreetingError::Secret,
        })?;
        let welcome: std::result::Result<W, String> = decode(&payload)?;
        let welcome = welcome.map_err(GreetingError::Refused)?;
        let mut seal = keys(*self.noise);
        let mut confirm = Vec::new();
        seal.seal(&[], &mut confirm).map_err(|_| GreetingError::NoDaemon)?;
        Ok(Ok(Met { welcome, seal, confirm, taken: answer.taken }))
    }
}

/// The caller's end of a handshake that succeeded.
#[derive(Debug)]
pub struct Met<W = Welcome> {
    /// The callee's answer.
    pub welcome: W,
    /// Keys of the connection.
    pub seal: Seal,
    /// Bytes to send, in front of everything else.
    pub confirm: Vec<u8>,
    /// Bytes of the input that belong to the handshake.
    pub taken: usize,
}

/// The end that was called, until the hello has come.
#[derive(Debug)]
pub struct Callee(Arc<Credentials>);

/// A hello that waits for its answer.
#[derive(Debug)]
pub struct Asked<H = Hello> {
    noise: Box<HandshakeState>,
    kind: Kind,
    /// The caller's message; the caller has the secret or key, or has recorded somebody who had it.
    pub hello: H,
    /// The node whose key the caller has; `None`: a secret does not say which node it is.
    pub node: Option<u16>,
    /// Bytes of the input that belong to the hello.
    pub taken: usize,
}

/// Keys that the caller has not used yet.
#[derive(Debug)]
pub struct Unproved(Box<Seal>);

impl Callee {
    /// A handshake that waits for a hello. Nothing is computed before that has come.
    pub fn new(credentials: &Arc<Credentials>) -> Callee {
        Callee(credentials.clone())
    }

    /// Kind of the proofs that it asks for.
    pub(crate) fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// The hello; `Err(self)`: it has not come wholly.
    ///
    /// # Errors
    /// The handshake has failed; [`refusal`] has the bytes that tell the caller.
    pub fn hear<H: for<'a> Deserialize<'a>>(
        self,
        input: &[u8],
    ) -> Result<std::result::Result<Asked<H>, Callee>> {
        self.hear_bound(input, &[])
    }

    /// The same of a hello that is bound to this cookie.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn hear_bound<H: for<'a> Deserialize<'a>>(
        self,
        input: &[u8],
        cookie: &[u8],
    ) -> Result<std::result::Result<Asked<H>, Callee>> {
        let Some(asked) = parse(input)? else { return Ok(Err(self)) };
        let kind = self.0.kind();
        asked.check(kind)?;
        let mut noise = Box::new(self.0.callee(&prologue(cookie)));
        let number_bytes = if kind == Kind::Guest { ADMISSION_BYTES } else { 0 };
        let message = asked.message.get(number_bytes..).ok_or(GreetingError::NoDaemon)?;
        let payload = open(&mut noise, message);
        let node = match (kind, noise.get_remote_static()) {
            (Kind::Secret | Kind::Guest, _) => None,
            // The message was for the owner of another key.
            (_, None) => return Err(GreetingError::Misled),
            (_, key) => Some(self.0.node_of(key).ok_or(GreetingError::Stranger)?),
        };
        let payload = payload.ok_or(match kind {
            // The key of a node, but not by its owner.
            Kind::Keys => GreetingError::Stranger,
            Kind::Secret | Kind::Both | Kind::Guest => GreetingError::Secret,
        })?;
        let hello = decode(&payload)?;
        Ok(Ok(Asked { noise, kind, hello, node, taken: asked.taken }))
    }
}

impl<H> Asked<H> {
    /// The bytes of an answer, and the keys if it is a welcome; a refusal is a sentence's end for people.
    pub fn answer(
        mut self,
        answer: std::result::Result<impl Serialize, String>,
    ) -> (Vec<u8>, Unproved) {
        let message = write(&mut self.noise, &answer);
        (frame(Verdict::Ok, self.kind, &message), Unproved(Box::new(keys(*self.noise))))
    }
}

impl Unproved {
    /// The keys of a caller whose hello was bound to a new cookie: that is no record of another handshake.
    pub(crate) fn keys_of_bound(self) -> Seal {
        *self.0
    }

    /// The keys, once the caller has used them, and the bytes of input that show it; `Err(self)`: they have not come.
    ///
    /// # Errors
    /// The caller has other keys.
    pub fn prove(mut self, input: &[u8]) -> Result<std::result::Result<(Seal, usize), Unproved>> {
        match self.0.open(input, &mut Vec::new()) {
            Ok(Some(taken)) => Ok(Ok((*self.0, taken))),
            Ok(None) if input.len() <= MAX_FRAME_BYTES => Ok(Err(self)),
            _ => Err(GreetingError::Recorded),
        }
    }
}

/// The frame that tells a caller why its hello was not read; `None`: it is none of ours, and gets nothing.
pub fn refusal(error: &GreetingError, kind: Kind) -> Option<Vec<u8>> {
    let verdict = match error {
        GreetingError::Version(_) => Verdict::OtherVersion,
        GreetingError::Secret => Verdict::OtherSecret,
        GreetingError::Kind(..) => Verdict::OtherKind,
        GreetingError::Stranger => Verdict::Stranger,
        GreetingError::Misled => Verdict::OtherKey,
        GreetingError::NoDaemon
        | GreetingError::Refused(_)
        | GreetingError::NotListed
        | GreetingError::NoSuchNode(_)
        | GreetingError::OtherKey
        | GreetingError::Recorded => return None,
    };
    Some(frame(verdict, kind, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    const SECRET: [u8; 32] = [7; 32];

    fn key(number: u8) -> PrivateKey {
        PrivateKey::from_random([number; 32])
    }

    /// What a node of a rack of 3 proves itself by.
    fn credentials(kind: Kind, node: u16) -> Arc<Credentials> {
        let peers = (0..3).map(|node| key(node).public()).collect();
        let secret = (kind == Kind::Both).then_some(SECRET);
        Arc::new(match kind {
            Kind::Secret => Credentials::Secret(SECRET),
            Kind::Keys | Kind::Both => Credentials::Keys { own: key(node as u8), peers, secret },
            Kind::Guest => Credentials::Guest { admission: 77, key: SECRET },
        })
    }

    /// The same with another secret.
    fn with_secret(credentials: &Credentials, psk: [u8; 32]) -> Arc<Credentials> {
        Arc::new(match credentials.clone() {
            Credentials::Secret(_) => Credentials::Secret(psk),
            Credentials::Guest { admission, .. } => Credentials::Guest { admission, key: psk },
            Credentials::Keys { own, peers, .. } => {
                Credentials::Keys { own, peers, secret: Some(psk) }
            }
        })
    }

    /// The same with other keys.
    fn with_keys(credentials: &Credentials, own: u8, callee: u8) -> Arc<Credentials> {
        let Credentials::Keys { mut peers, secret, .. } = credentials.clone() else { panic!() };
        peers[0] = key(callee).public();
        Arc::new(Credentials::Keys { own: key(own), peers, secret })
    }

    fn hello() -> Hello {
        Hello {
            rack: "lab".to_owned(),
            nodes: 3,
            from: 1,
            address: "10.9.0.1:7400".parse().unwrap(),
            to: 0,
            incarnation: 5,
            purpose: Purpose::Control,
            sealed: true,
            version: "1.0".to_owned(),
            worker: None,
        }
    }

    fn welcome() -> Welcome {
        Welcome { incarnation: 6, version: "1.0".to_owned(), worker: None }
    }

    /// Node 1, which calls node 0.
    fn call(credentials: &Credentials) -> (Caller, Vec<u8>) {
        Caller::new(credentials, 0, &hello())
    }

    /// The errors at both ends, the callee's first.
    fn fail(caller: &Credentials, callee: &Arc<Credentials>) -> (GreetingError, GreetingError) {
        let (caller, first) = call(caller);
        let error = Callee::new(callee).hear::<Hello>(&first).unwrap_err();
        let told = refusal(&error, callee.kind()).unwrap();
        assert_eq!(told.len(), HEAD_BYTES, "a refusal says no more than its verdict");
        (error, caller.answered::<Welcome>(&told).unwrap_err())
    }

    /// Both ends of a handshake, whose bytes come one more at a time.
    #[test]
    fn both_ends_get_keys_however_the_bytes_come() {
        for kind in Kind::ALL {
            let (ours, its) = (credentials(kind, 1), credentials(kind, 0));
            let (mut caller, first) = call(&ours);
            let asked = (0..=first.len())
                .find_map(|end| Callee::new(&its).hear::<Hello>(&first[..end]).unwrap().ok());
            let asked = asked.expect("the hello is whole");
            assert_eq!((&asked.hello, asked.taken), (&hello(), first.len()));
            let is_by_key = matches!(kind, Kind::Keys | Kind::Both);
            assert_eq!(asked.node, is_by_key.then_some(1));
            let (second, mut unproved) = asked.answer(Ok(welcome()));
            assert!(first.len() < MAX_FRAME_BYTES && second.len() < MAX_FRAME_BYTES);
            let met = (0..=second.len()).find_map(|end| {
                let answered = std::mem::replace(&mut caller, call(&ours).0);
                answered
                    .answered::<Welcome>(&second[..end])
                    .unwrap()
                    .map_err(|same| caller = same)
                    .ok()
            });
            let mut met = met.expect("the answer is whole");
            assert_eq!(met.welcome, welcome());
            let (mut seal, taken) = loop {
                match unproved.prove(&met.confirm).unwrap() {
                    Ok(proved) => break proved,
                    Err(same) => unproved = same,
                }
            };
            assert_eq!(taken, met.confirm.len());
            let (mut wire, mut plain) = (Vec::new(), Vec::new());
            met.seal.seal(&[9; 100_000], &mut wire).unwrap();
            let mut at = 0;
            while let Some(taken) = seal.open(&wire[at..], &mut plain).unwrap() {
                at += taken;
            }
            assert_eq!((at, plain), (wire.len(), vec![9; 100_000]));
        }
    }

    #[test]
    fn another_secret_is_found_by_both() {
        for kind in [Kind::Secret, Kind::Both, Kind::Guest] {
            let callee = credentials(kind, 0);
            let caller = with_secret(&credentials(kind, 1), [1; 32]);
            assert_eq!(fail(&caller, &callee), (GreetingError::Secret, GreetingError::Secret));
        }
    }

    #[test]
    fn another_key_is_found_by_both() {
        for kind in [Kind::Keys, Kind::Both] {
            let (ours, its) = (credentials(kind, 1), credentials(kind, 0));
            let stranger = with_keys(&ours, 9, 0);
            let expected = (GreetingError::Stranger, GreetingError::NotListed);
            assert_eq!(fail(&stranger, &its), expected);
            let misled = with_keys(&ours, 1, 9);
            assert_eq!(fail(&misled, &its), (GreetingError::Misled, GreetingError::OtherKey));
            // The owner of another node's key is that node.
            let (_, first) = call(&with_keys(&ours, 2, 0));
            assert_eq!(Callee::new(&its).hear::<Hello>(&first).unwrap().unwrap().node, Some(2));
        }
    }

    #[test]
    fn proofs_of_another_kind_are_named_by_both() {
        for (ours, its) in Kind::ALL.into_iter().flat_map(|a| Kind::ALL.map(|b| (a, b))) {
            if ours != its {
                let errors = fail(&credentials(ours, 1), &credentials(its, 0));
                let (ours, its) = (ours.name(), its.name());
                assert_eq!(
                    errors,
                    (GreetingError::Kind(ours, its), GreetingError::Kind(its, ours))
                );
            }
        }
    }

    /// Its owner alone answers for a key: who knows the public ones cannot.
    #[test]
    fn an_answer_by_somebody_else_is_none() {
        for kind in Kind::ALL {
            let (caller, first) = call(&credentials(kind, 1));
            let its = credentials(kind, 0);
            let asked = Callee::new(&its).hear::<Hello>(&first).unwrap().unwrap();
            let (mut second, _) = asked.answer(Ok(welcome()));
            *second.last_mut().unwrap() ^= 1;
            let error = match kind {
                Kind::Secret | Kind::Guest => GreetingError::Secret,
                Kind::Keys | Kind::Both => GreetingError::OtherKey,
            };
            assert_eq!(caller.answered::<Welcome>(&second).unwrap_err(), error);
        }
    }

    #[test]
    fn another_version_is_named() {
        for kind in Kind::ALL {
            let (caller, mut first) = call(&credentials(kind, 1));
            first[4] = 77;
            let error = Callee::new(&credentials(kind, 0)).hear::<Hello>(&first).unwrap_err();
            assert_eq!(error, GreetingError::Version(77));
            let mut told = refusal(&error, kind).unwrap();
            told[4] = 78;
            assert_eq!(caller.answered::<Welcome>(&told).unwrap_err(), GreetingError::Version(78));
        }
    }

    #[test]
    fn a_refusal_has_its_reason() {
        for kind in Kind::ALL {
            let (caller, first) = call(&credentials(kind, 1));
            let asked = Callee::new(&credentials(kind, 0)).hear::<Hello>(&first).unwrap().unwrap();
            let (bytes, _) = asked.answer(Err::<Welcome, _>("node 1 is up already".to_owned()));
            let refused = caller.answered::<Welcome>(&bytes).unwrap_err();
            assert_eq!(refused, GreetingError::Refused("node 1 is up already".to_owned()));
        }
    }

    /// A recorded hello gets an answer, and nothing more: its sender has not the keys.
    #[test]
    fn a_recorded_handshake_proves_nothing() {
        for kind in Kind::ALL {
            let its = credentials(kind, 0);
            let (caller, first) = call(&credentials(kind, 1));
            let asked = Callee::new(&its).hear::<Hello>(&first).unwrap().unwrap();
            let (second, _) = asked.answer(Ok(welcome()));
            let Ok(met) = caller.answered::<Welcome>(&second).unwrap() else { panic!("not whole") };
            let again = Callee::new(&its).hear::<Hello>(&first).unwrap().unwrap();
            let (_, unproved) = again.answer(Ok(welcome()));
            assert_eq!(unproved.prove(&met.confirm).unwrap_err(), GreetingError::Recorded);
        }
    }

    #[test]
    fn a_guest_names_its_admission() {
        let its = credentials(Kind::Guest, 0);
        let first = call(&its).1;
        assert_eq!(admission_of(&first), Some(77));
        assert_eq!(admission_of(&first[..first.len() - 1]), None, "not whole");
        assert_eq!(admission_of(&call(&credentials(Kind::Secret, 1)).1), None);
        let short = frame(Verdict::Ok, Kind::Guest, &[0; 3]);
        assert_eq!(admission_of(&short), None);
        assert_eq!(Callee::new(&its).hear::<Hello>(&short).unwrap_err(), GreetingError::NoDaemon);
    }

    #[test]
    fn strangers_are_no_daemons() {
        for kind in Kind::ALL {
            let hear =
                |bytes: &[u8]| Callee::new(&credentials(kind, 0)).hear::<Hello>(bytes).unwrap_err();
            for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"x", &[0xff; 4]] {
                let error = hear(noise);
                assert_eq!(error, GreetingError::NoDaemon);
                assert_eq!(refusal(&error, kind), None);
            }
            let mut long = frame(Verdict::Ok, kind, &[]);
            long[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
            assert_eq!(hear(&long), GreetingError::NoDaemon);
            let mut strange = frame(Verdict::Ok, kind, &[]);
            strange[7] = 77;
            assert_eq!(hear(&strange), GreetingError::NoDaemon);
        }
    }
}
