//! Tolerances of claims: one table for all, each row with its reason.

use serde::Deserialize;

/// Way to judge a claim; each has a row in the table of tolerances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A parameter that the machine or a run has or has not.
    Exact,
    /// End-to-end latency.
    Total,
    /// A latency that is published with one or two digits, and with less about the machine.
    Rounded,
    /// A part of a latency.
    Component,
    /// A latency overhead in per cent.
    Overhead,
    /// Bandwidth, which depends on arbitration and buffers that are not published.
    Bandwidth,
    /// A ratio of two measured values.
    Ratio,
    /// One end of a range.
    Range,
    /// A limit.
    Bound,
    /// "Up to": the extreme of a range.
    UpTo,
    /// One side against the other.
    Order,
    /// "Efficiently uses", "utilises": the left side comes up to the right one.
    Reaches,
    /// A measurement of the runtime on this host.
    Host,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative deviation that is allowed.
    pub relative: f64,
    /// Deviation that is allowed however small the value is, in its unit.
    pub absolute: f64,
    /// The allowed deviation in words.
    pub words: &'static str,
    /// Reason for this tolerance.
    pub reason: &'static str,
}

impl Class {
    /// Every class, in the order of the table.
    pub const ALL: [Class; 13] = [
        Class::Exact,
        Class::Total,
        Class::Rounded,
        Class::Component,
        Class::Overhead,
        Class::Bandwidth,
        Class::Ratio,
        Class::Range,
        Class::Bound,
        Class::UpTo,
        Class::Order,
        Class::Reaches,
        Class::Host,
    ];

    /// Name of the class in tables.
    pub fn name(self) -> &'static str {
        match self {
            Class::Exact => "parameter",
            Class::Total => "end-to-end latency",
            Class::Rounded => "rounded latency",
            Class::Component => "part of a latency",
            Class::Overhead => "overhead in per cent",
            Class::Bandwidth => "bandwidth",
            Class::Ratio => "ratio",
            Class::Range => "end of a range",
            Class::Bound => "limit",
            Class::UpTo => "\"up to\"",
            Class::Order => "ordering",
            Class::Reaches => "\"uses fully\"",
            Class::Host => "runtime on this host",
        }
    }

    /// The table.
    pub fn tolerance(self) -> Tolerance {
        let row =
            |relative, absolute, words, reason| Tolerance { relative, absolute, words, reason };
        match self {
            Class::Exact => row(1e-9, 0.0, "no deviation", "it is set, or is so by construction"),
            Class::Total => row(
                0.05,
                0.0,
                "5 %",
                "errors of components partly cancel, and designs differ by much more than 5 %",
            ),
            Class::Rounded | Class::Bandwidth => row(0.10, 0.0, "10 %", "the rule for values"),
            Class::Component => row(
                0.10,
                1.0,
                "10 % or 1 of its unit",
                "the rule for values; components are printed in whole cycles, and an end of one lies between two",
            ),
            Class::Overhead => row(
                0.10,
                1.0,
                "10 % or 1 percentage point",
                "the rule for values; the difference of two totals is not known better than to a point",
            ),
            Class::Ratio => row(
                0.10,
                0.0,
                "10 %; of a ratio near 1, 10 % of its distance from 1",
                "the rule for values; that two things are nearly alike says nothing of how they differ",
            ),
            Class::Range => row(
                0.10,
                0.0,
                "10 %, on either side",
                "both ends of a range are values: a range that is much narrower is another result",
            ),
            Class::Bound => row(0.0, 0.0, "none", "a limit is a limit"),
            Class::UpTo => row(
                0.10,
                0.0,
                "10 %, on either side",
                "the extreme of what the paper measured is a value, too",
            ),
            Class::Order => row(
                0.10,
                0.0,
                "1 % at least between both sides; 10 % at most where the paper says that they are alike",
                "with other seeds the median quantity of Manycore NI moves by a tenth of a per cent; no ordering turns",
            ),
            Class::Reaches => row(
                0.10,
                0.0,
                "10 % of the right side, on either side",
                "as for bandwidth, of which it is a claim; much more is another machine",
            ),
            Class::Host => row(
                0.50,
                0.0,
                "the order; a ratio on the same side of 1; 50 % where both are alike",
                "another host with other times, and whoever else is busy on it",
            ),
        }
    }
}

/// Part of the larger side by which the sides of an ordering have to differ.
pub const MARGIN: f64 = 0.01;
