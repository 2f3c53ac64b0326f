//! A folder for runs, and a secret beside it.

use std::fs;
use std::io;

use rackmem_riscv::host::{LocalHost, Output};
use rackmem_riscv::kernel::{Host, OpenMode, Opened};
use tempfile::TempDir;

pub const READ: OpenMode = OpenMode {
    read: true,
    write: false,
    append: false,
    truncate: false,
    create: false,
    create_new: false,
    permissions: 0o644,
    is_again: false,
    is_nameless: false,
};

/// A folder for runs, and a file beside it.
pub struct Rig {
    pub all: TempDir,
    pub host: LocalHost,
}

impl Rig {
    pub fn new() -> Rig {
        let all = TempDir::new().expect("there is room for temporary files");
        fs::create_dir(all.path().join("run")).expect("the folder is ours");
        fs::write(all.path().join("run/in"), "inside").expect("the folder is ours");
        fs::write(all.path().join("out"), "outside").expect("the folder is ours");
        let host = LocalHost::new(1, Output::Capture, Some(&all.path().join("run")));
        Rig { all, host }
    }

    pub fn beside(&self) -> String {
        self.all.path().join("out").display().to_string()
    }

    pub fn text(&mut self, name: &str) -> io::Result<String> {
        match self.host.open(name, READ)? {
            Opened::File(file, _) => io::read_to_string(file),
            Opened::Pipe(_) => Err(io::ErrorKind::Other.into()),
            Opened::Folder(_, entries) => {
                Ok(entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(" "))
            }
        }
    }

    pub fn is_hidden(&mut self, name: &str) {
        let warnings = self.host.warnings.len();
        let error = self.text(name).expect_err("it is outside");
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
        assert_eq!(self.host.warnings.len(), warnings + 1, "{name}");
        let said = self.host.warnings.last().expect("a warning");
        assert!(said.contains(name) && said.contains("--allow PATH"), "{said}");
    }
}
