//! The state of a chip's scratchpads, its locks, and the memory that caches do not keep, to go on from.

use serde::{Deserialize, Serialize};

use super::Chip;
use super::ni::Ni;
use crate::block::Words;
use crate::scratchpad::{NiState, Regions};

/// The state of all scratchpads of a chip that has nothing under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    shape: Shape,
    /// By core.
    cores: Vec<NiState>,
    /// By number: whether somebody has it.
    locks: Vec<bool>,
    /// Lines of the memory that caches do not keep which are not zero.
    memory: Vec<(u64, Words)>,
}

/// The reason why a chip does not go on from a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its scratchpads are others: the setting, and what to do.
    Machine(String),
    /// No scratchpads are in such a state: the field, and what is wrong with it.
    State(String),
}

/// Sizes that programs have been told: a program cannot go on with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    cores: u16,
    scratchpad_bytes: u32,
    ways: u32,
    dram_bytes: u64,
    locks: u16,
    nacks: bool,
}

impl Shape {
    fn of(chip: &Chip) -> Option<Shape> {
        let Regions { cores, scratchpad_bytes, dram_bytes, locks } = chip.wires.map.regions?;
        let l1 = &chip.tiles[0].l1;
        let nacks = l1.integrated.as_ref().is_some_and(|own| own.has_nacks());
        Some(Shape { cores, scratchpad_bytes, ways: l1.ways(), dram_bytes, locks, nacks })
    }

    /// The setting in which another shape differs first, and what it is there and here.
    fn differs(&self, other: &Shape) -> Option<(&'static str, [u64; 2])> {
        let both = |of: fn(&Shape) -> u64| [of(self), of(other)];
        let all = [
            ("tiles.columns", both(|shape| shape.cores.into())),
            ("l2.size_bytes", both(|shape| shape.scratchpad_bytes.into())),
            ("l2.ways", both(|shape| shape.ways.into())),
            ("scratchpad.dram_bytes", both(|shape| shape.dram_bytes)),
            ("scratchpad.locks", both(|shape| shape.locks.into())),
            ("scratchpad.nacks", both(|shape| shape.nacks.into())),
        ];
        all.into_iter().find(|(_, [then, now])| then != now)
    }
}

impl Chip {
    /// The state of the scratchpads, if programs have used them.
    pub fn scratchpads(&self) -> Option<State> {
        let Ni::CacheIntegrated(ni) = &self.ni else { return None };
        let shape = Shape::of(self)?;
        let own = self.tiles.iter().filter_map(|tile| tile.l1.integrated.as_ref());
        let cores: Vec<NiState> = own.map(|own| own.state()).collect();
        let locks = self.wires.lock_box.taken().collect::<Vec<bool>>();
        let memory = ni.dram().lines().collect::<Vec<_>>();
        let is_unused =
            cores.iter().all(NiState::is_unused) && !locks.contains(&true) && memory.is_empty();
        (!is_unused).then_some(State { shape, cores, locks, memory })
    }

    /// Goes on from a state of the scratchpads; nobody has used them yet.
    ///
    /// # Errors
    /// Its scratchpads are others, or none are in such a state.
    pub fn restore_scratchpads(&mut self, state: &State) -> Result<(), Refused> {
        let Some(now) = Shape::of(self) else {
            let why = "ni.placement: the checkpoint has scratchpads, which this interface has not";
            return Err(Refused::Machine(why.to_owned()));
        };
        if let Some((key, [then, now])) = state.shape.differs(&now) {
            return Err(Refused::Machine(format!(
                "{key}: the program knows scratchpads of {then}, and here it is {now}; set it as it was"
            )));
        }
        self.enter_scratchpads(state).map_err(Refused::State)
    }

    fn enter_scratchpads(&mut self, state: &State) -> Result<(), String> {
        let Chip { wires, tiles, ni: Ni::CacheIntegrated(ni), .. } = self else { return Ok(()) };
        if state.cores.len() != tiles.len() || state.locks.len() != usize::from(state.shape.locks) {
            return Err("cores, locks: there are others than shape has".to_owned());
        }
        for (number, (core, tile)) in state.cores.iter().zip(tiles).enumerate() {
            let Some(mut own) = tile.l1.integrated.take() else { continue };
            let restored = own.restore(core, &mut tile.l1, wires);
            tile.l1.integrated = Some(own);
            restored.map_err(|wrong| format!("cores[{number}].{wrong}"))?;
        }
        wires.lock_box.restore(&state.locks);
        for &(line, words) in &state.memory {
            if !ni.dram_mut().set(line, words) {
                return Err(format!("memory: there is no line {line}"));
            }
        }
        Ok(())
    }
}
