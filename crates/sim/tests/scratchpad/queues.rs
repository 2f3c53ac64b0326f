//! Single- and multiple-reader queues.

use std::collections::VecDeque;

use proptest::prelude::*;
use rackmem_sim::scratchpad::line::{Holds, Line};
use rackmem_sim::scratchpad::{Misuse, State};

use super::system::{InOrder, Random, System, at};

/// Line 3's number plus one is a multiple of the lines of any body up to four.
const QUEUE: u32 = 3;
const DESCRIPTOR: u32 = QUEUE * 64;

#[test]
fn items_come_in_order_and_room_is_given_back() {
    let mut system = System::new(2);
    system.mark_queue(0, QUEUE, State::SingleReader, 1, 64);
    for round in 0..5u64 {
        for nth in 0..8 {
            system.store(1, at(0, DESCRIPTOR), 100 * round + nth, &mut InOrder);
            system.settle(&mut InOrder);
        }
        assert_eq!(system.word(0, DESCRIPTOR + 8), 8 * (round + 1), "the tail");
        let items: Vec<u64> = (0..8).map(|n| system.word(0, DESCRIPTOR + 64 + 8 * n)).collect();
        assert_eq!(items, (0..8).map(|nth| 100 * round + nth).collect::<Vec<u64>>());
        system.store(0, at(0, DESCRIPTOR + 16), 8 * (round + 1), &mut InOrder);
    }
}

#[test]
fn what_a_queue_cannot_take_is_an_error() {
    let mut system = System::new(1);
    system.mark_queue(0, QUEUE, State::SingleReader, 4, 64);
    let descriptor = at(0, DESCRIPTOR);
    system.store(0, descriptor, 1, &mut InOrder);
    system.store(0, descriptor, 2, &mut InOrder);
    assert_eq!(system.try_store(0, descriptor, 3), Err(Misuse::Overflow(descriptor)));
    let head = system.try_store(0, at(0, DESCRIPTOR + 16), 3);
    assert_eq!(head, Err(Misuse::Head(descriptor, 3)));
    assert_eq!(system.try_store(0, at(0, DESCRIPTOR + 24), 3), Err(Misuse::Item(descriptor)));
    let ni = &mut system.nis[0];
    assert_eq!(ni.convert(QUEUE, 1), Err(Misuse::InUse(descriptor)), "two items are in it");
    assert_eq!(ni.convert(QUEUE + 1, 1), Err(Misuse::InUse(at(0, 256))), "the queue's body");
    let other = at(0, 7 * 64);
    let body = |words: u64, bytes: u64| 4 | words << 8 | bytes << 16;
    assert_eq!(ni.convert(7, body(1, 192)), Err(Misuse::Body(other, 192)), "no power of two");
    assert_eq!(ni.convert(7, body(1, 1024)), Err(Misuse::Body(other, 1024)), "line 8 of 16");
    assert_eq!(ni.convert(7, body(3, 64)), Err(Misuse::ItemWords(other, 3)));
    assert_eq!(ni.convert(7, 9), Err(Misuse::State(other, 9)));
    ni.convert(8, 2).unwrap();
    assert_eq!(ni.convert(7, body(1, 64)), Err(Misuse::Body(other, 64)), "its line is in use");
}

/// Sends a message of one word to line 3 of core 0, to be acknowledged at a word of the sender's.
fn send(system: &mut System, core: u16, item: u64, ack: u64) -> Result<(), Misuse> {
    for (word, value) in [(0, 1 | 8 << 8), (8, at(0, DESCRIPTOR)), (16, ack), (24, item)] {
        system.store(core, at(core, word), value, &mut InOrder);
    }
    while system.step(&mut InOrder)? {}
    Ok(())
}

#[test]
fn a_full_queue_refuses_what_asks_for_acknowledgements() {
    const ACK: u32 = 1024;
    let mut system = System::refusing(2);
    system.mark_queue(0, QUEUE, State::SingleReader, 1, 64);
    system.mark(1, 0, State::Command);
    let send_acked = |system: &mut System, item| {
        send(system, 1, item, at(1, ACK)).unwrap();
        system.word(1, ACK) as i64
    };
    for item in 0..8 {
        assert_eq!(send_acked(&mut system, item), 8);
    }
    assert_eq!(send_acked(&mut system, 8), -8, "refused");
    assert_eq!(system.word(0, DESCRIPTOR + 8), 8, "the tail");
    system.store(0, at(0, DESCRIPTOR + 16), 1, &mut InOrder);
    assert_eq!(send_acked(&mut system, 8), 8);
    let unseen = send(&mut system, 1, 9, 0);
    assert_eq!(unseen, Err(Misuse::Overflow(at(0, DESCRIPTOR))), "nobody would know");
}

