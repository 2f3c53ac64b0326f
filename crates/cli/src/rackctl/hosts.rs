//! This host's part of a rack over several hosts: some of its nodes, in one directory.

use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};

use rackmem::control;
use rackmem::rack::{Description, Rack};
use rackmem::rack_file::RackFile;
use rackmem::status::NodeStatus;

use super::{Plan, State, Stopped, all_locks, start, state, stop_nodes, wait_for_turn};
use crate::console::{nodes as nodes_text, remark};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// Time that nodes of different hosts have to find each other, and that between two looks.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);
const LINK_PAUSE: Duration = Duration::from_millis(20);

/// Result of [`up`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Up {
    /// Nodes that this call has started.
    pub started: Vec<u16>,
    /// Nodes that they have no link to yet.
    pub awaited: Vec<u16>,
}

/// Starts nodes of this host, those in `wanted` or else all that are not up, and waits until they answer and those of
/// them that are neighbours are linked. `plan` has the settings of the daemons.
///
/// # Errors
/// A node is up already or is not of this host, or one does not come up; then none of them stays behind.
pub fn up(
    rack: &Rack,
    file: &RackFile,
    wanted: &[u16],
    plan: Plan,
    interrupt: &Interrupt,
) -> Result<Up> {
    let _turn = wait_for_turn()?;
    let alive = match state(rack)? {
        State::Absent => None,
        State::Dead => {
            rack.remove()?;
            remark(&format!("removed what a dead rack '{}' had left", rack.name()));
            None
        }
        State::Up(alive) => {
            check_same(rack, file, &alive)?;
            Some(alive)
        }
    };
    let up = alive.as_deref().unwrap_or_default();
    let nids = match wanted.is_empty() {
        true => local_nodes(file, up)?,
        false => checked(file, wanted, up)?,
    };
    check_keys(file, &nids)?;
    let share_core = nids.len() + up.len() > crate::placement::cores().len();
    let plan = Plan { nids, share_core, rack_file: Some(file.clone()), ..plan };
    start(rack, &plan, alive.is_some(), interrupt)?;
    let awaited = awaited(rack, file, &plan.nids);
    Ok(Up { started: plan.nids, awaited })
}

/// Each node that daemons of other hosts have to know can prove that it is the one.
fn check_keys(file: &RackFile, nids: &[u16]) -> Result<()> {
    for &nid in nids {
        if (0..file.node_count()).any(|other| !file.is_neighbour(nid, other)) {
            file.credentials(nid)?;
        }
    }
    Ok(())
}

/// The other `rackmem up` of this rack has to have read the same file.
fn check_same(rack: &Rack, file: &RackFile, alive: &[u16]) -> Result<()> {
    if rack.is_made_from(file) {
        return Ok(());
    }
    let (name, path) = (rack.name(), file.path.display());
    Err(Failure::new(match rack.describe()?.rack_file {
        None => format!(
            "rack '{name}' is up already, without a rack file: stop it with `rackmem --rack {name} down` first"
        ),
        Some(_) => format!(
            "rack '{name}' is up already ({}), from a rack file with another text than {path} has now: stop it \
             with `rackmem --rack {name} down` first",
            nodes_text(alive)
        ),
    }))
}

/// The nodes whose addresses this host has, without those that are up.
fn local_nodes(file: &RackFile, alive: &[u16]) -> Result<Vec<u16>> {
    let is_local = locality(file);
    let local: Vec<u16> =
        (0..file.node_count()).filter(|nid| is_local[usize::from(*nid)]).collect();
    if local.is_empty() {
        return Err(Failure::new(format!(
            "no node of {} has an address of this host; `rackmem up --rack-file {0} --hosts` starts those of \
             others",
            file.path.display()
        )));
    }
    let missing: Vec<u16> = local.iter().copied().filter(|nid| !alive.contains(nid)).collect();
    match missing.is_empty() {
        true => Err(are_up(file, &local)),
        false => Ok(missing),
    }
}

fn are_up(file: &RackFile, nids: &[u16]) -> Failure {
    let is = if nids.len() == 1 { "is" } else { "are" };
    Failure::new(format!("{} of rack '{}' {is} up already", nodes_text(nids), file.name))
}

