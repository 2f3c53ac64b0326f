//! Watches a borrower's lenders: a thread that sleeps on all connections.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::books::Books;
use super::messages::Reply;
use crate::error::{Error, Result};
use crate::net::link::Link;

/// A running watch.
pub(super) struct Watch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<Links>>,
}

type Links = Vec<Option<Link>>;

impl Watch {
    /// Watches these connections, one for each block.
    pub fn start(links: Links, books: Arc<Mutex<Books>>) -> Result<Watch> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|error| Error::io("cannot make an eventfd", error))?;
        let stop = Arc::new(stop);
        let stopped = stop.clone();
        let thread = without_signals(|| {
            let thread = std::thread::Builder::new().name("rackmem-leases".to_owned());
            thread.spawn(move || watch(links, &books, &stopped))
        });
        let thread = thread.map_err(|error| Error::io("cannot start a thread", error))?;
        Ok(Watch { stop, thread: Some(thread) })
    }

    /// Stops; returns the connections that there still are.
    pub fn stop(&mut self) -> Links {
        let Some(thread) = self.thread.take() else { return Vec::new() };
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        thread.join().unwrap_or_default()
    }
}

/// Starts a thread that gets none of the program's signals.
fn without_signals<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: plain calls on sets that live on the stack.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}

fn watch(mut links: Links, books: &Mutex<Books>, stop: &OwnedFd) -> Links {
    loop {
        let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
        let watched: Vec<usize> = (0..links.len()).filter(|&n| links[n].is_some()).collect();
        for link in links.iter().flatten() {
            fds.push(PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return links,
        }
        if !fds[0].revents().is_empty() {
            return links;
        }
        let ready: Vec<usize> = watched
            .iter()
            .zip(&fds[1..])
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(&number, _)| number)
            .collect();
        drop(fds);
        for number in ready {
            if let Err(error) = hear(number, &mut links[number], books) {
                links[number] = None;
                let mut books = books.lock().unwrap_or_else(PoisonError::into_inner);
                books.lost(number, &reason(error));
            }
        }
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::Lost { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn hear(number: usize, link: &mut Option<Link>, books: &Mutex<Books>) -> Result<()> {
    let Some(link) = link else { return Ok(()) };
    while let Some(reply) = link.poll::<Reply>()? {
        if let Reply::Notice(ms) = reply {
            let until = Instant::now() + Duration::from_millis(ms.min(u64::from(u32::MAX)));
            let mut books = books.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(lease) = &mut books.leases[number] {
                lease.notice = Some(until);
            }
        }
    }
    Ok(())
}
