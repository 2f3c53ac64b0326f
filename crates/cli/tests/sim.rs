//! `rackmem sim`.

mod common;

use common::Host;

#[test]
fn machines_are_listed_and_shown() {
    let host = Host::new();
    let list = host.ok(&["sim", "machines"]);
    for name in ["manycore-ni ", "manycore-ni-noc-out ", "manycore-ni-numa "] {
        assert!(list.contains(name), "{list}");
    }
    let shown = host.ok(&["sim", "show", "manycore-ni", "--set", "noc.vcs=4"]);
    assert!(shown.contains("\nvcs = 4\n"), "{shown}");
    let path = host.racks().join("mine.toml");
    std::fs::write(&path, &shown).unwrap();
    assert_eq!(host.ok(&["sim", "show", path.to_str().unwrap()]), shown);
}

#[test]
fn wrong_machines_are_wrong_usage() {
    let host = Host::new();
    for (args, complaint) in [
        (
            &["sim", "run", "manycore-nl"][..],
            "no machine and no file 'manycore-nl'; did you mean manycore-ni?",
        ),
        (
            &["sim", "run", "manycore-ni", "--set", "noc.vcz=3"],
            "--set: noc.vcz: no such key; did you mean noc.vcs?",
        ),
        (&["sim", "run", "manycore-ni", "--set", "noc.vcs"], "expected path=value"),
        (
            &["sim", "show", "manycore-ni", "--set", "noc.routing=north"],
            "expected one of `xy`, `yx`",
        ),
        (&["sim", "run", "manycore-ni", "--set", "noc.vcs=0"], "noc.vcs: is 0, must be at least 1"),
        (&["sim", "sweep", "manycore-ni"], "--vary"),
        (&["sim", "sweep", "manycore-ni", "--vary", "noc.vcs=2,x"], "noc.vcs: invalid type"),
        (
            &["sim", "sweep", "manycore-ni", "--vary", "noc.vcs=2", "--csv", "--json"],
            "cannot be used with",
        ),
        (
            &["sim", "sweep", "manycore-ni", "--vary", "noc.vcs=2", "--vary", "noc.vcs=3"],
            "noc.vcs is varied twice",
        ),
        (&["sim", "fly"], "unrecognized subcommand"),
    ] {
        let found = host.fails(2, args);
        assert!(found.contains(complaint), "{args:?}: {found}");
    }
}
