//! What may stand between two accesses of a thread, and how the accesses themselves are made.

use super::shape::Access;

/// What stands between two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    Nothing,
    /// This instruction.
    Fence(&'static str),
    /// The address of the second comes from the first's result.
    Address,
    /// The stored value does.
    Data,
    /// A branch on it, and this instruction if it is not empty.
    Control(&'static str),
}

/// The instruction of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Made {
    /// A load or a store.
    #[default]
    Plain,
    /// An atomic with this annotation: `amoor` of 0, or `amoswap`.
    Amo(&'static str),
    /// `lr`, or `lr` and `sc`, with this annotation.
    Reserved(&'static str),
}

/// Two accesses of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) name: &'static str,
    pub(super) first: Made,
    pub(super) between: Between,
    pub(super) second: Made,
}

const PLAIN: Made = Made::Plain;

const fn link(name: &'static str, first: Made, between: Between, second: Made) -> Link {
    Link { name, first, between, second }
}

const fn fence(name: &'static str, instruction: &'static str) -> Link {
    link(name, PLAIN, Between::Fence(instruction), PLAIN)
}

const fn annotated(name: &'static str, first: Made, second: Made) -> Link {
    link(name, first, Between::Nothing, second)
}

pub(super) const NOTHING: Link = annotated("po", PLAIN, PLAIN);

/// What orders everything.
pub(super) const FULL: Link = fence("fence.rw.rw", "fence rw,rw");

const LINKS: [Link; 26] = [
    NOTHING,
    FULL,
    fence("fence.r.r", "fence r,r"),
    fence("fence.w.w", "fence w,w"),
    fence("fence.r.w", "fence r,w"),
    fence("fence.w.r", "fence w,r"),
    fence("fence.rw.w", "fence rw,w"),
    fence("fence.r.rw", "fence r,rw"),
    fence("fence.tso", "fence.tso"),
    fence("fence.i", "fence.i"),
    link("addr", PLAIN, Between::Address, PLAIN),
    link("data", PLAIN, Between::Data, PLAIN),
    link("ctrl", PLAIN, Between::Control(""), PLAIN),
    link("ctrlfence.r.r", PLAIN, Between::Control("fence r,r"), PLAIN),
    link("ctrlfence.i", PLAIN, Between::Control("fence.i"), PLAIN),
    annotated("amo.aq", Made::Amo(".aq"), PLAIN),
    annotated("amo.rl", PLAIN, Made::Amo(".rl")),
    annotated("amo.rl-aq", Made::Amo(".rl"), Made::Amo(".aq")),
    annotated("amo.aqrl", PLAIN, Made::Amo(".aq.rl")),
    annotated("amo", Made::Amo(""), Made::Amo("")),
    annotated("amo-po", Made::Amo(""), PLAIN),
    annotated("po-amo", PLAIN, Made::Amo("")),
    annotated("lr.aq", Made::Reserved(".aq"), PLAIN),
    annotated("sc.rl", PLAIN, Made::Reserved(".rl")),
    annotated("lrsc", Made::Reserved(""), Made::Reserved("")),
    link("addr-amo", PLAIN, Between::Address, Made::Amo("")),
];

/// The links that make sense between two accesses.
pub(super) fn links(first: Access, second: Access) -> impl Iterator<Item = Link> {
    let reads = |access| matches!(access, Access::Read(..));
    let (is_read, then_read) = (reads(first), reads(second));
    LINKS.into_iter().filter(move |link| {
        let depends = match link.between {
            Between::Nothing | Between::Fence(_) => true,
            Between::Address => is_read,
            Between::Data => is_read && !then_read,
            Between::Control(fence) => is_read && (then_read || fence.is_empty()),
        };
        // `lr` that orders what is behind it, `sc` that orders what is before it.
        let reserved = |made: Made, is_read: bool| match made {
            Made::Reserved(".aq") => is_read,
            Made::Reserved(".rl") => !is_read,
            _ => true,
        };
        depends && reserved(link.first, is_read) && reserved(link.second, then_read)
    })
}
