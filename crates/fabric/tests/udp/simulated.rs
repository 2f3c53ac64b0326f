//! Two ends in simulated time: every failure can be replayed from its seed.

use std::time::Duration;

use proptest::prelude::*;
use rackmem_fabric::error::Error;
use rackmem_fabric::udp::{CHANNELS, Faults, FaultyWire, LinkEnd, MemoryWire, Settings, Stats};

use crate::seeds::seeds;

type End = LinkEnd<FaultyWire<MemoryWire>>;

const DATAGRAM_BYTES: usize = 128;

/// Two ends and their clock.
struct Pair {
    ends: [End; 2],
    now: Duration,
}

fn pair(settings: Settings, faults: [Faults; 2]) -> Pair {
    let (a, b) = MemoryWire::pair(DATAGRAM_BYTES);
    let end = |wire, name: &str, faults| {
        let wire = FaultyWire::new(wire, faults);
        LinkEnd::new(wire, name.to_owned(), 7, settings, Duration::ZERO)
    };
    Pair { ends: [end(a, "b", faults[0]), end(b, "a", faults[1])], now: Duration::ZERO }
}

impl Pair {
    /// Polls both ends; if neither has anything to do, moves time on until one has.
    fn step(&mut self) -> Result<(), Error> {
        let mut any = false;
        for end in &mut self.ends {
            any |= end.poll(self.now)?;
        }
        if !any {
            let due = self.ends.iter().map(LinkEnd::due).min().unwrap();
            self.now = due.max(self.now + Duration::from_micros(10));
        }
        Ok(())
    }
}

