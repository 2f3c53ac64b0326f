//! Network interfaces at the edge without caches: they poll work queues in the homes, and write completions there. So
//! what an NI cache is worth can be measured: each look at a queue crosses the chip.

use std::collections::VecDeque;

use rackmem_abi::{Status, WQ_ENTRY_BYTES};
use rackmem_rmc::qp::Qp;
use rackmem_rmc::{QpConfig, Rights, rgp};

use super::backends::Backends;
use super::block::Block;
use super::front::CONTEXT;
use super::layout::{BLOCK_BYTES, Layout, Line, Part};
use super::message::Payload;
use super::ni::{Interface, Placement, Places, Side, Timer};
use super::probe::{Mark, ReadId, Stages};
use super::queue_pairs::EDGE;
use super::tile::Tile;
use super::wires::{Event, Wires};
use crate::coherence::{Message, Request, Response, Update};
use crate::figures::Figures;
use crate::machine::Machine;
use crate::statistics::Simulated;

/// A frontend looks at a queue pair, whose number goes with it.
const LOOK: u8 = 0;
/// It writes the next completion of one.
const COMPLETE: u8 = 1;

const READ: Message<Block> = Message::Request(Request::ReadOnce);

/// A queue pair at its frontend.
#[derive(Clone, Debug)]
struct Pair {
    state: Qp,
    /// Content of CQ entries: slot, status, bytes.
    done: VecDeque<(u16, Status, u32)>,
    is_writing: bool,
}

/// The interfaces of a chip.
#[derive(Clone, Debug)]
pub struct Uncached {
    backends: Backends,
    /// By core.
    pairs: Vec<Pair>,
    nodes: u16,
    /// Queue pairs of a frontend, which looks at one a cycle.
    turns: u64,
    rgp_cycles: u64,
    rcp_cycles: u64,
}

impl Uncached {
    /// Looks at a queue pair, unless all its slots are in use.
    fn look(&self, qp: u16, wires: &mut Wires) {
        let state = &self.pairs[usize::from(qp)].state;
        let next = state.next_entry();
        match state.is_outstanding(next.index) {
            true => due(qp, LOOK, self.turns, wires),
            false => send(qp, wires.layout.wq_line(qp, next.index), READ, wires),
        }
    }

    /// A block of a WQ has come.
    fn seen(&mut self, qp: u16, words: &[u64; 8], wires: &mut Wires) {
        let pair = &mut self.pairs[usize::from(qp)];
        let next = pair.state.next_entry();
        let at = next.index as usize * WQ_ENTRY_BYTES % BLOCK_BYTES as usize / 8;
        if let Some(entry) = rgp::accept([words[at], words[at + 1]], next.phase) {
            let read = ReadId { core: qp, slot: next.index as u16 };
            wires.probe.mark(read, Mark::WqInNi, wires.now);
            let work = rgp::check(&entry, self.nodes, pair.state.config().rights);
            let slot = pair.state.take_entry(work.is_ok());
            let engine = Part::Engine(wires.layout.engine_of_tile(qp));
            match work {
                Ok(work) => wires.hand(self.rgp_cycles, engine, Payload::Work { qp, slot, work }),
                Err(why) => self.complete(qp, (slot, why, 0), wires),
            }
        }
        due(qp, LOOK, self.turns, wires);
    }

    /// The backend has done with an entry.
    fn complete(&mut self, qp: u16, done: (u16, Status, u32), wires: &mut Wires) {
        let pair = &mut self.pairs[usize::from(qp)];
        pair.done.push_back(done);
        if pair.done.len() == 1 && !pair.is_writing {
            due(qp, COMPLETE, self.rcp_cycles, wires);
        }
    }

    /// Writes the next CQ entry.
    fn write(&mut self, qp: u16, wires: &mut Wires) {
        let pair = &mut self.pairs[usize::from(qp)];
        let Some((slot, status, bytes)) = pair.done.pop_front() else { return };
        let (position, word) = pair.state.complete(slot, status, bytes);
        pair.is_writing = true;
        let line = wires.layout.cq_line(qp, position);
        let change =
            Block::write(position as usize * 4 % BLOCK_BYTES as usize, &word.to_le_bytes());
        wires.probe.mark(ReadId { core: qp, slot }, Mark::CqWritten, wires.now);
        send(qp, line, Message::Request(Request::Update(Update::Modify(change))), wires);
    }

