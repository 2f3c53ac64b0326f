//! Loading of machines, and the messages about machines that cannot be loaded.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::spec::{NocRouting, NocTopology, Placement};
use super::*;

fn with(settings: &[&str]) -> Result<Machine, MachineError> {
    let overrides: Vec<Override> = settings.iter().map(|text| text.parse().unwrap()).collect();
    load("manycore-ni", &overrides)
}

fn complaint(settings: &[&str]) -> String {
    with(settings).unwrap_err().to_string()
}

/// Loads the last one of these files; the complaint has the directory's name removed.
fn files(files: &[(&str, &str)]) -> Result<Machine, String> {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let path = dir.path().join(files.last().unwrap().0);
    let prefix = format!("{}/", fs::canonicalize(dir.path()).unwrap().display());
    let error = |error: MachineError| error.to_string().replace(&prefix, "");
    load(fs::canonicalize(path).unwrap().to_str().unwrap(), &[]).map_err(error)
}

#[test]
fn built_in_machines_say_all_and_differ_where_they_should() {
    let mesh = load("manycore-ni", &[]).unwrap();
    assert_eq!((mesh.cores(), mesh.llc_banks(), mesh.edge_places()), (64, 64, 8));
    let noc_out = load("manycore-ni-noc-out", &[]).unwrap();
    assert_eq!((noc_out.noc.topology, noc_out.llc_banks()), (NocTopology::NocOut, 8));
    let numa = load("manycore-ni-numa.toml", &[]).unwrap();
    assert_eq!(numa.ni.placement, Placement::Numa);
    assert_eq!(numa.memory, mesh.memory);
}

#[test]
fn the_file_of_the_first_machine_with_a_part_names_its_every_key() {
    let text = |name| BuiltIn::find(name).unwrap().text;
    let (chip, node, rack) = (text("manycore-ni"), text("sonuma"), text("rack-torus"));
    let integrated = text("cache-integrated");
    let schema = toml::Table::try_from(Machine::default()).unwrap();
    for (section, value) in &schema {
        let toml::Value::Table(keys) = value else { continue };
        let text = match section.as_str() {
            "rack" | "node" | "traffic" => rack,
            "cpu" | "rmc" | "system" | "lan" => node,
            "l2" | "scratchpad" => integrated,
            "window" => text("pcie-ntb"),
            "prefetch" => text("tsm-sim"),
            "extension" | "soc" | "nic" | "experiment" => text("deoi"),
            "qpair" => text("thunder"),
            _ => chip,
        };
        for key in keys.keys() {
            let path = format!("\n{section}.{key} ");
            assert!(text.contains(&path), "{section}.{key} is not in the file");
        }
    }
}

#[test]
fn settings_override_files() {
    let machine = with(&["noc.routing=xy", "l1.size_bytes=64K", "memory.latency_ns=60"]).unwrap();
    assert_eq!(machine.noc.routing, NocRouting::Xy);
    assert_eq!(machine.l1.size_bytes, 64 << 10);
    assert_eq!(machine.memory.latency_ns, 60.0);
    assert_eq!(with(&["name=\"a = b\""]).unwrap().name, "a = b");
}

#[test]
fn files_inherit_from_files_beside_them_and_from_built_in_ones() {
    let machine = files(&[
        ("a.toml", "base = \"manycore-ni\"\nnoc.hop_cycles = 5\nnoc.vcs = 4\n"),
        ("b.toml", "base = \"a.toml\"\nname = \"b\"\n[noc]\nvcs = 3\n"),
    ])
    .unwrap();
    assert_eq!((machine.name.as_str(), machine.noc.hop_cycles, machine.noc.vcs), ("b", 5, 3));
    assert_eq!(machine.description, load("manycore-ni", &[]).unwrap().description);
}

