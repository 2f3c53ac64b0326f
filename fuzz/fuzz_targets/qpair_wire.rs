//! A peer of queue pairs over a network: whatever it sends, only buffers that were posted are written, and nothing is
//! once the link has ended.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_sockets::fuzz::Victim;

const HEADER_BYTES: usize = 32;
const MARK: u8 = 0xEE;

/// Receives of each connection's first life: number n has 256 bytes at 1024 n.
const RECEIVES: u64 = 3;
const BUFFER_BYTES: u64 = 256;

fn is_posted(at: usize) -> bool {
    at < RECEIVES as usize * 1024 && at % 1024 < BUFFER_BYTES as usize
}

/// A frame whose numbers often mean something, and the bytes that follow it.
fn frame(input: &mut Unstructured<'_>) -> Vec<u8> {
    let mut byte = || input.arbitrary::<u8>().unwrap_or(0);
    let (kind, flags, number, value) = (byte(), byte(), byte(), byte());
    let length = u16::from_le_bytes([byte(), byte()]) % 600;
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[0] = kind % 10;
    bytes[1] = flags & 1;
    bytes[4] = flags >> 1 & 3;
    bytes[8] = flags >> 3 & 3;
    if matches!(kind % 10, 5 | 6) {
        bytes[12..14].copy_from_slice(&length.to_le_bytes());
    }
    bytes[16] = number % 8;
    bytes[24] = value;
    if value > 250 {
        bytes[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    }
    let body = usize::from(if bytes[12..14] == [0, 0] { 0 } else { length });
    // Sometimes less follows than was said.
    let body = if flags & 128 != 0 { body / 2 } else { body };
    bytes.resize(HEADER_BYTES + body, number);
    bytes
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let before = usize::from(input.arbitrary::<u8>().unwrap_or(0)).min(input.len());
    let mut victim = Victim::new(input.bytes(before).unwrap_or(&[]));
    for connection in 0..2 {
        victim.fill(connection, MARK);
        for number in 0..RECEIVES {
            victim.post(connection, 1, number, number * 1024, BUFFER_BYTES);
        }
    }
    let mut lives = victim.hear(&[]);
    while !input.is_empty() {
        let code = input.arbitrary::<u8>().unwrap_or(0);
        let bytes = match code {
            0..=199 => frame(&mut input),
            _ => input.bytes(usize::from(code - 200).min(input.len())).unwrap_or(&[]).to_vec(),
        };
        let cut = bytes.len().min(usize::from(code));
        for part in [&bytes[..cut], &bytes[cut..]] {
            let old = [victim.registered(0), victim.registered(1)];
            let goes_on = victim.hear(part);
            assert!(lives || !goes_on, "a link that has ended does not come back");
            if !lives {
                assert!(old == [victim.registered(0), victim.registered(1)]);
            }
            lives = goes_on;
        }
    }
    for connection in 0..2 {
        let bytes = victim.registered(connection);
        let stray = (0..bytes.len()).find(|&at| !is_posted(at) && bytes[at] != MARK);
        assert_eq!(stray, None, "nobody posted this byte");
    }
});
