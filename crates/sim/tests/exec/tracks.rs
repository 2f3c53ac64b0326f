//! The tracks of threads: slices nest, are those of what the program did, and change nothing.

use std::ops::Range;
use std::sync::Arc;

use rackmem_riscv::encode::{b, i, j, opcode, s, u};
use rackmem_riscv::{Hart, Symbols};
use rackmem_sim::cpu::{Call, Room, Track};
use rackmem_sim::engine::Cycle;
use rackmem_sim::exec::part::{self, Part};
use rackmem_sim::exec::tracks::{Slice, Thread, Tracks, What};
use rackmem_sim::exec::{Options, Outcome};
use rackmem_sim::machine::Machine;

use super::ends::{ECALL, li};
use super::guest::{Guest, elf, from, limited};
use super::same::all_of;
use super::{RACK_OF_CHIPS, SMALL_MESH, load};

const RA: u32 = 1;
const SP: u32 = 2;
const S0: u32 = 8;
const S1: u32 = 9;
const A0: u32 = 10;
const A1: u32 = 11;
const A7: u32 = 17;
const RET: u32 = i(opcode::JALR, 0, 0, RA, 0);
const BEGIN: u32 = i(opcode::OP_IMM, 2, 0, 0, 1);
const END: u32 = i(opcode::OP_IMM, 2, 0, 0, 2);

