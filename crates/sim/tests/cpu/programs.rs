//! Whole programs end as they do without any timing.

use crate::seeds::seeds;
use std::path::Path;
use std::process::Command;

use rackmem_riscv::encode::{b as b_type, i, opcode, r, s};
use rackmem_riscv::functional::{Options, Output, run};
use rackmem_riscv::space::Permissions;
use rackmem_sim::cpu::{CpuSpec, Stats};

use crate::asm::{CODE, DATA, Program};
use crate::generate::generate;
use crate::rng::Rng;
use crate::system::System;
use rackmem_sim::litmus::code::{A0, A2, A3, Code, T0, ZERO, addi};
use rackmem_sim::litmus::memory::Delays;
use rackmem_sim::litmus::node::Node;

fn without_timing(file: &[u8]) -> (i32, Vec<u8>) {
    let options = Options { output: Output::Capture, ..Options::default() };
    let outcome = run(file, &["test".to_owned()], &[], &options).expect("it ends");
    (outcome.end.status(), outcome.stdout)
}

/// Runs a program both ways, with predictors full of nonsense.
fn agrees(program: &Program, seed: u64, delays: Delays, spec: &CpuSpec) -> Stats {
    let file = program.elf();
    let mut system = System::new(&file, spec, delays, seed);
    let targets: Vec<u64> = (0..program.code.len() as u64).step_by(2).map(|at| CODE + at).collect();
    system.node.cores[0].scramble_predictors(seed, &targets);
    let (ours, expected) = (system.run(10_000_000), without_timing(&file));
    assert_eq!(ours.0, expected.0, "seed {seed}");
    let differs = ours.1.iter().zip(&expected.1).position(|(ours, expected)| ours != expected);
    assert_eq!(differs, None, "seed {seed}: the first byte of the output that differs");
    assert_eq!(ours.1.len(), expected.1.len());
    *system.node.cores[0].stats()
}

#[test]
fn random_programs() {
    for seed in seeds(0..24) {
        let program = generate(seed, 3000).0;
        let stats = agrees(&program, seed, Delays::wild(), &CpuSpec::default());
        assert!(stats.mispredictions > 100 && stats.squashed > 500, "{stats:?}");
    }
}

/// Loads and stores of all sizes that meet each other all the time, in so many lines, of which some lie
/// in two; some have addresses that are known late; and branches that depend on them. After each `stay`
/// steps the lines are the next ones.
fn tight(seed: u64, steps: usize, lines: u64, stay: usize) -> Program {
    let window = 64 * lines;
    let end = window + (64 * steps.div_ceil(stay)) as u64 + 8 * 11;
    let mut rng = Rng::new(seed ^ 0x7167);
    let data = (0..end).map(|_| rng.next() as u8).collect();
    let mut program = Program { data, ..Program::default() };
    let (early, late) = (31, 30);
    for pointer in [early, late] {
        program.li(pointer, DATA as i32);
    }
    (5..16).for_each(|register| program.ld(register, early, 8 * (register as i32 - 5)));
    for step in 0..steps {
        if step % stay == stay - 1 {
            program.word(addi(early, early, 64));
        }
        let [a, b, c] = [0; 3].map(|_| 5 + rng.below(11) as u32);
        let pointer = rng.pick(&[early, late]);
        let size = rng.below(4);
        let offset = rng.below(window + 1 - (1 << size)) as i32;
        match rng.below(10) {
            0..3 => program.word(i(opcode::LOAD, size as u32, a, pointer, offset)),
            3..6 => program.word(s(opcode::STORE, size as u32, pointer, a, offset)),
            6 => {
                // Division or multiplication by zero, plus the pointer.
                let funct3 = rng.pick(&[0, 5]);
                program.word(r(opcode::OP, funct3, 1, late, a, 0));
                program.word(r(opcode::OP, 7, 0, late, late, 0));
                program.word(r(opcode::OP, 0, 0, late, late, early));
            }
            7 => {
                let condition = rng.pick(&[0, 1, 4, 5, 6, 7]);
                program.word(b_type(condition, a, b, 8));
                program.word(r(opcode::OP, 0, 0x20, c, a, b));
            }
            _ => program.word(r(opcode::OP, rng.pick(&[0, 4, 6, 7]), 0, a, b, c)),
        }
    }
    (5..16).for_each(|register| {
        program.sd(register, early, (window + 8 * (register as u64 - 5)) as i32)
    });
    program.write_and_exit(DATA, end);
    program
}

