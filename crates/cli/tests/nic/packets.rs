//! A borrowed NIC as programs see it: connections, datagrams of all sizes, broadcasts, VLANs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::rack::{BORROWED, PEER, Rack, until};

const BYTES: usize = 8 << 20;

/// Bytes whose order shows.
fn pattern(seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..BYTES).map(|_| next()).collect()
}

/// A connection each way, both carrying all bytes at once.
fn transfer(rack: &Rack) {
    let (send, ready) = std::sync::mpsc::channel();
    let peer = rack.within("E", move || {
        let listener = TcpListener::bind((PEER, 5000)).unwrap();
        send.send(()).unwrap();
        let (stream, from) = listener.accept().unwrap();
        assert_eq!(from.ip().to_string(), BORROWED);
        both_ways(stream, 1, 2);
    });
    ready.recv().unwrap();
    let here = rack.within("R", || both_ways(TcpStream::connect((PEER, 5000)).unwrap(), 2, 1));
    here.join().unwrap();
    peer.join().unwrap();
}

fn both_ways(stream: TcpStream, sends: u32, expects: u32) {
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&pattern(sends)).unwrap());
    let mut got = vec![0; BYTES];
    (&stream).read_exact(&mut got).unwrap();
    assert!(got == pattern(expects), "bytes differ");
    writing.join().unwrap();
}

/// Datagrams of this size, sent whole, come back.
fn echo(rack: &Rack, length: usize) {
    let (send, ready) = std::sync::mpsc::channel();
    let peer = rack.within("E", move || {
        let socket = UdpSocket::bind((PEER, 0)).unwrap();
        send.send(socket.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 65_536];
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        socket.send_to(&bytes[..length], from).unwrap();
    });
    let peer_address = ready.recv().unwrap();
    let here = rack.within("R", move || {
        let socket = UdpSocket::bind((BORROWED, 0)).unwrap();
        let never = libc::IP_PMTUDISC_DO;
        // SAFETY: the option is a number of that size.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                (&raw const never).cast(),
                4,
            )
        };
        assert_eq!(set, 0);
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let sent: Vec<u8> = (0..length).map(|at| at as u8).collect();
        socket.send_to(&sent, peer_address).unwrap();
        let mut got = vec![0; 65_536];
        let length = socket.recv(&mut got).unwrap();
        assert!(got[..length] == sent, "{length} bytes of {} came back", sent.len());
    });
    here.join().unwrap();
    peer.join().unwrap();
}

/// A broadcast of the peer's network arrives at the borrower.
fn broadcast(rack: &Rack) {
    let (send, ready) = std::sync::mpsc::channel();
    let here = rack.within("R", move || {
        let socket = UdpSocket::bind(("0.0.0.0", 5002)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        send.send(()).unwrap();
        let mut bytes = [0; 64];
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        (bytes[..length].to_vec(), from.ip().to_string())
    });
    ready.recv().unwrap();
    let peer = rack.within("E", || {
        let socket = UdpSocket::bind((PEER, 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        socket.send_to(b"to all", "10.88.0.255:5002").unwrap();
    });
    peer.join().unwrap();
    assert_eq!(here.join().unwrap(), (b"to all".to_vec(), PEER.to_owned()));
}

/// A raw socket on an interface of the calling thread's namespace.
pub fn raw(interface: &str) -> OwnedFd {
    let name = std::ffi::CString::new(interface).unwrap();
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the name ends with a zero; the address has the length that is given.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, protocol.into());
        assert!(fd >= 0);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as _;
        address.sll_protocol = protocol;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as _;
        let length = size_of_val(&address) as u32;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

/// A frame with a VLAN tag passes unchanged, either way.
fn tagged(rack: &Rack, from: (&str, &'static str), to: (&str, &'static str)) {
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 1, 0x81, 0, 0x20, 0x07, 0x88, 0xb5]);
    frame.extend((0..80).map(|at| at as u8));
    let expected = frame.clone();
    let (send, ready) = std::sync::mpsc::channel();
    let receiving = rack.within(to.0, move || {
        let socket = raw(to.1);
        send.send(()).unwrap();
        let mut bytes = [0u8; 2048];
        loop {
            let length = rustix::io::read(&socket, &mut bytes).unwrap();
            // A NIC takes the tag off and shows it beside the frame; the rest has to be there.
            let untagged = [&expected[..12], &expected[16..]].concat();
            if bytes[..length] == expected || bytes[..length] == untagged {
                return length;
            }
        }
    });
    ready.recv().unwrap();
    let sending = rack.within(from.0, move || {
        rustix::io::write(raw(from.1), &frame).unwrap();
    });
    sending.join().unwrap();
    receiving.join().unwrap();
}

fn everything(how: &str, largest: usize) {
    let Some(rack) = Rack::new() else { return };
    let lender = rack.lend();
    let borrower = rack.attach(how);
    transfer(&rack);
    for length in [0, 1, 100, largest] {
        echo(&rack, length);
    }
    broadcast(&rack);
    tagged(&rack, ("E", "e0"), ("R", "lent0"));
    tagged(&rack, ("R", "lent0"), ("E", "e0"));
    borrower.stop();
    lender.line("back from 10.77.0.1");
    rack.assert_given_back();
    lender.stop();
}

#[test]
fn through_the_kernel() {
    // Of 1500 bytes, 50 go to the tunnel, 28 to the headers of IP and UDP.
    everything("--mode kernel", 1422);
}

#[test]
fn through_processes_over_tcp() {
    everything("--mode tap", 1472);
}

#[test]
fn through_processes_over_the_link() {
    everything("--mode tap --link udp", 1472);
}

#[test]
fn through_processes_that_never_poll() {
    let Some(rack) = Rack::new() else { return };
    let lender = rack.nic("D", &format!("lend nic0 --listen {} --spin 0", crate::rack::LENDER));
    lender.line("nic0 is free");
    let borrower = rack.attach("--mode tap --spin 0");
    transfer(&rack);
    borrower.stop();
    lender.stop();
}

#[test]
fn the_lenders_own_stack_has_no_part_in_a_lent_nic() {
    let Some(rack) = Rack::new() else { return };
    rack.ip("D", "addr add 10.88.0.2/24 dev nic0");
    let hears = |rack: &Rack| {
        let socket = rack.within("E", || {
            let socket = UdpSocket::bind((PEER, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            socket
        });
        let socket = socket.join().unwrap();
        let address = socket.local_addr().unwrap();
        let sending = rack.within("D", move || {
            // Without an answer to ARP nothing leaves; that is silence, too.
            let _ = UdpSocket::bind("10.88.0.2:0").unwrap().send_to(b"it is me", address);
        });
        sending.join().unwrap();
        socket.recv(&mut [0; 64]).is_ok()
    };
    until("it is heard before", || hears(&rack));
    for mode in ["kernel", "tap"] {
        let lender = rack.lend();
        let borrower = rack.attach(&format!("--mode {mode}"));
        assert!(!hears(&rack), "while it is lent, {mode}");
        borrower.stop();
        lender.line("back");
        lender.stop();
        until("it is heard afterwards", || hears(&rack));
        assert!(rack.ip("D", "addr show dev nic0").contains("10.88.0.2/24"));
    }
}
