//! Candidates: sources of loads, and coherence orders, for given paths.

use super::event::{Event, Kind, Path, Set};
use super::order::{always_preserved, preserved_by_values};
use crate::litmus::test::{Layout, Observed, Outcome, Test};

/// The operations of all threads, with one choice of sources and coherence orders.
pub(super) struct Execution {
    pub(super) events: Vec<Event>,
    /// The thread of each operation.
    pub(super) threads: Vec<usize>,
    /// By operation: those of the same thread before it.
    pub(super) before: Vec<Set>,
    /// By load: the store that it reads, or none for the initial value.
    pub(super) source: Vec<Option<usize>>,
    /// By location: its stores, the oldest first.
    pub(super) coherence: Vec<Vec<usize>>,
    /// By operation: those that come before it whatever loads read.
    always: Vec<Set>,
    initial: Vec<u64>,
}

impl Execution {
    pub(super) fn new(paths: &[&Path], initial: Vec<u64>) -> Execution {
        let (mut events, mut threads, mut before) = (Vec::new(), Vec::new(), Vec::new());
        for (thread, path) in paths.iter().enumerate() {
            let first = events.len();
            for (number, event) in path.events.iter().enumerate() {
                events.push(Event {
                    address: event.address << first,
                    data: event.data << first,
                    control: event.control << first,
                    fenced: event.fenced << first,
                    pair: event.pair.map(|pair| pair + first),
                    ..*event
                });
                threads.push(thread);
                before.push(((1 << number) - 1) << first);
            }
        }
        let source = vec![None; events.len()];
        let coherence = vec![Vec::new(); initial.len()];
        let mut execution =
            Execution { events, threads, before, source, coherence, always: Vec::new(), initial };
        execution.always = always_preserved(&execution);
        execution
    }

    /// Calls `each` for every allowed candidate and says whether it is sequentially consistent. What is
    /// left of the number of candidates that may be tried; nothing if there were more.
    pub(super) fn candidates(
        &mut self,
        mut left: u64,
        mut each: impl FnMut(&Execution, bool),
    ) -> Option<u64> {
        let sources = self.sources()?;
        self.choose_source(0, &sources, &mut left, &mut each)?;
        Some(left)
    }

    /// By operation: the stores that it may read, `None` being the initial value. No result if
    /// the limits of a test are passed.
    fn sources(&self) -> Option<Vec<Vec<Option<usize>>>> {
        let of = |load: usize| {
            let event = &self.events[load];
            let Some(value) = event.loads else { return vec![] };
            let stores = (0..self.events.len()).filter(|&store| {
                let other = &self.events[store];
                let is_later = self.before[store] >> load & 1 != 0;
                store != load
                    && other.place == event.place
                    && other.stores == Some(value)
                    && !is_later
            });
            let initial = (self.initial[event.place] == value).then_some(None);
            initial.into_iter().chain(stores.map(Some)).collect()
        };
        Some((0..self.events.len()).map(of).collect())
    }

    fn choose_source(
        &mut self,
        load: usize,
        sources: &[Vec<Option<usize>>],
        left: &mut u64,
        each: &mut impl FnMut(&Execution, bool),
    ) -> Option<()> {
        if load == self.events.len() {
            return self.choose_coherence(0, left, each);
        }
        if self.events[load].loads.is_none() {
            return self.choose_source(load + 1, sources, left, each);
        }
        for &source in &sources[load] {
            self.source[load] = source;
            self.choose_source(load + 1, sources, left, each)?;
        }
        Some(())
    }

    /// Chooses the order of the stores to a location and to those behind it.
    fn choose_coherence(
        &mut self,
        place: usize,
        left: &mut u64,
        each: &mut impl FnMut(&Execution, bool),
    ) -> Option<()> {
        if place == self.coherence.len() {
            *left = left.checked_sub(1)?;
            self.judge(each);
            return Some(());
        }
        let is_there = |&event: &usize| {
            self.events[event].place == place && self.events[event].stores.is_some()
        };
        let stores: Vec<usize> = (0..self.events.len()).filter(is_there).collect();
        self.coherence[place].clear();
        self.extend(place, &stores, left, each)
    }

