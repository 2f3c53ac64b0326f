//! Ends that do not keep to the protocol get an error, and the next one its turn.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rackmem_fabric::Address;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::stranger::{MAX_STRANGERS, Strangers};
use rackmem_nic::message::{Message, Mode, Setup, VERSION};

use crate::rack::{LENDER, Nic, PATIENCE, Rack, SECRET};

/// A message as it travels over TCP.
pub fn framed(message: &Message) -> Vec<u8> {
    let bytes = message.encode();
    [&(bytes.len() as u16).to_le_bytes()[..], &bytes].concat()
}

/// Reads the next message.
pub fn read_message(stream: &mut TcpStream) -> std::io::Result<Message> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u16::from_le_bytes(length).into()];
    stream.read_exact(&mut bytes)?;
    Message::decode(&bytes).map_err(std::io::Error::other)
}

/// A lender whose messages can be written by hand.
pub fn lend(rack: &Rack) -> Nic {
    let lender = rack.nic("D", &format!("lend nic0 --listen {LENDER} --cleartext"));
    lender.line("nic0 is free");
    lender
}

/// A connection that has proved to such a lender that it knows the secret. Runs in R.
fn proven() -> TcpStream {
    let secret = Proof::secret(SECRET.as_bytes()).with_cleartext(true);
    let lender = Address::Tcp(format!("{LENDER}:7471"));
    let link = Link::connect(&lender, Some(&secret), PATIENCE).unwrap();
    let stream = TcpStream::from(link.into_parts().0);
    stream.set_nonblocking(false).unwrap();
    stream
}

fn hello() -> Vec<u8> {
    framed(&Message::Setup(Setup::Hello { version: VERSION, node: 1 }))
}

#[test]
fn lenders_survive_whoever_asks() {
    let Some(rack) = Rack::new() else { return };
    let lender = lend(&rack);
    let choose = Message::Setup(Setup::Choose { mode: Mode::Kernel, tunnel: None });
    let old = Message::Setup(Setup::Hello { version: VERSION + 1, node: 1 });
    let attacks: Vec<Vec<u8>> = vec![
        vec![],
        vec![0xff; 4096],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0, 0, 0, 0],
        vec![1, 0, 99],
        framed(&old),
        framed(&choose),
        framed(&Message::Setup(Setup::Data { token: 1 })),
        [hello(), vec![0xff; 100]].concat(),
        [hello(), framed(&choose)].concat(),
        [hello(), framed(&Message::Bye("no".to_owned()))].concat(),
        [hello(), framed(&Message::Write { tag: 1, register: 8, value: 9 })].concat(),
    ];
    for attack in attacks {
        let attacking = rack.within("R", move || {
            let stranger = TcpStream::connect((LENDER, 7471)).unwrap();
            for mut stream in [stranger, proven()] {
                stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                let _ = stream.write_all(&attack);
                let _ = stream.read(&mut [0; 256]);
            }
        });
        attacking.join().unwrap();
    }
    let knocking = rack.within("R", || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for length in 0..200 {
            let _ = socket.send_to(&vec![length as u8; length], (LENDER, 7471));
        }
    });
    knocking.join().unwrap();
    rack.attach("--cleartext --mode tap").stop();
    lender.stop();
}

