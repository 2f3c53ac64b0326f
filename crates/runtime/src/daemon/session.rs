//! Control's state of a connection: the role of the process, its queue pairs and buffers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_rmc::Rights;
use rustix::net::UCred;

use super::line::Line;
use super::local::Backing;
use super::worker::ClientId;
use crate::protocol::Progress;
use crate::shm::bell::AddedBell;
use crate::shm::line_lock::Owner;
use crate::shm::mapping::Mapping;
use crate::shm::queue::QueueMemory;
use crate::shm::segment::Segment;
use crate::status::Work;

/// A queue pair of a client.
#[derive(Debug)]
pub struct QpRecord {
    /// Shared memory of its queues, counters and operands.
    pub memory: Arc<QueueMemory>,
    /// The way by which its operations progress.
    pub progress: Progress,
    /// Entries of each queue: a power of two from 2 to [`rackmem_abi::MAX_WQ_SIZE`].
    pub entries: u32,
    /// What has been added to the node's total.
    pub counted: Work,
    /// Addresses at which its operands have been placed.
    pub places: usize,
}

/// A buffer of a client.
#[derive(Debug)]
pub struct BufferRecord {
    /// Shared with the client, which cannot change its size.
    pub memory: Arc<Mapping>,
    /// Addresses at which the client has placed it.
    pub places: usize,
}

/// Memory of a member that can be a local buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The buffer of this number.
    Buffer(u32),
    /// The operands of the queue pair of this number.
    Qp(u32),
    /// The node's segment.
    Segment,
}

/// A client's membership in a context.
#[derive(Debug)]
pub struct Member {
    /// Its number at the worker, and in the owner.
    pub id: ClientId,
    /// Its mark in line locks.
    pub owner: Owner,
    /// The context.
    pub ctx_id: u16,
    /// Number that distinguishes the context from others that had the same `ctx_id`: see
    /// [`crate::rack::Rack::incarnation`].
    pub incarnation: u64,
    /// The operations that it may issue.
    pub rights: Rights,
    /// Whether it lets other processes be this node, too.
    pub shared: bool,
    /// This node's segment.
    pub segment: Arc<Segment>,
    /// Its queue pairs, by number.
    pub qps: BTreeMap<u32, QpRecord>,
    /// Its buffers, by number.
    pub buffers: BTreeMap<u32, BufferRecord>,
    /// Queue pairs made so far: the next one's number.
    pub qps_made: u32,
    /// Buffers made so far, likewise.
    pub buffers_made: u32,
    /// Addresses at which the segment has been placed.
    pub segment_places: usize,
    /// Invitations of other hosts that it may still ask for.
    pub invitations: Allowance,
}

impl Member {
    /// Memory of this name and the count of its places, if there is such.
    pub fn placeable(&mut self, memory: Memory) -> Option<(Backing, &mut usize)> {
        match memory {
            Memory::Buffer(number) => {
                let record = self.buffers.get_mut(&number)?;
                Some((Backing::Buffer(record.memory.clone()), &mut record.places))
            }
            Memory::Qp(number) => {
                let record = self.qps.get_mut(&number)?;
                Some((Backing::Queue(record.memory.clone()), &mut record.places))
            }
            // It must not become the destination of a reader's operations.
            Memory::Segment if self.rights == Rights::ReadOnly => None,
            Memory::Segment => {
                Some((Backing::Segment(self.segment.clone()), &mut self.segment_places))
            }
        }
    }

    /// Addresses at which its memory has been placed, in all.
    pub fn places(&self) -> usize {
        let of_buffers: usize = self.buffers.values().map(|record| record.places).sum();
        let of_qps: usize = self.qps.values().map(|record| record.places).sum();
        self.segment_places + of_buffers + of_qps
    }
}

/// A number of calls that is used up and grows again.
#[derive(Debug)]
pub struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    const MAX: u32 = 256;
    const GROWTH: Duration = Duration::from_millis(10);

    /// Uses one; `false`: none is left now.
    pub fn take(&mut self) -> bool {
        let grown = (self.since.elapsed().as_millis() / Self::GROWTH.as_millis()) as u32;
        if grown > 0 {
            self.left = self.left.saturating_add(grown).min(Self::MAX);
            self.since = Instant::now();
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: Self::MAX, since: Instant::now() }
    }
}

/// The process at the other end of a connection.
#[derive(Debug)]
pub enum Role {
    /// Neither client nor peer: no message has shown its role yet.
    Unknown,
    /// A client that has not joined a context.
    Client,
    /// A member of a context.
    Member(Box<Member>),
    /// We have asked the daemon of this node for a link with this memory.
    Linking(u16, Arc<Mapping>),
    /// The daemon of this node, with a link.
    Peer(u16),
    /// The daemon of this node of another host, whose connection for packets has not come yet.
    Meeting(u16),
}

/// A connection.
#[derive(Debug)]
pub struct Session {
    /// Its socket.
    pub line: Line,
    /// Process and user at the other end, if it is one of this host.
    pub process: Option<UCred>,
    /// State of the process as client or peer.
    pub role: Role,
    /// The bell by which the process wakes the worker, once it has proved a right.
    pub bell: Option<AddedBell>,
    /// Whether the client took its leave.
    pub closed: bool,
}