#[test]
fn a_section_may_be_empty_if_it_is_one() {
    assert_eq!(files(&[("m.toml", "[noc]\n# vcs = 3\n[l1]\nways = 4\n")]).unwrap().l1.ways, 4);
    let error = files(&[("m.toml", "[nox]\n")]).unwrap_err();
    assert!(error.starts_with("m.toml:1: nox: no such key"), "{error}");
}

#[test]
fn wrong_files_are_refused_with_line_and_key() {
    for (text, expected) in [
        (
            "\nnoc.link_byts = 3\n",
            "m.toml:2: noc.link_byts: no such key; did you mean noc.link_bytes?",
        ),
        (
            "[l1]\nrouting = \"xy\"\n",
            "m.toml:2: l1.routing: no such key; did you mean noc.routing?",
        ),
        (
            "[qqqqq]\nzzzzz = 1\n",
            "m.toml:2: qqqqq.zzzzz: no such key; `rackmem sim show MACHINE` prints all keys",
        ),
        ("noc = 3\n", "m.toml:1: noc: is a section; set one of its keys, such as noc.buffer_flits"),
        ("seed.x = 3\n", "m.toml:1: seed.x: no such key: seed is a value, not a section"),
        ("noc.vcs = \"two\"\n", "m.toml:1: noc.vcs: invalid type: string \"two\", expected u32"),
        ("noc.vcs = -1\n", "m.toml:1: noc.vcs: invalid value: integer `-1`, expected u32"),
        (
            "\n\nnoc.routing = \"yxy\"\n",
            "m.toml:3: noc.routing: unknown variant `yxy`, expected one of `xy`, `yx`, \
             `o1turn`, `cdr`, `cdr-directory`; did you mean `yx`?",
        ),
        (
            "l1.size_bytes = \"32X\"\n",
            "m.toml:1: l1.size_bytes: '32X' is no size; write a number of bytes, or such as \"16M\"",
        ),
        ("base = \"other.toml\"\n", "m.toml:1: base: there is no file 'other.toml'"),
        ("base = 3\n", "m.toml:1: base: expected the name of a machine file, in quotes"),
        (
            "base = \"m.toml\"\n",
            "m.toml:1: base: 'm.toml' is based on this file again; remove one of the two",
        ),
        ("noc.vcs = 0\n", "m.toml:1: noc.vcs: is 0, must be at least 1"),
        (
            "memory.model = \"ddr4\"\n",
            "m.toml:1: memory.model: unknown variant `ddr4`, expected `fixed` or `ddr3`; did you mean `ddr3`?",
        ),
        (
            "dram.grade = \"ddr3-1800\"\n",
            "m.toml:1: dram.grade: unknown variant `ddr3-1800`, expected one of `ddr3-1066`, \
             `ddr3-1333`, `ddr3-1600`, `ddr4-2400`, `ddr4-3200`, `ddr5-4800`; did you mean `ddr3-1600`?",
        ),
        ("dram.trc_nk = 11\n", "m.toml:1: dram.trc_nk: no such key; did you mean dram.trc_nck?"),
        ("dram.tck_ps = -1\n", "m.toml:1: dram.tck_ps: invalid value: integer `-1`, expected u64"),
    ] {
        assert_eq!(files(&[("m.toml", text)]).unwrap_err(), expected);
    }
    let error = files(&[("m.toml", "name = \"x\"\nseed = \n")]).unwrap_err();
    assert!(error.starts_with("m.toml:2: is not TOML: "), "{error}");
    let cycle = files(&[("a.toml", "base = \"b.toml\""), ("b.toml", "base = \"a.toml\"")]);
    assert!(cycle.unwrap_err().starts_with("a.toml:1: base: 'b.toml' is based on this file again"));
}

#[test]
fn unknown_machines_are_refused_with_the_nearest_name() {
    let error = |name| load(name, &[]).unwrap_err().to_string();
    assert_eq!(
        error("manycore-in"),
        "there is no machine and no file 'manycore-in'; did you mean manycore-ni?"
    );
    assert!(error("q").ends_with(
        "built in are manycore-ni, manycore-ni-noc-out, manycore-ni-numa, sonuma, \
         cache-integrated, cache-integrated-128, tsm-sim, pcie-ntb, deoi, thunder, deoi-cores, \
         thunder-cores, rack-torus"
    ));
}

