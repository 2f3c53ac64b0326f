//! Two RMCs under random operations: every byte is checked, nothing hangs, nothing is left.

use rackmem_abi::{CqEntry, Op, Status, WqEntry};
use rackmem_rmc::Rights;
use rackmem_sim::engine::Random;
use rackmem_sim::sonuma::mmu::Space;
use rackmem_sim::sonuma::{Lane, RmcSpec};

use super::oracle::{BUFFERS, Operation, Oracle, Pages, Region, SEGMENT};
use super::rack::{CoreQp, FabricSpec, Log, Node, Rack};

const MEMORY: u64 = 4 << 20;
/// Address of segments: at a line, but not at a page.
const SEGMENT_AT: u64 = 0x40_0040;
const BUFFERS_AT: u64 = 0x80_0000;
/// Contexts: two that both nodes have joined, and one without segments.
const JOINED: [bool; 3] = [true, false, true];

#[derive(Clone)]
struct Setting {
    seed: u64,
    specs: [RmcSpec; 2],
    fabric: FabricSpec,
    latency: (u64, u64),
    pairs: u16,
    operations: usize,
    skips: bool,
    awake: bool,
    hostile: bool,
}

/// The part of a run's result that must be the same in another run of its kind.
#[derive(Debug, PartialEq)]
struct Outcome {
    log: Log,
    end: u64,
    stats: String,
}

struct Run {
    rack: Rack,
    oracle: Oracle,
    spaces: Vec<Vec<Space>>,
    pairs: Vec<(CoreQp, usize, Vec<Option<Operation>>)>,
    random: Random,
    seed: u64,
    ticks: u64,
}

fn setting(seed: u64) -> Setting {
    let mut spec = RmcSpec::default();
    let mut random = Random::new(seed, 3);
    if seed % 3 == 1 {
        // Everything is small, so that everything is full at times.
        spec = RmcSpec {
            maq_entries: 3 + random.below(4) as u32,
            l1_mshrs: 1 + random.below(4) as u32,
            l1_ports: 1,
            tlb_entries: 2,
            walks: 1 + random.below(2) as u32,
            page_bytes: 4096,
            ct_cache_entries: 1,
            itt_entries: 1 << random.below(3),
            rgp_entries: 1,
            rgp_transfers: 1 + random.below(2) as u32,
            rgp_lines: 1 + random.below(3) as u32,
            rrpp_requests: 1 + random.below(3) as u32,
            rcp_replies: 1 + random.below(3) as u32,
            lane_credits: 1 + random.below(2) as u32,
            ..spec
        };
    } else if seed % 3 == 2 {
        spec = RmcSpec { itt_entries: 16, maq_entries: 64, l1_mshrs: 48, word_bytes: 16, ..spec };
    }
    Setting {
        seed,
        specs: [spec.clone(), spec],
        fabric: FabricSpec {
            latency: 20,
            jitter: seed % 2 * 50,
            window: 2 + seed as usize % 5 * 8,
        },
        latency: [(1, 3), (1, 300), (40, 60)][seed as usize % 3],
        pairs: 1 + random.below(8) as u16,
        operations: 600,
        skips: true,
        awake: false,
        hostile: seed % 4 > 0,
    }
}

