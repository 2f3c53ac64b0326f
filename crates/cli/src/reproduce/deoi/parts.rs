//! The parts of the paper.

use crate::reproduce::paper::Part;

/// Architecture of module and prototype.
pub const TABLE1: Part = Part { name: "table1", title: "Section III and Table I: architecture" };
/// Random remote reads.
pub const FIG4: Part = Part { name: "fig4", title: "Figure 4: a remote read, layer by layer" };
/// The remote network card.
pub const FIG5: Part = Part { name: "fig5", title: "Figure 5: a remote network interface" };
/// The key-value cache, by capacity.
pub const FIG7: Part = Part { name: "fig7", title: "Figure 7: Redis with additional memory" };
/// The key-value cache, by field size and latency.
pub const FIG8: Part = Part { name: "fig8", title: "Figure 8: Redis by value size and latency" };
/// Logic.
pub const COST: Part = Part { name: "cost", title: "Section IV-D: hardware cost" };

/// All, in the paper's order.
pub const ALL: [Part; 6] = [TABLE1, FIG4, FIG5, FIG7, FIG8, COST];

/// The part that a claim belongs to by its name, for claims that no check assigns.
pub fn of_id(short_id: &str) -> Option<Part> {
    match short_id.split('/').next().unwrap_or_default() {
        "arch" | "proto" | "motivation" => Some(TABLE1),
        "abstract" | "intro" => Some(FIG4),
        "eq1" => Some(FIG5),
        "redis" => Some(FIG7),
        name => ALL.into_iter().find(|part| part.name == name),
    }
}