#[test]
fn overrides_need_path_and_value() {
    for text in ["noc.vcs", "=3", "noc.vcs=", " = "] {
        let error = text.parse::<Override>().unwrap_err();
        assert!(error.contains("expected path=value"), "{error}");
    }
    assert_eq!(complaint(&["noc.vcz=3"]), "--set: noc.vcz: no such key; did you mean noc.vcs?");
    assert!(complaint(&["noc.vcs=many"]).starts_with("--set: noc.vcs: invalid type: string"));
}

#[test]
fn machines_that_cannot_be_built_are_refused() {
    for (settings, key, part) in [
        (&["clock_ghz=0"][..], "clock_ghz", "must be 0.000001 to 1000000000"),
        (&["tiles.columns=6"], "tiles.columns", "power of two"),
        (&["tiles.rows=0"], "tiles.rows", "power of two"),
        (&["ni.placement=edge", "tiles.rows=16"], "tiles.rows", "144 private caches"),
        (&["tiles.rows=16", "ni.cache=separate"], "ni.cache", "does not fit: tiles.rows is 16"),
        (&["core.posts_per_poll=0"], "core.posts_per_poll", "at least 1"),
        (&["l1.size_bytes=33000"], "l1.size_bytes", "power of two"),
        (&["l1.ways=3"], "l1.ways", "is 3: with 64-byte blocks"),
        (&["l1.ways=0"], "l1.ways", "at least 1"),
        (
            &["llc.size_bytes=32K"],
            "llc.size_bytes",
            "does not fit: llc.ways is 16: with 64-byte blocks in 64 bank(s)",
        ),
        (&["llc.size_bytes=0"], "llc.size_bytes", "power of two"),
        (&["llc.transactions=0"], "llc.transactions", "at least 1"),
        (&["directory.provisioning=0"], "directory.provisioning", "must be 0.000001 to 1000000000"),
        (&["memory.controllers=9"], "memory.controllers", "must be 1 to 8: one per row"),
        (&["memory.controllers=0"], "memory.controllers", "must be 1 to 8"),
        (&["memory.interleave_bytes=96"], "memory.interleave_bytes", "power of two"),
        (&["memory.interleave_bytes=32"], "memory.interleave_bytes", "at least 64"),
        (&["memory.bytes_per_cycle=-1"], "memory.bytes_per_cycle", "must be 0, or"),
        (&["dram.device_gbit=3"], "dram.device_gbit", "1, 2, 4, 8, 16 or 32"),
        (&["dram.bank_groups=3"], "dram.bank_groups", "power of two"),
        (&["dram.bank_groups=16"], "dram.bank_groups", "at most dram.banks, which is 8"),
        (&["dram.bank_queue=0"], "dram.bank_queue", "1 to 256"),
        (&["dram.trtw_nck=6"], "dram.trtw_nck", "at least 7"),
        (&["dram.twrwr_dr_nck=3"], "dram.twrwr_dr_nck", "at least 4"),
        (&["dram.ranks=3"], "dram.ranks", "power of two"),
        (&["dram.ranks=16"], "dram.ranks", "does not fit: dram.banks makes 128 in all of"),
        (&["dram.row_bytes=32"], "dram.row_bytes", "at least 64"),
        (&["dram.read_queue=0"], "dram.read_queue", "1 to 4096"),
        (&["dram.write_queue=16"], "dram.write_queue", "does not fit: dram.write_high is"),
        (&["dram.write_low=24"], "dram.write_low", "less than dram.write_high"),
        (&["dram.row_accesses=0"], "dram.row_accesses", "at least 1"),
        (&["dram.age_limit_ns=0"], "dram.age_limit_ns", "must be 0.000001 to 1000000000"),
        (&["dram.controller_ns=-1"], "dram.controller_ns", "must be 0, or"),
        (&["dram.tck_ps=2000000"], "dram.tck_ps", "at most 1000000"),
        (&["dram.tccd_nck=3"], "dram.tccd_nck", "at least 4"),
        (&["dram.trcd_nck=65535"], "dram.trcd_nck", "less than dram.trefi_nck"),
        (&["dram.controller_ns=1e30"], "dram.controller_ns", "must be 0, or"),
        (&["noc.header_bytes=65535"], "noc.header_bytes", "more than 255 flits"),
        (&["dram.trrd_nck=30"], "dram.trrd_nck", "does not fit: dram.tfaw_nck is"),
        (
            &["dram.trfc_nck=6200"],
            "dram.trfc_nck",
            "does not fit: dram.trefi_nck is 6240, must be more than",
        ),
        (&["noc.link_bytes=24"], "noc.link_bytes", "power of two"),
        (&["noc.hop_cycles=2"], "noc.hop_cycles", "more than the 2 of noc.router"),
        (&["noc.injection_cycles=1"], "noc.injection_cycles", "at least 2"),
        (&["noc.buffer_flits=0"], "noc.buffer_flits", "at least 1"),
        (&["noc.delivery_packets=4"], "noc.delivery_packets", "must be 0 with noc.sources"),
        (&["noc.sources=all"], "noc.sources", "unknown variant"),
        (&["noc.vcs=33"], "noc.vcs", "at most 32 are possible"),
        (&["noc.buffer_flits=300"], "noc.buffer_flits", "at most"),
        (&["noc.hop_cycles=300"], "noc.hop_cycles", "298 cycles of link latency, at most"),
        (&["noc.injection_cycles=300"], "noc.injection_cycles", "at most"),
        (&["noc.ejection_cycles=300"], "noc.ejection_cycles", "at most"),
        (&["ni.placement=spilt"], "ni.placement", "`bridge`; did you mean `split`?"),
        (&["noc.topology=noc-out", "tiles.rows=1"], "tiles.rows", "both sides"),
        (&["ni.wq_entries=100"], "ni.wq_entries", "power of two"),
        (&["ni.wq_entries=256"], "ni.wq_entries", "at most 128"),
        (&["ni.unroll_per_cycle=0"], "ni.unroll_per_cycle", "at least 1"),
        (&["network.hops=0"], "network.hops", "at least 1"),
        (&["network.remote=nodes", "network.nodes=65"], "network.nodes", "must be 2 to 64"),
        (&["workload.transfer_bytes=0"], "workload.transfer_bytes", "must be 1 to 16777215"),
        (&["workload.transfer_bytes=16M"], "workload.transfer_bytes", "must be 1 to 16777215"),
        (&["workload.cores=65"], "workload.cores", "more than the 64 cores"),
        (
            &["tiles.rows=4"],
            "tiles.rows",
            "does not fit: memory.controllers is 8, must be 1 to 4: one per row",
        ),
        (&["workload.first_core=5", "workload.cores=60"], "workload.cores", "from core 5"),
        (&["workload.first_core=64"], "workload.first_core", "x tiles.rows is 63"),
        (
            &["workload.footprint_bytes=64"],
            "workload.footprint_bytes",
            "at least workload.transfer_bytes, 512",
        ),
        (&["run.max_windows=1"], "run.max_windows", "at least 2"),
        (&["run.watchdog_cycles=0"], "run.watchdog_cycles", "at least 1"),
    ] {
        let more: &[&str] = match key {
            "dram.bank_queue" | "dram.row_accesses" => {
                &["memory.model=ddr3", "dram.scheduler=bank-queues"]
            }
            _ if key.starts_with("dram.") => &["memory.model=ddr3"],
            _ => &[],
        };
        let error = with(&[settings, more].concat()).unwrap_err();
        assert_eq!(error.key, key, "{settings:?}: {error}");
        assert!(error.problem.contains(part), "{settings:?}: {error}");
    }
    // The complaint is about the last place that has set the key, if any has.
    assert_eq!(with(&["noc.link_bytes=24"]).unwrap_err().origin, Origin::Override);
}

