//! First frames: however bytes are cut, the same frames come out; a handshake ends the same way, and nobody without the
//! secret is trusted.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_fabric::net::frame::{PREFIX_BYTES, first};
use rackmem_fabric::net::greet::Greeter;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::Buffer;

/// Longest frame of a stranger.
const LIMIT: usize = 4096;

/// All frames up to the first one that is too long, and whether there was such a one.
fn cut<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let (mut input, mut got) = (Buffer::default(), Vec::new());
    for part in parts {
        input.extend(part);
        loop {
            match first(input.bytes(), LIMIT) {
                Ok(Some(frame)) => got.push(frame.to_vec()),
                Ok(None) => break,
                Err(_) => return (got, true),
            }
            input.take(PREFIX_BYTES + got.last().map_or(0, Vec::len));
        }
    }
    assert!(input.len() < LIMIT + PREFIX_BYTES, "what waits is bounded");
    (got, false)
}

/// Whether a handshake of these bytes goes on.
fn greet<'a>(parts: impl Iterator<Item = &'a [u8]>) -> bool {
    let proof = Proof::secret(b"0123456789abcdef");
    let (mut greeter, mut input) = (Greeter::new(Some(&proof), &[]), Buffer::default());
    for part in parts {
        input.extend(part);
        match greeter.step(&mut input, &mut Vec::new()) {
            Ok(met) => assert!(met.is_none(), "nobody guesses the secret"),
            Err(_) => return false,
        }
    }
    true
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let step = usize::from(input.arbitrary::<u8>().unwrap_or(0)) + 1;
    let bytes = input.take_rest();
    assert_eq!(cut(std::iter::once(bytes)), cut(bytes.chunks(step)));
    assert_eq!(greet(std::iter::once(bytes)), greet(bytes.chunks(step)));
});
