//! The page table: three levels of 12, 12 and 11 bits for the 35 bits of a page number.

use super::{PAGE, Permissions, TOP};

const LEAF_BITS: u32 = 12;
const MIDDLE_BITS: u32 = 12;
const ROOT_BITS: u32 = 11;

const _: () = assert!(TOP / PAGE == 1 << (LEAF_BITS + MIDDLE_BITS + ROOT_BITS));

/// A mapped page: its frame and permissions.
#[derive(Clone, Copy)]
pub(super) struct Entry(u64);

impl Entry {
    const MAPPED: u64 = 1;
    const READ: u64 = 2;
    const WRITE: u64 = 4;
    const EXECUTE: u64 = 8;
    const UNMAPPED: Entry = Entry(0);

    fn is_mapped(self) -> bool {
        self.0 & Self::MAPPED != 0
    }

    pub(super) fn new(frame: u32, permissions: Permissions) -> Entry {
        let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        Entry(
            u64::from(frame) << 32
                | Self::MAPPED
                | bit(permissions.read, Self::READ)
                | bit(permissions.write, Self::WRITE)
                | bit(permissions.execute, Self::EXECUTE),
        )
    }

    pub(super) fn frame(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn permissions(self) -> Permissions {
        Permissions {
            read: self.0 & Self::READ != 0,
            write: self.0 & Self::WRITE != 0,
            execute: self.0 & Self::EXECUTE != 0,
        }
    }
}

/// The pages of 16 MiB.
struct Leaf {
    mapped: usize,
    entries: [Entry; 1 << LEAF_BITS],
}

type Middle = Box<[Option<Box<Leaf>>]>;

/// Pages by number. Levels come into being with the first page below them; the lowest go with the last one.
#[derive(Default)]
pub(super) struct PageTable {
    root: Vec<Option<Middle>>,
    mapped: usize,
}

/// The index at each level, `None` beyond the top.
fn indices(page: u64) -> Option<[usize; 3]> {
    let part = |shift: u32, bits: u32| (page >> shift & ((1 << bits) - 1)) as usize;
    (page < TOP / PAGE).then(|| {
        [part(LEAF_BITS + MIDDLE_BITS, ROOT_BITS), part(LEAF_BITS, MIDDLE_BITS), part(0, LEAF_BITS)]
    })
}

impl PageTable {
    pub(super) fn get(&self, page: u64) -> Option<Entry> {
        let [root, middle, leaf] = indices(page)?;
        let entry = self.root.get(root)?.as_ref()?[middle].as_ref()?.entries[leaf];
        entry.is_mapped().then_some(entry)
    }

    /// Maps a page.
    ///
    /// # Panics
    /// If it is beyond the top.
    pub(super) fn set(&mut self, page: u64, entry: Entry) {
        let [root, middle, leaf] = indices(page).expect("pages end below the top");
        if self.root.is_empty() {
            self.root.resize_with(1 << ROOT_BITS, || None);
        }
        let middles = self.root[root].get_or_insert_with(empty_middle);
        let leaves = middles[middle].get_or_insert_with(empty_leaf);
        if !leaves.entries[leaf].is_mapped() {
            leaves.mapped += 1;
            self.mapped += 1;
        }
        leaves.entries[leaf] = entry;
    }

    /// Number of mapped pages.
    pub(super) fn mapped(&self) -> usize {
        self.mapped
    }

    /// Mapped pages in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Entry)> {
        self.root.iter().enumerate().flat_map(|(root, middles)| {
            let middles = middles.iter().flat_map(|middles| middles.iter().enumerate());
            middles.flat_map(move |(middle, leaves)| {
                let leaves = leaves.iter().flat_map(|leaves| leaves.entries.iter().enumerate());
                leaves.filter(|(_, entry)| entry.is_mapped()).map(move |(leaf, &entry)| {
                    let high = (root << MIDDLE_BITS | middle) << LEAF_BITS;
                    ((high | leaf) as u64, entry)
                })
            })
        })
    }

    /// Unmaps a page.
    pub(super) fn clear(&mut self, page: u64) {
        let Some([root, middle, leaf]) = indices(page) else { return };
        let Some(Some(middles)) = self.root.get_mut(root) else { return };
        let Some(leaves) = &mut middles[middle] else { return };
        if leaves.entries[leaf].is_mapped() {
            leaves.entries[leaf] = Entry::UNMAPPED;
            leaves.mapped -= 1;
            self.mapped -= 1;
        }
        if leaves.mapped == 0 {
            middles[middle] = None;
        }
    }
}

fn empty_middle() -> Middle {
    (0..1 << MIDDLE_BITS).map(|_| None).collect()
}

fn empty_leaf() -> Box<Leaf> {
    Box::new(Leaf { mapped: 0, entries: [Entry::UNMAPPED; 1 << LEAF_BITS] })
}
