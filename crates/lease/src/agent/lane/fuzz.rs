//! A lane's server over a socket pair, for fuzzing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::{Memory, Server};
use crate::agent::Lend;

/// A lease's memory.
pub struct Lease(Arc<Memory>);

impl Lease {
    /// Zeros.
    pub fn new(size_bytes: u64) -> Lease {
        let memory = Memory::make(size_bytes, &Lend::new(size_bytes));
        Lease(Arc::new(memory.expect("the kernel has a few pages")))
    }

    /// Serves a lane that sends these bytes and ends; the lease begins at `base`. Returns all that is answered.
    pub fn serve(&self, base: u64, bytes: &[u8]) -> Vec<u8> {
        let (mut near, far) = UnixStream::pair().expect("a socket pair");
        near.write_all(bytes).expect("the socket takes as much at once");
        near.shutdown(std::net::Shutdown::Write).expect("it is connected");
        let mut answers = Vec::new();
        std::thread::scope(|threads| {
            threads.spawn(|| near.read_to_end(&mut answers).expect("a socket of this process"));
            let lent = (self.0.clone(), Default::default());
            Server::new((Arc::new(far.into()), None), lent, base, Duration::ZERO).run();
        });
        answers
    }

    /// A copy of the bytes of the leased memory.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: no lane is open, so nobody else has the memory.
        unsafe { std::slice::from_raw_parts(self.0.base(), self.0.size_bytes()) }.to_vec()
    }
}
