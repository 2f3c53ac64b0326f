//! Every value survives its encoding, and no bytes upset the parser.

use proptest::prelude::*;
use rackmem_abi::*;

fn header() -> impl Strategy<Value = Header> {
    (0u16..4096, 0u16..4096, 0usize..6, any::<u16>(), 0u16..=64, 0..=MAX_OFFSET, 0..=MAX_TID)
        .prop_map(|(dst_nid, src_nid, op, ctx_id, length, offset, tid)| {
            let op = Op::ALL[op];
            let (length, offset) = match op {
                Op::FetchAdd | Op::CompareSwap => (8, offset & !7),
                Op::Nop | Op::Notify => (0, offset),
                _ => (length.min(64 - (offset % 64) as u16), offset),
            };
            Header { dst_nid, src_nid, op, ctx_id, length, offset, tid }
        })
}

fn cut(payload: [u8; 64], bytes: usize) -> [u8; 64] {
    let mut out = [0; 64];
    out[..bytes].copy_from_slice(&payload[..bytes]);
    out
}

fn packet() -> impl Strategy<Value = Packet> {
    (header(), any::<bool>(), 0usize..9, any::<[u8; 32]>()).prop_map(|(header, reply, st, half)| {
        let mut payload = [0; 64];
        payload[..32].copy_from_slice(&half);
        payload[32..].copy_from_slice(&half);
        if reply {
            let mut r = Reply { header, status: Status::ALL[st], payload };
            r.payload = cut(payload, r.payload_bytes());
            Packet::Reply(r)
        } else {
            let mut r = Request { header, payload };
            r.payload = cut(payload, r.payload_bytes());
            Packet::Request(r)
        }
    })
}

proptest! {
    #[test]
    fn packets_round_trip(packet in packet()) {
        let mut bytes = [0xa5; PACKET_BYTES];
        let n = packet.emit(&mut bytes);
        prop_assert_eq!(Packet::parse(&bytes[..n]), Ok(packet));
        prop_assert_eq!(Packet::parse(&bytes[..n - 1]), Err(ParseError::Truncated));
        if n < PACKET_BYTES {
            prop_assert_eq!(Packet::parse(&bytes[..n + 1]), Err(ParseError::TooLong));
        }
    }

    #[test]
    fn what_parses_emits_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut out = [0; PACKET_BYTES];
            let n = packet.emit(&mut out);
            prop_assert_eq!(&out[..n], &bytes[..]);
        }
    }

    /// Random bytes rarely parse, so start from a packet and spoil one bit of its header.
    #[test]
    fn a_flipped_header_bit_never_upsets_the_parser(packet in packet(), bit in 0usize..128) {
        let mut bytes = [0; PACKET_BYTES];
        let n = packet.emit(&mut bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = Packet::parse(&bytes[..n]) {
            prop_assert_ne!(other, packet);
        }
    }

    #[test]
    fn wq_entries_round_trip(
        phase: bool, op_code in 0u8..8, dst_nid in 0u16..4096,
        offset in 0..=MAX_OFFSET, length in 0..=MAX_LENGTH, buffer in 0..=MAX_ADDRESS,
    ) {
        let entry = WqEntry { phase, op_code, dst_nid, offset, length, buffer };
        prop_assert_eq!(WqEntry::decode(entry.encode()), entry);
    }

    #[test]
    fn any_words_are_a_wq_entry(a: u64, b: u64) {
        prop_assert_eq!(WqEntry::decode([a, b]).encode(), [a, b]);
    }

    #[test]
    fn cq_entries_round_trip(phase: bool, slot: u16, status_code: u8) {
        let entry = CqEntry { phase, slot, status_code };
        prop_assert_eq!(CqEntry::decode(entry.encode()), entry);
    }
}

#[test]
fn codes_are_their_position() {
    for (i, op) in Op::ALL.iter().enumerate() {
        assert_eq!(Op::from_code(i as u8), Some(*op));
    }
    assert_eq!(Op::from_code(6), None);
    for (i, status) in Status::ALL.iter().enumerate() {
        assert_eq!(Status::from_code(i as u8), Some(*status));
        assert!(status.errno() <= 0);
    }
    assert_eq!(Status::from_code(9), None);
}

#[test]
fn phase_starts_at_one_and_flips_at_each_wrap() {
    let phases: Vec<bool> = (0..6).map(|n| phase_of(n, 2)).collect();
    assert_eq!(phases, [true, true, false, false, true, true]);
}
