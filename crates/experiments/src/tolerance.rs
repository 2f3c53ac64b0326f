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
    /// A ratio that the paper has from a simulator of which it gives no parameter; or one end of a range
    /// of such.
    Simulated,
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
    /// The same for claims that the paper itself marks as approximate (`~`).
    pub relative_if_about: f64,
    /// Deviation that is allowed however small the value is, in its unit.
    pub absolute: f64,
    /// The allowed deviation in words.
    pub words: &'static str,
    /// Reason for this tolerance.
    pub reason: &'static str,
}

impl Class {
    /// Every class, in the order of the table.
    pub const ALL: [Class; 14] = [
        Class::Exact,
        Class::Total,
        Class::Rounded,
        Class::Component,
        Class::Overhead,
        Class::Bandwidth,
        Class::Ratio,
        Class::Range,
        Class::Simulated,
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
            Class::Simulated => "ratio by another simulator",
            Class::Bound => "limit",
            Class::UpTo => "\"up to\"",
            Class::Order => "ordering",
            Class::Reaches => "\"uses fully\"",
            Class::Host => "runtime on this host",
        }
    }

    /// The table.
    pub fn tolerance(self) -> Tolerance {
        let row = |relative, relative_if_about, absolute, words, reason| Tolerance {
            relative,
            relative_if_about,
            absolute,
            words,
            reason,
        };
        match self {
            Class::Exact => row(1e-9, 1e-9, 0.0, "no deviation", "it is set, not measured"),
            Class::Total => row(
                0.05,
                0.05,
                0.0,
                "5 %",
                "errors of components partly cancel, and designs differ by much more than 5 %",
            ),
            Class::Rounded => row(
                0.10,
                0.15,
                0.0,
                "10 % (15 % if the paper says ~)",
                "printed with one or two digits, of which the last alone is up to 17 %",
            ),
            Class::Component => row(
                0.15,
                0.15,
                4.0,
                "15 % or 4 cycles",
                "where one component ends and the next begins is not published; a cycle or two at \
                 each end of a part of ten cycles says nothing",
            ),
            Class::Overhead => row(
                0.0,
                0.0,
                3.0,
                "3 percentage points",
                "the difference of two totals; a relative limit would be meaningless near zero",
            ),
            Class::Bandwidth => row(
                0.10,
                0.15,
                0.0,
                "10 % (15 % if the paper says ~)",
                "depends on arbitration and buffers, of which nothing is published",
            ),
            Class::Ratio => row(
                0.10,
                0.15,
                0.0,
                "10 % (15 % if the paper says ~)",
                "as bandwidth; what is common to both values cancels",
            ),
            Class::Range => row(
                0.10,
                0.10,
                0.0,
                "10 % outside; of the upper end, at least half",
                "as a ratio; a range that does not come up to half of its upper end is another result",
            ),
            Class::Simulated => row(
                0.15,
                0.15,
                0.0,
                "15 %; of the ends of a range, outside",
                "the paper gives no parameter of the chip that it simulates, and says \"about\"",
            ),
            Class::Bound => row(0.0, 0.0, 0.0, "none", "a limit is a limit"),
            Class::UpTo => row(
                0.10,
                0.10,
                0.0,
                "10 % above, and at least half of it",
                "the paper rounds the extreme of what it measured (its own 80 % is 80.3 %); a range \
                 that does not come up to half of it is another result",
            ),
            Class::Order => row(
                0.0,
                0.10,
                0.0,
                "strict; 10 % where the paper says that both are alike",
                "an ordering is what the paper concludes from its figures",
            ),
            Class::Reaches => row(
                0.10,
                0.10,
                0.0,
                "at least 90 % of the right side",
                "as for bandwidth, of which it is a claim",
            ),
            Class::Host => row(
                0.0,
                0.50,
                0.0,
                "the order; a ratio on the same side of 1; 50 % where both are alike",
                "another host with other times, and whoever else is busy on it",
            ),
        }
    }
}

/// Part of its value that an "up to" has to come up to, and the upper end of a range.
pub const UP_TO_LEAST: f64 = 0.5;
