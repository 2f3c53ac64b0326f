//! Guest programs: any file is loaded or refused, as a dynamic linker or a library too, and its execution harms nobody
//! but itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rackmem_riscv::elf;
use rackmem_riscv::functional::{Options, Output, run};
use rackmem_riscv::space::AddressSpace;

fuzz_target!(|data: &[u8]| {
    let mut space = AddressSpace::new();
    let _ = elf::symbols_of(data, 0x7000_0000..0x7000_8000, 0).describe(0x7000_0100).to_string();
    let _ = elf::load_with(&asking(), |_| Ok(data.to_vec()), &mut AddressSpace::new());
    let Ok(image) = elf::load(data, &mut space) else { return };
    let _ = image.symbols.describe(image.entry).to_string();
    assert_eq!(image.end % 4096, 0);
    let options = Options {
        harts: 2,
        max_instructions: Some(2000),
        slice: 64,
        stack_size: 64 << 10,
        output: Output::Capture,
        ..Options::default()
    };
    let _ = run(data, &["guest".to_owned()], &[], &options).map_err(|error| error.to_string());
});

/// A program that asks for a dynamic linker.
fn asking() -> Vec<u8> {
    const NAME: &[u8] = b"/lib/ld.so\0";
    let length = (64 + 2 * 56 + NAME.len()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 243, 1, 0].map(u16::to_le_bytes).as_flattened());
    file.extend([0x10000u64, 64, 0].map(u64::to_le_bytes).as_flattened());
    file.extend([5, 0, 64, 56, 2, 64, 0, 0].map(u16::to_le_bytes).as_flattened());
    for (kind, words) in [
        (3, [length - NAME.len() as u64, 0, 0, NAME.len() as u64, NAME.len() as u64, 1]),
        (1, [0, 0x10000, 0x10000, length, length, 0x1000]),
    ] {
        file.extend([kind, 5u32].map(u32::to_le_bytes).as_flattened());
        file.extend(words.map(u64::to_le_bytes).as_flattened());
    }
    file.extend(NAME);
    file
}
