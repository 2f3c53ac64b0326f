//! The message sequences of the paper's Fig. 2 and of §3.4, step by step.

use rackmem_sim::coherence::home::Directory;
use rackmem_sim::coherence::{Forward, Message, Party, l1, pair};

use crate::checks::Kind;
use crate::node::{Node, Op, Version};
use crate::system::System;

const CORE: Party = 0;
/// The NI at the edge.
const NI: Party = 1;

const PLENTY: u8 = 100;

fn sent(system: &System) -> Vec<String> {
    let mut sent: Vec<_> = system.network.iter().map(ToString::to_string).collect();
    sent.sort();
    sent
}

/// Delivers what is written there; then this, and only this, is under way.
fn deliver(system: &mut System, packet: &str, then: &[&str]) {
    let index = system.network.iter().position(|other| other.to_string() == packet);
    system.deliver(index.unwrap_or_else(|| panic!("{packet} is not among {:?}", sent(system))));
    assert_eq!(sent(system), then, "after {packet}");
    assert_eq!(system.broken, None);
}

fn begin(system: &mut System, node: Party, op: Op, then: &[&str]) {
    system.begin(node, false, op);
    assert_eq!(sent(system), then, "after {op:?}");
}

/// The parties that have a copy, and its kind.
fn copies(system: &System) -> Vec<(Party, Kind)> {
    system.copies().iter().map(|copy| (copy.node, copy.kind)).collect()
}

/// A core and an NI at the edge; the core has written a WQ entry.
fn edge() -> System {
    let mut system = System::new(vec![Node::cache(PLENTY), Node::cache(PLENTY)]);
    begin(&mut system, CORE, Op::Store, &["0 -> home: GetX"]);
    deliver(&mut system, "0 -> home: GetX", &[]);
    system.read_memory();
    let data = "home -> 0: Data { data: v0, grant: Exclusive, acks: 0, source: Home }";
    deliver(&mut system, data, &["0 -> home: Unblock(None)"]);
    deliver(&mut system, "0 -> home: Unblock(None)", &[]);
    assert_eq!(copies(&system), [(CORE, Kind::Only)]);
    system
}

/// Fig. 2b: the NI reads the entry that the core has written.
fn ni_reads(system: &mut System) {
    // 1. The NI asks the directory for a copy to read (GetRO).
    begin(system, NI, Op::Load, &["1 -> home: GetS"]);
    // 2. The directory forwards to the core, which has the block modified.
    deliver(system, "1 -> home: GetS", &["home -> 0: FwdGetS { to: 1 }"]);
    // 3. The core sends the block to the NI and keeps a copy to read.
    let data = "0 -> 1: Data { data: v1, grant: Shared, acks: 0, source: DirtyOwner }";
    deliver(system, "home -> 0: FwdGetS { to: 1 }", &[data]);
    assert_eq!(copies(system), [(CORE, Kind::Shared)]);
    // 4. The NI resumes, and tells the directory, with the block for the LLC.
    deliver(system, data, &["1 -> home: Unblock(Some(v1))"]);
    assert_eq!(copies(system), [(CORE, Kind::Shared), (NI, Kind::Shared)]);
    assert!(system.home.is_busy() && system.llc_version() == Some(0));
    deliver(system, "1 -> home: Unblock(Some(v1))", &[]);
    assert!(!system.home.is_busy() && system.llc_version() == Some(1));
}

#[test]
fn figure_2b_the_ni_reads_a_wq_entry() {
    ni_reads(&mut edge());
}

#[test]
fn figure_2a_the_core_writes_a_wq_entry() {
    let mut system = edge();
    ni_reads(&mut system);
    // 1. The core asks the directory for the only copy.
    begin(&mut system, CORE, Op::Store, &["0 -> home: GetX"]);
    // 2. The directory invalidates the NI's copy, and at the same time sends the block to the core
    //    with word of one acknowledgement to wait for (MissNotify).
    let data = "home -> 0: Data { data: v1, grant: Exclusive, acks: 1, source: Home }";
    let inv = "home -> 1: Inv { to: Some(0) }";
    deliver(&mut system, "0 -> home: GetX", &[data, inv]);
    deliver(&mut system, data, &[inv]);
    assert_eq!(copies(&system), [(NI, Kind::Shared)], "the core waits");
    // 3. The NI acknowledges to the core, which resumes.
    deliver(&mut system, inv, &["1 -> 0: InvAck"]);
    assert_eq!(copies(&system), []);
    // 4. The core tells the directory.
    deliver(&mut system, "1 -> 0: InvAck", &["0 -> home: Unblock(None)"]);
    assert_eq!(copies(&system), [(CORE, Kind::Only)]);
    assert!(system.home.is_busy());
    deliver(&mut system, "0 -> home: Unblock(None)", &[]);
    assert!(system.is_quiescent() && system.home.directory() == Directory::Owned(CORE));
}

