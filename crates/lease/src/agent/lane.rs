//! A lender's end of lanes: a thread for each.

#[cfg(fuzzing)]
pub mod fuzz;

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rackmem::shm::copy::copy_out;
use rackmem_fabric::{Buffer, Inlet, MAX_PLAIN_BYTES, Received, Sealer};
use rustix::net::{RecvFlags, SendFlags};

use super::memory::Memory;
use super::status::Traffic;
use crate::error::{Error, Result};
use crate::messages::Reply;
use crate::store::mapped;
use crate::store::packet::{Answer, HEADER_BYTES, Op, Request, Status};
use rackmem_fabric::net::frame;
use rackmem_fabric::net::greet::Keys;
use rackmem_fabric::net::hub::MAX_FRAME_BYTES;

/// Lanes of one lease at a time.
const MAX_LANES: usize = 256;

/// Bytes taken in at a time.
const IN_BYTES: usize = 256 << 10;

/// Answers up to this size are put together before they leave.
const SMALL_BYTES: usize = 32 << 10;

/// Size at which answers that were put together leave.
const BATCH_BYTES: usize = 256 << 10;

#[derive(Debug)]
struct Lane {
    owner: u32,
    number: u64,
    socket: Weak<OwnedFd>,
    thread: JoinHandle<()>,
}

/// The lanes of a lease.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<Lane>);

/// Lanes that are about to end.
#[derive(Debug)]
pub(super) struct Ending(Vec<JoinHandle<()>>);

impl Ending {
    /// Waits until they have: nothing that was asked of them takes effect any more.
    pub fn wait(self) {
        for thread in self.0 {
            let _ = thread.join();
        }
    }
}

impl Lanes {
    /// Serves a lane of a borrower's process in a thread of its own, once an earlier one of the same number has ended.
    ///
    /// # Errors
    /// There are too many, or the kernel has no thread.
    pub fn open(
        &mut self,
        (fd, keys): (OwnedFd, Keys),
        lent: (Arc<Memory>, Arc<Traffic>),
        base: u64,
        spin: Duration,
        (owner, number): (u32, u64),
    ) -> Result<()> {
        let before = self.end(|lane| lane.owner == owner && lane.number == number);
        if self.0.len() >= MAX_LANES {
            return Err(Error::refused(format!(
                "the lease has {MAX_LANES} lanes, the most that it can"
            )));
        }
        let cannot = |error| Error::io("cannot serve a lane", error);
        rustix::io::ioctl_fionbio(&fd, false).map_err(|error| cannot(error.into()))?;
        let fd = Arc::new(fd);
        let socket = Arc::downgrade(&fd);
        let serve = move || {
            before.wait();
            let Ok(open) = frame::encode(&Reply::LaneOpen, MAX_FRAME_BYTES) else { return };
            let mut server = Server::new((fd, keys), lent, base, spin);
            server.out.extend_from_slice(&open);
            server.run();
        };
        let thread = std::thread::Builder::new().name("rackmem-lane".to_owned());
        let thread = thread.spawn(serve).map_err(cannot)?;
        self.0.push(Lane { owner, number, socket, thread });
        Ok(())
    }

    /// Whether processes other than this one have lanes.
    pub fn has_others(&self, pid: u32) -> bool {
        self.0.iter().any(|lane| lane.owner != pid && !lane.thread.is_finished())
    }

    /// Begins to end all lanes of a borrower's process.
    pub fn fence(&mut self, owner: u32) -> Ending {
        self.end(|lane| lane.owner == owner)
    }

    /// Begins to end all lanes.
    pub fn close(mut self) -> Ending {
        self.end(|_| true)
    }

    fn end(&mut self, is_meant: impl Fn(&Lane) -> bool) -> Ending {
        self.0.retain(|lane| !lane.thread.is_finished());
        let (ending, rest) = std::mem::take(&mut self.0).into_iter().partition(is_meant);
        self.0 = rest;
        let end = |lane: Lane| {
            if let Some(socket) = lane.socket.upgrade() {
                let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both);
            }
            lane.thread
        };
        Ending(Vec::into_iter(ending).map(end).collect())
    }
}

/// The lane is over.
struct Over;

type Done = std::result::Result<(), Over>;

impl From<rustix::io::Errno> for Over {
    fn from(_: rustix::io::Errno) -> Over {
        Over
    }
}

struct Server {
    fd: Arc<OwnedFd>,
    sealer: Option<Sealer>,
    memory: Arc<Memory>,
    traffic: Arc<Traffic>,
    base: u64,
    spin: Duration,
    input: Inlet,
    out: Vec<u8>,
    /// A sealed record on its way out.
    record: Vec<u8>,
}

impl Server {
    fn new(
        (fd, keys): (Arc<OwnedFd>, Keys),
        (memory, traffic): (Arc<Memory>, Arc<Traffic>),
        base: u64,
        spin: Duration,
    ) -> Server {
        let out = Vec::with_capacity(BATCH_BYTES + SMALL_BYTES + HEADER_BYTES);
        let (sealer, incoming) = keys.map(|keys| (keys.sealer, keys.incoming)).unzip();
        let input = Inlet::new(Buffer::with_room(IN_BYTES), incoming);
        Server { fd, sealer, memory, traffic, base, spin, input, out, record: Vec::new() }
    }

    fn run(mut self) {
        while self.round().is_ok() {}
        let _ = self.flush();
        let _ = rustix::net::shutdown(&*self.fd, rustix::net::Shutdown::Both);
    }

