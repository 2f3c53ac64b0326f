//! `rackmem sweep`.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::Host;
use serde_json::Value;

const STUDY: &str = r#"
machine = "manycore-ni"
[set]
workload.kind = "sync-read"
workload.transfer_bytes = 64
run.reads = 2
tiles = { columns = 2, rows = 2 }
memory.controllers = 2
[vary]
noc.vcs = [2, 4]
"ni.placement" = ["split", "edge"]
"#;

/// A host with a study; its path, and that of the folder of its runs.
fn study(text: &str) -> (Host, String, String) {
    let host = Host::new();
    let [file, folder] = ["study.toml", "study"].map(|name| host.racks().join(name));
    fs::write(&file, text).unwrap();
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    (host, name(&file), name(&folder))
}

fn contents(folder: &str) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()));
    let files = files
        .into_iter()
        .flatten()
        .filter(|file| file.extension().is_some_and(|end| end == "json"));
    files.map(|file| (file.to_str().unwrap().to_owned(), fs::read(file).unwrap())).collect()
}

/// The first cells of each line.
fn starts(csv: &str) -> Vec<String> {
    let start = |line: &str| line.split(',').take(2).collect::<Vec<_>>().join(",");
    csv.lines().map(start).collect()
}

#[test]
fn a_study_has_a_row_and_a_file_for_each_machine_in_order() {
    let (host, file, folder) = study(STUDY);
    let csv = host.ok(&["sweep", &file, "--csv"]);
    assert_eq!(
        starts(&csv),
        ["noc.vcs,ni.placement", "2,split", "2,edge", "4,split", "4,edge"],
        "{csv}"
    );
    let files = contents(&folder);
    assert_eq!(files.len(), 4);
    let again = host.run(&["sweep", &file, "--csv", "--resume"]);
    assert_eq!((again.out, files), (csv, contents(&folder)));
    assert!(again.err.contains("0 runs made, 4 were there"), "{}", again.err);
    // Only what is new is run; and all if it is asked for.
    let more = host.run(&["sweep", &file, "--vary", "seed=1,2"]);
    assert!(more.err.contains("4 runs made, 4 were there"), "{}", more.err);
    let json = host.ok(&["sweep", &file, "--again", "--json"]);
    let rows: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[1]["settings"]["ni.placement"], "edge");
    assert!(rows[1]["report"]["latency"]["mean_cycles"].as_f64().unwrap() > 0.0);
    let page = format!("{folder}.html");
    host.ok(&["report", &folder, "-o", &page]);
    assert!(fs::read_to_string(page).unwrap().contains("placement"));
}

#[test]
fn a_study_that_was_killed_goes_on_with_the_same_bytes() {
    let (host, file, folder) = study(STUDY);
    let seeds = ["--vary", "seed=1,2,3"];
    let whole = host.racks().join("whole");
    let whole = whole.to_str().unwrap();
    host.ok(&[&["sweep", &file, "--out", whole], &seeds[..]].concat());
    let mut command = host.command(&[&["sweep", &file, "--jobs", "1"], &seeds[..]].concat());
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while contents(&folder).len() < 2 && killed.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    host.ok(&[&["sweep", &file], &seeds[..]].concat());
    let bytes = |folder| contents(folder).into_values().collect::<Vec<_>>();
    assert_eq!(bytes(whole), bytes(&folder));
    assert_eq!(bytes(whole).len(), 12);
}

