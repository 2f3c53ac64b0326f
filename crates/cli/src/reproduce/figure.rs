//! The parts of the paper.

/// A table, a figure or another part that can be asked for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Queue pairs at the edge against loads.
    Table1,
    /// Parameters.
    Table2,
    /// Latency of a block, part by part.
    Table3,
    /// More hops between chips.
    Fig5,
    /// Latency by size.
    Fig6,
    /// Bandwidth by size.
    Fig7,
    /// Routing on the mesh.
    Routing,
    /// Latency on NOC-Out.
    Fig9,
    /// Bandwidth on NOC-Out.
    Fig10,
    /// What the paper says would happen with something left out or added.
    Ablations,
}

impl Figure {
    /// All, in the paper's order.
    pub const ALL: [Figure; 10] = [
        Figure::Table1,
        Figure::Table2,
        Figure::Table3,
        Figure::Fig5,
        Figure::Fig6,
        Figure::Fig7,
        Figure::Routing,
        Figure::Fig9,
        Figure::Fig10,
        Figure::Ablations,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Table1 => "table1",
            Figure::Table2 => "table2",
            Figure::Table3 => "table3",
            Figure::Fig5 => "fig5",
            Figure::Fig6 => "fig6",
            Figure::Fig7 => "fig7",
            Figure::Routing => "routing",
            Figure::Fig9 => "fig9",
            Figure::Fig10 => "fig10",
            Figure::Ablations => "ablations",
        }
    }

    /// What it is about.
    pub fn title(self) -> &'static str {
        match self {
            Figure::Table1 => "Table 1: queue pairs at the edge against loads and stores",
            Figure::Table2 => "Table 2 and sections 3 to 6: parameters",
            Figure::Table3 => "Table 3: latency of a single-block remote read",
            Figure::Fig5 => "Figure 5: more network hops",
            Figure::Fig6 => "Figure 6: latency by size",
            Figure::Fig7 => "Figure 7: bandwidth by size",
            Figure::Routing => "Sections 4.3 and 6.2: routing",
            Figure::Fig9 => "Figure 9: latency on NOC-Out",
            Figure::Fig10 => "Figure 10: bandwidth on NOC-Out",
            Figure::Ablations => "Ablations: what the paper states and does not measure",
        }
    }

    /// The part of this name.
    pub fn find(name: &str) -> Option<Figure> {
        Figure::ALL.into_iter().find(|figure| figure.name() == name)
    }

    /// The part that a claim belongs to by its name, for claims that no check assigns.
    pub fn of_id(short_id: &str) -> Option<Figure> {
        let first = short_id.split('/').next().unwrap_or_default();
        match first {
            "sec3-1" | "fig2" => Some(Figure::Table1),
            "sec5" | "sec4-1" | "sec4-2" | "sec3-2" | "sec3-3" => Some(Figure::Table2),
            "sec6-1-1" => Some(Figure::Table3),
            "sec4-3" => Some(Figure::Routing),
            "noc-out" => Some(Figure::Fig10),
            "sec3-4" => Some(Figure::Ablations),
            name => Figure::find(name),
        }
    }
}
