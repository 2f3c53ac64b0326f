//! The part of UCX's interface that a link needs, as `ucp/api/ucp.h` of UCX 1.13 declares it; later versions only add
//! fields behind these, which their masks leave out.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::UcxError;

/// Name of the library.
pub const LIBRARY: &CStr = c"libucp.so.0";

/// The interface that these declarations are of; also the oldest library that is used.
pub const API: (c_uint, c_uint) = (1, 13);

/// `ucs_status_t`.
pub type Status = i8;

/// The operation is complete.
pub const OK: Status = 0;
/// The operation is under way.
pub const IN_PROGRESS: Status = 1;

/// `UCP_FEATURE_AM | UCP_FEATURE_WAKEUP`.
pub const FEATURES: u64 = 1 << 6 | 1 << 4;
/// `UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED`.
pub const CONTEXT_FIELDS: u64 = 1 | 1 << 5;
/// `UCP_WORKER_PARAM_FIELD_THREAD_MODE`.
pub const WORKER_FIELDS: u64 = 1;
/// `UCS_THREAD_MODE_SERIALIZED`: any thread, one at a time.
pub const SERIALIZED: c_int = 1;
/// `UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | _ERR_HANDLING_MODE | _ERR_HANDLER`.
pub const ENDPOINT_FIELDS: u64 = 1 | 1 << 1 | 1 << 2;
/// `UCP_ERR_HANDLING_MODE_PEER`.
pub const PEER_MODE: c_int = 1;
/// `UCP_AM_HANDLER_PARAM_FIELD_ID | _FLAGS | _CB | _ARG`.
pub const HANDLER_FIELDS: u64 = 0b1111;
/// `UCP_AM_FLAG_WHOLE_MSG`.
pub const WHOLE_MESSAGE: u32 = 1;
/// `UCP_AM_RECV_ATTR_FLAG_RNDV`: the data have not come with the message.
pub const RENDEZVOUS: u64 = 1 << 17;
/// `UCP_OP_ATTR_FIELD_CALLBACK | _USER_DATA | _DATATYPE`.
pub const OPERATION_FIELDS: u32 = 1 << 1 | 1 << 2 | 1 << 3;
/// `UCP_OP_ATTR_FIELD_FLAGS`.
pub const FLAGS_FIELD: u32 = 1 << 4;
/// `UCP_EP_CLOSE_FLAG_FORCE`.
pub const CLOSE_BY_FORCE: u32 = 1;
/// `ucp_dt_make_contig(1)`.
pub const BYTES: u64 = 1 << 3;

/// `ucp_params_t`.
#[repr(C)]
pub struct ContextParams {
    pub field_mask: u64,
    pub features: u64,
    pub request_size: usize,
    pub request_callbacks: [usize; 2],
    pub tag_sender_mask: u64,
    pub mt_workers_shared: c_int,
    pub others: [u64; 3],
}

/// `ucp_worker_params_t`.
#[repr(C)]
pub struct WorkerParams {
    pub field_mask: u64,
    pub thread_mode: c_int,
    pub others: [u64; 23],
}

/// `ucp_ep_params_t`.
#[repr(C)]
pub struct EndpointParams {
    pub field_mask: u64,
    pub address: *const u8,
    pub error_mode: c_int,
    pub on_error: extern "C" fn(*mut c_void, *mut c_void, Status),
    pub on_error_argument: *mut c_void,
    pub others: [u64; 8],
}

/// `ucp_am_recv_callback_t`.
pub type OnMessage = extern "C" fn(
    argument: *mut c_void,
    header: *const c_void,
    header_bytes: usize,
    data: *mut c_void,
    data_bytes: usize,
    param: *const ReceiveParam,
) -> Status;

/// `ucp_am_handler_param_t`.
#[repr(C)]
pub struct HandlerParam {
    pub field_mask: u64,
    pub id: c_uint,
    pub flags: u32,
    pub on_message: OnMessage,
    pub argument: *mut c_void,
}

/// `ucp_am_recv_param_t`.
#[repr(C)]
pub struct ReceiveParam {
    pub attributes: u64,
    pub reply_endpoint: *mut c_void,
}

/// The callbacks of `ucp_request_param_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union OnDone {
    pub sent: extern "C" fn(*mut c_void, Status, *mut c_void),
    pub received: extern "C" fn(*mut c_void, Status, usize, *mut c_void),
    pub none: usize,
}

