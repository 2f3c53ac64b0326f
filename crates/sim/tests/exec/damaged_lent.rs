//! Checkpoints of lent and borrowed memory that somebody has changed.

use serde_json::json;

use super::checkpoints::folder;
use super::damaged::{Parts, go_on, go_on_from_changed, is_named};
use super::lent;

#[test]
fn a_field_of_borrowed_memory_out_of_bounds_is_named() {
    let folder = folder();
    let path = folder.path().join("here");
    let (machine, checkpoint) = lent::with_engine();
    let whole = Parts::of(&checkpoint);
    assert_eq!(go_on(&machine, &whole.read(&path).unwrap(), folder.path()), Ok(()));
    let memory = &whole.head["nodes"][0]["memory"];
    let own_page = memory["pages"][0][1].as_u64().unwrap() / 8192 * 8192;
    let own = |field: &str| memory["lent"][field].clone();
    let (huge, size, bytes) = (1u64 << 60, 128u64 << 20, 1u64 << 20);
    let (lent, half) = (size - bytes, bytes / 2);
    let mut pages = memory["lent"]["pages"].as_array().unwrap().iter();
    let borrowed = pages.position(|page| page[1].as_u64().unwrap() >= size).unwrap();
    let borrowed = &format!("pages[{borrowed}]");
    let slot = |base: u64, at: u64, bytes: u64| json!({"base": base, "bytes": bytes, "lender": 1, "address": at});
    let two = |base: u64| json!([slot(size, lent, half), slot(base, lent, half)]);
    let piece = |start: u64, left: u64, end: u64| json!([{"start": start, "end": end}, {"start": left, "end": end}]);
    let mut seen = own("pages");
    seen.as_array_mut().unwrap().truncate(1);
    let virt = memory["pages"][0][0].clone();
    for (pointer, value, field) in [
        ("shape/memory_bytes", json!(u64::MAX), "shape"),
        ("shape/memory_bytes", json!(size + 8192), "shape"),
        ("shape/lent_bytes", json!(u64::MAX), "shape"),
        ("shape/lent_bytes", json!(size + 8192), "shape"),
        ("shape/page_bytes", json!(1), "shape"),
        ("shape/page_bytes", json!(4096), "shape"),
        ("shape/descriptors", json!(1 << 20), "shape"),
        ("shape/descriptors", json!(0), "engine"),
        ("slots/0/base", json!(0), "slots[0]"),
        ("slots/0/base", json!(size + 8), "slots[0]"),
        ("slots/0/base", json!(size + 8192), "slots[0]"),
        ("slots/0/base", json!(u64::MAX - 4095), "slots[0]"),
        ("slots/0/bytes", json!(0), "slots[0]"),
        ("slots/0/bytes", json!(100), "slots[0]"),
        ("slots/0/bytes", json!(2 * bytes), "slots[0]"),
        ("slots/0/bytes", json!(u64::MAX - 4095), "slots[0]"),
        ("slots/0/address", json!(0), "slots[0]"),
        ("slots/0/address", json!(lent + 8192), "slots[0]"),
        ("slots/0/address", json!(huge), "slots[0]"),
        ("slots/0/lender", json!(0), "slots"),
        ("slots/0/lender", json!(2), "slots"),
        ("slots", two(size), "slots[1]"),
        ("slots", two(size + half - 8192), "slots[1]"),
        ("slots", json!([]), borrowed),
        ("pool/free/start", json!(0), "pool"),
        ("pool/free/start", json!(size + 8192), "pool"),
        ("pool/free/end", json!(huge), "pool"),
        ("pool/lent_bytes", json!(0), "pool"),
        ("counts/asked", json!(u64::MAX), "counts.asked"),
        ("counts/refused", json!(huge), "counts.refused"),
        ("counts/borrowed_bytes", json!(huge), "counts.borrowed_bytes"),
        ("plugged/pieces", json!([piece(0, 0, 8192)]), "plugged.pieces[0]"),
        ("plugged/pieces", json!([piece(size, size, huge)]), "plugged.pieces[0]"),
        ("plugged/pieces", json!([piece(size, size - 8192, size + half)]), "plugged.pieces[0]"),
        ("plugged/pieces", json!([piece(size, size + 2 * half, size + half)]), "plugged.pieces[0]"),
        ("plugged/pieces", json!([piece(size, size + 4096, size + half)]), "plugged.pieces[0]"),
        ("plugged/pieces", json!(vec![piece(size, size, size + half); 2]), "plugged.pieces[1]"),
        ("plugged/pieces", json!([piece(size, size, size + bytes)]), borrowed),
        ("engine/at", json!(8), "engine"),
        ("engine/at", json!(0), "engine"),
        ("engine/at", json!(lent), "engine"),
        ("engine/at", json!(huge), "engine"),
        ("engine/at", json!(own_page), "engine"),
        ("engine/posted", json!(huge), "engine"),
        ("engine/status", json!(own_page), "engine"),
        ("engine/status", own("engine")["at"].clone(), "engine"),
        ("engine/status_at", json!(0), "engine"),
        ("pages/0/0", json!(8), "pages[0]"),
        ("pages/0/0", json!(huge), "pages[0]"),
        ("pages/0/0", virt, "pages[0]"),
        ("pages/0/1", json!(0), "pages[0]"),
        ("pages/0/1", json!(lent + 8), "pages[0]"),
        ("pages/0/1", json!(size + bytes), "pages[0]"),
        ("pages/0/1", json!(huge), "pages[0]"),
        ("pages", json!([seen[0], seen[0]]), "pages[1]"),
    ] {
        let field = format!("memory.lent.{field}");
        is_named(&whole, &path, (&format!("nodes/0/memory/lent/{pointer}"), value, &field));
    }
}