impl Run {
    fn new(setting: &Setting) -> Run {
        let Setting { seed, specs, fabric, latency, pairs, .. } = setting;
        let mut random = Random::new(*seed, 0);
        let mut rack = Rack::new(specs, MEMORY, *latency, *fabric, *seed);
        rack.skips = setting.skips;
        let page = specs[0].page_bytes;
        let pages = Pages { page, hole: 2, read_only: 5 };
        let oracle = Oracle::new(2, JOINED.to_vec(), pages, &mut random);
        let mut spaces = Vec::new();
        for index in 0..2 {
            let node = &mut rack.nodes[index];
            let mut of_node = Vec::new();
            for (ctx, joined) in JOINED.into_iter().enumerate() {
                let space = node.driver.new_space();
                of_node.push(space);
                node.map(space, BUFFERS_AT..BUFFERS_AT + BUFFERS, page, &mut random);
                node.map(space, SEGMENT_AT..SEGMENT_AT + SEGMENT, page, &mut random);
                let [buffers, segment] = &oracle.bytes[index][ctx];
                node.write(space, BUFFERS_AT, buffers);
                node.write(space, SEGMENT_AT, segment);
                node.driver.unmap(space, BUFFERS_AT + pages.hole * page, 0, &mut node.fake);
                let read_only = BUFFERS_AT + pages.read_only * page;
                let phys = node.phys(space, read_only);
                node.driver.map(space, read_only, phys, 0, Rights::ReadOnly, &mut node.fake);
                match joined {
                    true => {
                        node.driver.open(ctx as u16, space, SEGMENT_AT, SEGMENT, &mut node.fake)
                    }
                    false => {
                        node.driver.join(ctx as u16, space, Err(Status::NoContext), &mut node.fake)
                    }
                }
            }
            spaces.push(of_node);
        }
        let mut all = Vec::new();
        for index in 0..*pairs {
            for node in 0..2 {
                let ctx = usize::from(index) % JOINED.len();
                let size = [1, 3, 8, 32, 128][random.below(5) as usize];
                let qp = CoreQp::new(&mut rack, node, ctx as u16, size, Rights::ReadWrite);
                all.push((qp, ctx, vec![None; size.into()]));
            }
        }
        for (index, node) in rack.nodes.iter_mut().enumerate() {
            if setting.awake {
                node.rmc.keep_awake();
            }
            if setting.hostile {
                node.fake.make_hostile(*seed + index as u64);
            }
        }
        Run { rack, oracle, spaces, pairs: all, random, seed: *seed, ticks: 0 }
    }

    fn all(mut self, operations: usize, ended: &mut [u32]) -> (Outcome, Rack) {
        let (mut posted, mut done, mut quiet) = (0, 0, 0);
        while done < operations || !self.rack.is_idle() {
            if done == operations {
                self.rack.nodes.iter_mut().for_each(|node| node.fake.make_calm());
            }
            self.rack.begin();
            quiet += 1;
            assert!(quiet < 200_000, "seed {}: hangs after {done} of {posted}", self.seed);
            for index in 0..self.pairs.len() {
                if self.random.below(2) == 0 {
                    self.pairs[index].0.publish(&mut self.rack);
                }
                if posted < operations && self.post(index) {
                    posted += 1;
                }
                if self.random.below(8) == 0
                    && let Some(status) = self.poll(index)
                {
                    ended[status as usize] += 1;
                    done += 1;
                    quiet = 0;
                }
            }
            self.rack.end();
        }
        self.check_all();
        let mut stats = String::new();
        for node in &self.rack.nodes {
            let rmc = &node.rmc;
            stats += &format!(
                "{:?} {:?} {:?} {:?} {} {}\n",
                rmc.stats(),
                rmc.maq_stats(),
                rmc.mmu_stats(),
                rmc.context_hits_and_misses(),
                node.fake.misses,
                node.fake.peak_misses
            );
        }
        self.ticks = self.rack.ticks;
        let log = std::mem::take(&mut self.rack.log);
        (Outcome { log, end: self.rack.now, stats }, self.rack)
    }

    fn post(&mut self, index: usize) -> bool {
        let Run { rack, oracle, pairs, random, .. } = self;
        let (qp, ctx, operations) = &mut pairs[index];
        if random.below(30) > 0 {
            return false;
        }
        let Some(slot) = qp.slot() else { return false };
        let Some(operation) = oracle.invent(qp.node, *ctx, random) else { return false };
        let Operation { op, dst, offset, length, buffer, .. } = operation;
        let entry = WqEntry {
            phase: false,
            op_code: op as u8,
            dst_nid: dst,
            offset,
            length,
            buffer: BUFFERS_AT + buffer,
        };
        qp.post(rack, entry);
        operations[slot] = Some(operation);
        true
    }

    fn poll(&mut self, index: usize) -> Option<Status> {
        let Run { rack, oracle, pairs, spaces, .. } = self;
        let (qp, _, operations) = &mut pairs[index];
        let (slot, code) = qp.poll(rack)?;
        let operation = operations[slot].take().expect("an operation that was posted");
        let status = Status::from_code(code).expect("a status");
        let rack = &*rack;
        oracle
            .finish(&operation, status, |region, at, bytes| read(rack, spaces, region, at, bytes));
        Some(status)
    }

