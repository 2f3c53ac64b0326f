//! Queue pairs: isolated connections, order, no overflow; and the figures of the channel over them.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use rackmem_rmc::two_sided::{Completion, Descriptor, Kind, Status};
use rackmem_sim::interconnect::{EndPoint, QueuePairs, Refused};
use rackmem_sim::run::{self, Options};

use super::{machine, measured};

const ENTRIES: usize = 3;
const CONNECTIONS: u16 = 3;
const REGION_BYTES: u64 = 1000;

/// Address and size of the region in which buffers of a connection may be.
fn region(connection: u16) -> (u64, u64) {
    (u64::from(connection) * REGION_BYTES, REGION_BYTES)
}

/// Two nodes whose connections are paired.
fn two() -> [QueuePairs; 2] {
    [0, 1].map(|node| {
        let mut pairs = QueuePairs::new(ENTRIES);
        for connection in 0..CONNECTIONS {
            let peer = EndPoint { node: 1 - node, connection };
            assert_eq!(pairs.open(peer, region(connection)), Ok(connection));
        }
        pairs
    })
}

fn buffer(offset: u64, size_bytes: u64) -> Descriptor {
    Descriptor { offset, size_bytes, id: 0 }
}

/// Events that a connection's ends should still see, in order.
#[derive(Clone, Debug, Default)]
struct Expected {
    sends: VecDeque<u32>,
    receives: VecDeque<u32>,
    completions: [VecDeque<(u32, Status)>; 2],
    /// Sends and receives that were posted, and that have completed.
    posted: [u64; 2],
    done: [u64; 2],
}

proptest! {
    #[test]
    fn messages_go_in_order_to_their_own_connection(
        steps in vec((0u16..CONNECTIONS, 0u8..4, 0u64..3200, 0u32..1200), 0..300),
    ) {
        let mut nodes = two();
        let mut expected = vec![Expected::default(); usize::from(CONNECTIONS)];
        for (connection, what, address, bytes) in steps {
            let own = &mut expected[usize::from(connection)];
            let side = usize::from(what == 1);
            let buffer = Descriptor {
                offset: address,
                size_bytes: bytes.into(),
                id: own.posted[side],
            };
            let (start, length) = region(connection);
            let inside = address >= start && address + u64::from(bytes) <= start + length;
            match what {
                0 => {
                    let result = nodes[0].post_send(connection, buffer);
                    let used = own.sends.len() + own.completions[0].len();
                    let right = match (inside, used < ENTRIES) {
                        (false, _) => Err(Refused::NoAccess),
                        (true, false) => Err(Refused::Full),
                        (true, true) => Ok(()),
                    };
                    prop_assert_eq!(result, right);
                    own.sends.extend(right.is_ok().then_some(bytes));
                    own.posted[0] += u64::from(right.is_ok());
                }
                1 => {
                    let result = nodes[1].post_receive(connection, buffer);
                    let used = own.receives.len() + own.completions[1].len();
                    let right = match (inside, used < ENTRIES) {
                        (false, _) => Err(Refused::NoAccess),
                        (true, false) => Err(Refused::Full),
                        (true, true) => Ok(()),
                    };
                    prop_assert_eq!(result, right);
                    own.receives.extend(right.is_ok().then_some(bytes));
                    own.posted[1] += u64::from(right.is_ok());
                }
                2 => {
                    // The message that is next goes over, if there is a buffer for it.
                    let Some(next) = nodes[0].sending(connection).unwrap() else { continue };
                    let length = next.size_bytes as u32;
                    let from = EndPoint { node: 0, connection };
                    let arrives = nodes[1].arriving(connection, from, length);
                    let Some(&room) = own.receives.front() else {
                        prop_assert_eq!(arrives, Err(Refused::NotPosted));
                        continue;
                    };
                    let fits = length <= room;
                    prop_assert_eq!(arrives.map(|buffer| buffer.is_some()), Ok(fits));
                    let status = nodes[1].arrived(connection, length).unwrap();
                    nodes[0].sent(connection, status).unwrap();
                    prop_assert_eq!(status == Status::Done, fits);
                    own.sends.pop_front();
                    own.receives.pop_front();
                    for side in &mut own.completions {
                        side.push_back((length, status));
                    }
                }
                _ => for (side, pairs) in nodes.iter_mut().enumerate() {
                    let found = pairs.poll(connection).unwrap();
                    let right = own.completions[side].pop_front().map(|(bytes, status)| {
                        let id = own.done[side];
                        own.done[side] += 1;
                        let kind = [Kind::Send, Kind::Receive][side];
                        Completion { kind, id, length_bytes: bytes.into(), status }
                    });
                    prop_assert_eq!(found, right);
                },
            }
        }
    }
}

