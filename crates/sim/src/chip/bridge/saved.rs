//! Checkpoints of the devices beside a module that has nothing under way: the card, and the program's connections.

use serde::{Deserialize, Serialize};

use super::{Bridge, Event};
use crate::chip::{card, pairs};
use crate::interconnect::module;

/// The devices of a node that somebody has used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Devices {
    /// The card of this node, which the node before it uses.
    pub card: Option<card::State>,
    pub pairs: Option<pairs::State>,
}

impl Bridge {
    /// The state of its devices, if somebody has used them.
    pub fn devices_state(&self) -> Option<Devices> {
        let card = Some(self.card.state()).filter(|card| card.is_used());
        let pairs = self.pairs.state();
        (card.is_some() || pairs.is_some()).then_some(Devices { card, pairs })
    }

    /// Has its devices, which nobody has used, go on from a state.
    pub fn restore_devices(&mut self, state: &Devices) {
        if let Some(card) = &state.card {
            self.card.restore(card);
            for line in card.nic.asserted() {
                self.imt.drive(line, true);
                // Its user knows.
                self.imt.take();
            }
        }
        if let Some(pairs) = &state.pairs {
            self.pairs.restore(pairs);
        }
    }

    /// Packets, frames and accesses under way at the module and its devices.
    pub(super) fn at_devices(&self) -> usize {
        // A link goes on by itself, and its packets are counted until the other end has them.
        let is_of_link = |event: &&Event| {
            use module::Event::{Arrive, Serve, Timer};
            matches!(event, Event::Module(Arrive { .. } | Serve { .. } | Timer { .. }))
        };
        let events = self.agenda.events().filter(|event| !is_of_link(event)).count();
        events + self.module.under_way() + self.moving.len() + self.tasks.len()
    }
}
