//! A lender's end of a lane: its answers, and the lease's bytes afterwards, are those of a plain model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rackmem_lease::fuzz::lane::Lease;
use rackmem_lease::store::MAX_REQUEST_BYTES;

const BASE: u64 = 1 << 20;
const LEASE_BYTES: usize = 8192;
const HEADER_BYTES: usize = 24;

/// A lender's answers to these bytes, and the contents of its memory afterwards: the protocol, once more.
fn model(mut bytes: &[u8], memory: &mut [u8]) -> Vec<u8> {
    let mut answers = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        bytes = rest;
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        let (op, length, address) = (header[0], word(8), word(16));
        let moves = op == 1 || op == 2;
        if !(1..=3).contains(&op)
            || header[1..4] != [0; 3]
            || moves && length > MAX_REQUEST_BYTES as u64
        {
            break;
        }
        let begin = address.checked_sub(BASE);
        let end = begin.and_then(|begin| begin.checked_add(length));
        let range = end
            .filter(|&end| end <= LEASE_BYTES as u64)
            .map(|end| begin.unwrap() as usize..end as usize);
        let mut answer = |status: u8, length: u64| {
            answers.extend_from_slice(&[status, 0, 0, 0]);
            answers.extend_from_slice(&header[4..8]);
            answers.extend_from_slice(&length.to_le_bytes());
            answers.extend_from_slice(&[0; 8]);
        };
        let Some(range) = range else {
            answer(1, 0);
            break;
        };
        match op {
            1 => {
                answer(0, length);
                answers.extend_from_slice(&memory[range]);
            }
            2 => {
                let here = bytes.len().min(range.len());
                memory[range.start..range.start + here].copy_from_slice(&bytes[..here]);
                bytes = &bytes[here..];
                if here < range.len() {
                    break;
                }
                answer(0, 0);
            }
            _ => {
                memory[range].fill(0);
                answer(0, 0);
            }
        }
    }
    answers
}

fuzz_target!(|data: &[u8]| {
    let data = &data[..data.len().min(16 << 10)];
    let lease = Lease::new(LEASE_BYTES as u64);
    let answers = lease.serve(BASE, data);
    let mut memory = vec![0; LEASE_BYTES];
    assert!(answers == model(data, &mut memory), "the answers are those of the protocol");
    assert!(lease.bytes() == memory, "only what was written has changed");
});
