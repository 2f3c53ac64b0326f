//! Reads return the bytes of writes, by every command and over several connections at once.

use rackmem_blk::MAX_PAYLOAD_BYTES;
use rackmem_blk::wire::{command, flag, transmission};

use super::client::Client;
use super::rig::{BOTH, Reach, Rig, SIZE_BYTES};

/// Numbers that look random and are the same in each run.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[test]
fn every_command_does_what_it_says() {
    for (reach, structured) in BOTH.into_iter().flat_map(|reach| [(reach, false), (reach, true)]) {
        let rig = Rig::new(reach);
        let mut client = Client::ready(&rig, structured);
        assert_eq!(client.size_bytes, SIZE_BYTES);
        let wanted = transmission::CAN_MULTI_CONN | transmission::SEND_FAST_ZERO;
        assert_eq!(client.flags & wanted, wanted);
        assert_eq!(client.read(12345, 3), Ok(vec![0; 3]));
        assert_eq!(client.write(4095, &[7; 4098]), Ok(()));
        assert_eq!(client.read(4094, 3), Ok(vec![0, 7, 7]));
        assert_eq!(client.command(command::WRITE_ZEROES, 0, 4096, 100), Ok(vec![]));
        assert_eq!(client.command(command::WRITE_ZEROES, flag::NO_HOLE, 4196, 100), Ok(vec![]));
        let read = client.read(4095, 4098).unwrap();
        assert_eq!((read[0], &read[1..201], read[201]), (7, &[0; 200][..], 7));
        assert_eq!(client.command(command::FLUSH, 0, 0, 0), Ok(vec![]));
        assert_eq!(client.command(command::CACHE, 0, 0, 4096), Ok(vec![]));
        assert_eq!(client.command(command::TRIM, flag::FUA, 4096, 4096), Ok(vec![]));
        assert_eq!(client.read(4096, 4096), Ok(vec![0; 4096]));
        // A range that the lender makes zero.
        assert_eq!(client.write(5 << 20, &[9; 4096]), Ok(()));
        assert_eq!(client.command(command::WRITE_ZEROES, 0, 1 << 20, 32 << 20), Ok(vec![]));
        assert_eq!(client.read(5 << 20, 4096), Ok(vec![0; 4096]));
        let status = client.command(command::BLOCK_STATUS, 0, 0, 4096);
        let extent = [0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0];
        assert_eq!(status, if structured { Ok(extent.to_vec()) } else { Err(22) });
        client.post(command::DISC, 0, 0, 0);
        assert!(client.is_hung_up());
        drop(client);
        let summary = rig.end();
        assert_eq!((summary.clients, summary.tally.written_bytes), (1, 4098 + 4096), "{reach:?}");
    }
}

#[test]
fn the_largest_request_passes_and_a_larger_one_is_refused() {
    for reach in BOTH {
        let most = MAX_PAYLOAD_BYTES;
        let rig = Rig::sized(reach, 2 * u64::from(most), |_| {});
        let mut client = Client::ready(&rig, true);
        let bytes: Vec<u8> = (0..most).map(|i| (i >> 7) as u8).collect();
        assert_eq!(client.write(1, &bytes), Ok(()));
        assert!(client.read(1, most) == Ok(bytes));
        assert_eq!(client.read(0, most + 1), Err(22));
        assert_eq!(client.write(0, &vec![1; most as usize + 1]), Err(22));
        // Requests that move no bytes may be as long as the export.
        let rest = client.command(command::WRITE_ZEROES, flag::FAST_ZERO, most.into(), most);
        assert_eq!(rest, Ok(vec![]));
        assert_eq!(client.command(command::TRIM, 0, 0, 2 * most), Ok(vec![]));
        assert_eq!(client.read(0, 1), Ok(vec![0]));
    }
}

