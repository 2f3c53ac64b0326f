//! Small systems in every order in which cores may store, packets leave and packets arrive.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use rackmem_sim::scratchpad::line::Line;
use rackmem_sim::scratchpad::{State, Stored};

use super::system::{InOrder, System, at};

const COMMAND: u32 = 0;
const COUNTER: u32 = 64;
const QUEUE: u32 = 3;
const DESCRIPTOR: u32 = QUEUE * 64;

/// The next operation of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Store(u64, u64),
    Load(u64),
}

/// A system, and what its cores have still to do, each in order.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    system: System,
    programs: Vec<VecDeque<Op>>,
}

impl World {
    fn new(system: System, programs: &[&[Op]]) -> World {
        World {
            system,
            programs: programs.iter().map(|ops| ops.iter().copied().collect()).collect(),
        }
    }

    /// Everything that can happen next.
    fn successors(&self) -> Vec<World> {
        let mut worlds = Vec::new();
        for core in 0..self.programs.len() {
            let mut world = self.clone();
            if world.execute(core) {
                worlds.push(world);
            }
        }
        for nth in 0..self.system.possibilities() {
            let mut world = self.clone();
            world.system.step(&mut Nth(nth)).unwrap();
            worlds.push(world);
        }
        worlds
    }

    /// A core's next operation; whether it could be begun.
    fn execute(&mut self, core: usize) -> bool {
        let Some(&op) = self.programs[core].front() else { return false };
        let done = match op {
            Op::Store(address, value) => {
                self.system.try_store(core as u16, address, value) == Ok(Stored::Done)
            }
            Op::Load(address) => {
                self.system.nis[core].ask(address, 8);
                true
            }
        };
        if done {
            self.programs[core].pop_front();
        }
        self.system.forget_changes();
        done
    }
}

/// The possibility of this number.
struct Nth(usize);

impl super::system::Choose for Nth {
    fn choose(&mut self, _count: usize) -> usize {
        self.0
    }
}

/// Visits every state; `always` holds in all of them, `finally` where nothing can happen any more.
fn explore(first: World, always: impl Fn(&System), finally: impl Fn(&System)) -> usize {
    let fingerprint = |world: &World| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let mut seen = HashSet::from([fingerprint(&first)]);
    let (mut left, mut ends) = (vec![first], 0);
    while let Some(world) = left.pop() {
        always(&world.system);
        let successors = world.successors();
        if successors.is_empty() {
            assert!(world.programs.iter().all(VecDeque::is_empty), "a core waits for ever");
            finally(&world.system);
            ends += 1;
        }
        left.extend(successors.into_iter().filter(|world| seen.insert(fingerprint(world))));
    }
    assert!(ends > 0, "it never comes to an end");
    seen.len()
}

fn counter(system: &mut System, core: u16, offset: u32, reset: i64, to: &[u64]) {
    system.store(core, at(core, offset + 8), reset as u64, &mut InOrder);
    system.store(core, at(core, offset + 16), 1, &mut InOrder);
    for (nth, &address) in (0..).zip(to) {
        system.store(core, at(core, offset + 32 + 8 * nth), address, &mut InOrder);
    }
    system.mark(core, offset / 64, State::Counter);
}

/// Invariants a and b: a copy that was written by two cores, of four packets, with a counter that a
/// third core owns and that notifies the issuer.
#[test]
fn copies() {
    let mut system = System::small(3);
    for word in 0..32 {
        system.store(0, at(0, 512 + 8 * word), 100 + u64::from(word), &mut InOrder);
    }
    system.mark(0, 0, State::Command);
    counter(&mut system, 2, COUNTER, -200, &[at(0, 448)]);
    let words = [2 | 200 << 8, at(1, 544), at(2, COUNTER), at(0, 512)];
    let store = |word: usize| Op::Store(at(0, COMMAND + 8 * word as u32), words[word]);
    let world = World::new(system, &[&[store(3), store(0)], &[store(1), store(2)], &[]]);
    let check = |system: &System| {
        assert!(system.acked_bytes <= 200);
        let is_told = system.word(0, 448) == 1;
        let is_there = (0..25).all(|word| system.word(1, 544 + 8 * word) == 100 + u64::from(word));
        assert!(!is_told || is_there, "told before all bytes are there");
    };
    let states = explore(world, check, |system| {
        assert_eq!(system.acked_bytes, 200);
        assert_eq!(system.word(0, 448), 1, "told");
        assert_eq!(system.word(2, COUNTER), (-200i64) as u64, "and ready for the next one");
    });
    assert_eq!(states, 556, "another system than before");
}

/// Invariant c: two cores add to a counter, two episodes, which is told to a counter that counts them.
#[test]
fn counters() {
    let mut system = System::small(3);
    counter(&mut system, 2, COUNTER, 1 << 20, &[]);
    counter(&mut system, 0, COUNTER, -2, &[at(2, COUNTER)]);
    let add = Op::Store(at(0, COUNTER), 1);
    let world = World::new(system, &[&[add, add], &[add, add], &[add]]);
    let told = |system: &System| system.word(2, COUNTER) - (1 << 20);
    let states = explore(
        world,
        |system| assert!(told(system) <= 2),
        |system| {
            assert_eq!(told(system), 2);
            assert_eq!(system.word(0, COUNTER), (-1i64) as u64, "the fifth is of the next episode");
        },
    );
    assert_eq!(states, 285, "another system than before");
}

/// Invariant d: writers and readers of a queue meet, whoever comes first.
#[test]
fn queues_with_readers() {
    let mut system = System::small(3);
    system.mark_queue(0, QUEUE, State::MultipleReader, 1, 256);
    let (put, get) = (|value| Op::Store(at(0, DESCRIPTOR), value), Op::Load(at(0, DESCRIPTOR)));
    let world = World::new(system, &[&[put(1), put(2)], &[get, put(3)], &[get, get]]);
    let always = |system: &System| {
        let Line::MultipleReader(queue, _) = *system.nis[0].line(QUEUE) else { panic!() };
        assert!(queue.len() <= 3);
        let mut got: Vec<u64> = system.loaded.concat();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), system.loaded.concat().len(), "an item came twice");
    };
    let states = explore(world, always, |system| {
        let mut got = system.loaded.concat();
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3], "each item has come to one reader");
    });
    assert_eq!(states, 6003, "another system than before");
}
