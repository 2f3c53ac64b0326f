//! The handshake of two daemons: a state machine between bytes that came and bytes to send.
//!
//! ```text
//! caller                                         callee
//!   magic, version, length, Noise e (Hello) ──▶
//!                                    ◀── magic, version, verdict, length, Noise e, ee (Welcome or refusal)
//!   an empty record ──▶
//! ```
//!
//! The hello is encrypted by the shared secret, so a callee that can read it knows that the caller, or somebody who has
//! recorded the caller, has the secret. The empty record, which needs the keys of this connection, rules the second
//! out: nothing happens for a hello before it. A stranger gets one frame of at most [`MAX_FRAME_BYTES`].
//!
//! A *guest* is a process that a daemon has asked another daemon to admit: its first frame names the admission, in
//! cleartext, and its secret is the random key of that admission.

use serde::{Deserialize, Serialize};
use snow::{Builder, HandshakeState};

use crate::Seal;

/// Changes with the handshake and with the messages behind it.
pub const VERSION: u16 = 2;

/// Longest frame of a handshake.
pub const MAX_FRAME_BYTES: usize = 4096;

const MAGIC: [u8; 4] = *b"rmem";
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Magic, version, verdict, kind of secret, length.
const HEAD_BYTES: usize = 10;

/// Kind of a frame whose secret is that of the rack.
const OF_RACK: u8 = 0;

/// Kind of a frame whose secret is that of an admission, the number of which precedes the message.
const OF_GUEST: u8 = 1;

/// Bytes of an admission's number.
const ADMISSION_BYTES: usize = 8;

/// The callee's part of a frame, before there are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok = 0,
    OtherVersion = 1,
    OtherSecret = 2,
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
}

/// Answer of the callee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Random number of the callee's daemon.
    pub incarnation: u64,
    /// Version of its program, for people.
    pub version: String,
}

/// A handshake that failed, in words for the operator.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
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
    /// The callee refuses, for this reason.
    #[error("it refuses: {0}")]
    Refused(String),
}

type Result<T> = std::result::Result<T, GreetingError>;

/// A shared secret, as the file of the rack has it.
pub type Psk = [u8; 32];

fn builder(secret: &Psk) -> Builder<'_> {
    let pattern = PATTERN.parse().expect("a pattern of Noise");
    let builder = Builder::new(pattern).psk(0, secret).expect("the pattern has one secret");
    builder.prologue(&MAGIC).expect("one prologue")
}

/// A frame: head, number of an admission, Noise message.
fn frame(verdict: Verdict, admission: Option<u64>, message: &[u8]) -> Vec<u8> {
    let number = admission.map(u64::to_le_bytes);
    let number = number.as_ref().map_or(&[][..], |number| number);
    let kind = if admission.is_some() { OF_GUEST } else { OF_RACK };
    let mut bytes = Vec::with_capacity(HEAD_BYTES + number.len() + message.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[verdict as u8, kind]);
    bytes.extend_from_slice(&((number.len() + message.len()) as u16).to_le_bytes());
    bytes.extend_from_slice(number);
    bytes.extend_from_slice(message);
    bytes
}

/// A whole frame.
struct Frame<'a> {
    verdict: u8,
    admission: Option<u64>,
    message: &'a [u8],
    /// Length of the frame.
    taken: usize,
}

/// The frame at the front of the input; `None`: it is not whole.
fn parse(input: &[u8]) -> Result<Option<Frame<'_>>> {
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
    let Some(message) = input.get(HEAD_BYTES..taken) else { return Ok(None) };
    if kind != OF_GUEST {
        return Ok(Some(Frame { verdict, admission: None, message, taken }));
    }
    let (number, message) =
        message.split_first_chunk::<ADMISSION_BYTES>().ok_or(GreetingError::NoDaemon)?;
    let admission = Some(u64::from_le_bytes(*number));
    Ok(Some(Frame { verdict, admission, message, taken }))
}

/// The number of the admission that the first frame of a caller names; `None`: it names none, or is not whole.
pub fn admission_of(input: &[u8]) -> Option<u64> {
    parse(input).ok().flatten()?.admission
}

fn write(noise: &mut HandshakeState, payload: &impl Serialize) -> Vec<u8> {
    let payload = serde_json::to_vec(payload).expect("plain data");
    let mut message = vec![0; payload.len() + 128];
    let length = noise.write_message(&payload, &mut message).expect("a short message, in turn");
    message.truncate(length);
    message
}

fn read<T: for<'a> Deserialize<'a>>(noise: &mut HandshakeState, message: &[u8]) -> Result<T> {
    let mut payload = vec![0; message.len()];
    let read = noise.read_message(message, &mut payload).map_err(|_| GreetingError::Secret)?;
    serde_json::from_slice(&payload[..read]).map_err(|_| GreetingError::NoDaemon)
}

fn keys(noise: HandshakeState) -> Seal {
    Seal::new(noise.into_transport_mode().expect("both messages were exchanged"))
}

