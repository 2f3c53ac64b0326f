//! The memory of the host that chips take while they are simulated.

use std::fs;

use super::image::Image;
use super::layout::Layout;
use super::values::Values;
use crate::block::{BLOCK_BYTES, Block, Tags};
use crate::coherence::{home, l1};
use crate::machine::Machine;

/// What a setting takes.
struct Part {
    setting: &'static str,
    bytes: f64,
}

/// Whether this host has the memory that so many chips of a machine take from the start, and the contents that they
/// are to keep. Where the host does not say what it has, it is believed to have enough.
///
/// # Errors
/// The setting that takes most, how much that is, and what there is.
pub fn check(machine: &Machine, chips: u16) -> Result<(), String> {
    check_parts(&parts(machine), chips)
}

/// The same for chips that execute programs. Of their memory only what programs use is kept, besides an index of all.
///
/// # Errors
/// As [`check`].
pub fn check_programs(machine: &Machine, chips: u16) -> Result<(), String> {
    let lines = blocks(machine.cpu.icache_bytes) * f64::from(machine.cores());
    let memory = machine.memory.size_bytes as f64;
    let of_programs = [
        Part { setting: "cpu.icache_bytes", bytes: lines * Tags::<()>::ENTRY_BYTES },
        Part { setting: "memory.size_bytes", bytes: memory * Image::INDEX_SHARE },
    ];
    check_parts(&parts(machine).into_iter().chain(of_programs).collect::<Vec<_>>(), chips)
}

fn check_parts(parts: &[Part], chips: u16) -> Result<(), String> {
    let Some(available) = available_bytes() else { return Ok(()) };
    let bytes = parts.iter().map(|part| part.bytes).sum::<f64>() * f64::from(chips);
    let most = parts.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
    match most {
        Some(Part { setting, .. }) if bytes > available => Err(format!(
            "{setting}: with it, {chips} chip(s) take {} GiB of this host's memory, of which {} are available; \
             make it smaller",
            gib(bytes),
            gib(available)
        )),
        _ => Ok(()),
    }
}

fn parts(machine: &Machine) -> Vec<Part> {
    let l1 = machine.private_cache();
    let private_setting =
        if machine.regions().is_some() { "l2.size_bytes" } else { "l1.size_bytes" };
    let private = blocks(l1.size_bytes) * f64::from(machine.private_caches());
    let banks = f64::from(machine.llc_banks());
    let ways = f64::from(machine.directory.ways);
    let sets = (private * machine.directory.provisioning / banks / ways).ceil();
    let directory_setting = if sets > 1.0 { "directory.provisioning" } else { "directory.ways" };
    let kept = Layout::kept(machine).iter().map(|&(_, lines)| lines as f64).sum::<f64>();
    let places = banks + f64::from(machine.memory.controllers);
    let part = |setting, bytes| Part { setting, bytes };
    vec![
        part("llc.size_bytes", blocks(machine.llc.size_bytes) * Tags::<bool>::ENTRY_BYTES),
        part(private_setting, private * Tags::<l1::Block<Block>>::ENTRY_BYTES),
        part(directory_setting, sets * ways * banks * Tags::<Option<home::Directory>>::ENTRY_BYTES),
        part(
            "workload.footprint_bytes",
            kept * (size_of::<Block>() as f64 + places * Values::INDEX_BYTES),
        ),
    ]
}

fn blocks(bytes: u64) -> f64 {
    bytes as f64 / BLOCK_BYTES as f64
}

fn gib(bytes: f64) -> f64 {
    (bytes / f64::from(1 << 30) * 10.0).round() / 10.0
}

/// Memory that the host can give to this process, as far as it says: of the system, and of its control group.
fn available_bytes() -> Option<f64> {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_system(&text));
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<f64>().ok());
    system.into_iter().chain(group).min_by(f64::total_cmp)
}

fn of_system(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Override, load};

    fn machine(name: &str, settings: &[(&str, &str)]) -> Machine {
        let settings: Vec<Override> =
            settings.iter().map(|&(path, value)| Override::new(path, value)).collect();
        load(name, &settings).expect("a machine")
    }

    fn with(settings: &[(&str, &str)]) -> Result<(), String> {
        check(&machine("manycore-ni", settings), 1)
    }

    #[test]
    fn memory_and_caches_of_programs_are_named() {
        let of_program = |setting| check_programs(&machine("sonuma", &[setting]), 1);
        assert_eq!(of_program(("memory.size_bytes", "1024G")), Ok(()));
        for named in ["memory.size_bytes", "cpu.icache_bytes"] {
            let error = of_program((named, "4611686018427387904")).expect_err(named);
            assert!(error.starts_with(&format!("{named}: ")), "{error}");
        }
    }

    #[test]
    fn what_takes_more_than_there_is_is_named() {
        assert_eq!(with(&[]), Ok(()));
        for (settings, named) in [
            (&[("llc.size_bytes", "16384G")][..], "llc.size_bytes"),
            (&[("l1.size_bytes", "1024G")], "l1.size_bytes"),
            (&[("directory.provisioning", "1e9")], "directory.provisioning"),
            (&[("directory.ways", "4294967295")], "directory.ways"),
            (
                &[("memory.contents", "all"), ("workload.footprint_bytes", "4096G")],
                "workload.footprint_bytes",
            ),
        ] {
            let error = with(settings).expect_err(named);
            assert!(error.starts_with(&format!("{named}: ")), "{error}");
        }
    }

    #[test]
    fn the_system_says_what_is_available() {
        let text = "MemTotal:       24630924 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(of_system(text), Some(f64::from(1 << 20)));
        assert_eq!(of_system("MemTotal: 3 kB\n"), None);
    }
}
