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

/// Variables in which launchers say which process of how many this is. A launcher that runs inside another's job comes
/// before it: `mpirun` in a job of Slurm finds Slurm's variables set.
const LAUNCHERS: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn number<T: std::str::FromStr>(
    get: &dyn Fn(&str) -> Option<String>,
    name: &str,
) -> Result<Option<T>> {
    let parse = |text: String| {
        let wrong = |_| Error::invalid(format!("{name}='{text}' is not a number in range"));
        text.parse().map(Some).map_err(wrong)
    };
    get(name).map_or(Ok(None), parse)
}

fn from_env<T: std::str::FromStr>(name: &str) -> Result<Option<T>> {
    number(&variable, name)
}

/// The node to be, and how many take part: by our variables, or if none of them is set by those of a launcher.
fn place(get: &dyn Fn(&str) -> Option<String>) -> Result<(Option<u16>, Option<u16>)> {
    let ours = (number(get, "RACKMEM_NODE")?, number(get, "RACKMEM_NODES")?);
    if ours != (None, None) {
        return Ok(ours);
    }
    for (rank, size) in LAUNCHERS {
        if let Some(nid) = number(get, rank)? {
            return Ok((Some(nid), number(get, size)?));
        }
    }
    Ok((None, None))
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
    /// rack `default`, node 0, context 0. Without `RACKMEM_NODE` and `RACKMEM_NODES`, node and count are those that
    /// Open MPI, PMI, PMIx or Slurm give the process.
    ///
    /// # Errors
    /// A variable that does not parse.
    pub fn from_env() -> Result<OpenOptions> {
        let (nid, nodes) = place(&variable)?;
        Ok(OpenOptions {
            rack: Rack::named(None)?,
            nid: nid.unwrap_or(0),
            nodes,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<(Option<u16>, Option<u16>)> {
        place(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launchers_give_node_and_count() {
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8")];
        assert_eq!(of(&slurm).unwrap(), (Some(3), Some(8)));
        assert_eq!(of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).unwrap(), (Some(1), Some(2)));
        assert_eq!(of(&[("PMIX_RANK", "1")]).unwrap(), (Some(1), None));
        let mpi = [("OMPI_COMM_WORLD_RANK", "5"), ("OMPI_COMM_WORLD_SIZE", "6")];
        assert_eq!(of(&[&slurm[..], &mpi].concat()).unwrap(), (Some(5), Some(6)));
        assert_eq!(of(&[]).unwrap(), (None, None));
    }

    #[test]
    fn our_own_variables_come_first() {
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8")];
        let with =
            |ours: &[(&'static str, &'static str)]| of(&[&slurm[..], ours].concat()).unwrap();
        assert_eq!(with(&[("RACKMEM_NODE", "1")]), (Some(1), None));
        assert_eq!(with(&[("RACKMEM_NODES", "4")]), (None, Some(4)));
        let error = of(&[("SLURM_PROCID", "x")]).unwrap_err().to_string();
        assert_eq!(error, "SLURM_PROCID='x' is not a number in range");
    }
}
