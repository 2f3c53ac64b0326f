//! Checkpoints that somebody has changed: an error that names the field, or a program that goes on, and no panic.

use std::fs;
use std::path::Path;

use rackmem_sim::exec::part::{self, Part};
use rackmem_sim::exec::{Checkpoint, Options};
use rackmem_sim::machine::Machine;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::checkpoints::{STATE_TEST, folder, options_in, taken};
use super::guest::from;
use super::mutation::change;
use super::{chips, contexts, load, pads};

const PAGERANK: [&str; 5] = ["pagerank", "--kronecker", "5", "--variant", "bulk"];

/// The parts of a checkpoint's file, with a way to change them: head, program, contents of nodes.
#[derive(Clone)]
pub(super) struct Parts {
    name: Vec<u8>,
    pub head: Value,
    others: Vec<Vec<u8>>,
}

impl Parts {
    pub fn of(checkpoint: &Checkpoint) -> Parts {
        let mut file = Vec::new();
        checkpoint.write(&mut file).unwrap();
        let name_bytes = file.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let (name, rest) = file.split_at(name_bytes);
        let word = |at: usize| u64::from_le_bytes(rest[8 * at..][..8].try_into().unwrap()) as usize;
        let count = word(0);
        let mut rest = &rest[8 * (1 + count) + 32..];
        let mut others = Vec::new();
        for length in (1..=count).map(word) {
            let (part, behind) = rest.split_at(length);
            others.push(part.to_vec());
            rest = behind;
        }
        let head = serde_json::from_slice(&others.remove(0)).unwrap();
        Parts { name: name.to_vec(), head, others }
    }

    /// Changes a word of a page of node 0, the page by its place among those of the file.
    fn set_word(&mut self, place: usize, number: usize, value: u64) {
        let (before, rest) = self.others[1].split_at(self.page_begins()[place]);
        let (page, behind) =
            rest[2..].split_at(usize::from(u16::from_le_bytes([rest[0], rest[1]])));
        let mut bytes = page.iter().copied();
        let mut words: Vec<[u8; 8]> = Vec::new();
        while let Some(mask) = bytes.next() {
            words.push(std::array::from_fn(|bit| {
                if mask >> bit & 1 == 1 { bytes.next().unwrap() } else { 0 }
            }));
        }
        words[number] = value.to_le_bytes();
        let whole = [&4096u16.to_le_bytes()[..], &words.concat()].concat();
        self.others[1] = [before, &whole, behind].concat();
    }

    fn page_begins(&self) -> Vec<usize> {
        let mut begins = vec![0];
        while let [low, high, ..] = self.others[1][begins[begins.len() - 1]..] {
            begins
                .push(begins[begins.len() - 1] + 2 + usize::from(u16::from_le_bytes([low, high])));
        }
        begins
    }

    /// Reads a file of them, whose digest is right.
    pub fn read(&self, path: &Path) -> Result<Checkpoint, String> {
        let head = self.head.to_string().into_bytes();
        let parts: Vec<&[u8]> =
            [&head[..]].into_iter().chain(self.others.iter().map(Vec::as_slice)).collect();
        let count = parts.len() as u64;
        let lengths = parts.iter().map(|part| part.len() as u64);
        let lengths: Vec<u8> =
            [count].into_iter().chain(lengths).flat_map(u64::to_le_bytes).collect();
        let contents = parts.concat();
        let digest = Sha256::new_with_prefix(&lengths).chain_update(&contents).finalize();
        fs::write(path, [&self.name[..], &lengths, &digest, &contents].concat()).unwrap();
        Checkpoint::read(path)
    }
}