    fn check_all(&self) {
        // A stage serves one transaction a cycle, so each lane gets one packet.
        let of = |sent: &(u64, usize, _)| (sent.0, sent.1, Lane::of(&sent.2) as usize);
        let mut sent: Vec<_> = self.rack.log.iter().map(of).collect();
        sent.sort_unstable();
        assert!(sent.is_sorted_by(|one, other| one < other), "two packets in a cycle");
        for node in 0..2 {
            for ctx in 0..JOINED.len() {
                for is_segment in [false, true] {
                    let region = Region { node, ctx, is_segment };
                    let expected = self.oracle.region(region);
                    let page = self.oracle.pages.page as usize;
                    let hole = self.oracle.pages.hole as usize * page;
                    let behind = if is_segment { hole } else { hole + page };
                    for range in [0..hole, behind..expected.len()] {
                        let found =
                            read(&self.rack, &self.spaces, region, range.start as u64, range.len());
                        assert!(found == expected[range], "seed {}: {region:?}", self.seed);
                    }
                }
            }
        }
        for node in &self.rack.nodes {
            let stats = node.rmc.stats();
            assert_eq!(stats.stale_replies, 0);
            assert_eq!(stats.requests, stats.replies, "one reply for each request");
            let credits = [Lane::Request, Lane::Reply].map(|lane| node.rmc.credits(lane));
            assert_eq!(credits[0], credits[1], "all credits have come back");
        }
    }
}

fn read(rack: &Rack, spaces: &[Vec<Space>], region: Region, at: u64, bytes: usize) -> Vec<u8> {
    let Region { node, ctx, is_segment } = region;
    let base = if is_segment { SEGMENT_AT } else { BUFFERS_AT };
    rack.nodes[node].read(spaces[node][ctx], base + at, bytes)
}

fn outcome(setting: &Setting) -> (Outcome, Rack) {
    Run::new(setting).all(setting.operations, &mut [0; Status::ALL.len()])
}

#[test]
fn random_operations_do_what_they_say() {
    let (mut itt_stalls, mut request_stalls, mut reply_stalls) = (0, 0, 0);
    let mut ended = [0; Status::ALL.len()];
    for seed in 0..12 {
        let setting = setting(seed);
        let run = Run::new(&setting);
        let (_, rack) = run.all(setting.operations, &mut ended);
        for stats in rack.nodes.iter().map(|node| node.rmc.stats()) {
            itt_stalls += stats.itt_stall_cycles;
            request_stalls += stats.request_stall_cycles;
            reply_stalls += stats.reply_stall_cycles;
        }
    }
    assert!(itt_stalls > 0, "the ITT was never full");
    assert!(request_stalls > 0 && reply_stalls > 0, "there were always credits");
    // Rights and lost nodes have tests of their own; other codes cannot be posted by this one.
    let elsewhere = [Status::NoPermission, Status::NodeLost, Status::BadOperation];
    for status in Status::ALL.into_iter().filter(|status| !elsewhere.contains(status)) {
        assert!(ended[status as usize] > 0, "no operation ended with {status:?}: {ended:?}");
    }
}

/// Polls that are left out, and cycles that are left out, change nothing: not a cycle, not a count.
#[test]
fn sleep_is_polling() {
    for seed in 0..6 {
        let asleep = Setting { operations: 250, ..setting(seed) };
        let (expected, rack) = outcome(&asleep);
        let awake = Setting { awake: true, skips: false, ..asleep.clone() };
        let (found, all) = outcome(&awake);
        assert!(found == expected, "seed {seed}: {} and {}", found.stats, expected.stats);
        let skipped = Setting { awake: true, ..asleep.clone() };
        assert!(outcome(&skipped).0 == expected, "seed {seed}: only cycles are left out");
        assert!(rack.ticks < all.ticks, "seed {seed}: nothing was left out");
        assert!(outcome(&asleep).0 == expected, "seed {seed}: the same run again");
    }
}

/// More misses than registers, and all of them used.
#[test]
fn misses_fill_the_registers() {
    let far = Setting { latency: (400, 900), operations: 300, pairs: 8, ..setting(3) };
    let (_, rack) = outcome(&far);
    for node in &rack.nodes {
        assert!(node.rmc.maq_stats().peak >= 31, "{:?}", node.rmc.maq_stats());
        assert!(node.fake.peak_misses > 24, "{}", node.fake.peak_misses);
    }
}

