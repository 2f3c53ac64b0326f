//! `rack.toml`: the nodes of a rack over several hosts, and the secret by which they know each other.
//!
//! ```toml
//! name = "lab"
//! secret_file = "lab.secret"       # relative to this file
//!
//! [[node]]                         # node 0
//! address = "10.9.0.1:7400"
//!
//! [[node]]                         # node 1
//! address = "10.9.0.2:7400"
//! ```
//!
//! Nodes of one IP are neighbours: they share memory. All others reach each other by packets.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rackmem_abi::MAX_NODES;
use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};
use crate::{rack, secret_file};

/// Longest file in bytes: [`MAX_NODES`] nodes, with room for comments.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Keys of the file.
const KEYS: [&str; 4] = ["name", "secret_file", "cleartext", "node"];

/// Keys below each `[[node]]`. Others are refused.
const NODE_KEYS: [&str; 1] = ["address"];

/// Likeness from 0 to 1 above which a known key is named beside an unknown one.
const LIKE: f64 = 0.5;

/// A rack over several hosts, as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RackFile {
    /// The file: an absolute path.
    pub path: PathBuf,
    /// Name of the rack, also of its directory on each host.
    pub name: String,
    /// Proves to a daemon of another host that this one belongs to the rack.
    pub secret: Secret,
    /// Whether packets between hosts travel unencrypted. The secret is asked for all the same.
    pub cleartext: bool,
    /// The nodes, in the order of their numbers: 1 to [`MAX_NODES`].
    pub nodes: Vec<NodeEntry>,
}

/// A node of a rack file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Where its daemon listens for daemons of other hosts.
    pub address: SocketAddr,
}

/// SHA-256 of a shared secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl Secret {
    /// The digest of a secret, without white space around it.
    pub fn of(secret: &[u8]) -> Secret {
        let digest =
            Sha256::new().chain_update(b"rackmem rack\0").chain_update(secret.trim_ascii());
        Secret(digest.finalize().into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl RackFile {
    /// Reads and checks a rack file and its secret.
    ///
    /// # Errors
    /// One sentence that names the file, the line and the remedy.
    pub fn read(path: &Path) -> Result<RackFile> {
        let path = std::path::absolute(path)
            .map_err(|error| Error::io("cannot tell the working directory", error))?;
        let text = Text { text: read_text(&path)?, path: &path };
        let document = DeTable::parse(&text.text).map_err(|error| {
            text.refuse(error.span().unwrap_or_default(), one_line(error.message()))
        })?;
        let table = Keys { text: &text, table: document.get_ref() };
        table.check(&KEYS, "of a rack file")?;
        let name = table.text("name", "name = \"lab\"")?;
        rack::check_name(name.get_ref()).map_err(|error| text.refuse(name.span(), error))?;
        Ok(RackFile {
            name: name.get_ref().clone(),
            secret: secret(&text, &table)?,
            cleartext: table.flag("cleartext")?,
            nodes: nodes(&text, &table)?,
            path: path.clone(),
        })
    }

    /// Whether two nodes run on one host and share memory: they have the same IP.
    pub fn is_neighbour(&self, a: u16, b: u16) -> bool {
        let ip = |nid: u16| self.nodes.get(usize::from(nid)).map(|node| node.address.ip());
        ip(a).is_some() && ip(a) == ip(b)
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> u16 {
        self.nodes.len() as u16
    }
}

/// The file's text, for errors that name its lines.
struct Text<'a> {
    text: String,
    path: &'a Path,
}

impl Text<'_> {
    fn refuse(&self, span: Range<usize>, message: impl fmt::Display) -> Error {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::invalid(format!("{}:{line}: {message}", self.path.display()))
    }

    fn refuse_whole(&self, message: impl fmt::Display) -> Error {
        Error::invalid(format!("{}: {message}", self.path.display()))
    }
}

fn read_text(path: &Path) -> Result<String> {
    use std::io::Read;
    let what = || format!("cannot read the rack file {}", path.display());
    let file = fs::File::open(path).map_err(|error| Error::io(what(), error))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io(what(), error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::invalid(format!("{}: it has more than {MAX_FILE_BYTES} bytes", what())));
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{}: it is not UTF-8", what())))
}

/// The message of a parser, which may have several lines.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A table of the file.
struct Keys<'a> {
    text: &'a Text<'a>,
    table: &'a DeTable<'a>,
}

