//! Sections 3 to 6: the interface to programs and other nodes, read off the code that all programs and the
//! model are built from.

use rackmem_abi::{HEADER_BYTES, LINE_BYTES, PACKET_BYTES};

use super::parameters::in_flight;
use super::{Check, check, number};
use crate::reproduce::sonuma::experiment::Work;
use crate::reproduce::sonuma::results::{Known, Results, counter};
use crate::reproduce::tolerance::Class::{Bound, Exact};
use crate::reproduce::verdict::Finding;

/// PageRank as programs include it.
const PAGERANK: &str = include_str!("../../../../../../programs/pagerank/pagerank.h");

fn constant(value: usize) -> Known<Finding> {
    Ok(Finding::number(value as f64))
}

/// Value of a definition in a C header.
fn defined(header: &str, name: &str) -> Known<f64> {
    let value = header.lines().find_map(|line| {
        let (known, value) = line.strip_prefix("#define ")?.split_once(' ')?;
        (known == name).then(|| value.trim().parse().ok())?
    });
    value.ok_or_else(|| format!("the program defines no {name}"))
}

/// Events of RMCs for each request of reads from both sides.
fn per_request(results: &Results, counter: &str) -> Known<Finding> {
    let count = |counter| results.count(Work::Reads { both: true }, counter);
    number(Ok(count(counter)? / count(counter::REQUESTS)?))
}

pub(super) const CHECKS: &[Check] = &[
    check("sec3/fabric/packet", Bound, |_| constant(PACKET_BYTES - HEADER_BYTES)),
    check("sec4-1/atomicity", Exact, |_| constant(LINE_BYTES)),
    check("sec4-2/unroll-granularity", Exact, |_| constant(LINE_BYTES)),
    check("sec4-2/rrpp-always-replies", Exact, |r| per_request(r, counter::SERVED)),
    check("sec4-3/maq-limit", Bound, |r| number(in_flight(r))),
    check("sec6/mtu", Bound, |_| constant(PACKET_BYTES - HEADER_BYTES)),
    check("sec6/replies-per-request", Exact, |r| per_request(r, counter::REPLIES)),
    check("fig4/pagerank-damping", Exact, |_| number(defined(PAGERANK, "PAGERANK_DAMPING"))),
    check("fig4/pagerank-base", Exact, |_| {
        let damping = defined(PAGERANK, "PAGERANK_DAMPING")?;
        Ok(Finding::number(1.0 - damping).remark("the program has 1 less the damping factor"))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_and_others_are_not() {
        assert_eq!(defined("#define A_B 1\n#define A 0.25\n", "A"), Ok(0.25));
        assert!(defined("#define A_B 1\n", "A").is_err());
        assert!(defined("#define A x\n", "A").is_err());
    }
}
