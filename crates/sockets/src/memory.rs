//! Two processes of one host: they exchange windows over a socket. Afterwards new connections are announced on it, its
//! end is the peer's death, and its silence that of a peer that was stopped.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem::transport::Channel;
use rackmem_fabric::socket;
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use super::carrier::Carrier;
use super::core::Core;
use super::window::{Terms, Window};
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::{HEARTBEAT, SILENCE};

/// Longest wait for a peer's window, or for room to announce a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Wait before a connection is announced again.
const RETRY: Duration = Duration::from_micros(100);

/// Tells versions of the layout apart.
const VERSION: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// The first one on either side; with the window's descriptor.
    Window { version: u32, terms: Terms },
    /// A connection begins.
    Open { number: u32, life: u32 },
    /// The process lives.
    Alive,
}

/// Connects to the process that listens there: the socket, and both windows.
///
/// # Errors
/// Nobody listens, it refuses these terms, or it is no such peer.
pub(super) fn connect(path: &Path, terms: Terms) -> Result<(Channel, Window, Window)> {
    let channel = Channel::connect(path)
        .map_err(|error| Error::io(format!("cannot connect to {}", path.display()), error))?;
    let own = Window::create(&terms)?;
    send_window(&channel, &own, terms)?;
    let (peer, answered) = receive_window(&channel)?;
    if answered != terms {
        return Err(Error::Protocol("the other process has other terms".to_owned()));
    }
    Ok((channel, own, peer))
}

/// Takes a process that has connected; returns both windows, and the terms.
///
/// # Errors
/// The peer goes away, wants too much, or is no such peer.
pub(super) fn accept(channel: &Channel) -> Result<(Window, Window, Terms)> {
    let (peer, terms) = receive_window(channel)?;
    let own = Window::create(&terms)?;
    send_window(channel, &own, terms)?;
    Ok((own, peer, terms))
}

fn send_window(channel: &Channel, own: &Window, terms: Terms) -> Result<()> {
    channel
        .send(&Message::Window { version: VERSION, terms }, &[own.fd()])
        .map_err(|error| Error::io("cannot hand over a window", error))
}

fn receive_window(channel: &Channel) -> Result<(Window, Terms)> {
    let ready = socket::wait(channel.as_fd(), PollFlags::IN, PATIENCE)
        .map_err(|error| Error::io("cannot wait for a link", error))?;
    if ready.is_empty() {
        return Err(Error::Protocol("the other process does not answer".to_owned()));
    }
    let mut received = channel
        .receive::<Message>()
        .map_err(|error| Error::Protocol(format!("no window came: {error}")))?;
    let (Message::Window { version: VERSION, terms }, Some(fd)) =
        (&received.message, received.fds.pop())
    else {
        return Err(Error::Protocol("the other process speaks another version".to_owned()));
    };
    let terms = *terms;
    terms.check()?;
    Ok((Window::open(fd, &terms)?, terms))
}

/// Tells the peer that a connection begins; waits while it has many others to hear of.
///
/// # Errors
/// It is gone, or hears nothing.
pub(super) fn announce(channel: &Channel, number: u32, life: u32) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match channel.send(&Message::Open { number, life }, &[]) {
            Err(error)
                if error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                std::thread::sleep(RETRY);
            }
            result => {
                return result.map_err(|error| Error::io("cannot announce a connection", error));
            }
        }
    }
}

/// Takes the peer's announcements until it hangs up, or is silent.
///
/// # Errors
/// There is no thread for that.
pub(super) fn start(core: &Arc<Core>) -> Result<()> {
    let watched = core.clone();
    std::thread::Builder::new()
        .name("rackmem-qpair".to_owned())
        .spawn(move || watch(&watched))
        .map_err(|error| Error::io("cannot watch a link", error))?;
    Ok(())
}

fn watch(core: &Core) {
    let Carrier::Memory(channel) = core.carrier() else { unreachable!("the peer is near") };
    let (mut heard, mut said) = (Instant::now(), Instant::now());
    while !core.is_lost() {
        let due = (heard + SILENCE).min(said + HEARTBEAT);
        let begun = Instant::now();
        let patience = due.saturating_duration_since(begun);
        let ready = socket::wait(channel.as_fd(), PollFlags::IN, patience);
        heard += socket::delay(begun, patience);
        let now = Instant::now();
        match ready {
            Err(error) => return core.lose(&error.to_string()),
            Ok(ready) if ready.is_empty() => {
                if now >= heard + SILENCE {
                    return core.lose(&format!("it was silent for {} s", SILENCE.as_secs()));
                }
            }
            Ok(_) => {
                heard = now;
                match channel.receive::<Message>().map(|received| received.message) {
                    Ok(Message::Alive) => {}
                    Ok(Message::Open { number, life }) if core.opened(number, life) => {}
                    Ok(_) => return core.lose("it does not keep to the protocol"),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return core.lose("it hung up"),
                }
            }
        }
        if now >= said + HEARTBEAT {
            // A peer that does not read it will be found to be silent.
            let _ = channel.send(&Message::Alive, &[]);
            said = now;
        }
    }
}
