//! A program with its kernel, on cores around one memory.

use std::io;

use rackmem_riscv::kernel::{Effect, Host, Kernel, Stream};
use rackmem_riscv::space::AddressSpace;
use rackmem_riscv::{Hart, abi, elf, stack};
use rackmem_sim::cpu::{Core, CpuSpec, Stop};
use rackmem_sim::engine::Cycle;
use rackmem_sim::litmus::memory::{Delays, Memory};
use rackmem_sim::litmus::node::Node;

/// A program with its kernel.
pub struct System {
    pub node: Node,
    kernel: Kernel,
    world: World,
    spec: CpuSpec,
    /// Cycles that a system call takes.
    call_cycles: Cycle,
    asleep: Vec<bool>,
}

#[derive(Default)]
struct World {
    output: Vec<u8>,
    now: Cycle,
}

impl Host for World {
    fn now_ns(&mut self) -> u64 {
        self.now / 2
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

impl System {
    pub fn new(file: &[u8], spec: &CpuSpec, delays: Delays, seed: u64) -> System {
        let mut space = AddressSpace::new();
        let image = elf::load(file, &mut space).expect("it is a program");
        let sp =
            stack::set_up(&mut space, 1 << 20, &image, &["test".into()], &[], [1; 16]).unwrap();
        let mut hart = Hart::new(image.entry);
        hart.x[abi::SP] = sp;
        let mut node = Node::new(Memory::new(space, delays, seed));
        node.add(Core::new(spec, &hart, 0));
        System {
            node,
            kernel: Kernel::new(image.end, 0),
            world: World::default(),
            spec: spec.clone(),
            call_cycles: 100,
            asleep: vec![false],
        }
    }

    /// Runs to the end. Returns the exit code and the output.
    pub fn run(&mut self, limit: Cycle) -> (i32, Vec<u8>) {
        loop {
            let (core, stop) = self.next_stop(limit);
            assert_eq!(stop, Stop::Ecall, "at {:#x}", self.node.cores[core].hart().pc);
            if let Some(code) = self.call(core) {
                return (code, std::mem::take(&mut self.world.output));
            }
        }
    }

    /// Runs until nothing is due any more, or to the end of cycle `limit`.
    pub fn run_to_silence(&mut self, limit: Cycle) {
        while let Some((core, stop)) = self.node.run_to_stop(limit) {
            assert_eq!(stop, Stop::Ecall, "at {:#x}", self.node.cores[core].hart().pc);
            assert_eq!(self.call(core), None, "it ends");
        }
    }

    /// A core that has stopped and is not asleep in a call.
    fn next_stop(&mut self, limit: Cycle) -> (usize, Stop) {
        loop {
            for (number, core) in self.node.cores.iter().enumerate() {
                if let (Some(stop), false) = (core.stopped(), self.asleep[number]) {
                    return (number, stop);
                }
            }
            let stopped = self.node.run_to_stop(limit);
            assert!(stopped.is_some(), "nothing goes on after cycle {}", self.node.now);
        }
    }

    fn call(&mut self, number: usize) -> Option<i32> {
        let now = self.node.now;
        self.world.now = now;
        let mut hart = self.node.cores[number].hart();
        let space = &mut self.node.memory.space;
        let reply = self.kernel.call(number, &mut hart, space, &mut self.world);
        let goes_on = match reply.effect {
            Effect::Exit(code) => return Some(code),
            Effect::Killed(signal) => return Some(128 + signal),
            Effect::Sleep { .. } => {
                self.node.cores[number].resume(&hart, now);
                self.node.due[number] = None;
                false
            }
            Effect::ExitThread => {
                self.asleep[number] = true;
                return self.wake(&reply.woken);
            }
            Effect::Spawn { hart: on, state } => {
                self.spawn(on, &state);
                true
            }
            Effect::Return | Effect::Yield => true,
        };
        if goes_on {
            self.node.cores[number].resume(&hart, now + self.call_cycles);
            self.node.due[number] = Some(now + self.call_cycles + 1);
        }
        self.wake(&reply.woken)
    }

    fn spawn(&mut self, on: usize, state: &Hart) {
        let (now, node) = (self.node.now, &mut self.node);
        if on == node.cores.len() {
            node.add(Core::new(&self.spec, state, now));
            self.asleep.push(false);
        } else {
            node.cores[on].resume(state, now);
            node.due[on] = Some(now + 1);
            self.asleep[on] = false;
        }
    }

    fn wake(&mut self, woken: &[usize]) -> Option<i32> {
        for &core in woken {
            self.node.due[core] = Some(self.node.now + self.call_cycles);
        }
        None
    }
}