/// Message `number` of a channel and direction: its length differs, too.
fn message(direction: usize, channel: usize, number: u32) -> Vec<u8> {
    let length = 4 + (number as usize * 7) % 90;
    let mut bytes = vec![(direction * CHANNELS + channel) as u8 ^ number as u8; length];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Sends `count` messages each way on each channel; every one has to arrive once and in order.
fn exchange(mut pair: Pair, count: u32, consume_every: u32) -> [Stats; 2] {
    let mut pushed = [[0; CHANNELS]; 2];
    let mut taken = [[0; CHANNELS]; 2];
    let mut rounds = 0u32;
    while taken != [[count; CHANNELS]; 2] {
        rounds += 1;
        assert!(rounds < 4_000_000, "no progress: {pushed:?} {taken:?}");
        for side in 0..2 {
            for channel in 0..CHANNELS {
                let next = &mut pushed[side][channel];
                while *next < count
                    && pair.ends[side].push(channel, &message(side, channel, *next)).unwrap()
                {
                    *next += 1;
                }
                let next = &mut taken[side][channel];
                // A reader that lags: there is no room then, and senders have to wait.
                if rounds % consume_every == 0
                    && let Some(bytes) = pair.ends[side].front(channel)
                {
                    assert_eq!(bytes, message(1 - side, channel, *next), "{side} {channel} {next}");
                    pair.ends[side].consume(channel);
                    *next += 1;
                }
            }
        }
        pair.step().unwrap();
    }
    pair.ends.map(|end| end.stats())
}

fn faults() -> impl Strategy<Value = Faults> {
    let rates = (0..300u32, 0..200u32, 0..200u32, 0..400u32);
    (any::<u64>(), rates, 0..3000u64).prop_map(|(seed, rates, delay_us)| Faults {
        seed,
        loss_permille: rates.0,
        duplication_permille: rates.1,
        corruption_permille: rates.2,
        reordering_permille: rates.3,
        delay: Duration::from_micros(delay_us),
        dies_after: None,
    })
}

/// Patient enough for wires that lose half of all datagrams.
fn settings(window: u32) -> Settings {
    Settings { window, dead_after: Duration::from_secs(1000) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn everything_arrives_once_and_in_order(
        there in faults(), back in faults(), window in 0..6u32, consume_every in 1..5u32,
    ) {
        exchange(pair(settings(1 << window), [there, back]), 150, consume_every);
    }
}

#[test]
fn a_perfect_wire_needs_each_datagram_once() {
    let stats = exchange(pair(settings(64), [Faults::default(); 2]), 500, 1);
    for stats in stats {
        assert_eq!((stats.resent, stats.damaged), (0, 0), "{stats:?}");
    }
}

#[test]
fn faults_are_those_that_were_asked_for() {
    let bad = Faults { seed: 3, loss_permille: 100, corruption_permille: 100, ..Faults::default() };
    let [_, receiver] = exchange(pair(settings(16), [bad, Faults::default()]), 300, 1);
    assert!(receiver.damaged > 0 && receiver.resent == 0, "{receiver:?}");
    let again = exchange(pair(settings(16), [bad, Faults::default()]), 300, 1);
    assert_eq!(again[1], receiver, "the same seed gives the same run");
}

#[test]
fn what_is_urgent_does_not_wait_behind_data() {
    let mut pair = pair(settings(32), [Faults::default(); 2]);
    pair.step().unwrap();
    for number in 0..32 {
        assert!(pair.ends[0].push(1, &message(0, 1, number)).unwrap());
    }
    assert!(!pair.ends[0].push(1, &[0]).unwrap(), "the channel of data is full");
    assert!(pair.ends[0].push(0, b"now").unwrap());
    pair.ends[0].poll(pair.now).unwrap();
    // The other end takes one datagram after the other; the urgent one comes first.
    let mut polls = 0;
    while pair.ends[1].front(0).is_none() {
        polls += 1;
        assert!(polls < 3);
        pair.ends[1].poll(pair.now).unwrap();
    }
    assert_eq!(pair.ends[1].front(0).unwrap(), b"now");
}

#[test]
fn urgent_messages_pass_while_nobody_reads_the_data() {
    let mut pair = pair(settings(4), [Faults::default(); 2]);
    let mut data = 0;
    for _ in 0..100 {
        data += u32::from(pair.ends[0].push(1, &[0; 50]).unwrap());
        pair.step().unwrap();
    }
    assert_eq!(data, 8, "four have arrived, four wait here");
    for number in 0..20u8 {
        assert!(pair.ends[0].push(0, &[number]).unwrap());
        while pair.ends[1].front(0).is_none() {
            pair.step().unwrap();
        }
        assert_eq!(pair.ends[1].front(0).unwrap(), [number]);
        pair.ends[1].consume(0);
    }
}

#[test]
fn a_peer_that_falls_silent_is_lost_in_time() {
    let patience = Duration::from_secs(2);
    let settings = Settings { window: 16, dead_after: patience };
    let dies = Faults { dies_after: Some(40), ..Faults::default() };
    let mut pair = pair(settings, [Faults::default(), dies]);
    let mut sent = 0;
    let mut last_change = Duration::ZERO;
    let error = loop {
        if pair.ends[0].push(1, &message(0, 1, sent)).unwrap() {
            (sent, last_change) = (sent + 1, pair.now);
        }
        while pair.ends[1].front(1).is_some() {
            pair.ends[1].consume(1);
        }
        if let Err(error) = pair.step() {
            break error;
        }
        assert!(pair.now < last_change + 3 * patience, "nobody noticed");
    };
    assert!(matches!(error, Error::PeerLost { .. }), "{error}");
    assert!(error.to_string().contains("nothing was heard"), "{error}");
    assert!(pair.ends[0].push(1, &[0]).is_err(), "and so it stays");
}

#[test]
fn ends_that_have_nothing_to_say_stay_alive() {
    let settings = Settings { window: 16, dead_after: Duration::from_secs(2) };
    let mut pair = pair(settings, [Faults::default(); 2]);
    while pair.now < Duration::from_secs(600) {
        pair.step().unwrap();
    }
    let sent = pair.ends[0].stats().sent;
    assert!((600..3000).contains(&sent), "some two a second, not {sent}");
}

/// Of some hundred heartbeats on such a wire, a few in a row get lost now and then.
#[test]
fn a_bad_wire_is_no_dead_peer() {
    let settings = Settings { window: 16, dead_after: Duration::from_secs(2) };
    let bad = |seed| Faults { seed, loss_permille: 400, ..Faults::default() };
    for seed in seeds(0..20) {
        let mut pair = pair(settings, [bad(seed), bad(seed + 100)]);
        while pair.now < Duration::from_secs(300) {
            pair.step().unwrap();
        }
    }
}

#[test]
fn an_end_that_closes_is_missed_at_once() {
    let mut pair = pair(settings(16), [Faults::default(); 2]);
    pair.ends[0].push(1, b"last words").unwrap();
    while !pair.ends[0].is_drained() {
        pair.step().unwrap();
    }
    pair.ends[0].close(pair.now);
    let error = loop {
        if let Err(error) = pair.ends[1].poll(pair.now) {
            break error;
        }
    };
    assert!(error.to_string().contains("closed"), "{error}");
    assert_eq!(pair.ends[1].front(1).unwrap(), b"last words");
}

#[test]
fn datagrams_of_other_sessions_and_of_nobody_change_nothing() {
    let (a, b) = MemoryWire::pair(DATAGRAM_BYTES);
    let (now, settings) = (Duration::ZERO, settings(16));
    let mut old = LinkEnd::new(a, "b".to_owned(), 1, settings, now);
    let mut new = LinkEnd::new(b, "a".to_owned(), 2, settings, now);
    old.push(1, b"of yesterday").unwrap();
    for _ in 0..4 {
        old.poll(now).unwrap();
        new.poll(now).unwrap();
    }
    assert!(new.front(1).is_none() && new.stats().received == 0);
}
