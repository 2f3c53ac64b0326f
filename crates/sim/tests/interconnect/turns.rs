//! Links are shared fairly: neither virtual channels, nor nodes, nor acknowledgements starve.

use rackmem_sim::interconnect::{Channel, Packet, Platform, Upcall};

use super::machine;

/// Packets that are queued at a node for node `to`: more than there is room for anywhere.
const MANY: u32 = 300;

/// Lets all packets that were sent arrive at node `at`: sender, channel and tag of each, in order.
fn arrivals(platform: &mut Platform, at: u16) -> Vec<(u16, Channel, u32)> {
    let mut all = Vec::new();
    while let Some(upcall) = platform.next_upcall() {
        let Upcall::Message { node, port, packet } = upcall else { continue };
        if packet.channel == Channel::Message {
            platform.consume(node, port, &packet);
        }
        if node == at {
            all.push((packet.source, packet.channel, packet.tag));
        }
    }
    all
}

fn send(platform: &mut Platform, channel: Channel, from: u16, to: u16, count: u32, bytes: u32) {
    for tag in 0..count {
        platform.send(from, Packet::new(channel, from, to, tag, bytes));
    }
}

#[test]
fn requests_do_not_wait_for_the_last_response() {
    let mut platform = Platform::new(&machine("thunder", &[]));
    send(&mut platform, Channel::MessageResponse, 0, 1, MANY, 0);
    send(&mut platform, Channel::Message, 0, 1, 4, 16);
    let all = arrivals(&mut platform, 1);
    let last = all.iter().rposition(|packet| packet.1 == Channel::Message);
    assert_eq!(all.len() as u32, MANY + 4);
    assert!(last < Some(24), "{last:?} packets came before the last request");
}

/// Packets of a node on their way through another one have their turn beside that one's own.
#[test]
fn nodes_on_the_way_let_others_through() {
    let mut platform = Platform::new(&machine("thunder", &[("extension.topology", "chain")]));
    send(&mut platform, Channel::Message, 1, 2, MANY, 16);
    send(&mut platform, Channel::Message, 0, 2, 8, 16);
    let all = arrivals(&mut platform, 2);
    let last = all.iter().rposition(|packet| packet.0 == 0);
    assert_eq!(all.len() as u32, MANY + 8);
    // Those that are on their way at first come before.
    assert!(last < Some(60), "{last:?} packets came before the last one from afar");
}

/// One node sends long requests without a pause, the other one short responses: these are acknowledged meanwhile, so
/// that they do not run out of credits, and none is sent again.
#[test]
fn acknowledgements_do_not_wait_for_a_pause() {
    let mut platform = Platform::new(&machine("thunder", &[]));
    send(&mut platform, Channel::Message, 0, 1, MANY, 1024);
    send(&mut platform, Channel::MessageResponse, 1, 0, MANY, 0);
    let (mut responses, mut requests) = (0, 0);
    while let Some(upcall) = platform.next_upcall() {
        let Upcall::Message { node, port, packet } = upcall else { continue };
        if packet.channel == Channel::Message {
            platform.consume(node, port, &packet);
            requests += 1;
        } else {
            responses += 1;
            // A frame of a request takes 4 us, and 32 responses less.
            assert!(responses < MANY || requests < MANY / 2, "{requests} requests came first");
        }
    }
    assert_eq!((responses, requests), (MANY, MANY));
    let ends = platform.nodes.iter().flat_map(|node| &node.module.ends);
    assert_eq!(ends.map(|end| end.counts.dropped).sum::<u64>(), 0);
}
