//! The worlds that are walked, and what must be reached in each.

use super::*;

fn completion(state: &State, wanted: fn(usize, CqEntry) -> bool) -> bool {
    let queues = state.rack.nodes.iter().flat_map(|node| node.mem.queues.iter().flatten());
    queues.into_iter().any(|queues| {
        let words = queues.cq.iter().enumerate().filter(|(_, word)| **word != 0);
        words.into_iter().any(|(position, &word)| wanted(position, CqEntry::decode(word)))
    })
}

fn is(entry: CqEntry, status: Status) -> bool {
    Status::from_code(entry.status_code) == Some(status)
}

const REORDERED: Goal = ("completions out of order", |_, state| {
    completion(state, |position, entry| position != usize::from(entry.slot))
});

const ITT_FULL: Goal = ("entry waits for the ITT", |world, state| {
    world.processes.iter().zip(&state.software).any(|(process, software)| {
        let rmc = &state.rack.nodes[process.nid].rmc;
        let qp = rmc.qp(software.qp).unwrap();
        rmc.itt().is_full()
            && software.posted > qp.in_flight()
            && qp.in_flight() == 0
            && software.consumed == 0
    })
});

const REQUEST_LANE_FULL: Goal = ("unrolling waits for the request lane", |world, state| {
    world.processes.iter().zip(&state.software).any(|(process, software)| {
        let rmc = &state.rack.nodes[process.nid].rmc;
        let unsent = rmc.qp(software.qp).unwrap().unsent();
        unsent.and_then(|(tid, _)| rmc.itt().get(tid)).is_some_and(|entry| {
            let lane = &state.rack.fabric.requests[usize::from(entry.dst_nid)];
            lane.len() == world.lane_capacity
        })
    })
});

const REPLY_LANE_FULL: Goal = ("request waits for the reply lane", |world, state| {
    state.rack.fabric.requests.iter().flatten().any(|request| {
        let lane = &state.rack.fabric.replies[usize::from(request.header.src_nid)];
        lane.len() == world.lane_capacity
    })
});

const SLOT_OUTSTANDING: Goal = ("entry waits for its slot", |world, state| {
    world.processes.iter().zip(&state.software).any(|(process, software)| {
        let node = &state.rack.nodes[process.nid];
        let qp = node.rmc.qp(software.qp).unwrap();
        let slot = qp.next_entry().index;
        let pending = &node.mem.queues[software.qp.index()].as_ref().unwrap().pending;
        qp.is_outstanding(slot) && pending[slot as usize] > 1
    })
});

const LATE_REPLY: Goal =
    ("reply is too late", |_, state| {
        state.rack.fabric.replies.iter().zip(&state.rack.nodes).any(|(lane, node)| {
            lane.iter().any(|reply| node.rmc.itt().get(reply.header.tid).is_none())
        })
    });

const ORPHAN_BESIDE_HEIR: Goal = ("orphan beside the next process's transfer", |_, state| {
    state.rack.nodes.iter().any(|node| {
        let orphans = node.rmc.itt().iter().filter(|entry| entry.qp.is_none()).count();
        orphans > 0 && orphans < node.rmc.itt().in_use() as usize
    })
});

const OUT_OF_SEGMENT: Goal =
    ("out of segment", |_, state| completion(state, |_, entry| is(entry, Status::OutOfSegment)));
const NO_CONTEXT: Goal =
    ("no context", |_, state| completion(state, |_, entry| is(entry, Status::NoContext)));
const NO_PERMISSION: Goal =
    ("no permission", |_, state| completion(state, |_, entry| is(entry, Status::NoPermission)));
const NO_NODE: Goal =
    ("no node", |_, state| completion(state, |_, entry| is(entry, Status::NoNode)));
const NODE_LOST: Goal =
    ("node lost", |_, state| completion(state, |_, entry| is(entry, Status::NodeLost)));
const BAD_LOCAL_BUFFER: Goal = ("bad local buffer", |_, state| {
    completion(state, |_, entry| is(entry, Status::BadLocalBuffer))
});
const MISALIGNED_ATOMIC: Goal = ("misaligned atomic", |_, state| {
    completion(state, |_, entry| is(entry, Status::MisalignedAtomic))
});
const BAD_OPERATION: Goal =
    ("bad operation", |_, state| completion(state, |_, entry| is(entry, Status::BadOperation)));

#[test]
fn two_nodes_use_each_other() {
    let script = |dst| vec![vec![read(dst), write(dst), add(dst)], vec![write(dst), swap(dst)]];
    let mut world = World::new(2, vec![process(0, script(1)), process(1, script(0))]);
    world.goals = vec![REORDERED, REQUEST_LANE_FULL, REPLY_LANE_FULL];
    check(world, 227_529);
}

#[test]
fn three_nodes_use_one_another() {
    // Node 2 also uses itself, through the network.
    let processes = vec![
        process(0, vec![vec![add(1), swap(2)], vec![write(2)]]),
        process(1, vec![vec![add(2), write(2)]]),
        process(2, vec![vec![add(1), swap(2)]]),
    ];
    let mut world = World::new(3, processes);
    world.goals = vec![REORDERED, REQUEST_LANE_FULL];
    check(world, 46_144);
}

#[test]
fn queue_pairs_share_the_itt() {
    let script = || vec![vec![write(1), add(1)], vec![swap(1)], vec![notify(1)]];
    let mut world = World::new(2, vec![process(0, script()), process(0, script())]);
    world.goals = vec![REORDERED, ITT_FULL, REQUEST_LANE_FULL, REPLY_LANE_FULL];
    check(world, 99_421);
}

