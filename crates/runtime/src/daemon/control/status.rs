//! The state that a daemon reports: its contexts, peers, queue pairs and counters.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{Control, Refusal, held_up};
use crate::daemon::session::{QpRecord, Role, Session};
use crate::daemon::worker::{COMMAND_TIMEOUT, Command};
use crate::shm::queue::Counters;
use crate::status::{ContextStatus, LinkPath, LinkState, LinkStatus, NodeStatus, QpStatus};

/// Queue pairs that a status lists, so that it fits a message.
const MAX_STATUS_QPS: usize = 256;

/// Contexts that a status lists, likewise.
const MAX_STATUS_CONTEXTS: usize = 256;

/// Links that a status lists, likewise.
const MAX_STATUS_LINKS: usize = 64;

impl Control {
    pub(super) fn status(&self) -> std::result::Result<NodeStatus, Refusal> {
        let (reply, stats) = std::sync::mpsc::channel();
        self.worker.call(Command::Report(reply)).map_err(held_up)?;
        let stats = stats.recv_timeout(COMMAND_TIMEOUT).unwrap_or_default();
        let contexts = self.contexts.iter().map(|(ctx_id, context)| ContextStatus {
            ctx_id: *ctx_id,
            segment_bytes: context.segment.size_bytes(),
            clients: context.members,
        });
        Ok(NodeStatus {
            nid: self.nid,
            nodes: self.nodes,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            peers_up: self.peers.keys().copied().collect(),
            contexts: contexts.take(MAX_STATUS_CONTEXTS).collect(),
            qps: self.sessions.values().flat_map(qp_statuses).take(MAX_STATUS_QPS).collect(),
            served_packets: stats.served,
            served_bytes: stats.served_bytes,
            links: self.links(),
        })
    }

    /// Links to the other nodes; those that are down come first if there are too many.
    fn links(&self) -> Vec<LinkStatus> {
        let (up, down): (Vec<u16>, Vec<u16>) = (0..self.nodes)
            .filter(|nid| *nid != self.nid)
            .partition(|nid| self.peers.contains_key(nid));
        let mut nids: Vec<u16> = down.into_iter().chain(up).take(MAX_STATUS_LINKS).collect();
        nids.sort_unstable();
        let far = |nid| self.far.as_ref().and_then(|far| far.status(nid));
        nids.into_iter().map(|nid| far(nid).unwrap_or_else(|| self.shared_link(nid))).collect()
    }

    /// The link to a node by shared memory. Nobody measures its round trip, nor when it changed: the daemon's start
    /// is the earliest moment.
    fn shared_link(&self, nid: u16) -> LinkStatus {
        let is_up = self.peers.contains_key(&nid);
        LinkStatus {
            nid,
            path: LinkPath::Shm,
            path_why: String::new(),
            address: self.rack.socket_path(nid).display().to_string(),
            state: if is_up { LinkState::Up } else { LinkState::Down },
            why: if is_up { String::new() } else { "its daemon has not linked".to_owned() },
            sealed: false,
            proof: None,
            rights: Vec::new(),
            version: String::new(),
            round_trip_us: None,
            since_ms: self.started.elapsed().as_millis() as u64,
            calls: 0,
            guests: 0,
        }
    }
}

fn qp_statuses(session: &Session) -> Vec<QpStatus> {
    let Role::Member(member) = &session.role else { return Vec::new() };
    let Some(process) = session.process else { return Vec::new() };
    let pid = process.pid.as_raw_nonzero().get() as u32;
    let status = |(qp, record): (&u32, &QpRecord)| {
        let (counters, inline) = (record.memory.counters(), record.memory.inline_counters());
        // The application may have put any number there.
        let sum = |of: fn(&Counters) -> &AtomicU64| {
            of(counters).load(Relaxed).wrapping_add(of(inline).load(Relaxed))
        };
        QpStatus {
            pid,
            qp: *qp,
            ctx_id: member.ctx_id,
            progress: record.progress,
            entries: record.entries,
            ops: sum(|c| &c.ops),
            bytes: sum(|c| &c.bytes),
            errors: sum(|c| &c.errors),
            outstanding: counters.outstanding.load(Relaxed),
        }
    };
    member.qps.iter().map(status).collect()
}