#[test]
fn a_borrower_that_sends_no_packets_loses_the_nic() {
    let Some(rack) = Rack::new() else { return };
    let lender = lend(&rack);
    let attacking = rack.within("R", || {
        let (mut messages, mut packets) = become_borrower();
        packets.write_all(&[0xff; 1000]).unwrap();
        loop {
            match read_message(&mut messages) {
                Ok(Message::Bye(reason)) => return reason,
                Ok(_) => {}
                Err(error) => panic!("no goodbye: {error}"),
            }
        }
    });
    let reason = attacking.join().unwrap();
    assert!(reason.contains("not in step"), "{reason}");
    lender.line("back from");
    // Packets that are none for the NIC are dropped, whatever their headers say.
    let strange = rack.within("R", || {
        let (_messages, mut packets) = become_borrower();
        for header in 0..=255u8 {
            let packet = [&24u32.to_le_bytes()[..], &[header; 24]].concat();
            packets.write_all(&packet).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    });
    strange.join().unwrap();
    lender.line("back from");
    rack.attach("--cleartext --mode tap").stop();
    lender.stop();
}

#[test]
fn a_borrower_that_goes_before_its_packets_come_leaves_the_nic_to_the_next() {
    let Some(rack) = Rack::new() else { return };
    let lender = lend(&rack);
    rack.within("R", || drop(choose_tap())).join().unwrap();
    lender.line("10.77.0.1");
    rack.attach("--cleartext --mode tap").stop();
    lender.stop();
}

/// Takes the first steps of a borrower, up to its choice; what its packets have to show. Runs in R.
fn choose_tap() -> (TcpStream, u64) {
    let mut messages = proven();
    messages.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    messages.write_all(&hello()).unwrap();
    let token = loop {
        match read_message(&mut messages).unwrap() {
            Message::Setup(Setup::Offer { token, .. }) => break token,
            Message::Alive => {}
            other => panic!("{other:?}"),
        }
    };
    let choose = Message::Setup(Setup::Choose { mode: Mode::Tap, tunnel: None });
    messages.write_all(&framed(&choose)).unwrap();
    (messages, token)
}

/// Takes the steps of a borrower; runs in R.
pub fn become_borrower() -> (TcpStream, TcpStream) {
    let (mut messages, token) = choose_tap();
    let mut packets = proven();
    packets.write_all(&framed(&Message::Setup(Setup::Data { token }))).unwrap();
    while !matches!(read_message(&mut messages).unwrap(), Message::Setup(Setup::Ready { .. })) {}
    (messages, packets)
}

#[test]
fn borrowers_survive_whoever_answers() {
    let Some(rack) = Rack::new() else { return };
    let offer = |interface: &str| {
        framed(&Message::Setup(Setup::Offer {
            interface: interface.to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 0,
            link: true,
            token: 1,
            kernel: true,
        }))
    };
    let answers: Vec<Vec<u8>> = vec![
        vec![],
        vec![0xff; 4096],
        vec![3, 0, 1, 2, 3],
        framed(&Message::Setup(Setup::Ready { mtu: 1 })),
        framed(&Message::Setup(Setup::Refused { reason: "not you".to_owned() })),
        offer("x"),
        [offer("x"), vec![0xee; 64]].concat(),
    ];
    for (answer, proves) in answers.iter().flat_map(|answer| [(answer, false), (answer, true)]) {
        let answer = answer.clone();
        let (send, ready) = std::sync::mpsc::channel();
        let serving = rack.within("D", move || {
            // Each at a port of its own: who is just being started elsewhere may still have the last one.
            let listener = TcpListener::bind((LENDER, 0)).unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            if proves {
                let stranger = Strangers::default().admit(stream.as_fd()).unwrap();
                stream.set_nonblocking(true).unwrap();
                let secret = Proof::secret(SECRET.as_bytes()).with_cleartext(true);
                let link =
                    Link::welcome(stream.into(), "R", (Some(&secret), &[]), &stranger).unwrap();
                stream = link.into_parts().0.into();
                stream.set_nonblocking(false).unwrap();
            }
            stream.set_read_timeout(Some(Duration::from_secs(4))).unwrap();
            let _ = stream.write_all(&answer);
            // Until the borrower has had enough.
            while stream.read(&mut [0; 256]).is_ok_and(|length| length > 0) {}
        });
        let address = ready.recv().unwrap();
        let (status, complaint) =
            rack.nic("R", &format!("attach lent0 --from {address} --mode tap --cleartext")).end();
        assert_eq!(status, Some(1), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        serving.join().unwrap();
        assert!(rack.link("R", "lent0").is_none());
    }
}

/// Neither learns anything of the interface, over TCP as over UDP.
#[test]
fn who_does_not_know_the_secret_gets_no_nic() {
    let Some(rack) = Rack::new() else { return };
    let bare = |command: &mut std::process::Command| {
        command.env_remove("RACKMEM_SECRET");
    };
    let (status, complaint) = rack.nic_as("D", &format!("lend nic0 --listen {LENDER}"), bare).end();
    assert_eq!(status, Some(1));
    assert!(complaint.contains("--secret FILE") && complaint.contains("--insecure"), "{complaint}");
    let lender = rack.lend();
    let wrong = rack.write_secret("wrong", "somebody guesses this");
    for link in ["tcp", "udp"] {
        let attach = format!("attach lent0 --from {LENDER} --mode tap --link {link}");
        let (status, complaint) = rack.nic_as("R", &attach, bare).end();
        assert_eq!(status, Some(1));
        assert!(complaint.contains("--secret FILE"), "{complaint}");
        let (status, complaint) =
            rack.nic("R", &format!("{attach} --secret {}", wrong.display())).end();
        assert_eq!(status, Some(1));
        assert!(complaint.contains("another secret"), "{complaint}");
    }
    let says = rack.within("R", || {
        let mut stream = TcpStream::connect((LENDER, 7471)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&hello()).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let says = says.join().unwrap();
    assert!(!says.contains("nic0") && !says.contains("offer"), "{says}");
    rack.attach("--mode tap").stop();
    lender.stop();
}

/// Those who say nothing, or half a frame, before and while the NIC is lent.
#[test]
fn silent_strangers_keep_nobody_from_the_nic() {
    let Some(rack) = Rack::new() else { return };
    let lender = lend(&rack);
    let crowd = || {
        let come = |_| {
            let mut stream = TcpStream::connect((LENDER, 7471)).unwrap();
            let _ = stream.write_all(&[100, 0, 0, 0, b'{']);
            stream
        };
        (0..2 * MAX_STRANGERS).map(come).collect::<Vec<_>>()
    };
    let before = rack.within("R", crowd).join().unwrap();
    let borrower = rack.attach("--cleartext --mode tap");
    let meanwhile = rack.within("R", crowd).join().unwrap();
    borrower.stop();
    lender.line("back from");
    rack.attach("--cleartext --mode tap --link udp").stop();
    lender.stop();
    drop((before, meanwhile));
}

#[test]
fn a_lender_that_asks_for_no_secret_says_so() {
    let Some(rack) = Rack::new() else { return };
    let bare = |command: &mut std::process::Command| {
        command.env_remove("RACKMEM_SECRET");
    };
    let arguments = format!("lend nic0 --listen {LENDER} --insecure");
    let lender = rack.nic_as("D", &arguments, bare);
    lender.line("nic0 is free");
    let arguments = format!("attach lent0 --from {LENDER} --mode tap");
    let borrower = rack.nic_as("R", &arguments, bare);
    borrower.line("lent0 is nic0");
    borrower.stop();
    lender.signal("INT");
    let (status, said) = lender.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("--insecure: whoever reaches") && said.contains("borrow nic0"), "{said}");
}