/// Goes on for some thousand instructions, or a million cycles; the reason if it does not.
pub(super) fn go_on(
    machine: &Machine,
    checkpoint: &Checkpoint,
    folder: &Path,
) -> Result<(), String> {
    let from = checkpoint.taken();
    let options = Options {
        max_instructions: Some(from.instructions.saturating_add(3_000)),
        max_cycles: Some(from.cycle.saturating_add(1 << 20)),
        ..options_in(folder)
    };
    let outcome = part::restore(machine, checkpoint, checkpoint.part(), options);
    outcome.map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn a_field_out_of_bounds_is_named() {
    let folder = folder();
    let checkpoint = taken(&chips(&[]), &STATE_TEST, from(60_000), folder.path());
    let path = folder.path().join("here");
    let whole = Parts::of(&checkpoint);
    assert!(whole.read(&path).is_ok());
    let (huge, file) = (
        1u64 << 60,
        json!({"kind": "Device", "size": 0, "inode": 1, "permissions": 0o600, "links": 1}),
    );
    let file = |open: Value| json!({"open": open, "flags": 2, "status": file});
    let interest = |file, turn: Option<u64>| {
        let mut interest = json!({"descriptor": 4, "file": file, "events": 1, "data": 0});
        interest["number"] = json!(0);
        interest["turn"] = json!(turn);
        interest
    };
    let own = |file| json!({"Epoll": [interest(file, None)]});
    let readable = json!({"read": true, "write": false, "execute": false});
    let piped = |pages: Value, resized: Value| {
        let pipe = json!({"bytes": [1, 2, 3], "pages": pages, "resized": resized, "fifo": null});
        json!({"1": pipe})
    };
    let alarm = json!({"due_ns": null, "period_ns": 0});
    let timer = |id: u32, signal: u64| {
        let notice = json!({"Signal": {"signal": signal, "value": 0, "thread": null}});
        json!({id.to_string(): {"clock": 0, "alarm": alarm.clone(), "notice": notice}})
    };
    let in_memory = |pages: Value, size_bytes: u64| {
        let content = json!({"pages": pages, "size_bytes": size_bytes, "permissions": 0});
        let file = json!({"name": "", "content": content, "position": 0});
        json!({"File": {"Memory": file}})
    };
    let region = |start: u64, end: u64, offset: u64| {
        let permissions = json!({"read": true, "write": true, "execute": false});
        json!({"start": start, "end": end, "file": 1, "inode": 1, "offset": offset,
            "permissions": permissions, "may_write": true})
    };
    let waiter = |hart| json!({"hart": hart, "address": 0, "bits": 1});
    let asleep = |until, hart| json!({"Asleep": {"hart": hart, "until": until}});
    let hart = |pc: u64| {
        let zeros = vec![0; 32];
        json!({"pc": pc, "x": zeros, "f": zeros, "fflags": 0, "frm": 0})
    };
    for (pointer, value, field) in [
        ("taken/clock_ghz", json!(0.0), "taken.clock_ghz"),
        ("taken/cycle", json!(huge), "taken.cycle"),
        ("taken/instructions", json!(-1), "taken.instructions"),
        ("inside", json!(huge), "inside"),
        ("args", json!([]), "args"),
        ("part/instructions/after", json!(huge), "part.instructions.after"),
        (
            "part",
            json!({"samples": {"every": 0, "warm_up": 0, "length": 0}}),
            "part.samples.length",
        ),
        ("nodes", json!([]), "nodes"),
        ("inodes", json!([[[0, 0, 9]], 8]), "inodes"),
        ("nodes/0/turns/ends", json!([0]), "turns.ends"),
        ("nodes/0/turns/ends/0", json!(huge), "turns.ends"),
        ("nodes/0/turns/holders/0", json!(1), "turns.holders[0]"),
        ("nodes/0/threads/0", json!("Idle"), "threads[0]"),
        ("nodes/0/threads/0", asleep(json!(5), hart(2)), "threads[0].until"),
        ("nodes/0/threads/0", asleep(json!(null), hart(3)), "threads[0].hart.pc"),
        ("nodes/0/cores", json!([]), "cores"),
        ("nodes/0/cores/0/stats/cycles", json!(huge), "cores[0].stats.cycles"),
        ("nodes/0/cores/0/fast/due", json!(huge), "cores[0].fast.due"),
        ("nodes/0/cores/0/fast/hart/x/0", json!(1), "cores[0].fast.hart.x[0]"),
        ("nodes/0/cores/0/fast/hart/frm", json!(8), "cores[0].fast.hart.frm"),
        ("nodes/0/cores/0/fast/touches/0", json!(huge), "cores[0].fast.touches[0]"),
        ("nodes/0/memory/fresh/end", json!(huge), "memory.next"),
        ("nodes/0/memory/next", json!(0), "memory.next"),
        ("nodes/0/memory/page_bytes", json!(0), "memory.page_bytes"),
        ("nodes/0/memory/free", json!([8]), "memory.free[0]"),
        ("nodes/0/memory/places/1", json!(0), "memory.places[1]"),
        ("nodes/0/memory/places/0", json!(8), "memory.places[0]"),
        ("nodes/0/memory/places", json!([]), "memory.places"),
        ("nodes/0/memory/pages/1/0", json!(0), "memory.pages[1]"),
        ("nodes/0/memory/pages/0/0", json!(1), "memory.pages[0]"),
        ("nodes/0/memory/pages/0/1", json!(0), "memory.pages[0]"),
        ("nodes/0/memory/pages/0/1", json!(huge), "memory.pages[0]"),
        ("nodes/0/kernel/memory", json!({}), "kernel.memory"),
        ("nodes/0/kernel/memory/heap_end", json!(0), "kernel.memory.heap_end"),
        ("nodes/0/kernel/memory/mappings/taken", json!({"0": 1}), "kernel.memory.mappings.taken"),
        ("nodes/0/kernel/memory/mappings/taken", json!({"0": 1u64 << 46}), "kernel.memory"),
        (
            "nodes/0/kernel/memory/reserved/taken",
            json!({"8192": 4096}),
            "kernel.memory.reserved.taken",
        ),
        ("nodes/0/kernel/threads/on", json!(vec![Value::Null; 2000]), "kernel.threads.on"),
        ("nodes/0/kernel/threads/last_id", json!(huge), "kernel.threads.last_id"),
        ("nodes/0/kernel/threads/on/0/id", json!(0), "kernel.threads.on"),
        ("nodes/0/kernel/futexes/waiters", json!([waiter(900)]), "kernel.futexes.waiters[0].hart"),
        (
            "nodes/0/kernel/futexes/waiters",
            json!([waiter(1), waiter(1)]),
            "kernel.futexes.waiters[1].hart",
        ),
        ("nodes/0/kernel/sleepers", json!({"900": {"Time": 5}}), "kernel.sleepers.900"),
        ("nodes/0/kernel/signals/actions", json!([]), "kernel.signals.actions"),
        ("nodes/0/kernel/signals/trampoline", json!(4096), "kernel.signals.trampoline"),
        (
            "nodes/0/kernel/signals/pending/waiting",
            json!([{"signal": 65, "code": 0, "source": "Kernel"}]),
            "kernel.signals.pending.waiting",
        ),
        ("nodes/0/kernel/timers/next_id", json!(u32::MAX), "kernel.timers.next_id"),
        ("nodes/0/kernel/timers/timers", timer(7, 14), "kernel.timers.next_id"),
        (
            "nodes/0/kernel/timers",
            json!({"intervals": vec![alarm.clone(); 3],
            "timers": timer(0, 65), "next_id": 1}),
            "kernel.timers.timers.0.notice",
        ),
        (
            "nodes/0/kernel/shared/regions",
            json!([region(8192, 4096, 0)]),
            "kernel.shared.regions[0]",
        ),
        ("nodes/0/kernel/shared/regions", json!([region(0, 4096, 1)]), "kernel.shared.regions[0]"),
        ("nodes/0/kernel/shared/regions", json!([region(0, huge, 0)]), "kernel.shared.regions[0]"),
        (
            "nodes/0/kernel/shared/regions",
            json!([region(0, 8192, 0), region(4096, 8192, 0)]),
            "kernel.shared.regions[1]",
        ),
        ("nodes/0/kernel/files/table/kept", json!(vec![0; 2000]), "kernel.files.table.kept"),
        ("nodes/0/kernel/files/table/kept", json!([99]), "kernel.files.table.kept"),
        ("nodes/0/kernel/files/table/last", json!(0), "kernel.files.table.last"),
        ("nodes/0/kernel/files/table/last", json!(u32::MAX), "kernel.files.table.last"),
        (
            "nodes/0/kernel/files/table/descriptors",
            json!(vec![Value::Null; 2000]),
            "kernel.files.table.descriptors",
        ),
        (
            "nodes/0/kernel/files/table/descriptors/0/file",
            json!(99),
            "kernel.files.table.descriptors[0].file",
        ),
        ("nodes/0/kernel/files/table/on_disk", json!(9), "kernel.files.table.on_disk"),
        ("nodes/0/kernel/files/table/timers", json!([1]), "kernel.files.table.timers"),
        ("nodes/0/kernel/files/table/holds", json!({"0": {"3": 99}}), "kernel.files.table.holds"),
        ("nodes/0/kernel/files/table/holds", json!({"7": {"0": 1}}), "kernel.files.table.holds.7"),
        ("nodes/0/kernel/files/table/files/1", file(own(1)), "kernel.files.table.files.1.open"),
        (
            "nodes/0/kernel/files/table/files/1",
            file(own(99)),
            "kernel.files.table.files.1.open.4.file",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(json!({"Epoll": [interest(0, None), interest(0, None)]})),
            "kernel.files.table.files.1.open",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(json!({"Epoll": [interest(2, Some(u64::MAX))]})),
            "kernel.files.table.files.1.open.4",
        ),
        (
            "nodes/0/kernel/files/table/pipes",
            piped(json!([{"begin": 0, "end": 2}]), json!(null)),
            "kernel.files.table.pipes.1.pages",
        ),
        (
            "nodes/0/kernel/files/table/pipes",
            piped(json!([{"begin": 4095, "end": 4098}]), json!(null)),
            "kernel.files.table.pipes.1.pages",
        ),
        (
            "nodes/0/kernel/files/table/pipes",
            piped(json!([{"begin": 0, "end": 3}]), json!(5000)),
            "kernel.files.table.pipes.1.resized",
        ),
        (
            "nodes/0/kernel/memory/beyond/by_start",
            json!({"4096": {"end": 8192, "permissions": readable}}),
            "kernel.memory.beyond",
        ),
        ("nodes/0/kernel/memory/locked/taken", json!({"4096": 8191}), "kernel.memory.locked.taken"),
        (
            "nodes/0/kernel/files/table/files/1",
            file(json!({"Pipe": 99})),
            "kernel.files.table.files.1.open",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(json!({"Event": {"count": u64::MAX, "one_by_one": false}})),
            "kernel.files.table.files.1.open.count",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(json!({"Timer": {"clock": 3, "alarm": alarm, "count": 0, "is_due": false}})),
            "kernel.files.table.files.1.open.clock",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(in_memory(json!({}), huge << 3)),
            "kernel.files.table.files.1.open.size_bytes",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(in_memory(json!({"1": vec![0; 4096]}), 4096)),
            "kernel.files.table.files.1.open.pages.1",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(in_memory(json!({"0": [1]}), 4096)),
            "kernel.files.table.files.1.open.pages.0",
        ),
        (
            "nodes/0/kernel/files/table/files/1",
            file(
                json!({"Folder": ["/", [{"name": "n".repeat(300), "kind": "File", "inode": 1}], 0]}),
            ),
            "kernel.files.table.files.1.open",
        ),
    ] {
        is_named(&whole, &path, (pointer, value, field));
    }
}

pub(super) fn is_named(whole: &Parts, path: &Path, (pointer, value, field): (&str, Value, &str)) {
    let mut changed = whole.clone();
    *changed.head.pointer_mut(&format!("/{pointer}")).expect(pointer) = value.clone();
    let why = changed.read(path).expect_err(pointer);
    let node = if pointer.starts_with("nodes/") { "nodes[0]." } else { "" };
    assert!(why.starts_with(&format!("{node}{field}: ")), "{pointer} = {value}: {why}");
    assert!(why.ends_with("take it again"), "{why}");
}

#[test]
fn a_field_of_contexts_out_of_bounds_is_named() {
    let folder = folder();
    let path = folder.path().join("here");
    let whole = Parts::of(&contexts::taken(&load("sonuma", &[]), &PAGERANK, 300_000));
    assert!(whole.read(&path).is_ok());
    let memory = &whole.head["nodes"][0]["memory"];
    let (own, phys) = (memory["pages"][0][0].clone(), memory["pages"][0][1].clone());
    let huge = 1u64 << 60;
    let own_phys = phys.as_u64().unwrap();
    let pair = &whole.head["nodes"][0]["device"]["queue_pairs"]["0"];
    let offset = |ring: usize| pair["rings"][ring][0].as_u64().unwrap() % 4096;
    assert_eq!([offset(0), offset(1)], [0, 2048], "queues of 128 entries, in one page");
    let ring = memory["queues"][0][1].as_u64().unwrap();
    let free = ring + 2048 + 1024;
    let unused = |wq: u64, cq: u64, size: u64| json!([{"wq": wq, "cq": cq, "size": size}]);
    let whole_rings = unused(free, free + 256, 8);
    let mut changed = whole.clone();
    changed.head["nodes"][0]["memory"]["unused"] = whole_rings.clone();
    assert!(changed.read(&path).is_ok());
    for (pointer, value, field) in [
        ("ended", json!(5), "ended"),
        ("device/contexts/0/peers", json!([true]), "device.contexts[0]"),
        ("device/contexts/0/segment/address", json!(5), "device.contexts[0]"),
        ("device/contexts/0/segment/bytes", json!(huge), "device.contexts[0]"),
        ("device/arriving", json!([[huge, 0, "Ended"]]), "device.arriving[0]"),
        ("device/arriving", json!([[1, 7, "Ended"]]), "device.arriving[0]"),
        ("device/arriving", json!([[1, 1, {"Joined": 64}]]), "device.arriving[0]"),
        ("device/queue_pairs/0/entries", json!(3), "device.queue_pairs[0]"),
        ("device/queue_pairs/0/entries", json!(1024), "device.queue_pairs[0]"),
        ("device/queue_pairs/0/ctx_id", json!(63), "device.queue_pairs[0]"),
        ("device/queue_pairs/0/ctx_id", json!(64), "device.queue_pairs[0]"),
        ("device/queue_pairs/0/rings/0/0", json!(8), "device.queue_pairs[0]"),
        ("device/queue_pairs/0/rings/0/0", json!(4096 - 64), "device.queue_pairs[0]"),
        ("device/queue_pairs/0/rings/1/1", json!(128), "device.queue_pairs[0]"),
        ("device/next_handle", json!(0), "device.next_handle"),
        ("device/next_handle", json!(huge), "device.next_handle"),
        ("memory/queues/0/0", json!(8), "memory.queues[0]"),
        ("memory/queues/0/0", own.clone(), "memory.queues[0]"),
        ("memory/queues/0/1", json!(huge), "memory.queues[0]"),
        ("memory/queues/0/1", phys, "memory.queues[0]"),
        ("memory/unused", unused(own_phys, free, 8), "memory.unused[0]"),
        ("memory/unused", unused(free, free, 8), "memory.unused[0]"),
        ("memory/unused", unused(ring, free, 8), "memory.unused[0]"),
        ("memory/unused", unused(free + 64, free + 256, 8), "memory.unused[0]"),
        ("memory/unused", unused(free, free + 256, 12), "memory.unused[0]"),
        ("memory/unused", unused(free, free + 8192, 256), "memory.unused[0]"),
        ("memory/unused", unused(free, huge, 8), "memory.unused[0]"),
        ("memory/unused", unused(free, 0, 8), "memory.unused[0]"),
        ("memory/unused", json!([&whole_rings[0], &whole_rings[0]]), "memory.unused[1]"),
        ("memory/for_lists", json!([8]), "memory.for_lists[0]"),
        ("memory/for_lists", json!([own_phys / 8192 * 8192]), "memory.for_lists[0]"),
        ("memory/spare", json!([[8, 4096]]), "memory.spare[0]"),
        ("memory/spare", json!([[huge, 4096]]), "memory.spare[0]"),
        ("memory/spare", json!([[1 << 30, 8192], [(1 << 30) + 4096, 4096]]), "memory.spare[1]"),
        ("memory/spare", json!([[own, 4096]]), "memory.spare[0]"),
    ] {
        is_named(&whole, &path, (&format!("nodes/0/{pointer}"), value, field));
    }
}

#[test]
fn a_field_of_interfaces_in_tiles_out_of_bounds_is_named() {
    let folder = folder();
    let path = folder.path().join("here");
    let chips = chips(&[]);
    let whole = Parts::of(&contexts::taken(&chips, &PAGERANK, 300_000));
    assert!(whole.read(&path).is_ok());
    let memory = &whole.head["nodes"][0]["memory"];
    let own = memory["pages"][0][0].clone();
    let (page, segment) = (memory["segment"][0].clone(), 64u64 << 30);
    assert_eq!(page[1], json!(segment));
    let places = memory["places"].as_array().unwrap();
    let first_place = places.iter().position(|place| place.as_u64().unwrap() >= segment).unwrap();
    let last = places.len() - 1;
    let huge = 1u64 << 60;
    for (pointer, value, field) in [
        ("memory/segment/0/0", json!(8), "memory.segment[0]"),
        ("memory/segment/0/0", own, "memory.segment[0]"),
        ("memory/segment/0/1", json!(segment + 8), "memory.segment[0]"),
        ("memory/segment/0/1", json!(0), "memory.segment[0]"),
        ("memory/segment/0/1", json!(huge), "memory.segment[0]"),
        ("memory/segment", json!([page, page]), "memory.segment[1]"),
        ("memory/segment", json!([]), &format!("memory.places[{first_place}]")),
        (&format!("memory/places/{last}"), json!(huge), &format!("memory.places[{last}]")),
        ("memory/fresh/end", json!(segment + 4096), "memory.segment"),
        ("memory/queues/0/1", json!(8), "memory.queues[0]"),
        ("memory/queues/0/1", json!(huge), "memory.queues[0]"),
        ("device/queue_pairs/0/rings/0/0", json!(huge), "device.queue_pairs[0]"),
        ("device/queue_pairs/0/rings/0/0", json!(4096), "device.queue_pairs[0]"),
        ("device/contexts/0/segment/bytes", json!(huge), "device.contexts[0]"),
    ] {
        is_named(&whole, &path, (&format!("nodes/0/{pointer}"), value, field));
    }
    // Places are those of the machine, whatever the file says.
    for (pointer, value) in [
        ("device/queue_pairs/0/core", json!(1)),
        ("device/queue_pairs/0/core", json!(4)),
        ("device/contexts/0/segment/bytes", json!(1u64 << 40)),
        ("device/contexts/0/segment/address", json!(4096)),
        ("memory/queues/0/1", json!(3 << 12)),
        ("memory/segment/0/1", json!(segment + (1 << 40))),
    ] {
        let mut changed = whole.clone();
        *changed.head.pointer_mut(&format!("/nodes/0/{pointer}")).unwrap() = value;
        let _ = changed.read(&path).map(|read| go_on(&chips, &read, folder.path()));
    }
}

#[test]
fn a_scratchpad_that_cannot_be_so_is_named() {
    let folder = folder();
    let path = folder.path().join("here");
    let whole = Parts::of(&pads::taken(pads::FFT, 30_000).unwrap());
    let machine = pads::machine(&[]);
    assert_eq!(go_on(&machine, &whole.read(&path).unwrap(), folder.path()), Ok(()));
    let zeros = [0; 8];
    let line = |number: u32, state: u64| json!({"number": number, "state": state, "tag": 0, "words": zeros});
    let all = |set: u32| (0..4).map(|way| line(way * 256 + set, 1)).collect::<Vec<_>>();
    let region = |base: u64| json!([{"base": base, "bytes": 64, "place": 0x20_0000_0000u64}]);
    for (pointer, value, field) in [
        ("cores", json!([]), "cores"),
        ("locks", json!([]), "cores, locks"),
        ("memory", json!([[1u64 << 40, zeros]]), "memory"),
        ("cores/0/lines/0/number", json!(1 << 20), "cores[0].lines[0]"),
        ("cores/0/lines", json!([line(5, 1), line(5, 1)]), "cores[0].lines[1]"),
        ("cores/0/lines", json!([line(5, 9)]), "cores[0].lines"),
        ("cores/0/lines", json!([line(0, 4)]), "cores[0].lines"),
        ("cores/0/lines", json!([line(0, 4 | 1 << 8 | 64 << 16)]), "cores[0].lines"),
        ("cores/0/lines", json!(all(3)), "cores[0].lines"),
        ("cores/0/table", region(0), "cores[0].table[0]"),
    ] {
        let mut changed = whole.clone();
        *changed.head.pointer_mut(&format!("/nodes/0/scratchpads/{pointer}")).unwrap() = value;
        let why = go_on(&machine, &changed.read(&path).unwrap(), folder.path()).expect_err(pointer);
        assert!(why.starts_with(&format!("scratchpads.{field}")), "{pointer}: {why}");
    }
}

#[test]
fn page_tables_that_map_something_else_are_refused() {
    let folder = folder();
    let machine = load("sonuma", &[]);
    let checkpoint = taken(&machine, &STATE_TEST, from(2_000), folder.path());
    let path = folder.path().join("here");
    let whole = Parts::of(&checkpoint);
    assert_eq!(go_on(&machine, &whole.read(&path).unwrap(), folder.path()), Ok(()));
    let mut late = whole.clone();
    late.head["taken"]["cycle"] = json!(1u64 << 55);
    assert_eq!(go_on(&machine, &late.read(&path).unwrap(), folder.path()), Ok(()), "without delay");
    let memory = &whole.head["nodes"][0]["memory"];
    let frames =
        memory["pages"].as_array().unwrap().iter().map(|page| page[1].as_u64().unwrap() >> 13);
    let frames: Vec<u64> = frames.collect();
    let places = memory["places"].as_array().unwrap().iter().map(|place| place.as_u64().unwrap());
    let fresh = memory["fresh"]["start"].as_u64().unwrap();
    // Pages of the node that are no pages of the program: the root, and the tables below it.
    let tables: Vec<usize> = (0..)
        .zip(places)
        .filter(|(_, place)| place + 8192 >= fresh && !frames.contains(&(place >> 13)))
        .map(|(at, _)| at)
        .collect();
    assert!(tables.len() > 3, "{tables:?}");
    for at in tables {
        for entry in [0xcf_u64, 1, 1 << 45 | 1, u64::MAX] {
            let mut changed = whole.clone();
            changed.set_word(at, 511, entry);
            let why = go_on(&machine, &changed.read(&path).unwrap(), folder.path());
            assert!(
                why.clone().is_err_and(|why| why.starts_with("memory: places: ")),
                "{at}: {why:?}"
            );
        }
    }
}

/// SplitMix64.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }
}

