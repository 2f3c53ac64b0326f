//! The graph that the model can rank in a few seconds.

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Output;
use super::args::DemoArgs;
use crate::failure::{Failure, Result};

/// Edges that all nodes together may read or generate: each does so for the whole graph, and it is
/// what takes most of the time.
const MOST_EDGES: u64 = 1 << 16;

/// Edges of a vertex of the generated graph.
const EDGES_PER_VERTEX: u64 = 16;

/// The name that a graph from a file has for the model.
const FILE: &str = "graph.txt";

/// The graph as arguments of `pagerank`, on this host and on the model.
#[derive(Debug, PartialEq, Eq)]
pub struct Graph {
    /// Arguments; a file is named relative to the folder of the run.
    pub arguments: Vec<String>,
    /// Whether it is not the one that was asked for.
    pub is_smaller: bool,
}

/// The graph of the native run, whose result this is, if it is small enough: from a file that
/// becomes a plain one in `dir`. Otherwise one that is generated.
///
/// # Errors
/// The file cannot be read or written.
pub fn choose(args: &DemoArgs, nodes: u16, native: &Output, dir: &Path) -> Result<Graph> {
    let most_edges = MOST_EDGES / u64::from(nodes);
    match &args.graph {
        Some(file) if native.edges <= most_edges => {
            unpack(file, &dir.join(FILE))?;
            let undirected = args.undirected.then(|| "--undirected".to_owned());
            let arguments = undirected.into_iter().chain([FILE.to_owned()]).collect();
            Ok(Graph { arguments, is_smaller: false })
        }
        Some(_) => Ok(generated(largest_scale(most_edges), true)),
        None => {
            let scale = args.scale.min(largest_scale(most_edges));
            Ok(generated(scale, scale < args.scale))
        }
    }
}

fn largest_scale(most_edges: u64) -> u8 {
    (most_edges / EDGES_PER_VERTEX).ilog2() as u8
}

fn generated(scale: u8, is_smaller: bool) -> Graph {
    Graph { arguments: vec!["--kronecker".to_owned(), scale.to_string()], is_smaller }
}

/// Copies a file, plain or gzip, to a plain one.
fn unpack(from: &Path, to: &Path) -> Result<()> {
    let failed = |error| Failure::io(format_args!("cannot copy {}", from.display()), error);
    let mut out = fs::File::create(to).map_err(failed)?;
    let name = CString::new(from.as_os_str().as_bytes())
        .map_err(|_| Failure::usage("the name of the graph contains a zero byte"))?;
    // SAFETY: two strings that end in a zero byte.
    let file = unsafe { libz_sys::gzopen(name.as_ptr(), c"rb".as_ptr()) };
    if file.is_null() {
        return Err(failed(std::io::Error::last_os_error()));
    }
    let mut block = vec![0_u8; 1 << 16];
    let copied = loop {
        // SAFETY: an open file and a buffer of this size.
        let got = unsafe { libz_sys::gzread(file, block.as_mut_ptr().cast(), block.len() as u32) };
        match usize::try_from(got) {
            Ok(0) => break Ok(()),
            Ok(bytes) => {
                if let Err(error) = out.write_all(&block[..bytes]) {
                    break Err(failed(error));
                }
            }
            // The native run has read it to its end.
            Err(_) => break Err(Failure::new(format!("{} has changed", from.display()))),
        }
    };
    // SAFETY: it is open, and not used any more. What can be wrong has been told already.
    unsafe { libz_sys::gzclose(file) };
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_nodes_get_a_smaller_graph() {
        let scale = |nodes: u64| largest_scale(MOST_EDGES / nodes);
        assert_eq!([scale(1), scale(4), scale(64)], [12, 10, 6]);
    }

    #[test]
    fn a_plain_file_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&from, "1 2\n").unwrap();
        unpack(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"1 2\n");
    }
}
