//! Speed of instructions in two halves: a program with one thread, every access carried out at
//! once. `cargo run --release -p rackmem-riscv --example issue -- prog.rv64`

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Instant;

use rackmem_riscv::code::Code;
use rackmem_riscv::exec::Trap;
use rackmem_riscv::exec::split::{Access, AccessKind, Issued, complete, issue};
use rackmem_riscv::kernel::{Effect, Host, Kernel, Stream};
use rackmem_riscv::space::{AddressSpace, Fault};
use rackmem_riscv::{Hart, abi, elf, stack};

/// The standard streams, and nothing else.
struct Streams;

impl Host for Streams {
    fn now_ns(&mut self) -> u64 {
        0
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            Stream::Out => io::stdout().write_all(bytes),
            Stream::Err => io::stderr().write_all(bytes),
        }
    }

    fn input(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().read(buffer)
    }

    fn harts(&self) -> usize {
        1
    }

    fn warn(&mut self, message: &str) {
        eprintln!("warning: {message}");
    }
}

/// Carries an access out; returns the value that it completes with.
fn carry_out(space: &mut AddressSpace, access: &Access) -> Result<u64, Fault> {
    let Access { address, size, data, .. } = *access;
    match access.kind {
        AccessKind::Load | AccessKind::LoadReserved => space.load(address, size),
        AccessKind::Store | AccessKind::StoreConditional => {
            space.store(address, size, data).map(|()| 0)
        }
        AccessKind::Amo(op) => {
            let old = space.load(address, size)?;
            space.store(address, size, op.apply(size, old, data)).map(|()| old)
        }
        AccessKind::Fence { .. } | AccessKind::FenceI => Ok(0),
    }
}

/// Runs to the end; returns the exit code and the number of instructions.
fn run(file: &[u8], args: &[String]) -> Result<(i32, u64), Box<dyn std::error::Error>> {
    let mut space = AddressSpace::new();
    let image = elf::load(file, &mut space)?;
    let mut hart = Hart::new(image.entry);
    hart.x[abi::SP] = stack::set_up(&mut space, 8 << 20, &image, args, &[], [0; 16])?;
    let (mut kernel, mut code) = (Kernel::new(image.end, 0), Code::new());
    for count in 1.. {
        let inst = code.get(hart.pc, &space)?;
        match issue(&mut hart, inst, |_| count) {
            Ok(Issued::Done) => {}
            Ok(Issued::Access(access)) => {
                let value = carry_out(&mut space, &access)?;
                if access.has_value() {
                    complete(&mut hart, inst, value);
                }
            }
            Err(Trap::Ecall) => {
                let reply = kernel.call(0, &mut hart, &mut space, &mut Streams);
                if let Effect::Exit(code) = reply.effect {
                    return Ok((code, count));
                }
            }
            Err(trap) => return Err(format!("{trap:?} at {:#x}", hart.pc).into()),
        }
    }
    unreachable!("programs end")
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(file) = args.first().and_then(|path| std::fs::read(path).ok()) else {
        eprintln!("usage: issue PROGRAM [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let started = Instant::now();
    match run(&file, &args) {
        Ok((code, count)) => {
            let rate = count as f64 / started.elapsed().as_secs_f64() / 1e6;
            eprintln!("{count} instructions, {rate:.0} million a second");
            ExitCode::from(code as u8)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
    }
}
