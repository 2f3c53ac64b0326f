//! Callbacks of UCX: messages that come, messages that have left, the end of the peer.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;

use super::MAX_MESSAGE_BYTES;
use super::sys::{self, OnDone, Posted, ReceiveParam, RequestParam, Status, Ucp};

/// Bytes of messages that have overtaken others, or are on their way by rendezvous.
const MAX_EARLY_BYTES: usize = 4 * MAX_MESSAGE_BYTES;

/// Buffers of sent messages that are kept for others.
const MAX_SPARE: usize = 4;

/// Bytes in front of a message: its number.
pub(super) const NUMBER_BYTES: usize = 8;

/// The state that callbacks change.
pub(super) struct Inbox {
    ucp: Ucp,
    worker: *mut c_void,
    /// Bytes that have come, in their order, and were not taken.
    pub(super) input: Vec<u8>,
    /// Number of the message whose turn it is.
    next: u64,
    /// Messages that have overtaken it.
    early: BTreeMap<u64, Vec<u8>>,
    /// Bytes of these, and of messages whose data are on their way.
    early_bytes: usize,
    /// Messages on their way, in both directions.
    pub(super) pending: usize,
    /// Bytes of messages that have not left.
    pub(super) leaving_bytes: usize,
    /// Empty buffers.
    pub(super) spare: Vec<Vec<u8>>,
    /// Why the link has to end.
    pub(super) failed: Option<String>,
}

/// A message on its way, which UCX names in its callback.
pub(super) struct Message {
    inbox: *mut Inbox,
    number: [u8; NUMBER_BYTES],
    bytes: Vec<u8>,
}

impl Inbox {
    pub(super) fn new(ucp: Ucp, worker: *mut c_void) -> Inbox {
        Inbox {
            ucp,
            worker,
            input: Vec::new(),
            next: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            pending: 0,
            leaving_bytes: 0,
            spare: Vec::new(),
            failed: None,
        }
    }

    fn fail(&mut self, why: impl Into<String>) {
        self.failed.get_or_insert(why.into());
    }

    /// Takes in a message that has wholly come.
    pub(super) fn deliver(&mut self, number: u64, bytes: &[u8]) {
        if number != self.next {
            self.early_bytes += bytes.len();
            self.early.insert(number, bytes.to_vec());
            return;
        }
        self.input.extend_from_slice(bytes);
        self.next += 1;
        while let Some(bytes) = self.early.remove(&self.next) {
            self.early_bytes -= bytes.len();
            self.input.extend_from_slice(&bytes);
            self.next += 1;
        }
    }

    /// Whether a message with this number and length may come.
    pub(super) fn may_come(&self, number: u64, length: usize) -> bool {
        number >= self.next
            && !self.early.contains_key(&number)
            && length <= MAX_MESSAGE_BYTES
            && self.early_bytes + length <= MAX_EARLY_BYTES
    }

    /// Fetches a message whose data have not come with it.
    fn fetch(&mut self, number: u64, descriptor: *mut c_void, length: usize) {
        let bytes = Vec::with_capacity(length);
        let message = Box::new(Message { inbox: self, number: number.to_le_bytes(), bytes });
        let message = Box::into_raw(message);
        let param = request(OnDone { received: on_fetched }, message);
        // SAFETY: the room stays where it is until the callback, or the next lines, free it.
        let room = unsafe { (*message).bytes.as_mut_ptr() };
        let fetch = self.ucp.ucp_am_recv_data_nbx;
        // Before the call, in which the callback may run.
        self.early_bytes += length;
        self.pending += 1;
        // SAFETY: the descriptor is that of the message whose callback runs; there is so much room.
        let posted =
            Posted::of(unsafe { fetch(self.worker, descriptor, room.cast(), length, &param) });
        if let Posted::Pending = posted {
            return;
        }
        self.early_bytes -= length;
        self.pending -= 1;
        // SAFETY: UCX does not have it.
        let mut message = unsafe { Box::from_raw(message) };
        match posted {
            Posted::Failed(status) => self.fail(self.ucp.text(status)),
            _ => {
                // SAFETY: all bytes have come.
                unsafe { message.bytes.set_len(length) };
                self.deliver(number, &message.bytes);
            }
        }
    }
}