/// Both nodes and their cores add to one word; nothing is lost.
#[test]
fn atomics_conserve_sums() {
    let setting = Setting { pairs: 0, hostile: true, ..setting(6) };
    let mut run = Run::new(&setting);
    let word = run.rack.nodes[1].phys(run.spaces[1][0], SEGMENT_AT);
    let start = run.rack.nodes[1].fake.words[word as usize / 8];
    let mut pairs: Vec<CoreQp> = (0..2)
        .flat_map(|node| [node, node])
        .map(|node| CoreQp::new(&mut run.rack, node, 0, 16, Rights::ReadWrite))
        .collect();
    for node in 0..2 {
        let space = run.spaces[node][0];
        run.rack.nodes[node].write(space, BUFFERS_AT, &3u64.to_le_bytes());
    }
    let (mut posted, mut done, mut added) = (0, 0, 0);
    while done < 400 {
        run.rack.begin();
        assert!(run.rack.now < 1_000_000, "hangs after {done}");
        if run.random.below(50) == 0 {
            let value = run.rack.nodes[1].fake.core_read(word);
            run.rack.core_write(1, word, value.wrapping_add(5));
            added += 5;
        }
        for qp in &mut pairs {
            qp.publish(&mut run.rack);
            if posted < 400 && qp.slot().is_some() {
                // The old value comes back to where the operand was: each has its own place.
                let place = BUFFERS_AT + 64 + posted * 8;
                let space = run.spaces[qp.node][0];
                run.rack.nodes[qp.node].write(space, place, &3u64.to_le_bytes());
                let entry = WqEntry {
                    phase: false,
                    op_code: Op::FetchAdd as u8,
                    dst_nid: 1,
                    offset: 0,
                    length: 8,
                    buffer: place,
                };
                qp.post(&mut run.rack, entry);
                posted += 1;
            }
            if let Some((_, code)) = qp.poll(&mut run.rack) {
                assert_eq!(code, Status::Ok as u8);
                done += 1;
                added += 3;
            }
        }
        run.rack.end();
    }
    assert_eq!(run.rack.nodes[1].fake.words[word as usize / 8], start.wrapping_add(added));
}

/// A queue pair that goes while its operations are under way: they are answered, nothing is stored
/// for it. Its register and its place in the list serve another one, and its queues do unless a completion is on its
/// way there.
#[test]
fn queue_pairs_may_go_at_any_time() {
    let mut again = 0;
    for seed in 0..SEEDS {
        let mut run = Run::new(&Setting { pairs: 0, ..setting(seed) });
        let mut qp = CoreQp::new(&mut run.rack, 0, 0, 8, Rights::ReadWrite);
        for slot in 0..8 {
            let op_code = [Op::Read, Op::Write][slot % 2] as u8;
            let buffer = BUFFERS_AT + slot as u64 * 640;
            let offset = slot as u64 * 640;
            let entry = WqEntry { phase: false, op_code, dst_nid: 1, offset, length: 640, buffer };
            qp.post(&mut run.rack, entry);
            qp.publish(&mut run.rack);
        }
        for _ in 0..seed * 1000 / SEEDS {
            run.rack.begin();
            run.rack.end();
        }
        let completed = run.rack.nodes[0].rmc.stats().completed;
        assert!(run.rack.nodes[0].rmc.detach(qp.id));
        assert!(!run.rack.nodes[0].rmc.detach(qp.id));
        let Node { driver, fake, .. } = &mut run.rack.nodes[0];
        driver.remove_queues(0, &qp.place, fake);
        let mut other = CoreQp::new(&mut run.rack, 0, 0, 8, Rights::ReadOnly);
        assert_ne!(other.id, qp.id);
        again += u64::from(other.place.cq == qp.place.cq);
        let entry = WqEntry {
            phase: false,
            op_code: 2,
            dst_nid: 1,
            offset: 0,
            length: 8,
            buffer: BUFFERS_AT,
        };
        other.post(&mut run.rack, entry);
        other.publish(&mut run.rack);
        let mut status = None;
        while status.is_none() || !run.rack.is_idle() {
            run.rack.begin();
            assert!(run.rack.now < 300_000, "seed {seed}: hangs");
            status = status.or(other.poll(&mut run.rack));
            run.rack.end();
        }
        assert_eq!(status, Some((0, Status::NoPermission as u8)), "seed {seed}");
        let after = run.rack.nodes[0].rmc.stats().completed;
        assert!(after <= completed + 1, "seed {seed}: completed for a queue pair that is gone");
        let completions = (other.place.cq..).step_by(8).take(4);
        let words = completions.map(|at| run.rack.nodes[0].fake.core_read(at));
        let expected = u64::from(
            CqEntry { phase: true, slot: 0, status_code: Status::NoPermission as u8 }.encode(),
        );
        assert!(words.eq([expected, 0, 0, 0]), "seed {seed}: completions of another");
    }
    assert!((1..SEEDS).contains(&again), "{again}");
}

