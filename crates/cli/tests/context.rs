//! `rackmem context`.

mod common;

use common::Host;
use serde_json::Value;

#[test]
fn contexts_are_created_listed_and_removed() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "1"]);
    assert_eq!(host.ok(&["context", "list"]), "rack 'default' has no contexts\n");
    assert_eq!(host.ok(&["context", "create", "7", "--mode", "0664"]), "context 7 created\n");
    assert_eq!(host.ok(&["context", "create"]), "0\n");
    let list: Value = serde_json::from_str(&host.ok(&["context", "list", "--json"])).unwrap();
    assert_eq!((&list[0]["ctx_id"], &list[0]["mode"]), (&Value::from(0), &Value::from("0600")));
    assert_eq!((&list[1]["ctx_id"], &list[1]["mode"]), (&Value::from(7), &Value::from("0664")));
    assert_eq!(host.ok(&["context", "remove", "7"]), "context 7 removed\n");
    let table = host.ok(&["context", "list"]);
    assert!(table.starts_with("context  mode  file\n      0  0600  "), "{table}");
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn impossible_wishes_are_refused() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "1"]);
    host.ok(&["context", "create", "7"]);
    for (args, complaint) in [
        (&["context", "create", "7"][..], "context 7 exists already"),
        (&["context", "create", "1024"], "context 1024 is out of range: 0 to 1023"),
        (&["context", "remove", "8"], "rack 'default' has no context 8"),
    ] {
        let found = host.fails(1, args);
        assert!(found.starts_with("rackmem: ") && found.contains(complaint), "{found}");
    }
    host.fails(2, &["context", "create", "8", "--mode", "0999"]);
    host.fails(2, &["context", "create", "-1"]);
    host.ok(&["down"]);
    host.assert_nothing_left();
}
