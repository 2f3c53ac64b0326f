//! Whether a lease's memory is still there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Shared by the store of a lease, its lanes, and who watches its lender.
#[derive(Debug)]
pub struct Health {
    is_over: AtomicBool,
    /// Why.
    reason: OnceLock<String>,
    lender: String,
}

impl Health {
    /// It is there; `lender` is how errors name who lends it.
    pub fn new(lender: impl Into<String>) -> Health {
        Health { is_over: AtomicBool::new(false), reason: OnceLock::new(), lender: lender.into() }
    }

    /// It is gone. The first reason counts.
    pub fn end(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether it is gone; a load.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether it is still there.
    ///
    /// # Errors
    /// [`Error::Lost`].
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_over() { Err(self.error()) } else { Ok(()) }
    }

    /// What is to be said of its loss.
    #[cold]
    pub fn error(&self) -> Error {
        let reason = self.reason.get().map_or("it has ended", String::as_str).to_owned();
        Error::Lost { lender: self.lender.clone(), reason }
    }
}
