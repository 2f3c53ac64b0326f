//! Errors in a network's description.

use thiserror::Error;

/// A reason why a [`Spec`](super::Spec) does not describe a network: field, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Nothing of that kind has this name.
    #[error(
        "no {what} is called `{name}`; did you mean `{}`? There are {}",
        nearest(name, known),
        known.join(", ")
    )]
    Unknown {
        /// Kind of thing, such as `topology`.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: &'static [&'static str],
    },
    /// The size after the topology's name cannot be read.
    #[error("cannot read the size of topology `{text}`; write it as `{expected}`")]
    BadSize {
        /// Name and size, as they were given.
        text: String,
        /// A form that would be right.
        expected: &'static str,
    },
    /// A list of links has no name by which another place could find it.
    #[error(
        "topology `edges` is read from a file: `rackmem noc --topology edges:FILE`; machines have none"
    )]
    EdgesAreAFile,
    /// A line of a list of links is not as it must be.
    #[error("{file}:{line}: {problem}")]
    BadEdges {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1 on.
        line: usize,
        /// The problem of that line, and the remedy.
        problem: String,
    },
    /// A size is zero, or too small to be that topology.
    #[error("topology `{text}` is too small; the smallest is `{least}`")]
    TooSmall {
        /// Name and size, as they were given.
        text: String,
        /// The smallest size that is right.
        least: &'static str,
    },
    /// The network has more of something than the simulator's tables hold.
    #[error("the network has {given} {what}, at most {limit} are possible; reduce it")]
    TooLarge {
        /// The things of which there are too many.
        what: &'static str,
        /// The number that the description asks for.
        given: usize,
        /// The largest possible number.
        limit: usize,
    },
    /// The routing needs rows and columns without rings; on this topology it could deadlock.
    #[error(
        "routing `{routing}` can deadlock on topology `{topology}` or is not defined there; use \
         {possible}"
    )]
    RoutingUnsafe {
        /// Name of the routing, such as `o1turn`.
        routing: &'static str,
        /// Name and size of the topology, such as `torus:8x8`.
        topology: String,
        /// Those that are possible.
        possible: &'static str,
    },
    /// The topology has a fixed number of endpoints at each router.
    #[error(
        "routers of topology `{topology}` cannot have several endpoints; those of mesh, \
         torus, flatfly and of edges without nodes can"
    )]
    NoConcentration {
        /// Name and size of the topology, such as `crossbar:16`.
        topology: String,
    },
    /// An endpoint has no way to another.
    #[error("the topology has no way from endpoint {from} to endpoint {to}")]
    NotConnected {
        /// Endpoint that sends.
        from: usize,
        /// Endpoint that it does not reach.
        to: usize,
    },
    /// Packets can wait for each other in a ring.
    #[error(
        "packets of virtual network {vnet} can wait for each other in a ring: {ring}; another \
         routing, such as up-down on edges, or another dateline separates them"
    )]
    MayDeadlock {
        /// Number of their virtual network.
        vnet: usize,
        /// Routers and ports of the channels that close the ring.
        ring: String,
    },
    /// There is no virtual network.
    #[error("the network has no virtual network; give `vnets` at least one entry")]
    NoVirtualNetwork,
    /// A virtual network has too few virtual channels to be free of deadlock.
    #[error(
        "virtual network {vnet} has {vcs} virtual channels but needs {needed}: {why}; raise its \
         `vcs`"
    )]
    TooFewVcs {
        /// Number of the virtual network.
        vnet: usize,
        /// Virtual channels that it has.
        vcs: usize,
        /// Virtual channels that it needs.
        needed: usize,
        /// Purpose of the virtual channels: the end of the message.
        why: &'static str,
    },
    /// A quantity must be at least one.
    #[error("`{field}` is zero; it must be at least 1")]
    Zero {
        /// Name of the field.
        field: &'static str,
    },
}

/// The value with this name; the names are in the order of the values.
pub(super) fn find<T: Copy>(
    what: &'static str,
    name: &str,
    known: &'static [&'static str],
    values: &[T],
) -> Result<T, SpecError> {
    let found = known.iter().position(|&other| other == name);
    let unknown = || SpecError::Unknown { what, name: name.to_owned(), known };
    found.and_then(|i| values.get(i)).copied().ok_or_else(unknown)
}

/// The name of `names` that resembles `name` most.
pub(super) fn nearest(name: &str, names: &[&'static str]) -> &'static str {
    let likeness = |candidate: &&&'static str| {
        (strsim::jaro_winkler(&name.to_lowercase(), candidate) * 1e6) as u64
    };
    names.iter().max_by_key(likeness).copied().unwrap_or("")
}
