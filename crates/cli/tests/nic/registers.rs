//! The NIC's registers from afar (DE-12), and where its interrupts go (DE-14).

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rackmem_nic::interrupt::{Interrupt, LINK};
use rackmem_nic::message::Message;
use rackmem_nic::register::{self, Fault};

use crate::hostile::{become_borrower, framed, lend, read_message};
use crate::rack::{Nic, PATIENCE, PEER, Rack};

/// A borrower at the level of messages: interrupts that come meanwhile are kept.
struct Registers {
    messages: TcpStream,
    /// The same, for whole messages.
    says: Arc<Mutex<TcpStream>>,
    _packets: TcpStream,
    interrupts: Vec<Interrupt>,
    tag: u16,
}

impl Registers {
    fn ask(&mut self, question: impl FnOnce(u16) -> Message) -> Result<u64, Fault> {
        self.tag += 1;
        self.says.lock().unwrap().write_all(&framed(&question(self.tag))).unwrap();
        loop {
            match read_message(&mut self.messages).unwrap() {
                Message::Answer { tag, value } => {
                    assert_eq!(tag, self.tag);
                    return value;
                }
                Message::Interrupt(interrupt) => self.interrupts.push(interrupt),
                Message::Alive => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn read(&mut self, register: u16) -> Result<u64, Fault> {
        self.ask(|tag| Message::Read { tag, register })
    }

    fn write(&mut self, register: u16, value: u64) -> Result<u64, Fault> {
        self.ask(|tag| Message::Write { tag, register, value })
    }

    /// Asks for something, again and again, until it is so.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Registers) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the NIC's link is so.
    fn await_link(&mut self, link: u64) {
        self.until("the link changes", |nic| nic.read(register::LINK) == Ok(link));
        // Interrupts that were raised by it are in front of an answer that comes later.
        std::thread::sleep(Duration::from_millis(50));
        self.read(register::LINK).unwrap();
    }
}

fn borrow(rack: &Rack) -> (Nic, Registers) {
    let lender = lend(rack);
    let (messages, packets) = rack.within("R", become_borrower).join().unwrap();
    let says = Arc::new(Mutex::new(messages.try_clone().unwrap()));
    let alive = Arc::downgrade(&says);
    // However long the test is kept from its cores, its NIC is not taken back.
    std::thread::spawn(move || {
        while let Some(says) = alive.upgrade() {
            let _ = says.lock().unwrap().write_all(&framed(&Message::Alive));
            drop(says);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    (lender, Registers { messages, says, _packets: packets, interrupts: Vec::new(), tag: 0 })
}

#[test]
fn registers_are_those_of_the_nic() {
    let Some(rack) = Rack::new() else { return };
    let (_lender, mut nic) = borrow(&rack);
    let shown = rack.link("D", "nic0").unwrap();
    let mac: String = register::to_mac(nic.read(register::MAC).unwrap())
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    assert!(shown.contains(&mac), "{mac} is not in {shown}");
    assert_eq!(nic.read(register::MTU), Ok(1500));
    nic.await_link(1);
    assert_eq!(nic.read(register::ON), Ok(1));
    assert_eq!(nic.write(register::MTU, 1234), Ok(1234), "the answer is what it has now");
    assert!(rack.link("D", "nic0").unwrap().contains("mtu 1234"));
    let sending = rack.within("E", || {
        let socket = UdpSocket::bind((PEER, 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        socket.send_to(b"to all", "10.88.0.255:9").unwrap();
    });
    sending.join().unwrap();
    nic.until("packets are received", |nic| nic.read(register::RECEIVED + 8).unwrap() > 0);
    assert_eq!(nic.write(register::LINK, 0), Err(Fault::ReadOnly));
    assert_eq!(nic.read(0x1000), Err(Fault::NoSuchRegister));
    assert!(matches!(nic.write(register::MTU, 1 << 40), Err(Fault::Device(_))));
    assert_eq!(nic.write(register::ON, 0), Ok(0));
    nic.await_link(0);
    assert_eq!(nic.write(register::ON, 1), Ok(1));
    nic.await_link(1);
}

#[test]
fn interrupts_go_where_the_imt_says() {
    let Some(rack) = Rack::new() else { return };
    let (_lender, mut nic) = borrow(&rack);
    let entry = register::IMT + 8 * u16::from(LINK);
    assert_eq!(nic.read(entry), Ok(1), "the borrower's node, as it said");
    let is_link = |asserted| move |it: &Interrupt| *it == Interrupt { id: LINK, asserted };
    // Masked, and for a node that is not the borrower: neither arrives here.
    for elsewhere in [register::NOBODY, 7] {
        assert_eq!(nic.write(entry, elsewhere), Ok(elsewhere));
        nic.interrupts.clear();
        rack.ip("E", "link set e0 down");
        nic.await_link(0);
        rack.ip("E", "link set e0 up");
        nic.await_link(1);
        assert_eq!(nic.interrupts, []);
    }
    assert_eq!(nic.write(entry, 1), Ok(1));
    rack.ip("E", "link set e0 down");
    nic.until("the interrupt comes", |nic| {
        nic.read(register::LINK).unwrap();
        nic.interrupts.iter().any(is_link(false))
    });
}
