//! The library in this process, and the ends of links in it.

use std::ffi::c_void;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::inbox::Inbox;
use super::sys::{self, Status, Ucp};
use super::{Address, MAX_ADDRESS_BYTES, UcxError};

/// The library, and what it knows about the adapters of the host.
pub struct Engine {
    pub(super) ucp: Ucp,
    context: *mut c_void,
}

// SAFETY: the context may be used by all threads, as its parameters say.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}

impl Engine {
    /// Loads UCX.
    ///
    /// # Errors
    /// It is not there, or too old, or finds nothing that it can use.
    pub fn load() -> Result<Arc<Engine>, UcxError> {
        let ucp = Ucp::load()?;
        let [major, minor, _] = ucp.version();
        if (major, minor) < sys::API {
            return Err(UcxError::Old(major, minor));
        }
        let params = sys::ContextParams {
            field_mask: sys::CONTEXT_FIELDS,
            features: sys::FEATURES,
            request_size: 0,
            request_callbacks: [0; 2],
            tag_sender_mask: 0,
            mt_workers_shared: 1,
            others: [0; 3],
        };
        let mut context = null_mut();
        let (major, minor) = sys::API;
        // SAFETY: the parameters are those of this version.
        let made = unsafe { (ucp.ucp_init_version)(major, minor, &params, null(), &mut context) };
        check(&ucp, made, "start")?;
        Ok(Arc::new(Engine { ucp, context }))
    }

    /// Version of the library, for people.
    pub fn version(&self) -> String {
        let [major, minor, release] = self.ucp.version();
        format!("{major}.{minor}.{release}")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: all workers have ended, for each holds the engine.
        unsafe { (self.ucp.ucp_cleanup)(self.context) };
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.version())
    }
}

fn check(ucp: &Ucp, status: Status, what: &'static str) -> Result<(), UcxError> {
    match status {
        sys::OK => Ok(()),
        status => Err(UcxError::Failed(what, ucp.text(status))),
    }
}

/// An end of a link, which has an address.
pub struct Worker {
    pub(super) engine: Arc<Engine>,
    pub(super) worker: *mut c_void,
    /// State of the callbacks, which run within calls of UCX only.
    pub(super) inbox: *mut Inbox,
    efd: i32,
    address: Address,
}

// SAFETY: the worker may be used by any thread, one at a time, as its parameters say; all use but `arm` needs `&mut`.
unsafe impl Send for Worker {}

impl Worker {
    /// An end without a link.
    ///
    /// # Errors
    /// UCX cannot make it; its address is too long.
    pub fn new(engine: &Arc<Engine>) -> Result<Worker, UcxError> {
        let ucp = &engine.ucp;
        let params = sys::WorkerParams {
            field_mask: sys::WORKER_FIELDS,
            thread_mode: sys::SERIALIZED,
            others: [0; 23],
        };
        let mut worker = null_mut();
        // SAFETY: the context lives as long as the engine.
        let made = unsafe { (ucp.ucp_worker_create)(engine.context, &params, &mut worker) };
        check(ucp, made, "make a worker")?;
        let inbox = Box::into_raw(Box::new(Inbox::new(*ucp, worker)));
        // From here on its end destroys what there is.
        let mut this =
            Worker { engine: engine.clone(), worker, inbox, efd: -1, address: Address(Vec::new()) };
        let handler = sys::HandlerParam {
            field_mask: sys::HANDLER_FIELDS,
            id: 0,
            flags: sys::WHOLE_MESSAGE,
            on_message: super::inbox::on_message,
            argument: inbox.cast(),
        };
        // SAFETY: the inbox lives longer than the worker.
        let set = unsafe { (ucp.ucp_worker_set_am_recv_handler)(worker, &handler) };
        check(ucp, set, "take messages")?;
        // SAFETY: a place to write to.
        let got = unsafe { (ucp.ucp_worker_get_efd)(worker, &mut this.efd) };
        check(ucp, got, "wake who sleeps")?;
        this.address = this.find_address()?;
        Ok(this)
    }

    fn find_address(&self) -> Result<Address, UcxError> {
        let ucp = &self.engine.ucp;
        let (mut at, mut length) = (null_mut(), 0);
        // SAFETY: two places to write to.
        let got = unsafe { (ucp.ucp_worker_get_address)(self.worker, &mut at, &mut length) };
        check(ucp, got, "tell its address")?;
        // SAFETY: the function has returned so many bytes, which are copied before they are released.
        let address = unsafe { std::slice::from_raw_parts(at, length).to_vec() };
        // SAFETY: as above.
        unsafe { (ucp.ucp_worker_release_address)(self.worker, at) };
        if length > MAX_ADDRESS_BYTES {
            Err(UcxError::LongAddress(length))
        } else {
            Ok(Address(address))
        }
    }

    /// Where the peer finds it.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Becomes readable when there is something to do, once `Worker::arm` has said so. It has to be watched by level.
    pub fn efd(&self) -> BorrowedFd<'_> {
        // SAFETY: UCX keeps it open as long as the worker lives.
        unsafe { BorrowedFd::borrow_raw(self.efd) }
    }

    /// The way to the end at an address.
    pub(super) fn endpoint(&mut self, address: &Address) -> Result<*mut c_void, UcxError> {
        let ucp = &self.engine.ucp;
        let params = sys::EndpointParams {
            field_mask: sys::ENDPOINT_FIELDS,
            address: address.0.as_ptr(),
            error_mode: sys::PEER_MODE,
            on_error: super::inbox::on_error,
            on_error_argument: self.inbox.cast(),
            others: [0; 8],
        };
        let mut endpoint = null_mut();
        // SAFETY: an authenticated peer has sent the address, which UCX reads during the call.
        let made = unsafe { (ucp.ucp_ep_create)(self.worker, &params, &mut endpoint) };
        match made {
            sys::OK => Ok(endpoint),
            status => Err(UcxError::NoTransport(ucp.text(status))),
        }
    }

    /// Runs callbacks. Returns whether anything was done.
    pub(super) fn progress(&mut self) -> bool {
        // SAFETY: the worker lives; its callbacks have the inbox for themselves meanwhile.
        unsafe { (self.engine.ucp.ucp_worker_progress)(self.worker) != 0 }
    }

    /// Whether the owner may sleep until the descriptor is readable.
    pub(super) fn arm(&self) -> bool {
        // SAFETY: the owner's thread has the worker; nothing is called back.
        unsafe { (self.engine.ucp.ucp_worker_arm)(self.worker) == sys::OK }
    }

    pub(super) fn inbox(&self) -> &Inbox {
        // SAFETY: no call of UCX is under way.
        unsafe { &*self.inbox }
    }

    pub(super) fn inbox_mut(&mut self) -> &mut Inbox {
        // SAFETY: as above, and nobody else has the worker.
        unsafe { &mut *self.inbox }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: its endpoint is closed; after this nothing calls back.
        unsafe { (self.engine.ucp.ucp_worker_destroy)(self.worker) };
        // SAFETY: made by `Box::into_raw`, and nobody has it any more.
        drop(unsafe { Box::from_raw(self.inbox) });
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({} bytes of address)", self.address.0.len())
    }
}
