//! Errors in a network's description.

use std::fmt;

/// A reason why a [`Spec`](super::Spec) does not describe a network: field, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// Nothing of that kind has this name.
    Unknown {
        /// Kind of thing, such as `topology`.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: &'static [&'static str],
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
    /// The routing needs rows and columns without rings; on this topology it could deadlock.
    RoutingUnsafe {
        /// Name of the routing, such as `o1turn`.
        routing: &'static str,
        /// Name and size of the topology, such as `torus:8x8`.
        topology: String,
        /// Those that are possible.
        possible: &'static str,
    },
    /// The topology has a fixed number of endpoints at each router.
    NoConcentration {
        /// Name and size of the topology, such as `crossbar:16`.
        topology: String,
    },
    /// An endpoint has no way to another.
    NotConnected {
        /// Endpoint that sends.
        from: usize,
        /// Endpoint that it does not reach.
        to: usize,
    },
    /// Packets can wait for each other in a ring.
    MayDeadlock {
        /// Number of their virtual network.
        vnet: usize,
        /// Routers and ports of the channels that close the ring.
        ring: String,
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
            SpecError::Unknown { what, name, known } => {
                let (nearest, all) = (nearest(name, known), known.join(", "));
                write!(f, "no {what} is called `{name}`; did you mean `{nearest}`? There are {all}")
            }
            SpecError::BadSize { text, expected } => {
                write!(f, "cannot read the size of topology `{text}`; write it as `{expected}`")
            }
            SpecError::TooSmall { text, least } => {
                write!(f, "topology `{text}` is too small; the smallest is `{least}`")
            }
            SpecError::TooLarge { what, given, limit } => {
                write!(f, "the network has {given} {what}, at most {limit} are possible; reduce it")
            }
            SpecError::RoutingUnsafe { routing, topology, possible } => write!(
                f,
                "routing `{routing}` can deadlock on topology `{topology}` or is not defined \
                 there; use {possible}"
            ),
            SpecError::NoConcentration { topology } => write!(
                f,
                "routers of topology `{topology}` cannot have several endpoints; those of mesh, torus \
                 and flatfly can"
            ),
            SpecError::NotConnected { from, to } => {
                write!(f, "the topology has no way from endpoint {from} to endpoint {to}")
            }
            SpecError::MayDeadlock { vnet, ring } => write!(
                f,
                "packets of virtual network {vnet} can wait for each other in a ring: {ring}; another \
                 routing or dateline separates them"
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
