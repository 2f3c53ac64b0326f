//! An access inside a slot maps by its offset; outside it never leaves the node; what is released or
//! lost faults.

use proptest::collection::vec;
use proptest::prelude::*;
use rackmem_rmc::amt::{Amt, Miss, Refused, SlotId, State, Target};

const WINDOW: u64 = 0x8000;
const WINDOW_BYTES: u64 = 0x100;

#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve(u64, u32),
    Ask(usize),
    Grant(usize, u64, u16),
    Cancel(usize),
    Release(usize),
    Free(usize),
    Lost(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0usize..12;
    prop_oneof![
        3 => (1u64..100, 0u32..6).prop_map(|(size, align)| Step::Reserve(size, align)),
        3 => which().prop_map(Step::Ask),
        3 => (which(), 0u64..1000, 0u16..3).prop_map(|(n, at, to)| Step::Grant(n, at, to)),
        1 => which().prop_map(Step::Cancel),
        1 => which().prop_map(Step::Release),
        2 => which().prop_map(Step::Free),
        1 => (0u16..3).prop_map(Step::Lost),
    ]
}

/// Expected state of a use of a slot.
#[derive(Clone, Copy, Debug)]
struct Expected {
    id: SlotId,
    base: u64,
    size: u64,
    remote: Option<Target>,
    state: State,
}

/// All uses so far; those that are over are `Free`.
struct Reference(Vec<Expected>);

impl Reference {
    fn moves(&mut self, n: usize, from: &[State], to: State) -> Option<&mut Expected> {
        let found = self.0.get_mut(n).filter(|one| from.contains(&one.state))?;
        found.state = to;
        Some(found)
    }

    fn lookup(&self, address: u64, length: u64) -> Result<Target, Miss> {
        let has = |one: &&Expected| {
            one.state != State::Free && (one.base..one.base + one.size).contains(&address)
        };
        let slot = self.0.iter().find(has).ok_or(Miss::Outside)?;
        match slot.state {
            State::Active if address + length > slot.base + slot.size => Err(Miss::Overrun),
            State::Active => {
                let Target { destination, address: start } = slot.remote.expect("it is granted");
                Ok(Target { destination, address: start + (address - slot.base) })
            }
            State::Faulted => Err(Miss::Lost),
            _ => Err(Miss::Inactive),
        }
    }
}

fn take(amt: &mut Amt, reference: &mut Reference, step: Step) {
    use State::{Active, Faulted, Free, Pending, Releasing, Reserved};
    let id = |reference: &Reference, n: usize| reference.0.get(n).map(|one| one.id);
    let (result, expected) = match step {
        Step::Reserve(size, align) => {
            if let Ok(id) = amt.reserve(size, 1 << align) {
                let base = amt.get(id).expect("it is in use").base;
                assert_eq!(base % (1 << align), 0);
                reference.0.push(Expected { id, base, size, remote: None, state: Reserved });
            }
            return;
        }
        Step::Lost(node) => {
            let lent = |one: &&mut Expected| {
                one.state == Active && one.remote.is_some_and(|at| at.destination == node)
            };
            let slots = reference.0.iter_mut().filter(lent);
            let count = slots.map(|one| one.state = Faulted).count();
            assert_eq!(amt.lost(node), count);
            return;
        }
        Step::Ask(n) => {
            let Some(id) = id(reference, n) else { return };
            (amt.ask(id), reference.moves(n, &[Reserved], Pending).is_some())
        }
        Step::Grant(n, address, destination) => {
            let Some(id) = id(reference, n) else { return };
            let target = Target { destination, address };
            let moved = reference.moves(n, &[Pending], Active);
            let expected = moved.is_some();
            if let Some(one) = moved {
                one.remote = Some(target);
            }
            (amt.grant(id, target), expected)
        }
        Step::Cancel(n) => {
            let Some(id) = id(reference, n) else { return };
            (amt.cancel(id), reference.moves(n, &[Reserved, Pending], Free).is_some())
        }
        Step::Release(n) => {
            let Some(id) = id(reference, n) else { return };
            (amt.release(id), reference.moves(n, &[Active], Releasing).is_some())
        }
        Step::Free(n) => {
            let Some(id) = id(reference, n) else { return };
            (amt.free(id), reference.moves(n, &[Releasing, Faulted], Free).is_some())
        }
    };
    assert_eq!(result, if expected { Ok(()) } else { Err(Refused::BadState) }, "{step:?}");
}

proptest! {
    #[test]
    fn accesses_go_where_the_slots_say(
        steps in vec(step(), 0..60),
        accesses in vec((WINDOW - 20..WINDOW + WINDOW_BYTES + 20, 1u64..20), 0..60),
    ) {
        let mut amt = Amt::new(4, WINDOW, WINDOW_BYTES);
        let mut reference = Reference(Vec::new());
        for step in steps {
            take(&mut amt, &mut reference, step);
            let mut blocks: Vec<(u64, u64)> = reference.0.iter()
                .filter(|one| one.state != State::Free)
                .map(|one| (one.base, one.base + one.size))
                .collect();
            blocks.sort_unstable();
            let inside = |&(start, end): &(u64, u64)| {
                start >= WINDOW && end <= WINDOW + WINDOW_BYTES
            };
            prop_assert!(blocks.iter().all(inside), "blocks are in the window");
            prop_assert!(blocks.windows(2).all(|two| two[0].1 <= two[1].0), "blocks overlap");
        }
        for (address, length) in accesses {
            prop_assert_eq!(amt.lookup(address, length), reference.lookup(address, length));
            let inside = (WINDOW..WINDOW + WINDOW_BYTES).contains(&address);
            prop_assert_eq!(amt.covers(address), inside);
        }
    }
}

#[test]
fn a_full_table_and_a_full_window_refuse() {
    let mut amt = Amt::new(2, WINDOW, WINDOW_BYTES);
    assert_eq!(amt.reserve(0, 1), Err(Refused::BadSize));
    assert_eq!(amt.reserve(8, 3), Err(Refused::BadSize));
    assert_eq!(amt.reserve(WINDOW_BYTES + 1, 1), Err(Refused::NoAddresses));
    let first = amt.reserve(200, 64).unwrap();
    assert_eq!(amt.reserve(64, 64), Err(Refused::NoAddresses), "only 56 bytes are left");
    amt.reserve(32, 8).unwrap();
    assert_eq!(amt.reserve(1, 1), Err(Refused::NoSlot));
    amt.cancel(first).unwrap();
    let again = amt.reserve(64, 64).unwrap();
    assert_eq!((again.index, amt.get(first)), (first.index, None), "its former use is over");
}

#[test]
fn a_block_is_borrowed_as_a_whole_or_not_at_all() {
    let mut amt = Amt::new(1, WINDOW, WINDOW_BYTES);
    let beyond = Target { destination: 3, address: u64::MAX - 10 };
    assert_eq!(amt.borrow(64, 1, beyond), Err(Refused::BadSize));
    let lent = Target { destination: 3, address: 500 };
    amt.borrow(WINDOW_BYTES, 64, lent).expect("slot and addresses are free again");
    assert_eq!(amt.lookup(WINDOW + 8, 8), Ok(Target { destination: 3, address: 508 }));
    assert_eq!(amt.lookup(u64::MAX, u64::MAX), Err(Miss::Outside));
    assert_eq!(amt.borrow(1, 1, lent), Err(Refused::NoSlot));
}

#[test]
#[should_panic(expected = "1 to 1024 slots")]
fn a_table_has_slots() {
    Amt::new(0, 0, 16);
}