const SEEDS: u64 = 80;

/// A node goes while operations are under way: all of them end, those that wait for it with its
/// loss; the ITT is free again, and serves what is done next.
#[test]
fn what_waits_for_a_lost_node_ends() {
    let mut lost = 0;
    for seed in 0..40 {
        let mut run = Run::new(&Setting { pairs: 0, ..setting(seed) });
        let mut qp = CoreQp::new(&mut run.rack, 0, 0, 8, Rights::ReadWrite);
        let post = |run: &mut Run, qp: &mut CoreQp, slot: u64, dst_nid: u16| {
            let op_code = [Op::Read, Op::Write, Op::FetchAdd][slot as usize % 3] as u8;
            let length = if slot % 3 == 2 { 8 } else { 1280 };
            let (offset, buffer) = (slot * 1280, BUFFERS_AT + slot * 1280);
            qp.post(
                &mut run.rack,
                WqEntry { phase: false, op_code, dst_nid, offset, length, buffer },
            );
            qp.publish(&mut run.rack);
        };
        (0..8).for_each(|slot| post(&mut run, &mut qp, slot, 1));
        let mut ended = Vec::new();
        let mut goes_at = Some(seed * 30 + 1);
        while ended.len() < 9 || !run.rack.is_idle() {
            run.rack.begin();
            assert!(run.rack.now < 300_000, "seed {seed}: hangs after {ended:?}");
            if goes_at.take_if(|at| *at == run.rack.now).is_some() {
                run.rack.lose(1);
            }
            if let Some((_, code)) = qp.poll(&mut run.rack) {
                ended.push(code);
                if ended.len() == 8 {
                    run.rack.nodes[0].fake.make_calm();
                    post(&mut run, &mut qp, 0, 0);
                }
            }
            run.rack.end();
        }
        // Buffers of some of them cross the page that is not there.
        let all = [Status::Ok, Status::NodeLost, Status::BadLocalBuffer].map(|status| status as u8);
        assert!(ended.iter().all(|code| all.contains(code)), "seed {seed}: {ended:?}");
        assert_eq!(ended[8], Status::Ok as u8);
        lost += ended.iter().filter(|&&code| code == Status::NodeLost as u8).count();
    }
    assert!(lost > 60, "only {lost} operations were lost");
}

/// New work for a node that is lost ends at once.
#[test]
fn lost_nodes_are_not_asked() {
    let mut run = Run::new(&Setting { pairs: 0, ..setting(0) });
    let mut qp = CoreQp::new(&mut run.rack, 0, 0, 8, Rights::ReadWrite);
    run.rack.nodes[0].port.lost.push(1);
    let entry =
        WqEntry { phase: false, op_code: 1, dst_nid: 1, offset: 0, length: 8, buffer: BUFFERS_AT };
    qp.post(&mut run.rack, entry);
    qp.publish(&mut run.rack);
    let status = loop {
        run.rack.begin();
        assert!(run.rack.now < 10_000, "hangs");
        let polled = qp.poll(&mut run.rack);
        run.rack.end();
        if let Some((_, code)) = polled {
            break code;
        }
    };
    assert_eq!(status, Status::NodeLost as u8);
    assert!(run.rack.log.is_empty());
}

