//! Memory that the node borrows and lends while its program runs: what other nodes' operating systems say, and threads
//! that wait for it.

use rackmem_riscv::{Hart, abi};

use super::{System, Thread};
use crate::chip::Chip;
use crate::engine::Cycle;
use crate::exec::borrow::Lending;
use crate::exec::borrow::lease::{Message, Outcome, Waiting};
use crate::exec::pages::User;

impl System {
    /// A message of another node's operating system arrives at a cycle to come.
    pub fn receive(&mut self, at: Cycle, from: u16, message: Message) {
        let Some(lending) = &mut self.lending else { return };
        lending.receive(at, from, message);
        self.next_timer = Some(self.next_timer.map_or(at, |next| next.min(at)));
    }

    /// What is to leave for other nodes' operating systems.
    pub fn take_messages(&mut self) -> Vec<(Cycle, u16, Message)> {
        self.lending.as_mut().map_or_else(Vec::new, Lending::take_messages)
    }

    /// Handles what has arrived of other nodes' operating systems, also when the process has ended.
    pub(super) fn hear(&mut self, chip: &mut Chip) {
        let Some(lending) = &mut self.lending else { return };
        if lending.next_message().is_none_or(|at| at > chip.wires.now) {
            return;
        }
        chip.settle();
        for outcome in lending.hear(self.call_cycles, &mut self.pages, chip) {
            self.borrowed(outcome, chip);
        }
    }

    /// A thread goes on that has waited for borrowed memory.
    fn borrowed(&mut self, (waiting, lease): Outcome, chip: &mut Chip) {
        let (Waiting::ToMap { thread, .. } | Waiting::ToRetry { thread }) = waiting;
        let Some(Thread::Asking { hart }) = self.threads.get(thread) else { return };
        let mut hart = hart.clone();
        if let (Waiting::ToMap { out, .. }, Some(lending)) = (waiting, &mut self.lending) {
            let mut user = User { pages: &mut self.pages, chip };
            let result = lending.map_lease(lease, out, &mut self.kernel, &mut user);
            hart.x[abi::A0] = result.unwrap_or_else(|errno| -errno as u64);
        }
        self.resume_or_kill(thread, hart, chip);
    }

    /// Has a thread wait for more memory, and then make the call again that has failed without; `false` if there is
    /// none to be borrowed.
    pub(super) fn plug(&mut self, number: usize, before: Hart, chip: &mut Chip) -> bool {
        let mut user = User { pages: &mut self.pages, chip };
        let is_asking =
            self.lending.as_mut().is_some_and(|lending| lending.plug(number, &mut user));
        if is_asking {
            self.leave(number, Thread::Asking { hart: Box::new(before) }, chip);
        }
        is_asking
    }
}
