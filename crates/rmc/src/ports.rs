use rackmem_abi::{Header, Status};

use crate::{QpId, Sink, Source, Work};

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
    fn load(&mut self, qp: QpId, address: u64, out: Sink<'_>) -> Result<(), Status>;

    /// Copies into a local buffer of the application behind `qp`.
    ///
    /// # Errors
    /// [`Status::BadLocalBuffer`] unless all the bytes are memory that the controller may write.
    fn store(&mut self, qp: QpId, address: u64, bytes: Source<'_>) -> Result<(), Status>;

    /// Reads out of this node's segment of a context: within one block of the link's unit, each line of it at one time.
    ///
    /// This and the other segment accesses come with a checked context and range.
    fn read(&mut self, ctx_id: u16, offset: u64, out: Sink<'_>);

    /// Writes into this node's segment: within one block of the link's unit, each line of it at one time.
    fn write(&mut self, ctx_id: u16, offset: u64, bytes: Source<'_>);

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
/// never keep replies from being sent or received. A payload is written where the packet leaves and read where it has
/// come, so it is copied once on each side.
pub trait Network {
    /// Whether the node takes part. It must turn `false` before [`Rmc::fail_node`](crate::Rmc::fail_node) is
    /// called. Packets to a lost node are accepted and vanish.
    fn is_up(&self, nid: u16) -> bool;

    /// The unit of the link between this node and that one: most bytes of a segment that one packet covers. A power of
    /// two from a line to [`MAX_UNIT_BYTES`](rackmem_abi::MAX_UNIT_BYTES).
    fn unit_bytes(&self, nid: u16) -> usize;

    /// Whether the next request to this node will be accepted, with so many bytes of payload and of result.
    fn can_send_request(&self, dst_nid: u16, payload_bytes: usize, result_bytes: usize) -> bool;

    /// Sends a request, whose payload, if it has one, `load` puts in place. It succeeds whenever
    /// [`Network::can_send_request`] has just said so, and `load` does.
    ///
    /// # Errors
    /// [`Unsent`]: nothing was sent.
    fn send_request(
        &mut self,
        header: &Header,
        load: impl FnOnce(Sink<'_>) -> Result<(), Status>,
    ) -> Result<(), Unsent>;

    /// Whether the next reply to this node will be accepted, with so many bytes of payload.
    fn can_send_reply(&self, dst_nid: u16, payload_bytes: usize) -> bool;

    /// Sends a reply, whose payload, if it has one, `fill` puts in place. It succeeds whenever
    /// [`Network::can_send_reply`] has just said so.
    ///
    /// # Errors
    /// [`Full`]: nothing was sent.
    fn send_reply(
        &mut self,
        header: &Header,
        status: Status,
        fill: impl FnOnce(Sink<'_>),
    ) -> Result<(), Full>;

    /// The header of the next request for this node, which stays where it is until [`Network::take_request`]. It is
    /// well formed on its link.
    ///
    /// With a lane per source, prefer a source to which the reply can be sent: the RRPP waits if the
    /// reply lane to this source is full.
    fn peek_request(&mut self) -> Option<Header>;

    /// The payload of the request that [`Network::peek_request`] has named.
    fn operands(&self) -> Source<'_>;

    /// Takes the request that [`Network::peek_request`] has named off its lane.
    fn take_request(&mut self);

    /// The next reply for this node: its header, which is well formed on its link, and status.
    fn recv_reply(&mut self) -> Option<(Header, Status)>;

    /// The payload of the last reply, until the next is received.
    fn result(&self) -> Source<'_>;
}

/// The lane has no room now: a value to act on, not a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Full;

/// Reasons why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsent {
    /// The lane has no room now.
    Full,
    /// Its payload could not be loaded.
    Unloaded(Status),
}
