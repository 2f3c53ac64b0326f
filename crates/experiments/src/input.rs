//! Files that people name, or that lie in folders of runs.
//!
//! Only regular files are read, and pipes without a name, such as a shell makes for `<(command)`. To open a pipe with a
//! name waits for somebody who writes to it, and a device may have no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{
    CWD, FileType, FsWord, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, fstatfs, openat,
};

/// The magic number of the file system that has pipes without a name (`PIPEFS_MAGIC`).
const PIPES: FsWord = 0x5049_5045;

/// Opens a file to be read.
///
/// # Errors
/// It is no regular file, or any of the operating system.
pub fn open(path: &Path) -> io::Result<File> {
    // Without waiting for whoever is at the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    let kind = match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        // Reading says what is wrong with a folder.
        FileType::RegularFile | FileType::Directory => None,
        FileType::Fifo if fstatfs(&file)?.f_type == PIPES => None,
        FileType::Fifo => Some("a pipe with a name"),
        _ => Some("a device"),
    };
    match kind {
        None => {
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            Ok(file.into())
        }
        Some(kind) => Err(io::Error::other(format!("is {kind}; name a regular file"))),
    }
}

/// All bytes of a file.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file.
///
/// # Errors
/// As [`open`], or it is no UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_has_no_end_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| dir.path().join(name));
        fs::write(&file, "text").unwrap();
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read_to_string(&file).unwrap(), "text");
        let refused = |path: &Path| read(path).unwrap_err().to_string();
        assert_eq!(refused(&pipe), "is a pipe with a name; name a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "is a device; name a regular file");
        assert!(refused(dir.path()).starts_with("Is a directory"));
        assert!(refused(&dir.path().join("missing")).starts_with("No such file"));
    }

    /// A shell makes one for `<(command)`.
    #[test]
    fn a_pipe_without_a_name_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let name = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let late = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            writer.write_all(b"late").unwrap();
        });
        assert_eq!(read_to_string(Path::new(&name)).unwrap(), "late");
        late.join().unwrap();
    }
}
