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

    /// Takes the messages for other nodes' operating systems, each with the cycle in which it leaves and its receiver.
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

    /// Threads go on that have waited for borrowed memory.
    fn borrowed(&mut self, (waiting, lease): Outcome, chip: &mut Chip) {
        let Some(lending) = &mut self.lending else { return };
        let Waiting::ToMap { thread, out } = waiting else {
            let short = lending.take_short();
            return short.into_iter().for_each(|thread| self.ask_again(thread, None, chip));
        };
        if self.end.is_none() {
            let mut user = User { pages: &mut self.pages, chip };
            let result = lending.map_lease(lease, out, &mut self.kernel, &mut user);
            self.ask_again(thread, Some(result.unwrap_or_else(|errno| -errno as u64)), chip);
        }
    }

    /// A thread that has asked goes on: with the result of its call, or by making the call again.
    fn ask_again(&mut self, thread: usize, result: Option<u64>, chip: &mut Chip) {
        let Some(Thread::Asking { hart }) = self.threads.get(thread) else { return };
        let mut hart = hart.clone();
        hart.x[abi::A0] = result.unwrap_or(hart.x[abi::A0]);
        self.resume_or_kill(thread, hart, chip);
    }

    /// Has a thread wait for so much more memory, and then make its call again, from the state before; `false` if as
    /// much is not to be borrowed.
    pub(super) fn plug(
        &mut self,
        number: usize,
        missing_bytes: u64,
        before: &Hart,
        chip: &mut Chip,
    ) -> bool {
        let mut user = User { pages: &mut self.pages, chip };
        let is_asking = self
            .lending
            .as_mut()
            .is_some_and(|lending| lending.plug(number, missing_bytes, &mut user));
        if is_asking {
            self.leave(number, Thread::Asking { hart: Box::new(before.clone()) }, chip);
        }
        is_asking
    }
}
