//! Sections 3 to 5: mechanisms, shown by a test of them that runs on the model or read off the headers
//! that programs include; and parameters of the prototype.

use super::{Check, check, number, shown, true_by};
use crate::reproduce::cache_integrated_ni::results::{Known, Results};
use crate::reproduce::tolerance::Class::{Bound, Exact, Order, UpTo};
use crate::reproduce::verdict::Finding;

const NILIB: &str = include_str!("../../../../../../include/scratchpad/nilib.h");
const SCRLIB: &str = include_str!("../../../../../../include/scratchpad/scrlib.h");

/// A number that a header gives a name: `#define NAME 1`, or in an `enum { NAME = 1, ... }`.
fn defined(header: &str, name: &str) -> Known<f64> {
    let mut words =
        header.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty());
    let found = words.by_ref().find(|&word| word == name).and_then(|_| words.next());
    let value = found.and_then(|word| word.parse().ok());
    value.ok_or_else(|| format!("the header does not say what {name} is"))
}

/// Stores that start a copy: assignments to words of the command in the body of its function.
fn stores_of_a_copy() -> Known<f64> {
    let body = NILIB.split("void ni_copy(").nth(1).and_then(|rest| rest.split("\n}").next());
    let body = body.ok_or("nilib.h has no ni_copy")?;
    Ok(body.lines().filter(|line| line.trim_start().starts_with("command[")).count() as f64)
}

fn copy(results: &Results) -> Known<Finding> {
    results.passed(&["any-order", "put"])?;
    Ok(Finding::number(stores_of_a_copy()?).remark("the stores of ni_copy()"))
}

fn kilobytes(results: &Results, path: &str) -> Known<Finding> {
    number(Ok(results.machine_number(false, path)? / 1024.0))
}

pub(super) const CHECKS: &[Check] = &[
    check("stream/dma/instructions", Exact, copy),
    check("proto/rdma-initiation-stores", Exact, copy),
    check("stream/dma/max-size", UpTo, |r| {
        r.passed(&["longest"])?;
        number(Ok(defined(NILIB, "NI_MOST_COPY_BYTES")? / 1024.0))
    }),
    check("sect541/barrier/trigger-value", Exact, |r| shown(r, &["notify", "barriers"], 0.0)),
    check("proto/cores", Exact, |r| {
        let of = |path| r.machine_number(false, path);
        number(Ok(of("tiles.columns")? * of("tiles.rows")?))
    }),
    check("proto/l1i-size", Exact, |r| kilobytes(r, "cpu.icache_bytes")),
    check("proto/l1d-size", Exact, |r| kilobytes(r, "l1.size_bytes")),
    check("proto/l2-size", Exact, |r| kilobytes(r, "l2.size_bytes")),
    check("proto/ni-level", Exact, |r| {
        let is_there = r.machine_word("ni.placement")? == "cache-integrated";
        Ok(Finding::fact(is_there).remark("ni.placement: merged with the private L2"))
    }),
    check("proto/interconnect", Exact, |r| {
        Ok(Finding::fact(r.machine_word("noc.topology")? == "crossbar"))
    }),
    check("proto/lock-box", Exact, |r| {
        let locks = r.machine_number(false, "scratchpad.locks")?;
        Ok(Finding::fact(locks > 0.0).remark(format!("{locks} locks")))
    }),
    check("proto/esl-types", Exact, |r| {
        shown(r, &["any-order", "counter", "sr-queue", "mr-data"], 3.0)
            .map(|found| found.remark("command buffers, counters, queues of two kinds"))
    }),
    check("proto/event-response-mechanisms", Exact, |r| {
        shown(r, &["any-order", "counter", "sr-queue", "mr-data"], 4.0)
    }),
    check("proto/counter-notification-addresses", Bound, |r| {
        r.passed(&["notify"])?;
        number(defined(SCRLIB, "SCR_COUNTER_TARGETS"))
    }),
    check("proto/gran-partitioning", Exact, |r| {
        shown(r, &["memory", "cache-pressure", "give-back"], 1.0)
    }),
    check("proto/rdma-endpoints", Exact, |r| true_by(r, &["put", "get", "others", "dram"])),
    check("proto/programming-model", Exact, |r| true_by(r, &["remote-load", "remote-store"])),
    check("func/ack/no-ack-of-ack", Exact, |r| shown(r, &["ack-at-lines"], 0.0)),
    check("func/ack/write-size", Exact, |r| shown(r, &["ack-of-writes", "ack-of-answers"], 1.0)),
    check("func/ack/read-to-scratchpad", Order, |r| true_by(r, &["get", "ack-of-answers"])),
    check("func/ack/read-to-queue", Order, |r| true_by(r, &["mr-requests", "mr-waits"])),
    check("func/command-buffer/any-order", Exact, |r| shown(r, &["any-order", "incomplete"], 0.0)),
    check("func/counter/notify-and-reset", Exact, |r| shown(r, &["counter", "notify"], 0.0)),
    check("func/counter/value-offset", Exact, |r| {
        r.passed(&["counter"])?;
        number(defined(SCRLIB, "SCR_COUNTER_VALUE"))
    }),
    check("func/srq/item-size", Exact, |r| true_by(r, &["sr-queue", "long-items"])),
    check("func/mrq/match", Exact, |r| shown(r, &["mr-data", "mr-requests", "tokens"], 1.0)),
    check("func/mrq/dispatch-order", Order, |r| true_by(r, &["mr-data", "mr-requests"])),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_and_others_are_not() {
        let header = "#define A_B 1\n#define A 25\nenum { C = 3, D = C };";
        assert_eq!(defined(header, "A"), Ok(25.0));
        assert_eq!(defined(header, "C"), Ok(3.0));
        assert!(defined(header, "B").is_err());
        assert!(defined(header, "D").is_err());
        assert_eq!(defined(NILIB, "NI_MOST_COPY_BYTES"), Ok(65536.0));
        assert_eq!(stores_of_a_copy(), Ok(4.0));
    }
}
