//! The thread that reads a wire, sends bytes that could not leave at once, and notices when the peer is silent.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rackmem_fabric::socket::{delay, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, Shutdown};

use super::apply::Apply;
use super::frame::{Frame, Kind};
use super::reader::{Over, Reader};
use super::{Wire, lock};
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::{HEARTBEAT, SILENCE};

use crate::core::Core;

/// Time for which the watching thread leaves the socket to threads that look, before it checks that they still do.
const NAP: Duration = Duration::from_millis(1);

/// Bytes that are thrown away at a time.
const WASTE_BYTES: usize = 16 << 10;

impl Wire {
    /// Starts to read.
    pub(crate) fn start(self: &Arc<Wire>, core: &Arc<Core>) -> Result<()> {
        let (wire, watched) = (self.clone(), core.clone());
        let builder = std::thread::Builder::new().name("rackmem-qpair".to_owned());
        let thread = builder
            .spawn(move || watch(&wire, &watched))
            .map_err(|error| Error::io("cannot watch a link", error))?;
        *lock(&self.watch) = Some(thread);
        Ok(())
    }

    /// Waits until there is something to read, room for blocked bytes, or a wake.
    fn wait(&self, patience: Duration) {
        let out = if self.with(|out| out.is_blocked) { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(&self.waker, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN | out),
        ];
        let is_napping = self.is_napping.load(Ordering::Relaxed);
        let watched = if is_napping { &mut fds[..1] } else { &mut fds[..] };
        let _ = poll(watched, Some(&timespec(patience)));
        if fds[0].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(&self.waker, &mut [0; 8]);
        }
    }

    /// While threads of the program look for themselves, and none sleeps, the watching thread would only take cores
    /// from them: it sleeps for a moment, whatever comes. `looks` is the count of their looks at the last call.
    fn nap(&self, looks: &mut u64) -> bool {
        let now = self.looks.load(Ordering::Relaxed);
        let they_look = std::mem::replace(looks, now) != now;
        let is_blocked = self.is_blocked.load(Ordering::Relaxed);
        self.is_napping.store(they_look && !is_blocked, Ordering::SeqCst);
        if they_look && self.sleepers.load(Ordering::SeqCst) > 0 {
            self.is_napping.store(false, Ordering::SeqCst);
        }
        self.is_napping.load(Ordering::Relaxed)
    }

    /// Carries out frames that have come; returns whether anything came. An error ends the link before anybody reads
    /// on.
    pub(super) fn read(&self, core: &Core, reader: &mut Reader) -> bool {
        if core.is_lost() {
            return false;
        }
        let mut apply = Apply::new(core, self);
        let read = reader.drain(self.socket.as_fd(), &mut apply);
        apply.confirm();
        match read {
            Ok(has_read) => {
                if has_read {
                    self.has_heard.store(true, Ordering::Relaxed);
                }
                has_read
            }
            Err(over) => {
                self.lose(core, &over);
                true
            }
        }
    }

    /// Ends the link; nothing that is in flight is wanted any more. The reason is stored before the connection ends,
    /// because a thread that sees its end would take that for the reason.
    fn lose(&self, core: &Core, over: &Over) {
        match over {
            Over::Gone(reason) => core.lose(reason),
            Over::Nonsense => core.lose("it does not keep to the protocol"),
        }
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Sends blocked bytes, and wakes the connections that wait for room.
    fn unblock(&self, core: &Core) {
        let woken = self.with(|out| {
            if out.is_blocked {
                out.flush(self.socket.as_fd());
            }
            if out.is_blocked {
                return Vec::new();
            }
            let waiting = std::mem::take(&mut out.waiting);
            for &number in &waiting {
                let head = core.own().head(number);
                head.wants_room.store(0, Ordering::Relaxed);
            }
            waiting
        });
        for number in woken {
            core.own().head(number).bed.wake();
        }
    }

    /// Sends waiting bytes, ends this direction, and reads until the peer has ended the other one: a socket that is
    /// closed with unread bytes in it discards bytes that it has sent.
    fn part(&self) {
        let deadline = Instant::now() + SILENCE;
        self.is_napping.store(false, Ordering::SeqCst);
        let is_in_time = || Instant::now() < deadline;
        self.flush();
        while self.with(|out| out.is_blocked) && is_in_time() {
            self.wait(deadline.saturating_duration_since(Instant::now()));
            self.flush();
            self.waste();
        }
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        while is_in_time() && !self.waste() {
            self.wait(deadline.saturating_duration_since(Instant::now()));
        }
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Throws away bytes that have come; returns whether the peer has ended.
    fn waste(&self) -> bool {
        let mut bytes = [0; WASTE_BYTES];
        loop {
            match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return true,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    }
}

fn watch(wire: &Wire, core: &Core) {
    let (mut heard, mut said) = (Instant::now(), Instant::now());
    let mut looks = 0;
    loop {
        let due = (heard + SILENCE).min(said + HEARTBEAT);
        let begun = Instant::now();
        let patience = due.saturating_duration_since(begun);
        let is_napping = wire.nap(&mut looks);
        wire.wait(if is_napping { patience.min(NAP) } else { patience });
        heard += delay(begun, patience);
        // While it naps, threads of the program read, unless they have stopped.
        let is_theirs = is_napping && wire.looks.load(Ordering::Relaxed) != looks;
        if !is_theirs {
            wire.read(core, &mut lock(&wire.reader));
        }
        if core.is_lost() {
            return wire.part();
        }
        if wire.with(|out| out.is_overrun) {
            return wire.lose(core, &Over::Gone("it does not read what is sent".to_owned()));
        }
        let now = Instant::now();
        if wire.has_heard.swap(false, Ordering::Relaxed) {
            heard = now;
        }
        if now >= heard + SILENCE {
            let reason = format!("it was silent for {} s", SILENCE.as_secs());
            return wire.lose(core, &Over::Gone(reason));
        }
        wire.unblock(core);
        if now >= said + HEARTBEAT {
            wire.say(Frame::new(Kind::Alive, 0, 0));
            said = now;
        }
    }
}
