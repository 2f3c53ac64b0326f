//! TLS under NBD: certificates in a directory, named as other servers name them.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::socket::{Piece, Socket, Stream, piece};
use rackmem_fabric::error::Error as Plain;
use rackmem_fabric::secret_file;
use rackmem_lease::error::{Error, Result};

/// The server's certificate and the chain from it to the authority.
pub const CERTIFICATE_FILE: &str = "server-cert.pem";
/// The certificate's private key.
pub const KEY_FILE: &str = "server-key.pem";
/// The authority that clients' certificates must come from, if they must have any.
pub const AUTHORITY_FILE: &str = "ca-cert.pem";

/// Plain bytes of a TLS record, at most.
const RECORD_BYTES: usize = 16 * 1024;

/// Certificates of the server, and the authority of clients' certificates.
#[derive(Clone, Debug)]
pub struct Certificates {
    pub(super) config: Arc<ServerConfig>,
    pub(super) verifies_clients: bool,
}

/// Reads the certificates of a directory; with `verify_clients`, clients need one of that authority.
///
/// # Errors
/// A file is missing, or is not as it should be; or the server's certificate is not valid today.
pub fn load(directory: &Path, verify_clients: bool) -> Result<Certificates> {
    let refused = |file: &str, why: &dyn Display| {
        Error::refused(format!("TLS: {}: {why}", directory.join(file).display()))
    };
    let certificates = |file| -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_file_iter(directory.join(file))
            .and_then(Iterator::collect)
            .map_err(|error| refused(file, &error))
    };
    let path = directory.join(KEY_FILE);
    let metadata = path.metadata().map_err(|error| refused(KEY_FILE, &error))?;
    secret_file::check("the private key", &path, &metadata).map_err(Plain::from)?;
    let key = PrivateKeyDer::from_pem_file(&path).map_err(|error| refused(KEY_FILE, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::refused(format!("TLS: {error}")))?;
    let builder = if verify_clients {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(AUTHORITY_FILE)? {
            roots.add(certificate).map_err(|error| refused(AUTHORITY_FILE, &error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| refused(AUTHORITY_FILE, &error))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let chain = certificates(CERTIFICATE_FILE)?;
    let own = chain.first().cloned();
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|error| refused(CERTIFICATE_FILE, &reason(&error)))?;
    if let Some(why) = own.and_then(|own| outside_dates(&own, UnixTime::now())) {
        return Err(refused(CERTIFICATE_FILE, &why));
    }
    Ok(Certificates { config: Arc::new(config), verifies_clients: verify_clients })
}

/// An error of rustls, with what to do where it only names a code.
pub(super) fn reason(error: &dyn Display) -> String {
    let said = error.to_string();
    if !said.contains("UnsupportedCertVersion") {
        return said;
    }
    "the certificate is of version 1 of X.509: make one of version 3 (`openssl x509 -req -extfile FILE`, with a line \
     such as keyUsage=digitalSignature)"
        .to_owned()
}

/// An error, with what to do, if a server's certificate has expired or is not valid yet.
fn outside_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<String> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    // No authority is known here. The dates are checked first, and any other error is for the clients to find.
    let roots = RootCertStore::empty();
    let verified = verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, &[]);
    let Err(rustls::Error::InvalidCertificate(why)) = verified else { return None };
    match why {
        CertificateError::ExpiredContext { not_after, .. } => Some(format!(
            "the certificate expired on {}, so clients refuse it: make a new one",
            date(not_after)
        )),
        CertificateError::NotValidYetContext { not_before, .. } => Some(format!(
            "the certificate is not valid before {}, so clients refuse it: set this host's clock, which says {}, or \
             make a new one",
            date(not_before),
            date(now)
        )),
        _ => None,
    }
}

/// A time as people write it.
fn date(at: UnixTime) -> String {
    let seconds = libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX);
    // SAFETY: integers and a pointer, for which zeros are good.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to what they should. A year that is beyond its integer leaves the zeros.
    unsafe { libc::gmtime_r(&raw const seconds, &raw mut parts) };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
        i64::from(parts.tm_year) + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

/// A socket as rustls sees it.
#[derive(Debug)]
struct Wire {
    socket: Socket,
    waits: bool,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = [piece(into.as_ptr(), into.len())];
        // SAFETY: the piece is the caller's buffer.
        unsafe {
            match self.waits {
                true => self.socket.receive(&mut into),
                false => self.socket.receive_now(&mut into),
            }
        }
    }
}

impl Write for Wire {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        // SAFETY: the piece is the caller's buffer.
        unsafe { self.socket.send(&mut [piece(from.as_ptr(), from.len())])? };
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TLS connection.
pub struct Tls {
    stream: StreamOwned<ServerConnection, Wire>,
    /// Rust's own memory between rustls and a store's mapping.
    bounce: Box<[u8; RECORD_BYTES]>,
}

impl Tls {
    /// Shakes hands with a client.
    ///
    /// # Errors
    /// The client breaks off, or has no certificate that counts.
    pub fn accept(socket: Socket, config: Arc<ServerConfig>) -> io::Result<Tls> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut wire = Wire { socket, waits: true };
        while connection.is_handshaking() {
            connection.complete_io(&mut wire)?;
        }
        let stream = StreamOwned::new(connection, wire);
        Ok(Tls { stream, bounce: Box::new([0; RECORD_BYTES]) })
    }

    /// The socket below.
    pub(super) fn socket(&mut self) -> &mut Socket {
        &mut self.stream.sock.socket
    }

    unsafe fn receive_with(&mut self, into: &mut [Piece], waits: bool) -> io::Result<usize> {
        self.stream.sock.waits = waits;
        let first = into.iter().find(|piece| piece.iov_len > 0);
        let Some(first) = first else { return Ok(0) };
        let room = first.iov_len.min(RECORD_BYTES);
        let bytes = match self.stream.read(&mut self.bounce[..room]) {
            // A client that just hangs up has said goodbye one layer above.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            result => result?,
        };
        // SAFETY: the piece may be written, as the caller promises, and has at least so many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(self.bounce.as_ptr(), first.iov_base.cast(), bytes);
        }
        Ok(bytes)
    }
}

impl Stream for Tls {
    unsafe fn receive(&mut self, into: &mut [Piece]) -> io::Result<usize> {
        // SAFETY: as the caller promises.
        unsafe { self.receive_with(into, true) }
    }

    unsafe fn receive_now(&mut self, into: &mut [Piece]) -> io::Result<usize> {
        // SAFETY: as the caller promises.
        unsafe { self.receive_with(into, false) }
    }

    unsafe fn send(&mut self, from: &mut [Piece]) -> io::Result<()> {
        self.stream.sock.waits = true;
        let mut filled = 0;
        let mut rest = from;
        while let Some(first) = rest.first() {
            let bytes = first.iov_len.min(RECORD_BYTES - filled);
            // SAFETY: the piece may be read, as the caller promises; the bounce has so much room.
            unsafe {
                let to = self.bounce.as_mut_ptr().add(filled);
                std::ptr::copy_nonoverlapping(first.iov_base.cast_const().cast(), to, bytes);
            }
            filled += bytes;
            rest = super::socket::advance(rest, bytes);
            if filled == RECORD_BYTES || rest.is_empty() {
                self.stream.write_all(&self.bounce[..filled])?;
                filled = 0;
            }
        }
        self.stream.flush()
    }
}
