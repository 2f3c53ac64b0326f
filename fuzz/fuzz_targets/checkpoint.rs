//! Checkpoints of which somebody has changed fields and pages: refused with the field, or the program goes on for some
//! thousand instructions.
#![no_main]

#[path = "../../crates/sim/tests/exec/mutation.rs"]
mod mutation;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_sim::exec::part::{self, Begun, Part};
use rackmem_sim::exec::{Checkpoint, Job, Options};
use rackmem_sim::machine::{self, Machine, Override};
use serde_json::{Value, json};

const STATE_TEST: (&[u8], &str) =
    (include_bytes!("../../programs/prebuilt/state_test.rv64"), "test in out");
/// It is in a context.
const PAGERANK: (&[u8], &str) = (
    include_bytes!("../../programs/prebuilt/pagerank.rv64"),
    "pagerank --kronecker 4 --variant bulk",
);

/// It is on scratchpads.
const FFT: (&[u8], &str) = (
    include_bytes!("../../programs/prebuilt/fft.rv64"),
    "fft --n=64 --cores=2 --mechanism=dma --rounds=2",
);

/// Its heap is borrowed memory.
const HEAP: (&[u8], &str) = (
    include_bytes!("../../programs/prebuilt/window_test.rv64"),
    "window_test --llc-bytes=64K --heap",
);

/// It has a connection by queue pairs in hardware.
const MESSAGES: (&[u8], &str) = (
    include_bytes!("../../programs/prebuilt/tsm_qpair.rv64"),
    "tsm_qpair --sizes=64,1000 --rounds=3 --messages=12",
);

/// Instructions and cycles for which a program goes on.
const INSTRUCTIONS: u64 = 3000;
const CYCLES: u64 = 1 << 20;

/// A real checkpoint, its head as JSON, and the machine that goes on from it.
struct Seed {
    machine: Machine,
    checkpoint: Checkpoint,
    head: Value,
}

struct Lab {
    folder: PathBuf,
    seeds: Vec<Seed>,
}

impl Lab {
    fn new() -> Lab {
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = folder.join(format!("rackmem-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut lab = Lab { folder, seeds: Vec::new() };
        let chips = [
            ("network.remote", "nodes"),
            ("ni.completion", "acknowledged"),
            ("tiles.columns", "2"),
            ("tiles.rows", "2"),
            ("memory.controllers", "2"),
            ("memory.size_bytes", "64M"),
        ];
        let small = [("memory.size_bytes", "64M")];
        let lends = [("memory.size_bytes", "64M"), ("window.lent_bytes", "1M")];
        let on_heap = [&lends[..], &[("window.heap", "true")]].concat();
        for (machine, program, nodes, after) in [
            (("manycore-ni", &chips[..]), STATE_TEST, 1, 60_000),
            (("sonuma", &small), STATE_TEST, 1, 30_000),
            (("sonuma", &small), STATE_TEST, 2, 4_000),
            (("sonuma", &small), PAGERANK, 2, 200_000),
            (("manycore-ni", &chips), PAGERANK, 2, 200_000),
            (("cache-integrated", &small), FFT, 1, 30_000),
            (("tsm-sim", &on_heap), HEAP, 2, 30_000),
            (("thunder-cores", &lends), MESSAGES, 2, 20_000),
        ] {
            let part = Part::Instructions { after, count: Some(INSTRUCTIONS / 2) };
            lab.add(machine, program, nodes, part);
        }
        lab
    }

    /// Puts the files there as they were.
    fn write_files(&self) {
        let lines: String = (1..=200).map(|number| format!("{number}\n")).collect();
        fs::write(self.folder.join("in"), lines).unwrap();
    }

    fn options(&self, from: [u64; 2]) -> Options<'static> {
        Options {
            folder: Some(self.folder.clone()),
            max_instructions: Some(from[0].saturating_add(INSTRUCTIONS)),
            max_cycles: Some(from[1].saturating_add(CYCLES)),
            ..Options::default()
        }
    }

    fn add(
        &mut self,
        (name, settings): (&str, &[(&str, &str)]),
        (program, args): (&[u8], &str),
        nodes: u16,
        part: Part,
    ) {
        self.write_files();
        let settings: Vec<Override> =
            settings.iter().map(|(path, value)| Override::new(*path, value)).collect();
        let machine = machine::load(name, &settings).unwrap();
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        let job = Job { program, args: &args, env: &[], nodes };
        let options = self.options([1 << 20; 2]);
        let checkpoint = match part::checkpoint(&machine, &[job], part, options) {
            Ok(Begun::Checkpoint(checkpoint)) => checkpoint,
            other => panic!("no checkpoint of {name}: {other:?}"),
        };
        let mut head: Value = serde_json::from_str(checkpoint.parts().0).unwrap();
        let status =
            json!({"kind": "Device", "size": 0, "inode": 1, "permissions": 0o600, "links": 1});
        let table = &mut head["nodes"][0]["kernel"]["files"]["table"];
        let mut watched = json!({"descriptor": 20, "file": 70, "events": 1, "data": 0});
        watched["number"] = json!(0);
        watched["turn"] = Value::Null;
        // What the program does not use.
        for (number, open) in [
            (70, json!({"Event": {"count": 1, "one_by_one": true}})),
            (71, json!({"Epoll": [watched]})),
            (72, json!({"Text": [[1, 2, 3], 1]})),
            (73, json!({"Folder": ["/rackmem", [{"name": "in", "kind": "File", "inode": 1}], 1]})),
        ] {
            table["files"][number.to_string()] =
                json!({"open": open, "flags": 2, "status": status});
            let slots = table["descriptors"].as_array_mut().unwrap();
            slots.resize(slots.len().max(24), Value::Null);
            slots[number - 50] = json!({"file": number, "close_on_exec": false});
        }
        table["last"] = json!(80);
        self.seeds.push(Seed { machine, checkpoint: *checkpoint, head });
    }
}

fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(Lab::new)
}