#[test]
fn machines_that_cannot_execute_programs_are_refused() {
    for (path, value, part) in [
        ("system.stack_bytes", "9223372036854775807", "must be at most 1099511627776"),
        ("cpu.icache_bytes", "255", "sets of cpu.icache_ways = 2 lines of 64 bytes"),
        ("cpu.indirect_targets", "2147483648", "must be 1 to 65536"),
        ("rmc.tlb_entries", "2147483648", "must be 1 to 65536"),
    ] {
        let error = load("sonuma", &[Override::new(path, value)]).unwrap_err();
        assert_eq!(error.key, path);
        assert!(error.problem.contains(part), "{error}");
    }
}

/// Settings of workloads and of other network interfaces, which change nothing in a program.
#[test]
fn settings_that_no_program_reads_are_refused() {
    let refused = |reader, machine: &str, path: &str, value: &str| {
        load_for(reader, machine, &[Override::new(path, value)])
            .err()
            .map(|error| error.to_string())
    };
    let chips =
        ["sonuma", "cache-integrated", "pcie-ntb", "tsm-sim", "deoi-cores", "thunder-cores"];
    for machine in chips {
        for (path, value) in [
            ("ni.rrpp_request_cycles", "9"),
            ("ni.rrpp_reply_cycles", "9"),
            ("ni.rrpp_transactions", "9"),
            ("network.remote", "nodes"),
        ] {
            let error = refused(Use::Program, machine, path, value).expect(path);
            let because = "nothing reads it: it needs ni.placement = \"edge\" or";
            assert!(error.contains(path) && error.contains(because), "{machine}: {error}");
            let has_hint = error.contains("; did you mean ");
            assert!(has_hint || machine != "sonuma", "{machine}: {error}");
        }
    }
    for machine in ["sonuma", "manycore-ni", "cache-integrated", "pcie-ntb"] {
        for reader in [Use::Program, Use::Traffic] {
            let error = refused(reader, machine, "run.watchdog_cycles", "9").expect(machine);
            assert!(error.contains("workload.kind = \"sync-read\""), "{error}");
        }
    }
    for machine in ["sonuma", "cache-integrated"] {
        assert!(refused(Use::Program, machine, "ni.completion", "acknowledged").is_some());
    }
    for (path, value) in [("network.hops", "3"), ("network.hop_latency_ns", "99")] {
        assert!(refused(Use::Program, "cache-integrated", path, value).is_some());
        assert_eq!(refused(Use::Program, "sonuma", path, value), None);
    }
    for (path, value) in [
        ("ni.rrpp_request_cycles", "9"),
        ("network.remote", "nodes"),
        ("ni.completion", "acknowledged"),
        ("network.hops", "3"),
    ] {
        assert_eq!(refused(Use::Program, "manycore-ni", path, value), None, "{path}");
    }
    assert_eq!(refused(Use::Program, "pcie-ntb", "ni.completion", "acknowledged"), None);
    assert_eq!(refused(Use::Workload, "manycore-ni", "run.watchdog_cycles", "9"), None);
    assert_eq!(refused(Use::Workload, "rack-torus", "run.watchdog_cycles", "9000"), None);
}

