//! Guest programs: any file is loaded or refused, and its execution harms nobody but itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rackmem_riscv::elf;
use rackmem_riscv::functional::{Options, Output, run};
use rackmem_riscv::space::AddressSpace;

fuzz_target!(|data: &[u8]| {
    let mut space = AddressSpace::new();
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
