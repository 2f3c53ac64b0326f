//! Reports as a perfect model would give them, made from the claims themselves: if the wiring of
//! checks is right, all of them hold.

use rackmem_sim::report::{Latency, LinkLoad, Report, Stage, Window};

use super::PAPER;
use super::experiment::{Chip, Cores, Design, Experiment, Routing, Twist};
use super::results::Results;
use crate::reproduce::accounted::{self, Published};
use crate::reproduce::results::Effort;

const STAGES: [(Design, &str, &[&str]); 4] = [
    (
        Design::Edge,
        "ni-edge",
        &[
            "wq_write",
            "wq_read_rgp",
            "network_out",
            "rrpp",
            "network_back",
            "rcp_cq_write",
            "cq_read",
        ],
    ),
    (
        Design::PerTile,
        "ni-per-tile",
        &[
            "wq_write",
            "wq_transfer",
            "rgp",
            "to_edge",
            "network_out",
            "rrpp",
            "network_back",
            "to_rcp",
            "rcp",
            "cq_transfer",
            "cq_read",
        ],
    ),
    (
        Design::Split,
        "ni-split",
        &[
            "wq_write",
            "wq_transfer",
            "rgp_frontend",
            "to_backend",
            "rgp_backend",
            "network_out",
            "rrpp",
            "network_back",
            "rcp_backend",
            "to_rcp_frontend",
            "rcp_frontend",
            "cq_transfer",
            "cq_read",
        ],
    ),
    (Design::Numa, "numa", &["load", "to_edge", "network_out", "rrpp", "network_back", "to_core"]),
];

pub(super) struct Perfect {
    published: Published,
}

impl Perfect {
    pub(super) fn new() -> Perfect {
        Perfect { published: Published::of(&PAPER) }
    }

    fn value(&self, id: &str) -> f64 {
        self.published.value(id)
    }

    /// Reports of everything that a reproduction needs.
    pub(super) fn results(&self, effort: Effort) -> Results {
        accounted::filled(&PAPER, effort, Cores::Synthetic, |run| self.report(run))
    }

    pub(super) fn report(&self, run: Experiment) -> Report {
        let mut report = if run.loaded { self.loaded(run) } else { self.unloaded(run) };
        report.machine = run.name();
        report.stable = true;
        for (path, value) in [
            ("core.reads", 100.0),
            ("rrpp.lines", 1000.0),
            ("rcp.lines", 1000.0),
            ("rrpp.hops_mean", 4.5),
            ("rrpp.dram_share", 0.95),
            ("noc.edge_turns_directory", 0.0),
            ("home.messages_wq", 600.0),
            ("home.messages_cq", 600.0),
            ("home.writebacks_queues", if run.twist == Twist::NoOwnedState { 90.0 } else { 0.0 }),
            ("home.requests_queues", if run.twist == Twist::SeparateCache { 400.0 } else { 0.0 }),
        ] {
            report.stats.insert(path.to_owned(), value);
        }
        report
    }

    fn unloaded(&self, run: Experiment) -> Report {
        let (_, column, stages) = STAGES.iter().find(|(design, ..)| *design == run.design).unwrap();
        let named = |&name: &&'static str| {
            let id = name.replace('_', "-").replace("rgp-backend", "rgp-backend-inferred");
            let cycles = self.value(&format!("table3/{column}/{id}"));
            Stage { name, mean_cycles: on_chip(run, name, cycles) }
        };
        let breakdown: Vec<Stage> = stages.iter().map(named).collect();
        let sum: f64 = breakdown.iter().map(|stage| stage.mean_cycles).sum();
        let more_hops = f64::from(run.hops - 1) * 2.0 * self.value("fig5/hop-latency");
        let lines = f64::from(run.bytes / 64 - 1);
        let per_line = match (run.design, run.twist) {
            (Design::PerTile, Twist::WideNoc) => 4.0,
            (Design::PerTile, _) => 6.0,
            _ => 2.0,
        };
        let total = sum + more_hops + lines * per_line;
        let latency = Latency {
            count: 1,
            mean_cycles: total,
            min_cycles: total as u64,
            p50_cycles: total as u64,
            p99_cycles: total as u64,
            max_cycles: total as u64,
        };
        Report { latency: Some(latency), breakdown, ..Report::default() }
    }

    fn loaded(&self, run: Experiment) -> Report {
        let peak = self.value("fig7/ni-split/peak");
        let part = match (run.design, run.bytes) {
            (Design::Edge, ..=64) => 0.3,
            (Design::Edge, ..=512) => 0.7,
            (Design::Split, ..=64) => 0.5,
            (Design::Split, ..=512) => 0.9,
            (Design::PerTile, ..=64) => 0.45,
            (Design::PerTile, ..=512) => 0.4,
            (Design::PerTile, _) => 0.24,
            _ => 1.0,
        };
        let routed = match run.routing {
            Routing::CdrDirectory => 1.0,
            Routing::Cdr => 0.7,
            _ => self.value("fig7/no-cdr/peak") / peak,
        };
        let chip = if run.chip == Chip::NocOut { 0.6 } else { 1.0 };
        let twist = if run.twist == Twist::WideNoc { 1.5 } else { 1.0 };
        let app = peak * part * routed * chip * twist;
        let noc = app * self.value("fig7/noc-aggregate") / peak;
        let noc = if run.design == Design::PerTile { 2.0 * noc } else { noc };
        Report {
            windows: vec![Window { end_cycle: 1, app_gbps: app }],
            rcp_gbps: app / 2.0,
            rrpp_gbps: app / 2.0,
            app_gbps: app,
            noc_gbps: noc,
            links: links(run.routing),
            ..Report::default()
        }
    }
}

/// NOC-Out shortens the times on chip.
fn on_chip(run: Experiment, stage: &str, cycles: f64) -> f64 {
    if run.chip == Chip::Mesh || stage.starts_with("network") {
        return cycles;
    }
    match stage {
        "rrpp" => cycles * 0.63,
        _ if run.design == Design::Edge => cycles * 0.57,
        _ => cycles * 0.95,
    }
}

fn links(routing: Routing) -> Vec<LinkLoad> {
    let (memory, others) = if routing == Routing::CdrDirectory { (0.5, 0.5) } else { (0.9, 0.2) };
    let link = |from: (u16, u16), to, utilisation| LinkLoad { from, to, utilisation };
    let mut links = vec![link((4, 0), (5, 0), others)];
    for column in 0..10 {
        links.push(link((column, 0), (column, 1), if column == 9 { memory } else { others }));
    }
    links
}
