//! One client, from its first byte to its last: handshake, TLS if wanted, requests.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::export::{Agreed, Export};
use super::mapped::Mapped;
use super::negotiate::{MAX_OPTION_BYTES, Negotiation, Step, TlsMode};
use super::piped::Piped;
use super::request::{Operation, Request};
use super::server::MAX_CONNECTIONS;
use super::socket::{Socket, Stream, piece};
use super::tls::{self, Tls};
use super::wire::{Errno, OPTION_BYTES, REQUEST_BYTES};
use rackmem_fabric::net::stranger::{PROOF, Stranger};
use rackmem_lease::error::Error;
use rackmem_lease::store::Store;

/// Store, export and TLS settings, which all connections of a server share.
pub(super) struct Service {
    pub(super) store: Arc<dyn Store>,
    pub(super) export: Export,
    pub(super) tls_mode: TlsMode,
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether it has been said that the lender is lost.
    pub(super) loss_is_known: AtomicBool,
}

/// Reason for the end of a connection.
#[derive(Debug)]
pub(super) enum End {
    /// The client said goodbye, or ended a handshake.
    Goodbye,
    /// The client hung up, and owes nothing.
    Closed,
    /// The client hung up in the middle of something.
    Cut,
    /// There are as many clients as there may be.
    Full,
    /// The client broke the protocol.
    Protocol(String),
    /// The connection failed.
    Io(io::Error),
}

impl End {
    pub(super) fn hung_up(between_requests: bool) -> End {
        if between_requests { End::Closed } else { End::Cut }
    }

    /// Whether nothing was wrong.
    pub(super) fn is_orderly(&self) -> bool {
        matches!(self, End::Goodbye | End::Closed)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Io(error)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Goodbye => f.write_str("it said goodbye"),
            End::Closed => f.write_str("it hung up"),
            End::Cut => f.write_str("it hung up in the middle of a request"),
            End::Full => write!(f, "there are {MAX_CONNECTIONS} clients already"),
            End::Protocol(what) => write!(f, "it does not keep to the protocol: {what}"),
            End::Io(error) => write!(f, "the connection failed: {error}"),
        }
    }
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests received, failed ones included.
    pub requests: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

impl Tally {
    /// Adds another connection's.
    pub fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

/// Transmission with one client: the meaning of its requests, over any store.
pub(super) struct Session<'a> {
    service: &'a Service,
    pub(super) store: &'a dyn Store,
    pub(super) agreed: Agreed,
    pub(super) tally: Tally,
}

impl<'a> Session<'a> {
    fn new(service: &'a Service, agreed: Agreed) -> Session<'a> {
        Session { service, store: &*service.store, agreed, tally: Tally::default() }
    }

    #[inline]
    pub(super) fn parse(&mut self, header: &[u8; REQUEST_BYTES]) -> Result<Request, End> {
        self.tally.requests += 1;
        Request::parse(header).ok_or_else(|| {
            let bytes = &header[..8];
            End::Protocol(format!("{bytes:02x?} where a request should begin"))
        })
    }

    /// The operation of a request, if the export permits it and the lender is not lost.
    #[inline]
    pub(super) fn admit(&mut self, request: &Request) -> Result<Operation, Errno> {
        let admitted = request.check(&self.service.export, self.agreed).and_then(|operation| {
            match self.store.check() {
                Ok(()) => Ok(operation),
                Err(error) => {
                    self.note(&error);
                    Err(Errno::Io)
                }
            }
        });
        match admitted {
            Ok(Operation::Read) => self.tally.read_bytes += u64::from(request.length),
            Ok(Operation::Write) => self.tally.written_bytes += u64::from(request.length),
            Ok(_) => {}
            Err(_) => self.tally.errors += 1,
        }
        admitted
    }

    /// Says once that the store fails.
    #[cold]
    pub(super) fn note(&self, error: &Error) {
        if !self.service.loss_is_known.swap(true, Ordering::Relaxed) {
            tracing::error!("{error}; all requests are answered with EIO from now on");
        }
    }
}

/// Serves a client to the end; `trust` says whether there is a place for one more that has shaken hands.
pub(super) fn serve(
    service: &Service,
    socket: Socket,
    stranger: Stranger,
    trust: impl FnOnce() -> bool,
) -> (End, Tally) {
    let shaken = shake_hands(service, socket, &stranger, trust);
    drop(stranger);
    match shaken {
        Ok((Way::Plain(stream), agreed, early)) => transmit(service, stream, agreed, &early),
        Ok((Way::Tls(stream), agreed, early)) => transmit(service, *stream, agreed, &early),
        Err(end) => (end, Tally::default()),
    }
}

pub(super) fn transmit(
    service: &Service,
    stream: impl Stream,
    agreed: Agreed,
    early: &[u8],
) -> (End, Tally) {
    let session = Session::new(service, agreed);
    let (end, session) = match service.store.mapped() {
        Some(base) => match Mapped::new(session, stream, base, early) {
            Ok(mapped) => mapped.serve(),
            Err(error) => return (End::Io(error), Tally::default()),
        },
        None => match Piped::new(session, stream, early) {
            Ok(piped) => piped.serve(),
            Err(error) => return (End::Io(error), Tally::default()),
        },
    };
    (end, session.tally)
}

/// Stream of bytes after the handshake.
enum Way {
    Plain(Socket),
    Tls(Box<Tls>),
}

impl Way {
    fn stream(&mut self) -> &mut dyn Stream {
        match self {
            Way::Plain(socket) => socket,
            Way::Tls(tls) => &mut **tls,
        }
    }

