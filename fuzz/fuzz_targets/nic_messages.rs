//! Input from the other end of a lent NIC: messages, packets as a stream, and interrupts.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_nic::fuzz::{Inbox, MAX_PACKET_BYTES, MIN_PACKET_BYTES};
use rackmem_nic::message::Message;
use rackmem_rmc::imt::{Imt, LINES};

/// The packets of a stream that arrives in parts, and whether it is out of step.
fn packets<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let (mut inbox, mut got) = (Inbox::new(), Vec::new());
    for part in parts {
        inbox.room()[..part.len()].copy_from_slice(part);
        inbox.commit(part.len());
        loop {
            match inbox.front() {
                Ok(Some(packet)) => got.push(packet.to_vec()),
                Ok(None) => break,
                Err(_) => return (got, true),
            }
            inbox.consume();
        }
    }
    (got, false)
}

/// Interrupts as they are set and heard: the levels heard last are those of the source.
fn interrupts(bytes: &[u8]) {
    let mut imt = Imt::all_to(3);
    let mut known = [false; LINES];
    let hear = |imt: &mut Imt, known: &mut [bool; LINES]| {
        let Some(change) = imt.take() else { return false };
        let level = &mut known[usize::from(change.line)];
        assert_ne!(*level, change.asserted, "each message is a change");
        *level = change.asserted;
        true
    };
    for &byte in bytes {
        match byte >> 5 {
            0 | 1 => drop(imt.drive(byte & 15, byte & 16 != 0)),
            2 => drop(imt.pulse(byte & 15)),
            _ => drop(hear(&mut imt, &mut known)),
        }
    }
    while hear(&mut imt, &mut known) {}
    assert!((0..).zip(known).all(|(line, level)| imt.is_asserted(line) == level));
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let step = usize::from(input.arbitrary::<u8>().unwrap_or(0)) + 1;
    let bytes = input.take_rest();
    if let Ok(message) = Message::decode(bytes) {
        let written = message.encode();
        match (&message, Message::decode(&written).unwrap()) {
            // A reason may lose what cannot be printed.
            (Message::Bye(_), Message::Bye(_)) => {}
            (_, again) => assert_eq!(message, again),
        }
    }
    let whole = packets(std::iter::once(bytes));
    assert_eq!(whole, packets(bytes.chunks(step)));
    let lengths = MIN_PACKET_BYTES..=MAX_PACKET_BYTES;
    assert!(whole.0.iter().all(|packet| lengths.contains(&packet.len())));
    interrupts(bytes);
});
