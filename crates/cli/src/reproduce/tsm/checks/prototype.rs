//! Figure 5 and sections 2.1.2 and 2.2: caching borrowed memory over PCIe, atomics, and messages.

use super::{Check, Finding, Known, Results, check, number};
use crate::reproduce::tolerance::Class::{Exact, Order, Rounded};
use crate::reproduce::tsm::experiment::Kernel::{self, B1, B2, B3, B4};
use crate::reproduce::tsm::experiment::Machine::{Prototype, Simulator};
use crate::reproduce::tsm::experiment::Place::{Local, Remote};
use crate::reproduce::tsm::experiment::{Policy, Share};
use crate::reproduce::tsm::thunder::{self, Way};

fn remote_against_local(results: &Results, kernel: Kernel) -> Known<Finding> {
    let of = |place| results.on_prototype(kernel, place);
    Ok(Finding::sides(of(Remote)?, of(Local)?).unit("ns"))
}

pub(super) const FIG5: &[Check] = &[
    check("fig5/order/b1-remote-about-local", Order, |r| remote_against_local(r, B1)),
    check("fig5/order/b2-remote-slower", Order, |r| remote_against_local(r, B2)),
    check("fig5/order/b3-remote-about-local", Order, |r| remote_against_local(r, B3)).reading(
        "good locality is that of time: a block is read 12,000 times before the next. With fewer times \
         the loads of Table 2, 2.5 us a line, could not go unnoticed",
    ),
    check("fig5/order/b4-remote-slower", Order, |r| remote_against_local(r, B4)),
    check("write-policy/effective-option", Exact, |r| {
        number(r.shared(Prototype, Share::Policy, "reread"))
    })
    .reading("the option whose outcome the test of the next claim has"),
    check("write-policy/reread-value", Exact, |r| {
        number(r.shared(Prototype, Share::Policy, "reread"))
    }),
    check("write-policy/invalidations-per-write", Exact, |r| number(r.dropped_per_write())),
    check("write-policy/order/write-back-suitable", Order, |r| {
        let per_ms = |policy| Ok::<f64, String>(1e6 / r.borrowed(B2, policy, 16)?);
        let sides = Finding::sides(per_ms(Policy::WriteBack)?, per_ms(Policy::Invalidate)?);
        Ok(sides.unit("runs per ms").remark("benchmark 2 on the simulator"))
    }),
    check("atomics/lock-prefix", Exact, |r| number(r.shared(Prototype, Share::Atomics, "works"))),
    check("atomics/exclusive", Exact, |r| {
        let works = r.shared(Simulator, Share::Atomics, "works")?;
        Ok(Finding::fact(works == 1.0)
            .remark("load-reserved and store-conditional of two cores in borrowed memory"))
    }),
];

pub(super) const COMM: &[Check] = &[
    check("comm/pcie/transfer-latency", Rounded, |r| {
        number(Ok(r.shared(Prototype, Share::Message, "one_way_ns")? / 1000.0))
    }),
    check("comm/order/syscall-vs-copy-latency", Order, |r| {
        let of = |way| r.message_us(way, thunder::SMALL);
        Ok(Finding::sides(of(Way::Cached)?, of(Way::CachedCopy)?).unit("us"))
    })
    .reading("messages of 64 B by Thunder's queue pairs, without translation by the channel"),
    check("comm/order/copy-vs-syscall-cpu", Order, |r| {
        let of = |way| r.message_core_us(way, thunder::LARGE);
        Ok(Finding::sides(of(Way::CachedCopy)?, of(Way::Cached)?).unit("us"))
    })
    .reading(
        "core time of both ends for a message of 128 KB, likewise; a message that fits into a page or less is \
         copied in less time than the call takes",
    ),
];
