//! The `[[node]]` tables of the file.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};

use rackmem_abi::MAX_NODES;
use rackmem_fabric::keys::PublicKey;
use rackmem_fabric::rights::{Right, Rights};
use toml::Spanned;
use toml::de::DeValue;

use super::NodeEntry;
use super::text::{Keys, Text, hint, one_line};
use crate::error::Result;
use crate::size;

/// Keys below each `[[node]]`. Others are refused.
const NODE_KEYS: [&str; 4] = ["address", "key", "rights", "max_borrowed"];

const EXAMPLE: &str = "`[[node]]` and below it `address = \"10.9.0.1:7400\"`";

/// The nodes of the file: at least one, at most [`MAX_NODES`], no address or key twice.
pub(super) fn nodes(text: &Text<'_>, table: &Keys<'_>) -> Result<Vec<NodeEntry>> {
    let example = EXAMPLE;
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
    let (mut nodes, mut addresses, mut keys) = (Vec::new(), HashMap::new(), HashMap::new());
    for (nid, entry) in entries.iter().enumerate() {
        let DeValue::Table(found) = entry.get_ref() else {
            return Err(text.refuse(entry.span(), format!("node is a table: write {EXAMPLE}")));
        };
        let table = Keys { text, table: found };
        table.check(&NODE_KEYS, "of a node")?;
        let Some(written) = table.text("address", "address = \"10.9.0.1:7400\"")? else {
            let message = format!("node {nid} has no address: write {EXAMPLE}");
            return Err(text.refuse(entry.span(), message));
        };
        let refuse = |message| text.refuse(written.span(), message);
        let address = resolve(written.get_ref()).map_err(refuse)?;
        if let Some(other) = addresses.insert(address, nid) {
            return Err(refuse(format!("nodes {other} and {nid} have the same address {address}")));
        }
        let key = key(text, &table)?;
        if let Some(key) = &key
            && let Some((other, line)) = keys.insert(*key.get_ref(), (nid, text.line(&key.span())))
        {
            let message = format!(
                "nodes {other} (line {line}) and {nid} have the same key: make each node a key of its own by \
                 `rackmem key new FILE`"
            );
            return Err(text.refuse(key.span(), message));
        }
        let rights = rights(text, &table, key.is_some())?;
        let max_borrowed_bytes = max_borrowed(text, &table, key.is_some())?;
        let key = key.map(Spanned::into_inner);
        nodes.push(NodeEntry { address, key, rights, max_borrowed_bytes });
    }
    check_keys(text, entries, &nodes)?;
    Ok(nodes)
}

/// All nodes have keys, or none.
fn check_keys(
    text: &Text<'_>,
    entries: &[Spanned<DeValue<'_>>],
    nodes: &[NodeEntry],
) -> Result<()> {
    let without: Vec<usize> = (0..nodes.len()).filter(|nid| nodes[*nid].key.is_none()).collect();
    let Some(first) = without.first().filter(|_| without.len() < nodes.len()) else {
        return Ok(());
    };
    let list: Vec<String> = without.iter().map(usize::to_string).collect();
    let (are, have) = if list.len() == 1 { ("node", "has") } else { ("nodes", "have") };
    let message = format!(
        "{are} {} {have} no key, and others have one: write `key = \"rackmem-key:...\"` for each node, or for none",
        list.join(", ")
    );
    Err(text.refuse(entries[*first].span(), message))
}

fn key(text: &Text<'_>, table: &Keys<'_>) -> Result<Option<Spanned<PublicKey>>> {
    let Some(written) = table.text("key", "key = \"rackmem-key:...\"")? else { return Ok(None) };
    let key = written.get_ref().parse().map_err(|error| {
        text.refuse(written.span(), format!("the key is not that of a node: {error}"))
    })?;
    Ok(Some(Spanned::new(written.span(), key)))
}

/// The bound on what a node may borrow, in bytes.
fn max_borrowed(text: &Text<'_>, table: &Keys<'_>, has_key: bool) -> Result<Option<u64>> {
    let example = "max_borrowed = \"16G\"";
    let Some(written) = table.text("max_borrowed", example)? else { return Ok(None) };
    if !has_key {
        let message = "max_borrowed needs keys: write `key = \"rackmem-key:...\"` for each node, for whoever knows a \
                       secret can pass for any node";
        return Err(text.refuse(written.span(), message));
    }
    let wrong = |why| format!("'{}' is no size ({why}): write `{example}`", written.get_ref());
    let bytes =
        size::parse(written.get_ref()).map_err(|why| text.refuse(written.span(), wrong(why)));
    bytes.map(Some)
}

/// The rights of a node: all, unless they are listed.
fn rights(text: &Text<'_>, table: &Keys<'_>, has_key: bool) -> Result<Rights> {
    let Some(value) = table.get("rights") else { return Ok(Rights::ALL) };
    if !has_key {
        let message = "rights need keys: write `key = \"rackmem-key:...\"` for each node, for whoever knows a secret \
                       can pass for any node";
        return Err(text.refuse(value.span(), message));
    }
    let example = "write `rights = [\"context\", \"borrow\"]`";
    let DeValue::Array(written) = value.get_ref() else {
        return Err(text.refuse(value.span(), format!("rights is a list: {example}")));
    };
    let right = |value: &Spanned<DeValue<'_>>| {
        let DeValue::String(name) = value.get_ref() else {
            return Err(text.refuse(value.span(), format!("a right is a text: {example}")));
        };
        Right::named(name).ok_or_else(|| {
            let hint = hint(name, &Right::NAMES, "which are");
            text.refuse(value.span(), format!("'{name}' is none of the rights{hint}"))
        })
    };
    written.iter().map(right).collect()
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
