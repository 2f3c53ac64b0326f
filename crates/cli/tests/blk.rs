//! `rackmem blk` on memory that `rackmem lend` lends.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use common::{Host, kill, until};

/// A command in the background that has said that it is ready.
struct Service {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Service {
    /// Starts it, and waits until it has said all of this.
    fn start(host: &Host, args: &[&str], ready: &[&str]) -> Service {
        let mut child = host.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !ready.iter().all(|text| said.contains(text)) {
            assert_ne!(out.read_line(&mut said).unwrap(), 0, "{args:?} ended: {said}");
        }
        Service { child, out }
    }

    fn lend(host: &Host, size: &str) -> Service {
        Service::start(host, &["lend", size], &["registered with the monitor", "lends "])
    }

    /// Asks it to end in order. Returns status and output.
    fn end(mut self) -> (Option<i32>, String) {
        kill(self.child.id(), "TERM");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection by the shortest handshake there is.
fn connect(socket: &Path) -> UnixStream {
    let mut client = UnixStream::connect(socket).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    client.write_all(&[0, 0, 0, 3]).unwrap();
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    let mut answer = [0; 10];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], (64_u64 << 20).to_be_bytes());
    client
}

/// One request and its payload; the reply's error.
fn request(client: &mut UnixStream, command: u8, offset: u64, length: u32, payload: &[u8]) -> u32 {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, command];
    bytes.extend([7; 8]);
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(payload);
    client.write_all(&bytes).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..4], &reply[8..]), (&[0x67, 0x44, 0x66, 0x98][..], &[7; 8][..]));
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

fn read(client: &mut UnixStream, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
    match request(client, 0, offset, length, &[]) {
        0 => {
            let mut bytes = vec![0; length as usize];
            client.read_exact(&mut bytes).unwrap();
            Ok(bytes)
        }
        error => Err(error),
    }
}

fn write(client: &mut UnixStream, offset: u64, bytes: &[u8]) -> u32 {
    request(client, 1, offset, bytes.len() as u32, bytes)
}

fn device(host: &Host, more: &[&str]) -> (Service, PathBuf) {
    let socket = host.racks().join("disk");
    let args = [&["blk", "64M", "--socket", socket.to_str().unwrap()], more].concat();
    (Service::start(host, &args, &["of borrowed memory"]), socket)
}

#[test]
fn a_device_lives_until_it_is_asked_to_end() {
    let host = Host::new();
    let lender = Service::lend(&host, "256M");
    let (first, socket) = device(&host, &[]);
    let mut client = connect(&socket);
    assert_eq!(write(&mut client, 12345, &[7; 100_000]), 0);
    // Another client hangs up in the middle of a request.
    let mut other = connect(&socket);
    other.write_all(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1, 0]).unwrap();
    drop(other);
    assert_eq!(read(&mut connect(&socket), 12345, 100_000), Ok(vec![7; 100_000]));
    let (status, said) = first.end();
    assert_eq!(status, Some(0));
    assert!(said.starts_with("served 3 clients: "), "{said}");
    assert!(!socket.exists());
    // The written data are gone: the next device begins with zeros.
    let (device, socket) = device(&host, &["--read-only"]);
    let mut client = connect(&socket);
    assert_eq!(read(&mut client, 12345, 100), Ok(vec![0; 100]));
    assert_eq!(write(&mut client, 0, &[1]), 1);
    assert_eq!(device.end().0, Some(0));
    assert_eq!(lender.end().0, Some(0));
}