#[test]
fn accesses_that_meet() {
    let mut sum = Stats::default();
    for seed in seeds(0..24) {
        let delays = if seed % 2 == 0 { Delays::fixed(2) } else { Delays::wild() };
        let delays = Delays { evict: 50 * (seed % 3), ..delays };
        let stats = agrees(&tight(seed, 2000, 2, 2000), seed, delays, &CpuSpec::default());
        sum.forwarded += stats.forwarded;
        sum.store_flushes += stats.store_flushes;
        sum.load_flushes += stats.load_flushes;
        sum.replays += stats.replays;
        sum.mispredictions += stats.mispredictions;
    }
    let counts = [sum.forwarded, sum.store_flushes, sum.load_flushes, sum.replays];
    assert!(counts.iter().all(|&count| count > 0), "all ways of going wrong were taken: {sum:?}");
}

#[test]
fn stores_that_join_others_in_the_store_buffer() {
    for seed in seeds(0..24) {
        // Lines come so late that stores to each of them wait together.
        let delays = Delays { evict: 100 * (seed % 3), ..Delays::fixed(40 + 40 * (seed % 4)) };
        let store_buffer = [1, 2, 4, 16][(seed / 4 % 4) as usize];
        let spec = CpuSpec { store_buffer, ..CpuSpec::default() };
        let stats = agrees(&tight(seed, 2000, 3, 12), seed, delays, &spec);
        assert!(stats.store_misses > 50 && stats.stores > 2 * stats.store_misses, "{stats:?}");
    }
}

#[test]
fn random_programs_in_small_and_large_cores() {
    let small = CpuSpec {
        fetch_width: 1,
        front_end_cycles: 1,
        dispatch_width: 1,
        issue_width: 1,
        retire_width: 1,
        rob_entries: 2,
        load_queue: 1,
        store_queue: 1,
        store_buffer: 1,
        alus: 1,
        fp_units: 1,
        memory_ports: 1,
        l1_cycles: 1,
        icache_bytes: 128,
        predicts: false,
        ..CpuSpec::default()
    };
    let large = CpuSpec {
        fetch_width: 8,
        dispatch_width: 8,
        issue_width: 16,
        retire_width: 8,
        rob_entries: 64,
        store_queue: 32,
        store_buffer: 32,
        front_end_cycles: 3,
        memory_ports: 4,
        ..CpuSpec::default()
    };
    for seed in seeds(0..6) {
        let delays = Delays { mshrs: 2, ..Delays::wild() };
        for program in
            [generate(seed, 2000).0, tight(seed, 2000, 2, 2000), tight(seed, 2000, 6, 12)]
        {
            agrees(&program, seed, delays, &small);
            agrees(&program, seed, delays, &large);
        }
    }
}

#[test]
fn instructions_that_were_just_written() {
    let mut code = Code::default();
    for result in [7, 9] {
        code.li(T0, addi(A2, ZERO, result) as i32).sw(T0, A0, 0);
        code.li(T0, i(opcode::JALR, 0, 0, 1, 0) as i32).sw(T0, A0, 4);
        code.word(i(opcode::MISC_MEM, 1, 0, 0, 0)).word(i(opcode::JALR, 0, 1, A0, 0));
        code.add(A3, A3, A3).add(A3, A3, A3).add(A3, A3, A3).add(A3, A3, A3).add(A3, A3, A2);
    }
    code.stop();
    let mut node = Node::short(&[code], &CpuSpec::default(), Delays::wild(), 1);
    let all = Permissions { read: true, write: true, execute: true };
    assert!(node.memory.space.protect(DATA, 4096, all));
    node.run(100_000);
    assert_eq!(node.x(0, A3), 0x79);
}

/// Compiles a program of the instruction tests, if the compiler is there.
fn compile(name: &str) -> Option<Vec<u8>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../riscv/tests/programs/c").join(name);
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let program = folder.path().join(name);
    let status = Command::new("riscv64-linux-gnu-gcc")
        .args(["-O2", "-static", "-o"])
        .arg(&program)
        .arg(source.with_extension("c"))
        .args(["-lm", "-lpthread"])
        .status();
    match status {
        Ok(status) => assert!(status.success(), "{name} compiles"),
        Err(_) => {
            eprintln!("skipped: needs riscv64-linux-gnu-gcc");
            return None;
        }
    }
    Some(std::fs::read(program).expect("it was just made"))
}

/// Runs a program in C both ways.
fn in_c(name: &str) {
    let Some(file) = compile(name) else { return };
    let delays = Delays { grant: (5, 40), evict: 500, ..Delays::wild() };
    let mut system = System::new(&file, &CpuSpec::default(), delays, 1);
    let (code, output) = system.run(400_000_000);
    let expected = without_timing(&file);
    assert_eq!((code, text(&output)), (expected.0, text(&expected.1)), "{name}");
}

#[test]
#[ignore = "long unless optimised"]
fn hello_in_c() {
    in_c("hello");
}

#[test]
fn threads_in_c() {
    in_c("threads");
}

#[test]
#[ignore = "long unless optimised"]
fn kernels_in_c() {
    in_c("kernels");
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}
