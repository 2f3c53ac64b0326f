//! TLB and walker against a walk in software, over random page tables.

use rackmem_rmc::Rights;
use rackmem_sim::engine::Random;
use rackmem_sim::sonuma::RmcSpec;
use rackmem_sim::sonuma::arbiter::Arbiters;
use rackmem_sim::sonuma::driver::Driver;
use rackmem_sim::sonuma::maq::Maq;
use rackmem_sim::sonuma::mmu::{Lookup, Mmu, Space};
use rackmem_sim::sonuma::page::{Fault, Kind};

use super::fake::Fake;

const MEMORY: u64 = 4 << 20;

struct Machine {
    mmu: Mmu,
    maq: Maq,
    arbiters: Arbiters,
    fake: Fake,
    driver: Driver,
    spaces: Vec<Space>,
    now: u64,
}

/// A random lookup that is under way.
struct Asked {
    space: usize,
    virt: u64,
    kind: Kind,
    walk: Option<u8>,
}

/// Random addresses in three address spaces with pages of all sizes, read-only ones and holes; pages
/// come and go, and the walker is told.
#[test]
fn translations_are_those_of_a_walk_in_software() {
    for page_bytes in [4096, 8192] {
        for seed in 0..6 {
            let spec =
                RmcSpec { page_bytes, tlb_entries: 4 + seed as u32 * 5, ..RmcSpec::default() };
            run(seed, &spec);
        }
    }
}

fn run(seed: u64, spec: &RmcSpec) {
    let mut random = Random::new(seed, 0);
    let mut machine = Machine::new(seed, spec);
    let mut pages = machine.populate(&mut random, spec);
    let (mut under_way, mut done, mut faults) = (Vec::new(), 0, 0);
    while done < 3000 {
        machine.now += 1;
        assert!(machine.now < 1_000_000, "seed {seed}: hangs after {done}");
        // Tables change while nobody looks, as the driver's rule is.
        if under_way.is_empty() && random.below(8) == 0 {
            machine.change(&mut random, &mut pages);
        }
        let change_soon = machine.now % 200 > 150;
        if under_way.len() < 8 && !change_soon {
            under_way.push(machine.random_address(&mut random, &pages));
        }
        for (walk, found) in machine.cycle() {
            under_way.retain(|asked: &Asked| {
                let waited = asked.walk == Some(walk);
                if waited {
                    let found = found.and_then(|mapping| mapping.translate(asked.virt, asked.kind));
                    assert_eq!(found, machine.expected(asked), "seed {seed}, {:#x}", asked.virt);
                    faults += u64::from(found.is_err());
                    done += 1;
                }
                !waited
            });
        }
        let Machine { mmu, arbiters, now, spaces, .. } = &mut machine;
        let mut known = Vec::new();
        for (index, asked) in under_way.iter_mut().enumerate() {
            if asked.walk.is_some() {
                continue;
            }
            match mmu.translate(*now, spaces[asked.space], asked.virt, asked.kind, arbiters) {
                Lookup::Known(result) => known.push((index, result)),
                Lookup::Walking(walk) => asked.walk = Some(walk),
                Lookup::Busy => {}
            }
        }
        for (index, result) in known.into_iter().rev() {
            let asked = under_way.remove(index);
            assert_eq!(result, machine.expected(&asked), "seed {seed}, {:#x}", asked.virt);
            done += 1;
        }
    }
    let stats = machine.mmu.stats();
    assert!(faults > 50 && stats.hits > 100 && stats.walks > 200, "seed {seed}: {stats:?}");
}

impl Machine {
    fn new(seed: u64, spec: &RmcSpec) -> Machine {
        let mut fake = Fake::new(MEMORY, (1, 60), seed, spec);
        let mut driver = Driver::new(spec, 0x4000..MEMORY, 4, &mut fake);
        let spaces = (0..3).map(|_| driver.new_space()).collect();
        fake.make_hostile(seed);
        Machine {
            mmu: Mmu::new(spec),
            maq: Maq::new(spec),
            arbiters: Arbiters::new(16),
            fake,
            driver,
            spaces,
            now: 0,
        }
    }

    /// Random pages: space, address, level.
    fn populate(&mut self, random: &mut Random, spec: &RmcSpec) -> Vec<(usize, u64, u32)> {
        let format = spec.format();
        let mut pages = Vec::new();
        for number in 0..60u64 {
            // Large pages lie apart from the small ones, which share a few tables.
            let level = [0, 0, 0, 0, 1, 2][random.below(6) as usize];
            let bytes = format.leaf_bytes(level);
            let region = u64::from(level) * 4 * format.leaf_bytes(2);
            let place = match level {
                0 => random.below(3) * format.leaf_bytes(1) + random.below(40) * bytes,
                _ => number % 4 * bytes,
            };
            let page = (random.below(3) as usize, region + place, level);
            if !pages.contains(&page) {
                pages.push(page);
                self.map(page, random);
            }
        }
        pages
    }