/// A piece of code.
enum Piece {
    Plain(u32),
    /// A jump to a function, which keeps its return address in this register.
    Jump(u32, &'static str),
}

use Piece::{Jump, Plain};

fn plain(code: &[u32]) -> Vec<Piece> {
    code.iter().map(|&inst| Plain(inst)).collect()
}

fn addi(rd: u32, rs: u32, value: i32) -> u32 {
    i(opcode::OP_IMM, 0, rd, rs, value)
}

fn call(name: &'static str) -> Piece {
    Jump(RA, name)
}

/// A function with a frame of its own on the stack.
fn framed(body: Vec<Piece>) -> Vec<Piece> {
    let mut code = plain(&[addi(SP, SP, -16), s(opcode::STORE, 3, SP, RA, 8)]);
    code.extend(body);
    code.extend(plain(&[i(opcode::LOAD, 3, RA, SP, 8), addi(SP, SP, 16), RET]));
    code
}

/// The first thread calls in all ways there are, starts another one that calls, too, and sleeps; a core of soNUMA has
/// both.
fn main_function() -> Vec<Piece> {
    const FLAGS: i32 = 0x100 | 0x1_0000;
    let mut code = vec![Plain(BEGIN), call("leaf"), call("leaf"), call("leaf"), call("outer")];
    code.extend([call("tail"), call("catches"), Plain(END), call("deep")]);
    code.push(Plain(u(opcode::LUI, A0, FLAGS & !0xfff)));
    code.push(Plain(addi(A0, A0, FLAGS & 0xfff)));
    code.extend((11..15).map(|register| Plain(li(register, 0))));
    code.extend(plain(&[li(A7, 220), ECALL]));
    let child = [call("leaf"), Plain(li(A7, 93)), Plain(ECALL)];
    code.push(Plain(b(1, A0, 0, 4 * (child.len() as i32 + 1))));
    code.extend(child);
    // nanosleep of 2000 ns.
    code.extend(plain(&[addi(SP, SP, -16), s(opcode::STORE, 3, SP, 0, 0), li(A0, 2000)]));
    code.extend(plain(&[s(opcode::STORE, 3, SP, A0, 8), addi(A0, SP, 0), li(A1, 0)]));
    code.extend(plain(&[li(A7, 101), ECALL, li(A7, 172), ECALL, li(A0, 0), li(A7, 94), ECALL]));
    code
}

/// The functions, the first one first.
fn functions() -> Vec<(&'static str, Vec<Piece>)> {
    // Comes back behind the call, two instructions on, with the stack pointer of `catches`.
    let thrower = plain(&[addi(SP, S0, 0), addi(RA, S1, 8), RET]);
    let first = [vec![Plain(addi(S1, RA, 0)), call("throws_second")], plain(&[0])].concat_pieces();
    let mut catches = vec![Plain(addi(S0, SP, 0)), call("throws_first")];
    catches.extend(plain(&[0, 0]));
    catches.push(call("leaf"));
    // Rounds of recursion, more than a track has frames.
    let mut deep = plain(&[li(A0, 300), addi(A0, A0, -1), b(0, A0, 0, 3 * 4)]);
    deep.extend([call("deeper"), Plain(li(A0, 0))]);
    let mut deeper = plain(&[addi(A0, A0, -1), b(0, A0, 0, 2 * 4)]);
    deeper.push(call("deeper"));
    vec![
        ("main", main_function()),
        ("leaf", plain(&[addi(A1, A1, 1), RET])),
        ("outer", framed(vec![call("leaf"), call("leaf")])),
        ("tail", vec![Jump(0, "leaf")]),
        ("catches", framed(catches)),
        ("throws_first", framed(first)),
        ("throws_second", framed(thrower)),
        ("deep", framed(deep)),
        ("deeper", framed(deeper)),
    ]
}

trait Pieces {
    fn concat_pieces(self) -> Vec<Piece>;
}

impl<const N: usize> Pieces for [Vec<Piece>; N] {
    fn concat_pieces(self) -> Vec<Piece> {
        self.into_iter().flatten().collect()
    }
}

/// The program of these functions, as a static ELF file with a table of symbols.
fn program() -> Vec<u8> {
    const CODE: u64 = 0x1_0000 + 64 + 56;
    let functions = functions();
    let mut starts = Vec::new();
    let mut length = 0;
    for (name, code) in &functions {
        starts.push((*name, length, code.len() as i32 * 4));
        length += code.len() as i32 * 4;
    }
    let start = |name: &str| starts.iter().find(|(known, ..)| *known == name).unwrap().1;
    let pieces = functions.iter().flat_map(|(_, code)| code).zip(0..);
    let code: Vec<u32> = pieces
        .map(|(piece, at)| match piece {
            Plain(inst) => *inst,
            Jump(rd, name) => j(*rd, start(name) - 4 * at),
        })
        .collect();
    let mut file = elf(&code);
    let (mut symbols, mut names) = (vec![0u8; 24], vec![0u8]);
    for (name, start, bytes) in &starts {
        symbols.extend((names.len() as u32).to_le_bytes());
        // A global function of section 1.
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend((CODE + *start as u64).to_le_bytes());
        symbols.extend((*bytes as u64).to_le_bytes());
        names.extend(name.bytes().chain([0]));
    }
    let (symbols_at, names_at) = (file.len() as u64, (file.len() + symbols.len()) as u64);
    let sections_at = names_at + names.len() as u64;
    let section = |kind: u32, at: u64, bytes: u64, link: u32, entry: u64| {
        let mut header = [0u32.to_le_bytes(), kind.to_le_bytes()].concat();
        header.extend([0, 0, at, bytes].iter().flat_map(|word: &u64| word.to_le_bytes()));
        header.extend([link, 0].iter().flat_map(|half| half.to_le_bytes()));
        header.extend([1, entry].iter().flat_map(|word: &u64| word.to_le_bytes()));
        header
    };
    let headers = [
        section(0, 0, 0, 0, 0),
        section(2, symbols_at, symbols.len() as u64, 2, 24),
        section(3, names_at, names.len() as u64, 0, 0),
    ];
    file.extend(symbols.into_iter().chain(names));
    file.extend(headers.concat());
    file[40..48].copy_from_slice(&sections_at.to_le_bytes());
    file[58..64].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
    file
}

/// Runs the program, or a part of it, with tracks of a stretch of time.
fn run_part(machine: &Machine, part: Part, trace: Range<Cycle>) -> Outcome {
    Guest::elf(1, program()).run_part(machine, part, options(trace))
}

fn options(trace: Range<Cycle>) -> Options<'static> {
    let trace = (trace.start, trace.end);
    Options { trace, ..limited(10_000_000) }
}

fn run(trace: Range<Cycle>) -> Outcome {
    run_part(&load("sonuma", &[]), Part::Whole, trace)
}