/// The end that has connected.
#[derive(Debug)]
pub struct Caller(Box<HandshakeState>);

impl Caller {
    /// A handshake, and its first bytes.
    pub fn new(secret: &Psk, hello: &Hello) -> (Caller, Vec<u8>) {
        Caller::with(secret, None, hello)
    }

    /// The handshake of a guest, who knows the key of an admission.
    pub fn guest(admission: u64, key: &Psk, hello: &Hello) -> (Caller, Vec<u8>) {
        Caller::with(key, Some(admission), hello)
    }

    fn with(secret: &Psk, admission: Option<u64>, hello: &Hello) -> (Caller, Vec<u8>) {
        let mut noise = builder(secret).build_initiator().expect("the builder has all it needs");
        let message = write(&mut noise, hello);
        (Caller(Box::new(noise)), frame(Verdict::Ok, admission, &message))
    }

    /// The callee's answer and the keys; `Err(self)`: the answer has not come wholly.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn answered(mut self, input: &[u8]) -> Result<std::result::Result<Met, Caller>> {
        let Some(Frame { verdict, message, taken, .. }) = parse(input)? else {
            return Ok(Err(self));
        };
        if verdict != Verdict::Ok as u8 {
            return Err(GreetingError::Secret);
        }
        let answer: std::result::Result<Welcome, String> = read(&mut self.0, message)?;
        let welcome = answer.map_err(GreetingError::Refused)?;
        let mut seal = keys(*self.0);
        let mut confirm = Vec::new();
        seal.seal(&[], &mut confirm).map_err(|_| GreetingError::NoDaemon)?;
        Ok(Ok(Met { welcome, seal, confirm, taken }))
    }
}

/// The caller's end of a handshake that succeeded.
#[derive(Debug)]
pub struct Met {
    /// The callee's answer.
    pub welcome: Welcome,
    /// Keys of the connection.
    pub seal: Seal,
    /// Bytes to send, in front of everything else.
    pub confirm: Vec<u8>,
    /// Bytes of the input that belong to the handshake.
    pub taken: usize,
}

/// The end that was called, until the hello has come.
#[derive(Debug)]
pub struct Callee(Box<HandshakeState>);

/// A hello that waits for its answer.
#[derive(Debug)]
pub struct Asked {
    noise: Box<HandshakeState>,
    /// The caller's message; the caller has the secret, or has recorded somebody who had it.
    pub hello: Hello,
    /// Bytes of the input that belong to the hello.
    pub taken: usize,
}

/// Keys that the caller has not used yet.
#[derive(Debug)]
pub struct Unproved(Box<Seal>);

impl Callee {
    /// A handshake that waits for a hello.
    pub fn new(secret: &Psk) -> Callee {
        let noise = builder(secret).build_responder().expect("the builder has all it needs");
        Callee(Box::new(noise))
    }

    /// The hello; `Err(self)`: it has not come wholly.
    ///
    /// # Errors
    /// The handshake has failed; [`refusal`] has the bytes that tell the caller.
    pub fn hear(mut self, input: &[u8]) -> Result<std::result::Result<Asked, Callee>> {
        let Some(Frame { message, taken, .. }) = parse(input)? else { return Ok(Err(self)) };
        let hello = read(&mut self.0, message)?;
        Ok(Ok(Asked { noise: self.0, hello, taken }))
    }
}

impl Asked {
    /// The bytes of an answer, and the keys if it is a welcome; a refusal is a sentence's end for people.
    pub fn answer(mut self, answer: std::result::Result<Welcome, String>) -> (Vec<u8>, Unproved) {
        let message = write(&mut self.noise, &answer);
        (frame(Verdict::Ok, None, &message), Unproved(Box::new(keys(*self.noise))))
    }
}

impl Unproved {
    /// The keys, once the caller has used them, and the bytes of input that show it; `Err(self)`: they have not come.
    ///
    /// # Errors
    /// The caller has other keys.
    pub fn prove(mut self, input: &[u8]) -> Result<std::result::Result<(Seal, usize), Unproved>> {
        match self.0.open(input, &mut Vec::new()) {
            Ok(Some(taken)) => Ok(Ok((*self.0, taken))),
            Ok(None) if input.len() <= MAX_FRAME_BYTES => Ok(Err(self)),
            _ => Err(GreetingError::Secret),
        }
    }
}