/// A cache that is asked for a block that it does not have says so, and what it was asked.
#[test]
#[should_panic(expected = "a private cache cannot take FwdGetS { to: 1 } in Block { state: I,")]
fn an_illegal_message_is_an_error() {
    let mut out = l1::Actions::new();
    let forward = Message::Forward(Forward::FwdGetS { to: NI });
    l1::Block::<Version>::new().message(forward, &mut out);
}

/// A pair whose NI has written a CQ entry.
fn cq_entry_written(pair: Node) -> System {
    let mut system = System::new(vec![pair]);
    system.begin(0, true, Op::Store);
    local(&mut system);
    assert_eq!(sent(&system), ["0 -> home: GetX"], "the first time, the home has to be asked");
    settle(&mut system);
    assert_eq!(ni_state(&system), pair::State::Plain(l1::State::M));
    system
}

/// Delivers what is on the wires inside of pair 0.
fn local(system: &mut System) {
    while let Some(up) = [false, true].into_iter().find(|&up| system.on_wire(0, up) > 0) {
        system.arrive(0, up, 0);
    }
}

/// Delivers everything, and counts the packets.
fn settle(system: &mut System) -> u32 {
    let mut packets = 0;
    loop {
        local(system);
        if system.reading {
            system.read_memory();
        }
        let next = system.network.iter().position(|packet| system.is_deliverable(packet));
        let Some(next) = next else { break };
        system.deliver(next);
        packets += 1;
    }
    assert!(system.is_quiescent() && system.broken.is_none(), "{system:?}");
    packets
}

fn ni_state(system: &System) -> pair::State {
    let Node::Pair { ni, .. } = &system.nodes[0] else { panic!("not a pair") };
    ni.state()
}

/// §3.4: the NI writes a CQ entry, the core reads it, and so on, and nobody else hears of it.
#[test]
fn cq_entries_go_through_the_owned_state() {
    let mut system = cq_entry_written(Node::pair(0, PLENTY, PLENTY));
    for _ in 0..3 {
        system.begin(0, false, Op::Load);
        assert_eq!(settle(&mut system), 0, "the core reads");
        assert_eq!(ni_state(&system), pair::State::Owned { dirty: true });
        assert_eq!(copies(&system), [(0, Kind::Shared), (0, Kind::Lent)]);
        system.begin(0, true, Op::Store);
        assert_eq!(settle(&mut system), 0, "the NI writes");
        assert_eq!(copies(&system), [(0, Kind::Only)]);
    }
    assert_eq!(system.llc_version(), Some(0), "all that time, the LLC is behind");
    system.begin(0, false, Op::Load);
    settle(&mut system);
    system.begin(0, true, Op::Evict);
    assert_eq!(settle(&mut system), 2, "PutM and its acknowledgement");
    assert_eq!((copies(&system), system.llc_version()), (vec![], Some(4)));
}

/// §3.4: without the owned state, the block has to be written back before the core can read it.
#[test]
fn cq_entries_are_written_back_without_the_owned_state() {
    let mut system = cq_entry_written(Node::plain_pair(0, PLENTY, PLENTY));
    system.begin(0, false, Op::Load);
    local(&mut system);
    assert_eq!(sent(&system), ["0 -> home: PutM(v1)"]);
    deliver(&mut system, "0 -> home: PutM(v1)", &["home -> 0: PutAck"]);
    deliver(&mut system, "home -> 0: PutAck", &["0 -> home: GetS"]);
    assert_eq!(settle(&mut system), 3, "GetS, Data and Unblock");
    assert_eq!(system.llc_version(), Some(1));
}

/// The mirror case, which the paper leaves out: the core writes WQ entries, the NI polls.
#[test]
fn wq_entries_stay_in_the_pair() {
    let mut system = System::new(vec![Node::pair(0, PLENTY, PLENTY)]);
    system.begin(0, false, Op::Store);
    settle(&mut system);
    for _ in 0..3 {
        system.begin(0, true, Op::Load);
        assert_eq!(settle(&mut system), 0, "the NI reads");
        assert_eq!(ni_state(&system), pair::State::Owned { dirty: true });
        system.begin(0, false, Op::Store);
        assert_eq!(settle(&mut system), 0, "the core writes");
        assert_eq!(ni_state(&system), pair::State::Plain(l1::State::I));
    }
}