fn name(tracks: &Tracks, what: &What) -> String {
    match what {
        What::Function(address) => tracks.function(address.unwrap()).to_owned(),
        What::Call(call) => call.name.clone(),
        What::Wait(why) => format!("[{why}]"),
        What::Handler => "signal".to_owned(),
    }
}

/// The slices of a thread, which nest, as text: `outer(inner inner) next`.
fn tree(tracks: &Tracks, thread: &Thread) -> String {
    let mut text = String::new();
    let mut around: Vec<&Slice> = Vec::new();
    let close = |text: &mut String, around: &mut Vec<&Slice>, begin| {
        while around.last().is_some_and(|slice| slice.end <= begin) {
            around.pop();
            text.push(')');
        }
    };
    for slice in &thread.slices {
        assert!(slice.begin <= slice.end, "{slice:?}");
        close(&mut text, &mut around, slice.begin);
        assert!(
            around.last().is_none_or(|outer| slice.end <= outer.end),
            "{slice:?} in {around:?}"
        );
        text += &format!(" {}(", name(tracks, &slice.what));
        around.push(slice);
    }
    close(&mut text, &mut around, Cycle::MAX);
    text.replace("()", "").replace("( ", "(").trim().to_owned()
}

fn thread(tracks: &Tracks, id: u64) -> &Thread {
    tracks.threads.iter().find(|thread| thread.id == id).expect("a thread")
}

/// The innermost function that is around `deeper` at its deepest, and how often it is there.
fn deepest(tree: &str) -> usize {
    tree.matches("deeper").count()
}

#[test]
fn a_thread_shows_what_it_did() {
    let outcome = run(0..Cycle::MAX);
    let tracks = &outcome.nodes[0].tracks;
    assert_eq!((tracks.dropped, tracks.whole_to, tracks.threads.len()), (0, None, 2));
    let first = tree(tracks, thread(tracks, 1000));
    let begin = "main(leaf leaf leaf outer(leaf leaf) tail leaf catches(throws_first(throws_second) leaf) deep(deeper(";
    assert!(first.starts_with(begin), "{first}");
    assert_eq!(deepest(&first), 254, "256 frames, with main and deep");
    let end = ") clone nanosleep([asleep]) getpid) exit_group";
    assert!(first.ends_with(end), "{first}");
    let second = tree(tracks, thread(tracks, 1001));
    assert_eq!(second, "[waits for its turn] main(leaf) exit", "{second}");

    let calls = thread(tracks, 1000).slices.iter().filter_map(|slice| match &slice.what {
        What::Call(call) => Some((call, slice)),
        _ => None,
    });
    let calls: Vec<_> = calls.collect();
    let results: Vec<_> = calls.iter().map(|(call, _)| call.result).collect();
    assert_eq!(results, [Some(1001), Some(0), Some(1000), None]);
    let (sleep, slice) = calls[1];
    assert_eq!(sleep.args, [("time", "0.000002000 s".to_owned())]);
    assert!((4000..4500).contains(&(slice.end - slice.begin)), "at 2 GHz: {slice:?}");
    assert_eq!(calls[3].0.args, [("status", "0".to_owned())]);
}

#[test]
fn cores_show_their_turns_regions_and_counts() {
    let outcome = run(0..Cycle::MAX);
    let tracks = &outcome.nodes[0].tracks;
    let turns: Vec<u64> = tracks.turns.iter().map(|turn| turn.thread).collect();
    assert_eq!(turns, [1000, 1001, 1000]);
    assert!(tracks.turns.is_sorted_by_key(|turn| turn.cycles.end));
    assert!(tracks.turns.windows(2).all(|two| two[0].cycles.end <= two[1].cycles.start));
    let first = thread(tracks, 1000);
    let [region] = &first.regions[..] else { panic!("{:?}", first.regions) };
    let of = |wanted: &str| {
        first.slices.iter().find(|slice| name(tracks, &slice.what) == wanted).unwrap()
    };
    assert!(region.start <= of("leaf").begin && region.end <= of("deep").begin, "{region:?}");
    assert!(region.end >= of("catches").end, "{region:?}");
    let [(0, tally)] = &tracks.tallies[..] else { panic!("{:?}", tracks.tallies) };
    let retired: u64 = tally.retired.iter().map(|&count| u64::from(count)).sum();
    assert_eq!(retired, outcome.nodes[0].instructions);
    assert_eq!(tally.retired.len(), tally.missing.len());
    assert!(tally.missing.iter().any(|&count| count > 0));
}