impl Keys<'_> {
    /// Refuses keys that are not known.
    fn check(&self, known: &[&str], place: &str) -> Result<()> {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let message = format!("'{name}' is no key {place}{}", hint(name, known));
                return Err(self.text.refuse(key.span(), message));
            }
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&Spanned<DeValue<'_>>> {
        let entry = self.table.iter().find(|(name, _)| name.get_ref() == key);
        entry.map(|(_, value)| value)
    }

    /// A text that has to be there.
    fn text(&self, key: &str, example: &str) -> Result<Spanned<String>> {
        let Some(value) = self.get(key) else {
            return Err(self.text.refuse_whole(format!("it has no {key}: write `{example}`")));
        };
        match value.get_ref() {
            DeValue::String(found) => Ok(Spanned::new(value.span(), found.clone().into_owned())),
            _ => {
                let message = format!("{key} is a text: write `{example}`");
                Err(self.text.refuse(value.span(), message))
            }
        }
    }

    /// A truth value that is false unless it is there.
    fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key).map(|value| (value.get_ref(), value.span())) {
            None => Ok(false),
            Some((DeValue::Boolean(found), _)) => Ok(*found),
            Some((_, span)) => Err(self.text.refuse(span, format!("{key} is true or false"))),
        }
    }
}

/// The known key that is most like the unknown one, or all of them.
fn hint(name: &str, known: &[&str]) -> String {
    let rated = known.iter().map(|known| (strsim::jaro_winkler(name, known), known));
    match rated.filter(|rated| rated.0 > LIKE).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((_, nearest)) => format!("; did you mean '{nearest}'?"),
        None => format!(", which has {}", known.join(", ")),
    }
}

fn secret(text: &Text<'_>, table: &Keys<'_>) -> Result<Secret> {
    if table.get("secret_file").is_none() {
        return Err(text.refuse_whole(
            "it has no secret_file, by which its nodes prove that they belong to it (also with cleartext = true): \
             `(umask 077; head -c 32 /dev/urandom | base64 > lab.secret)` makes one, and `secret_file = \
             \"lab.secret\"` names it",
        ));
    }
    let name = table.text("secret_file", "secret_file = \"lab.secret\"")?;
    let path = text.path.parent().unwrap_or(Path::new("/")).join(name.get_ref());
    let bytes = secret_file::read(&path).map_err(|error| text.refuse(name.span(), error))?;
    Ok(Secret::of(&bytes))
}

fn nodes(text: &Text<'_>, table: &Keys<'_>) -> Result<Vec<NodeEntry>> {
    let example = "`[[node]]` and below it `address = \"10.9.0.1:7400\"`";
    let Some(value) = table.get("node") else {
        return Err(text.refuse_whole(format!("it has no node: write {example} for each")));
    };
    let DeValue::Array(entries) = value.get_ref() else {
        return Err(text.refuse(value.span(), format!("node is a list: write {example}")));
    };
    if entries.is_empty() {
        return Err(text.refuse(value.span(), format!("it has no node: write {example} for each")));
    }
    if let Some(entry) = entries.get(MAX_NODES) {
        let message = format!("it has {} nodes: {MAX_NODES} are possible", entries.len());
        return Err(text.refuse(entry.span(), message));
    }
    let mut nodes = Vec::new();
    let mut taken = HashMap::new();
    for (nid, entry) in entries.iter().enumerate() {
        let DeValue::Table(found) = entry.get_ref() else {
            return Err(text.refuse(entry.span(), format!("node is a table: write {example}")));
        };
        let keys = Keys { text, table: found };
        keys.check(&NODE_KEYS, "of a node")?;
        if keys.get("address").is_none() {
            let message = format!("node {nid} has no address: write {example}");
            return Err(text.refuse(entry.span(), message));
        }
        let written = keys.text("address", "address = \"10.9.0.1:7400\"")?;
        let refuse = |message| text.refuse(written.span(), message);
        let address = resolve(written.get_ref()).map_err(refuse)?;
        if let Some(other) = taken.insert(address, nid) {
            return Err(refuse(format!("nodes {other} and {nid} have the same address {address}")));
        }
        nodes.push(NodeEntry { address });
    }
    Ok(nodes)
}

