//! The state that a daemon reports: its contexts, peers, queue pairs and counters.

use super::{Control, Refusal, held_up};
use crate::daemon::session::{QpRecord, Role, Session};
use crate::daemon::worker::{COMMAND_TIMEOUT, Command};
use crate::status::{ContextStatus, NodeStatus, QpStatus};

/// Queue pairs that a status lists, so that it fits a message.
const MAX_STATUS_QPS: usize = 256;

/// Contexts that a status lists, likewise.
const MAX_STATUS_CONTEXTS: usize = 256;

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
        })
    }
}

fn qp_statuses(session: &Session) -> Vec<QpStatus> {
    let Role::Member(member) = &session.role else { return Vec::new() };
    let pid = session.pid.as_raw_nonzero().get() as u32;
    let status = |(qp, record): (&u32, &QpRecord)| {
        use std::sync::atomic::Ordering::Relaxed;
        let counters = record.memory.counters();
        QpStatus {
            pid,
            qp: *qp,
            ctx_id: member.ctx_id,
            progress: record.progress,
            entries: record.entries,
            ops: counters.ops.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            errors: counters.errors.load(Relaxed),
            outstanding: counters.outstanding.load(Relaxed),
        }
    };
    member.qps.iter().map(status).collect()
}