#[test]
fn strangers_reach_no_connection() {
    let [_, mut there] = two();
    there.post_receive(1, buffer(1000, 10)).unwrap();
    for from in [EndPoint { node: 0, connection: 0 }, EndPoint { node: 2, connection: 1 }] {
        assert_eq!(there.arriving(1, from, 5), Err(Refused::NoConnection));
    }
    assert_eq!(
        there.arriving(9, EndPoint { node: 0, connection: 9 }, 5),
        Err(Refused::NoConnection)
    );
    assert_eq!(there.post_send(9, buffer(0, 0)), Err(Refused::NoConnection));
}

#[test]
fn there_are_64k_connections() {
    let mut pairs = QueuePairs::new(0);
    let peer = EndPoint { node: 1, connection: 0 };
    for _ in 0..1 << 16 {
        pairs.open(peer, (0, 0)).unwrap();
    }
    assert_eq!(pairs.open(peer, (0, 0)), Err(Refused::TooMany));
}

#[test]
fn near_buffers_and_translation_by_the_channel_help() {
    let run = |buffers, translation, kind, bytes| {
        let settings = [
            ("qpair.buffers", buffers),
            ("qpair.translation", translation),
            ("experiment.kind", kind),
            ("experiment.message_bytes", bytes),
            ("experiment.count", "20"),
        ];
        measured("thunder", &settings)
    };
    let ways =
        [("uncached", "call"), ("cached", "call"), ("cached", "channel"), ("ocm", "channel")];
    let small = ways.map(|(at, by)| run(at, by, "qpair-ping-pong", "64").latency_ns.unwrap());
    assert!(small.is_sorted_by(|slower, faster| slower > faster), "{small:?}");
    let large = ways.map(|(at, by)| run(at, by, "qpair-stream", "131072").mbps.unwrap());
    assert!(large.is_sorted_by(|slower, faster| slower < faster), "{large:?}");
    // 8 of 10 bits of 2.5 Gbps, and 1024 of the 1044 bytes of a frame.
    assert!(large[3] < 2000.0 * 1024.0 / 1044.0, "{large:?}");
}

#[test]
fn calls_cost_latency_and_copies_cost_cores() {
    let run = |translation, bytes| {
        let settings = [
            ("qpair.buffers", "cached"),
            ("qpair.translation", translation),
            ("experiment.message_bytes", bytes),
            ("experiment.count", "20"),
        ];
        let found = measured("thunder", &settings);
        (found.latency_ns.unwrap(), found.core_ns.unwrap())
    };
    let [call, copy, channel] = ["call", "copy", "channel"].map(|by| run(by, "64"));
    assert!(call.0 > copy.0 && copy.0 > channel.0, "{call:?} {copy:?} {channel:?}");
    let [call, copy, channel] = ["call", "copy", "channel"].map(|by| run(by, "131072"));
    assert!(copy.1 > call.1 && call.1 > channel.1, "{call:?} {copy:?} {channel:?}");
    // 128 KB in and out at 2.5 us a KB.
    assert!((copy.1 - channel.1 - 640e3).abs() < 0.05 * 640e3, "{copy:?} {channel:?}");
}

#[test]
fn the_rdma_channel_copies_pages_faster_than_loads_fetch_lines() {
    let settings = [("experiment.kind", "rdma"), ("experiment.count", "20")];
    let copied = |bytes| {
        measured("thunder", &[&settings[..], &[("experiment.message_bytes", bytes)]].concat())
    };
    let (page, large) = (copied("4096"), copied("1048576"));
    assert!(page.latency_ns.unwrap() < large.latency_ns.unwrap());
    let line = measured("thunder", &[("experiment.kind", "reads"), ("experiment.place", "remote")]);
    let by_loads = 32.0 * 8000.0 / line.latency_ns.unwrap();
    assert!(large.mbps.unwrap() > 3.0 * by_loads && large.mbps.unwrap() < 2000.0, "{large:?}");
}

#[test]
fn a_message_has_to_fit_into_on_chip_memory() {
    let machine = machine("thunder", &[("experiment.message_bytes", "131073")]);
    let error = run::run(&machine, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("must be at most 131072"), "{error}");
}
