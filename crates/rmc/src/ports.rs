use rackmem_abi::{Reply, Request, Status};

use crate::{QpId, Work};

/// The pipelines' port to the memory hierarchy of their node (soNUMA §4.3): queues and local
/// buffers of the node's applications, and the context segments that other nodes access.
pub trait Memory {
    /// The work queue entry at `slot`.
    ///
    /// Word 0 must be loaded first and with acquire order: it publishes word 1.
    fn wq_words(&self, qp: QpId, slot: u32) -> [u64; 2];

    /// Writes the completion queue entry at `position`, with release order: it publishes the data
    /// that was stored before.
    fn put_cq(&mut self, qp: QpId, position: u32, word: u32);

    /// Whether a whole transfer can be done, as far as this node knows: the size of the destination's
    /// segment, and the local buffer. It is called once, before the first line is sent, so that a
    /// transfer that is refused changes nothing. A node that knows neither leaves it to the checks of
    /// each line.
    ///
    /// # Errors
    /// The status with which the transfer completes.
    fn check(&mut self, qp: QpId, work: &Work) -> Result<(), Status> {
        let _ = (qp, work);
        Ok(())
    }

    /// Copies out of a local buffer of the application behind `qp`.
    ///
    /// # Errors
    /// [`Status::BadLocalBuffer`] unless all the bytes are memory that the controller may read.
    fn load(&mut self, qp: QpId, address: u64, out: &mut [u8]) -> Result<(), Status>;

    /// Copies into a local buffer of the application behind `qp`.
    ///
    /// # Errors
    /// [`Status::BadLocalBuffer`] unless all the bytes are memory that the controller may write.
    fn store(&mut self, qp: QpId, address: u64, bytes: &[u8]) -> Result<(), Status>;

    /// Reads at most a line, within one line, out of this node's segment of a context.
    ///
    /// This and the other segment accesses come with a checked context and range.
    fn read(&mut self, ctx_id: u16, offset: u64, out: &mut [u8]);

    /// Writes at most a line, within one line, into this node's segment.
    fn write(&mut self, ctx_id: u16, offset: u64, bytes: &[u8]);

    /// Adds to the 8 bytes at `offset`, atomically, and returns the old value.
    fn fetch_add(&mut self, ctx_id: u16, offset: u64, addend: u64) -> u64;

    /// Replaces the 8 bytes at `offset` if they equal `expected`, atomically, and returns the old
    /// value.
    fn compare_swap(&mut self, ctx_id: u16, offset: u64, expected: u64, desired: u64) -> u64;

    /// Wakes the waiters for notifications of the context on this node.
    fn notify(&mut self, ctx_id: u16);
}

/// The node's port to the fabric: a request lane and a reply lane (soNUMA §6, link layer).
///
/// The fabric is reliable and gives no order. The lanes are independent: a full request lane must
/// never keep replies from being sent or received.
pub trait Network {
    /// Whether the node takes part. It must turn `false` before [`Rmc::fail_node`](crate::Rmc::fail_node) is
    /// called. Packets to a lost node are accepted and vanish.
    fn is_up(&self, nid: u16) -> bool;

    /// Whether the next request to this node will be accepted.
    fn can_send_request(&self, dst_nid: u16) -> bool;

    /// Sends a request; succeeds whenever [`Network::can_send_request`] has just said so.
    ///
    /// # Errors
    /// [`Full`]: nothing was sent.
    fn try_send_request(&mut self, request: &Request) -> Result<(), Full>;

    /// Whether the next reply to this node will be accepted.
    fn can_send_reply(&self, dst_nid: u16) -> bool;

    /// Sends a reply; succeeds whenever [`Network::can_send_reply`] has just said so.
    ///
    /// # Errors
    /// [`Full`]: nothing was sent.
    fn try_send_reply(&mut self, reply: &Reply) -> Result<(), Full>;

    /// The `src_nid` of the request that [`Network::recv_request`] would return now.
    ///
    /// With a lane per source, prefer a source to which a reply can be sent: the RRPP waits if the
    /// reply lane to this source is full.
    fn peek_request(&mut self) -> Option<u16>;

    /// The next request for this node.
    fn recv_request(&mut self) -> Option<Request>;

    /// The next reply for this node.
    fn recv_reply(&mut self) -> Option<Reply>;
}

/// The lane has no room now: a value to act on, not a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Full;
