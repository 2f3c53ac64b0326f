//! Whole programs through the two halves of instructions, with loads that complete out of order.

use std::io;
use std::path::Path;

use rackmem_riscv::elf;
use rackmem_riscv::kernel::{Host, Stream};
use rackmem_riscv::space::AddressSpace;
use rackmem_riscv::stack;

use crate::compiled::{GCC, compile};
use crate::support::asm::{A0, A1, A2, DATA, Program};
use crate::support::qemu::{by_us, have};
use crate::support::rng::Rng;
use crate::support::timed::Timed;

#[derive(Default)]
struct World {
    output: Vec<u8>,
}

impl Host for World {
    fn now_ns(&mut self) -> u64 {
        0
    }

    fn output(&mut self, _: Stream, bytes: &[u8]) -> io::Result<()> {
        self.output.extend(bytes);
        Ok(())
    }

    fn input(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn harts(&self) -> usize {
        8
    }

    fn warn(&mut self, message: &str) {
        panic!("{message}");
    }
}

/// Exit code, cycles and output with these latencies of loads.
fn run(file: &[u8], args: &[&str], latency: impl FnMut(u64) -> u64) -> (i32, u64, Vec<u8>) {
    let mut space = AddressSpace::new();
    let image = elf::load(file, &mut space).expect("it is a program");
    let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    let sp = stack::set_up(&mut space, 1 << 20, &image, &args, &[], [1; 16]).unwrap();
    let mut timed = Timed::new(space, &image, sp, World::default(), latency);
    let (code, cycles) = timed.run().expect("no access is wrong");
    (code, cycles, timed.host.output)
}

#[test]
fn a_load_is_waited_for_when_it_is_needed() {
    let program = |needs_it_at_once: bool| {
        let mut program = Program { data: vec![0; 8], ..Program::default() };
        program.li(A1, DATA as i32);
        program.ld(A2, A1, 0);
        if needs_it_at_once {
            program.addi(A2, A2, 1);
        }
        for _ in 0..20 {
            program.addi(A0, A0, 1);
        }
        program.addi(A2, A2, 1);
        program.exit(0);
        run(&program.elf(), &["test"], |_| 10).1
    };
    assert_eq!(program(true) - program(false), 1 + 10 - 1, "one instruction, and a wait");
}

#[test]
fn programs_print_the_same_whenever_loads_complete() {
    if !have(&[GCC]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    for name in ["threads", "kernels"] {
        let path = compile(folder.path(), GCC, &["-O2", "-static"], name);
        let expected = by_us(&path, &[]);
        let file = std::fs::read(Path::new(&path)).expect("it was just made");
        let mut rng = Rng::new(7);
        let (code, _, output) = run(&file, &["program"], |_| rng.below(30));
        assert_eq!((code, output), (expected.status, expected.stdout), "{name}");
    }
}
