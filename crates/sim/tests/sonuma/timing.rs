//! The time of an RMC, from first principles.

use rackmem_abi::{Op, Packet, WqEntry};
use rackmem_rmc::Rights;
use rackmem_sim::engine::{Cycle, Random};
use rackmem_sim::sonuma::mmu::Space;
use rackmem_sim::sonuma::{Image, RmcSpec};

use super::fake::State;
use super::rack::{CoreQp, FabricSpec, LOCAL, Rack};

const SEGMENT_AT: u64 = 0x40_0000;
const BUFFERS_AT: u64 = 0x80_0000;
const BYTES: u64 = 64 << 10;

/// Two nodes that share context 0.
struct Pair {
    rack: Rack,
    spaces: [Space; 2],
}

impl Pair {
    fn new(specs: [RmcSpec; 2], latency: (u64, u64), fabric: FabricSpec) -> Pair {
        let mut rack = Rack::new(&specs, 2 << 20, latency, fabric, 1);
        let mut random = Random::new(1, 0);
        let spaces = std::array::from_fn(|index| {
            let node = &mut rack.nodes[index];
            let space = node.driver.new_space();
            let page = specs[index].page_bytes;
            node.map(space, SEGMENT_AT..SEGMENT_AT + BYTES, page, &mut random);
            node.map(space, BUFFERS_AT..BUFFERS_AT + BYTES, page, &mut random);
            node.driver.open(0, space, SEGMENT_AT, BYTES, &mut node.fake);
            space
        });
        Pair { rack, spaces }
    }

    /// Everything is in the L1s, modified, except what is not.
    fn warm(&mut self) {
        self.rack.nodes.iter_mut().for_each(|node| node.fake.warm());
    }

    fn qp(&mut self, node: usize) -> CoreQp {
        CoreQp::new(&mut self.rack, node, 0, 32, Rights::ReadWrite)
    }

    /// Runs until cycle `until`.
    fn run_until(&mut self, until: Cycle) {
        while self.rack.now < until {
            self.rack.begin();
            self.rack.end();
        }
    }

    /// Posts an entry now, and runs until its completion is written: that cycle.
    fn complete(&mut self, qp: &mut CoreQp, op: Op, length: u32) -> Cycle {
        qp.post(&mut self.rack, entry(op, length));
        qp.publish(&mut self.rack);
        let cq = qp.place.cq;
        let written = |rack: &Rack| -> u64 {
            (0..16).map(|word| rack.nodes[0].fake.read(cq + word * 8).count_ones() as u64).sum()
        };
        let before = written(&self.rack);
        let mut at = None;
        while at.is_none() || !self.rack.is_idle() {
            self.rack.begin();
            self.rack.end();
            assert!(self.rack.now < 1_000_000, "hangs");
            at = at.or((written(&self.rack) != before).then_some(self.rack.now));
        }
        let (_, status) = qp.poll(&mut self.rack).expect("a completion");
        assert_eq!(status, 0);
        // A core that polls takes the block; the next store is to find it here again.
        self.rack.nodes[0].fake.set(cq / 64, State::Modified);
        at.unwrap_or_default()
    }
}

fn entry(op: Op, length: u32) -> WqEntry {
    let op_code = op as u8;
    WqEntry { phase: false, op_code, dst_nid: 1, offset: 0, length, buffer: BUFFERS_AT }
}

/// Times from which the sums are made.
const HIT: u64 = 3;
const MISS: u64 = 90;
const FABRIC: u64 = 100;

/// A memory state whose block is in the L1: arbiter and MAQ take a cycle. Over the word-wide
/// interface each word but the first takes another.
const fn hit(words: u64) -> u64 {
    1 + HIT + words - 1
}

/// A memory state whose block is not: its answer comes with the block.
const fn miss() -> u64 {
    1 + MISS
}

/// Cycles of a store that is done when the MAQ has it.
const TAKEN: u64 = 1;
const L: u64 = 1;
const T: u64 = 1;

/// One state of a 64-byte read, at zero load.
struct Part {
    name: &'static str,
    cycles: u64,
}

/// | pipeline | state | cycles with an L1 hit |
/// |---|---|---|
/// | RGP | poll: the block has been written by the core, so it misses | 0, and a miss |
/// | RGP | check | 1 |
/// | RGP | begin: ITT entry | 1 (MAQ has it) |
/// | RGP | unroll, build | 1 + 1 |
/// | fabric | send to delivery | 100 |
/// | RRPP | decode | 1 |
/// | RRPP | context | 1 if the CT$ has it, else 4 |
/// | RRPP | address | 1 |
/// | RRPP | translate | 1 if the TLB has it, else 3 x 4 for the walk before |
/// | RRPP | read the line | 4, or a miss |
/// | RRPP | reply | 1 |
/// | fabric | send to delivery | 100 |
/// | RCP | fetch ITT entry (4 words) | 4 + 3 |
/// | RCP | check, with a look into the CT$ | 1, else 4 |
/// | RCP | translate | as above |
/// | RCP | store the line | 4, or a miss |
/// | RCP | progress (1 word) | 4 |
/// | RCP | count | 1 (MAQ has it) |
/// | RCP | complete: the store of the CQ entry reaches the L1 | 1 |
fn read_of_a_line(line: u64, buffer: u64, translate: u64, context: u64) -> Vec<Part> {
    let part = |name, cycles| Part { name, cycles };
    vec![
        part("poll", miss()),
        part("check", L),
        part("itt", TAKEN),
        part("unroll, build", L + L),
        part("fabric", FABRIC),
        part("decode", L),
        part("context", context),
        part("address", L),
        part("translate", translate),
        part("read", line),
        part("reply", L),
        part("fabric", FABRIC),
        part("fetch", hit(4)),
        part("check", context),
        part("translate", translate),
        part("store", buffer),
        part("progress", hit(1)),
        part("count", TAKEN),
        part("complete", TAKEN),
    ]
}