#[test]
fn a_window_cuts_the_whole() {
    let whole = run(0..Cycle::MAX).nodes[0].tracks.clone();
    let (begin, end) = (whole.turns[0].cycles.start, whole.turns[2].cycles.end);
    assert!(end - begin > 5000);
    for window in [begin + 500..begin + 900, begin + 700..begin + 2900, end - 100..end + 100] {
        let outcome = run(window.clone());
        let tracks = &outcome.nodes[0].tracks;
        assert!(tracks.count() > 0, "{window:?}");
        for thread in &tracks.threads {
            let all = self::thread(&whole, thread.id).slices.iter();
            let inside = all.filter(|slice| slice.end >= window.start && slice.begin < window.end);
            let cut = inside.map(|slice| {
                (
                    slice.begin.max(window.start),
                    slice.end.min(window.end),
                    name(&whole, &slice.what),
                )
            });
            let found = thread.slices.iter();
            let found = found.map(|slice| (slice.begin, slice.end, name(tracks, &slice.what)));
            assert_eq!(found.collect::<Vec<_>>(), cut.collect::<Vec<_>>(), "{window:?}");
        }
        let (_, tally) = &tracks.tallies[0];
        let last = window.end.min(outcome.nodes[0].cycle + 1);
        let intervals = (last - window.start).div_ceil(tally.interval) as usize;
        assert_eq!((&tally.cycles, tally.retired.len()), (&(window.start..last), intervals));
    }
}

#[test]
fn tracks_change_nothing() {
    let machine = load("sonuma", &[]);
    for part in
        [Part::Whole, Part::Region, Part::Instructions { after: 9, count: Some(20) }, from(3000)]
    {
        let (alone, traced) = (run_part(&machine, part, 0..0), run_part(&machine, part, 0..2000));
        assert_eq!(all_of(&alone), all_of(&traced), "{part:?}");
        assert!(
            alone.nodes[0].tracks.threads.is_empty() && alone.nodes[0].tracks.tallies.is_empty()
        );
        let tracks = &traced.nodes[0].tracks;
        tracks.threads.iter().for_each(|thread| _ = tree(tracks, thread));
    }
}

/// Without timing no function is shown; then those that it is in are, as far as they are known.
#[test]
fn functions_begin_with_the_timing() {
    let machine = load("sonuma", &[]);
    let outcome = run_part(&machine, from(10), 0..Cycle::MAX);
    let tracks = &outcome.nodes[0].tracks;
    let first = tree(tracks, thread(tracks, 1000));
    let last = tree(tracks, thread(tracks, 1001));
    assert!(!first.contains("catches") && first.ends_with("exit_group"), "{first}");
    assert!(last.contains("exit"), "{last}");
    // Nor after it.
    let part = Part::Instructions { after: 10, count: Some(20) };
    let outcome = run_part(&machine, part, 0..Cycle::MAX);
    let tracks = &outcome.nodes[0].tracks;
    let first = tree(tracks, thread(tracks, 1000));
    assert!(first.ends_with(" nanosleep([asleep]) getpid exit_group"), "{first}");
}

#[test]
fn threads_of_a_checkpoint_have_tracks() {
    let (machine, part) = (load("sonuma", &[]), from(12));
    let guest = Guest::elf(1, program());
    let checkpoint = guest.checkpoint(&machine, part, options(0..0)).unwrap();
    let restored = |trace| part::restore(&machine, &checkpoint, part, options(trace)).unwrap();
    let (alone, traced) = (restored(0..0), restored(0..Cycle::MAX));
    assert_eq!(all_of(&alone), all_of(&traced));
    let tracks = &traced.nodes[0].tracks;
    let first = tree(tracks, thread(tracks, 1000));
    assert!(
        first.ends_with("getpid) exit_group") || first.ends_with("getpid exit_group"),
        "{first}"
    );
}

