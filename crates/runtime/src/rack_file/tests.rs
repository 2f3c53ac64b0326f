//! Rack files, right and wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rackmem_abi::MAX_NODES;

use super::*;

const NODES: &str =
    "[[node]]\naddress = \"10.9.0.1:7400\"\n[[node]]\naddress = \"10.9.0.2:7400\"\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.secret("0123456789abcdef\n", 0o600);
        folder
    }

    fn secret(&self, text: &str, mode: u32) {
        let path = self.0.path().join("s");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self, text: &str) -> Result<RackFile> {
        let path = self.0.path().join("rack.toml");
        fs::write(&path, text).unwrap();
        RackFile::read(&path)
    }

    /// The complaint about a file, without the path in front.
    fn complaint(&self, text: &str) -> String {
        let error = self.read(text).expect_err(text).to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        let path = self.0.path().join("rack.toml");
        let rest = error.strip_prefix(&path.display().to_string());
        rest.unwrap_or_else(|| panic!("{error}")).to_owned()
    }
}

#[test]
fn a_file_says_name_secret_and_nodes() {
    let folder = Folder::new();
    let file = folder.read(&format!("name = \"lab\"\nsecret_file = \"s\"\n{NODES}")).unwrap();
    assert_eq!((file.name.as_str(), file.cleartext, file.node_count()), ("lab", false, 2));
    assert_eq!(file.secret, Some(Secret::of(b"0123456789abcdef")));
    assert_ne!(file.secret, Some(Secret::of(b"0123456789abcdeF")));
    assert!(format!("{file:?}").contains("secret: Some(Secret)"), "{file:?}");
    assert!(!file.has_keys() && file.nodes.iter().all(|node| node.rights == Rights::ALL));
    assert!(file.path.is_absolute());
    let open = format!("name = \"lab\"\ncleartext = true\nsecret_file = \"s\"\n{NODES}");
    let file = folder.read(&open).unwrap();
    assert!(file.cleartext && file.link == LinkKind::Tcp);
    let by_ucx = open.replace("secret_file", "link = \"ucx\"\nsecret_file");
    assert_eq!(folder.read(&by_ucx).unwrap().link, LinkKind::Ucx);
}

#[test]
fn neighbours_have_the_same_ip() {
    let third = "[[node]]\naddress = \"10.9.0.1:7401\"\n[[node]]\naddress = \"[fd00::1]:7400\"\n";
    let text = format!("name = \"lab\"\nsecret_file = \"s\"\n{NODES}{third}");
    let file = Folder::new().read(&text).unwrap();
    assert!(file.is_neighbour(0, 2) && file.is_neighbour(3, 3));
    assert!(!file.is_neighbour(0, 1) && !file.is_neighbour(1, 3));
    assert!(!file.is_neighbour(7, 7) && !file.is_neighbour(0, 9));
}

