//! What the node tells other nodes' operating systems, and hears of them.

use rackmem_riscv::network::Segment;

use super::System;
use crate::chip::Chip;
use crate::engine::Cycle;
use crate::exec::post::Letter;

impl System {
    /// A letter of another node's operating system arrives at a cycle to come.
    pub fn receive(&mut self, at: Cycle, from: u16, letter: Letter) {
        self.post.receive(at, from, letter);
        self.next_timer = Some(self.next_timer.map_or(at, |next| next.min(at)));
    }

    /// Takes the letters for other nodes' operating systems, each with the cycle in which it arrives and its receiver.
    pub fn take_letters(&mut self) -> Vec<(Cycle, u16, Letter)> {
        if let Some(lending) = &mut self.lending {
            for (leaves, to, message) in lending.take_messages() {
                self.post.tell(leaves, to, message);
            }
        }
        self.post.take_leaving()
    }

    /// Whether no letter is on its way to the node.
    pub fn has_no_letters(&self) -> bool {
        self.post.is_empty()
    }

    /// Handles what has arrived of other nodes' operating systems, also when the process has ended.
    pub(super) fn hear(&mut self, chip: &mut Chip) {
        let arrived = self.post.take_arrived(chip.wires.now);
        if arrived.is_empty() {
            return;
        }
        chip.settle();
        for (from, letter) in arrived {
            match letter {
                Letter::Lease(message) => self.hear_lender(from, message, chip),
                Letter::Segment(segment) => self.deliver(segment, chip),
            }
        }
    }

    fn deliver(&mut self, segment: Segment, chip: &mut Chip) {
        self.host.now_ns = self.ns(chip.wires.now);
        for woken in self.kernel.deliver(segment) {
            self.wake(woken, chip);
        }
    }

    /// Sends the segments that calls, and segments of others, have made in this cycle.
    pub(super) fn send_segments(&mut self, now: Cycle) {
        for segment in self.kernel.take_segments() {
            self.post.send(now + self.call_cycles, segment);
        }
    }
}
