//! Racks whose nodes know each other by keys.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::common::Host;
use crate::linked::{links, until_linked};
use crate::rig::Rig;

#[test]
fn keys_are_made_once_and_shown_again() {
    let (host, folder) = (Host::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("lab-0.key");
    let file = path.to_str().unwrap();
    let key = host.ok(&["key", "new", file]);
    assert!(key.starts_with("rackmem-key:") && key.ends_with('\n'), "{key}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(host.ok(&["key", "show", file]), key);
    let json: Value = serde_json::from_str(&host.ok(&["key", "show", "--json", file])).unwrap();
    assert_eq!((&json["key"], &json["file"]), (&key.trim().into(), &file.into()));
    let digits = key.trim().strip_prefix("rackmem-key:").unwrap();
    assert!(digits.starts_with(json["fingerprint"].as_str().unwrap()), "{json}");
    let before = fs::read_to_string(&path).unwrap();
    let complaint = host.fails(1, &["key", "new", file]);
    assert!(complaint.contains("is there already") && complaint.lines().count() == 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    fs::write(&path, &key).unwrap();
    assert!(host.fails(1, &["key", "show", file]).contains("it is a public key"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(host.fails(1, &["key", "show", file]).contains("`chmod 600 "));
    assert!(host.fails(1, &["key", "show", "/no/file"]).contains("cannot read the private key"));
}

#[test]
fn nodes_with_keys_reach_each_other() {
    let rig = Rig::with_keys(2);
    rig.up();
    until_linked(&rig, 2);
    for nid in 0..2 {
        let [link] = &links(&rig, nid)[..] else { panic!("{:?}", links(&rig, nid)) };
        let fingerprint = link["proof"]["key"].as_str().unwrap();
        let file = fs::read_to_string(rig.file()).unwrap();
        assert!(file.contains(&format!("rackmem-key:{fingerprint}")), "{link}");
        assert_eq!(link["proof"]["secret"], false);
        assert_eq!(link["rights"].as_array().unwrap().len(), 6);
        let table = rig.ok_on(nid, &["info"]);
        assert!(table.contains(&format!("key {fingerprint}")), "{table}");
    }
    let launcher = rig.launcher();
    let out = rig.ok(&["run", "--launcher", &launcher, "--", ":hello"]);
    assert!(out.contains("node 0 of 2") && out.contains("node 1 of 2"), "{out}");
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn each_host_may_name_its_own_file() {
    let rig = Rig::with_keys(2);
    fs::rename(rig.path("lab-0.key"), rig.path("mine")).unwrap();
    fs::create_dir(rig.path("etc")).unwrap();
    fs::rename(rig.path("lab-1.key"), rig.path("etc/1")).unwrap();
    let complaint = rig.fails(1, &["up"]);
    assert!(complaint.contains("cannot read the private key /"), "{complaint}");
    let mine = rig.path("mine");
    rig.ok_on(0, &["up", "--node", "0", "--key-file", &mine]);
    let mut command = rig.on(1, &["up", "--node", "1"]);
    command.env("RACKMEM_KEY_FILE", rig.path("etc/{node}"));
    assert!(command.output().unwrap().status.success());
    until_linked(&rig, 2);
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn a_wrong_key_is_found_before_a_daemon_starts() {
    let rig = Rig::with_keys(2);
    let file = rig.path("lab-0.key");
    let complaint = rig.fails(1, &["up", "--node", "1", "--key-file", &file]);
    assert!(
        complaint.contains("has the private key of node 0 of /")
            && complaint.contains("not that of node 1")
            && complaint.lines().count() == 1,
        "{complaint}"
    );
    let other = rig.path("other");
    let key = rig.host.ok(&["key", "new", &other]);
    let complaint = rig.fails(1, &["up", "--key-file", &other]);
    assert!(complaint.contains("of no node of /") && complaint.contains(key.trim()), "{complaint}");
    rig.write("lab-1.key", &fs::read_to_string(rig.path("lab-1.key")).unwrap(), 0o640);
    assert!(rig.fails(1, &["up", "--node", "1"]).contains("`chmod 600 "));
    rig.assert_nothing_left();
    let rig = Rig::new(1);
    let complaint = rig.fails(1, &["up", "--key-file", &file]);
    assert!(complaint.contains("has no keys: leave the key file out"), "{complaint}");
    let complaint = rig.host.fails(2, &["up", "--nodes", "1", "--key-file", &file]);
    assert!(complaint.contains("--rack-file"), "{complaint}");
    rig.assert_nothing_left();
}