#[test]
fn a_field_of_devices_out_of_bounds_is_named() {
    let folder = folder();
    let path = folder.path().join("here");
    let huge = json!(1u64 << 60);
    let (_, checkpoint) = lent::with_card();
    let whole = Parts::of(&checkpoint);
    for (pointer, value) in [
        ("interrupts", json!(0)),
        ("memory", json!(8)),
        ("memory", json!(0)),
        ("memory", huge.clone()),
        ("memory", json!(u64::MAX - 4095)),
        ("bytes", json!(64 << 20)),
        ("bytes", json!(u64::MAX)),
    ] {
        let pointer = format!("nodes/0/memory/lent/card/{pointer}");
        is_named(&whole, &path, (&pointer, value, "memory.lent.card"));
    }
    let (_, checkpoint) = lent::with_pairs();
    let whole = Parts::of(&checkpoint);
    let buffer = |at: u64, bytes: u64| json!([[at, bytes, 1]]);
    for (pointer, value, field) in [
        ("rings/sends", json!(8), "pairs[0]"),
        ("rings/receives", json!(0), "pairs[0]"),
        ("rings/completions", huge, "pairs[0]"),
        ("rings/completions", json!(u64::MAX), "pairs[0]"),
        ("region", json!([u64::MAX, 64]), "pairs[0]"),
        ("completed", json!(u64::MAX), "pairs[0]"),
        ("buffers", buffer(0, 64), "pairs[0]"),
        ("buffers", buffer(0, u64::MAX), "pairs[0]"),
        ("peer/node", json!(0), "pairs"),
        ("peer/node", json!(2), "pairs"),
    ] {
        let pointer = format!("nodes/0/memory/lent/devices/pairs/0/{pointer}");
        let field = format!("memory.lent.devices.{field}");
        is_named(&whole, &path, (&pointer, value, &field));
    }
}

#[test]
fn changed_borrowed_memory_is_refused_or_goes_on() {
    let folder = folder();
    let of = [lent::with_engine, lent::with_plugged, lent::with_card, lent::with_pairs];
    for (machine, checkpoint) in of.map(|with| with()) {
        let below = (800, "/nodes/0/memory/lent");
        go_on_from_changed(&machine, &checkpoint, folder.path(), below);
    }
}
