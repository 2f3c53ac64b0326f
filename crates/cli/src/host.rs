//! A line about the machine, for figures that mean nothing without it.

use std::fs;

use crate::console::count;
use crate::placement;
use crate::size;

/// Processor, cores that may be used, memory, kernel.
pub fn description() -> String {
    let uname = rustix::system::uname();
    let cores = count(placement::cores().len(), "core");
    let memory = size::rounded_bytes(memory_bytes() as f64);
    let kernel =
        format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    format!("{}, {cores}, {memory} of memory, {kernel}", processor())
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    match model {
        Some((_, name)) => name.trim().to_owned(),
        None => rustix::system::uname().machine().to_string_lossy().into_owned(),
    }
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}