    fn socket(&mut self) -> &mut Socket {
        match self {
            Way::Plain(socket) => socket,
            Way::Tls(tls) => tls.socket(),
        }
    }
}

/// Negotiates; returns the bytes that the client has sent ahead, too.
fn shake_hands(
    service: &Service,
    mut socket: Socket,
    stranger: &Stranger,
    trust: impl FnOnce() -> bool,
) -> Result<(Way, Agreed, Vec<u8>), End> {
    let mut trust = Some(trust);
    socket.set_deadline(Some(stranger.deadline()))?;
    let mut way = Way::Plain(socket);
    let mut input = Vec::with_capacity(OPTION_BYTES + MAX_OPTION_BYTES);
    let mut out = Vec::new();
    let mut negotiation = Negotiation::begin(&service.export, service.tls_mode, &mut out);
    loop {
        let (used, step) = negotiation.feed(&input, &mut out);
        input.drain(..used);
        // A client that learns of its success has a place.
        if matches!(step, Step::Transmission(_)) && !trust.take().is_some_and(|trust| trust()) {
            return Err(End::Full);
        }
        // SAFETY: the piece is `out`.
        let sent = unsafe { way.stream().send(&mut [piece(out.as_ptr(), out.len())]) };
        out.clear();
        match step {
            Step::More => {
                sent?;
                receive(&mut way, &mut input)?;
            }
            Step::StartTls => {
                sent?;
                way = Way::Tls(start_tls(service, way, &input)?);
                negotiation.secured();
            }
            Step::Transmission(agreed) => {
                sent?;
                way.socket().set_deadline(None)?;
                return Ok((way, agreed, input));
            }
            Step::End(None) => return Err(End::Goodbye),
            Step::End(Some(reason)) => return Err(End::Protocol(reason)),
        }
    }
}

fn start_tls(service: &Service, way: Way, ahead: &[u8]) -> Result<Box<Tls>, End> {
    let Way::Plain(socket) = way else { unreachable!("the negotiation allows it once") };
    if !ahead.is_empty() {
        // An attacker in between could have put them there.
        return Err(End::Protocol("bytes between STARTTLS and TLS".to_owned()));
    }
    let config = service.tls.clone().expect("a server with TLS has certificates");
    let failed = |error: io::Error| End::Protocol(format!("TLS: {}", tls::reason(&error)));
    Ok(Box::new(Tls::accept(socket, config).map_err(failed)?))
}

/// Waits for more of the handshake.
fn receive(way: &mut Way, input: &mut Vec<u8>) -> Result<(), End> {
    let mut bytes = [0; 4096];
    // SAFETY: the piece is `bytes`.
    let got = unsafe { way.stream().receive(&mut [piece(bytes.as_mut_ptr(), bytes.len())]) };
    match got {
        Ok(0) => Err(End::hung_up(input.is_empty())),
        Ok(got) => {
            input.extend(&bytes[..got]);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let seconds = PROOF.as_secs();
            Err(End::Protocol(format!("it takes more than {seconds} s to shake hands")))
        }
        Err(error) => Err(error.into()),
    }
}
