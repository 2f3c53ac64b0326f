//! Numbers of files, which do not depend on those of the host.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

/// The numbers of files (`st_ino`) that programs have seen so far, in the order in which they first saw them. Programs
/// that share files share one table: when one of them removes a file, no number that the host uses again brings the
/// old one back to another program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct Numbers {
    /// By device and number on the host.
    known: BTreeMap<(u64, u64), u64>,
    last: u64,
}

/// Device and number of files on the host, and their numbers here; and the last one.
type Saved = (Vec<[u64; 3]>, u64);

impl Numbers {
    /// Checks numbers that were read.
    ///
    /// # Errors
    /// The reason why no run has them.
    pub fn check(&self) -> Result<(), String> {
        const LAST: u64 = 1 << 48;
        let last = self.last;
        if last >= LAST || self.known.values().any(|&number| number > last) {
            return Err(format!("the last one is {last}, and some are beyond it"));
        }
        Ok(())
    }

    pub(super) fn of(&mut self, metadata: &Metadata) -> u64 {
        *self.known.entry((metadata.dev(), metadata.ino())).or_insert_with(|| {
            self.last += 1;
            self.last
        })
    }

    /// A number for a file without a name, whose own on the host stands for it only as long as it is open.
    pub(super) const fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A file that was made without a name has one now.
    pub(super) fn keep(&mut self, metadata: &Metadata, number: u64) {
        self.known.insert((metadata.dev(), metadata.ino()), number);
    }

    /// Forgets the number of a file that has been removed, whose status was this one: the host may use its own again.
    pub(super) fn forget(&mut self, metadata: &Metadata) {
        if metadata.is_dir() || metadata.nlink() <= 1 {
            self.known.remove(&(metadata.dev(), metadata.ino()));
        }
    }
}

impl From<Saved> for Numbers {
    fn from((known, last): Saved) -> Numbers {
        let known = known.into_iter().map(|[device, host, number]| ((device, host), number));
        Numbers { known: known.collect(), last }
    }
}

impl From<Numbers> for Saved {
    fn from(Numbers { known, last }: Numbers) -> Saved {
        (known.into_iter().map(|((device, host), number)| [device, host, number]).collect(), last)
    }
}