/// The error names what the user has set, and not a key of the machine's file or a default value that it contradicts.
#[test]
fn errors_blame_what_was_set() {
    let error = |machine: &str, settings: &[&str]| {
        let settings: Vec<_> = settings.iter().map(|one| one.parse().unwrap()).collect();
        load(machine, &settings).expect_err(machine)
    };
    for (machine, settings, blamed, part) in [
        ("sonuma", &["llc.banks=3"][..], "llc.banks", "does not fit: llc.ways is 16"),
        ("manycore-ni", &["run.min_windows=1000"], "run.min_windows", "run.max_windows is"),
        (
            "manycore-ni",
            &["workload.rate=600", "clock_ghz=0.5"],
            "clock_ghz",
            "workload.rate is 600",
        ),
        ("manycore-ni", &["ni.placement=window"], "ni.placement", "needs noc.topology"),
        ("sonuma", &["dram.tck_ps=999999"], "dram.tck_ps", "does not fit: dram."),
        ("sonuma", &["dram.tck_ps=999999", "seed=3"], "dram.tck_ps", "does not fit: dram."),
        // Of two mistakes each is one alone.
        ("sonuma", &["llc.banks=3", "dram.tck_ps=999999"], "llc.banks", "llc.ways is 16"),
    ] {
        let error = error(machine, settings);
        assert_eq!((&*error.key, &error.origin), (blamed, &Origin::Override), "{error}");
        assert!(error.problem.contains(part), "{error}");
    }
}