/// A choice: most take a byte.
fn choice(input: &mut Unstructured<'_>) -> u64 {
    match input.arbitrary::<u8>().unwrap_or(0) {
        255 => input.arbitrary().unwrap_or(0),
        small => small.into(),
    }
}

/// A word of a page is another one.
fn change_page(contents: &mut [Vec<u8>], input: &mut Unstructured<'_>) {
    let node = choice(input) as usize % contents.len();
    let bytes = &mut contents[node];
    let place = (choice(input) << 16 | choice(input) << 8 | choice(input)) as usize;
    let place = place.checked_rem(bytes.len()).unwrap_or(0);
    let value = choice(input).to_le_bytes();
    let length = bytes.len().saturating_sub(place).min(1 << (choice(input) % 4));
    bytes[place..place + length].copy_from_slice(&value[..length]);
}

fuzz_target!(|data: &[u8]| {
    let lab = lab();
    let mut input = Unstructured::new(data);
    let seed = &lab.seeds[choice(&mut input) as usize % lab.seeds.len()];
    // It may go on on another machine.
    let on = &lab.seeds[choice(&mut input) as usize % lab.seeds.len()].machine;
    let machine = if choice(&mut input) % 4 == 0 { on } else { &seed.machine };
    let (mut head, mut contents) = (seed.head.clone(), seed.checkpoint.parts().1.to_vec());
    let mut changes = 0;
    while !input.is_empty() && changes < 16 {
        changes += 1;
        match choice(&mut input) % 4 {
            0 => change_page(&mut contents, &mut input),
            _ => mutation::change(&mut head, &mut || choice(&mut input)),
        }
    }
    match seed.checkpoint.with_parts(head.to_string(), contents) {
        Err(why) => assert!(changes > 0 && why.contains(": "), "{why}"),
        Ok(read) => {
            lab.write_files();
            let options = lab.options([read.taken().instructions, read.taken().cycle]);
            let outcome = part::restore(machine, &read, read.part(), options);
            assert!(changes > 0 || outcome.is_ok() || !std::ptr::eq(machine, &seed.machine));
        }
    }
});