/// Nodes that were named: each once, of this host, and not up.
fn checked(file: &RackFile, wanted: &[u16], alive: &[u16]) -> Result<Vec<u16>> {
    let nids = sorted(file, wanted)?;
    let up: Vec<u16> = nids.iter().copied().filter(|nid| alive.contains(nid)).collect();
    if !up.is_empty() {
        return Err(are_up(file, &up));
    }
    for &nid in &nids {
        let address = file.nodes[usize::from(nid)].address;
        if !is_of_this_host(address.ip()) {
            return Err(Failure::new(format!(
                "node {nid} of rack '{}' has the address {address}, which is not of this host",
                file.name
            )));
        }
    }
    Ok(nids)
}

/// Nodes that were named, each once.
fn sorted(file: &RackFile, wanted: &[u16]) -> Result<Vec<u16>> {
    let mut nids = wanted.to_vec();
    nids.sort_unstable();
    nids.dedup();
    match nids.last() {
        Some(nid) if *nid >= file.node_count() => {
            let (name, last) = (&file.name, file.node_count() - 1);
            Err(Failure::new(format!("rack '{name}' has no node {nid}: its nodes are 0 to {last}")))
        }
        _ => Ok(nids),
    }
}

/// Whether each node's address is of this host; each IP is tried once.
fn locality(file: &RackFile) -> Vec<bool> {
    let mut known = std::collections::HashMap::new();
    let ips = file.nodes.iter().map(|node| node.address.ip());
    ips.map(|ip| *known.entry(ip).or_insert_with(|| is_of_this_host(ip))).collect()
}

/// Whether an interface of this host has the address: only such a one can be bound.
fn is_of_this_host(ip: IpAddr) -> bool {
    TcpListener::bind((ip, 0)).is_ok()
}

/// Nodes that none of these has a link to.
fn awaited(rack: &Rack, file: &RackFile, started: &[u16]) -> Vec<u16> {
    let linked: std::collections::HashSet<u16> = control::status_of(rack, started, started)
        .into_iter()
        .flatten()
        .flat_map(|node| node.peers_up)
        .chain(started.iter().copied())
        .collect();
    (0..file.node_count()).filter(|nid| !linked.contains(nid)).collect()
}

/// Waits a while until all nodes of a rack have links to each other, as far as those of this host can tell. Returns
/// those that have not.
///
/// # Errors
/// The rack's directory cannot be read, or the command was interrupted.
pub fn wait_linked(rack: &Rack, file: &RackFile, interrupt: &Interrupt) -> Result<Vec<u16>> {
    let State::Up(here) = state(rack)? else { return Ok(Vec::new()) };
    let all: Vec<u16> = (0..file.node_count()).collect();
    let deadline = Instant::now() + LINK_TIMEOUT;
    loop {
        let answers = control::status_of(rack, &here, &all);
        let is_linked = |status: &rackmem::Result<NodeStatus>| {
            status.as_ref().is_ok_and(|status| status.peers_up.len() + 1 == all.len())
        };
        let alone = all.iter().zip(&answers).filter(|(_, status)| !is_linked(status));
        let alone: Vec<u16> = alone.map(|(nid, _)| *nid).collect();
        if alone.is_empty() || Instant::now() > deadline {
            return Ok(alone);
        }
        interrupt.sleep(LINK_PAUSE)?;
    }
}

/// Stops nodes of this host: those in `wanted`. The directory goes with the last one.
///
/// # Errors
/// One of them is not up, or cannot be stopped.
pub fn down(rack: &Rack, file: &RackFile, wanted: &[u16]) -> Result<Stopped> {
    let _turn = wait_for_turn()?;
    let nids = sorted(file, wanted)?;
    let alive = match state(rack)? {
        State::Up(alive) => alive,
        _ => Vec::new(),
    };
    if let Some(nid) = nids.iter().find(|nid| !alive.contains(nid)) {
        return Err(Failure::new(format!(
            "node {nid} of rack '{}' is not up on this host: there is nothing to stop",
            file.name
        )));
    }
    let stopped = stop_nodes(rack, &nids)?;
    match state(rack)? {
        State::Up(_) => nids.iter().for_each(|nid| {
            for path in [rack.lock_path(*nid), rack.socket_path(*nid), rack.log_path(*nid)] {
                let _ = std::fs::remove_file(path);
            }
        }),
        _ => rack.remove()?,
    }
    Ok(stopped)
}

/// Nodes of a rack that this host is to know about: all, or with a rack file those that were started here.
///
/// # Errors
/// The rack's directory cannot be read.
pub fn nodes_here(rack: &Rack, description: &Description) -> Result<Vec<u16>> {
    match description.rack_file {
        None => Ok((0..description.nodes).collect()),
        Some(_) => all_locks(rack.dir()).map_err(|error| {
            Failure::io(format_args!("cannot read {}", rack.dir().display()), error)
        }),
    }
}