#[test]
fn a_packet_has_as_many_virtual_channels_with_every_routing() {
    for routing in ["xy", "yx", "o1turn", "cdr", "cdr-directory"] {
        let routing = format!("noc.routing={routing}");
        assert!(with(&["noc.vcs=1", &routing]).is_ok(), "{routing}");
    }
    assert!(with(&["noc.vcs=1", "noc.topology=noc-out"]).is_ok());
}

#[test]
fn racks_that_cannot_be_built_are_refused() {
    for (setting, key, part) in [
        ("rack.topology=mesh:8x8", "rack.topology", "must be a torus such as torus:8x8x8"),
        ("rack.topology=torus:32x32x8", "rack.topology", "8192 nodes, but packets can name 4096"),
        ("network.hop_latency_ns=2", "network.hop_latency_ns", "is 4 cycles, must be 5 to 204"),
        ("network.hop_latency_ns=120", "network.hop_latency_ns", "is 240 cycles"),
        ("rack.link_bytes=24", "rack.link_bytes", "power of two"),
        ("rack.request_vcs=1", "rack.request_vcs", "on each side of their dateline"),
        ("rack.reply_vcs=31", "rack.reply_vcs", "33 with rack.request_vcs"),
        ("rack.buffer_flits=0", "rack.buffer_flits", "must be 1 to 200"),
        ("node.injection_cycles=0", "node.injection_cycles", "must be 1 to 200"),
        ("node.rrpp_transactions=0", "node.rrpp_transactions", "at least 1"),
        ("node.itt_entries=20000", "node.itt_entries", "must be 1 to 16384"),
        ("node.memory_bytes_per_cycle=-1", "node.memory_bytes_per_cycle", "must be 0, or"),
        ("traffic.hot_share=1.5", "traffic.hot_share", "must be 0 to 1"),
        ("traffic.hot_node=512", "traffic.hot_node", "last node is 511"),
        ("traffic.sources=513", "traffic.sources", "has 512 nodes; 0 means all"),
        ("traffic.outstanding=0", "traffic.outstanding", "must be 1 to 16384"),
    ] {
        let pattern = Override::new("traffic.pattern", "hot-spot");
        let error = load("rack-torus", &[pattern, setting.parse().unwrap()]).unwrap_err();
        assert_eq!(error.key, key, "{setting}: {error}");
        assert!(error.problem.contains(part), "{setting}: {error}");
    }
    let both = |a: &str, b: &str| {
        let settings = [a.parse().unwrap(), b.parse().unwrap()];
        load("rack-torus", &settings).unwrap_err().to_string()
    };
    let error = both("rack.topology=torus:8x4", "traffic.pattern=transpose");
    assert!(error.contains("needs rings of equal length"), "{error}");
    let error = both("traffic.loop=open", "traffic.offered_gbps=2000");
    assert!(error.contains("must be at most 1024"), "{error}");
}

