//! Model checking: every interleaving of software, pipelines, reordering lanes, node loss and
//! process death, over racks of two and three nodes that run the very controllers of this crate.
//!
//! Each step consumes something that is never given back (an entry of a script, a line to send, a
//! packet, a completion, a life), so there are no cycles: a run that never gets stuck completes.
//!
//! The numbers of states are pinned. A change of the protocol changes them; then look at why.

mod worlds;

use rackmem_abi::{CqEntry, LINE_BYTES, Op, Status, WqEntry};
use rackmem_rmc::{QpId, Rights};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::rig::{BUFFER, CTX, Rack};

/// Entries of every queue, and of every ITT.
const SIZE: u32 = 2;

/// Local buffer per slot; after the slots come 4 more valid bytes, see [`bad_buffer`].
const SLOT_BYTES: u64 = 16;
const BUFFER_BYTES: usize = SIZE as usize * SLOT_BYTES as usize + 4;

// A segment of three lines. Reads and writes cover 8 bytes across a line boundary, thus two lines.
const SEGMENT_BYTES: usize = 192;
const COUNTER: u64 = 0;
const LOCK: u64 = 8;
const READ: u64 = 60;
const WRITE: u64 = 124;
const HALF_OUTSIDE: u64 = 188;
const PATTERN: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// An entry that software may post, and its status if the destination lives.
#[derive(Clone, Copy, Debug)]
struct Post {
    entry: WqEntry,
    expect: Status,
}

/// An entry that uses the local buffer of its slot.
const fn ok(op: Op, dst_nid: u16, offset: u64, length: u32) -> Post {
    let entry = WqEntry { phase: false, op_code: op as u8, dst_nid, offset, length, buffer: 0 };
    Post { entry, expect: Status::Ok }
}

const fn read(dst_nid: u16) -> Post {
    ok(Op::Read, dst_nid, READ, 8)
}

const fn write(dst_nid: u16) -> Post {
    ok(Op::Write, dst_nid, WRITE, 8)
}

const fn add(dst_nid: u16) -> Post {
    ok(Op::FetchAdd, dst_nid, COUNTER, 8)
}

const fn swap(dst_nid: u16) -> Post {
    ok(Op::CompareSwap, dst_nid, LOCK, 8)
}

const fn nop(dst_nid: u16) -> Post {
    ok(Op::Nop, dst_nid, 0, 0)
}

const fn notify(dst_nid: u16) -> Post {
    ok(Op::Notify, dst_nid, 0, 0)
}

const fn expecting(expect: Status, post: Post) -> Post {
    Post { expect, ..post }
}

/// The second of the two lines is outside the segment.
const fn half_outside(op: Op, dst_nid: u16) -> Post {
    expecting(Status::OutOfSegment, ok(op, dst_nid, HALF_OUTSIDE, 8))
}

/// The local buffer ends between the two lines. The valid part is shared by all such entries, so a
/// read goes where only equal bytes are written.
const fn bad_buffer(mut post: Post) -> Post {
    post.entry.buffer = BUFFER + SIZE as u64 * SLOT_BYTES;
    expecting(Status::BadLocalBuffer, post)
}

const fn bad_operation() -> Post {
    let mut post = nop(1);
    post.entry.op_code = 7;
    expecting(Status::BadOperation, post)
}

/// A process with a queue pair. `script[n]` are the alternatives for its n-th entry.
#[derive(Clone, Debug)]
struct Process {
    nid: usize,
    ctx_id: u16,
    rights: Rights,
    script: Vec<Vec<Post>>,
    /// Does not wait for slots: overwrites an entry as soon as the RGP has taken it.
    hostile: bool,
    /// Times that it may be killed; another process with the same script follows.
    deaths: u8,
}

fn process(nid: usize, script: Vec<Vec<Post>>) -> Process {
    Process { nid, ctx_id: CTX, rights: Rights::ReadWrite, script, hostile: false, deaths: 0 }
}

