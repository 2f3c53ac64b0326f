//! `rackmem accuracy`: what the model's numbers are worth, on one page.
//!
//! [`figures`] collects what is held against something else, [`litmus`] what is held against RVWMO; [`page`] writes
//! both as HTML and CSV.

pub mod figures;
pub mod litmus;
pub mod page;

use std::path::Path;

use rackmem_experiments::document::Document;
use rackmem_experiments::outcome::Outcome;
use rackmem_experiments::prebuilt;
use rackmem_experiments::run::Run;
use rackmem_experiments::{Effort, Known};
use rackmem_sim::cpu::CpuSpec;
use rackmem_sim::litmus::suite::Summary;
use rackmem_sim::reference::{dram, instructions, noc, queueing};

use self::figures::Figure;
use crate::console;
use crate::failure::{Failure, Result};
use crate::reproduce::{self, Options};

/// All that the page shows.
pub struct Accuracy {
    /// Amount of work: `quick` or `full`.
    pub effort: &'static str,
    /// What the reproduction of each paper gives.
    pub papers: Vec<Outcome>,
    /// Networks beside the reference's curves.
    pub networks: Vec<noc::Comparison>,
    /// Memories beside the reference's table.
    pub memories: Vec<Memory>,
    /// The memory ordering of cores.
    pub litmus: Summary,
    /// Every quantity that has a value to be held against, worst first.
    pub figures: Vec<Figure>,
}

/// A row of the reference's table of memories, with what the model gives.
pub struct Memory {
    /// The reference's row.
    pub row: dram::Row,
    /// The reference's quantity and the model's.
    pub compared: (f64, f64),
}

/// Runs the experiments of these papers, and all else.
///
/// # Errors
/// A reference cannot be read, or a litmus test does not come to its end.
pub fn collect(
    documents: &[Document],
    effort: Effort,
    references: Option<&Path>,
    seeds: u64,
    threads: usize,
) -> Result<Accuracy> {
    let (networks, memories) = match references {
        None => (vec![], vec![]),
        Some(folder) => (networks(folder, seeds)?, memories(folder)?),
    };
    console::remark("litmus tests");
    let litmus = litmus::collect(effort, threads)?;
    let mut papers = Vec::new();
    let mut figures = Vec::new();
    for document in documents {
        console::remark(&format!("experiments of {}", document.paper));
        let (outcome, runs) = reproduced(document, effort, threads);
        figures.extend(figures::of_paper(&outcome, &runs));
        papers.push(outcome);
    }
    figures.extend(networks.iter().flat_map(figures::of_network));
    figures.extend(memories.iter().map(figures::of_memory));
    console::remark("instruction sets and queueing identities");
    figures.extend(programs()?);
    let identities = queueing::identities().map_err(Failure::new)?;
    figures.extend(identities.iter().map(figures::of_identity));
    figures.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
    Ok(Accuracy { effort: effort.name(), papers, networks, memories, litmus, figures })
}

/// Verdicts on the claims that the model can show, and the runs behind them; claims about this host are left out.
fn reproduced(document: &Document, effort: Effort, threads: usize) -> (Outcome, Vec<Run>) {
    let options = Options { graph: None, cores: "executed" };
    let mut session = reproduce::session(document, effort, None, &options);
    let only_model: Known<()> = Err("the page is about the model".to_owned());
    session.abilities.values_mut().for_each(|ability| *ability = only_model.clone());
    reproduce::make_all_runs(&mut session, threads);
    let runs = session.runs().map(|(run, _)| run.clone()).collect();
    (reproduce::outcome(&session), runs)
}

/// Ready-built programs that do their work alone, and their arguments.
const ALONE: [&[&str]; 4] =
    [&["hello"], &["pagerank", "--kronecker", "6"], &["rack_test"], &["tsm_kernels"]];

fn programs() -> Result<Vec<Figure>> {
    let figure = |args: &&[&str]| {
        let file = prebuilt::find(args[0]).unwrap_or_default();
        let found = instructions::compare(file, args, &CpuSpec::default());
        let found = found.map_err(|error| Failure::new(format!("{}: {error}", args[0])))?;
        Ok(figures::of_program(args[0], &found))
    };
    ALONE.iter().map(figure).collect()
}

fn networks(folder: &Path, seeds: u64) -> Result<Vec<noc::Comparison>> {
    let folder = folder.join("noc");
    if !folder.is_dir() {
        return Ok(vec![]);
    }
    let cases = noc::cases(&folder).map_err(Failure::new)?;
    let compared = cases.iter().map(|case| {
        console::remark(&format!("network {}", case.name));
        case.compare(seeds)
    });
    compared.collect::<std::result::Result<_, _>>().map_err(Failure::new)
}

fn memories(folder: &Path) -> Result<Vec<Memory>> {
    let file = folder.join("dram").join("dramsim3.csv");
    if !file.is_file() {
        return Ok(vec![]);
    }
    console::remark("memories");
    let memory = |row: dram::Row| {
        let report = row.simulate()?;
        Ok(Memory { compared: row.compared(&report), row })
    };
    dram::rows(&file).and_then(|rows| rows.into_iter().map(memory).collect()).map_err(Failure::new)
}
