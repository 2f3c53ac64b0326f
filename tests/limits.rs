//! The book's page of limits agrees with the constants that set them.
//!
//! `RACKMEM_WRITE=1 cargo test -p rackmem-abi --test limits` writes it.

use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/book/src/reference/limits.md";

const BEGIN: &str = "# Limits

The constants that set the limits, and their values. Sizes of simulated machines are parameters of their files.
";

/// The form in which a value is shown.
#[derive(Clone, Copy)]
enum Unit {
    Number,
    Bytes,
    /// Of 4 KiB.
    Pages,
}

use Unit::{Bytes, Number, Pages};

/// Title of a table, and its rows: the limited thing, its unit, and the constant and file that limit it.
type Table = (&'static str, &'static [(&'static str, Unit, &'static str, &'static str)]);

const TABLES: &[Table] = &[
    (
        "Racks and programs",
        &[
            ("nodes of a rack", Number, "crates/abi/src/lib.rs", "MAX_NODES"),
            ("contexts of a rack", Number, "crates/rmc/src/ct.rs", "MAX_CONTEXTS"),
            ("last byte of a segment", Bytes, "crates/abi/src/lib.rs", "MAX_OFFSET"),
            ("entries of a queue pair", Number, "crates/abi/src/lib.rs", "MAX_WQ_SIZE"),
            ("length of one operation", Bytes, "crates/abi/src/lib.rs", "MAX_LENGTH"),
            (
                "queue pairs of a member",
                Number,
                "crates/runtime/src/daemon/control/clients.rs",
                "MAX_QPS_PER_CLIENT",
            ),
            ("buffers of a member", Number, "crates/runtime/src/daemon/local.rs", "MAX_BUFFERS"),
            (
                "addresses at which a member has buffers, queue pairs and its segment",
                Number,
                "crates/runtime/src/daemon/control/clients.rs",
                "MAX_PLACES",
            ),
            (
                "clients of a daemon",
                Number,
                "crates/runtime/src/daemon/control/contexts.rs",
                "MAX_CLIENTS",
            ),
            (
                "silence after which another host is lost",
                Number,
                "crates/fabric/src/socket.rs",
                "SILENCE",
            ),
            (
                "handshake of two hosts",
                Number,
                "crates/runtime/src/daemon/control/greet.rs",
                "GREETING_TIMEOUT",
            ),
            (
                "handshakes of a daemon at a time",
                Number,
                "crates/runtime/src/daemon/control/greet.rs",
                "MAX_GREETERS",
            ),
            (
                "requests to another host without a reply",
                Number,
                "crates/fabric/src/tcp.rs",
                "MAX_REQUESTS",
            ),
            (
                "transfers of a daemon in flight by packets, of which at most half are for one node",
                Number,
                "crates/runtime/src/daemon/worker.rs",
                "ITT_ENTRIES",
            ),
            (
                "messages of another host's daemon before others have their turn",
                Number,
                "crates/runtime/src/daemon/control/mod.rs",
                "MAX_MESSAGES",
            ),
            (
                "bytes of these requests and their results",
                Bytes,
                "crates/fabric/src/tcp.rs",
                "MAX_AWAITED_BYTES",
            ),
            (
                "bytes of a packet between hosts",
                Bytes,
                "crates/abi/src/packet.rs",
                "MAX_UNIT_BYTES",
            ),
            (
                "wait for nodes that join",
                Number,
                "crates/runtime/src/client/options.rs",
                "JOIN_TIMEOUT",
            ),
            (
                "notifications of a counter",
                Number,
                "include/rackmem/counter.h",
                "RACKMEM_COUNTER_NOTIFICATIONS",
            ),
            (
                "participants of a lock",
                Number,
                "include/rackmem/lock.h",
                "RACKMEM_LOCK_MAX_PARTICIPANTS",
            ),
            ("items of a queue", Number, "include/rackmem/queue.h", "RACKMEM_QUEUE_MAX_SLOTS"),
            (
                "words of 8 bytes of an item",
                Number,
                "include/rackmem/queue.h",
                "RACKMEM_QUEUE_MAX_WORDS",
            ),
        ],
    ),
    (
        "Lent and borrowed memory",
        &[
            ("lenders of a monitor", Number, "crates/lease/src/monitor.rs", "MAX_LENDERS"),
            ("leases of a lender", Number, "crates/lease/src/pool.rs", "MAX_LEASES"),
            ("lanes of a lease", Number, "crates/lease/src/agent/lane.rs", "MAX_LANES"),
            (
                "pieces of a copy, each of another lender",
                Number,
                "crates/lease/src/store/spread.rs",
                "AMT_ENTRIES",
            ),
            ("copies of a borrowing", Number, "crates/lease/src/client.rs", "MAX_COPIES"),
            (
                "least local memory of a borrower",
                Pages,
                "crates/paging/src/options.rs",
                "MIN_CACHE_PAGES",
            ),
            (
                "most local memory of a borrower",
                Pages,
                "crates/paging/src/options.rs",
                "MAX_CACHE_PAGES",
            ),
            ("pages fetched ahead", Number, "crates/paging/src/options.rs", "MAX_PREFETCH_PAGES"),
            (
                "silence after which a network is torn",
                Number,
                "crates/fabric/src/net/mod.rs",
                "SILENCE",
            ),
            ("wait for an answer of a lender", Number, "crates/lease/src/lib.rs", "ANSWER"),
        ],
    ),
    (
        "Block devices, queue pairs, sockets, network interfaces",
        &[
            ("clients of a block device", Number, "crates/blk/src/server.rs", "MAX_CONNECTIONS"),
            (
                "bytes of a request of a block device",
                Bytes,
                "crates/blk/src/export.rs",
                "MAX_PAYLOAD_BYTES",
            ),
            (
                "connections of two processes",
                Number,
                "crates/sockets/src/window.rs",
                "MAX_CONNECTIONS",
            ),
            (
                "registered memory of a connection",
                Bytes,
                "crates/sockets/src/window.rs",
                "MAX_REGISTERED_BYTES",
            ),
            ("sockets of a proxy", Number, "crates/sockets/src/proxy/mod.rs", "MAX_SOCKETS"),
            ("processes linked to a proxy", Number, "crates/sockets/src/proxy/mod.rs", "MAX_LINKS"),
            ("interrupts of a lent network interface", Number, "crates/rmc/src/imt.rs", "LINES"),
            (
                "silence after which a lent network interface is given up",
                Number,
                "crates/nic/src/transport.rs",
                "DEAD_AFTER",
            ),
        ],
    ),
    (
        "Strangers at a port",
        &[
            (
                "first message of a peer",
                Bytes,
                "crates/fabric/src/stranger.rs",
                "MAX_FIRST_FRAME_BYTES",
            ),
            (
                "peers without a proof at a time",
                Number,
                "crates/fabric/src/stranger.rs",
                "MAX_STRANGERS",
            ),
            ("time for the proof", Number, "crates/fabric/src/stranger.rs", "PROOF"),
            ("request for a page", Bytes, "crates/cli/src/http/request.rs", "MAX_REQUEST_BYTES"),
            (
                "clients of a page at a time",
                Number,
                "crates/cli/src/http/server.rs",
                "MAX_CONNECTIONS",
            ),
            (
                "time for a request, for its response, and to hang up",
                Number,
                "crates/cli/src/http/connection.rs",
                "STEP_TIMEOUT",
            ),
        ],
    ),
    (
        "The model",
        &[
            (
                "simulated chips of a rack",
                Number,
                "crates/sim/src/machine/validate.rs",
                "MAX_CHIPS",
            ),
            (
                "nodes with an extended interconnect",
                Number,
                "crates/sim/src/machine/validate_extension.rs",
                "MAX_NODES",
            ),
            (
                "endpoints of a network on chip",
                Number,
                "crates/sim/src/noc/topology/mod.rs",
                "MAX_ENDPOINTS",
            ),
            (
                "routers of a network from a list of links",
                Number,
                "crates/sim/src/noc/topology/edges.rs",
                "MAX_ROUTERS",
            ),
            (
                "nodes of `rackmem sim exec`",
                Number,
                "crates/cli/src/commands/sim/args.rs",
                "MAX_NODES",
            ),
            ("code and data of a program", Bytes, "crates/riscv/src/elf.rs", "LARGEST"),
            ("threads of a program", Number, "crates/riscv/src/kernel/threads.rs", "MAX_THREADS"),
            ("timers of a program", Number, "crates/riscv/src/kernel/timers.rs", "MOST_TIMERS"),
            (
                "sockets of a program, with closed ones whose data is under way",
                Number,
                "crates/riscv/src/kernel/network/sockets.rs",
                "MOST_SOCKETS",
            ),
            (
                "each of the two buffers of a connection's direction",
                Bytes,
                "crates/riscv/src/kernel/network/sockets.rs",
                "BUFFER_BYTES",
            ),
            (
                "connections that wait for a program to accept them",
                Number,
                "crates/riscv/src/kernel/network/sockets.rs",
                "MOST_WAITING",
            ),
            (
                "signals of a number that wait for a thread",
                Number,
                "crates/riscv/src/kernel/signals/queue.rs",
                "MOST_QUEUED",
            ),
            (
                "runs of a report that are shown each by itself",
                Number,
                "crates/cli/src/report/page.rs",
                "MOST_BESIDE",
            ),
            (
                "settings of a report's charts",
                Number,
                "crates/cli/src/report/axes.rs",
                "MOST_SETTINGS",
            ),
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The value of a constant, in Rust or C.
fn expression(file: &str, name: &str) -> String {
    let text =
        fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let starts = [format!("const {name}: "), format!("#define {name} ")];
    let line = text.lines().find(|line| starts.iter().any(|start| line.contains(start.as_str())));
    let line = line.unwrap_or_else(|| panic!("{file} has no constant {name}"));
    let value = line.split_once(" = ").map_or_else(
        || line.rsplit(' ').next().unwrap_or_default(),
        |(_, value)| value.trim_end_matches(';'),
    );
    value.to_owned()
}

/// The value of `N`, `A << B` and `(A << B) - 1`.
fn number(expression: &str) -> Option<u64> {
    let parse = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    if let Some((whole, less)) = expression.rsplit_once(" - ") {
        return number(whole.strip_prefix('(')?.strip_suffix(')')?)?.checked_sub(parse(less)?);
    }
    match expression.split_once(" << ") {
        Some((value, shift)) => parse(value)?.checked_shl(u32::try_from(parse(shift)?).ok()?),
        None => parse(expression),
    }
}

fn bytes(value: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let exact = |value: u64| {
        let (shift, unit) = units.into_iter().find(|(shift, _)| value >> shift != 0)?;
        (value % (1 << shift) == 0).then(|| format!("{} {unit}", value >> shift))
    };
    // The last place of so many, rather than their number.
    let less_one = || exact(value + 1).map(|text| format!("{text} - 1 byte"));
    exact(value).or_else(less_one).unwrap_or_else(|| format!("{value} bytes"))
}

fn shown(expression: &str, unit: Unit) -> Option<String> {
    if let Some(seconds) = expression.strip_prefix("Duration::from_secs(") {
        return Some(format!("{} s", seconds.strip_suffix(')')?));
    }
    if let Some(ms) = expression.strip_prefix("Duration::from_millis(") {
        return Some(format!("{} ms", ms.strip_suffix(')')?));
    }
    let value = number(expression)?;
    Some(match unit {
        Number => value.to_string(),
        Bytes => bytes(value),
        Pages => bytes(value << 12),
    })
}

fn page() -> String {
    let mut page = BEGIN.to_owned();
    for (title, rows) in TABLES {
        page += &format!("\n## {title}\n\n| what | limit | constant |\n|---|---|---|\n");
        for &(what, unit, file, name) in *rows {
            let expression = expression(file, name);
            let value = shown(&expression, unit)
                .unwrap_or_else(|| panic!("{file}: {name} is {expression}, which has no number"));
            page += &format!("| {what} | {value} | `{name}` in `{file}` |\n");
        }
    }
    page
}

#[test]
fn the_page_says_what_the_constants_say() {
    let (place, page) = (root().join(PAGE), page());
    if std::env::var_os("RACKMEM_WRITE").is_some() {
        return fs::write(place, page).unwrap();
    }
    let is = fs::read_to_string(place).unwrap_or_default();
    assert!(
        is == page,
        "{PAGE} is out of date: RACKMEM_WRITE=1 cargo test -p rackmem-abi --test limits"
    );
}

#[test]
fn values_are_shown_as_people_write_them() {
    assert_eq!(shown("(1 << 24) - 1", Bytes).unwrap(), "16 MiB - 1 byte");
    assert_eq!(shown("64 << 20", Bytes).unwrap(), "64 MiB");
    assert_eq!(shown("65_536", Number).unwrap(), "65536");
    assert_eq!(shown("1 << 28", Pages).unwrap(), "1 TiB");
    assert_eq!(shown("Duration::from_secs(3)", Number).unwrap(), "3 s");
    assert_eq!(shown("Duration::from_millis(1500)", Number).unwrap(), "1500 ms");
    assert_eq!(shown("if cfg!(loom) { 2 } else { 64 }", Number), None);
}