fn sum(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.cycles).sum()
}

fn listed(parts: &[Part]) -> String {
    parts.iter().map(|part| format!("{} {}\n", part.name, part.cycles)).collect()
}

/// The zero-load latency of a 64-byte read, from the turn of the poll that finds it to the store of
/// the CQ entry, is the sum of its states: with TLB and CT$ cold and with them warm, and with data
/// in the L1s and not.
#[test]
fn a_read_takes_the_sum_of_its_states() {
    let fabric = FabricSpec { latency: FABRIC, ..LOCAL };
    let spec = RmcSpec::default();
    for misses in [false, true] {
        let mut pair = Pair::new([spec.clone(), spec.clone()], (MISS, MISS), fabric);
        let mut qp = pair.qp(0);
        pair.warm();
        for is_cold in [true, false, false] {
            let data = [(1, SEGMENT_AT), (0, BUFFERS_AT)];
            for (node, virt) in data {
                let node_state = &mut pair.rack.nodes[node];
                let line = node_state.phys(pair.spaces[node], virt) / 64;
                node_state.fake.set(line, if misses { State::Invalid } else { State::Modified });
            }
            // Posted just before a turn of the poll.
            let turn = (pair.rack.now / 300 + 1) * 300;
            pair.run_until(turn - 1);
            let before = pair.rack.log.len();
            let done = pair.complete(&mut qp, Op::Read, 64);
            let access = if misses { miss() } else { hit(1) };
            // A walk has four levels; then the state T is done again.
            let translate = if is_cold { T + 4 * hit(1) } else { T };
            let context = if is_cold { hit(1) } else { L };
            let parts = read_of_a_line(access, access, translate, context);
            let log = &pair.rack.log[before..];
            let times: Vec<u64> = log.iter().map(|entry| entry.0 - turn).collect();
            assert_eq!(
                done - turn,
                sum(&parts),
                "cold {is_cold}, misses {misses}; sent at {times:?} of\n{}",
                listed(&parts)
            );
        }
    }
}

/// Little's law: as many lines are being read as the destination's MAQ has entries, so their rate is
/// entries by the time that a line is in the MAQ.
#[test]
fn lines_of_a_page_pipeline() {
    for entries in [8u32, 32] {
        let latency = 400;
        let far = RmcSpec { maq_entries: entries, ..RmcSpec::default() };
        let near = RmcSpec::default();
        let fabric = FabricSpec { latency: 50, ..LOCAL };
        let mut pair = Pair::new([near, far], (latency, latency), fabric);
        let mut qp = pair.qp(0);
        pair.warm();
        for line in 0..BYTES / 64 {
            let node = &mut pair.rack.nodes[1];
            let line = node.phys(pair.spaces[1], SEGMENT_AT + line * 64) / 64;
            node.fake.set(line, State::Invalid);
        }
        pair.complete(&mut qp, Op::Read, 8 << 10);
        let replies = |log: &[(Cycle, usize, Packet)]| -> Vec<Cycle> {
            log.iter().filter(|sent| sent.1 == 1).map(|sent| sent.0).collect()
        };
        let replies = replies(&pair.rack.log);
        assert_eq!(replies.len(), 128);
        assert_eq!(pair.rack.nodes[1].fake.peak_misses, entries as usize);
        // From the first line of the first batch to that of the last one.
        let batches = 128 / u64::from(entries);
        let measured = replies[128 - entries as usize] - replies[0];
        // A line is in the MAQ for its miss; in the cycle in which it goes, another one comes.
        assert_eq!(measured, (batches - 1) * latency, "{entries} entries");
    }
}

/// Without misses lines leave one a cycle: the RGP unrolls at that rate (Manycore NI §6.1.3).
#[test]
fn lines_are_unrolled_one_a_cycle() {
    let fabric = FabricSpec { latency: 50, ..LOCAL };
    let spec = RmcSpec::default();
    let mut pair = Pair::new([spec.clone(), spec], (MISS, MISS), fabric);
    let mut qp = pair.qp(0);
    pair.warm();
    pair.complete(&mut qp, Op::Read, 8 << 10);
    let sent: Vec<Cycle> =
        pair.rack.log.iter().filter(|sent| sent.1 == 0).map(|sent| sent.0).collect();
    assert_eq!(sent.len(), 128);
    // Once the first replies are under way the credits keep up, as do the pipelines behind them.
    assert_eq!(sent[127] - sent[0], 127);
}
