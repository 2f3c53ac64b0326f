//! The functions of `include/rackmem/runtime.h`.
//!
//! Each returns 0 or a negative `errno`, and keeps the explanation for `rackmem_last_error`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use crate::client::ffi;
use crate::client::{Context, LocalBuffer, OpenOptions, RawQueuePair, buffer_bytes};
use crate::error::{Error, Result};
use crate::protocol::Progress;
use crate::rack::Rack;

/// `rackmem_context`.
pub struct CContext {
    context: Context,
    arena: Mutex<Arena>,
}

/// Memory that `rackmem_alloc` gives out; it lives until the context is closed.
#[derive(Default)]
struct Arena {
    buffers: Vec<LocalBuffer>,
    /// Bytes left of the last buffer: the daemon knows a bounded number of them, and translates fastest with few.
    rest: usize,
}

/// Size of the buffers that small allocations share.
const ARENA_BYTES: usize = 1 << 20;

impl Arena {
    fn alloc(&mut self, context: &Context, size_bytes: usize) -> Result<*mut u8> {
        let size_bytes = buffer_bytes(size_bytes)?;
        if size_bytes > ARENA_BYTES / 4 {
            let mut buffer = context.buffer(size_bytes)?;
            let base = buffer.as_mut_ptr();
            // Before the last one, which has the rest.
            self.buffers.insert(0, buffer);
            return Ok(base);
        }
        if size_bytes > self.rest {
            self.buffers.push(context.buffer(ARENA_BYTES)?);
            self.rest = ARENA_BYTES;
        }
        let buffer = self.buffers.last_mut().expect("just pushed, or it has the rest");
        let base = buffer[ARENA_BYTES - self.rest..].as_mut_ptr();
        self.rest -= size_bytes;
        Ok(base)
    }
}

impl CContext {
    pub(crate) fn new(context: Context) -> CContext {
        CContext { context, arena: Mutex::default() }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }
}

/// `rackmem_open_args`.
#[allow(missing_docs, reason = "see `rackmem/runtime.h`")]
#[repr(C)]
pub struct OpenArgs {
    pub rack: *const c_char,
    pub nid: c_int,
    pub ctx_id: c_int,
    pub read_only: c_int,
    pub segment_bytes: usize,
    pub progress: c_int,
    pub shared: c_int,
}

/// `rackmem_mapping`.
#[allow(missing_docs, reason = "see `rackmem/runtime.h`")]
#[repr(C)]
pub struct CMapping {
    pub memory: *mut c_void,
    pub size_bytes: usize,
    pub state: *const AtomicU32,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// Queue pairs that C holds, so that closing a context can free forgotten ones.
static QUEUE_PAIRS: Mutex<Option<HashMap<usize, (usize, RawQueuePair)>>> = Mutex::new(None);

fn with_queue_pairs<T>(f: impl FnOnce(&mut HashMap<usize, (usize, RawQueuePair)>) -> T) -> T {
    let mut guard = QUEUE_PAIRS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    f(guard.get_or_insert_with(HashMap::new))
}

pub(crate) fn report(error: &Error) -> c_int {
    let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with(|last| *last.borrow_mut() = text);
    -error.errno()
}

pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|error| report(&error), |()| 0)
}

fn invalid(message: &str) -> Error {
    Error::invalid(message)
}

/// Negative: for ever.
fn deadline(timeout_ms: c_int) -> Option<Instant> {
    u64::try_from(timeout_ms).ok().map(|ms| Instant::now() + Duration::from_millis(ms))
}

/// # Safety
/// `ctx` is NULL or comes from `rackmem_open_version` and was not closed.
pub(crate) unsafe fn context<'a>(ctx: *const CContext) -> Result<&'a CContext> {
    // SAFETY: the caller's contract.
    unsafe { ctx.as_ref() }.ok_or_else(|| invalid("the context is NULL"))
}

fn give(out: *mut *mut CContext, context: Result<Context>) -> c_int {
    if out.is_null() {
        return report(&invalid("nowhere to put the context: the first argument is NULL"));
    }
    let boxed = context.map(|context| Box::into_raw(Box::new(CContext::new(context))));
    match boxed {
        Ok(ctx) => {
            // SAFETY: not null, and the caller says it is a place for a pointer.
            unsafe { out.write(ctx) };
            0
        }
        Err(error) => {
            // SAFETY: as above.
            unsafe { out.write(ptr::null_mut()) };
            report(&error)
        }
    }
}

/// `RACKMEM_VERSION` of the headers that belong to this library.
pub const VERSION: c_int = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
    | number(env!("CARGO_PKG_VERSION_PATCH"));

const fn number(text: &str) -> c_int {
    match c_int::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("Cargo's versions are numbers"),
    }
}

/// See `rackmem/runtime.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rackmem_version() -> c_int {
    VERSION
}

