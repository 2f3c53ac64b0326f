//! The parts of the paper.

use crate::reproduce::paper::Part;

/// Measurements of interconnects by others.
pub const BACKGROUND: Part =
    Part { name: "background", title: "Section 1 and Table 1: traffic and interconnects" };
/// Loads, stores and DMA over PCIe.
pub const TABLE2: Part =
    Part { name: "table2", title: "Table 2 and section 2.1: transfers over PCIe" };
/// The block driver.
pub const ORION: Part = Part { name: "orion", title: "Figure 4: remote memory as a block device" };
/// Write policy, atomics and the microbenchmarks on the prototype.
pub const FIG5: Part =
    Part { name: "fig5", title: "Figure 5 and section 2.1.2: caching remote memory over PCIe" };
/// User-level communication.
pub const COMM: Part = Part { name: "comm", title: "Section 2.2: user-level communication" };
/// The simulator: write policy and outstanding requests.
pub const FIG8: Part =
    Part { name: "fig8", title: "Table 3 and Figure 8: write policy and outstanding requests" };
/// The simulator: prefetching.
pub const FIG9: Part = Part { name: "fig9", title: "Figure 9: prefetching remote memory" };
/// The customised protocol.
pub const THUNDER: Part =
    Part { name: "thunder", title: "Section 4.2 and Table 4: the protocol Thunder" };
/// Queue pairs of Thunder.
pub const QPAIR: Part = Part { name: "qpair", title: "Figures 10 and 11: queue pairs of Thunder" };

/// All, in the paper's order.
pub const ALL: [Part; 9] = [BACKGROUND, TABLE2, ORION, FIG5, COMM, FIG8, FIG9, THUNDER, QPAIR];

/// The part that a claim belongs to by its name, for claims that no check assigns.
pub fn of_id(short_id: &str) -> Option<Part> {
    match short_id.split('/').next().unwrap_or_default() {
        "table1" | "traffic" => Some(BACKGROUND),
        "sect212" | "tlp" | "pcie" => Some(TABLE2),
        "write-policy" | "atomics" => Some(FIG5),
        "table3" | "sim" => Some(FIG8),
        "intro" | "prefetch" => Some(FIG9),
        "table4" | "fpga" => Some(THUNDER),
        name => ALL.into_iter().find(|part| part.name == name),
    }
}
