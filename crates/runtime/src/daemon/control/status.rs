//! The state that a daemon reports: its contexts, peers, queue pairs and counters.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{Control, Refusal, held_up};
use crate::daemon::session::{QpRecord, Role, Session};
use crate::daemon::worker::{COMMAND_TIMEOUT, Command, HeldUp};
use crate::shm::queue::Counters;
use crate::shm::queue::QueueMemory;
use crate::status::{ContextStatus, LinkPath, LinkState, LinkStatus, NodeStatus, QpStatus, Work};

/// Queue pairs that a status lists, so that it fits a message.
const MAX_STATUS_QPS: usize = 256;

/// Contexts that a status lists, likewise.
const MAX_STATUS_CONTEXTS: usize = 256;

/// Links that a status lists, likewise.
const MAX_STATUS_LINKS: usize = 64;

impl Control {
    pub(super) fn status(&mut self) -> std::result::Result<NodeStatus, Refusal> {
        let (reply, stats) = std::sync::mpsc::channel();
        self.worker.call(Command::Report(reply)).map_err(held_up)?;
        let stats = stats.recv_timeout(COMMAND_TIMEOUT).map_err(|_| held_up(HeldUp))?;
        self.count_all();
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
            total: self.total,
            served_packets: stats.served,
            served_bytes: stats.served_bytes,
            links: self.links(),
        })
    }

    /// Adds to the node's total what its queue pairs have done since the last time.
    fn count_all(&mut self) {
        for session in self.sessions.values_mut() {
            let Role::Member(member) = &mut session.role else { continue };
            for record in member.qps.values_mut() {
                record.count(&mut self.total);
            }
        }
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
        let Work { ops, bytes, errors } = work(&record.memory);
        QpStatus {
            pid,
            qp: *qp,
            ctx_id: member.ctx_id,
            progress: record.progress,
            entries: record.entries,
            ops,
            bytes,
            errors,
            outstanding: record.memory.counters().outstanding.load(Relaxed),
        }
    };
    member.qps.iter().map(status).collect()
}

/// Work of a queue pair since it was made, as its counters say. The application may have put any number there.
fn work(memory: &QueueMemory) -> Work {
    let (counters, inline) = (memory.counters(), memory.inline_counters());
    let sum = |of: fn(&Counters) -> &AtomicU64| {
        of(counters).load(Relaxed).wrapping_add(of(inline).load(Relaxed))
    };
    Work { ops: sum(|c| &c.ops), bytes: sum(|c| &c.bytes), errors: sum(|c| &c.errors) }
}

impl QpRecord {
    /// Adds to a total what the queue pair has done since the last time. Nothing is subtracted from a total, whatever
    /// the application has put into its counters.
    pub(super) fn count(&mut self, total: &mut Work) {
        let now = work(&self.memory);
        let before = std::mem::replace(&mut self.counted, now);
        let add = |total: &mut u64, now: u64, before: u64| {
            *total = total.saturating_add(now.saturating_sub(before));
        };
        add(&mut total.ops, now.ops, before.ops);
        add(&mut total.bytes, now.bytes, before.bytes);
        add(&mut total.errors, now.errors, before.errors);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::Progress;

    #[test]
    fn a_total_does_not_fall_whatever_an_application_writes() {
        let memory = Arc::new(QueueMemory::create("counted").unwrap());
        let counted = Work::default();
        let mut record = QpRecord {
            memory: memory.clone(),
            progress: Progress::Inline,
            entries: 2,
            counted,
            places: 0,
        };
        let mut total = Work { ops: 10, bytes: 20, errors: 30 };
        memory.inline_counters().count(true, 64);
        memory.counters().count(false, 64);
        record.count(&mut total);
        assert_eq!(total, Work { ops: 12, bytes: 84, errors: 31 });
        record.count(&mut total);
        assert_eq!(total, Work { ops: 12, bytes: 84, errors: 31 });
        memory.counters().ops.store(0, Relaxed);
        record.count(&mut total);
        assert_eq!(total.ops, 12);
        memory.counters().ops.store(u64::MAX - 1, Relaxed);
        record.count(&mut total);
        assert_eq!(total.ops, u64::MAX);
    }
}
