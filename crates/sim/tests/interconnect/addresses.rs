//! The address mapping table and the routing table: what they do not allow never leaves the node, and
//! comes back as an error.

use rackmem_rmc::amt::Target;
use rackmem_sim::interconnect::{Access, Op, Platform, Upcall};
use rackmem_sim::machine::Override;

use super::machine;

/// Loads one after the other by core 0 of a node; how each ended.
fn load(platform: &mut Platform, node: u16, addresses: &[u64]) -> Vec<Access> {
    platform.thread(node, 0, addresses.iter().map(|&address| Op::Load(address, 32)));
    let mut all = Vec::new();
    while all.len() < addresses.len() {
        match platform.next_upcall().expect("loads come back") {
            Upcall::Loaded { access, .. } => all.push(access),
            other => panic!("{other:?}"),
        }
    }
    all
}

fn frames(platform: &Platform) -> u64 {
    platform.nodes.iter().flat_map(|node| &node.module.ends).map(|end| end.counts.data).sum()
}

#[test]
fn an_access_inside_a_slot_maps_by_its_offset() {
    let mut platform = Platform::new(&machine("deoi", &[]));
    let lent = Target { destination: 2, address: 0x10_0000 };
    let (_, base) = platform.borrow(0, lent, 1 << 20).unwrap();
    for access in load(&mut platform, 0, &[base, base + 0x420, base + (1 << 20) - 32]) {
        assert!(!access.failed);
        assert_eq!(access.home, 2);
    }
    let done = load(&mut platform, 0, &[base + 0x420]);
    assert_eq!(done[0].address, 0x10_0420);
    assert_eq!(frames(&platform), 8, "a request and an answer each");
}

#[test]
fn an_access_outside_never_leaves_the_node() {
    let mut platform = Platform::new(&machine("deoi", &[]));
    let lent = Target { destination: 1, address: 0 };
    let (id, base) = platform.borrow(0, lent, 4096).unwrap();
    let wrong = [base + 4096, base + 4096 - 16, base + (1 << 30)];
    assert!(load(&mut platform, 0, &wrong).iter().all(|access| access.failed));
    platform.nodes[0].amt.release(id).unwrap();
    assert!(load(&mut platform, 0, &[base])[0].failed, "what is given back faults");
    platform.nodes[0].amt.free(id).unwrap();
    let (_, again) = platform.borrow(0, lent, 4096).unwrap();
    platform.nodes[0].amt.lost(1);
    assert!(load(&mut platform, 0, &[again])[0].failed, "what a lost node lent faults");
    assert_eq!((frames(&platform), platform.nodes[0].module.control.unmapped), (0, 5));
}

#[test]
fn switches_pass_packets_on_along_a_chain() {
    let mut platform = Platform::new(&machine("deoi", &[("extension.topology", "chain")]));
    let near = platform.borrow(0, Target { destination: 1, address: 0 }, 4096).unwrap().1;
    let far = platform.borrow(0, Target { destination: 3, address: 0 }, 4096).unwrap().1;
    let done = load(&mut platform, 0, &[near, far]);
    let time = |access: &Access| access.trip.mark - access.start;
    assert!(!done[1].failed && time(&done[1]) > time(&done[0]) + 1_000_000, "three links");
    let forwarded = |node: usize| platform.nodes[node].module.control.forwarded;
    assert_eq!([0, 1, 2, 3].map(forwarded), [0, 2, 2, 0]);
}

#[test]
fn packets_without_a_route_are_dropped_and_counted() {
    let mut platform = Platform::new(&machine("deoi", &[("extension.topology", "chain")]));
    let far = platform.borrow(0, Target { destination: 3, address: 0 }, 4096).unwrap().1;
    platform.route(1, 3, None);
    assert!(load(&mut platform, 0, &[far, far]).iter().all(|access| access.failed));
    assert_eq!(platform.nodes[1].module.control.unroutable, 2);
    platform.route(1, 3, Some(1));
    assert!(!load(&mut platform, 0, &[far])[0].failed, "the entry is there again");
    platform.route(0, 3, None);
    assert!(load(&mut platform, 0, &[far])[0].failed);
    assert_eq!(platform.nodes[0].module.control.unroutable, 1);
}

#[test]
fn a_message_is_no_longer_than_the_memory_of_a_node() {
    let load = |bytes: u32| {
        let bytes = Override::new("experiment.message_bytes", bytes.to_string());
        machine::load("thunder", &[Override::new("experiment.kind", "rdma"), bytes])
    };
    assert!(load(1 << 30).is_ok());
    let error = load((1 << 30) + 1).expect_err("a card's registers follow");
    assert_eq!(error.key, "experiment.message_bytes", "{error}");
}
