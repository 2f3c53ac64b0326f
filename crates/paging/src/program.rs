//! Settings that `rackmem borrow` passes to the library that it loads into a program.
//!
//! They travel in the environment, so that programs which the program executes borrow, too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Delivery, PagerOptions};
use rackmem_lease::Wanted;
use rackmem_lease::error::{Error, Result};

/// The variable of the environment that holds [`Settings`] as JSON.
pub const SETTINGS_VARIABLE: &str = "RACKMEM_BORROW";

/// Smallest mapping of memory that is borrowed. Smaller ones are many, and their memory is little.
pub const MIN_MAPPING_BYTES: usize = 256 << 10;

/// Time that a lane over the network polls for an answer before it sleeps: about as long as an answer takes that does
/// not have to wait.
pub const SPIN: Duration = Duration::from_micros(20);

/// Allocators reserve more than they use, and that is no reason not to borrow what is used: so many times the lease may
/// be mapped.
const GROWTH: usize = 4;

/// Settings of a program that borrows; each of its processes borrows by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Bytes that a process borrows.
    pub size_bytes: u64,
    /// Copies of them, each with other lenders (1: none but itself).
    pub copies: u32,
    /// Bytes of local memory that borrowed memory occupies at most.
    pub cache_bytes: usize,
    /// Bytes that a process uses before it begins to borrow; memory that is mapped by then stays local.
    pub threshold_bytes: usize,
    /// Pages that a fault may bring beside its own.
    pub prefetch_pages: usize,
    /// Reads in flight.
    pub window: usize,
    /// The thread that answers faults.
    pub mode: Mode,
    /// Address of the monitor, if it is not the host's own.
    pub monitor: Option<String>,
    /// Lenders of this host are reached over the network, too: for measurements.
    pub only_network: bool,
    /// Time that accesses wait while no lender that has the memory can be reached, in seconds.
    pub patience_seconds: u64,
    /// Format of the report at the end.
    pub report: Report,
    /// Whether people were told [`Settings::caution`]: no process says it again.
    pub is_cautioned: bool,
}

/// The thread that answers faults ([`Delivery`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A thread beside those of the program.
    #[default]
    Thread,
    /// The thread that faults.
    Inline,
    /// The faster of both on this host.
    Auto,
}

/// Format of a process's report on its borrowed memory when it exits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// Nothing.
    #[default]
    None,
    /// Some lines.
    Text,
    /// One line of JSON.
    Json,
}

impl Settings {
    /// What programs have to do without whose pager handles only faults of user mode
    /// ([`Pager::is_user_mode_only`](crate::Pager::is_user_mode_only)). It follows a name for them.
    pub fn caution(delivery: Delivery) -> String {
        let way = match delivery {
            Delivery::Inline => "serves faults inline",
            _ => "may not serve the kernel's own faults",
        };
        format!(
            "{way}: system calls of the C library get copies of borrowed memory; io_uring is refused, and calls that \
             the program makes past the C library may fail with EFAULT (`rackmem help borrow`)"
        )
    }

    /// The settings as the value of [`SETTINGS_VARIABLE`].
    pub fn to_variable(&self) -> String {
        serde_json::to_string(self).expect("numbers and names are JSON")
    }

    /// Parses the value of [`SETTINGS_VARIABLE`].
    ///
    /// # Errors
    /// [`Error::Plain`]: it was not written by this version of rackmem.
    pub fn from_variable(text: &str) -> Result<Settings> {
        serde_json::from_str(text).map_err(|error| {
            Error::refused(format!("{SETTINGS_VARIABLE} is not what this version writes: {error}"))
        })
    }

    /// The request to the lenders.
    ///
    /// # Errors
    /// The address of the monitor is none.
    pub fn wanted(&self) -> Result<Wanted> {
        let mut wanted = Wanted::new(self.size_bytes);
        wanted.copies = self.copies;
        wanted.spin = SPIN;
        wanted.only_network = self.only_network;
        wanted.patience = Duration::from_secs(self.patience_seconds);
        wanted.monitor = match &self.monitor {
            Some(text) => Some(text.parse().map_err(Error::refused)?),
            None => None,
        };
        Ok(wanted)
    }

    /// The settings of the pager.
    pub fn pager_options(&self) -> PagerOptions {
        PagerOptions {
            cache_bytes: self.cache_bytes,
            prefetch_pages: self.prefetch_pages,
            window: self.window,
            growth: GROWTH,
            delivery: match self.mode {
                Mode::Thread => Delivery::Thread,
                Mode::Inline => Delivery::Inline,
                Mode::Auto => Delivery::Auto,
            },
            ..PagerOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_environment() {
        let settings = Settings {
            size_bytes: 512 << 20,
            copies: 2,
            cache_bytes: 64 << 20,
            threshold_bytes: 0,
            prefetch_pages: 8,
            window: 4,
            mode: Mode::Inline,
            monitor: Some("10.0.0.1:7000".to_owned()),
            only_network: false,
            patience_seconds: 7,
            report: Report::Json,
            is_cautioned: true,
        };
        assert_eq!(Settings::from_variable(&settings.to_variable()).unwrap(), settings);
        assert_eq!(settings.pager_options().delivery, Delivery::Inline);
        let wrong = Settings::from_variable(r#"{"size": 1}"#).unwrap_err().to_string();
        assert!(wrong.contains(SETTINGS_VARIABLE), "{wrong}");
    }
}