#[test]
fn mistakes_are_named_with_their_line() {
    let folder = Folder::new();
    let with = |head: &str, rest: &str| format!("{head}\nsecret_file = \"s\"\n{rest}");
    let named = |rest: &str| with("name = \"lab\"", rest);
    for (text, expected) in [
        (with("name = ", NODES), ":1: "),
        (
            with("nmae = \"lab\"", NODES),
            ":1: 'nmae' is no key of a rack file; did you mean 'name'?",
        ),
        (
            with("zzzz = 1", NODES),
            ":1: 'zzzz' is no key of a rack file, which has name, secret_file",
        ),
        (with("", NODES), ": it has no name: write `name = \"lab\"`"),
        (with("name = 7", NODES), ":1: name is a text"),
        (with("name = \"a b\"", NODES), ":1: \"a b\" is not a name"),
        (named(""), ": it has no node: write `[[node]]`"),
        (named("node = []"), ":3: it has no node"),
        (named("node = 3"), ":3: node is a list"),
        (named("node = [3]"), ":3: node is a table"),
        (named("cleartext = 1"), ":3: cleartext is true or false"),
        (named("link = 1"), ":3: link is a text"),
        (named("link = \"ucs\""), ":3: 'ucs' is none of the links; did you mean 'ucx'?"),
        (named("link = \"ucx\""), ":3: UCX encrypts nothing: write `cleartext = true`"),
        (named("cleartext = false\nlink = \"ucx\""), ":4: UCX encrypts nothing"),
        (
            named("[[node]]\nadress = \"a\""),
            ":4: 'adress' is no key of a node; did you mean 'address'?",
        ),
        (named("\n[[node]]\n"), ":4: node 0 has no address"),
        (named("[[node]]\naddress = 3"), ":4: address is a text"),
        (named("[[node]]\naddress = \"10.9.0.1\""), ":4: '10.9.0.1' is no address: write IP:PORT"),
        (named("[[node]]\naddress = \"10.9.0.1:x\""), ":4: '10.9.0.1:x' is no address"),
        (named("[[node]]\naddress = \"10.9.0.1:65536\""), ":4: '10.9.0.1:65536' is no address"),
        (named("[[node]]\naddress = \"fd00::1\""), ":4: 'fd00::1' is no address"),
        (named("[[node]]\naddress = \":7400\""), ":4: ':7400' is no address"),
        (named("[[node]]\naddress = \"10.9.0.1:0\""), ":4: '10.9.0.1:0' has port 0"),
        (named("[[node]]\naddress = \"0.0.0.0:7\""), ":4: '0.0.0.0:7' is no address of one host"),
        // A name that is too long is refused without asking a name server.
        (named(&format!("[[node]]\naddress = \"{}:7\"", "x".repeat(300))), ":4: the host of 'xxx"),
        (
            named(&format!("{NODES}[[node]]\naddress = \"10.9.0.1:7400\"")),
            ":8: nodes 0 and 2 have the same address 10.9.0.1:7400",
        ),
    ] {
        let found = folder.complaint(&text);
        assert!(found.starts_with(expected), "{text}\n{found}\n{expected}");
    }
}

#[test]
fn there_are_not_too_many_nodes() {
    let node = |nid: usize| format!("[[node]]\naddress = \"10.9.0.1:{}\"\n", nid + 1);
    let text = |count| -> String {
        "name = \"lab\"\nsecret_file = \"s\"\n".to_owned()
            + &(0..count).map(node).collect::<String>()
    };
    let folder = Folder::new();
    assert_eq!(folder.read(&text(MAX_NODES)).unwrap().nodes.len(), MAX_NODES);
    let line = 3 + 2 * MAX_NODES;
    let expected = format!(":{line}: it has {} nodes: {MAX_NODES} are possible", MAX_NODES + 1);
    assert_eq!(folder.complaint(&text(MAX_NODES + 1)), expected);
}

#[test]
fn the_secret_is_there_long_enough_and_secret() {
    let folder = Folder::new();
    let text = format!("name = \"lab\"\nsecret_file = \"s\"\n{NODES}");
    let without = folder.complaint(&format!("name = \"lab\"\ncleartext = true\n{NODES}"));
    assert!(without.starts_with(": it has neither secret_file nor keys"), "{without}");
    folder.secret("", 0o600);
    assert!(folder.complaint(&text).contains(":2: the secret in "));
    folder.secret("0123456789abcde", 0o600);
    assert!(folder.complaint(&text).contains("has 15 bytes, 16 to 4096 are needed"));
    folder.secret("0123456789abcdef", 0o640);
    assert!(folder.complaint(&text).contains("`chmod 600 "));
    fs::remove_file(folder.0.path().join("s")).unwrap();
    assert!(folder.complaint(&text).contains(":2: cannot read the secret "));
}

#[test]
fn a_file_that_is_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = RackFile::read(&dir.path().join("no.toml")).unwrap_err();
    assert_eq!(missing.errno(), libc::ENOENT);
    assert!(missing.to_string().starts_with("cannot read the rack file /"), "{missing}");
    assert!(RackFile::read(dir.path()).unwrap_err().to_string().contains("Is a directory"));
    let endless = RackFile::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(endless.contains("more than 1048576 bytes"), "{endless}");
}

