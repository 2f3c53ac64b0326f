//! Listeners for links over UDP.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use sha2::{Digest, Sha256};

use super::end::Settings;
use super::faulty::Faults;
use super::handshake::{self, Terms, Token};
use super::seal::Sealed;
use super::stream::{self, LinkStream};
use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::greeting::{self, Asked, Callee, Verdict};
use crate::net::proof::Proof;
use crate::random::{self, Nonce};
use crate::rights::Right;
use crate::stranger::PROOF;

/// Links that a listener remembers, so that one that is asked for twice begins once.
const REMEMBERED: usize = 64;

/// Period of cookies: one is good for the rest of its period, and all of the next.
const COOKIE: Duration = PROOF;

/// Longest reason of a refusal: a datagram of the handshake has to hold it.
const MAX_REFUSAL_CHARACTERS: usize = 240;

/// Datagrams of strangers that one call looks at.
const MAX_DATAGRAMS_A_CALL: usize = 256;

/// A UDP socket at which links can be asked for.
#[derive(Debug)]
pub struct LinkListener {
    socket: UdpSocket,
    settings: Settings,
    faults: Option<Faults>,
    credentials: Arc<Credentials>,
    /// Its own node, if keys tell.
    node: Option<u16>,
    /// Connectors that may have a link, of those that have proved themselves; all of them if nothing is said.
    admission: Option<(Proof, &'static [Right])>,
    /// Key of the cookies, which need not be remembered.
    cookies: Nonce,
    since: Instant,
    begun: VecDeque<(SocketAddr, Token)>,
}

impl LinkListener {
    /// Listens at a UDP address for connectors with the same secret, or with keys that the credentials name.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn bind(
        address: SocketAddr,
        credentials: Arc<Credentials>,
        settings: Settings,
        faults: Option<Faults>,
    ) -> Result<LinkListener> {
        let cannot = |error| Error::listen(format_args!("{address} over UDP"), error);
        let socket = UdpSocket::bind(address).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let cookies = random::nonce().map_err(cannot)?;
        let (since, begun) = (Instant::now(), VecDeque::with_capacity(REMEMBERED));
        let (node, admission) = (credentials.own_node(), None);
        let listener = LinkListener {
            socket,
            settings,
            faults,
            credentials,
            node,
            admission,
            cookies,
            since,
            begun,
        };
        Ok(listener)
    }

    /// The same, and only nodes that have one of these rights get a link.
    pub fn admitting(self, proof: Proof, rights: &'static [Right]) -> LinkListener {
        LinkListener { admission: Some((proof, rights)), ..self }
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// A link whose other end has proved itself, if there is one; it does not wait. The connector gets the answer as
    /// soon as the new end is driven.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn try_accept(&mut self) -> Result<Option<LinkStream>> {
        let cannot = |error| Error::io("cannot take a link over UDP", error);
        let mut bytes = [0; handshake::MAX_BYTES];
        for _ in 0..MAX_DATAGRAMS_A_CALL {
            let (length, from) = match self.socket.recv_from(&mut bytes) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // A host's refusal of an earlier answer is no failure of the listener.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(cannot(error)),
            };
            if let Some(begun) = self.answer(&bytes[..length], from) {
                return begun.map(Some);
            }
        }
        Ok(None)
    }

    /// Answers a datagram; returns a link, if it is a hello with its cookie.
    fn answer(&mut self, datagram: &[u8], from: SocketAddr) -> Option<Result<LinkStream>> {
        let (cookie, hello) = handshake::open(datagram)?;
        let token = handshake::token_of(hello)?;
        let kind = self.credentials.kind();
        if ![0, 1].map(|age| self.cookie(from, age)).contains(cookie) {
            let mut again = self.cookie(from, 0).to_vec();
            again.extend(self.node.into_iter().flat_map(u16::to_le_bytes));
            self.say(&token, &greeting::frame(Verdict::Again, kind, &again), from);
            return None;
        }
        // One that has begun repeats the answer itself.
        if self.begun.contains(&(from, token)) {
            return None;
        }
        match Callee::new(&self.credentials).hear_bound(hello, cookie) {
            Ok(asked) => {
                let asked = asked.ok()?;
                if let Err(why) = self.admits(&asked) {
                    let (refusal, _) = asked.answer(Err::<Terms, _>(why));
                    self.say(&token, &refusal, from);
                    return None;
                }
                if self.begun.len() == REMEMBERED {
                    self.begun.pop_front();
                }
                self.begun.push_back((from, token));
                Some(self.begin(from, token, asked))
            }
            Err(error) => {
                self.say(&token, &greeting::refusal(&error, kind)?, from);
                None
            }
        }
    }

    /// Whether this connector may have a link; if not, a sentence that fits into a datagram.
    fn admits(&self, asked: &Asked<Terms>) -> std::result::Result<(), String> {
        let Some((proof, rights)) = &self.admission else { return Ok(()) };
        let shortened = |why: String| why.chars().take(MAX_REFUSAL_CHARACTERS).collect();
        proof.check(asked.node, rights).map_err(shortened)
    }

    /// The cookie for this address, `age` times of [`COOKIE`] ago.
    fn cookie(&self, from: SocketAddr, age: u64) -> Token {
        let time = (self.since.elapsed().as_secs() / COOKIE.as_secs()).wrapping_sub(age);
        let asked = format!("{from} {time}");
        let digest = Sha256::new().chain_update(self.cookies).chain_update(asked).finalize();
        *digest.first_chunk().expect("a digest is longer")
    }

    /// An answer that is lost is asked for again.
    fn say(&self, token: &Token, frame: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(&handshake::datagram(token, frame), to);
    }

    fn begin(&self, from: SocketAddr, token: Token, asked: Asked<Terms>) -> Result<LinkStream> {
        let cannot = |error| Error::io(format!("cannot link to {from} over UDP"), error);
        let mut here = self.socket.local_addr().map_err(cannot)?;
        here.set_port(0);
        let socket = UdpSocket::bind(here).map_err(cannot)?;
        socket.connect(from).map_err(cannot)?;
        let wire = stream::wire(socket, asked.hello.max_bytes, self.faults).map_err(cannot)?;
        let terms = Terms { max_bytes: wire.max_bytes() as u16 };
        let (answer, unproved) = asked.answer(Ok::<_, String>(terms));
        let answer = handshake::datagram(&token, &answer);
        let sealed = Sealed::new(wire, unproved.keys_of_bound(), token, Some(answer));
        LinkStream::start(sealed, from, handshake::session(&token), self.settings)
    }

    /// Waits for a link.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn accept(&mut self) -> Result<LinkStream> {
        loop {
            if let Some(stream) = self.try_accept()? {
                return Ok(stream);
            }
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::io("cannot wait for links", error)),
            }
        }
    }
}

