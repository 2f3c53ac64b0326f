//! The lender's watch on its NIC for the borrower: interrupts when the NIC changes, and accesses to registers.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::interrupt::{ERROR, LINK, SETTINGS};
use crate::message::Message;
use crate::register;
use crate::session::Session;
use crate::sys::interface::{Interface, Mac};
use crate::sys::netlink::Watch;
use rackmem_fabric::error::{Error, Result};

/// Interval at which the NIC's error counters are read.
const ERROR_INTERVAL: Duration = Duration::from_secs(1);

/// Last known link, settings and error count of the NIC, to find changes.
#[derive(Debug)]
pub struct NicWatch {
    changes: Watch,
    settings: (Mac, u32),
    errors: u64,
    errors_due: Instant,
}

impl NicWatch {
    /// Begins to watch; the borrower hears whether the cable is in.
    ///
    /// # Errors
    /// The NIC is gone.
    pub fn new(nic: &Interface, session: &mut Session) -> Result<NicWatch> {
        let changes = Watch::new().map_err(|error| Error::io("cannot watch interfaces", error))?;
        session.imt.drive(LINK, has_link(nic)?);
        let errors_due = Instant::now() + ERROR_INTERVAL;
        Ok(NicWatch { changes, settings: settings(nic)?, errors: errors(nic), errors_due })
    }

    /// Readable when an interface has changed.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }

    /// Time until the error counters are due to be read.
    pub fn due_in(&self) -> Duration {
        self.errors_due.saturating_duration_since(Instant::now())
    }

    /// Looks at the NIC and raises interrupts for its changes.
    ///
    /// # Errors
    /// The NIC is gone.
    pub fn look(&mut self, nic: &Interface, session: &mut Session, changed: bool) -> Result<()> {
        if changed && self.changes.drain() {
            session.imt.drive(LINK, has_link(nic)?);
            let settings = settings(nic)?;
            if settings != self.settings {
                self.settings = settings;
                session.imt.pulse(SETTINGS);
            }
        }
        let now = Instant::now();
        if now >= self.errors_due {
            self.errors_due = now + ERROR_INTERVAL;
            let errors = errors(nic);
            if errors > self.errors {
                session.imt.pulse(ERROR);
            }
            self.errors = errors;
        }
        Ok(())
    }

    /// Carries out the borrower's access to a register and answers it.
    ///
    /// # Errors
    /// The message is none that a borrower sends; the NIC or the borrower is gone.
    pub fn answer(
        &mut self,
        nic: &Interface,
        session: &mut Session,
        message: Message,
    ) -> Result<()> {
        let (tag, value) = match message {
            Message::Read { tag, register } => (tag, register::read(nic, &session.imt, register)),
            Message::Write { tag, register, value } => {
                let written = register::write(nic, &mut session.imt, register, value);
                if written.is_ok() {
                    self.expect(register, value);
                }
                (tag, written.and_then(|()| register::read(nic, &session.imt, register)))
            }
            other => {
                let peer = session.transport.peer();
                return Err(Error::Protocol(format!("{peer} says {other:?} while it has the NIC")));
            }
        };
        session.transport.post(&Message::Answer { tag, value })
    }

    /// Records a setting that the borrower writes itself: it needs no interrupt for it. Later changes by others raise
    /// one.
    fn expect(&mut self, register: u16, value: u64) {
        match register {
            register::MAC => self.settings.0 = register::to_mac(value),
            register::MTU => self.settings.1 = value as u32,
            _ => {}
        }
    }
}

fn gone(nic: &Interface) -> impl Fn(std::io::Error) -> Error {
    let what = format!("the NIC {} is gone", nic.name());
    move |error| Error::io(what.clone(), error)
}

fn has_link(nic: &Interface) -> Result<bool> {
    nic.has_link().map_err(gone(nic))
}

fn settings(nic: &Interface) -> Result<(Mac, u32)> {
    Ok((nic.mac().map_err(gone(nic))?, nic.mtu().map_err(gone(nic))?))
}

fn errors(nic: &Interface) -> u64 {
    // Counters that cannot be read do not grow.
    nic.counters().map_or(0, |counters| counters.received[2] + counters.sent[2])
}