/// One client at random, in an area of its own, with many requests under way; against a copy. Requests that
/// are under way at once do not overlap: the protocol gives them no order.
fn at_random(rig: &Rig, seed: u64, area: u64, area_bytes: u64, rounds: u32) {
    let mut dice = Dice(seed);
    let mut client = Client::ready(rig, seed % 2 == 0);
    let mut copy = vec![0_u8; area_bytes as usize];
    for _ in 0..rounds {
        let depth = 1 + dice.below(24);
        let mut expected = Vec::new();
        // All requests of a round are sent before the first reply is read. Replies are small enough to wait.
        let share_bytes = area_bytes / depth;
        for number in 0..depth {
            let longest = if dice.below(8) == 0 { 100_000 } else { 5_000 };
            let length = 1 + dice.below(longest) as usize;
            let at = (number * share_bytes + dice.below(share_bytes - length as u64)) as usize;
            let (offset, range) = (area + at as u64, at..at + length);
            match dice.below(8) {
                0..3 => {
                    let bytes: Vec<u8> = (0..length).map(|_| dice.next() as u8).collect();
                    copy[range].copy_from_slice(&bytes);
                    let request = client.post(command::WRITE, 0, offset, length as u32);
                    // In two parts, so that they arrive apart.
                    let (first, second) = bytes.split_at(dice.below(length as u64) as usize);
                    client.send(first);
                    client.send(second);
                    expected.push((request, Vec::new()));
                }
                3..7 if length <= 5_000 => {
                    let request = client.post(command::READ, 0, offset, length as u32);
                    expected.push((request, copy[range].to_vec()));
                }
                _ => {
                    copy[range].fill(0);
                    let request = client.post(command::WRITE_ZEROES, 0, offset, length as u32);
                    expected.push((request, Vec::new()));
                }
            }
        }
        for (request, bytes) in expected {
            assert!(client.reply(&request) == Ok(bytes), "{request:?}");
        }
    }
    for at in (0..area_bytes as usize).step_by(1 << 20) {
        let end = copy.len().min(at + (1 << 20));
        assert!(client.read(area + at as u64, (end - at) as u32) == Ok(copy[at..end].to_vec()));
    }
}

#[test]
fn several_connections_at_random_lose_nothing() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        std::thread::scope(|scope| {
            for number in 0..4_u64 {
                let rig = &rig;
                // Areas that share pages.
                let area_bytes = 3_000_001;
                scope
                    .spawn(move || at_random(rig, number + 1, number * area_bytes, area_bytes, 60));
            }
        });
    }
}

#[test]
fn what_one_connection_wrote_another_one_reads() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let (mut first, mut second) = (Client::ready(&rig, false), Client::ready(&rig, true));
        for round in 1..=200_u8 {
            first.write(u64::from(round) * 777, &[round; 777]).unwrap();
            assert_eq!(second.read(u64::from(round) * 777, 777), Ok(vec![round; 777]));
            std::mem::swap(&mut first, &mut second);
        }
    }
}

#[test]
fn the_end_answers_what_was_sent_and_removes_the_socket() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let path = rig.path();
        let (mut client, _idle) = (Client::ready(&rig, false), Client::ready(&rig, false));
        let request = client.post(command::READ, 0, 0, 4096);
        let reply = client.reply(&request);
        let summary = rig.end();
        assert_eq!(reply, Ok(vec![0; 4096]));
        assert!(client.is_hung_up());
        assert!(!path.exists());
        assert_eq!(summary.clients, 2);
    }
}

#[test]
fn a_dead_servers_socket_is_replaced_and_a_living_ones_is_not() {
    let rig = Rig::new(Reach::Mapped);
    let store = std::sync::Arc::new(rig.heap.clone());
    let again = rackmem_blk::Server::bind(store.clone(), super::rig::config(rig.address.clone()));
    assert!(again.is_err_and(|error| error.to_string().contains("cannot listen at")));
    let orphan = rig.scratch("orphan");
    drop(std::os::unix::net::UnixListener::bind(&orphan).unwrap());
    let address = rackmem_fabric::Address::Unix(orphan);
    assert!(rackmem_blk::Server::bind(store, super::rig::config(address)).is_ok());
}