    fn map(&mut self, (space, virt, level): (usize, u64, u32), random: &mut Random) {
        let bytes = self.bytes(level);
        let rights = [Rights::ReadOnly, Rights::ReadWrite][random.below(2) as usize];
        // Nothing is read there: physical memory need not exist.
        let phys = random.below(1 << 10) * bytes;
        self.driver.map(self.spaces[space], virt, phys, level, rights, &mut self.fake);
    }

    fn bytes(&self, level: u32) -> u64 {
        match self.driver_format() {
            4096 => 4096 << (9 * level),
            _ => 8192 << (10 * level),
        }
    }

    fn driver_format(&self) -> u64 {
        // The tables of a space are a page each, and the first thing that it allocates.
        self.spaces[1].root - self.spaces[0].root
    }

    /// Takes a page away or gives it another place, and tells the MMU.
    fn change(&mut self, random: &mut Random, pages: &mut [(usize, u64, u32)]) {
        let page = pages[random.below(pages.len() as u64) as usize];
        let (space, virt, level) = page;
        if random.below(2) == 0 {
            self.driver.unmap(self.spaces[space], virt, level, &mut self.fake);
        } else {
            self.map(page, random);
        }
        let asid = Some(self.spaces[space].asid);
        match random.below(3) {
            0 => self.mmu.invalidate(asid, Some(virt)),
            1 => self.mmu.invalidate(asid, None),
            _ => self.mmu.invalidate(None, None),
        }
    }

    fn random_address(&self, random: &mut Random, pages: &[(usize, u64, u32)]) -> Asked {
        let (space, virt, level) = pages[random.below(pages.len() as u64) as usize];
        let space = if random.below(6) == 0 { random.below(3) as usize } else { space };
        let virt = match random.below(20) {
            0 => random.bits() >> 16,
            1 => virt + self.bytes(level),
            _ => virt + random.below(self.bytes(level)),
        };
        let kind = [Kind::Load, Kind::Store][random.below(2) as usize];
        Asked { space, virt, kind, walk: None }
    }

    fn expected(&self, asked: &Asked) -> Result<u64, Fault> {
        let mapping = self.driver.walk(self.spaces[asked.space], asked.virt, &self.fake)?;
        mapping.translate(asked.virt, asked.kind)
    }

    /// Moves MAQ and walker on; walks that have ended.
    fn cycle(&mut self) -> Vec<(u8, Result<rackmem_sim::sonuma::page::Mapping, Fault>)> {
        let Machine { mmu, maq, arbiters, fake, now, .. } = self;
        let (mut out, mut written) = (Vec::new(), Vec::new());
        fake.begin(*now);
        while let Some(line) = fake.arrival() {
            maq.filled(*now, line, fake, &mut written);
        }
        maq.begin(*now);
        maq.collect(*now, &mut out);
        arbiters.forward(*now, maq, &mut out);
        maq.issue(*now, fake, &mut written);
        let walked = out.iter().filter_map(|response| mmu.respond(*now, response, arbiters));
        walked.map(|walked| (walked.walk, walked.found)).collect()
    }
}

/// A page moves in the middle of a walk, in any of its cycles: whatever the walk says, the old place
/// is forgotten.
#[test]
fn walks_under_way_begin_again() {
    let spec = RmcSpec::default();
    let mut again = 0;
    for moves_at in 1..40 {
        let mut machine = Machine::new(1, &spec);
        let space = machine.spaces[0];
        machine.fake.warm();
        machine.fake.make_calm();
        machine.driver.map(space, 0, 1 << 20, 0, Rights::ReadOnly, &mut machine.fake);
        let lookup = machine.mmu.translate(0, space, 8, Kind::Load, &mut machine.arbiters);
        assert!(matches!(lookup, Lookup::Walking(_)));
        let mut ended = None;
        while ended.is_none() || machine.now < moves_at {
            machine.now += 1;
            assert!(machine.now < 100, "hangs");
            if machine.now == moves_at {
                machine.driver.map(space, 0, 2 << 20, 0, Rights::ReadOnly, &mut machine.fake);
                machine.mmu.invalidate(Some(space.asid), Some(0));
                again += u64::from(ended.is_none());
            }
            ended = machine.cycle().pop().or(ended);
        }
        // The TLB has the new translation, or none.
        let now = machine.now;
        match machine.mmu.translate(now, space, 8, Kind::Load, &mut machine.arbiters) {
            Lookup::Known(phys) => assert_eq!(phys, Ok((2 << 20) + 8), "moved at {moves_at}"),
            Lookup::Walking(_) => {}
            Lookup::Busy => panic!("nothing else is under way"),
        }
    }
    assert!(again > 10, "only {again} walks were under way");
}
