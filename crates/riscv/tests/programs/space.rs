//! The address space against a model of it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rackmem_riscv::space::{AddressSpace, Cause, PAGE, Permissions, TOP};

const BASE: u64 = 0x7000_0000;
const PAGES: u64 = 8;

#[derive(Clone, Debug)]
enum Action {
    Map(u64, u64),
    Unmap(u64, u64),
    ReadOnly(u64, u64),
    Discard(u64, u64),
    Store(u64, u8, u64),
    Load(u64, u8),
}

fn action() -> impl Strategy<Value = Action> {
    let range = (0..PAGES, 1..3u64);
    let size = prop::sample::select(vec![1u8, 2, 4, 8]);
    let place = 0..PAGES * PAGE;
    let near_page = (0..PAGES, 0..16u64).prop_map(|(page, byte)| page * PAGE + byte + PAGE - 8);
    let place = prop_oneof![place, near_page];
    prop_oneof![
        2 => range.clone().prop_map(|(page, count)| Action::Map(page, count)),
        1 => range.clone().prop_map(|(page, count)| Action::Unmap(page, count)),
        1 => range.clone().prop_map(|(page, count)| Action::ReadOnly(page, count)),
        1 => range.prop_map(|(page, count)| Action::Discard(page, count)),
        6 => (place.clone(), size.clone(), any::<u64>())
            .prop_map(|(at, size, data)| Action::Store(at, size, data)),
        6 => (place, size).prop_map(|(at, size)| Action::Load(at, size)),
    ]
}

/// Bytes that are mapped, and whether they may be written.
#[derive(Default)]
struct Model(BTreeMap<u64, (u8, bool)>);

impl Model {
    fn each(
        &mut self,
        page: u64,
        count: u64,
        change: impl Fn(&mut BTreeMap<u64, (u8, bool)>, u64),
    ) {
        for at in page * PAGE..(page + count) * PAGE {
            change(&mut self.0, at);
        }
    }

    fn load(&self, at: u64, size: u8) -> Option<u64> {
        (0..u64::from(size))
            .rev()
            .try_fold(0, |value, byte| Some(value << 8 | u64::from(self.0.get(&(at + byte))?.0)))
    }

    fn store(&mut self, at: u64, size: u8, data: u64) -> bool {
        let bytes = at..at + u64::from(size);
        let may = bytes.clone().all(|at| self.0.get(&at).is_some_and(|(_, write)| *write));
        if may {
            for (index, at) in bytes.enumerate() {
                self.0.insert(at, ((data >> (8 * index)) as u8, true));
            }
        }
        may
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn memory_is_what_was_stored(actions in prop::collection::vec(action(), 1..60)) {
        let (mut space, mut model) = (AddressSpace::new(), Model::default());
        for action in actions {
            match action {
                Action::Map(page, count) => {
                    space.map(BASE + page * PAGE, count * PAGE, Permissions::READ_WRITE);
                    model.each(page, count, |bytes, at| { bytes.insert(at, (0, true)); });
                }
                Action::Unmap(page, count) => {
                    space.unmap(BASE + page * PAGE, count * PAGE);
                    model.each(page, count, |bytes, at| { bytes.remove(&at); });
                }
                Action::ReadOnly(page, count) => {
                    let read_only = Permissions { read: true, ..Permissions::NONE };
                    for page in page..page + count {
                        space.protect(BASE + page * PAGE, PAGE, read_only);
                    }
                    model.each(page, count, |bytes, at| {
                        bytes.entry(at).and_modify(|(_, write)| *write = false);
                    });
                }
                Action::Discard(page, count) => {
                    space.discard(BASE + page * PAGE, count * PAGE);
                    model.each(page, count, |bytes, at| {
                        bytes.entry(at).and_modify(|(byte, _)| *byte = 0);
                    });
                }
                Action::Store(at, size, data) => {
                    let stored = space.store(BASE + at, size, data).is_ok();
                    prop_assert_eq!(stored, model.store(at, size, data));
                }
                Action::Load(at, size) => {
                    prop_assert_eq!(space.load(BASE + at, size).ok(), model.load(at, size));
                }
            }
        }
    }
}

#[test]
fn only_written_pages_cost_memory() {
    let mut space = AddressSpace::new();
    space.map(BASE, 1 << 30, Permissions::READ_WRITE);
    assert_eq!(space.load(BASE + 12345, 8), Ok(0));
    assert_eq!(space.resident(), 0);
    space.store(BASE + 12345, 8, 1).expect("it is mapped");
    assert_eq!(space.resident(), PAGE);
    let pages: Vec<_> =
        space.pages().filter_map(|(at, _, bytes)| Some((at, bytes?[12345 % 4096]))).collect();
    assert_eq!(pages, [(BASE + 3 * PAGE, 1)]);
    space.unmap(BASE, 1 << 30);
    assert_eq!(space.resident(), 0);
}

#[test]
fn faults_name_the_first_byte() {
    let mut space = AddressSpace::new();
    space.map(BASE, PAGE, Permissions::READ_WRITE);
    let fault = space.store(BASE + PAGE - 4, 8, u64::MAX).expect_err("half of it is not mapped");
    assert_eq!((fault.address, fault.cause), (BASE + PAGE, Cause::Unmapped));
    assert_eq!(space.load(BASE + PAGE - 4, 4), Ok(0), "nothing was stored");
    for address in [TOP, u64::MAX, u64::MAX - 3] {
        assert_eq!(space.load(address, 8).map_err(|f| f.cause), Err(Cause::Unmapped));
    }
    let fault = space.fetch(BASE).expect_err("it is data");
    assert_eq!(
        fault.to_string(),
        format!("instruction fetch from {BASE:#x}: the page holds no code")
    );
}
