//! Errors in a network's description.

use std::fmt;

/// A reason why a [`Spec`](super::Spec) does not describe a network: field, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No topology has this name.
    UnknownTopology {
        /// The name that was given.
        name: String,
        /// The nearest name that exists.
        nearest: &'static str,
    },
    /// The size after the topology's name cannot be read.
    BadSize {
        /// Name and size, as they were given.
        text: String,
        /// A form that would be right.
        expected: &'static str,
    },
    /// A size is zero, or too small to be that topology.
    TooSmall {
        /// Name and size, as they were given.
        text: String,
        /// The smallest size that is right.
        least: &'static str,
    },
    /// The network has more of something than the simulator's tables hold.
    TooLarge {
        /// The things of which there are too many.
        what: &'static str,
        /// The number that the description asks for.
        given: usize,
        /// The largest possible number.
        limit: usize,
    },
    /// No routing has this name.
    UnknownRouting {
        /// The name that was given.
        name: String,
        /// The nearest name that exists.
        nearest: &'static str,
    },
    /// The routing needs rows and columns without rings; on this topology it could deadlock.
    RoutingUnsafe {
        /// Name of the routing, such as `o1turn`.
        routing: &'static str,
        /// Name and size of the topology, such as `torus:8x8`.
        topology: String,
        /// Those that are possible.
        possible: &'static str,
    },
    /// No pipeline has this name.
    UnknownPipeline {
        /// The name that was given.
        name: String,
        /// The nearest name that exists.
        nearest: &'static str,
    },
    /// The topology has a fixed number of endpoints at each router.
    NoConcentration {
        /// Name and size of the topology, such as `crossbar:16`.
        topology: String,
    },
    /// There is no virtual network.
    NoVirtualNetwork,
    /// A virtual network has too few virtual channels to be free of deadlock.
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
    Zero {
        /// Name of the field.
        field: &'static str,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::UnknownTopology { name, nearest } => write!(
                f,
                "no topology is called `{name}`; did you mean `{nearest}`? There are mesh, torus, \
                 flatfly, crossbar, chip-mesh and noc-out"
            ),
            SpecError::BadSize { text, expected } => {
                write!(f, "cannot read the size of topology `{text}`; write it as `{expected}`")
            }
            SpecError::TooSmall { text, least } => {
                write!(f, "topology `{text}` is too small; the smallest is `{least}`")
            }
            SpecError::TooLarge { what, given, limit } => {
                write!(f, "the network has {given} {what}, at most {limit} are possible; reduce it")
            }
            SpecError::UnknownRouting { name, nearest } => write!(
                f,
                "no routing is called `{name}`; did you mean `{nearest}`? There are xy, yx, \
                 o1turn, cdr, cdr-directory and minimal"
            ),
            SpecError::RoutingUnsafe { routing, topology, possible } => write!(
                f,
                "routing `{routing}` can deadlock on topology `{topology}` or is not defined \
                 there; use {possible}"
            ),
            SpecError::UnknownPipeline { name, nearest } => write!(
                f,
                "no router pipeline is called `{name}`; did you mean `{nearest}`? There are \
                 1-stage, 3-stage, 4-stage and 5-stage"
            ),
            SpecError::NoConcentration { topology } => write!(
                f,
                "routers of topology `{topology}` cannot have several endpoints; those of mesh, torus \
                 and flatfly can"
            ),
            SpecError::NoVirtualNetwork => {
                f.write_str("the network has no virtual network; give `vnets` at least one entry")
            }
            SpecError::TooFewVcs { vnet, vcs, needed, why } => write!(
                f,
                "virtual network {vnet} has {vcs} virtual channels but needs {needed}: {why}; \
                 raise its `vcs`"
            ),
            SpecError::Zero { field } => write!(f, "`{field}` is zero; it must be at least 1"),
        }
    }
}

impl std::error::Error for SpecError {}

/// The name of `names` that resembles `name` most.
pub(super) fn nearest(name: &str, names: &[&'static str]) -> &'static str {
    let likeness = |candidate: &&&'static str| {
        (strsim::jaro_winkler(&name.to_lowercase(), candidate) * 1e6) as u64
    };
    names.iter().max_by_key(likeness).copied().unwrap_or("")
}
