//! Connections with other hosts until their handshake has ended.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_fabric::credentials::Credentials;
use rackmem_fabric::greeter::{Called, Calling};
use rackmem_fabric::greeting::{self, GreetingError, Hello, MAX_FRAME_BYTES, Purpose, Welcome};
use rackmem_fabric::stream::Stream;
use rackmem_fabric::ucx::Address;
use rackmem_fabric::{Seal, socket};
use rustix::event::epoll;

use super::Control;
use super::far::{Far, FarPeer, Met, printable};

/// Time for a whole handshake, connecting included.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// Handshakes at a time: beyond, the oldest gives way to the newest.
pub(super) const MAX_GREETERS: usize = 128;

/// A connection and how far its handshake has come.
#[derive(Debug)]
pub(super) struct Greeter {
    stream: Stream,
    stage: Stage,
    /// The node that this daemon calls; `None`: it was called.
    pub(super) called: Option<u16>,
    /// The host whose call this is, if this daemon was called.
    from: Option<IpAddr>,
    /// The caller's address by its own rack file, once it has said hello.
    says: Option<SocketAddr>,
    /// End of its time, however much has come.
    pub(super) deadline: Instant,
}

#[derive(Debug)]
enum Stage {
    Connecting(Purpose),
    Calling(Calling, Purpose),
    /// With the number of the admission, if it is that of a guest.
    Called(Called<Hello>, Option<u64>),
}

/// The end of a handshake.
struct Greeted {
    nid: u16,
    purpose: Purpose,
    seal: Seal,
    incarnation: u64,
    version: String,
    /// Where packets find it, if they travel by UCX.
    worker: Option<Address>,
    admission: Option<u64>,
}

type Step = Result<Option<Greeted>, GreetingError>;

impl Greeter {
    fn new(stream: Stream, stage: Stage, called: Option<u16>) -> Greeter {
        let deadline = Instant::now() + GREETING_TIMEOUT;
        Greeter { stream, stage, called, from: None, says: None, deadline }
    }

    /// A connection that is being made.
    pub(super) fn calling(stream: Stream, nid: u16, purpose: Purpose) -> Greeter {
        Greeter::new(stream, Stage::Connecting(purpose), Some(nid))
    }

    /// A connection that somebody has made.
    pub(super) fn called(stream: Stream, credentials: &Arc<Credentials>) -> Greeter {
        let peer = rustix::net::getpeername(&stream).ok().flatten();
        let peer = peer.and_then(|address| SocketAddr::try_from(address).ok());
        let stage = Stage::Called(Called::new(credentials), None);
        Greeter { from: peer.map(|peer| peer.ip()), ..Greeter::new(stream, stage, None) }
    }

    /// Takes the handshake as far as what has come allows.
    fn advance(&mut self, far: &Far) -> Step {
        loop {
            let has_more = self.is_connecting() || self.stream.receive();
            if self.stream.input().len() > 2 * MAX_FRAME_BYTES {
                return Err(GreetingError::NoDaemon);
            }
            let greeted = self.step(far);
            self.stream.transmit();
            if !matches!(greeted, Ok(None)) || !has_more {
                return greeted;
            }
        }
    }

    fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::Connecting(_))
    }

    /// Whether it was called, and has heard no hello.
    fn is_waiting(&self) -> bool {
        matches!(&self.stage, Stage::Called(called, _) if called.is_waiting())
    }

    fn step(&mut self, far: &Far) -> Step {
        let (input, out) = self.stream.both();
        let (nid, purpose, seal, incarnation, version, worker, admission) = match &mut self.stage {
            // The socket is connected: the hello leaves.
            Stage::Connecting(purpose) => {
                let (nid, purpose) = (self.called.unwrap_or_default(), *purpose);
                let hello = far.hello(nid, purpose);
                let calling = Calling::new(&far.credentials, nid, &hello, out);
                self.stage = Stage::Calling(calling, purpose);
                return Ok(None);
            }
            Stage::Calling(calling, purpose) => {
                let Some((welcome, seal)) = calling.step::<Welcome>(input, out)? else {
                    return Ok(None);
                };
                let Welcome { incarnation, version, worker } = welcome;
                let nid = self.called.unwrap_or_default();
                (nid, *purpose, seal, incarnation, version, worker, None)
            }
            Stage::Called(called, admission) => {
                if called.is_waiting()
                    && let Some(number) = greeting::admission_of(input.bytes())
                {
                    let Some(credentials) = far.admitted_by(number) else { return Ok(None) };
                    (*called, *admission) = (Called::new(&Arc::new(credentials)), Some(number));
                }
                let judge = |hello: &Hello, node| {
                    self.says = Some(hello.address);
                    match *admission {
                        None => far.answer(hello, node),
                        Some(number) => far.check_guest(number, hello).map(|()| far.welcome()),
                    }
                };
                let heard = called.step(input, out, judge)?;
                let Some((hello, seal)) = heard else { return Ok(None) };
                let Hello { from, purpose, incarnation, version, worker, .. } = hello;
                (from, purpose, seal, incarnation, version, worker, *admission)
            }
        };
        let version = printable(&version);
        Ok(Some(Greeted { nid, purpose, seal, incarnation, version, worker, admission }))
    }
}

impl Far {
    /// Connections that wait for the announcement of a guest, among others.
    pub(super) fn waiting_guests(&self) -> Vec<u64> {
        let waits = |greeter: &Greeter| greeter.is_waiting() && !greeter.stream.input().is_empty();
        self.greeters.iter().filter(|(_, greeter)| waits(greeter)).map(|(id, _)| *id).collect()
    }
}

