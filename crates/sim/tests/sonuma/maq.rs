//! The MAQ against a flat memory, under random traffic.

use rackmem_sim::block::{bytes_of, mask};
use rackmem_sim::engine::Random;
use rackmem_sim::sonuma::RmcSpec;
use rackmem_sim::sonuma::arbiter::{Arbiters, Wait};
use rackmem_sim::sonuma::maq::{Access, Action, Interface, Maq, Response, Source, Tag};

use super::fake::Fake;

const LINES: u64 = 6;

/// The result that a load or atomic must find, by the number in its tag.
struct Expected {
    access: Access,
    found: [u64; 8],
}

/// Accesses to the same bytes keep their order, whatever the memory does: each load finds what the
/// flat memory had when the queue took it.
#[test]
fn loads_find_what_came_before_them() {
    for seed in 0..20 {
        let forwarded = run(seed, &RmcSpec { l1_mshrs: 1 + seed as u32 % 4, ..RmcSpec::default() });
        assert!(forwarded > 30, "seed {seed}: only {forwarded} loads were forwarded");
    }
}

fn run(seed: u64, spec: &RmcSpec) -> u64 {
    let mut random = Random::new(seed, 0);
    let mut fake = Fake::new(LINES * 64, (1, 40), seed, spec);
    fake.make_hostile(seed);
    let mut maq = Maq::new(spec);
    let mut flat = vec![[0u64; 8]; LINES as usize];
    let mut expected: Vec<Option<Expected>> = Vec::new();
    let (mut responses, mut written): (Vec<Response>, Vec<u64>) = (Vec::new(), Vec::new());
    let (mut now, mut idle) = (0, 0);
    while !(maq.is_empty() && expected.len() == 5000) {
        now += 1;
        idle += 1;
        assert!(idle < 10_000, "seed {seed}: the queue hangs");
        fake.begin(now);
        while let Some(line) = fake.arrival() {
            maq.filled(now, line, &mut fake, &mut written);
        }
        maq.begin(now);
        maq.collect(now, &mut responses);
        for response in responses.drain(..) {
            idle = 0;
            let id = usize::from(response.tag.slot);
            let Expected { access, found } = expected[id].take().expect("one answer");
            if access.action != Action::Store {
                check(&access, &found, &response.words, seed, id);
            }
        }
        if expected.len() < 5000 && maq.has_room() && random.below(2) == 0 {
            let access = random_access(&mut random);
            let id = expected.len();
            let block = &mut flat[access.line as usize];
            let found = *block;
            apply(&access, block);
            let tag = Tag { source: Source::Rcp, stage: 0, slot: id as u16 };
            let is_waited_for = access.action != Action::Store || random.below(2) == 0;
            maq.accept(access, is_waited_for.then_some(tag));
            expected.push(is_waited_for.then_some(Expected { access, found }));
        }
        maq.issue(now, &mut fake, &mut written);
    }
    assert!(expected.iter().all(Option::is_none), "seed {seed}: an access has no answer");
    for line in 0..LINES {
        assert_eq!(fake.words[line as usize * 8..][..8], flat[line as usize], "seed {seed}");
    }
    maq.stats().forwarded
}

fn check(access: &Access, expected: &[u64; 8], found: &[u64; 8], seed: u64, id: usize) {
    let (expected, found) = (bytes_of(expected), bytes_of(found));
    for byte in (0..64).filter(|byte| access.mask >> byte & 1 != 0) {
        assert_eq!(found[byte], expected[byte], "seed {seed}, access {id}, byte {byte}");
    }
}

fn random_access(random: &mut Random) -> Access {
    let line = random.below(LINES);
    let data: [u64; 8] = std::array::from_fn(|_| random.bits());
    let address = line * 64;
    let word = random.below(8) * 8;
    match random.below(8) {
        0 => Access::atomic(address + word, Action::FetchAdd, [data[0], 0]),
        1 => Access::atomic(address + word, Action::CompareSwap, [0, data[1]]),
        2 => Access::load(address, 64, Interface::Line),
        3 => Access::store(address, 64, data, Interface::Line),
        kind => {
            let offset = random.below(64);
            let bytes = 1 + random.below(64 - offset) as usize;
            match kind {
                4 | 5 => Access::load(address + offset, bytes, Interface::Word),
                _ => Access::store(address + offset, bytes, data, Interface::Word),
            }
        }
    }
}

