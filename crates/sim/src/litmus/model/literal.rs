//! The axioms by their letter: all total orders of all operations, for comparison with the search for cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Kind, Path, Set};
use super::execution::Execution;
use super::order::{always_preserved, preserved_by_values};
use super::{initial, layout, paths};
use crate::litmus::generate::built_in;
use crate::litmus::parse;
use crate::litmus::test::{Outcome, Test};

/// Most operations of tests that are compared.
const OPERATIONS: usize = 6;

struct Orders<'a> {
    test: &'a Test,
    paths: Vec<&'a Path>,
    execution: Execution,
    always: Vec<Set>,
    order: Vec<usize>,
    outcomes: BTreeSet<Outcome>,
}

fn outcomes(test: &Test) -> BTreeSet<Outcome> {
    let layout = layout(test);
    let all = paths(test, &layout).expect("it is a small test");
    let mut found = BTreeSet::new();
    let mut choice = vec![0; all.len()];
    loop {
        let chosen: Vec<&Path> = all.iter().zip(&choice).map(|(own, &path)| &own[path]).collect();
        let execution = Execution::new(&chosen, initial(test, &layout));
        let always = always_preserved(&execution);
        let (order, outcomes) = (Vec::new(), BTreeSet::new());
        let mut orders = Orders { test, paths: chosen, execution, always, order, outcomes };
        orders.extend();
        found.append(&mut orders.outcomes);
        let Some(thread) = (0..all.len()).find(|&thread| choice[thread] + 1 < all[thread].len())
        else {
            return found;
        };
        choice[..thread].fill(0);
        choice[thread] += 1;
    }
}

impl Orders<'_> {
    fn extend(&mut self) {
        let done: Set = self.order.iter().map(|&event| 1 << event).sum();
        let count = self.execution.events.len();
        if self.order.len() == count {
            return self.judge();
        }
        for event in 0..count {
            if done >> event & 1 == 0 && self.always[event] & !done == 0 {
                self.order.push(event);
                self.extend();
                self.order.pop();
            }
        }
    }

    fn judge(&mut self) {
        let count = self.execution.events.len();
        let mut at = vec![0; count];
        self.order.iter().enumerate().for_each(|(position, &event)| at[event] = position);
        let stores = |place| {
            let events = &self.execution.events;
            let is_store = move |&&event: &&usize| {
                events[event].place == place && events[event].stores.is_some()
            };
            self.order.iter().filter(is_store).copied().collect::<Vec<usize>>()
        };
        let places = self.execution.coherence.len();
        let coherence: Vec<Vec<usize>> = (0..places).map(stores).collect();
        let mut sources = vec![None; count];
        for load in 0..count {
            let event = &self.execution.events[load];
            let Some(value) = event.loads else { continue };
            // Stores before it in the global memory order, and those before it in program order.
            let candidates = coherence[event.place].iter().copied().filter(|&store| {
                store != load
                    && (at[store] < at[load] || self.execution.before[load] >> store & 1 != 0)
            });
            sources[load] = candidates.max_by_key(|&store| at[store]);
            let read = sources[load].and_then(|store: usize| self.execution.events[store].stores);
            let initial = initial(self.test, &layout(self.test))[event.place];
            if read.unwrap_or(initial) != value {
                return;
            }
        }
        self.execution.source = sources;
        self.execution.coherence = coherence;
        let is_kept = (0..count).all(|event| {
            let before = preserved_by_values(&self.execution, event);
            (0..count).all(|other| before >> other & 1 == 0 || at[other] < at[event])
        });
        if is_kept && self.is_atomic(&at) {
            let outcome = self.execution.outcome(self.test, &layout(self.test), &self.paths);
            self.outcomes.insert(outcome);
        }
    }

    /// No store of another thread between the store that the load read and the store of the pair.
    fn is_atomic(&self, at: &[usize]) -> bool {
        let execution = &self.execution;
        (0..at.len()).all(|store| {
            let event = &execution.events[store];
            let (Kind::StoreConditional, Some(load)) = (event.kind, event.pair) else {
                return true;
            };
            if execution.events[load].place != event.place {
                return true;
            }
            let from = execution.source[load].map(|source| at[source]);
            from.is_none_or(|from| from < at[store])
                && execution.coherence[event.place].iter().all(|&other| {
                    let is_between =
                        from.is_none_or(|from| at[other] > from) && at[other] < at[store];
                    !is_between || execution.threads[other] == execution.threads[store]
                })
        })
    }
}

#[test]
fn no_cycle_means_that_an_order_exists() {
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for built_in in built_in() {
        let test = parse(&built_in.name, &built_in.text).expect("built-in tests can be parsed");
        let accesses = test.threads.iter().flat_map(|thread| &thread.steps);
        let is_access = |word| rackmem_riscv::decode(word).access_size() != 0;
        let number = compared.entry(built_in.shape).or_default();
        *number += 1;
        // Neighbours in the set differ by one link: not all of them are needed.
        let is_chosen = *number % 7 == 1;
        if is_chosen && accesses.filter(|step| is_access(step.word)).count() <= OPERATIONS {
            let allowed = super::allowed(&test).expect("it is a small test");
            let allowed: BTreeSet<Outcome> = allowed.outcomes.into_keys().collect();
            assert_eq!(allowed, outcomes(&test), "{}", built_in.text);
        }
    }
}
