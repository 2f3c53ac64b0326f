//! The folders of the kernel's own files.

use std::collections::BTreeMap;

use super::{Facts, Made, open};
use crate::fnv::{BASIS, fnv1a};
use crate::kernel::{Entry, Kind};

/// Names of files that are always there. Folders are what they are in.
const NAMES: [&str; 46] = [
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/urandom",
    "/dev/zero",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/self/cgroup",
    "/proc/self/cmdline",
    "/proc/self/comm",
    "/proc/self/cwd",
    "/proc/self/environ",
    "/proc/self/exe",
    "/proc/self/maps",
    "/proc/self/mountinfo",
    "/proc/self/mounts",
    "/proc/self/oom_score_adj",
    "/proc/self/smaps",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/stat",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu/kernel_max",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/node/online",
    "/sys/devices/system/node/possible",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/self/fd",
    "/dev/fd",
];

/// A normal name in its first form: the process has two names, and so have its descriptors.
pub(super) fn first_name(path: &str) -> String {
    let of = |folder: &str| {
        path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match (of("/proc/1000"), of("/dev/fd")) {
        (Some(rest), _) => format!("/proc/self{rest}"),
        (_, Some(rest)) => format!("/proc/self/fd{rest}"),
        _ => path.to_owned(),
    }
}

/// The content of a folder, in the order of names; `None` if there is none of this name.
pub(super) fn folder(path: &str, facts: &Facts<'_>) -> Option<Vec<Entry>> {
    let mut found: BTreeMap<String, Kind> = names_in(path, facts);
    match path {
        "/" => {
            add(&mut found, crate::host::FOLDER.trim_start_matches('/').to_owned(), Kind::Folder)
        }
        "/proc" => add(&mut found, "1000".to_owned(), Kind::Folder),
        "/proc/self/fd" => {
            for descriptor in facts.descriptors {
                add(&mut found, descriptor.to_string(), Kind::Link);
            }
        }
        "/sys/devices/system/cpu" => {
            for hart in 0..facts.harts {
                add(&mut found, format!("cpu{hart}"), Kind::Folder);
            }
        }
        _ => {
            let hart = path.strip_prefix("/sys/devices/system/cpu/cpu");
            let is_hart = hart
                .and_then(|hart| hart.parse().ok())
                .is_some_and(|hart: usize| hart < facts.harts);
            if found.is_empty() && !is_hart {
                return None;
            }
        }
    }
    let entry = |(name, kind)| {
        let inode = inode(&format!("{}/{name}", path.trim_end_matches('/')));
        Entry { name, kind, inode }
    };
    Some(found.into_iter().map(entry).collect())
}

/// Numbers of files that the kernel makes up; those of the host's files are less.
pub(in crate::kernel) const FIRST_INODE: u64 = 1 << 48;

/// The number of a file that the kernel makes up, from its normal name: FNV-1a, cut to 48 bits.
pub(in crate::kernel) fn inode(name: &str) -> u64 {
    FIRST_INODE | fnv1a(BASIS, first_name(name).as_bytes()) >> 16
}

fn add(names: &mut BTreeMap<String, Kind>, name: String, kind: Kind) {
    names.insert(name, kind);
}

/// What is always in a folder.
fn names_in(path: &str, facts: &Facts<'_>) -> BTreeMap<String, Kind> {
    let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
    let mut found = BTreeMap::new();
    for name in NAMES {
        let Some(rest) = name.strip_prefix(&prefix) else { continue };
        let kind = match rest.split_once('/') {
            Some(_) => Kind::Folder,
            None => kind(&open(name, facts)),
        };
        found.insert(rest.split('/').next().unwrap_or(rest).to_owned(), kind);
    }
    found
}

const fn kind(made: &Option<Made>) -> Kind {
    match made {
        Some(Made::Folder(_)) => Kind::Folder,
        Some(Made::Link(_) | Made::Descriptor(_)) => Kind::Link,
        Some(Made::Text(_)) | None => Kind::File,
        Some(Made::Null | Made::Zero | Made::Full | Made::Random) => Kind::Device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::synthetic::Program;

    #[test]
    fn every_name_in_a_folder_is_there() {
        let program = Program::default();
        let facts = Facts {
            name: String::new(),
            program: &program,
            maps: Vec::new(),
            threads: 1,
            descriptors: &[0, 1, 2, 7],
            current: "/rackmem",
            now_ns: 0,
            harts: 2,
            memory_bytes: 1 << 30,
        };
        let mut folders = vec!["/".to_owned()];
        let mut seen = Vec::new();
        while let Some(at) = folders.pop() {
            let Some(Made::Folder(entries)) = open(&at, &facts) else { panic!("{at}") };
            for Entry { name, kind: said, .. } in entries {
                let name = format!("{}/{name}", at.trim_end_matches('/'));
                if name == crate::host::FOLDER {
                    continue;
                }
                let made = open(&name, &facts);
                assert!(made.is_some(), "{name}");
                assert_eq!(kind(&made), said, "{name}");
                if said == Kind::Folder {
                    folders.push(name.clone());
                }
                seen.push(name);
            }
        }
        for name in
            ["/proc/self/fd/7", "/proc/1000/maps", "/dev/fd/0", "/sys/devices/system/cpu/cpu1"]
        {
            assert!(seen.iter().any(|other| other == name), "{name}");
        }
        assert_eq!(open("/proc/self/fd/3", &facts), None);
        assert_eq!(open("/sys/devices/system/cpu/cpu2", &facts), None);
        assert_eq!(open("/proc/10001", &facts), None);
    }
}