/// The reference, byte by byte.
fn apply(access: &Access, block: &mut [u64; 8]) {
    let word = access.mask.trailing_zeros() as usize / 8;
    match access.action {
        Action::Load => {}
        Action::FetchAdd => block[word] = block[word].wrapping_add(access.data[0]),
        Action::CompareSwap => {
            if block[word] == access.data[0] {
                block[word] = access.data[1];
            }
        }
        Action::Store => {
            let (mut bytes, data) = (bytes_of(block), bytes_of(&access.data));
            for byte in (0..64).filter(|byte| access.mask >> byte & 1 != 0) {
                bytes[byte] = data[byte];
            }
            for (word, bytes) in block.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
    }
}

/// Ports: two words a cycle or two blocks, and a long access over the word-wide interface takes a
/// port for several cycles.
#[test]
fn ports_limit_what_is_issued() {
    let spec = RmcSpec::default();
    for (interface, bytes, cycles) in
        [(Interface::Line, 64, 1), (Interface::Word, 8, 1), (Interface::Word, 32, 4)]
    {
        let mut fake = Fake::new(64 * 64, (1, 1), 0, &spec);
        fake.warm();
        let mut maq = Maq::new(&spec);
        for line in 0..20 {
            let tag = Tag { source: Source::Rrpp, stage: 0, slot: line };
            maq.accept(Access::load(u64::from(line) * 64, bytes, interface), Some(tag));
        }
        let (mut out, mut now) = (Vec::new(), 0);
        while out.len() < 20 {
            now += 1;
            maq.begin(now);
            maq.collect(now, &mut out);
            maq.issue(now, &mut fake, &mut Vec::new());
        }
        // The last of 20 is issued when the ports have served 19, and then takes its own time.
        let issued = 1 + (19 * cycles) / 2;
        assert_eq!(now, issued + u64::from(spec.l1_latency_cycles) + cycles - 1, "{interface:?}");
    }
    assert_eq!(mask(0, 64), u64::MAX);
}

/// A MAQ that is always full: all four arbiters get as much of it, each in the order of asking.
#[test]
fn arbiters_have_their_turns() {
    let spec = RmcSpec { maq_entries: 2, ..RmcSpec::default() };
    let mut fake = Fake::new(64 * 64, (1, 1), 0, &spec);
    fake.warm();
    let (mut maq, mut arbiters) = (Maq::new(&spec), Arbiters::new(8));
    let sources = [Source::Rcp, Source::Rrpp, Source::Rgp, Source::Walker];
    let (mut out, mut asked, mut answered) = (Vec::new(), [0u16; 4], [0u16; 4]);
    for now in 1..1000 {
        maq.begin(now);
        maq.collect(now, &mut out);
        for response in out.drain(..) {
            let Response { tag: Tag { source, slot, .. }, .. } = response;
            assert_eq!(slot, answered[source as usize], "{source:?} out of order");
            answered[source as usize] += 1;
        }
        arbiters.forward(now, &mut maq, &mut out);
        maq.issue(now, &mut fake, &mut Vec::new());
        for source in sources {
            while arbiters.waiting(source) < 4 {
                let slot = asked[source as usize];
                let access = Access::load(u64::from(slot) % 64 * 64, 8, Interface::Word);
                arbiters.ask(now, access, Tag { source, stage: 0, slot }, Wait::Done);
                asked[source as usize] += 1;
            }
        }
    }
    let (least, most) = (answered.iter().min().unwrap(), answered.iter().max().unwrap());
    assert!(most - least <= 1 && *least > 50, "{answered:?}");
}
