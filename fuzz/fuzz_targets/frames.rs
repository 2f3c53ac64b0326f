//! First frames: however bytes are cut, the same frames come out; no proof but the right one is accepted.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_borrow::net::frame::{Frames, decode, encode};
use rackmem_borrow::net::secret::{Hello, Proof, Secret};

/// Longest frame of a stranger.
const LIMIT: usize = 4096;

/// All frames up to the first one that is too long, and whether there was such a one.
fn cut<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let (mut frames, mut got) = (Frames::default(), Vec::new());
    for part in parts {
        frames.extend(part);
        loop {
            match frames.next(LIMIT) {
                Ok(Some(frame)) => got.push(frame),
                Ok(None) => break,
                Err(_) => return (got, true),
            }
        }
    }
    assert!(frames.into_rest().len() < LIMIT + 4, "what waits is bounded");
    (got, false)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let step = usize::from(input.arbitrary::<u8>().unwrap_or(0)) + 1;
    let bytes = input.take_rest();
    let whole = cut(std::iter::once(bytes));
    assert_eq!(whole, cut(bytes.chunks(step)));
    let secret = Secret::new(b"0123456789abcdef");
    for frame in &whole.0 {
        if let Ok(hello) = decode::<Hello>(frame) {
            assert_eq!(decode::<Hello>(&encode(&hello).unwrap()[4..]).unwrap(), hello);
        }
        if let Ok(proof) = decode::<Proof>(frame) {
            assert!(secret.confirm(&[7; 16], &proof).is_none(), "nobody guesses a proof");
            assert_eq!(decode::<Proof>(&encode(&proof).unwrap()[4..]).unwrap(), proof);
        }
    }
});