/// Private keys of nodes 0 to 2, each in its file.
fn keys(folder: &Folder) -> Vec<PublicKey> {
    let key = |nid| key_file::create(&folder.0.path().join(format!("lab-{nid}.key"))).unwrap();
    (0..3).map(|nid| key(nid).public()).collect()
}

fn node(nid: usize, rest: &str) -> String {
    format!("[[node]]\naddress = \"10.9.0.{}:7400\"\n{rest}\n", nid + 1)
}

fn with_key(nid: usize, key: impl fmt::Display) -> String {
    node(nid, &format!("key = \"{key}\""))
}

#[test]
fn nodes_have_keys_and_rights() {
    let folder = Folder::new();
    let keys = keys(&folder);
    let nodes = with_key(0, keys[0]) + &with_key(1, keys[1]) + "rights = [\"nic\", \"lend\"]\n";
    let file = folder.read(&format!("name = \"lab\"\n{nodes}")).unwrap();
    assert_eq!((file.secret.as_ref(), file.nodes[1].key), (None, Some(keys[1])));
    assert_eq!(file.nodes[0].rights, Rights::ALL);
    assert_eq!(file.nodes[1].rights.names().collect::<Vec<_>>(), ["lend", "nic"]);
    assert_eq!(file.nodes[0].max_borrowed_bytes, None);
    let bounded = folder.read(&format!("name = \"lab\"\n{nodes}max_borrowed = \"16G\"")).unwrap();
    assert_eq!(bounded.nodes[1].max_borrowed_bytes, Some(16 << 30));
    let proof = bounded.proof(Some(1)).unwrap();
    assert_eq!((proof.own_node(), proof.max_borrowed_bytes(1)), (Some(1), Some(16 << 30)));
    assert!(proof.check(Some(1), &[Right::Borrow]).is_err() && !proof.is_cleartext());
    let credentials = file.credentials(1).unwrap();
    let Credentials::Keys { own, peers, secret: None } = credentials else { panic!("no secret") };
    assert_eq!((own.public(), &peers[..]), (keys[1], &keys[..2]));
    let both = folder.read(&format!("name = \"lab\"\nsecret_file = \"s\"\n{nodes}")).unwrap();
    assert!(matches!(both.credentials(0), Ok(Credentials::Keys { secret: Some(_), .. })));
    assert!(both.credentials(2).is_err(), "no key, so not the secret alone");
    let none = folder.read(&format!("name = \"lab\"\nsecret_file = \"s\"\n{NODES}")).unwrap();
    assert!(matches!(none.credentials(0), Ok(Credentials::Secret(_))));
}