#[test]
fn a_killed_device_gives_its_memory_back() {
    let host = Host::new();
    let _lender = Service::lend(&host, "64M");
    let (mut first, socket) = device(&host, &[]);
    let full = host.fails(1, &["blk", "64M", "--socket", "/nonexistent/x"]);
    assert!(full.starts_with("rackmem: "), "{full}");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    // The lender notices by itself, and the socket of the dead one is replaced.
    until("the memory is free again", || {
        let mut next = host.command(&["blk", "64M", "--socket", socket.to_str().unwrap()]);
        let mut next = next.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(next.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let _ = next.kill();
        let _ = next.wait();
        line.contains("64 MiB of borrowed memory")
    });
}

#[test]
fn requests_fail_when_the_lender_dies_and_a_mirror_outlives_one() {
    let host = Host::new();
    let mut lenders = [(); 2].map(|()| Service::lend(&host, "64M"));
    let (device, socket) = device(&host, &["--mirror", "2"]);
    let mut client = connect(&socket);
    assert_eq!(write(&mut client, 4096, &[9; 8192]), 0);
    lenders[0].child.kill().unwrap();
    for _ in 0..20 {
        assert_eq!(read(&mut client, 4096, 8192), Ok(vec![9; 8192]));
    }
    lenders[1].child.kill().unwrap();
    until("the loss is noticed", || read(&mut connect(&socket), 4096, 1) == Err(5));
    assert_eq!(device.end().0, Some(0), "the server stays until it is asked to end");
}

#[test]
fn requests_wait_for_a_silent_lender_as_long_as_patience_says() {
    let host = Host::new();
    let args = ["lend", "64M", "--listen", "127.0.0.1:0", "--insecure"];
    let lender = Service::start(&host, &args, &["registered with the monitor", "lends "]);
    let (device, socket) = device(&host, &["--only-network", "--patience", "1"]);
    let mut client = connect(&socket);
    assert_eq!(write(&mut client, 4096, &[9; 8192]), 0);
    kill(lender.child.id(), "STOP");
    assert_eq!(read(&mut client, 4096, 8192), Err(5));
    assert_eq!(device.end().0, Some(0));
}

#[test]
fn mistakes_are_said_in_one_line() {
    let host = Host::new();
    host.fails(2, &["blk", "64M"]);
    let needs = host.fails(2, &["blk", "64M", "--listen", "127.0.0.1:0", "--tls", "require"]);
    assert_eq!(needs, "rackmem: --tls needs --tls-certificates\n");
    let socket = host.racks().join("x");
    let args = [
        "blk",
        "64M",
        "--socket",
        socket.to_str().unwrap(),
        "--tls",
        "on",
        "--tls-certificates",
        "/nonexistent",
    ];
    let missing = host.fails(1, &args);
    assert!(missing.contains("/nonexistent/server-key.pem"), "{missing}");
    assert_eq!(missing.lines().count(), 1);
    let nobody = host.fails(1, &["blk", "64M", "--socket", socket.to_str().unwrap()]);
    assert_eq!(nobody.lines().count(), 1, "{nobody}");
    let _lender = Service::lend(&host, "64M");
    let open = host.fails(1, &["blk", "64M", "--listen", "127.0.0.1:0"]);
    assert!(open.contains("--verify-clients") && open.contains("--insecure"), "{open}");
    std::fs::write(&socket, "mine").unwrap();
    let taken = host.fails(1, &["blk", "64M", "--socket", socket.to_str().unwrap()]);
    assert!(taken.contains("is no socket: remove it, or choose another path"), "{taken}");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
    std::fs::remove_file(&socket).unwrap();
}

#[test]
fn a_path_in_use_is_told_from_a_port_in_use() {
    let host = Host::new();
    let _lender = Service::lend(&host, "128M");
    let (_device, socket) = device(&host, &[]);
    // A path may be without a slash.
    let by_name = |name: &str| {
        let mut command = host.command(&["blk", "64M", "--socket", name]);
        let done = command.current_dir(host.racks()).output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    for name in [socket.to_str().unwrap(), "disk"] {
        let said = format!(
            "rackmem: cannot listen at {name}, where another process listens (`ss -xlp` names it): end that one, or \
             choose another path: address in use\n"
        );
        assert_eq!(by_name(name), (Some(1), said));
    }
}

#[test]
fn nbdcopy_brings_data_in_and_out() {
    let host = Host::new();
    let _lender = Service::lend(&host, "64M");
    let (device, socket) = device(&host, &[]);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let (source, target) = (host.racks().join("in"), host.racks().join("out"));
    let content: Vec<u8> =
        (0..64_u32 << 18).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect();
    std::fs::write(&source, &content).unwrap();
    for (from, to) in [(source.to_str().unwrap(), &*uri), (&*uri, target.to_str().unwrap())] {
        match Command::new("nbdcopy").args([from, to]).status() {
            Ok(status) => assert!(status.success()),
            Err(error) => return eprintln!("not tested: nbdcopy: {error}"),
        }
    }
    assert!(std::fs::read(&target).unwrap() == content);
    assert_eq!(device.end().0, Some(0));
}
