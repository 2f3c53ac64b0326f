//! Output of processes, line by line.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::console;
use crate::failure::Result;

/// Longest line that is kept together.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Most that is read from one process before others get their turn.
const MAX_READ_BYTES: usize = 256 * 1024;

/// Output stream of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Takes the output of all processes.
pub trait Sink {
    /// A line without its end.
    ///
    /// # Errors
    /// It cannot be written.
    fn line(&mut self, nid: u16, stream: Stream, line: &[u8]) -> io::Result<()>;

    /// All lines that have come together have been passed.
    ///
    /// # Errors
    /// They cannot be written.
    fn flush(&mut self) -> io::Result<()>;
}

/// Puts a stream of bytes together to lines.
#[derive(Debug)]
pub struct Lines {
    nid: u16,
    stream: Stream,
    partial: Vec<u8>,
}

impl Lines {
    /// Lines of a stream of a node.
    pub fn new(nid: u16, stream: Stream) -> Lines {
        Lines { nid, stream, partial: Vec::new() }
    }

    /// Reads what there is; `last` says that nothing comes any more. Returns whether the pipe is
    /// still open.
    pub fn read(&mut self, pipe: &mut File, sink: &mut dyn Sink, last: bool) -> io::Result<bool> {
        let mut open = true;
        let mut chunk = [0; 16 * 1024];
        let mut taken = 0;
        while last || taken < MAX_READ_BYTES {
            match pipe.read(&mut chunk) {
                Ok(0) => {
                    open = false;
                    break;
                }
                Ok(count) => {
                    taken += count;
                    self.push(&chunk[..count], sink)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Any other error ends the stream as well as its end does.
                Err(error) => {
                    open = error.kind() == io::ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        if last || !open {
            self.finish(sink)?;
        }
        sink.flush()?;
        Ok(open)
    }

    /// Passes on a line that has no end.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        if !self.partial.is_empty() {
            sink.line(self.nid, self.stream, &self.partial)?;
            self.partial.clear();
        }
        Ok(())
    }

    /// Takes bytes of the stream.
    ///
    /// # Errors
    /// A line that is complete cannot be written.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> io::Result<()> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            let complete = self.partial.last() == Some(&b'\n');
            if complete {
                self.partial.pop();
            }
            if complete || self.partial.len() >= MAX_LINE_BYTES {
                sink.line(self.nid, self.stream, &self.partial)?;
                self.partial.clear();
            }
        }
        Ok(())
    }
}

/// Writes every line to the stream that it comes from.
#[derive(Debug)]
pub struct Plain;

impl Sink for Plain {
    fn line(&mut self, _: u16, stream: Stream, line: &[u8]) -> io::Result<()> {
        let text = [line, b"\n"].concat();
        match stream {
            Stream::Out => io::stdout().write_all(&text),
            Stream::Err => io::stderr().write_all(&text),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Writes every line to the stream that it comes from, its node's number in front.
#[derive(Debug)]
pub struct Prefixed {
    colour: [bool; 2],
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Prefixed {
    /// Colours of each stream, where it is a terminal that has some.
    pub fn new() -> Prefixed {
        let colour = [console::colour(&io::stdout()), console::colour(&io::stderr())];
        Prefixed { colour, out: Vec::new(), err: Vec::new() }
    }
}

impl Default for Prefixed {
    fn default() -> Self {
        Prefixed::new()
    }
}

impl Sink for Prefixed {
    fn line(&mut self, nid: u16, stream: Stream, line: &[u8]) -> io::Result<()> {
        // Neighbours differ: green, yellow, blue, magenta, cyan.
        let code = (32 + nid % 5).to_string();
        let prefix = console::paint(
            &format!("[{nid}]"),
            &code,
            self.colour[(stream == Stream::Err) as usize],
        );
        let buffer = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        buffer.extend_from_slice(prefix.as_bytes());
        buffer.push(b' ');
        buffer.extend_from_slice(line);
        buffer.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let err = std::mem::take(&mut self.err);
        if !err.is_empty() {
            io::stderr().write_all(&err)?;
        }
        let out = std::mem::take(&mut self.out);
        if out.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()
    }
}

/// Keeps what one node prints and what any node complains about.
#[derive(Debug, Default)]
pub struct Captured {
    /// Node whose output is kept.
    nid: u16,
    /// Its standard output.
    pub out: Vec<u8>,
    /// Standard error of all nodes.
    pub err: Vec<u8>,
}

impl Captured {
    /// Keeps the standard output of a node.
    pub fn of(nid: u16) -> Captured {
        Captured { nid, ..Captured::default() }
    }

    /// The standard output of the node, if the run succeeded.
    ///
    /// # Errors
    /// That of the run. The complaints of its processes are passed on first.
    pub fn finish(self, result: Result<()>) -> Result<String> {
        if result.is_err() {
            let _ = io::stderr().write_all(&self.err);
        }
        result.map(|()| String::from_utf8_lossy(&self.out).into_owned())
    }
}

impl Sink for Captured {
    fn line(&mut self, nid: u16, stream: Stream, line: &[u8]) -> io::Result<()> {
        let buffer = match stream {
            Stream::Out if nid == self.nid => &mut self.out,
            Stream::Out => return Ok(()),
            Stream::Err => &mut self.err,
        };
        buffer.extend_from_slice(line);
        buffer.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<Vec<u8>>);

    impl Sink for Seen {
        fn line(&mut self, _: u16, _: Stream, line: &[u8]) -> io::Result<()> {
            self.0.push(line.to_vec());
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_put_together_across_reads() {
        let (mut lines, mut seen) = (Lines::new(0, Stream::Out), Seen::default());
        for piece in ["a", "b\nc\n\n", "d"] {
            lines.push(piece.as_bytes(), &mut seen).unwrap();
        }
        assert_eq!(seen.0, [&b"ab"[..], b"c", b""]);
        assert_eq!(lines.partial, b"d");
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (mut lines, mut seen) = (Lines::new(0, Stream::Out), Seen::default());
        for _ in 0..3 {
            lines.push(&[b'x'; MAX_LINE_BYTES / 2], &mut seen).unwrap();
        }
        assert_eq!(seen.0.len(), 1);
        assert_eq!(lines.partial.len(), MAX_LINE_BYTES / 2);
    }
}
