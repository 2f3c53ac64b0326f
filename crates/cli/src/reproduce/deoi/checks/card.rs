//! Figure 5: a remote network interface.

use super::{Check, Known, Results, check, number};
use crate::reproduce::deoi::experiment::Card::{Receive, Send};
use crate::reproduce::deoi::experiment::Place::{Local, Remote};
use crate::reproduce::deoi::results::disparity;
use crate::reproduce::tolerance::Class::{Bound, Exact, Order, Overhead, Rounded};
use crate::reproduce::verdict::Finding;

fn outbound(results: &Results) -> Known<Finding> {
    number(results.bandwidth_disparity(Send))
}

fn extra(results: &Results) -> Known<Finding> {
    number(results.extra_us())
}

/// Time that a remote card adds to the shortest message, and the time of that message.
fn small_share(results: &Results) -> Known<Finding> {
    let local = results.ping_pong_us(Local, 1)?;
    Ok(Finding::sides(results.ping_pong_us(Remote, 1)? - local, local).unit("us"))
}

pub(super) const CHECKS: &[Check] = &[
    check("fig5/bandwidth-disparity/inbound", Overhead, |r| number(r.bandwidth_disparity(Receive))),
    check("fig5/bandwidth-disparity/outbound", Overhead, outbound),
    check("fig5/order/outbound-worse", Order, |r| {
        let of = |card| r.bandwidth_disparity(card);
        Ok(Finding::sides(of(Send)?, of(Receive)?).unit("%"))
    }),
    check("fig5/ping-pong-extra", Rounded, extra),
    check("fig5/ping-pong-small-share", Order, small_share),
    check("abstract/nic/degradation", Overhead, outbound)
        .reading("the outbound figure, averaged over sizes"),
    check("abstract/nic/ping-pong-disparity", Rounded, extra),
    check("intro/nic/degradation", Overhead, outbound)
        .reading("the outbound figure, averaged over sizes"),
    check("eq1/disparity", Exact, |_| {
        Ok(Finding::fact(disparity(90.0, 100.0) == 10.0 && disparity(110.0, 100.0) == 10.0))
    }),
    check("fig5/param/iperf-connections", Exact, |r| number(r.number("soc.cores"))),
    check("fig5/param/mtu", Exact, |r| number(r.number("nic.mtu"))),
    check("fig5/param/netpipe-size", Bound, |r| {
        let most = r.effort.messages().iter().copied().max().unwrap_or_default();
        Ok(Finding::number(f64::from(most)))
    }),
];
