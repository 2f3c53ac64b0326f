//! Programs print with `--json` exactly the members that the schema of statistics has, and reports have its fields.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use rackmem_sim::statistics::schema;
use serde_json::Value;

/// Programs, the machine and its nodes, and arguments of runs that together print all that they can.
const RUNS: [(&str, &str, &str, &[&str]); 20] = [
    ("bitonic", "cache-integrated", "1", &["--n=16 --rounds=1"]),
    (
        "deoi_cache",
        "deoi-cores",
        "1",
        &["load --host=10.0.0.2 --initial-bytes=8K --gets=20 --intervals=2 : deoi_cache serve"],
    ),
    ("deoi_nic", "deoi-cores", "2", &["--rounds=1 --frames=30"]),
    ("fft", "cache-integrated", "1", &["--n=16 --rounds=1"]),
    ("kvstore", "sonuma", "2", &["--seconds=0.00001 --keys=100"]),
    ("many_reads", "sonuma", "2", &["--reads=4"]),
    ("netpipe", "sonuma", "2", &["--sizes=8 --seconds=0.00001"]),
    ("overtake", "cache-integrated", "1", &["--rounds=2"]),
    ("pagerank", "sonuma", "2", &["--kronecker=6 --supersteps=1 --variant=serial,bulk"]),
    (
        "remote_read",
        "sonuma",
        "2",
        &[
            "--sizes=64 --sides=2 --seconds=0.00001 --region=64K",
            "--sizes=64 --seconds=0.00001 --region=64K",
        ],
    ),
    ("stream", "cache-integrated", "1", &["--servers=1"]),
    (
        "sync_bench",
        "cache-integrated",
        "1",
        &[
            "--lock=mrq --episodes=5",
            "--barrier=counter --episodes=5",
            "--remote-store --episodes=5",
        ],
    ),
    ("tsm_arenas", "deoi-cores", "2", &["--gets=160"]),
    ("tsm_kernels", "tsm-sim", "2", &["--kernel=b1"]),
    ("tsm_qpair", "thunder-cores", "2", &["--rounds=1 --messages=4"]),
    ("tsm_rdma", "thunder-cores", "2", &["--blocks=2"]),
    ("tsm_real", "tsm-sim", "2", &["--bytes=16K"]),
    ("tsm_share", "pcie-ntb", "2", &["--share=policy", "--share=message"]),
    ("tsm_share", "tsm-sim", "2", &["--share=atomics"]),
    ("tsm_transfer", "pcie-ntb", "2", &["--bytes=64K"]),
];

/// The line of JSON that the first node prints. The program's name in the arguments stands for its file.
fn printed(program: &str, machine: &str, nodes: &str, arguments: &str) -> Value {
    let file = format!("{}/../../programs/prebuilt/{program}.rv64", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.args(["sim", "exec", machine, "-n", nodes, "--", &file, "--json"]);
    let words = arguments.split_whitespace();
    let words = words.map(|word| if word == program { file.as_str() } else { word });
    let output = command.args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = || {
        let problems = String::from_utf8_lossy(&output.stderr).into_owned();
        panic!("{program} {arguments}: {text}{problems}")
    };
    let json = text.lines().find_map(|line| line.find('{').map(|at| &line[at..]));
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_else(shown)
}

/// Adds the paths of all members that are no lists and no objects.
fn add_paths(of: &Value, path: &str, all: &mut BTreeSet<String>) {
    match of {
        Value::Object(members) => {
            let dot = if path.is_empty() { "" } else { "." };
            members.iter().for_each(|(name, of)| add_paths(of, &format!("{path}{dot}{name}"), all));
        }
        Value::Array(rows) => rows.iter().for_each(|of| add_paths(of, &format!("{path}[]"), all)),
        _ => drop(all.insert(path.to_owned())),
    }
}

#[test]
fn programs_print_what_the_schema_says() {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (program, machine, nodes, runs) in RUNS {
        let found = all.entry(program).or_default();
        for arguments in runs {
            add_paths(&printed(program, machine, nodes, arguments), "", found);
        }
    }
    for (program, found) in all {
        let members = schema().output_of(program).expect("a program of the schema");
        let known: BTreeSet<String> = members.iter().map(|member| member.path.clone()).collect();
        assert_eq!(found, known, "{program}");
    }
}

/// Runs that together have all members of reports, and the file that each writes.
const REPORTS: [&[&str]; 9] = [
    &["exec", "sonuma", "-n", "2", "--env", "A=b", "HELLO", "-v"],
    &["exec", "sonuma", "--env", "A=b", "HELLO", "-v", ":", "--begin", "10us", "HELLO"],
    &["exec", "sonuma", "--max-cycles", "100", "HELLO"],
    &["exec", "sonuma", "--fast-forward", "500", "--measure", "100", "HELLO"],
    &["exec", "sonuma", "--sample", "500", "HELLO"],
    &["exec", "sonuma", "--restore", "checkpoint"],
    &["exec", "--functional", "HELLO"],
    &["run", "manycore-ni", "--set", "run.window_cycles=2000", "--set", "run.max_windows=2"],
    &["run", "rack-torus", "--set", "run.window_cycles=2000", "--set", "run.max_windows=2"],
];

#[test]
fn reports_have_what_the_schema_says() {
    let dir = tempfile::tempdir().unwrap();
    let hello = format!("{}/../../programs/prebuilt/hello.rv64", env!("CARGO_MANIFEST_DIR"));
    let rackmem = |args: &[&str]| {
        let words = args.iter().map(|&word| if word == "HELLO" { hello.as_str() } else { word });
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
        command.arg("sim").args(words).current_dir(dir.path()).output().unwrap()
    };
    let taken = ["exec", "sonuma", "--fast-forward", "500", "--checkpoint", "checkpoint", "HELLO"];
    assert!(rackmem(&taken).status.success());
    let fields: Vec<&str> = schema().fields().map(|field| field.path.as_str()).collect();
    for args in REPORTS {
        let (option, name) = match args[0] {
            "exec" => ("--report", "report.json"),
            _ => ("--out", "run"),
        };
        let done = rackmem(&[&args[..1], &[option, name], &args[1..]].concat());
        let file = if name == "run" { "run/report.json" } else { name };
        let text = std::fs::read_to_string(dir.path().join(file));
        let text = text.unwrap_or_else(|_| panic!("{args:?}: {done:?}"));
        let mut report: Value = serde_json::from_str(&text).unwrap();
        for path in report["stats"].take().as_object().into_iter().flatten().map(|(path, _)| path) {
            assert!(schema().has(path), "{args:?}: {path} is in no list of statistics");
        }
        report.as_object_mut().unwrap().remove("stats");
        let mut found = BTreeSet::new();
        add_paths(&report, "", &mut found);
        let is_listed = |path: &str| {
            // Pairs of numbers count as one, members may be null, and files of a program have names of their own.
            let pair = path.strip_suffix("[]").unwrap_or(path);
            fields.contains(&path)
                || fields.contains(&pair)
                || path.starts_with("inputs.")
                || fields.iter().any(|known| known.starts_with(&format!("{path}.")))
        };
        let missing: Vec<&String> = found.iter().filter(|path| !is_listed(path)).collect();
        assert!(missing.is_empty(), "{args:?}: {missing:?} are in no list of fields");
    }
}
