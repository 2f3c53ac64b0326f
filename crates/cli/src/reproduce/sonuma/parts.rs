//! The parts of the paper.

use crate::reproduce::paper::Part;

/// The interface to programs and other nodes.
pub const INTERFACE: Part =
    Part { name: "interface", title: "Sections 3 to 6: interface and protocol" };
/// Parameters.
pub const TABLE1: Part = Part { name: "table1", title: "Table 1 and section 7.1: parameters" };
/// Remote reads.
pub const FIG7: Part = Part { name: "fig7", title: "Figure 7: remote reads" };
/// Messages.
pub const FIG8: Part = Part { name: "fig8", title: "Figure 8: send and receive" };
/// Beside other networks.
pub const TABLE2: Part = Part { name: "table2", title: "Table 2: against InfiniBand" };
/// PageRank.
pub const FIG9: Part = Part { name: "fig9", title: "Figure 9: PageRank" };

/// All, in the paper's order.
pub const ALL: [Part; 6] = [INTERFACE, TABLE1, FIG7, FIG8, TABLE2, FIG9];

/// The part that a claim belongs to by its name, for claims that no check assigns.
pub fn of_id(short_id: &str) -> Option<Part> {
    let first = short_id.split('/').next().unwrap_or_default();
    match first {
        "sec4-1" | "sec4-2" | "sec4-3" | "sec5-3" | "sec6" | "fig4" => Some(INTERFACE),
        "sec7-1" | "devplat" => Some(TABLE1),
        "fig7a" | "fig7b" | "fig7c" => Some(FIG7),
        "fig8a" | "fig8b" | "fig8c" => Some(FIG8),
        "sec7-4" => Some(TABLE2),
        name => ALL.into_iter().find(|part| part.name == name),
    }
}