/// Sends a message. Returns whether UCX has it.
pub(super) fn send(inbox: *mut Inbox, endpoint: *mut c_void, number: u64, bytes: Vec<u8>) {
    let length = bytes.len();
    let message = Box::into_raw(Box::new(Message { inbox, number: number.to_le_bytes(), bytes }));
    let param = request(OnDone { sent: on_sent }, message);
    // SAFETY: no call of UCX is under way.
    let send = unsafe {
        (*inbox).pending += 1;
        (*inbox).leaving_bytes += length;
        (*inbox).ucp.ucp_am_send_nbx
    };
    // SAFETY: number and bytes stay where they are until the message has left.
    let posted = Posted::of(unsafe {
        let (number, bytes) = ((*message).number.as_ptr(), (*message).bytes.as_ptr());
        send(endpoint, 0, number.cast(), NUMBER_BYTES, bytes.cast(), length, &param)
    });
    let status = match posted {
        Posted::Pending => return,
        Posted::Done => sys::OK,
        Posted::Failed(status) => status,
    };
    on_sent(null_mut(), status, message.cast());
}

fn request(on_done: OnDone, message: *mut Message) -> RequestParam {
    RequestParam {
        attributes: sys::OPERATION_FIELDS,
        flags: 0,
        request: null_mut(),
        on_done,
        datatype: sys::BYTES,
        user_data: message.cast(),
        others: [0; 4],
    }
}

/// A message has left, or cannot.
extern "C" fn on_sent(request: *mut c_void, status: Status, message: *mut c_void) {
    // SAFETY: made by `send`, which gave it away.
    let mut message = unsafe { Box::from_raw(message.cast::<Message>()) };
    // SAFETY: the inbox lives longer than the worker, and is nobody else's during a callback.
    let inbox = unsafe { &mut *message.inbox };
    inbox.pending -= 1;
    inbox.leaving_bytes -= message.bytes.len();
    if status != sys::OK {
        inbox.fail(inbox.ucp.text(status));
    } else if inbox.spare.len() < MAX_SPARE {
        message.bytes.clear();
        inbox.spare.push(std::mem::take(&mut message.bytes));
    }
    free(inbox, request);
}

/// The data of a message have come, or will not.
extern "C" fn on_fetched(
    request: *mut c_void,
    status: Status,
    length: usize,
    message: *mut c_void,
) {
    // SAFETY: made by `fetch`, which gave it away.
    let mut message = unsafe { Box::from_raw(message.cast::<Message>()) };
    // SAFETY: as in `on_sent`.
    let inbox = unsafe { &mut *message.inbox };
    inbox.pending -= 1;
    inbox.early_bytes -= message.bytes.capacity();
    if status == sys::OK && length <= message.bytes.capacity() {
        // SAFETY: UCX has written so many bytes.
        unsafe { message.bytes.set_len(length) };
        inbox.deliver(u64::from_le_bytes(message.number), &message.bytes);
    } else {
        inbox.fail(inbox.ucp.text(status));
    }
    free(inbox, request);
}

fn free(inbox: &Inbox, request: *mut c_void) {
    if !request.is_null() {
        // SAFETY: the request of a callback that has run to its end.
        unsafe { (inbox.ucp.ucp_request_free)(request) };
    }
}

/// A message has come, at least its number.
pub(super) extern "C" fn on_message(
    inbox: *mut c_void,
    header: *const c_void,
    header_bytes: usize,
    data: *mut c_void,
    data_bytes: usize,
    param: *const ReceiveParam,
) -> Status {
    // SAFETY: as in `on_sent`.
    let inbox = unsafe { &mut *inbox.cast::<Inbox>() };
    if header_bytes != NUMBER_BYTES {
        inbox.fail("the peer sent no packets");
        return sys::OK;
    }
    // SAFETY: so many bytes are there, wherever they lie.
    let number =
        u64::from_le_bytes(unsafe { header.cast::<[u8; NUMBER_BYTES]>().read_unaligned() });
    if !inbox.may_come(number, data_bytes) {
        inbox.fail("the peer sends more than it may, or twice");
        return sys::OK;
    }
    // SAFETY: UCX gives its parameters with each message.
    if unsafe { (*param).attributes } & sys::RENDEZVOUS != 0 {
        inbox.fetch(number, data, data_bytes);
        return sys::IN_PROGRESS;
    }
    if data_bytes > 0 {
        // SAFETY: so many bytes are there until the callback returns.
        inbox.deliver(number, unsafe { std::slice::from_raw_parts(data.cast(), data_bytes) });
    } else {
        inbox.deliver(number, &[]);
    }
    sys::OK
}

/// The peer is gone.
pub(super) extern "C" fn on_error(inbox: *mut c_void, _endpoint: *mut c_void, status: Status) {
    // SAFETY: as in `on_sent`.
    let inbox = unsafe { &mut *inbox.cast::<Inbox>() };
    inbox.fail(inbox.ucp.text(status));
}