    /// Appends each store that may come next.
    fn extend(
        &mut self,
        place: usize,
        stores: &[usize],
        left: &mut u64,
        each: &mut impl FnMut(&Execution, bool),
    ) -> Option<()> {
        let done: Set = self.coherence[place].iter().map(|&store| 1 << store).sum();
        if self.coherence[place].len() == stores.len() {
            return self.choose_coherence(place + 1, left, each);
        }
        let all: Set = stores.iter().map(|&store| 1 << store).sum();
        for &store in stores {
            let waits = self.before[store] & all & !done != 0;
            if done >> store & 1 != 0 || waits {
                continue;
            }
            self.coherence[place].push(store);
            let length = self.coherence[place].len();
            self.extend(place, stores, left, each)?;
            self.coherence[place].truncate(length - 1);
        }
        Some(())
    }

    fn judge(&self, each: &mut impl FnMut(&Execution, bool)) {
        let Some(mut pairs) = self.communication() else { return };
        if !self.is_atomic() {
            return;
        }
        let communication = pairs.clone();
        for (event, before) in pairs.iter_mut().enumerate() {
            *before |= self.always[event] | preserved_by_values(self, event);
        }
        if !is_acyclic(&pairs) {
            return;
        }
        let mut program = communication;
        for (event, before) in program.iter_mut().enumerate() {
            *before |= self.before[event] | self.own_source(event);
        }
        each(self, is_acyclic(&program));
    }

    /// By operation: those that must be before it in the global memory order because of what loads read
    /// and in which order locations change. Nothing if a load can not have its value.
    fn communication(&self) -> Option<Vec<Set>> {
        let mut pairs = vec![0; self.events.len()];
        for stores in &self.coherence {
            for pair in stores.windows(2) {
                pairs[pair[1]] |= 1 << pair[0];
            }
        }
        for (load, event) in self.events.iter().enumerate() {
            if event.loads.is_none() {
                continue;
            }
            let stores = &self.coherence[event.place];
            let position = match self.source[load] {
                None => 0,
                Some(source) => {
                    if self.threads[source] != self.threads[load] {
                        pairs[load] |= 1 << source;
                    }
                    stores.iter().position(|&store| store == source).map_or(0, |at| at + 1)
                }
            };
            for &later in &stores[position..] {
                if self.before[load] >> later & 1 != 0 {
                    return None;
                }
                if later != load {
                    pairs[later] |= 1 << load;
                }
            }
        }
        Some(pairs)
    }

    /// Whether nobody stores between the halves of a pair.
    fn is_atomic(&self) -> bool {
        let is_broken = |store: usize| {
            let event = &self.events[store];
            let Some(load) = event.pair.filter(|&load| self.events[load].place == event.place)
            else {
                return false;
            };
            let stores = &self.coherence[event.place];
            let position = |store: usize| stores.iter().position(|&other| other == store);
            let from = self.source[load].and_then(position).map_or(0, |at| at + 1);
            let to = position(store).unwrap_or(0);
            from > to
                || stores[from..to].iter().any(|&other| self.threads[other] != self.threads[store])
        };
        (0..self.events.len())
            .filter(|&event| self.events[event].kind == Kind::StoreConditional)
            .all(|event| !is_broken(event))
    }

    /// The store of the same thread that a load reads.
    fn own_source(&self, load: usize) -> Set {
        let source = self.source[load].filter(|&source| self.threads[source] == self.threads[load]);
        source.map_or(0, |source| 1 << source)
    }

    /// The values at the end.
    pub(super) fn outcome(&self, test: &Test, layout: &Layout, paths: &[&Path]) -> Outcome {
        let value = |observed: &Observed| {
            let bits = match *observed {
                Observed::Register(thread, register) => {
                    paths[thread].registers[usize::from(register)]
                }
                Observed::Location(place) => {
                    let last = self.coherence[place].last();
                    let raw = last.and_then(|&store| self.events[store].stores);
                    test.loaded(raw.unwrap_or(self.initial[place]))
                }
            };
            layout.value(bits)
        };
        test.observed.iter().map(value).collect()
    }
}

/// Whether an order exists that has all pairs; `pairs` are those before each operation.
fn is_acyclic(pairs: &[Set]) -> bool {
    let mut left: Set = if pairs.len() == 64 { Set::MAX } else { (1 << pairs.len()) - 1 };
    while left != 0 {
        let first =
            (0..pairs.len()).find(|&event| left >> event & 1 != 0 && pairs[event] & left == 0);
        match first {
            Some(event) => left &= !(1 << event),
            None => return false,
        }
    }
    true
}