#[test]
fn changed_checkpoints_are_refused_or_go_on() {
    let folder = folder();
    let part = Part::Instructions { after: 60_000, count: Some(2_000) };
    let (chips, sonuma) = (chips(&[]), load("sonuma", &[]));
    for (machine, checkpoint) in [
        (&chips, taken(&chips, &STATE_TEST, part, folder.path())),
        (&sonuma, taken(&sonuma, &STATE_TEST, part, folder.path())),
        (&sonuma, contexts::taken(&sonuma, &PAGERANK, 300_000)),
        (&chips, contexts::taken(&chips, &PAGERANK, 300_000)),
    ] {
        go_on_from_changed(machine, &checkpoint, folder.path(), (300, ""));
    }
}

#[test]
fn changed_scratchpads_are_refused_or_go_on() {
    let checkpoint = pads::taken(pads::FFT, 30_000).unwrap();
    let folder = folder();
    go_on_from_changed(
        &pads::machine(&[]),
        &checkpoint,
        folder.path(),
        (800, "/nodes/0/scratchpads"),
    );
}

/// Changes a checkpoint below a field so many times, and goes on from each that can be read.
pub(super) fn go_on_from_changed(
    machine: &Machine,
    checkpoint: &Checkpoint,
    folder: &Path,
    (seeds, field): (u64, &str),
) {
    let path = folder.join("here");
    let whole = Parts::of(checkpoint);
    let [mut unread, mut refused, mut executed] = [0; 3];
    for seed in 0..seeds {
        let mut next = numbers(seed);
        let mut changed = whole.clone();
        for _ in 0..=next() % 3 {
            change(changed.head.pointer_mut(field).expect("a field"), &mut next);
        }
        if next() % 4 == 0 {
            let bytes = &mut changed.others[1];
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        match changed.read(&path).map(|read| go_on(machine, &read, folder)) {
            Err(why) => {
                assert!(why.contains(": ") && why.ends_with("take it again"), "{seed}: {why}");
                unread += 1;
            }
            Ok(Err(_)) => refused += 1,
            Ok(Ok(())) => executed += 1,
        }
    }
    assert!(unread > 50 && refused > 0 && executed > 50, "{unread} {refused} {executed}");
}
