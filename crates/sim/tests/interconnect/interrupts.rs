//! Interrupts go before queued data, to the node that the table names.

use rackmem_sim::interconnect::{Card, Channel, Packet, Platform, Upcall};

use super::machine;

/// Messages that are queued at the link before an interrupt and arrive before it.
fn before_the_interrupt(first: &str) -> usize {
    let mut platform = Platform::new(&machine(
        "deoi",
        // A lane that is slower than what makes packets, so that these queue.
        &[("extension.interrupts_first", first), ("extension.lane_gbps", "1.0")],
    ));
    let packet = |channel, tag| Packet::new(channel, 1, 0, tag, 1024);
    for tag in 0..14 {
        platform.send(1, packet(Channel::Message, tag));
    }
    let mut messages = 0;
    loop {
        match platform.next_upcall().expect("all arrives") {
            Upcall::Message { node, port, packet: message } => {
                // The first message is on its way when the line changes; the others wait.
                if messages == 0 {
                    platform.send(1, packet(Channel::Interrupt, 5 << 1 | 1));
                }
                assert_eq!((node, message.tag), (0, messages as u32));
                platform.consume(node, port, &message);
                messages += 1;
            }
            Upcall::Interrupt { node, line, asserted } => {
                assert_eq!((node, line, asserted), (0, 5, true));
                return messages;
            }
            _ => {}
        }
    }
}

#[test]
fn an_interrupt_overtakes_queued_data() {
    let (first, last) = (before_the_interrupt("true"), before_the_interrupt("false"));
    assert!(first < 6, "{first} of 14 messages came first");
    assert!(last > first, "without priority it waits longer: {last}");
}

#[test]
fn the_table_says_who_is_interrupted() {
    let machine = machine("deoi", &[]);
    let mut platform = Platform::new(&machine);
    platform.nodes[1].card = Some(Card::new(&machine.nic, 0, 0));
    platform.nodes[1].imt.map(0, Some(0));
    platform.nodes[1].imt.map(1, Some(3));
    for (line, asserted) in [(0, true), (1, true), (0, false), (1, false), (2, true)] {
        platform.drive(1, line, asserted);
    }
    let mut told = Vec::new();
    while let Some(upcall) = platform.next_upcall() {
        if let Upcall::Interrupt { node, line, asserted } = upcall {
            told.push((node, line, asserted));
        }
    }
    told.sort_unstable();
    let both = [(0, 0, false), (0, 0, true), (3, 1, false), (3, 1, true)];
    assert_eq!(told, both, "line 2 is nobody's");
}

#[test]
fn a_device_of_the_node_itself_needs_no_packet() {
    let mut platform = Platform::new(&machine("deoi", &[]));
    platform.drive(0, 4, true);
    let Some(Upcall::Interrupt { node: 0, line: 4, asserted: true }) = platform.next_upcall()
    else {
        panic!("the node's own interrupt");
    };
    while platform.next_upcall().is_some() {}
    assert!(
        platform.nodes.iter().flat_map(|node| &node.module.ends).all(|end| end.counts.data == 0)
    );
}
