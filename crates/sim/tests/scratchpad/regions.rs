//! Address region tables: addresses that a process gives to places.

use rackmem_sim::scratchpad::Regions;
use rackmem_sim::scratchpad::region::{DRAM, LOCK_BOX, NAMES, NAMES_END};
use rackmem_sim::scratchpad::table::{MOST_REGIONS, Refusal, Region, Table};

const PLACES: Regions = Regions { cores: 2, scratchpad_bytes: 4096, dram_bytes: 4096, locks: 2 };

fn region(base: u64, bytes: u64, place: u64) -> Region {
    Region { base, bytes, place }
}

#[test]
fn addresses_stand_for_places_within_their_region() {
    let (mut table, there) = (Table::default(), Regions::scratchpad(1, 256));
    table.set(region(NAMES + 128, 128, there), &PLACES).unwrap();
    assert_eq!(table.place_of(NAMES + 128, 128), there);
    assert_eq!(table.place_of(NAMES + 255, 1), there + 127);
    for (address, bytes) in [(NAMES + 127, 1), (NAMES + 256, 1), (NAMES + 255, 2), (DRAM, 8)] {
        assert_eq!(table.place_of(address, bytes), address, "{bytes} bytes");
    }
    table.set(region(NAMES + 128, 64, DRAM), &PLACES).unwrap();
    assert_eq!(table.place_of(NAMES + 130, 1), DRAM + 2, "it has moved");
    assert_eq!(table.place_of(NAMES + 192, 1), NAMES + 192, "and is shorter");
    table.set(region(NAMES + 128, 0, 0), &PLACES).unwrap();
    assert_eq!(table.place_of(NAMES + 128, 1), NAMES + 128);
}

#[test]
fn entries_that_cannot_be_are_refused() {
    let mut table = Table::default();
    let own = Regions::scratchpad(0, 0);
    table.set(region(NAMES + 128, 128, own), &PLACES).unwrap();
    for (base, bytes, place) in [
        (NAMES + 8, 64, own),
        (NAMES, 8, own),
        (NAMES, 64, own + 8),
        (own, 64, own),
        (NAMES_END - 64, 128, own),
        (NAMES, u64::MAX - 63, own),
        (NAMES, 192, own),
        (NAMES + 192, 64, own),
        (NAMES, 64, Regions::scratchpad(2, 0)),
        (NAMES, 128, own + 4096 - 64),
        (NAMES, 64, LOCK_BOX),
        (NAMES, 0, own),
    ] {
        let refused = table.set(region(base, bytes, place), &PLACES);
        assert_eq!(refused, Err(Refusal::Invalid), "{bytes} bytes at {base:#x}");
    }
    for nth in 1..MOST_REGIONS as u64 {
        table.set(region(NAMES + 4096 * nth, 64, own), &PLACES).unwrap();
    }
    let refused = table.set(region(NAMES, 64, own), &PLACES);
    assert_eq!(refused, Err(Refusal::Full));
}