impl AsFd for LinkListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::greeting::Caller;

    const TERMS: Terms = Terms { max_bytes: 1400 };

    fn listener() -> LinkListener {
        let secret = Arc::new(Credentials::Secret([7; 32]));
        LinkListener::bind(any_port(), secret, Settings::default(), None).unwrap()
    }

    fn any_port() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    fn hello(secret: u8, cookie: &Token) -> Vec<u8> {
        Caller::bound(&Credentials::Secret([secret; 32]), 0, &TERMS, cookie).1
    }

    /// Frame and verdict of the answer to this hello, which begins no link.
    fn ask(
        listener: &mut LinkListener,
        from: &UdpSocket,
        cookie: &Token,
        hello: &[u8],
    ) -> (Vec<u8>, u8) {
        let question = handshake::datagram(cookie, hello);
        from.send_to(&question, listener.address().unwrap()).unwrap();
        from.set_nonblocking(true).unwrap();
        let mut bytes = [0; handshake::MAX_BYTES];
        let length = loop {
            assert!(listener.try_accept().unwrap().is_none(), "no link begins");
            if let Ok(length) = from.recv(&mut bytes) {
                break length;
            }
            std::thread::yield_now();
        };
        assert!(length <= question.len(), "an answer is not longer than its question");
        let (token, frame) = handshake::open(&bytes[..length]).unwrap();
        assert_eq!(Some(*token), handshake::token_of(hello));
        let verdict = greeting::parse(frame).unwrap().unwrap().verdict;
        (frame.to_vec(), verdict)
    }

    fn cookie(listener: &mut LinkListener, from: &UdpSocket) -> Token {
        let none = Token::default();
        let (frame, verdict) = ask(listener, from, &none, &hello(7, &none));
        assert_eq!(verdict, Verdict::Again as u8);
        greeting::parse(&frame).unwrap().unwrap().message.try_into().unwrap()
    }

    /// A stranger that does not hear answers at the address that it sends from gets no link; a recorded hello begins
    /// none, with whatever cookie.
    #[test]
    fn only_a_hello_with_its_own_cookie_is_heard() {
        let mut listener = listener();
        let [here, elsewhere] = [0; 2].map(|_| UdpSocket::bind(any_port()).unwrap());
        let cookie_here = cookie(&mut listener, &here);
        let recorded = hello(7, &cookie_here);
        let again = Verdict::Again as u8;
        assert_eq!(ask(&mut listener, &elsewhere, &cookie_here, &recorded).1, again);
        let cookie_elsewhere = cookie(&mut listener, &elsewhere);
        let refused = Verdict::OtherSecret as u8;
        assert_eq!(ask(&mut listener, &elsewhere, &cookie_elsewhere, &recorded).1, refused);
        assert_eq!(ask(&mut listener, &here, &cookie_here, &hello(8, &cookie_here)).1, refused);
        assert!(listener.begun.is_empty());
        // Sent twice, it begins one link.
        let address = listener.address().unwrap();
        for _ in 0..2 {
            here.send_to(&handshake::datagram(&cookie_here, &recorded), address).unwrap();
        }
        let link = listener.accept().unwrap();
        assert_eq!(link.peer(), here.local_addr().unwrap());
        cookie(&mut listener, &elsewhere);
    }
}
