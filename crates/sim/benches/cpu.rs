//! The speed of simulating a core whose program and data are in its caches.
//! `cargo bench -p rackmem-sim --bench cpu`.

use rackmem_riscv::code::Code as Decoded;
use rackmem_riscv::encode::{opcode, r};
use rackmem_riscv::space::{AddressSpace, Fault, Permissions, Wanted};
use rackmem_riscv::{Hart, Inst};
use rackmem_sim::block::{Line, Words};
use rackmem_sim::cpu::{Core, CpuSpec, Next, Port, Program, Translate};

use rackmem_sim::litmus::code::*;

const CODE: u64 = 0x1_0000;
const LINES: usize = 512;

/// Everything is in the L1.
struct Resident {
    lines: Vec<Words>,
    decoded: Decoded,
    space: AddressSpace,
}

impl Port for Resident {
    fn load(&mut self, line: Line) -> Option<Words> {
        Some(self.lines[line as usize % LINES])
    }

    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        change(&mut self.lines[line as usize % LINES]);
        true
    }
}

impl Translate for Resident {
    fn translate(&mut self, address: u64, _: Wanted) -> Result<u64, Fault> {
        Ok(address)
    }
}

impl Program for Resident {
    #[inline]
    fn inst(&mut self, pc: u64) -> Result<&Inst, Fault> {
        self.decoded.get(pc, &self.space)
    }

    fn fence_i(&mut self) {}
}

/// Seconds that this thread has had a processor, without the time of others.
fn cpu_seconds() -> f64 {
    let file = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this is Linux");
    let nanoseconds = file.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.expect("the first field is a number") / 1e9
}

fn measure(name: &str, code: &Code) {
    let mut space = AddressSpace::new();
    space.map(CODE, 4096, Permissions { read: true, write: false, execute: true });
    let bytes: Vec<u8> = code.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    space.install(CODE, &bytes);
    let lines = vec![[0; 8]; LINES];
    let mut outside = Resident { lines, decoded: Decoded::new(), space };
    let mut core = Core::new(&CpuSpec::default(), &Hart::new(CODE), 0);
    let (start, mut now) = (cpu_seconds(), 1);
    while let Next::At(next) = core.tick(now, &mut outside) {
        now = next;
    }
    let (seconds, stats) = (cpu_seconds() - start, core.stats());
    let (retired, cycles) = (stats.retired as f64, stats.cycles as f64);
    println!(
        "{name}: {:.1} M instructions per CPU second, IPC {:.2}, {:.1} M cycles",
        retired / seconds / 1e6,
        retired / cycles,
        cycles / seconds / 1e6
    );
}

/// A generator of random numbers, and what they lead to: entries of a table, read and written, and
/// a branch that is taken or not by a bit that cannot be predicted, if `wild`.
fn integer_loop(times: i32, wild: bool) -> Code {
    let mut code = Code::default();
    code.li(A5, times).li(A4, 12345).li(T1, 1_103_515_245);
    let again = code.here();
    code.word(r(opcode::OP, 0, 1, A4, A4, T1)).addi(A4, A4, 1023);
    code.word(rackmem_riscv::encode::i(opcode::OP_IMM, 7, T0, A4, 0x7f8));
    code.ld(T2, T0, 0).addi(T2, T2, 1).sd(T2, T0, 0);
    code.ld(A2, T0, 8).add(A1, A1, A2).xor(A3, A3, A1);
    let shift = if wild { 20 } else { 63 };
    code.word(r(opcode::OP_IMM, 5, 0, A2, A4, shift));
    code.word(rackmem_riscv::encode::i(opcode::OP_IMM, 7, A2, A2, i32::from(wild)));
    let over = code.here() + 2;
    code.beq(A2, ZERO, over).addi(A3, A3, 1);
    code.add(A1, A1, A3).add(A2, A1, T0).addi(A0, A0, 3);
    code.addi(A5, A5, -1).bne(A5, ZERO, again).stop();
    code
}

fn main() {
    for _ in 0..3 {
        measure("loads, stores, branches", &integer_loop(300_000, false));
        measure("the same, mispredicted", &integer_loop(300_000, true));
        let mut chain = Code::default();
        chain.li(A5, 200_000);
        let again = chain.here();
        chain.repeat(16, &[addi(T0, T0, 1), addi(T1, T1, 1), addi(T2, T2, 1)]);
        chain.addi(A5, A5, -1).bne(A5, ZERO, again).stop();
        measure("additions", &chain);
    }
}
