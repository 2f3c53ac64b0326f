//! Requests of clients: queue pairs and buffers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rackmem_abi::MAX_WQ_SIZE;
use rackmem_rmc::{MAX_QPS, QpConfig};

use super::{Answer, Control, Refusal, held_up, refuse};
use crate::daemon::local::{Backing, MAX_BUFFERS};
use crate::daemon::session::{BufferRecord, Member, Memory, QpRecord, Role, Session};
use crate::daemon::worker::{Command, NewQp};
use crate::protocol::{BUFFER_NAME, PROTOCOL_VERSION, Progress, Request, Response};
use crate::shm::mapping::Mapping;
use crate::shm::queue::QueueMemory;
use crate::status::Work;
use crate::transport::Received;

/// Queue pairs of a member.
const MAX_QPS_PER_CLIENT: usize = 256;

/// Places of a member's memory: on average four for each buffer and queue pair that it may have.
const MAX_PLACES: usize = 1280;

const _: () = assert!(MAX_PLACES == 4 * (MAX_BUFFERS + MAX_QPS_PER_CLIENT));

/// Bytes of buffer memory of a member.
const MAX_BUFFER_BYTES: u64 = 1 << 40;

impl Control {
    /// Answers a client's request; `false` ends the connection.
    pub(super) fn answer(&mut self, id: u64, got: Received<Request>) -> bool {
        let mut fds = got.fds.into_iter();
        let result = match got.message {
            Request::Hello { version } => self.hello(id, version),
            Request::Open { ctx_id, segment_bytes, shared } => {
                self.open(id, ctx_id, segment_bytes, shared, fds.next())
            }
            Request::CreateQp { entries, progress } => self.create_qp(id, entries, progress),
            Request::DestroyQp { qp } => self.destroy_qp(id, qp),
            Request::CreateBuffer { size_bytes } => self.create_buffer(id, size_bytes),
            Request::DropBuffer { buffer } => self.drop_buffer(id, buffer),
            Request::PlaceBuffer { buffer, address } => {
                self.place(id, address, Memory::Buffer(buffer))
            }
            Request::PlaceQp { qp, address } => self.place(id, address, Memory::Qp(qp)),
            Request::PlaceSegment { address } => self.place(id, address, Memory::Segment),
            Request::Peer { nid } => self.peer_segment(id, nid),
            Request::Invite { nid } => self.invite(id, nid),
            Request::Close => self.close(id),
            Request::Status => {
                self.status().map(|status| (Response::Status(Box::new(status)), Vec::new()))
            }
            Request::StatusOf { nid } => match self.ask(id, nid) {
                Ok(()) => return true,
                Err(refusal) => Err(refusal),
            },
            Request::Link { version, nid } => return self.accept_link(id, version, nid, fds),
            Request::Linked
            | Request::Beat
            | Request::Ask
            | Request::Told(_)
            | Request::Admit(_)
            | Request::ContextUp { .. }
            | Request::ContextDown { .. } => {
                Err((libc::EPROTO, "only daemons with a link say this".to_owned()))
            }
        };
        let (response, fds) = result.unwrap_or_else(|refusal| (refused(refusal), Vec::new()));
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        self.sessions.get_mut(&id).is_some_and(|s| s.line.send(&response, &fds).is_ok())
    }

    pub(super) fn session(&mut self, id: u64) -> &mut Session {
        self.sessions.get_mut(&id).expect("sessions end after their last message")
    }

    pub(super) fn member(&mut self, id: u64) -> std::result::Result<&mut Member, Refusal> {
        match &mut self.session(id).role {
            Role::Member(member) => Ok(member),
            _ => Err((libc::ENOTCONN, "join a context first".to_owned())),
        }
    }

    pub(super) fn hello(&mut self, id: u64, version: u32) -> Answer {
        if version != PROTOCOL_VERSION {
            return Err((
                libc::EPROTO,
                format!(
                    "the program speaks version {version} of the protocol, the daemon version \
                     {PROTOCOL_VERSION}: rebuild the program or restart the rack"
                ),
            ));
        }
        if matches!(self.session(id).role, Role::Unknown) {
            self.session(id).role = Role::Client;
        }
        let over_hosts = self.is_over_hosts();
        Ok((Response::Welcome { nid: self.nid, nodes: self.nodes, over_hosts }, Vec::new()))
    }

    /// Gives the process of a session a bell of its own. Returns the descriptors for it.
    pub(super) fn add_bell(&mut self, id: u64) -> io::Result<[OwnedFd; 2]> {
        let bell = self.bell.add()?;
        let fds = bell.fds()?;
        self.session(id).bell = Some(bell);
        Ok(fds)
    }

