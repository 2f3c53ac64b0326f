//! The interrupt mapping table, in every order of devices, maskings and packets: nodes hear of every
//! change, and of no other; a line that is mapped to nobody waits; lines take turns.

use rackmem_rmc::imt::{Change, Imt, LINES};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// The lines that devices drive, across the wrap of turns, and the node of each.
const DRIVEN: [(u8, u16); 3] = [(0, 7), (6, 7), (15, 9)];

/// What the nodes know of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Heard {
    level: bool,
    /// It has changed since a node heard of it.
    is_news: bool,
    /// Times that another line was served while this one had to be.
    passed_over: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    imt: Imt,
    heard: [Heard; DRIVEN.len()],
    /// The first promise that was broken.
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Drive(usize, bool),
    Pulse(usize),
    Mask(usize),
    Unmask(usize),
    Take,
}

impl State {
    fn waits(&self, n: usize) -> bool {
        self.heard[n].is_news && self.imt.destination(DRIVEN[n].0).is_some()
    }

    fn take(&mut self) {
        let waits = [0, 1, 2].map(|n| self.waits(n));
        let Some(change) = self.imt.take() else {
            self.expect("a line that waits is served", !waits.contains(&true));
            return;
        };
        let Change { line, asserted, destination } = change;
        let place = DRIVEN.iter().position(|&driven| driven == (line, destination));
        let Some(n) = place else { return self.expect("the node is the line's", false) };
        self.expect("only lines with news are served", waits[n]);
        self.expect("levels alternate", self.heard[n].level != asserted);
        for other in (0..DRIVEN.len()).filter(|&other| other != n && waits[other]) {
            self.heard[other].passed_over += 1;
        }
        let is_news = asserted != self.imt.is_asserted(line);
        self.heard[n] = Heard { level: asserted, is_news, passed_over: 0 };
    }

    fn expect(&mut self, promise: &'static str, is_kept: bool) {
        if !is_kept {
            self.broken = self.broken.or(Some(promise));
        }
    }
}

struct Lines;

impl Model for Lines {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut imt = Imt::default();
        DRIVEN.iter().for_each(|&(line, node)| imt.map(line, Some(node)));
        vec![State { imt, heard: Default::default(), broken: None }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Step>) {
        for n in 0..DRIVEN.len() {
            let drives = [Step::Drive(n, false), Step::Drive(n, true), Step::Pulse(n)];
            actions.extend(drives.into_iter().chain([Step::Mask(n), Step::Unmask(n)]));
        }
        actions.push(Step::Take);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let State { imt, heard, .. } = &mut state;
        match step {
            Step::Drive(n, asserted) => {
                let (line, _) = DRIVEN[n];
                heard[n].is_news |= imt.is_asserted(line) != asserted;
                let waits = imt.drive(line, asserted);
                let is_told = waits == imt.has_changes();
                state.expect("a device learns whether something waits", is_told);
            }
            Step::Pulse(n) => {
                heard[n].is_news = true;
                imt.pulse(DRIVEN[n].0);
            }
            Step::Mask(n) => {
                imt.map(DRIVEN[n].0, None);
                heard[n].passed_over = 0;
            }
            Step::Unmask(n) => imt.map(DRIVEN[n].0, Some(DRIVEN[n].1)),
            Step::Take => state.take(),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("all promises are kept", |_, state: &State| state.broken.is_none()),
            Property::always("something waits if a node has to hear of it", |_, state: &State| {
                state.imt.has_changes() == (0..DRIVEN.len()).any(|n| state.waits(n))
            }),
            Property::always("a node without news knows the level", |_, state: &State| {
                let pairs = state.heard.iter().zip(DRIVEN);
                pairs.into_iter().all(|(heard, (line, _))| {
                    heard.is_news || heard.level == state.imt.is_asserted(line)
                })
            }),
            Property::always("no line is passed over twice by another one", |_, state: &State| {
                state.heard.iter().all(|heard| usize::from(heard.passed_over) < DRIVEN.len())
            }),
            Property::sometimes("a change waits for a node", |_, state: &State| {
                state.heard[2].is_news && !state.waits(2)
            }),
        ]
    }
}

#[test]
fn every_change_is_told_once_in_turn_to_the_node_of_its_line() {
    let checker = Lines.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), 11_520, "number of states");
}

#[test]
fn all_lines_are_served_in_one_turn() {
    let mut imt = Imt::all_to(5);
    (0..LINES as u8).for_each(|line| assert!(imt.drive(line, true)));
    let change = |line| Change { line, asserted: true, destination: 5 };
    for line in 0..LINES as u8 {
        assert_eq!(imt.take(), Some(change(line)));
    }
    assert_eq!(imt.take(), None);
}

#[test]
#[should_panic(expected = "16 interrupt lines")]
fn there_is_no_seventeenth_line() {
    Imt::default().drive(16, true);
}
