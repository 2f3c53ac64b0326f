//! The headers that programs include, and the library behind them on the model, as files in a folder of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

const HEADERS: [(&str, &str); 28] = [
    ("pair.h", include_str!("../../../../../include/pair.h")),
    ("card.h", include_str!("../../../../../include/card.h")),
    ("rackmem.h", include_str!("../../../../../include/rackmem.h")),
    ("rackmem/abi.h", include_str!("../../../../../include/rackmem/abi.h")),
    ("rackmem/access.h", include_str!("../../../../../include/rackmem/access.h")),
    ("rackmem/barrier.h", include_str!("../../../../../include/rackmem/barrier.h")),
    ("rackmem/borrow.h", include_str!("../../../../../include/rackmem/borrow.h")),
    ("rackmem/copy.h", include_str!("../../../../../include/rackmem/copy.h")),
    ("rackmem/counter.h", include_str!("../../../../../include/rackmem/counter.h")),
    ("rackmem/counter_barrier.h", include_str!("../../../../../include/rackmem/counter_barrier.h")),
    ("rackmem/direct.h", include_str!("../../../../../include/rackmem/direct.h")),
    ("rackmem/lock.h", include_str!("../../../../../include/rackmem/lock.h")),
    ("rackmem/lock_table.h", include_str!("../../../../../include/rackmem/lock_table.h")),
    ("rackmem/messaging.h", include_str!("../../../../../include/rackmem/messaging.h")),
    ("rackmem/messaging_ring.h", include_str!("../../../../../include/rackmem/messaging_ring.h")),
    ("rackmem/messaging_send.h", include_str!("../../../../../include/rackmem/messaging_send.h")),
    ("rackmem/mr_queue.h", include_str!("../../../../../include/rackmem/mr_queue.h")),
    ("rackmem/queue.h", include_str!("../../../../../include/rackmem/queue.h")),
    ("rackmem/region.h", include_str!("../../../../../include/rackmem/region.h")),
    ("rackmem/ring.h", include_str!("../../../../../include/rackmem/ring.h")),
    ("rackmem/runtime.h", include_str!("../../../../../include/rackmem/runtime.h")),
    ("rackmem/two_sided.h", include_str!("../../../../../include/rackmem/two_sided.h")),
    ("rackmem/wait.h", include_str!("../../../../../include/rackmem/wait.h")),
    ("scratchpad.h", include_str!("../../../../../include/scratchpad.h")),
    ("scratchpad/nilib.h", include_str!("../../../../../include/scratchpad/nilib.h")),
    ("scratchpad/scrlib.h", include_str!("../../../../../include/scratchpad/scrlib.h")),
    ("scratchpad/syslib.h", include_str!("../../../../../include/scratchpad/syslib.h")),
    ("window.h", include_str!("../../../../../include/window.h")),
];

/// The library behind them, and the files that it includes.
const LIBRARY: [(&str, &str); 2] = [
    ("rackmem.c", include_str!("../../../../../guest/rackmem.c")),
    ("driver.h", include_str!("../../../../../guest/driver.h")),
];

/// The folder; it goes with the value.
pub struct Folder(TempDir);

impl Folder {
    /// Writes all files.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Folder> {
        let dir = tempfile::tempdir()?;
        for folder in ["include/rackmem", "include/scratchpad"] {
            fs::create_dir_all(dir.path().join(folder))?;
        }
        for (name, text) in HEADERS {
            fs::write(dir.path().join("include").join(name), text)?;
        }
        for (name, text) in LIBRARY {
            fs::write(dir.path().join(name), text)?;
        }
        Ok(Folder(dir))
    }

    /// The folder that `-I` names.
    pub fn include(&self) -> PathBuf {
        self.0.path().join("include")
    }

    /// Source of the model's library.
    pub fn library(&self) -> PathBuf {
        self.0.path().join(LIBRARY[0].0)
    }

    /// A file in it.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_headers_are_there() {
        let folder = Folder::new().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
        let mut count = 0;
        for part in ["", "rackmem", "scratchpad"] {
            for entry in fs::read_dir(sources.join(part)).unwrap() {
                let entry = entry.unwrap();
                let place = folder.include().join(part).join(entry.file_name());
                assert!(place.exists(), "{}", place.display());
                count += usize::from(entry.path().is_file());
            }
        }
        assert_eq!(count, HEADERS.len());
    }
}