proptest! {
    #[test]
    fn a_resolved_machine_loads_to_itself(
        seed in 0..=i64::MAX as u64,
        clock in 0.1..10.0_f64,
        hops in 1_u32..100,
        bytes in 1_u32..100_000,
        routing in prop::sample::select(vec!["xy", "yx", "o1turn", "cdr", "cdr-directory"]),
        placement in prop::sample::select(vec!["edge", "per-tile", "split", "numa"]),
        description in prop::sample::select(vec![
            "it's \"odd\"",
            "\"[noc] = 3, ''' and \\\"\\\"\\\"\"",
            "\"two lines\\n[noc]\\nvcs = 5\"",
        ]),
    ) {
        let settings = [
            format!("seed={seed}"),
            format!("clock_ghz={clock}"),
            format!("network.hops={hops}"),
            format!("workload.transfer_bytes={bytes}"),
            format!("noc.routing={routing}"),
            format!("ni.placement={placement}"),
            format!("description={description}"),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let machine = with(&settings).unwrap();
        let again = files(&[("m.toml", &resolved(&machine))]).unwrap();
        prop_assert_eq!(again, machine);
    }
}

/// Open parameters of the last of these files, or the complaint.
fn declared(declaration: &str) -> Result<Vec<Open>, String> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("mine.toml");
    fs::write(&path, format!("base = \"manycore-ni\"\n[open]\n{declaration}\n")).unwrap();
    let place = path.display().to_string();
    let complaint = |error: MachineError| error.to_string().replace(&place, "mine.toml");
    let found = open(&place).map_err(complaint)?;
    load(&place, &[]).map_err(complaint)?;
    Ok(found)
}

#[test]
fn open_parameters_come_from_a_file_and_its_bases() {
    let found = declared("\"noc.vcs\" = { range = [3, \"4\"], because = \"so\" }").unwrap_err();
    assert!(found.contains("mine.toml:3: noc.vcs: invalid type: string"), "{found}");
    let found = declared("\"noc.vcs\" = { range = [3], because = \"so\" }").unwrap();
    let vcs: Vec<&Open> = found.iter().filter(|open| open.path == "noc.vcs").collect();
    assert_eq!((vcs.len(), vcs[0].range.as_slice()), (1, ["3".to_owned()].as_slice()));
    assert!(vcs[0].fitted.is_empty() && found.iter().any(|open| open.path == "noc.buffer_flits"));
}

#[test]
fn wrong_declarations_of_open_parameters_are_refused_with_their_place() {
    for (declaration, expected) in [
        (
            "\"noc.vc\" = { range = [3], because = \"\" }",
            "mine.toml:3: noc.vc: no such key; did you mean noc.vcs?",
        ),
        ("\"noc.vcs\" = { range = [3] }", "mine.toml:3: noc.vcs: missing field `because`"),
        ("\"noc.vcs\" = { because = \"\" }", "neither a range nor claims that it was fitted to"),
        ("\"noc.vcs\" = { range = [3], because = \"\", fited = [] }", "unknown field `fited`"),
        ("\"noc.vcs\" = 3", "mine.toml:3: noc.vcs: invalid type: integer"),
    ] {
        let found = declared(declaration).unwrap_err();
        assert!(found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

/// Each value that a study of sensitivity tries makes a machine.
#[test]
fn every_value_of_every_range_makes_a_machine() {
    for built_in in BUILT_IN {
        for open in open(built_in.name).unwrap() {
            for value in &open.range {
                let made = load(built_in.name, &[Override::new(&open.path, value).if_read()]);
                let made = made.unwrap_or_else(|error| panic!("{}: {error}", built_in.name));
                let own = load(built_in.name, &[]).unwrap();
                assert_ne!(made, own, "{}: {} = {value} is its own", built_in.name, open.path);
            }
        }
    }
}