/// The driver tells each change; an untold one is not seen: TLB and CT$ really keep the old state.
#[test]
fn the_rmc_keeps_what_it_is_not_told_to_forget() {
    let mut run = Run::new(&Setting { pairs: 0, hostile: false, ..setting(0) });
    let mut qp = CoreQp::new(&mut run.rack, 0, 0, 8, Rights::ReadWrite);
    let mut read = |run: &mut Run| -> (Status, Vec<u8>) {
        let entry = WqEntry {
            phase: false,
            op_code: 1,
            dst_nid: 1,
            offset: 0,
            length: 8,
            buffer: BUFFERS_AT,
        };
        qp.post(&mut run.rack, entry);
        qp.publish(&mut run.rack);
        let mut code = None;
        while code.is_none() || !run.rack.is_idle() {
            run.rack.begin();
            assert!(run.rack.now < 100_000, "hangs");
            code = code.or(qp.poll(&mut run.rack));
            run.rack.end();
        }
        let status = Status::from_code(code.unwrap().1).unwrap();
        (status, run.rack.nodes[0].read(run.spaces[0][0], BUFFERS_AT, 8))
    };
    let space = run.spaces[1][0];
    let old = run.oracle.bytes[1][0][1][..8].to_vec();
    assert_eq!(read(&mut run), (Status::Ok, old.clone()));

    // The page of the segment moves.
    let node = &mut run.rack.nodes[1];
    let page = SEGMENT_AT / 8192 * 8192;
    let phys = node.driver.allocate(8192, 8192);
    node.driver.map(space, page, phys, 0, Rights::ReadWrite, &mut node.fake);
    assert_eq!(read(&mut run), (Status::Ok, old));
    run.rack.nodes[1].rmc.invalidate_translations(Some(space.asid), Some(page));
    assert_eq!(read(&mut run), (Status::Ok, vec![0; 8]));

    // The context is left.
    let node = &mut run.rack.nodes[1];
    node.driver.join(0, space, Err(Status::NodeLost), &mut node.fake);
    assert_eq!(read(&mut run).0, Status::Ok);
    run.rack.nodes[1].rmc.invalidate_context(0);
    assert_eq!(read(&mut run).0, Status::NodeLost);
}

/// A work queue that another node writes, through this RMC's own L1: the poll that sleeps on the
/// block wakes in the cycle in which polling would have seen the entry.
#[test]
fn stores_of_the_rmc_itself_wake_its_polls() {
    for is_warm in [true, false] {
        for start in 900..906 {
            let asleep = completed_by_remote(is_warm, start, false);
            assert_eq!(asleep, completed_by_remote(is_warm, start, true), "warm: {is_warm}");
        }
    }
}

/// The cycle in which an entry that node 0 has written into a work queue of node 1 is complete; the
/// write is posted in cycle `start`.
fn completed_by_remote(is_warm: bool, start: u64, is_awake: bool) -> u64 {
    let setting = Setting { pairs: 0, hostile: false, awake: is_awake, ..setting(0) };
    let mut run = Run::new(&Setting { skips: !is_awake, ..setting });
    let mut writer = CoreQp::new(&mut run.rack, 0, 0, 8, Rights::ReadWrite);
    // The first one's queue is where no offset of the segment reaches.
    CoreQp::new(&mut run.rack, 1, 0, 8, Rights::ReadWrite);
    let target = CoreQp::new(&mut run.rack, 1, 0, 8, Rights::ReadWrite);
    let (space, page) = (run.spaces[1][0], SEGMENT_AT / 8192 * 8192);
    let node = &mut run.rack.nodes[1];
    let (wq, cq) = (target.place.wq, target.place.cq);
    node.driver.map(space, page, wq / 8192 * 8192, 0, Rights::ReadWrite, &mut node.fake);
    if is_warm {
        node.fake.warm();
    }
    let nothing = WqEntry { phase: true, op_code: 0, dst_nid: 0, offset: 0, length: 0, buffer: 0 };
    let bytes: Vec<u8> = nothing.encode().into_iter().flat_map(u64::to_le_bytes).collect();
    run.rack.nodes[0].write(run.spaces[0][0], BUFFERS_AT, &bytes);
    let offset = page + wq % 8192 - SEGMENT_AT;
    loop {
        run.rack.begin();
        assert!(run.rack.now < 10_000, "nobody has seen the entry");
        if run.rack.now == start {
            let (op_code, dst_nid) = (Op::Write as u8, 1);
            let entry =
                WqEntry { phase: false, op_code, dst_nid, offset, length: 16, buffer: BUFFERS_AT };
            writer.post(&mut run.rack, entry);
            writer.publish(&mut run.rack);
        }
        run.rack.end();
        if run.rack.nodes[1].fake.words[cq as usize / 8] != 0 {
            return run.rack.now;
        }
    }
}
