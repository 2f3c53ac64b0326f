//! RVWMO as axioms (unprivileged specification, chapter "RVWMO Memory Consistency Model").
//!
//! A candidate is a path through each thread, a source for each load, and an order of the stores to each
//! location (*coherence*). It is allowed if some total order of all operations, the global memory
//! order, exists that has the preserved program order (`order`) and gives each load the value that
//! the axioms say. That is so if there is no cycle in these pairs, each of which such an order must
//! have:
//!
//! - the preserved program order (13 rules);
//! - stores of one location, in coherence order;
//! - a store before the loads of other threads that read it;
//! - a load before the stores that come, in coherence order, behind the one that it read;
//!
//! and if, besides, no load reads a store that is later in its own program order, or one that is
//! overwritten by a store before the load in program order (both by the load value axiom), and
//! nobody stores between the two halves of a pair of `lr` and `sc` (atomicity). Tests end, so
//! that the progress axiom asks for nothing.
//!
//! A candidate is sequentially consistent if there is no cycle with all of the program order in
//! place of the preserved one, either.

mod event;
mod execution;
#[cfg(test)]
mod literal;
mod order;
mod path;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use self::event::Path;
use self::execution::Execution;
use self::path::{Domain, Explorer};
use super::test::{Layout, Location, Outcome, Test};

/// Times that a thread goes backwards at most.
pub const LOOPS: usize = 2;

/// Candidates of a test at most.
const CANDIDATES: u64 = 20_000_000;

/// Distance of locations while candidates are made.
const APART: u64 = 0x1000;

/// A test that has too many executions, or executions that end nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Excess {
    /// Memory operations.
    #[error("more than {} memory operations", event::EVENTS)]
    Events,
    /// Ways through a thread.
    #[error("too many ways through a thread")]
    Paths,
    /// Choices of sources and orders.
    #[error("more than {CANDIDATES} candidates of executions")]
    Candidates,
    /// An execution accesses this address, which is that of no location.
    #[error("an access of {0:#x}, which is no location")]
    Nowhere(u64),
}

/// What the model allows a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Outcomes, and whether each is sequentially consistent.
    pub outcomes: BTreeMap<Outcome, bool>,
}

impl Allowed {
    /// Number of outcomes that are not sequentially consistent.
    pub fn relaxed(&self) -> usize {
        self.outcomes.values().filter(|is_sequential| !**is_sequential).count()
    }
}

/// The outcomes that RVWMO allows.
///
/// # Errors
/// There are too many executions, or one accesses what is no location.
pub fn allowed(test: &Test) -> Result<Allowed, Excess> {
    let layout = layout(test);
    let paths = paths(test, &layout)?;
    let mut search =
        Search { test, layout: &layout, outcomes: BTreeMap::new(), left: CANDIDATES, trap: None };
    search.threads(&paths, &mut Vec::new())?;
    match search.trap {
        Some(address) => Err(Excess::Nowhere(address)),
        None => Ok(Allowed { outcomes: search.outcomes }),
    }
}

fn layout(test: &Test) -> Layout {
    // Positive in 32 bits, and far from small numbers.
    let address = |place: usize| 0x40_0000 + place as u64 * APART;
    Layout { addresses: (0..test.locations.len()).map(address).collect() }
}

/// The bytes of each location at the start.
fn initial(test: &Test, layout: &Layout) -> Vec<u64> {
    let value = |location: &Location| test.stored(layout.bits(location.value));
    test.locations.iter().map(value).collect()
}

/// The paths of each thread, with all values that locations may have.
///
/// A value is stored by an instruction that has loaded others, which are stored by others; no execution has
/// more of these in a row than it has stores.
fn paths(test: &Test, layout: &Layout) -> Result<Vec<Vec<Path>>, Excess> {
    let mut domain: Domain =
        initial(test, layout).into_iter().map(|value| BTreeSet::from([value])).collect();
    for round in 0.. {
        let explore = |thread| Explorer::new(test, thread, layout, &domain).explore();
        let explored: Vec<Vec<Path>> =
            test.threads.iter().map(explore).collect::<Result<_, Excess>>()?;
        let mut is_new = false;
        for event in explored.iter().flatten().flat_map(|path| &path.events) {
            if let Some(value) = event.stores {
                is_new |= domain[event.place].insert(value);
            }
        }
        if !is_new || round >= most_stores(&explored) {
            return Ok(explored);
        }
    }
    unreachable!("a thread has a limited number of stores")
}

/// Number of stores of an execution at most.
fn most_stores(paths: &[Vec<Path>]) -> usize {
    let stores = |path: &Path| path.events.iter().filter(|event| event.stores.is_some()).count();
    paths.iter().map(|own| own.iter().map(stores).max().unwrap_or(0)).sum()
}

/// The search through all candidates.
struct Search<'a> {
    test: &'a Test,
    layout: &'a Layout,
    outcomes: BTreeMap<Outcome, bool>,
    left: u64,
    trap: Option<u64>,
}

impl<'a> Search<'a> {
    /// Chooses a path for each further thread.
    fn threads(
        &mut self,
        paths: &'a [Vec<Path>],
        chosen: &mut Vec<&'a Path>,
    ) -> Result<(), Excess> {
        let Some(own) = paths.get(chosen.len()) else {
            return self.executions(chosen);
        };
        for path in own {
            chosen.push(path);
            self.threads(paths, chosen)?;
            chosen.pop();
        }
        Ok(())
    }

    /// All candidates with these paths.
    fn executions(&mut self, paths: &[&Path]) -> Result<(), Excess> {
        if paths.iter().map(|path| path.events.len()).sum::<usize>() > event::EVENTS {
            return Err(Excess::Events);
        }
        let mut execution = Execution::new(paths, initial(self.test, self.layout));
        let trap = paths.iter().find_map(|path| path.trap);
        let (test, layout, outcomes) = (self.test, self.layout, &mut self.outcomes);
        let found = &mut self.trap;
        let left = execution.candidates(self.left, |candidate, is_sequential| {
            if trap.is_some() {
                *found = trap;
                return;
            }
            let outcome = candidate.outcome(test, layout, paths);
            *outcomes.entry(outcome).or_insert(false) |= is_sequential;
        });
        self.left = left.ok_or(Excess::Candidates)?;
        Ok(())
    }
}