impl Control {
    pub(super) fn add_greeter(&mut self, greeter: Greeter) {
        let id = self.next_session;
        let edges = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(id);
        let Some(far) = &mut self.far else { return };
        if epoll::add(&self.epoll, &greeter.stream, data, edges).is_ok() {
            self.next_session += 1;
            far.greeters.insert(id, greeter);
        }
    }

    /// Something has happened to a connection whose handshake is under way.
    pub(super) fn greet(&mut self, id: u64) {
        let Some(far) = &mut self.far else { return };
        let Some(mut greeter) = far.greeters.remove(&id) else { return };
        if greeter.is_connecting()
            && let Err(error) = socket::connected(greeter.stream.as_fd())
        {
            return self.greeting_failed(&greeter, &error.to_string());
        }
        match greeter.advance(far) {
            Ok(Some(greeted)) => self.greeted(greeter.stream, greeted),
            Ok(None) => match greeter.stream.lost().map(str::to_owned) {
                Some(why) => self.greeting_failed(&greeter, &why),
                None => _ = far.greeters.insert(id, greeter),
            },
            Err(error) => {
                // A refusal without a reason is the answer of a node that will call.
                if !matches!(&error, GreetingError::Refused(why) if why.is_empty()) {
                    self.note_failed_call(&greeter, &error);
                    self.note_answer(&greeter, &error);
                }
                self.greeting_failed(&greeter, &error.to_string());
            }
        }
    }

    /// A node that was asked why it does not call has given a reason.
    fn note_answer(&mut self, greeter: &Greeter, error: &GreetingError) {
        if let Some(nid) = greeter.called.filter(|nid| *nid > self.nid) {
            self.note_failure(nid, &error.to_string());
        }
    }

    /// A daemon that cannot prove itself has called from the host of a node that is waited for: most likely it is that
    /// node's, by another file.
    fn note_failed_call(&mut self, greeter: &Greeter, error: &GreetingError) {
        let (Some(far), Some(from)) = (&mut self.far, greeter.from) else { return };
        if *error == GreetingError::NoDaemon {
            return;
        }
        // A refused daemon may be the one whose connection for messages is there. What it says of its address may be
        // the recorded hello of another, so it counts only from the peer's own host.
        let is_refusal = matches!(error, GreetingError::Refused(_));
        let is_listed = |at: &SocketAddr| far.peers.values().any(|peer| peer.address == *at);
        let says = greeter.says.filter(is_listed);
        let is_caller = |at: SocketAddr| at.ip() == from && says.is_none_or(|says| says == at);
        let why = match error {
            GreetingError::Refused(why) => format!("this node refuses its call: {why}"),
            error => format!("a call from its host has failed: {error}"),
        };
        let awaited = |(nid, peer): &(&u16, &mut FarPeer)| {
            let waits = peer.control.is_none() || (is_refusal && peer.data.is_none());
            **nid > self.nid && waits && is_caller(peer.address)
        };
        let mut refused = Vec::new();
        for (nid, peer) in far.peers.iter_mut().filter(awaited) {
            peer.was_refused = peer.control.is_some();
            if is_refusal {
                refused.push(*nid);
            } else {
                peer.why = Some(printable(&why));
            }
        }
        for nid in refused {
            self.note_failure(nid, &why);
        }
    }

    /// The oldest caller that has not proved itself gives way to the next; calls of this daemon do not.
    pub(super) fn give_up_oldest_stranger(&mut self) {
        let Some(far) = &self.far else { return };
        let mut strangers = far.greeters.iter().filter(|(_, greeter)| greeter.called.is_none());
        let silent = strangers.clone().find(|(_, greeter)| greeter.is_waiting());
        if let Some((id, _)) = silent.or_else(|| strangers.next()) {
            self.give_up_greeter(*id, "too many connections at a time");
        }
    }

    pub(super) fn give_up_greeter(&mut self, id: u64, why: &str) {
        let greeter = self.far.as_mut().and_then(|far| far.greeters.remove(&id));
        if let Some(greeter) = greeter {
            self.greeting_failed(&greeter, why);
        }
    }

    /// A call has failed. What others do wrong is their business, and said where it is looked for; a node that is asked
    /// may not be there yet.
    fn greeting_failed(&mut self, greeter: &Greeter, why: &str) {
        let Some(nid) = greeter.called.filter(|nid| *nid < self.nid) else {
            return tracing::debug!(nid = self.nid, "a connection with another host: {why}");
        };
        self.note_failure(nid, why);
        let control = self.far.as_ref().and_then(|far| far.peers.get(&nid)?.control);
        if let Some(control) = control {
            // The connection for packets was refused: both are made anew.
            self.end_because(control, why);
        }
    }

    fn greeted(&mut self, mut stream: Stream, greeted: Greeted) {
        let Some(far) = &self.far else { return };
        if stream.lost().is_some() || stream.staged_bytes() > 0 {
            if greeted.admission.is_some() {
                return;
            }
            // It is called again, or calls again.
            return self.note_failure(greeted.nid, stream.lost().unwrap_or("it does not listen"));
        }
        stream.read_more();
        let _ = epoll::delete(&self.epoll, &stream);
        if !far.file.cleartext {
            stream.seal(greeted.seal);
        }
        let Greeted { nid, purpose, incarnation, version, worker, admission, .. } = greeted;
        if let Some(number) = admission {
            return self.welcome_guest(number, stream);
        }
        let met = Met { stream, incarnation, version, worker };
        match purpose {
            Purpose::Control => self.meet(nid, met),
            Purpose::Data => self.meet_data(nid, met),
            Purpose::Guest => {}
        }
    }
}