#[test]
fn shares_and_listed_commands_make_up_the_whole() {
    let (host, file, folder) = study(STUDY);
    let rows =
        |args: &[&str]| starts(&host.ok(&[&["sweep", &file, "--csv"], args].concat())).len() - 1;
    assert_eq!(rows(&["--shard", "1/3"]), 2);
    let slurm = host
        .command(&["sweep", &file, "--csv"])
        .envs([
            ("SLURM_ARRAY_TASK_ID", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
        ])
        .output()
        .unwrap();
    assert!(String::from_utf8(slurm.stdout).unwrap().contains("2,edge"));
    assert_eq!(contents(&folder).len(), 3);
    let list = host.ok(&["sweep", &file, "--list"]);
    assert_eq!(list.lines().count(), 1);
    let here = Path::new(env!("CARGO_BIN_EXE_rackmem")).parent().unwrap();
    let mut shell = Command::new("sh");
    host.environment(&mut shell);
    let path = format!("{}:{}", here.display(), std::env::var("PATH").unwrap());
    assert!(
        shell
            .args(["-c", &list])
            .env("PATH", path)
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(contents(&folder).len(), 4);
    let json: Value =
        serde_json::from_str(&host.ok(&["sweep", &file, "--list", "--json"])).unwrap();
    assert!(json.as_array().unwrap().iter().all(|run| run["done"] == true));
    assert_eq!(host.ok(&["sweep", &file, "--list"]), "");
}

#[test]
fn runs_that_fail_are_rows() {
    let (host, file, folder) = study(&STUDY.replace("[2, 4]", "[2, 1000, 0]"));
    let done = host.run(&["sweep", &file, "--csv"]);
    assert_eq!(done.status, Some(1));
    assert!(done.out.contains("1000,edge,") && done.out.contains("at most 32 are possible"));
    assert!(done.err.contains("4 of 6 runs failed"), "{}", done.err);
    assert_eq!(contents(&folder).len(), 2);
    let page = format!("{folder}.html");
    let written = host.ok(&["report", &folder, "-o", &page]);
    assert_eq!(written, format!("{page}: 6 runs, 4 failed\n"));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("vcs 1000") && page.contains("at most 32 are possible"));
    let one = ["--only", "noc.vcs=2", "--only", "ni.placement=edge"];
    let written = host.ok(&[&["report", &folder, "-o", "/dev/null"], &one[..]].concat());
    assert_eq!(written, "/dev/null: 1 run\n");
    let none = host.fails(2, &["report", &folder, "--only", "noc.vcs=4"]);
    assert!(none.contains("--only noc.vcs=4: no run is left; there are 0, 2, 1000"), "{none}");
}

#[test]
fn programs_are_run_again_when_their_files_have_changed() {
    let graph = "0 1\n1 2\n2 0\n";
    let pagerank = r#"["pagerank", "--variant", "bulk", "--supersteps", "1", "graph.txt"]"#;
    let (host, file, _) =
        study(&format!("machine = \"sonuma\"\nnodes = 2\nprograms = [{pagerank}, \"hello\"]\n"));
    fs::write(host.racks().join("graph.txt"), graph).unwrap();
    let run = || {
        let done = host.command(&["sweep", &file]).current_dir(host.racks()).output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(done.status.success(), "{}{}", said(&done.stdout), said(&done.stderr));
        said(&done.stderr)
    };
    assert!(run().contains("2 runs made, 0 were there"));
    assert!(run().contains("0 runs made, 2 were there"));
    fs::write(host.racks().join("graph.txt"), format!("{graph}2 1\n")).unwrap();
    assert!(run().contains("1 run made, 1 were there"));
}

/// A file is named by what decides the result, and a copy or an edit may be of something else.
#[test]
fn a_file_with_the_report_of_another_run_is_replaced() {
    let (host, file, folder) = study(STUDY);
    let sweep = || host.run(&["sweep", &file, "--csv"]);
    let first = sweep();
    let files = contents(&folder);
    let (one, other) = (files.keys().next().unwrap(), files.keys().next_back().unwrap());
    fs::copy(one, other).unwrap();
    let second = sweep();
    assert!(second.err.contains("1 run made, 3 were there"), "{}", second.err);
    assert_eq!((first.out, files), (second.out, contents(&folder)));
}

#[test]
fn a_folder_that_has_all_runs_need_not_be_writable() {
    let (host, file, folder) = study(&STUDY.replace("[2, 4]", "[2, 1000]"));
    let first = host.run(&["sweep", &file, "--csv"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write anywhere, unless it gives up that capability.
    let words: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--bounding-set=-dac_override"],
        false => &["env"],
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args([env!("CARGO_BIN_EXE_rackmem"), "sweep", &file, "--csv"]);
    host.environment(&mut command);
    let again = command.output().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(said.contains("0 runs made, 2 were there"), "{said}");
    assert_eq!((again.status.code(), again.stdout), (Some(1), first.out.into_bytes()), "{said}");
}

#[test]
fn a_sweep_over_load_shows_where_a_rack_saturates() {
    let host = Host::new();
    let small = ["--set", "rack.topology=torus:4x4x4", "--set", "run.window_cycles=4000"];
    let load = ["--set", "traffic.loop=open", "--vary", "traffic.offered_gbps=4,60"];
    let table = host.ok(&[&["sweep", "rack-torus"], &small[..], &load[..]].concat());
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    let saturated = rows[0].iter().position(|name| *name == "rack.saturated").unwrap();
    assert_eq!((rows[1][saturated], rows[2][saturated]), ("no", "yes"), "{table}");
}

#[test]
fn wrong_studies_are_wrong_usage() {
    let (host, file, _) = study("machine = \"manycore-ni\"\n[vary]\nnoc.vcs = 2\n");
    for (args, complaint) in [
        (&["sweep", &file][..], "study.toml:3: noc.vcs: expected a list of values"),
        (&["sweep", "manycore-ni"], "nothing is varied; say --vary"),
        (&["sweep", "manycore-nl", "--vary", "seed=1"], "did you mean manycore-ni?"),
        (
            &["sweep", "manycore-ni", "--vary", "noc.vcz=2"],
            "noc.vcz: no such key; did you mean noc.vcs?",
        ),
        (
            &["sweep", "manycore-ni", "--vary", "noc.vcs=2", "--csv", "--json"],
            "cannot be used with",
        ),
        (
            &["sweep", "manycore-ni", "--vary", "noc.vcs=2", "--vary", "noc.vcs=3"],
            "noc.vcs is varied twice",
        ),
        (&["sweep", "manycore-ni", "--vary", "seed=1", "--shard", "3/2"], "no share 3 of 2"),
        (&["sweep", "manycore-ni", "--vary", "seed=1", "--list"], "name their folder with --out"),
        (&["sweep", "manycore-ni", "--vary", "seed=1", "--only", "x"], "has no run x"),
    ] {
        let found = host.fails(2, args);
        assert!(found.contains(complaint), "{args:?}: {found}");
    }
}