/// The frame that tells a caller why its hello was not read; `None`: it is none of ours, and gets nothing.
pub fn refusal(error: &GreetingError) -> Option<Vec<u8>> {
    match error {
        GreetingError::Version(_) => Some(frame(Verdict::OtherVersion, None, &[])),
        GreetingError::Secret => Some(frame(Verdict::OtherSecret, None, &[])),
        GreetingError::NoDaemon | GreetingError::Refused(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Psk = [7; 32];

    fn hello() -> Hello {
        Hello {
            rack: "lab".to_owned(),
            nodes: 2,
            from: 1,
            to: 0,
            incarnation: 5,
            purpose: Purpose::Control,
            sealed: true,
            version: "1.0".to_owned(),
        }
    }

    fn welcome() -> Welcome {
        Welcome { incarnation: 6, version: "1.0".to_owned() }
    }

    /// Both ends of a handshake, whose bytes come one more at a time.
    #[test]
    fn both_ends_get_keys_however_the_bytes_come() {
        let (mut caller, first) = Caller::new(&SECRET, &hello());
        let mut callee = Callee::new(&SECRET);
        let asked = (0..=first.len()).find_map(|end| {
            let heard = std::mem::replace(&mut callee, Callee::new(&SECRET)).hear(&first[..end]);
            heard.unwrap().map_err(|same| callee = same).ok()
        });
        let asked = asked.expect("the hello is whole");
        assert_eq!((&asked.hello, asked.taken), (&hello(), first.len()));
        let (second, mut unproved) = asked.answer(Ok(welcome()));
        assert!(second.len() < MAX_FRAME_BYTES);
        let met = (0..=second.len()).find_map(|end| {
            let fresh = Caller::new(&SECRET, &hello()).0;
            let answered = std::mem::replace(&mut caller, fresh).answered(&second[..end]);
            answered.unwrap().map_err(|same| caller = same).ok()
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

    #[test]
    fn another_secret_is_found_by_both() {
        let (caller, first) = Caller::new(&[1; 32], &hello());
        let error = Callee::new(&SECRET).hear(&first).unwrap_err();
        assert_eq!(error, GreetingError::Secret);
        let told = refusal(&error).unwrap();
        assert_eq!(caller.answered(&told).unwrap_err(), GreetingError::Secret);
    }

    #[test]
    fn another_version_is_named() {
        let (caller, mut first) = Caller::new(&SECRET, &hello());
        first[4] = 77;
        let error = Callee::new(&SECRET).hear(&first).unwrap_err();
        assert_eq!(error, GreetingError::Version(77));
        let mut told = refusal(&error).unwrap();
        told[4] = 78;
        assert_eq!(caller.answered(&told).unwrap_err(), GreetingError::Version(78));
    }

    #[test]
    fn a_refusal_has_its_reason() {
        let (caller, first) = Caller::new(&SECRET, &hello());
        let asked = Callee::new(&SECRET).hear(&first).unwrap().unwrap();
        let (bytes, _) = asked.answer(Err("node 1 is up already".to_owned()));
        let refused = caller.answered(&bytes).unwrap_err();
        assert_eq!(refused, GreetingError::Refused("node 1 is up already".to_owned()));
    }

    /// A recorded hello gets an answer, and nothing more: its sender has not the keys.
    #[test]
    fn a_recorded_handshake_proves_nothing() {
        let (caller, first) = Caller::new(&SECRET, &hello());
        let asked = Callee::new(&SECRET).hear(&first).unwrap().unwrap();
        let (second, _) = asked.answer(Ok(welcome()));
        let Ok(met) = caller.answered(&second).unwrap() else { panic!("not whole") };
        let again = Callee::new(&SECRET).hear(&first).unwrap().unwrap();
        let (_, unproved) = again.answer(Ok(welcome()));
        assert_eq!(unproved.prove(&met.confirm).unwrap_err(), GreetingError::Secret);
    }

    #[test]
    fn a_guest_names_its_admission() {
        let (caller, first) = Caller::guest(77, &[9; 32], &hello());
        assert_eq!(admission_of(&first), Some(77));
        assert_eq!(admission_of(&first[..first.len() - 1]), None, "not whole");
        assert_eq!(admission_of(&Caller::new(&SECRET, &hello()).1), None);
        assert_eq!(Callee::new(&SECRET).hear(&first).unwrap_err(), GreetingError::Secret);
        let asked = Callee::new(&[9; 32]).hear(&first).unwrap().unwrap();
        assert_eq!((&asked.hello, asked.taken), (&hello(), first.len()));
        let (second, _) = asked.answer(Ok(welcome()));
        assert!(caller.answered(&second).unwrap().is_ok());
        let short = frame(Verdict::Ok, Some(1), &[]);
        let cut = [&short[..8], &3u16.to_le_bytes(), &[0; 3]].concat();
        assert_eq!(Callee::new(&SECRET).hear(&cut).unwrap_err(), GreetingError::NoDaemon);
    }

    #[test]
    fn strangers_are_no_daemons() {
        for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"x", &[0xff; 4]] {
            let error = Callee::new(&SECRET).hear(noise).unwrap_err();
            assert_eq!(error, GreetingError::NoDaemon);
            assert_eq!(refusal(&error), None);
        }
        let mut long = frame(Verdict::Ok, None, &[]);
        long[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(Callee::new(&SECRET).hear(&long).unwrap_err(), GreetingError::NoDaemon);
    }
}