/// Cores that poll sleep, and nodes may be simulated by several threads: what is recorded is the same.
#[test]
fn tracks_do_not_depend_on_how_the_model_runs() {
    let guest = Guest::prebuilt(2, &["rack_test", "join", "polling", "barrier"]);
    let chips = [&RACK_OF_CHIPS[..], &SMALL_MESH].concat();
    for (name, settings) in [("sonuma", vec![]), ("manycore-ni", chips)] {
        let with = |settings_here: &[(&str, &str)], trace| {
            let machine = load(name, &[&settings[..], settings_here].concat());
            let outcome = guest.run(&machine, Options { trace, ..Options::default() });
            let recorded = |tracks: &Tracks| {
                let threads =
                    tracks.threads.iter().map(|thread| (thread.id, thread.slices.clone()));
                (threads.collect::<Vec<_>>(), tracks.turns.clone(), tracks.tallies.clone())
            };
            let tracks: Vec<_> = outcome.nodes.iter().map(|node| recorded(&node.tracks)).collect();
            (all_of(&outcome), tracks)
        };
        let trace = (20_000, 60_000);
        let one = with(&[("run.threads", "1")], trace);
        assert!(one.0 == with(&[], (0, 0)).0, "{name}: tracks change nothing");
        assert!(one == with(&[("run.threads", "2")], trace), "{name}: threads");
        assert!(one == with(&[("cpu.sleeps", "false")], trace), "{name}: sleeping");
        assert!(
            one.1.iter().all(|(threads, ..)| threads.iter().any(|(_, slices)| !slices.is_empty()))
        );
    }
}

/// A track with room for so many slices.
fn empty(slices: usize) -> Track {
    let symbols = Arc::new(Symbols::new(vec![(0x1000, 0x100, "main".to_owned())]));
    Track::new(10..100, symbols, Arc::new(Room::new(slices)), &Hart::new(0x1000))
}

/// Makes a call from cycle 20 to 30.
fn make_call(track: &mut Track, number: u64) {
    let mut hart = Hart::new(0x1010);
    track.stop(hart.pc);
    track.call(Call { number, ..Call::default() }, 20);
    track.wait("asleep", 20);
    hart.pc += 4;
    track.resume(&hart, 25, 30);
}

#[test]
fn slices_for_which_there_is_no_room_are_counted() {
    let mut track = empty(1);
    track.go_on(0x1000, 0, 5);
    make_call(&mut track, 1);
    let recorded = track.finish(200);
    let main = Slice { begin: 10, end: 100, what: What::Function(Some(0x1000)) };
    assert_eq!(recorded.slices, [main]);
    assert_eq!((recorded.dropped, recorded.whole_to), (2, Some(20)));
}

#[test]
fn a_call_that_is_made_again_is_one() {
    let mut track = empty(10);
    let hart = Hart::new(0x1010);
    for now in [20, 40] {
        track.stop(hart.pc);
        track.call(Call::default(), now);
        track.wait("asleep", now);
        track.resume(&hart, now + 10, now + 11);
    }
    make_call(&mut track, 0);
    let recorded = track.finish(200).slices;
    let calls = recorded.iter().filter(|slice| matches!(slice.what, What::Call(_)));
    assert_eq!((calls.count(), recorded.len()), (1, 4), "{recorded:?}");
}

#[test]
fn a_handler_stands_in_the_call_that_it_interrupts() {
    let mut track = empty(10);
    let mut hart = Hart::new(0x1010);
    track.stop(hart.pc);
    track.call(Call::default(), 20);
    track.wait("asleep", 20);
    hart.pc = 0x1040;
    track.resume(&hart, 30, 31);
    track.stop(0x9000);
    track.call(Call { number: 139, ..Call::default() }, 40);
    hart.pc = 0x1010 + 4;
    track.resume(&hart, 40, 45);
    let slices = track.finish(60).slices;
    let found: Vec<_> = slices.iter().map(|slice| (slice.begin, slice.end)).collect();
    assert_eq!(found, [(20, 45), (20, 30), (30, 45), (30, 45), (40, 45)], "{slices:?}");
    let What::Call(call) = &slices[0].what else { panic!("{slices:?}") };
    assert_eq!((call.result, &slices[2].what), (Some(0), &What::Handler));
}