#[test]
fn errors_in_the_queue_entry_are_reported_once() {
    let reader = Process {
        rights: Rights::ReadOnly,
        ..process(
            0,
            vec![vec![
                read(1),
                nop(1),
                expecting(Status::NoPermission, write(1)),
                expecting(Status::NoPermission, add(1)),
                expecting(Status::NoPermission, notify(1)),
            ]],
        )
    };
    let writer = process(
        0,
        vec![
            vec![
                expecting(Status::MisalignedAtomic, ok(Op::FetchAdd, 1, COUNTER + 4, 8)),
                expecting(Status::NoNode, read(2)),
                bad_operation(),
                write(1),
            ],
            vec![write(1), bad_operation()],
            vec![expecting(Status::NoNode, nop(4095))],
        ],
    );
    let mut world = World::new(2, vec![reader, writer]);
    world.goals = vec![REORDERED, NO_PERMISSION, NO_NODE, MISALIGNED_ATOMIC, BAD_OPERATION];
    check(world, 16_687);
}

#[test]
fn errors_of_single_lines_are_reported_once() {
    let stranger =
        Process { ctx_id: 1, ..process(0, vec![vec![expecting(Status::NoContext, read(1))]]) };
    let errors = vec![
        half_outside(Op::Read, 1),
        half_outside(Op::Write, 1),
        bad_buffer(ok(Op::Read, 1, WRITE, 8)),
        bad_buffer(write(1)),
    ];
    let writer = process(0, vec![errors, vec![read(1), bad_buffer(write(1))], vec![nop(1)]]);
    let mut world = World::new(2, vec![stranger, writer]);
    world.goals = vec![REORDERED, ITT_FULL, OUT_OF_SEGMENT, NO_CONTEXT, BAD_LOCAL_BUFFER];
    check(world, 13_151);
}

#[test]
fn a_lost_node_fails_its_transfers_only() {
    let processes = vec![
        process(0, vec![vec![add(2), read(2)], vec![write(2), write(1)], vec![add(2)]]),
        process(2, vec![vec![write(0)]]),
    ];
    let mut world = World::new(3, processes);
    world.mortal_node = Some(2);
    world.goals = vec![REORDERED, LATE_REPLY, NODE_LOST, REQUEST_LANE_FULL];
    check(world, 120_059);
}

#[test]
fn a_dead_process_leaves_nothing_behind() {
    let mortal = Process {
        deaths: 1,
        ..process(0, vec![vec![read(1), bad_buffer(write(1))], vec![write(1), add(1)]])
    };
    let mut world = World::new(2, vec![mortal, process(0, vec![vec![read(1)]])]);
    world.goals = vec![REORDERED, ORPHAN_BESIDE_HEIR, ITT_FULL];
    check(world, 134_382);
}

#[test]
fn hostile_software_harms_itself_only() {
    let hostile = Process {
        hostile: true,
        ..process(
            0,
            vec![vec![read(1), bad_operation()], vec![read(1)], vec![nop(1)], vec![add(1)]],
        )
    };
    let mut world = World::new(2, vec![hostile, process(0, vec![vec![read(1)]])]);
    world.goals = vec![SLOT_OUTSTANDING, ITT_FULL];
    check(world, 29_405);
}

#[test]
fn lanes_in_a_fixed_order_do_not_block_either() {
    let script = |dst| vec![vec![write(dst)], vec![read(dst)], vec![read(dst)]];
    let mut world = World::new(2, vec![process(0, script(1)), process(1, script(0))]);
    world.lane_capacity = 1;
    world.reorders = false;
    world.goals = vec![REQUEST_LANE_FULL, REPLY_LANE_FULL];
    check(world, 3_600);
}

/// A read is one packet that covers two lines, a write two packets that cover one each, in blocks of two lines.
#[test]
fn wide_links_do_the_same() {
    let script = |dst| vec![vec![read(dst), write(dst), add(dst)], vec![write(dst), swap(dst)]];
    let mut world = World::new(2, vec![process(0, script(1)), process(1, script(0))]);
    world.unit = 2 * LINE_BYTES;
    world.goals = vec![REORDERED, REQUEST_LANE_FULL, REPLY_LANE_FULL];
    check(world, 149_769);
}

/// Half of a block lies outside the segment: the packet is refused as a whole.
#[test]
fn errors_on_wide_links_are_reported_once() {
    let errors = vec![
        half_outside(Op::Read, 1),
        half_outside(Op::Write, 1),
        bad_buffer(ok(Op::Read, 1, WRITE, 8)),
        bad_buffer(write(1)),
    ];
    let writer = process(0, vec![errors, vec![read(1), bad_buffer(write(1))], vec![nop(1)]]);
    let mut world = World::new(2, vec![writer]);
    world.unit = 2 * LINE_BYTES;
    world.goals = vec![REORDERED, OUT_OF_SEGMENT, BAD_LOCAL_BUFFER];
    check(world, 315);
}

/// The reason for two lanes (soNUMA §6): with one lane for both kinds of packet, requests fill it
/// and keep out the replies that would drain it. And a proof that the checker would notice.
#[test]
fn one_lane_deadlocks() {
    let script = |dst| vec![vec![nop(dst)], vec![nop(dst)]];
    let mut world = World::new(2, vec![process(0, script(1)), process(1, script(0))]);
    world.lane_capacity = 1;
    check(world.clone(), 361);
    world.one_lane = true;
    let checker = world.checker().spawn_bfs().join();
    let path = checker.discovery("all is done").expect("a deadlock");
    let Rack { fabric, nodes } = &path.last_state().rack;
    assert!(fabric.requests.iter().all(|lane| lane.len() == 1), "each lane holds a request");
    assert!(nodes.iter().all(|node| !node.rmc.is_quiescent()), "and nobody gets a reply");
}
