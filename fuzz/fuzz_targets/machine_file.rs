//! Machine files: refused with a place and a reason, or a machine that is the same after it was written and read again.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rackmem_sim::machine::{load, resolved};

/// A file for each process that fuzzes.
fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() { memory } else { std::env::temp_dir() };
        dir.join(format!("rackmem-fuzz-{}.toml", std::process::id()))
    })
}

fuzz_target!(|data: &[u8]| {
    let path = path();
    let name = path.to_str().unwrap();
    std::fs::write(path, data).unwrap();
    let loaded = load(name, &[]).map_err(|error| error.to_string());
    if let Ok(machine) = &loaded {
        std::fs::write(path, resolved(machine)).unwrap();
        assert!(load(name, &[]).as_ref() == Ok(machine), "it is the same machine");
    }
    std::fs::remove_file(path).unwrap();
});
