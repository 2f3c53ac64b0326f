//! A test on the cores of a chip, seed by seed: its caches, directory, network and memory take the place of
//! [`super::memory`].
//!
//! Before its steps, each thread reads some of the locations, so that some are shared, some are not.

use std::ops::Range;

use rackmem_riscv::Hart;
use rackmem_riscv::space::{PAGE, Permissions};

use super::code::Code;
use super::node::{CODE_BYTES, DATA, DATA_BYTES, code_address};
use super::run::{LIMIT, Seen, Unfinished, place, program, registers, spare, stream};
use super::test::{Layout, Observed, Outcome, Test};
use crate::chip::Chip;
use crate::chip::cpu::Cpu;
use crate::chip::image::Image;
use crate::chip::mmu::Page;
use crate::cpu::Stop;
use crate::engine::Random;
use crate::machine::Machine;

/// Runs a test once for each seed.
///
/// # Errors
/// A run does not come to its end.
///
/// # Panics
/// The machine has fewer cores than the test has threads.
pub fn run(test: &Test, machine: &Machine, seeds: Range<u64>) -> Result<Seen, Unfinished> {
    let mut seen = Seen::new();
    for seed in seeds {
        *seen.entry(once(test, machine, seed)?).or_insert(0) += 1;
    }
    Ok(seen)
}

fn once(test: &Test, machine: &Machine, seed: u64) -> Result<Outcome, Unfinished> {
    let mut random = Random::new(seed, stream(&test.name));
    let layout = place(test, &mut random);
    let mut chip = Chip::new(machine, 0, 1).expect("machines have networks that can be built");
    let mut image = Image::new(DATA + DATA_BYTES);
    map(&mut chip, DATA, Permissions::READ_WRITE);
    for (location, &address) in test.locations.iter().zip(&layout.addresses) {
        let bytes = layout.bits(location.value).to_le_bytes();
        image.write_bytes(address, &bytes[..usize::from(test.bytes)]);
    }
    for (number, thread) in test.threads.iter().enumerate() {
        let address = code_address(number);
        let executable = Permissions { read: true, write: false, execute: true };
        (0..CODE_BYTES / PAGE).for_each(|page| map(&mut chip, address + page * PAGE, executable));
        let spare = spare(thread);
        let mut code = Code::default();
        if let Some([register, _]) = spare {
            read_some(&mut code, register, &layout, &mut random);
        }
        code.words.extend(program(thread, spare, &mut random).words);
        let bytes: Vec<u8> = code.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        image.write_bytes(address, &bytes);
    }
    chip.wires.image = Some(image);
    for (number, thread) in test.threads.iter().enumerate() {
        let hart = Hart { x: registers(thread, &layout), ..Hart::new(code_address(number)) };
        let tile = &mut chip.tiles[number];
        tile.l1.report_lost();
        tile.cpu = Some(Cpu::new(number as u16, machine, &hart, &mut chip.wires));
    }
    finish(&mut chip, test.threads.len(), seed)?;
    Ok(outcome(&chip, test, &layout))
}

/// Maps a page where it is in memory.
fn map(chip: &mut Chip, address: u64, permissions: Permissions) {
    chip.wires.mmu.set(address, Some(Page { phys: address, permissions, is_shared: false }));
}

/// Reads of some locations.
fn read_some(code: &mut Code, register: u32, layout: &Layout, random: &mut Random) {
    for &address in &layout.addresses {
        if random.below(2) == 0 {
            code.li(register, address as i32).ld(register, register, 0);
        }
    }
}

/// Goes on until all threads have stopped.
fn finish(chip: &mut Chip, threads: usize, seed: u64) -> Result<(), Unfinished> {
    let mut left = threads;
    while left > 0 {
        let Some(next) = chip.next_cycle().filter(|&next| next < LIMIT) else {
            return Err(Unfinished { seed, stopped: None });
        };
        chip.cycle(next);
        for (core, stop) in std::mem::take(&mut chip.stops) {
            if stop != Stop::Ebreak {
                return Err(Unfinished { seed, stopped: Some((core.into(), stop)) });
            }
            left -= 1;
        }
    }
    Ok(())
}

fn outcome(chip: &Chip, test: &Test, layout: &Layout) -> Outcome {
    let value = |observed: &Observed| {
        let bits = match *observed {
            Observed::Register(thread, register) => {
                let cpu = chip.tiles[thread].cpu.as_ref().expect("it has executed a thread");
                cpu.hart().x[usize::from(register)]
            }
            Observed::Location(place) => {
                let image = chip.wires.image.as_ref().expect("programs have memory");
                let mut bytes = [0; 8];
                image.read_bytes(layout.addresses[place], &mut bytes[..usize::from(test.bytes)]);
                test.loaded(u64::from_le_bytes(bytes))
            }
        };
        layout.value(bits)
    };
    test.observed.iter().map(value).collect()
}
