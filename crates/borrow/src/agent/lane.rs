//! A lender's end of lanes: a thread for each.

#[cfg(fuzzing)]
pub mod fuzz;

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use super::memory::Memory;
use crate::store::mapped;
use crate::store::packet::{Answer, HEADER_BYTES, Op, Request, Status};

/// Lanes of one lease at a time.
const MAX_LANES: usize = 256;

/// Bytes taken in at a time.
const IN_BYTES: usize = 256 << 10;

/// Answers up to this size are put together before they leave.
const SMALL_BYTES: usize = 32 << 10;

/// Size at which what was put together leaves.
const BATCH_BYTES: usize = 256 << 10;

/// The lanes of a lease.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    sockets: Vec<Weak<OwnedFd>>,
}

impl Lanes {
    /// Serves a lane in a thread of its own.
    pub fn open(&mut self, fd: OwnedFd, memory: Arc<Memory>, base: u64, spin: Duration) {
        self.sockets.retain(|socket| socket.strong_count() > 0);
        if self.sockets.len() >= MAX_LANES || rustix::io::ioctl_fionbio(&fd, false).is_err() {
            return;
        }
        let fd = Arc::new(fd);
        self.sockets.push(Arc::downgrade(&fd));
        let serve = move || Server::new(fd, memory, base, spin).run();
        let _ = std::thread::Builder::new().name("rackmem-lane".to_owned()).spawn(serve);
    }

    /// Ends all lanes.
    pub fn close(self) {
        for socket in self.sockets.iter().filter_map(Weak::upgrade) {
            let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both);
        }
    }
}

/// The lane is over.
struct Over;

impl From<rustix::io::Errno> for Over {
    fn from(_: rustix::io::Errno) -> Over {
        Over
    }
}

struct Server {
    fd: Arc<OwnedFd>,
    memory: Arc<Memory>,
    base: u64,
    spin: Duration,
    bytes: Vec<u8>,
    first: usize,
    end: usize,
    out: Vec<u8>,
}

impl Server {
    fn new(fd: Arc<OwnedFd>, memory: Arc<Memory>, base: u64, spin: Duration) -> Server {
        let out = Vec::with_capacity(BATCH_BYTES + SMALL_BYTES + HEADER_BYTES);
        Server { fd, memory, base, spin, bytes: vec![0; IN_BYTES], first: 0, end: 0, out }
    }

    fn run(mut self) {
        while self.round().is_ok() {}
        let _ = self.flush();
        let _ = rustix::net::shutdown(&*self.fd, rustix::net::Shutdown::Both);
    }

    /// Answers all requests that are there, then waits for more.
    fn round(&mut self) -> Result<(), Over> {
        while let Some(header) = self.bytes[self.first..self.end].first_chunk::<HEADER_BYTES>() {
            let request = Request::decode(header).map_err(|_| Over)?;
            self.first += HEADER_BYTES;
            self.serve(request)?;
            if self.out.len() >= BATCH_BYTES {
                self.flush()?;
            }
        }
        self.flush()?;
        self.bytes.copy_within(self.first..self.end, 0);
        (self.first, self.end) = (0, self.end - self.first);
        self.receive()
    }

    fn receive(&mut self) -> Result<(), Over> {
        let begun = Instant::now();
        let mut spins = !self.spin.is_zero();
        loop {
            let flags = if spins { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
            match rustix::net::recv(&*self.fd, &mut self.bytes[self.end..], flags) {
                Ok((0, _)) => return Err(Over),
                Ok((n, _)) => {
                    self.end += n;
                    return Ok(());
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    std::hint::spin_loop();
                    spins = begun.elapsed() < self.spin;
                }
                Err(_) => return Err(Over),
            }
        }
    }

    fn serve(&mut self, request: Request) -> Result<(), Over> {
        let mapping = self.memory.mapping();
        let Some(offset) = request.offset_in(self.base, mapping.len() as u64) else {
            // What follows a write cannot be skipped for ever: the lane ends with this answer.
            self.answer(&request, Status::OutOfRange, 0);
            return Err(Over);
        };
        // SAFETY: the request lies inside of the mapping.
        let at = unsafe { mapping.base().add(offset as usize) };
        let length = request.length as usize;
        match request.op {
            Op::Read => self.read(&request, at, length),
            Op::Write => {
                self.write(at, length)?;
                self.answer(&request, Status::Done, 0);
                Ok(())
            }
            Op::Discard => {
                let done = mapped::discard(at, length);
                self.answer(&request, if done.is_ok() { Status::Done } else { Status::Failed }, 0);
                done.map_err(|_| Over)
            }
        }
    }

    fn answer(&mut self, request: &Request, status: Status, length: u64) {
        self.out.extend_from_slice(&Answer { status, tag: request.tag, length }.encode());
    }

    fn read(&mut self, request: &Request, from: *const u8, length: usize) -> Result<(), Over> {
        self.answer(request, Status::Done, request.length);
        // SAFETY: the range lies inside of the lease's memory; its one user answers for what another
        // of his lanes does to it at the same time, and any bytes are valid.
        let bytes = unsafe { std::slice::from_raw_parts(from, length) };
        if length <= SMALL_BYTES && self.has_more() {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        let sent = send_both(&self.fd, &self.out, bytes);
        self.out.clear();
        sent
    }

    /// Whether another request is there already.
    fn has_more(&self) -> bool {
        self.end - self.first >= HEADER_BYTES
    }

    fn write(&mut self, to: *mut u8, length: usize) -> Result<(), Over> {
        // SAFETY: as in `read`.
        let into = unsafe { std::slice::from_raw_parts_mut(to, length) };
        let here = length.min(self.end - self.first);
        into[..here].copy_from_slice(&self.bytes[self.first..self.first + here]);
        self.first += here;
        let mut done = here;
        if done < length {
            // The borrower may wait for answers before it goes on.
            self.flush()?;
        }
        while done < length {
            match rustix::net::recv(&*self.fd, &mut into[done..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(Over),
                Ok((n, _)) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(Over),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Over> {
        let sent = send(&self.fd, &self.out);
        self.out.clear();
        sent
    }
}

/// Sends one after the other, by one call if the kernel takes them.
fn send_both(fd: &OwnedFd, first: &[u8], second: &[u8]) -> Result<(), Over> {
    let parts = [IoSlice::new(first), IoSlice::new(second)];
    let mut none = SendAncillaryBuffer::default();
    let sent = match rustix::net::sendmsg(fd, &parts, &mut none, SendFlags::NOSIGNAL) {
        Ok(sent) => sent,
        Err(rustix::io::Errno::INTR) => 0,
        Err(_) => return Err(Over),
    };
    send(fd, &first[sent.min(first.len())..])?;
    send(fd, &second[sent.saturating_sub(first.len())..])
}

fn send(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), Over> {
    while !bytes.is_empty() {
        match rustix::net::send(fd, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(Over),
        }
    }
    Ok(())
}
