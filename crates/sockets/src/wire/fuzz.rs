//! The receiving end of a wire without its thread, for fuzzing.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rackmem_fabric::Buffer;

use super::reader::Reader;
use super::{Wire, lock};
use crate::Terms;
use crate::carrier::Carrier;
use crate::core::Core;
use crate::window::Window;

/// Two connections with a page of registered memory each.
const TERMS: Terms = Terms { connections: 2, registered_bytes: 4096 };

/// A process whose peer sends what it likes.
pub struct Victim {
    core: Core,
    wire: Arc<Wire>,
    peer: UnixStream,
}

impl Victim {
    /// A link on which `before` came along with the handshake.
    pub fn new(before: &[u8]) -> Victim {
        let (peer, near) = UnixStream::pair().expect("a socket pair");
        peer.set_nonblocking(true).expect("a socket of this process");
        let mut input = Buffer::default();
        input.extend(before);
        let wire = Arc::new(Wire::new(near.into(), None, input).expect("an eventfd"));
        let windows = [(); 2].map(|()| Window::create(&TERMS).expect("a few pages"));
        let carrier = Carrier::Network(wire.clone());
        let core = Core::new(carrier, "the peer".to_owned(), windows, TERMS, false);
        Victim { core, wire, peer }
    }

    /// Posts a receive for the n-th message of a connection's life.
    pub fn post(&self, connection: u32, life: u32, number: u64, offset: u64, size_bytes: u64) {
        self.core.own().board(connection).publish(life, number, offset, size_bytes);
    }

    /// Hears these bytes; false once the link has ended.
    pub fn hear(&mut self, bytes: &[u8]) -> bool {
        // Bytes that do not fit into the socket count as never sent.
        let _ = self.peer.write(bytes);
        self.wire.read(&self.core, &mut lock::<Reader>(&self.wire.reader));
        // Nobody reads the answers.
        self.wire.waste_answers(&self.peer);
        !self.core.is_lost()
    }

    /// Overwrites a connection's registered memory.
    pub fn fill(&mut self, connection: u32, byte: u8) {
        let at = self.core.own().registered(connection);
        // SAFETY: so many bytes are registered, and nobody else has them while `self` is borrowed.
        unsafe { std::ptr::write_bytes(at, byte, TERMS.registered_bytes) };
    }

    /// A copy of a connection's registered memory.
    pub fn registered(&self, connection: u32) -> Vec<u8> {
        let at = self.core.own().registered(connection);
        // SAFETY: as in `fill`.
        unsafe { std::slice::from_raw_parts(at, TERMS.registered_bytes) }.to_vec()
    }
}

impl Wire {
    /// Makes room for answers that nobody wants.
    fn waste_answers(&self, mut peer: &UnixStream) {
        use std::io::Read;
        let mut bytes = [0; 4096];
        while matches!(peer.read(&mut bytes), Ok(1..)) {}
        self.flush();
    }
}