/// The address of a node; of the addresses of a host's name, the first.
fn resolve(text: &str) -> std::result::Result<SocketAddr, String> {
    let wrong =
        || format!("'{text}' is no address: write IP:PORT or HOST:PORT, such as 10.9.0.1:7400");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let is_ip = text.parse::<SocketAddr>().is_ok();
    // An IPv6 address without brackets would lose its last part as a port.
    if host.is_empty() || !is_ip && host.contains([':', '[', ']', ' ']) {
        return Err(wrong());
    }
    if port == 0 {
        return Err(format!("'{text}' has port 0: daemons of other hosts have to know the port"));
    }
    let found = text.to_socket_addrs().map_err(|error| {
        format!("the host of '{text}' is unknown ({}): write its IP", one_line(&error.to_string()))
    })?;
    let address = found.into_iter().next();
    let address =
        address.ok_or_else(|| format!("the host of '{text}' has no address: write its IP"))?;
    if address.ip().is_unspecified() || address.ip().is_multicast() {
        return Err(format!("'{text}' is no address of one host: write that of an interface"));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
        assert_eq!(file.secret, Secret::of(b"0123456789abcdef"));
        assert_ne!(file.secret, Secret::of(b"0123456789abcdeF"));
        assert!(!format!("{file:?}").contains(&format!("{}", file.secret.0[0])), "{file:?}");
        assert!(file.path.is_absolute());
        let open = format!("name = \"lab\"\ncleartext = true\nsecret_file = \"s\"\n{NODES}");
        assert!(folder.read(&open).unwrap().cleartext);
    }

    #[test]
    fn neighbours_have_the_same_ip() {
        let third =
            "[[node]]\naddress = \"10.9.0.1:7401\"\n[[node]]\naddress = \"[fd00::1]:7400\"\n";
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
            (
                named("[[node]]\nadress = \"a\""),
                ":4: 'adress' is no key of a node; did you mean 'address'?",
            ),
            (named("\n[[node]]\n"), ":4: node 0 has no address"),
            (named("[[node]]\naddress = 3"), ":4: address is a text"),
            (
                named("[[node]]\naddress = \"10.9.0.1\""),
                ":4: '10.9.0.1' is no address: write IP:PORT",
            ),
            (named("[[node]]\naddress = \"10.9.0.1:x\""), ":4: '10.9.0.1:x' is no address"),
            (named("[[node]]\naddress = \"10.9.0.1:65536\""), ":4: '10.9.0.1:65536' is no address"),
            (named("[[node]]\naddress = \"fd00::1\""), ":4: 'fd00::1' is no address"),
            (named("[[node]]\naddress = \":7400\""), ":4: ':7400' is no address"),
            (named("[[node]]\naddress = \"10.9.0.1:0\""), ":4: '10.9.0.1:0' has port 0"),
            (
                named("[[node]]\naddress = \"0.0.0.0:7\""),
                ":4: '0.0.0.0:7' is no address of one host",
            ),
            // A name that is too long is refused without asking a name server.
            (
                named(&format!("[[node]]\naddress = \"{}:7\"", "x".repeat(300))),
                ":4: the host of 'xxx",
            ),
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
        assert!(without.starts_with(": it has no secret_file"), "{without}");
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
}
