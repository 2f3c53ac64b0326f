//! Memory that the node borrows and lends while its program runs: what lenders say, and threads that wait for it.

use rackmem_riscv::{Hart, abi};

use super::{System, Thread};
use crate::chip::Chip;
use crate::chip::ni::Ni;
use crate::exec::borrow::lease::{Message, Outcome, Waiting};
use crate::exec::pages::User;

impl System {
    /// Handles a message about memory of another node's operating system.
    pub(super) fn hear_lender(&mut self, from: u16, message: Message, chip: &mut Chip) {
        let Some(lending) = &mut self.lending else { return };
        let outcome = lending.hear((from, message), self.call_cycles, &mut self.pages, chip);
        if let Some(outcome) = outcome {
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

    /// Threads go on whose copies the RDMA channel has made.
    pub(super) fn end_copies(&mut self, chip: &mut Chip) {
        let Ni::Bridge(bridge) = &mut chip.ni else { return };
        for thread in std::mem::take(&mut bridge.rdma.ended) {
            self.ask_again(thread, Some(0), chip);
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