/// `ucp_request_param_t`.
#[repr(C)]
pub struct RequestParam {
    pub attributes: u32,
    pub flags: u32,
    pub request: *mut c_void,
    pub on_done: OnDone,
    pub datatype: u64,
    pub user_data: *mut c_void,
    pub others: [u64; 4],
}

const _: () = {
    assert!(size_of::<ContextParams>() == 80 && size_of::<WorkerParams>() == 200);
    assert!(size_of::<EndpointParams>() == 104 && size_of::<RequestParam>() == 72);
    assert!(size_of::<HandlerParam>() == 32 && size_of::<ReceiveParam>() == 16);
};

macro_rules! functions {
    ($($name:ident: fn($($type:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        #[derive(Clone, Copy, Debug)]
        pub struct Ucp {
            $(pub $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Ucp {
            /// Loads the library, for as long as the process lives.
            pub fn load() -> Result<Ucp, UcxError> {
                // SAFETY: the name is a string; the library's constructors are UCX's own.
                let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
                if library.is_null() {
                    return Err(UcxError::Missing(last_error()));
                }
                $(
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the library is open, and the name ends with a zero.
                    let $name = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                    if $name.is_null() {
                        return Err(UcxError::Incomplete(stringify!($name)));
                    }
                )*
                Ok(Ucp {
                    $($name: {
                        type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                        // SAFETY: the function of this name has this type.
                        unsafe { std::mem::transmute::<*mut c_void, Function>($name) }
                    },)*
                })
            }
        }
    };
}

functions! {
    ucp_get_version: fn(*mut c_uint, *mut c_uint, *mut c_uint);
    ucp_init_version: fn(c_uint, c_uint, *const ContextParams, *const c_void, *mut *mut c_void) -> Status;
    ucp_cleanup: fn(*mut c_void);
    ucp_worker_create: fn(*mut c_void, *const WorkerParams, *mut *mut c_void) -> Status;
    ucp_worker_destroy: fn(*mut c_void);
    ucp_worker_get_address: fn(*mut c_void, *mut *mut u8, *mut usize) -> Status;
    ucp_worker_release_address: fn(*mut c_void, *mut u8);
    ucp_worker_get_efd: fn(*mut c_void, *mut c_int) -> Status;
    ucp_worker_arm: fn(*mut c_void) -> Status;
    ucp_worker_progress: fn(*mut c_void) -> c_uint;
    ucp_worker_set_am_recv_handler: fn(*mut c_void, *const HandlerParam) -> Status;
    ucp_ep_create: fn(*mut c_void, *const EndpointParams, *mut *mut c_void) -> Status;
    ucp_ep_close_nbx: fn(*mut c_void, *const RequestParam) -> *mut c_void;
    ucp_am_send_nbx: fn(
        *mut c_void, c_uint, *const c_void, usize, *const c_void, usize, *const RequestParam
    ) -> *mut c_void;
    ucp_am_recv_data_nbx: fn(
        *mut c_void, *mut c_void, *mut c_void, usize, *const RequestParam
    ) -> *mut c_void;
    ucp_request_check_status: fn(*mut c_void) -> Status;
    ucp_request_free: fn(*mut c_void);
    ucs_status_string: fn(Status) -> *const c_char;
}

impl Ucp {
    /// The version of the library.
    pub fn version(&self) -> [c_uint; 3] {
        let [mut major, mut minor, mut release] = [0; 3];
        // SAFETY: three places to write to.
        unsafe { (self.ucp_get_version)(&mut major, &mut minor, &mut release) };
        [major, minor, release]
    }

    /// A status in UCX's words.
    pub fn text(&self, status: Status) -> String {
        // SAFETY: the function returns a string for every status.
        let text = unsafe { CStr::from_ptr((self.ucs_status_string)(status)) };
        text.to_string_lossy().into_owned()
    }
}

/// State of an operation that was posted (`ucs_status_ptr_t`).
pub enum Posted {
    Done,
    Pending,
    Failed(Status),
}

impl Posted {
    /// Errors are the last 100 addresses.
    pub fn of(pointer: *mut c_void) -> Posted {
        match pointer as isize {
            0 => Posted::Done,
            status @ -100..0 => Posted::Failed(status as Status),
            _ => Posted::Pending,
        }
    }
}

fn last_error() -> String {
    // SAFETY: `dlopen` has just failed in this thread; the text is copied.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".to_owned();
    }
    // SAFETY: a string of the loader.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
