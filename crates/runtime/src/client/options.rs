use std::time::Duration;

use crate::error::{Error, Result};
use crate::protocol::Progress;
use crate::rack::Rack;

/// The context to join, the node to be, and the way to progress.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub(crate) rack: Rack,
    pub(crate) nid: u16,
    /// Nodes that take part; `None`: all of the rack.
    pub(crate) nodes: Option<u16>,
    pub(crate) ctx_id: u16,
    pub(crate) read_only: bool,
    pub(crate) shared: bool,
    pub(crate) segment_bytes: u64,
    pub(crate) progress: Progress,
}

/// Time that [`super::Context::open_all`] waits for the other nodes.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

fn from_env<T: std::str::FromStr>(name: &str) -> Result<Option<T>> {
    match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Error::invalid(format!("{name}='{text}' is not a number in range"))),
    }
}

fn progress_from_env() -> Result<Progress> {
    match std::env::var("RACKMEM_PROGRESS") {
        Err(_) => Ok(Progress::Inline),
        Ok(name) => Progress::from_name(&name).ok_or_else(|| {
            Error::invalid(format!("RACKMEM_PROGRESS='{name}': inline, daemon or packet"))
        }),
    }
}

impl OpenOptions {
    /// Options from the environment: `RACKMEM_RACK`, `_NODE`, `_NODES`, `_CONTEXT`, `_CONTEXT_SIZE`, `_PROGRESS`; else
    /// rack `default`, node 0, context 0.
    ///
    /// # Errors
    /// A variable that does not parse.
    pub fn from_env() -> Result<OpenOptions> {
        Ok(OpenOptions {
            rack: Rack::named(None)?,
            nid: from_env("RACKMEM_NODE")?.unwrap_or(0),
            nodes: from_env("RACKMEM_NODES")?,
            ctx_id: from_env("RACKMEM_CONTEXT")?.unwrap_or(0),
            read_only: false,
            shared: false,
            segment_bytes: from_env("RACKMEM_CONTEXT_SIZE")?.unwrap_or(0),
            progress: progress_from_env()?,
        })
    }

    /// Sets the rack whose context is joined; by default `$RACKMEM_RACK`, else `default`.
    pub fn rack(mut self, rack: Rack) -> Self {
        self.rack = rack;
        self
    }

    /// Node to be.
    pub fn node(mut self, nid: u16) -> Self {
        self.nid = nid;
        self
    }

    /// Context to join.
    pub fn context(mut self, ctx_id: u16) -> Self {
        self.ctx_id = ctx_id;
        self
    }

    /// Joins for remote reads only.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Lets several processes be this node and share its segment, if all of them say so. Otherwise a
    /// second process is refused while the first lives; one that only reads never is.
    pub fn shared(mut self, shared: bool) -> Self {
        self.shared = shared;
        self
    }

    /// Size of this node's segment.
    pub fn segment_bytes(mut self, size_bytes: u64) -> Self {
        self.segment_bytes = size_bytes;
        self
    }

    /// Sets the way by which operations of the context's queue pairs progress.
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}