#[test]
fn mistakes_with_keys_are_named_with_their_line() {
    let folder = Folder::new();
    let keys = keys(&folder);
    let private = fs::read_to_string(folder.0.path().join("lab-0.key")).unwrap();
    let two = |rest: &str| with_key(0, keys[0]) + &with_key(1, keys[1]) + rest;
    for (nodes, expected) in [
        (with_key(0, keys[0]) + &node(1, ""), ":5: node 1 has no key, and others have one"),
        (
            node(0, "") + &with_key(1, keys[1]) + &node(2, ""),
            ":2: nodes 0, 2 have no key, and others have one",
        ),
        (
            with_key(0, keys[0]) + &with_key(1, keys[0]),
            ":7: nodes 0 (line 4) and 1 have the same key: make each",
        ),
        (with_key(0, private.trim()), ":4: the key is not that of a node: it is a private key"),
        (with_key(0, "lab"), ":4: the key is not that of a node: it is no key"),
        (
            with_key(0, &keys[0].to_string()[..70]),
            ":4: the key is not that of a node: it is mistyped",
        ),
        (node(0, "key = 3"), ":4: key is a text"),
        (node(0, "kye = \"\""), ":4: 'kye' is no key of a node; did you mean 'key'?"),
        (node(0, "rights = [\"lend\"]"), ":4: rights need keys"),
        (two("rights = \"lend\""), ":8: rights is a list"),
        (two("rights = [3]"), ":8: a right is a text"),
        (
            two("rights = [\"context\",\n\"lnd\"]"),
            ":9: 'lnd' is none of the rights; did you mean 'lend'?",
        ),
        (node(0, "max_borrowed = \"1G\""), ":4: max_borrowed needs keys"),
        (two("max_borrowed = 5"), ":8: max_borrowed is a text: write `max_borrowed = \"16G\"`"),
        (two("max_borrowed = \"5X\""), ":8: '5X' is no size (unit 'X' is none of K, M, G, T)"),
        (two("rights = [\"zzz\"]"), ":8: 'zzz' is none of the rights, which are context, lend"),
    ] {
        let text = format!("name = \"lab\"\n{nodes}");
        let found = folder.complaint(&text);
        assert!(found.starts_with(expected), "{text}\n{found}\n{expected}");
        assert!(!found.contains(private.trim()), "{found}");
    }
    let unused = folder
        .complaint(&format!("name = \"lab\"\nsecret_file = \"s\"\nkey_file = \"k\"\n{NODES}"));
    assert!(unused.starts_with(":3: key_file names a private key, and no node has"), "{unused}");
}

/// The private key is read by daemons only, and has to be that of the node.
#[test]
fn private_keys_belong_to_their_nodes() {
    let folder = Folder::new();
    let keys = keys(&folder);
    let read = |head: &str| {
        let nodes = with_key(0, keys[0]) + &with_key(1, keys[1]);
        folder.read(&format!("name = \"lab\"\n{head}\n{nodes}")).unwrap()
    };
    let complaint =
        |file: &RackFile, nid| file.credentials(nid).expect_err("another's key").to_string();
    let other = complaint(&read("key_file = \"lab-0.key\""), 1);
    assert!(
        other.contains("the private key of node 0 of /") && other.contains("not that of node 1")
    );
    let strange = complaint(&read("key_file = \"lab-2.key\""), 1);
    assert!(strange.contains("of no node") && strange.contains(&keys[2].to_string()), "{strange}");
    assert!(complaint(&read("key_file = \"none\""), 0).contains("cannot read the private key /"));
    // Without a number the node is the one whose key is here.
    let ambiguous = read("").own_node(None).unwrap_err().to_string();
    assert!(ambiguous.contains("the keys of nodes 0, 1 of /"), "{ambiguous}");
    assert!(ambiguous.contains("--node or RACKMEM_NODE"), "{ambiguous}");
    assert_eq!(read("key_file = \"lab-1.key\"").own_node(None).unwrap(), 1);
    let nobody = read("key_file = \"none\"").own_node(None).unwrap_err().to_string();
    assert!(nobody.contains("has its private key here, which would be /"), "{nobody}");
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(folder.0.path().join("lab-1.key"), open).unwrap();
    let shared = read("key_file = \"lab-1.key\"").own_node(None).unwrap_err().to_string();
    assert!(shared.contains("lab-1.key") && shared.contains("chmod"), "{shared}");
    fs::set_permissions(folder.0.path().join("lab-1.key"), fs::Permissions::from_mode(0o600))
        .unwrap();
    let mut file = read("key_file = \"none\"");
    file.use_key_file(&folder.0.path().join("lab-{node}.key")).unwrap();
    assert!(file.credentials(0).is_ok() && file.credentials(1).is_ok());
    let path = folder.0.path().join("lab-0.key");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(complaint(&file, 0).contains("`chmod 600 "));
    let mut secret = folder.read(&format!("name = \"lab\"\nsecret_file = \"s\"\n{NODES}")).unwrap();
    let error = secret.use_key_file(Path::new("k")).unwrap_err().to_string();
    assert!(error.contains("has no keys: leave the key file out"), "{error}");
}
