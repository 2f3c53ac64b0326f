//! The parts of the paper.

use crate::reproduce::paper::Part;

/// Queue pairs at the edge against loads.
pub const TABLE1: Part =
    Part { name: "table1", title: "Table 1: queue pairs at the edge against loads and stores" };
/// Parameters.
pub const TABLE2: Part = Part { name: "table2", title: "Table 2 and sections 3 to 6: parameters" };
/// Latency of a block, part by part.
pub const TABLE3: Part =
    Part { name: "table3", title: "Table 3: latency of a single-block remote read" };
/// More hops between chips.
pub const FIG5: Part = Part { name: "fig5", title: "Figure 5: more network hops" };
/// Latency by size.
pub const FIG6: Part = Part { name: "fig6", title: "Figure 6: latency by size" };
/// Bandwidth by size.
pub const FIG7: Part = Part { name: "fig7", title: "Figure 7: bandwidth by size" };
/// Routing on the mesh.
pub const ROUTING: Part = Part { name: "routing", title: "Sections 4.3 and 6.2: routing" };
/// Latency on NOC-Out.
pub const FIG9: Part = Part { name: "fig9", title: "Figure 9: latency on NOC-Out" };
/// Bandwidth on NOC-Out.
pub const FIG10: Part = Part { name: "fig10", title: "Figure 10: bandwidth on NOC-Out" };
/// Effects of parts left out or added, which the paper states and does not measure.
pub const ABLATIONS: Part =
    Part { name: "ablations", title: "Ablations: what the paper states and does not measure" };

/// All, in the paper's order.
pub const ALL: [Part; 10] =
    [TABLE1, TABLE2, TABLE3, FIG5, FIG6, FIG7, ROUTING, FIG9, FIG10, ABLATIONS];

/// The part that a claim belongs to by its name, for claims that no check assigns.
pub fn of_id(short_id: &str) -> Option<Part> {
    let first = short_id.split('/').next().unwrap_or_default();
    match first {
        "sec3-1" | "fig2" => Some(TABLE1),
        "sec5" | "sec4-1" | "sec4-2" | "sec3-2" | "sec3-3" => Some(TABLE2),
        "sec6-1-1" => Some(TABLE3),
        "sec4-3" => Some(ROUTING),
        "noc-out" => Some(FIG10),
        "sec3-4" => Some(ABLATIONS),
        name => ALL.into_iter().find(|part| part.name == name),
    }
}