type Goal = (&'static str, fn(&World, &State) -> bool);

#[derive(Clone, Debug)]
struct World {
    nodes: u16,
    lane_capacity: usize,
    one_lane: bool,
    /// Lanes deliver what they hold in any order, or in a fixed one.
    reorders: bool,
    /// Unit of the links, in bytes.
    unit: usize,
    processes: Vec<Process>,
    mortal_node: Option<usize>,
    /// Interesting states that must be among those reached.
    goals: Vec<Goal>,
}

impl World {
    fn new(nodes: u16, processes: Vec<Process>) -> Self {
        Self {
            nodes,
            lane_capacity: 2,
            one_lane: false,
            reorders: true,
            unit: LINE_BYTES,
            processes,
            mortal_node: None,
            goals: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Software {
    qp: QpId,
    posted: u32,
    consumed: u32,
    /// Per slot, the entry of the script in flight, and its alternative.
    slots: [Option<(u8, u8)>; SIZE as usize],
    deaths: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    rack: Rack,
    software: Vec<Software>,
    /// Per node, whether it knows that the mortal one is lost.
    told: Vec<bool>,
    /// Per node, successful fetch-and-adds and winning compare-and-swaps on it.
    added: Vec<u64>,
    won: Vec<u64>,
    /// The first promise to software that was broken.
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Post { process: usize, choice: usize },
    Consume { process: usize },
    Kill { process: usize },
    Rgp { nid: usize },
    Rrpp { nid: usize, pick: usize },
    Rcp { nid: usize, pick: usize },
    Lose { nid: usize },
    Tell { nid: usize, lost: u16 },
}

impl World {
    fn can_post(&self, state: &State, process: usize) -> bool {
        let Process { nid, ref script, hostile, .. } = self.processes[process];
        let software = &state.software[process];
        if software.posted as usize == script.len() {
            return false;
        }
        if !hostile {
            return software.slots[(software.posted % SIZE) as usize].is_none();
        }
        let next = state.rack.nodes[nid].rmc.qp(software.qp).unwrap().next_entry();
        let taken = next.index + if next.phase { 0 } else { SIZE };
        (2 * SIZE + software.posted % (2 * SIZE) - taken) % (2 * SIZE) < SIZE
    }

    fn post(&self, state: &mut State, process: usize, choice: usize) {
        let Process { nid, ref script, hostile, .. } = self.processes[process];
        let software = &mut state.software[process];
        let mut entry = script[software.posted as usize][choice].entry;
        let slot = software.posted % SIZE;
        if entry.buffer == 0 {
            let start = u64::from(slot) * SLOT_BYTES;
            entry.buffer = BUFFER + start;
            let buffer = state.rack.node(nid).mem.queues(software.qp).buffer.bytes_mut();
            let buffer = &mut buffer[start as usize..][..SLOT_BYTES as usize];
            buffer.fill(0);
            match Op::from_code(entry.op_code) {
                Some(Op::Write) => buffer[..8].fill(mark(process, software.posted)),
                Some(Op::FetchAdd) => buffer[0] = 1,
                Some(Op::CompareSwap) => buffer[8] = mark(process, software.posted),
                _ => {}
            }
        }
        state.rack.post(nid, software.qp, software.posted, entry);
        if !hostile {
            software.slots[slot as usize] = Some((software.posted as u8, choice as u8));
        }
        software.posted += 1;
    }

    /// Software reads its next completion and compares it with what it was promised.
    fn consume(&self, state: &mut State, process: usize) -> bool {
        let Process { nid, ref script, .. } = self.processes[process];
        let software = &mut state.software[process];
        let completion = state.rack.completion(nid, software.qp, software.consumed);
        let Some((slot, status)) = completion else {
            return false;
        };
        let position = software.consumed % SIZE;
        software.consumed += 1;
        let Some((count, choice)) = software.slots[usize::from(slot)].take() else {
            state.broken = Some("completion of a free slot");
            return true;
        };
        let Post { entry, expect } = script[usize::from(count)][usize::from(choice)];
        let dst = usize::from(entry.dst_nid);
        let lost = dst < usize::from(self.nodes) && !state.rack.fabric.up[dst];
        if status != expect && !(lost && status == Status::NodeLost) {
            state.broken = Some("wrong status");
        }
        if status == Status::Ok {
            let start = usize::from(slot) * SLOT_BYTES as usize;
            let buffer = &state.rack.node(nid).mem.queues(software.qp).buffer;
            let old = buffer.word(start);
            match Op::from_code(entry.op_code).unwrap() {
                Op::Read if buffer.bytes()[start..start + 8] != PATTERN => {
                    state.broken = Some("wrong data");
                }
                Op::FetchAdd => state.added[dst] += 1,
                Op::CompareSwap => state.won[dst] += u64::from(old == 0),
                _ => {}
            }
        }
        // Completed operations are forgotten, except for the phases: they would only distinguish
        // states that have the same future.
        let queues = state.rack.node(nid).mem.queues(software.qp);
        let start = usize::from(slot) * SLOT_BYTES as usize;
        queues.buffer.bytes_mut()[start..start + SLOT_BYTES as usize].fill(0);
        queues.wq[usize::from(slot)] = queues.wq[usize::from(slot)].map(|word| word & 1);
        let old = CqEntry::decode(queues.cq[position as usize]);
        queues.cq[position as usize] =
            CqEntry { phase: old.phase, slot: position as u16, status_code: 0 }.encode();
        true
    }

    /// All that was asked for is done and nothing is left over.
    fn is_complete(&self, state: &State) -> bool {
        let fabric = &state.rack.fabric;
        let nodes = state.rack.nodes.iter().enumerate().all(|(nid, node)| {
            !fabric.up[nid]
                || node.rmc.is_quiescent()
                    && fabric.requests[nid].is_empty()
                    && fabric.replies[nid].is_empty()
                    && state.told[nid] == fabric.up.contains(&false)
        });
        let software = self.processes.iter().zip(&state.software).all(|(process, software)| {
            let queues = &state.rack.nodes[process.nid].mem.queues[software.qp.index()];
            !fabric.up[process.nid]
                || software.posted as usize == process.script.len()
                    && software.slots.iter().all(Option::is_none)
                    && queues.as_ref().unwrap().pending.iter().all(|&pending| pending == 0)
        });
        nodes && software
    }

    /// Whether every line of every transfer is in exactly one place: not yet sent, a request, or a
    /// reply. So each request gets exactly one reply, and no ITT entry outlives its lines.
    fn lines_are_conserved(&self, state: &State) -> bool {
        let Rack { nodes, fabric } = &state.rack;
        let up = |nid: u16| fabric.up[usize::from(nid)];
        for node in nodes.iter().filter(|node| up(node.rmc.nid())) {
            let (rmc, nid) = (&node.rmc, node.rmc.nid());
            let mine = |process: &&Software| rmc.qp(process.qp).is_some();
            let processes = self.processes.iter().zip(&state.software);
            let qps: Vec<_> = processes
                .filter(|(process, _)| process.nid == usize::from(nid))
                .map(|(_, software)| software)
                .filter(mine)
                .map(|software| software.qp)
                .collect();
            for entry in rmc.itt().iter().filter(|entry| up(entry.dst_nid)) {
                let tid = entry.tid();
                let unsent: u32 = qps
                    .iter()
                    .filter_map(|&qp| rmc.qp(qp).unwrap().unsent())
                    .map(|(of, lines)| if of == tid { lines } else { 0 })
                    .sum();
                let requests = fabric.requests[usize::from(entry.dst_nid)]
                    .iter()
                    .filter(|request| (request.header.src_nid, request.header.tid) == (nid, tid));
                let replies = fabric.replies[usize::from(nid)].iter().filter(|reply| {
                    (reply.header.src_nid, reply.header.tid) == (entry.dst_nid, tid)
                });
                if entry.remaining() != unsent + (requests.count() + replies.count()) as u32 {
                    return false;
                }
            }
            let known = |tid, peer| !up(peer) || rmc.itt().get(tid).is_some();
            let requests = fabric.requests.iter().flatten().map(|request| request.header);
            let sent = requests.filter(|header| header.src_nid == nid && up(header.dst_nid));
            let received = fabric.replies[usize::from(nid)].iter().map(|reply| reply.header);
            if !sent.into_iter().all(|header| known(header.tid, header.dst_nid))
                || !received.into_iter().all(|header| known(header.tid, header.src_nid))
            {
                return false;
            }
            let in_flight = |qp| rmc.itt().iter().filter(|entry| entry.qp == Some(qp)).count();
            if rmc.itt().iter().count() != rmc.itt().in_use() as usize
                || qps.iter().any(|&qp| rmc.in_flight(qp) != Some(in_flight(qp) as u32))
            {
                return false;
            }
        }
        true
    }

    fn atomics_add_up(&self, state: &State) -> bool {
        // A process that dies, or does not look, may have added without having seen it.
        let all_seen =
            state.rack.fabric.up.iter().all(|&up| up)
                && self.processes.iter().zip(&state.software).all(|(process, software)| {
                    process.deaths == software.deaths && !process.hostile
                });
        !self.is_complete(state)
            || state.rack.nodes.iter().enumerate().all(|(nid, node)| {
                let counter = node.mem.segment().word(COUNTER as usize);
                let winner = node.mem.segment().word(LOCK as usize);
                let (added, won) = (state.added[nid], state.won[nid]);
                if all_seen {
                    counter == added && won == u64::from(winner != 0)
                } else {
                    counter >= added && won <= u64::from(winner != 0)
                }
            })
    }

    /// Each half of the written range is one line: it comes from one write as a whole.
    fn lines_are_not_torn(&self, state: &State) -> bool {
        state.rack.nodes.iter().all(|node| {
            let written = &node.mem.segment().bytes()[WRITE as usize..WRITE as usize + 8];
            written.chunks(4).all(|half| half.iter().all(|byte| byte == &half[0]))
        })
    }
}

/// The byte that tells who wrote.
fn mark(process: usize, count: u32) -> u8 {
    (process as u8 + 1) * 16 + count as u8
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut rack =
            Rack::new(self.nodes, SIZE, self.lane_capacity, SEGMENT_BYTES).with_unit(self.unit);
        rack.fabric.one_lane = self.one_lane;
        for nid in 0..usize::from(self.nodes) {
            rack.node(nid).mem.segment_mut().bytes_mut()[READ as usize..][..8]
                .copy_from_slice(&PATTERN);
        }
        let software = self
            .processes
            .iter()
            .map(|process| Software {
                qp: rack.add_qp(process.nid, process.ctx_id, SIZE, process.rights, BUFFER_BYTES),
                posted: 0,
                consumed: 0,
                slots: [None; SIZE as usize],
                deaths: process.deaths,
            })
            .collect();
        let nodes = usize::from(self.nodes);
        vec![State {
            rack,
            software,
            told: vec![false; nodes],
            added: vec![0; nodes],
            won: vec![0; nodes],
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // A complete state stays so: no process dies any more.
        if self.is_complete(state) {
            return;
        }
        let fabric = &state.rack.fabric;
        for (process, Process { nid, script, hostile, .. }) in self.processes.iter().enumerate() {
            if !fabric.up[*nid] {
                continue;
            }
            if self.can_post(state, process) {
                let alternatives = script[state.software[process].posted as usize].len();
                actions.extend((0..alternatives).map(|choice| Action::Post { process, choice }));
            }
            if !hostile {
                actions.push(Action::Consume { process });
            }
            if state.software[process].deaths > 0 {
                actions.push(Action::Kill { process });
            }
        }
        let picks = |lane: usize| 0..if self.reorders { lane } else { lane.min(1) };
        let lost = fabric.up.iter().position(|&up| !up);
        for nid in (0..usize::from(self.nodes)).filter(|&nid| fabric.up[nid]) {
            actions.push(Action::Rgp { nid });
            let requests = picks(fabric.requests[nid].len());
            actions.extend(requests.map(|pick| Action::Rrpp { nid, pick }));
            let replies = picks(fabric.replies[nid].len());
            actions.extend(replies.map(|pick| Action::Rcp { nid, pick }));
            if self.mortal_node == Some(nid) {
                actions.push(Action::Lose { nid });
            }
            match lost {
                Some(lost) if !state.told[nid] => {
                    actions.push(Action::Tell { nid, lost: lost as u16 });
                }
                _ => {}
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let rack = &mut state.rack;
        let moved = match action {
            Action::Post { process, choice } => {
                self.post(&mut state, process, choice);
                true
            }
            Action::Consume { process } => self.consume(&mut state, process),
            Action::Kill { process } => {
                let Process { nid, ctx_id, rights, .. } = self.processes[process];
                let software = &mut state.software[process];
                rack.remove_qp(nid, software.qp);
                *software = Software {
                    qp: rack.add_qp(nid, ctx_id, SIZE, rights, BUFFER_BYTES),
                    posted: 0,
                    consumed: 0,
                    slots: [None; SIZE as usize],
                    deaths: software.deaths - 1,
                };
                true
            }
            Action::Rgp { nid } => rack.rgp(nid, 1) > 0,
            Action::Rrpp { nid, pick } => {
                let requests = rack.fabric.requests[nid].len();
                let replies: usize = rack.fabric.replies.iter().map(Vec::len).sum();
                let wanted = usize::from(rack.fabric.requests[nid][pick].header.src_nid);
                let wanted = usize::from(rack.fabric.up[wanted]);
                let moved = rack.rrpp(nid, pick);
                let new_replies = rack.fabric.replies.iter().map(Vec::len).sum::<usize>() - replies;
                if rack.fabric.requests[nid].len() != requests - moved
                    || new_replies != moved * wanted
                {
                    state.broken = Some("not one reply per request");
                }
                moved > 0
            }
            Action::Rcp { nid, pick } => {
                let moved = rack.rcp(nid, pick) > 0;
                if !moved {
                    state.broken = Some("a reply was blocked");
                }
                moved
            }
            Action::Lose { nid } => {
                rack.fabric.lose(nid);
                true
            }
            Action::Tell { nid, lost } => {
                rack.fail_node(nid, lost);
                state.told[nid] = true;
                true
            }
        };
        if !moved && state != *last {
            state.broken = Some("a change without a step");
            return Some(state);
        }
        moved.then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("nothing else is touched", |_, state: &State| {
                state.rack.fault().is_none()
            }),
            Property::always("promises to software", |_, state: &State| state.broken.is_none()),
            Property::always("each line is in one place", World::lines_are_conserved),
            Property::always("lines are not torn", World::lines_are_not_torn),
            Property::always("atomics add up", World::atomics_add_up),
            Property::eventually("all is done", World::is_complete),
        ];
        let goals = self.goals.iter().map(|&(name, reached)| Property::sometimes(name, reached));
        properties.extend(goals);
        properties
    }
}

/// Checks a world to the end; it must hold and have this many states.
fn check(world: World, states: usize) {
    let first_failure = HasDiscoveries::AnyFailures;
    let checker = world.checker().finish_when(first_failure).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states, "number of states");
}