/// Headers have inline functions that know the layouts of one minor version.
fn check_version(of_headers: c_int) -> Result<()> {
    if of_headers >> 8 == VERSION >> 8 {
        return Ok(());
    }
    let name = |version: c_int| format!("{}.{}", version >> 16, version >> 8 & 0xff);
    let text = format!(
        "the program was compiled with headers of rackmem {}, the library is {}: compile it with \
         the headers of that library",
        name(of_headers),
        name(VERSION)
    );
    Err(Error::new(libc::ELIBBAD, text))
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `out` is valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_init_version(
    out: *mut *mut CContext,
    segment_bytes: usize,
    version: c_int,
) -> c_int {
    let open = || {
        check_version(version)?;
        let mut options = OpenOptions::from_env()?;
        if segment_bytes != 0 {
            options = options.segment_bytes(segment_bytes as u64);
        }
        Context::open_all(&options)
    };
    give(out, open())
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `out` is valid for writing a pointer, `args` for reading; its string ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_open_version(
    out: *mut *mut CContext,
    args: *const OpenArgs,
    version: c_int,
) -> c_int {
    let open = || {
        check_version(version)?;
        // SAFETY: the caller's contract.
        Context::open(&unsafe { options(args) }?)
    };
    give(out, open())
}

/// # Safety
/// As `rackmem_open_version`.
unsafe fn options(args: *const OpenArgs) -> Result<OpenOptions> {
    // SAFETY: the caller's contract.
    let args = unsafe { args.as_ref() }.ok_or_else(|| invalid("the arguments are NULL"))?;
    let mut options = OpenOptions::from_env()?;
    if !args.rack.is_null() {
        // SAFETY: the caller's contract.
        let name = unsafe { CStr::from_ptr(args.rack) };
        let name = name.to_str().map_err(|_| invalid("the rack's name is not UTF-8"))?;
        options = options.rack(Rack::named(Some(name))?);
    }
    if args.nid >= 0 {
        let nid = u16::try_from(args.nid).map_err(|_| invalid("the node number is too large"))?;
        options = options.node(nid);
    }
    if args.ctx_id >= 0 {
        let ctx_id = u16::try_from(args.ctx_id);
        options = options.context(ctx_id.map_err(|_| invalid("the context number is too large"))?);
    }
    if args.segment_bytes != 0 {
        options = options.segment_bytes(args.segment_bytes as u64);
    }
    options = match args.progress {
        0 => options,
        1 => options.progress(Progress::Inline),
        2 => options.progress(Progress::Daemon),
        3 => options.progress(Progress::Packet),
        other => return Err(invalid(&format!("{other} is no rackmem_progress"))),
    };
    Ok(options.read_only(args.read_only != 0).shared(args.shared != 0))
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is NULL or was opened and not closed; nothing of it is used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_close(ctx: *mut CContext) {
    if ctx.is_null() {
        return;
    }
    let owner = ctx as usize;
    let orphans: Vec<RawQueuePair> = with_queue_pairs(|pairs| {
        let keys: Vec<usize> =
            pairs.iter().filter(|(_, (of, _))| *of == owner).map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| pairs.remove(key)).map(|(_, pair)| pair).collect()
    });
    drop(orphans);
    // SAFETY: the pointer comes from `give`, and the caller gives it up.
    drop(unsafe { Box::from_raw(ctx) });
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_nid(ctx: *const CContext) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { context(ctx) }.map_or_else(|e| report(&e), |c| c.context.nid().into())
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_nodes(ctx: *const CContext) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { context(ctx) }.map_or_else(|e| report(&e), |c| c.context.nodes().into())
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_segment(ctx: *const CContext) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { context(ctx) }.map_or(ptr::null_mut(), |c| c.context.segment_data().cast())
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_segment_bytes(ctx: *const CContext) -> usize {
    // SAFETY: the caller's contract.
    unsafe { context(ctx) }.map_or(0, |c| c.context.segment_bytes() as usize)
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open, `out` valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_map(ctx: *mut CContext, nid: c_int, out: *mut CMapping) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { context(ctx) }.and_then(|c| {
        if out.is_null() {
            return Err(invalid("nowhere to put the mapping: the last argument is NULL"));
        }
        let segment = c.context.map_segment(u16::try_from(nid).unwrap_or(u16::MAX))?;
        let mapping = CMapping {
            memory: segment.data().cast(),
            size_bytes: segment.size_bytes() as usize,
            state: segment.state_word(),
        };
        // SAFETY: the caller's contract.
        unsafe { out.write(mapping) };
        Ok(())
    }))
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_wait_joined(
    ctx: *mut CContext,
    nid: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { context(ctx) }.and_then(|c| {
        let nid = u16::try_from(nid).unwrap_or(u16::MAX);
        c.context.wait_joined(nid, deadline(timeout_ms))
    }))
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open, `out` valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_qp_create(
    ctx: *mut CContext,
    entries: c_uint,
    out: *mut *mut ffi::Qp,
) -> c_int {
    // SAFETY: the caller's contract.
    let made = unsafe { context(ctx) }.and_then(|c| match out.is_null() {
        true => Err(invalid("nowhere to put the queue pair: the last argument is NULL")),
        false => c.context.raw_queue_pair(entries),
    });
    match made {
        Ok(mut pair) => {
            let qp: *mut ffi::Qp = &raw mut *pair.qp;
            with_queue_pairs(|pairs| pairs.insert(qp as usize, (ctx as usize, pair)));
            // SAFETY: the caller's contract.
            unsafe { out.write(qp) };
            0
        }
        Err(error) => report(&error),
    }
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `qp` is NULL or was created and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_qp_destroy(qp: *mut ffi::Qp) {
    drop(with_queue_pairs(|pairs| pairs.remove(&(qp as usize))));
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_alloc(ctx: *mut CContext, size_bytes: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    let made = unsafe { context(ctx) }
        .and_then(|c| c.arena.lock().expect("no holder panics").alloc(&c.context, size_bytes));
    made.map_or_else(
        |error| {
            report(&error);
            ptr::null_mut()
        },
        |base| base.cast(),
    )
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open; the pages around the buffer are ordinary memory of this process, or memory of rackmem, and no other
/// thread uses them during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_register(
    ctx: *mut CContext,
    buffer: *mut c_void,
    size_bytes: usize,
) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { context(ctx) }.and_then(|c| {
        // SAFETY: the caller's contract.
        unsafe { c.context.register(buffer as usize, size_bytes) }
    }))
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open; `ready` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_sleep_until(
    ctx: *mut CContext,
    ready: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    arg: *mut c_void,
    watch_nid: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { context(ctx) }.and_then(|c| {
        let ready = ready.ok_or_else(|| invalid("no condition to wait for"))?;
        // SAFETY: the caller's contract.
        let mut ready = || unsafe { ready(arg) != 0 };
        let watch = (watch_nid >= 0).then(|| u16::try_from(watch_nid).unwrap_or(u16::MAX));
        c.context.sleep_until(&mut ready, watch, deadline(timeout_ms))
    }))
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_losses(ctx: *const CContext) -> u64 {
    // SAFETY: the caller's contract.
    unsafe { context(ctx) }.map_or(0, |c| c.context.losses())
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `ctx` is open, `seen` valid for reading and writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_wait_notify(
    ctx: *mut CContext,
    seen: *mut u64,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { context(ctx) }.and_then(|c| {
        // SAFETY: the caller's contract.
        let seen = unsafe { seen.as_mut() }.ok_or_else(|| invalid("`seen` is NULL"))?;
        *seen = c.context.wait_notify(*seen, deadline(timeout_ms))?;
        Ok(())
    }))
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `text` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_set_last_error(error: c_int, text: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    LAST_ERROR.with(|last| *last.borrow_mut() = text.to_owned());
    error
}

/// See `rackmem/runtime.h`.
///
/// # Safety
/// `what` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_explain(error: c_int, what: *const c_char) -> c_int {
    if error != 0 {
        // SAFETY: the caller's contract.
        let what = unsafe { CStr::from_ptr(what) }.to_string_lossy();
        report(&Error::new(-error, format!("{what}: {}", explain(error))));
    }
    error
}

/// The text of the calling thread's last failed call.
pub(crate) fn last_error() -> String {
    LAST_ERROR.with(|last| last.borrow().to_string_lossy().into_owned())
}

/// See `rackmem/runtime.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rackmem_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// See `rackmem/runtime.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rackmem_strerror(error: c_int) -> *const c_char {
    static TEXTS: Mutex<Option<HashMap<c_int, &'static CStr>>> = Mutex::new(None);
    let mut guard = TEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let texts = guard.get_or_insert_with(HashMap::new);
    let text = texts.entry(error).or_insert_with(|| {
        // Each value is explained once and kept: C holds on to the text.
        let owned = CString::new(explain(error)).unwrap_or_default();
        Box::leak(owned.into_boxed_c_str())
    });
    text.as_ptr()
}

pub(crate) fn explain(error: c_int) -> String {
    let known = GENERAL.iter().find(|(errno, _)| -errno == error);
    known.map_or_else(
        || std::io::Error::from_raw_os_error(error.saturating_abs()).to_string(),
        |(_, text)| (*text).to_owned(),
    )
}

/// Meanings of values that more than one function returns, and that mean more than the system's text for the number
/// says.
const GENERAL: [(c_int, &str); 12] = [
    (0, "success"),
    (libc::EINVAL, "invalid argument"),
    (libc::ENOENT, "no such rack or context, or the node has not joined the context"),
    (libc::ENXIO, "no such node"),
    (libc::EACCES, "no permission for this context or operation"),
    (libc::ERANGE, "out of the segment's range"),
    (libc::EFAULT, "bad local buffer"),
    (libc::EHOSTDOWN, "the node, its process or its daemon is gone"),
    (libc::EHOSTUNREACH, "no link to the node's host"),
    (libc::ETIMEDOUT, "timed out"),
    (
        libc::EOWNERDEAD,
        "the lock is held now, and its last holder died with it: check what it guards",
    ),
    (libc::ELIBBAD, "library and headers are of different versions"),
];
