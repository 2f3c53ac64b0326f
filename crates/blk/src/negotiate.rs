//! The handshake, fixed newstyle, as a state machine over bytes: no socket, no clock.
//!
//! A client that breaks the protocol gets the protocol's error where there is one; otherwise the
//! negotiation ends, with a reason for the log. Whatever it sends, memory is bounded by
//! [`MAX_OPTION_BYTES`], and its turns by [`MAX_OPTIONS`].

mod options;

use super::export::{Agreed, Export};
use super::wire::{self, OPTION_BYTES, handshake, option, reply, u32_at, u64_at};
use rackmem_fabric::net::stranger::MAX_FIRST_FRAME_BYTES;

/// Most bytes of an option that is looked at; more is skipped and answered with `ERR_TOO_BIG`.
pub const MAX_OPTION_BYTES: usize = 16 * 1024;

/// Most bytes of an option that is skipped; a client that sends a longer one is disconnected.
pub const MAX_SKIPPED_BYTES: u32 = 1 << 20;

/// Options that a client may send; a client that sends more is disconnected.
pub const MAX_OPTIONS: u32 = 128;

/// The name of the metadata context, and its number on the wire.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Number of [`BASE_ALLOCATION`].
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    Off,
    /// If the client wants it.
    On,
    /// Always; others learn nothing of the export.
    Require,
}

/// The next step of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// TLS begins after the pending reply. Bytes that the client sent ahead of it are a breach of the protocol.
    StartTls,
    /// Requests follow.
    Transmission(Agreed),
    /// The connection ends; with a reason if the client did something wrong.
    End(Option<String>),
}

#[derive(Clone, Copy, Debug)]
enum State {
    ClientFlags,
    Option,
    /// The rest of an option that is too long, and its number.
    Skipping(u32, u32),
}

/// The server's side of a handshake.
#[derive(Clone, Debug)]
pub struct Negotiation<'a> {
    export: &'a Export,
    tls: TlsMode,
    is_secure: bool,
    state: State,
    agreed: Agreed,
    no_zeroes: bool,
    options: u32,
    /// Bytes of options that came before TLS, if it is required.
    said_bytes: usize,
}

impl<'a> Negotiation<'a> {
    /// Begins; the greeting is appended to `out`.
    pub fn begin(export: &'a Export, tls: TlsMode, out: &mut Vec<u8>) -> Negotiation<'a> {
        out.extend(wire::NBD_MAGIC.to_be_bytes());
        out.extend(wire::OPTION_MAGIC.to_be_bytes());
        out.extend((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
        Negotiation {
            export,
            tls,
            is_secure: false,
            state: State::ClientFlags,
            agreed: Agreed::default(),
            no_zeroes: false,
            options: 0,
            said_bytes: 0,
        }
    }

    /// Called when TLS is established. It drops earlier agreements: an attacker on the way may have made them.
    pub fn secured(&mut self) {
        self.is_secure = true;
        self.agreed = Agreed::default();
    }

    /// Parses the input. Returns the number of its bytes that were used, and the next step. Appends replies to `out`.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let mut used = 0;
        loop {
            let (bytes, step) = self.step(&input[used..], out);
            used += bytes;
            if bytes == 0 || step != Step::More {
                return (used, step);
            }
        }
    }

    /// One message; uses no bytes if it is not whole.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        match self.state {
            State::ClientFlags if input.len() >= 4 => (4, self.client_flags(u32_at(input, 0))),
            State::Option if input.len() >= OPTION_BYTES => self.option(input, out),
            State::Skipping(option, 0) => {
                self.state = State::Option;
                say(out, option, reply::ERR_TOO_BIG, b"the option is too long");
                // No byte was used, so the next step has to be made here.
                self.step(input, out)
            }
            State::Skipping(option, rest) => {
                let bytes = input.len().min(rest as usize);
                self.state = State::Skipping(option, rest - bytes as u32);
                if bytes == rest as usize {
                    let (more, step) = self.step(&input[bytes..], out);
                    return (bytes + more, step);
                }
                (bytes, Step::More)
            }
            _ => (0, Step::More),
        }
    }

    fn client_flags(&mut self, flags: u32) -> Step {
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        if flags & !known != 0 {
            return end(format!(
                "flags {flags:#x} in the handshake, of which {known:#x} are known"
            ));
        }
        self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
        self.state = State::Option;
        Step::More
    }

    fn option(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let (magic, number, length) = (u64_at(input, 0), u32_at(input, 8), u32_at(input, 12));
        if magic != wire::OPTION_MAGIC {
            return (0, end(format!("{magic:#018x} where an option should begin")));
        }
        let whole = OPTION_BYTES.saturating_add(length as usize);
        if !self.is_open() && whole > MAX_FIRST_FRAME_BYTES - self.said_bytes {
            let most = MAX_FIRST_FRAME_BYTES;
            return (0, end(format!("more than {most} bytes of options before TLS")));
        }
        if length as usize > MAX_OPTION_BYTES {
            if length > MAX_SKIPPED_BYTES || number == option::EXPORT_NAME {
                return (0, end(format!("option {number} has {length} bytes")));
            }
            self.state = State::Skipping(number, length);
            return (OPTION_BYTES, self.count());
        }
        if input.len() < whole {
            return (0, Step::More);
        }
        if !self.is_open() {
            self.said_bytes += whole;
        }
        let step = match self.count() {
            Step::More => self.answer(number, &input[OPTION_BYTES..whole], out),
            step => step,
        };
        (whole, step)
    }

    /// Whether the client may know of the export.
    fn is_open(&self) -> bool {
        self.tls != TlsMode::Require || self.is_secure
    }

    fn count(&mut self) -> Step {
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return end(format!("more than {MAX_OPTIONS} options"));
        }
        Step::More
    }

    fn answer(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let is_open = self.is_open();
        match number {
            option::ABORT => {
                say(out, number, reply::ACK, &[]);
                return Step::End(None);
            }
            option::STARTTLS => return self.start_tls(data, out),
            option::EXPORT_NAME if is_open => return self.export_name(data, out),
            option::EXPORT_NAME => return end("the export was asked for without TLS".to_owned()),
            _ if !is_open => say(out, number, reply::ERR_TLS_REQD, b"TLS is required"),
            option::LIST => self.list(data, out),
            option::INFO | option::GO => {
                if self.go(number, data, out) && number == option::GO {
                    return Step::Transmission(self.agreed);
                }
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.agreed.structured = true;
                say(out, number, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => say(out, number, reply::ERR_INVALID, b"it has no data"),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(number, data, out)
            }
            _ => say(out, number, reply::ERR_UNSUP, b"the option is not known"),
        }
        Step::More
    }
}

fn end(reason: String) -> Step {
    Step::End(Some(reason))
}

/// A reply to an option.
fn say(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(wire::OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}