    /// Answers all requests that are there, then waits for more.
    fn round(&mut self) -> Done {
        while let Some(header) = self.input.bytes().first_chunk::<HEADER_BYTES>() {
            let request = Request::decode(header).map_err(|_| Over)?;
            self.input.take(HEADER_BYTES);
            self.serve(request)?;
            if self.out.len() >= BATCH_BYTES {
                self.flush()?;
            }
        }
        self.flush()?;
        self.receive()
    }

    /// Takes in bytes, once there are some.
    fn receive(&mut self) -> Done {
        let begun = Instant::now();
        let mut spins = !self.spin.is_zero();
        loop {
            let flags = if spins { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
            let room = IN_BYTES - HEADER_BYTES;
            match self.input.receive(self.fd.as_fd(), Default::default(), room, flags) {
                Ok(Received { bytes: 0, .. }) => return Err(Over),
                Ok(_) => return Ok(()),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        std::hint::spin_loop();
                        spins = begun.elapsed() < self.spin;
                    }
                    _ => return Err(Over),
                },
            }
        }
    }

    fn serve(&mut self, request: Request) -> Done {
        let Some(offset) = request.offset_in(self.base, self.memory.size_bytes() as u64) else {
            // The bytes that follow a write cannot be skipped for ever: the lane ends with this answer.
            self.answer(&request, Status::OutOfRange, 0);
            return Err(Over);
        };
        // SAFETY: the request lies inside of the lease's memory.
        let at = unsafe { self.memory.base().add(offset as usize) };
        let length = request.length as usize;
        match request.op {
            Op::Read => {
                self.traffic.count(&request);
                self.read(&request, at, length)
            }
            Op::Write => {
                self.write(at, length)?;
                self.traffic.count(&request);
                self.answer(&request, Status::Done, 0);
                Ok(())
            }
            Op::Discard => {
                let done = mapped::discard(at, length);
                self.traffic.count(&request);
                self.answer(&request, if done.is_ok() { Status::Done } else { Status::Failed }, 0);
                done.map_err(|_| Over)
            }
        }
    }

    fn answer(&mut self, request: &Request, status: Status, length: u64) {
        self.out.extend_from_slice(&Answer { status, tag: request.tag, length }.encode());
    }

    /// The bytes may be changed by another lane meanwhile: no reference to them is made.
    fn read(&mut self, request: &Request, from: *const u8, length: usize) -> Done {
        self.answer(request, Status::Done, request.length);
        if self.input.is_sealed() || (length <= SMALL_BYTES && self.has_more()) {
            let end = self.out.len();
            self.out.resize(end + length, 0);
            // SAFETY: the range lies inside of the lease's memory, and `out` has room for it.
            unsafe { copy_out(self.out[end..].as_mut_ptr(), from, length) };
            return Ok(());
        }
        let sent = send_both(&self.fd, &self.out, from, length);
        self.out.clear();
        sent
    }

    /// Whether another request is there already.
    fn has_more(&self) -> bool {
        self.input.len() >= HEADER_BYTES
    }

    fn write(&mut self, to: *mut u8, length: usize) -> Done {
        let mut done = self.take(to, length);
        if done < length {
            // The borrower may wait for answers before it goes on.
            self.flush()?;
        }
        while done < length {
            if self.input.is_sealed() {
                self.receive()?;
                done += self.take(to.wrapping_add(done), length - done);
                continue;
            }
            // SAFETY: as in `take`; the kernel writes.
            let got =
                unsafe { libc::recv(self.fd.as_raw_fd(), to.add(done).cast(), length - done, 0) };
            done += moved(got)?;
        }
        Ok(())
    }

    /// Moves bytes that have come into a range of the lease's memory; returns their number.
    fn take(&mut self, to: *mut u8, length: usize) -> usize {
        let here = length.min(self.input.len());
        // SAFETY: the caller's range of the lease's memory, and bytes that have come.
        unsafe { copy_out(to, self.input.bytes().as_ptr(), here) };
        self.input.take(here);
        here
    }

    fn flush(&mut self) -> Done {
        let sent = match &mut self.sealer {
            None => send(&self.fd, &self.out),
            Some(sealer) => self.out.chunks(MAX_PLAIN_BYTES).try_for_each(|part| {
                self.record.clear();
                sealer.seal(part, &mut self.record).map_err(|_| Over)?;
                send(&self.fd, &self.record)
            }),
        };
        self.out.clear();
        sent
    }
}

/// Bytes that a system call moved, 0 after a signal.
fn moved(returned: isize) -> std::result::Result<usize, Over> {
    match returned {
        1.. => Ok(returned as usize),
        0 => Err(Over),
        _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => Ok(0),
        _ => Err(Over),
    }
}

/// Sends `first`, then `length` bytes at `from`; by one call if the kernel takes them all.
fn send_both(fd: &OwnedFd, first: &[u8], from: *const u8, length: usize) -> Done {
    let mut done = 0;
    while done < first.len() + length {
        let head = &first[done.min(first.len())..];
        let skipped = done.saturating_sub(first.len());
        let mut parts = [
            libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
            libc::iovec {
                iov_base: from.wrapping_add(skipped).cast_mut().cast(),
                iov_len: length - skipped,
            },
        ];
        // SAFETY: zero is a message without parts; both parts live through the call, which reads them.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = parts.as_mut_ptr();
            message.msg_iovlen = parts.len() as _;
            libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
        };
        done += moved(sent)?;
    }
    Ok(())
}

fn send(fd: &OwnedFd, mut bytes: &[u8]) -> Done {
    while !bytes.is_empty() {
        match rustix::net::send(fd, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(Over),
        }
    }
    Ok(())
}