    /// A home answers.
    fn answered(&mut self, line: Line, response: Response<Block>, wires: &mut Wires) {
        let qp = wires.layout.owner_of(line);
        match response {
            Response::Data { data, .. } => {
                if response.read_needs_unblock() {
                    send(qp, line, Message::Response(Response::Unblock(None)), wires);
                }
                self.seen(qp, &data.words, wires);
            }
            Response::Updated(_) => {
                self.pairs[usize::from(qp)].is_writing = false;
                due(qp, COMPLETE, 1, wires);
            }
            other => panic!("a frontend got {other:?}"),
        }
    }
}

impl Interface for Uncached {
    const STATISTICS: &'static [Simulated] = &[Simulated::Workload];

    fn places(_placement: Placement) -> Places {
        Places { engines: Side::Edge, ni_caches: Side::Edge, frontends: Some(Side::Edge) }
    }

    fn stages(_placement: Placement) -> Option<Stages> {
        Some(EDGE)
    }

    fn new(nid: u16, nodes: u16, machine: &Machine, layout: &Layout) -> Uncached {
        let size = machine.ni.wq_entries;
        let config = QpConfig { ctx_id: CONTEXT, size, rights: Rights::ReadWrite };
        let state = Qp::new(config).expect("a checked queue size");
        let pair = Pair { state, done: VecDeque::new(), is_writing: false };
        Uncached {
            backends: Backends::new(nid, machine, layout),
            pairs: vec![pair; usize::from(layout.tiles)],
            nodes,
            turns: u64::from(layout.tiles / layout.units),
            rgp_cycles: machine.ni.rgp_frontend_cycles.into(),
            rcp_cycles: machine.ni.rcp_frontend_cycles.into(),
        }
    }

    fn start(&mut self, _tiles: &mut [Tile], wires: &mut Wires) {
        (0..wires.layout.tiles).for_each(|qp| due(qp, LOOK, self.turns, wires));
    }

    fn entry(&self, payload: &Payload, layout: &Layout) -> (Part, u64) {
        (self.backends.entry(payload, layout), 0)
    }

    fn receive(&mut self, to: Part, payload: Payload, _tiles: &mut [Tile], wires: &mut Wires) {
        match (to, payload) {
            (
                Part::NiCache(_),
                Payload::Coherence { line, message: Message::Response(response), .. },
            ) => self.answered(line, response, wires),
            (Part::NiCache(_), Payload::Completion { qp, slot, status, bytes }) => {
                self.complete(qp, (slot, status, bytes), wires);
            }
            (to, payload) => self.backends.receive(to, payload, wires),
        }
    }

    fn happen(&mut self, timer: Timer, _tiles: &mut [Tile], wires: &mut Wires) {
        match (timer.part, timer.what) {
            (Part::NiCache(_), LOOK) => self.look(timer.index as u16, wires),
            (Part::NiCache(_), _) => self.write(timer.index as u16, wires),
            _ => self.backends.happen(timer, wires),
        }
    }

    fn under_way(&self, _tiles: &[Tile]) -> Vec<String> {
        self.backends.under_way()
    }

    fn write_stats(&self, _tiles: &[Tile], _wires: &Wires, stats: &mut Figures) {
        self.backends.write_stats(stats);
    }
}

fn due(qp: u16, what: u8, delay: u64, wires: &mut Wires) {
    let timer = Timer { part: wires.layout.front_of(qp), what, index: qp.into() };
    wires.wheel.at(wires.now + delay.max(1), Event::Ni(timer));
}

fn send(qp: u16, line: Line, message: Message<Block>, wires: &mut Wires) {
    let unit = wires.layout.unit_of_tile(qp);
    let from = Some(wires.layout.party_of_ni_cache(unit));
    let home = Part::Home(wires.layout.home_of(line));
    wires.send(Part::NiCache(unit), home, Payload::Coherence { line, from, message });
}