#[test]
fn without_refusals_a_full_queue_is_an_error() {
    let mut system = System::new(2);
    system.mark_queue(0, QUEUE, State::SingleReader, 1, 64);
    system.mark(1, 0, State::Command);
    let sent: Vec<_> = (0..9).map(|item| send(&mut system, 1, item, at(1, 1024))).collect();
    assert_eq!(sent[7..], [Ok(()), Err(Misuse::Overflow(at(0, DESCRIPTOR)))]);
}

proptest! {
    /// Invariant d: data and requests never wait together; nothing is lost or comes twice; both are
    /// served in the order in which they arrived.
    #[test]
    fn readers_and_writers_meet_in_order(
        events in prop::collection::vec(any::<bool>(), 1..60), seed: u64,
    ) {
        let mut random = Random(seed);
        let mut system = System::new(3);
        system.mark_queue(0, QUEUE, State::MultipleReader, 1, 256);
        let (mut data, mut requests) = (VecDeque::new(), VecDeque::new());
        let mut expected: Vec<(u16, u64)> = Vec::new();
        for (nth, &is_data) in (1u64..).zip(&events) {
            let core = (nth % 3) as u16;
            let is_full = data.len().max(requests.len()) >= 8;
            match is_data {
                true if !is_full || data.is_empty() => {
                    system.store(core, at(0, DESCRIPTOR), nth, &mut random);
                    data.push_back(nth);
                }
                false if !is_full || requests.is_empty() => {
                    system.nis[usize::from(core)].ask(at(0, DESCRIPTOR), 8);
                    requests.push_back(core);
                }
                _ => continue,
            }
            system.settle(&mut random);
            if !data.is_empty() && !requests.is_empty() {
                expected.extend(requests.pop_front().zip(data.pop_front()));
            }
            let Line::MultipleReader(queue, holds) = *system.nis[0].line(QUEUE) else { panic!() };
            prop_assert_eq!(queue.len() as usize, data.len() + requests.len());
            prop_assert!(queue.is_empty() || (holds == Holds::Data) == requests.is_empty());
        }
        for core in 0..3 {
            let got = expected.iter().filter(|(to, _)| *to == core).map(|(_, item)| *item);
            prop_assert_eq!(&system.loaded[usize::from(core)], &got.collect::<Vec<u64>>());
        }
    }

    /// The same with any interleaving: one token, and at most one holder at a time.
    #[test]
    fn a_token_has_one_holder(seed: u64, rounds in 1usize..30) {
        let mut random = Random(seed);
        let mut system = System::new(4);
        system.mark_queue(0, QUEUE, State::MultipleReader, 1, 256);
        system.store(0, at(0, DESCRIPTOR), 1, &mut InOrder);
        let mut left = [rounds; 4];
        let mut acquired = 0;
        for ni in &mut system.nis {
            ni.ask(at(0, DESCRIPTOR), 8);
        }
        while left.iter().sum::<usize>() > 0 {
            let moved = system.step(&mut random).unwrap();
            let holders: Vec<usize> =
                (0..4).filter(|&core| !system.loaded[core].is_empty()).collect();
            prop_assert!(holders.len() <= 1, "{:?} hold the lock", holders);
            prop_assert!(moved || !holders.is_empty(), "nobody gets the lock");
            if let [holder] = holders[..] {
                system.loaded[holder].clear();
                acquired += 1;
                left[holder] -= 1;
                system.store(holder as u16, at(0, DESCRIPTOR), 1, &mut random);
                if left[holder] > 0 {
                    system.nis[holder].ask(at(0, DESCRIPTOR), 8);
                }
            }
        }
        prop_assert_eq!(acquired, 4 * rounds);
    }
}

#[test]
fn a_copy_from_a_queue_with_readers_is_a_request() {
    let mut system = System::new(2);
    system.mark_queue(0, QUEUE, State::MultipleReader, 4, 64);
    system.mark(1, 0, State::Command);
    for (word, value) in [(0, 2 | 32 << 8), (8, at(1, 1024)), (16, 0), (24, at(0, DESCRIPTOR))] {
        system.store(1, at(1, word), value, &mut InOrder);
    }
    system.settle(&mut InOrder);
    assert_eq!(system.word(1, 1024), 0, "there is no data yet");
    system.mark(0, 0, State::Command);
    let message = [(0, 1 | 32 << 8), (8, at(0, DESCRIPTOR)), (16, 0)];
    for (word, value) in message.into_iter().chain((0..4).map(|n| (24 + 8 * n, n as u64 + 5))) {
        system.store(0, at(0, word), value, &mut InOrder);
    }
    system.settle(&mut InOrder);
    assert_eq!([0, 8, 16, 24].map(|at| system.word(1, 1024 + at)), [5, 6, 7, 8]);
}
