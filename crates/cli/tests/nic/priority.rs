//! An interrupt passes packets that were there before it (DE-15).

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rackmem_nic::interrupt::{Interrupt, LINK, RECEPTION};
use rackmem_nic::message::Message;

use crate::hostile::{become_borrower, framed, lend, read_message};
use crate::rack::{PEER, Rack};

/// A borrower that does not read its packets: the way is full, and yet interrupts come.
#[test]
fn interrupts_pass_a_saturated_way() {
    let Some(rack) = Rack::new() else { return };
    let lender = lend(&rack);
    let (send, events) = std::sync::mpsc::channel();
    let (proceed, go_on) = std::sync::mpsc::channel::<()>();
    let borrowing = rack.within("R", move || {
        let (mut messages, mut packets) = become_borrower();
        let mut alive = messages.try_clone().unwrap();
        std::thread::spawn(move || {
            while alive.write_all(&framed(&Message::Alive)).is_ok() {
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let mut reading = true;
        while reading {
            match read_message(&mut messages).unwrap() {
                Message::Interrupt(interrupt) => {
                    reading = interrupt != Interrupt { id: LINK, asserted: false };
                    send.send(interrupt).unwrap();
                }
                Message::Alive => {}
                other => panic!("{other:?}"),
            }
        }
        go_on.recv().unwrap();
        // Only now it reads packets: those that were queued before the interrupt.
        packets.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let (mut queued, mut bytes) = (0, vec![0; 1 << 20]);
        while let Ok(length @ 1..) = packets.read(&mut bytes) {
            queued += length;
        }
        queued
    });
    let next = || events.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(next(), Interrupt { id: LINK, asserted: true });
    let flood = Arc::new(AtomicBool::new(true));
    let flowing = flood.clone();
    let flooding = rack.within("E", move || {
        let socket = UdpSocket::bind((PEER, 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        while flowing.load(Ordering::Relaxed) {
            let _ = socket.send_to(&[7; 1400], "10.88.0.255:9");
        }
    });
    // The lender says that packets wait: nothing more fits onto the way.
    assert_eq!(next(), Interrupt { id: RECEPTION, asserted: true });
    rack.ip("E", "link set e0 down");
    // While the flood pauses, what is under way may find room, and the lender says so.
    let unplugged = std::iter::repeat_with(next).find(|interrupt| interrupt.id != RECEPTION);
    assert_eq!(unplugged, Some(Interrupt { id: LINK, asserted: false }));
    flood.store(false, Ordering::Relaxed);
    flooding.join().unwrap();
    proceed.send(()).unwrap();
    let queued = borrowing.join().unwrap();
    assert!(queued > 1 << 20, "{queued} bytes were in front of the interrupt");
    lender.line("back from");
    lender.stop();
}