    pub(super) fn create_qp(&mut self, id: u64, entries: u32, progress: Progress) -> Answer {
        let range = 2..=MAX_WQ_SIZE as u32;
        if !entries.is_power_of_two() || !range.contains(&entries) {
            let message = format!("{entries} entries: a power of two from 2 to {MAX_WQ_SIZE}");
            return Err((libc::EINVAL, message));
        }
        let nid = self.nid;
        let by_packets = self.goes_by_packets(progress);
        if by_packets && self.packet_qps() >= MAX_QPS {
            return Err((libc::ENOSPC, format!("node {nid} has {MAX_QPS} queue pairs by packets")));
        }
        let member = self.member(id)?;
        if member.qps.len() >= MAX_QPS_PER_CLIENT {
            let message = format!("a member has at most {MAX_QPS_PER_CLIENT} queue pairs");
            return Err((libc::ENOSPC, message));
        }
        let memory = QueueMemory::create(&format!("rackmem-qp-{nid}"))
            .map_err(refuse("cannot make the queues"))?;
        let memory = Arc::new(memory);
        let config = QpConfig { ctx_id: member.ctx_id, size: entries, rights: member.rights };
        let qp = member.qps_made;
        member.qps_made += 1;
        let client = member.id;
        let fd = clone_fd(memory.mapping())?;
        let counted = Work::default();
        let record = QpRecord { memory: memory.clone(), progress, entries, counted, places: 0 };
        member.qps.insert(qp, record);
        if by_packets || progress != Progress::Inline {
            let new = NewQp { client, memory, config, by_packets };
            self.worker.call(Command::AddQp(new)).map_err(held_up)?;
        }
        Ok((Response::Qp { qp }, vec![fd]))
    }

    /// Whether the controller serves queue pairs of this progress by packets. Where nodes are on other hosts it
    /// serves all of them so: inline progress posts what the program cannot do in their memory itself.
    fn goes_by_packets(&self, progress: Progress) -> bool {
        progress == Progress::Packet || self.is_over_hosts()
    }

    pub(super) fn packet_qps(&self) -> usize {
        let members = self.sessions.values().filter_map(|session| match &session.role {
            Role::Member(member) => Some(member),
            _ => None,
        });
        let qps = members.flat_map(|member| member.qps.values());
        qps.filter(|record| self.goes_by_packets(record.progress)).count()
    }

    pub(super) fn destroy_qp(&mut self, id: u64, qp: u32) -> Answer {
        let member = self.member(id)?;
        let mut record = member.qps.remove(&qp).ok_or_else(|| unknown("queue pair", qp))?;
        let remove = Command::RemoveQp(member.id, record.memory.clone());
        let removed = self.worker.call(remove);
        record.count(&mut self.total);
        removed.map_err(held_up)?;
        Ok((Response::Done, Vec::new()))
    }

    pub(super) fn create_buffer(&mut self, id: u64, size_bytes: u64) -> Answer {
        if size_bytes == 0 || size_bytes > MAX_BUFFER_BYTES {
            let message = format!("a buffer of {size_bytes} bytes: 1 to {MAX_BUFFER_BYTES}");
            return Err((libc::EINVAL, message));
        }
        let member = self.member(id)?;
        if member.buffers.len() >= MAX_BUFFERS {
            let message = format!("a member has at most {MAX_BUFFERS} buffers: make larger ones");
            return Err((libc::ENOSPC, message));
        }
        // All are mapped here, where addresses are scarcer than they seem.
        let there: u64 = member.buffers.values().map(|record| record.memory.len() as u64).sum();
        if there > MAX_BUFFER_BYTES - size_bytes {
            let message = format!("a member has at most {MAX_BUFFER_BYTES} bytes of buffers");
            return Err((libc::ENOSPC, message));
        }
        let mapping = Mapping::create(BUFFER_NAME, size_bytes as usize)
            .map_err(refuse("cannot make the buffer"))?;
        let fd = clone_fd(&mapping)?;
        let buffer = member.buffers_made;
        member.buffers_made += 1;
        let record = BufferRecord { memory: Arc::new(mapping), places: 0 };
        member.buffers.insert(buffer, record);
        Ok((Response::Buffer { buffer }, vec![fd]))
    }

    fn drop_buffer(&mut self, id: u64, buffer: u32) -> Answer {
        let member = self.member(id)?;
        let record = member.buffers.remove(&buffer).ok_or_else(|| unknown("buffer", buffer))?;
        let forget = Command::Forget(member.id, Backing::Buffer(record.memory));
        self.worker.call(forget).map_err(held_up)?;
        Ok((Response::Done, Vec::new()))
    }

    fn place(&mut self, id: u64, address: u64, memory: Memory) -> Answer {
        let member = self.member(id)?;
        let (client, taken) = (member.id, member.places());
        let (backing, places) = member.placeable(memory).ok_or_else(|| no_memory(memory))?;
        // Each place is a range to search, and the same memory may have several.
        if taken >= MAX_PLACES {
            return Err((libc::ENOSPC, "too much memory placed".to_owned()));
        }
        *places += 1;
        self.worker.call(Command::Place(client, address, backing)).map_err(held_up)?;
        Ok((Response::Done, Vec::new()))
    }
}

pub(super) fn refused((errno, message): Refusal) -> Response {
    Response::Error { errno, message }
}

fn unknown(what: &str, number: u32) -> Refusal {
    (libc::EINVAL, format!("this connection has no {what} {number}"))
}

fn no_memory(memory: Memory) -> Refusal {
    match memory {
        Memory::Buffer(number) => unknown("buffer", number),
        Memory::Qp(number) => unknown("queue pair", number),
        Memory::Segment => (libc::EACCES, "the segment of a reader is no local buffer".to_owned()),
    }
}

pub(super) fn clone_fd(mapping: &Mapping) -> std::result::Result<OwnedFd, Refusal> {
    mapping.fd().try_clone_to_owned().map_err(refuse("cannot hand over memory"))
}
