//! C structures and contexts for the inline functions of the headers, which Rust calls.

use std::ffi::{c_int, c_void};

use super::{Context, QueuePair};
use crate::capi::{CContext, explain, last_error};
use crate::error::{Error, Result};

/// Turns the code of an inline function into a result.
pub(super) fn check(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::new(-code, explain(code))) }
}

/// Turns the code of a function that has set the last error into a result with that error's text.
pub(super) fn check_told(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::new(-code, last_error())) }
}

/// A place in a node's segment.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    nid: c_int,
    offset: u64,
}

impl Address {
    /// No place: `rackmem_nowhere`.
    pub(super) const NOWHERE: Address = Address { nid: -1, offset: 0 };

    /// The place at `offset` of node `nid`.
    pub fn new(nid: u16, offset: u64) -> Address {
        Address { nid: nid.into(), offset }
    }

    pub(super) fn nid(self) -> c_int {
        self.nid
    }

    pub(super) fn offset(self) -> u64 {
        self.offset
    }
}

/// A context lent to C for the length of a call.
pub(super) struct Lent(Box<CContext>);

impl Lent {
    pub(super) fn new(context: &Context) -> Lent {
        Lent(Box::new(CContext::new(context.clone())))
    }

    pub(super) fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.0).cast()
    }
}

/// A C structure in memory that does not move, with the context it works on.
pub(super) struct Foreign {
    words: Box<[u64]>,
    context: Box<CContext>,
    pub(super) qp: QueuePair,
}

impl Foreign {
    /// Zeroed memory for a structure of `size` bytes.
    pub(super) fn new(context: &Context, qp: QueuePair, size: usize) -> Foreign {
        let words = vec![0; size.div_ceil(8)].into_boxed_slice();
        Foreign { words, context: Box::new(CContext::new(context.clone())), qp }
    }

    /// The context as C takes it.
    pub(super) fn context_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.context).cast()
    }

    pub(super) fn as_ptr(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }
}
