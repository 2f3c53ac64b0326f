//! Datagrams that only the peer can have sent: each ends with a tag, keyed by the secret and by both ends' nonces. The
//! link above sees none that is forged or damaged.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::fabric::Fabric;
use crate::net::secret::{End, Nonce, Secret};

/// Bytes of a tag: the first half of an HMAC-SHA256.
pub(super) const TAG_BYTES: usize = 16;

/// Forged datagrams that one call drops, so that their sender cannot hold it for ever.
const MAX_FORGED_A_CALL: usize = 256;

/// Key with which one end seals its datagrams.
#[derive(Clone)]
pub(super) struct Seal(Hmac<Sha256>);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// The seal of one end in the session of these nonces.
    pub(super) fn new(
        secret: Option<&Secret>,
        end: End,
        listener: &Nonce,
        connector: &Nonce,
    ) -> Seal {
        let key = Secret::session_key(secret, end, listener, connector);
        Seal(Hmac::new_from_slice(&key).expect("any length is a key"))
    }

    pub(super) fn tag(&self, datagram: &[u8]) -> [u8; TAG_BYTES] {
        let tag = self.0.clone().chain_update(datagram).finalize().into_bytes();
        *tag.first_chunk().expect("a tag has half of the bytes")
    }

    /// The datagram without its tag, if that is right.
    pub(super) fn open<'a>(&self, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (datagram, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;
        let mac = self.0.clone().chain_update(datagram);
        mac.verify_truncated_left(tag).is_ok().then_some(datagram)
    }
}

/// A fabric whose datagrams are sealed.
#[derive(Debug)]
pub(super) struct Sealed<F> {
    inner: F,
    ours: Seal,
    theirs: Seal,
    buffer: Box<[u8]>,
    forged: u64,
}

impl<F: Fabric> Sealed<F> {
    pub(super) fn new(inner: F, ours: Seal, theirs: Seal) -> Sealed<F> {
        let buffer = vec![0; inner.max_bytes()].into_boxed_slice();
        Sealed { inner, ours, theirs, buffer, forged: 0 }
    }
}

impl<F: Fabric> Fabric for Sealed<F> {
    fn max_bytes(&self) -> usize {
        self.inner.max_bytes() - TAG_BYTES
    }

    fn send(&mut self, datagram: &[u8], now: Duration) -> io::Result<()> {
        let sealed = &mut self.buffer[..datagram.len() + TAG_BYTES];
        let (body, tag) = sealed.split_at_mut(datagram.len());
        body.copy_from_slice(datagram);
        tag.copy_from_slice(&self.ours.tag(datagram));
        self.inner.send(sealed, now)
    }

    fn flush(&mut self, now: Duration) -> io::Result<()> {
        self.inner.flush(now)
    }

    fn receive(&mut self, into: &mut [u8], now: Duration) -> io::Result<Option<usize>> {
        for _ in 0..MAX_FORGED_A_CALL {
            let Some(length) = self.inner.receive(&mut self.buffer, now)? else { return Ok(None) };
            if let Some(datagram) = self.theirs.open(&self.buffer[..length])
                && let Some(into) = into.get_mut(..datagram.len())
            {
                into.copy_from_slice(datagram);
                return Ok(Some(datagram.len()));
            }
            self.forged += 1;
        }
        Ok(None)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }

    fn due(&self) -> Option<Duration> {
        self.inner.due()
    }

    fn forged(&self) -> u64 {
        self.forged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::MemoryFabric;
    use crate::net::secret::nonce;

    /// Both ends of a wire, sealed by these secrets.
    fn wire(near: &Secret, far: &Secret) -> [Sealed<MemoryFabric>; 2] {
        let (a, b) = MemoryFabric::pair(256);
        let (listener, connector) = (nonce().unwrap(), nonce().unwrap());
        let seal = |secret, end| Seal::new(Some(secret), end, &listener, &connector);
        [
            Sealed::new(a, seal(near, End::Listener), seal(near, End::Connector)),
            Sealed::new(b, seal(far, End::Connector), seal(far, End::Listener)),
        ]
    }

    fn receive(end: &mut Sealed<MemoryFabric>) -> Option<Vec<u8>> {
        let mut bytes = [0; 256];
        let length = end.receive(&mut bytes, Duration::ZERO).unwrap()?;
        Some(bytes[..length].to_vec())
    }

    #[test]
    fn what_the_peer_has_not_sealed_is_dropped_and_counted() {
        let secret = Secret::new(b"nobody guesses this");
        let [mut near, mut far] = wire(&secret, &secret);
        near.send(b"hello", Duration::ZERO).unwrap();
        assert_eq!(receive(&mut far).unwrap(), b"hello");
        let mut sealed = b"take this".to_vec();
        sealed.extend(near.ours.tag(&sealed));
        for bit in 0..8 * sealed.len() {
            let mut forged = sealed.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            near.inner.send(&forged, Duration::ZERO).unwrap();
        }
        for length in 0..sealed.len() {
            near.inner.send(&sealed[..length], Duration::ZERO).unwrap();
        }
        // A datagram of this end itself, thrown back.
        far.send(b"mirror", Duration::ZERO).unwrap();
        let mut mirrored = [0; 64];
        let length = near.inner.receive(&mut mirrored, Duration::ZERO).unwrap().unwrap();
        near.inner.send(&mirrored[..length], Duration::ZERO).unwrap();
        near.send(b"goodbye", Duration::ZERO).unwrap();
        assert_eq!(receive(&mut far).unwrap(), b"goodbye");
        assert_eq!(far.forged(), (8 * sealed.len() + sealed.len() + 1) as u64);
    }

    #[test]
    fn another_secret_seals_otherwise() {
        let [mut near, mut far] = wire(&Secret::new(b"one"), &Secret::new(b"two"));
        near.send(b"hello", Duration::ZERO).unwrap();
        assert_eq!((receive(&mut far), far.forged()), (None, 1));
    }
}
