//! Proxies over both carriers, and programs on both sides of them.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{Host, kill};

/// Longest that anything may take: nobody hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A command in the background that has said that it is ready.
pub struct Service {
    pub child: Child,
    out: BufReader<ChildStdout>,
    pub said: String,
}

impl Service {
    pub fn start(host: &Host, args: &[&str]) -> Service {
        let mut command = host.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        assert_ne!(out.read_line(&mut said).unwrap(), 0, "{args:?} ended");
        Service { child, out, said }
    }

    /// The one beside the server, and where it waits.
    pub fn listen(host: &Host, meet: &str, server: &str) -> (Service, String) {
        let service =
            Service::start(host, &["sockets", "listen", meet, "--to", server, "--insecure"]);
        let meet = service.said.split(' ').nth(3).unwrap().to_owned();
        (service, meet)
    }

    /// The one where programs connect, and its port.
    pub fn connect(host: &Host, meet: &str, more: &[&str]) -> (Service, u16) {
        let args = [&["sockets", "connect", meet, "--listen", "127.0.0.1:0", "--insecure"], more];
        let service = Service::start(host, &args.concat());
        let address = service.said.split(' ').nth(2).unwrap();
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        (service, port)
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end in order. Returns its output.
    pub fn end(mut self, signal: &str) -> String {
        kill(self.child.id(), signal);
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        rest
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn path(host: &Host) -> PathBuf {
    host.racks().join("qp")
}

/// The carrier between the two proxies.
#[derive(Clone, Copy)]
pub enum Carrier {
    Memory,
    Network,
}

impl Carrier {
    /// The address at which proxies are to meet.
    pub fn meet(self, host: &Host) -> String {
        match self {
            Carrier::Memory => path(host).to_str().unwrap().to_owned(),
            Carrier::Network => "127.0.0.1:0".to_owned(),
        }
    }

    /// Both proxies in front of a server, and the port at which it seems to be.
    pub fn proxies(self, host: &Host, server: &str, more: &[&str]) -> (Service, Service, u16) {
        let (listen, meet) = Service::listen(host, &self.meet(host), server);
        let (connect, port) = Service::connect(host, &meet, more);
        (listen, connect, port)
    }
}

/// Makes a test for each carrier of functions that take one.
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod over_memory {
            $(#[test] fn $name() { super::$name(crate::rig::Carrier::Memory); })*
        }
        mod over_network {
            $(#[test] fn $name() { super::$name(crate::rig::Carrier::Network); })*
        }
    };
}
pub(crate) use over_both;

pub fn tcp(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A server whose connections are handed to the test.
pub fn server() -> (String, mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

/// A server that sends back what comes, and ends when its client does.
pub fn echo() -> String {
    let (address, streams) = server();
    std::thread::spawn(move || {
        for mut stream in streams {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at * 7 + at / 251 + seed * 31) as u8).collect()
}

/// Sends all while it reads all, shuts down, and expects the same back.
pub fn there_and_back(stream: TcpStream, sent: Vec<u8>) {
    let mut writer = stream.try_clone().unwrap();
    let wanted = sent.clone();
    let writes = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    (&stream).read_to_end(&mut back).unwrap();
    assert!(back == wanted, "{} of {} bytes, or others", back.len(), wanted.len());
    writes.join().unwrap();
}

/// Asserts that the reader of a connection that did not end in order gets a reset.
pub fn assert_reset(mut stream: impl Read) {
    let error = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}
