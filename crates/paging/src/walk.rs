//! Walk through every order in which program, handler, evictor and store can act on a page: the program always sees its
//! last write.
//!
//! The steps are those of [`super::entry`]; around them stands the least that can hold bytes: the program's
//! mapping, the staging area, the slot, and a write that is on its way to it.

use std::collections::{HashMap, VecDeque};

use super::entry::{Entry, OnFault, State};

/// Versions that the program writes, beside the zeros of the beginning.
const VERSIONS: u8 = 3;
const FRAME: u32 = 1;
const SLOT: u32 = 2;

/// Progress of a handler with the page that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handler {
    Idle,
    /// Holds the page, which `OnFault` said to bring.
    Bringing(Bring),
    /// The page is there; its word still says that it is held.
    Delivered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bring {
    Zero,
    Slot,
    Staging,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Evictor {
    Idle,
    /// The page's word says that it leaves.
    Taking,
    /// It is in the staging area.
    Taken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    entry: Entry,
    handler: Handler,
    evictor: Evictor,
    mapped: Option<u8>,
    staging: Option<u8>,
    slot: u8,
    /// The page has a slot.
    has_slot: bool,
    /// A write on its way: its version, and whether the store has taken it. Of generations it is enough to know whether
    /// the frame was written back again since.
    on_its_way: Option<(u8, bool)>,
    is_stale: bool,
    /// The program's last write.
    truth: u8,
}

const BEGIN: World = World {
    entry: Entry::EMPTY,
    handler: Handler::Idle,
    evictor: Evictor::Idle,
    mapped: None,
    staging: None,
    slot: 0,
    has_slot: false,
    on_its_way: None,
    is_stale: false,
    truth: 0,
};

fn program(world: World) -> Vec<World> {
    let mut next = Vec::new();
    if world.mapped.is_some() && world.truth < VERSIONS {
        let version = world.truth + 1;
        next.push(World { mapped: Some(version), truth: version, ..world });
    }
    // Discards the page. `space.rs` holds it for that, and lets go of it empty.
    if !world.entry.is_in_transit() && world.truth != 0 {
        let dropped = World { entry: Entry::EMPTY, mapped: None, staging: None, truth: 0, ..world };
        next.push(World { has_slot: false, is_stale: world.on_its_way.is_some(), ..dropped });
    }
    next
}

fn handler(world: World) -> Vec<World> {
    match world.handler {
        Handler::Idle if world.mapped.is_none() => {
            let bring = match world.entry.on_fault() {
                OnFault::Zero => Bring::Zero,
                OnFault::Fetch => Bring::Slot,
                OnFault::MoveBack => Bring::Staging,
                OnFault::Look => Bring::Nothing,
                OnFault::Wait => return Vec::new(),
                OnFault::GiveUp => unreachable!("no lender is lost here"),
            };
            assert!(!world.entry.is_in_transit(), "only one holds a page");
            vec![World { entry: Entry::held(FRAME), handler: Handler::Bringing(bring), ..world }]
        }
        Handler::Bringing(bring) => {
            let handler = Handler::Delivered;
            vec![match bring {
                Bring::Zero => World { mapped: Some(0), handler, ..world },
                Bring::Slot => World { mapped: Some(world.slot), handler, ..world },
                Bring::Staging => World { mapped: world.staging, staging: None, handler, ..world },
                Bring::Nothing => unreachable!("a page whose word says present is there"),
            }]
        }
        Handler::Delivered => {
            vec![World { entry: Entry::present(FRAME, false), handler: Handler::Idle, ..world }]
        }
        Handler::Idle => Vec::new(),
    }
}

fn evictor(world: World) -> Vec<World> {
    let mut next = Vec::new();
    match world.evictor {
        Evictor::Idle => {
            if let Some(entry) = world.entry.on_sweep() {
                next.push(World { entry, evictor: Evictor::Taking, ..world });
            }
            if let Some(entry) = world.entry.on_retire(SLOT, 0) {
                next.push(World { entry, staging: None, ..world });
            }
        }
        Evictor::Taking => {
            assert_eq!(world.staging, None, "the frame's place is free");
            next.push(World {
                staging: world.mapped,
                mapped: None,
                evictor: Evictor::Taken,
                ..world
            });
        }
        Evictor::Taken => next.extend(write_back(world)),
    }
    if let Some((bytes, true)) = world.on_its_way {
        let confirmed = world.entry.on_confirmed().filter(|_| !world.is_stale);
        let entry = confirmed.unwrap_or(world.entry);
        assert!(!world.has_slot || world.is_stale || world.slot == bytes);
        next.push(World { entry, on_its_way: None, is_stale: false, ..world });
    }
    next
}

/// The evictor's step for a page in the staging area. Answers come in order, so a second write waits here for the first
/// one's answer: the lane's queue, seen from the page.
fn write_back(world: World) -> Option<World> {
    let bytes = world.staging.expect("it was taken out");
    let evictor = Evictor::Idle;
    if bytes == 0 {
        let is_stale = world.on_its_way.is_some();
        let empty =
            World { entry: Entry::EMPTY, staging: None, has_slot: false, is_stale, ..world };
        return Some(World { evictor, ..empty });
    }
    // Clean: the slot has the same, and nothing else is on its way to it.
    if world.has_slot && world.slot == bytes && world.on_its_way.is_none() {
        return Some(World { entry: Entry::standby(FRAME, false), evictor, ..world });
    }
    world.on_its_way.is_none().then(|| World {
        entry: Entry::staged(FRAME),
        has_slot: true,
        on_its_way: Some((bytes, false)),
        is_stale: false,
        evictor,
        ..world
    })
}

fn store(world: World) -> Vec<World> {
    match world.on_its_way {
        // The slot may be another page's by now, for which the same lane writes later.
        Some((bytes, false)) => {
            vec![World { slot: bytes, on_its_way: Some((bytes, true)), ..world }]
        }
        _ => Vec::new(),
    }
}

fn check(world: &World) {
    if let Some(bytes) = world.mapped {
        assert_eq!(bytes, world.truth, "the program sees what it wrote: {world:?}");
        assert_eq!(world.staging, None, "a page is in one place: {world:?}");
    }
    match world.entry.state() {
        State::Empty => assert_eq!((world.truth, world.mapped), (0, None), "{world:?}"),
        State::Away => assert_eq!(world.slot, world.truth, "{world:?}"),
        State::Standby => {
            assert_eq!((world.staging, world.slot), (Some(world.truth), world.truth), "{world:?}");
        }
        State::Staged => assert_eq!(world.staging, Some(world.truth), "{world:?}"),
        State::Present => assert_eq!(world.mapped, Some(world.truth), "{world:?}"),
        State::Held => assert_ne!(world.handler, Handler::Idle, "{world:?}"),
        State::Leaving => assert_ne!(world.evictor, Evictor::Idle, "{world:?}"),
        State::Lost => unreachable!(),
    }
}

#[test]
fn the_program_sees_what_it_wrote_last_in_every_order() {
    let mut numbers = HashMap::from([(BEGIN, 0usize)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut worlds = vec![BEGIN];
    let mut queue = VecDeque::from([0]);
    while let Some(number) = queue.pop_front() {
        let world = worlds[number];
        check(&world);
        for next in [program(world), handler(world), evictor(world), store(world)].concat() {
            let known = *numbers.entry(next).or_insert_with(|| {
                worlds.push(next);
                before.push(Vec::new());
                queue.push_back(worlds.len() - 1);
                worlds.len() - 1
            });
            before[known].push(number);
        }
    }
    // From everywhere the page can come to be there: no one waits for ever.
    let mut reaches = vec![false; worlds.len()];
    let mut queue: VecDeque<usize> =
        (0..worlds.len()).filter(|&n| worlds[n].mapped.is_some()).collect();
    queue.iter().for_each(|&number| reaches[number] = true);
    while let Some(number) = queue.pop_front() {
        for &earlier in &before[number] {
            if !std::mem::replace(&mut reaches[earlier], true) {
                queue.push_back(earlier);
            }
        }
    }
    let stuck = reaches.iter().position(|&reaches| !reaches);
    assert_eq!(stuck.map(|number| worlds[number]), None, "the page can never come back");
    let rescued = worlds
        .iter()
        .any(|w| w.handler == Handler::Bringing(Bring::Staging) && w.on_its_way.is_some());
    assert!(rescued, "a page is needed again while its write is on its way");
    assert_eq!(
        worlds.len(),
        WORLDS,
        "the protocol has changed: look at what, and pin the new number"
    );
}

/// Worlds that can be reached.
const WORLDS: usize = 528;
