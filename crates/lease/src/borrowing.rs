//! The borrower's side of a borrowing (DE-08): each block of its window is FREE, RESERVED, PENDING,
//! ACTIVE or RELEASING.
//!
//! 1 a block of the window is reserved, 2 so is a slot of the address map, 3 the lender is asked out
//! of band, 4 it answers base and size, 5 the slot is filled. A borrowing is all of its blocks: if
//! one is not to be had, the others go back.

/// A state of a block of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing is mapped, and nobody is asked.
    Free,
    /// Addresses are kept for it; the monitor decides.
    Reserved,
    /// Its lender was asked.
    Pending,
    /// The address map has it.
    Active,
    /// The block is out of the address map; its lender was notified.
    Releasing,
}

/// Input of the borrower's state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The user wants so many bytes in so many copies.
    Want(u64, u32),
    /// The monitor has decided: the sizes of the pieces of each copy.
    Decided(Vec<Vec<u64>>),
    /// The monitor says no, is gone or does not answer.
    NotDecided,
    /// A lender has made the lease of a block: base and size.
    Answered(usize, u64, u64),
    /// A lender says no.
    Refused(usize),
    /// A lender is gone, or does not answer.
    Lost(usize),
    /// A lender has taken its block back.
    Returned(usize),
    /// The user does not need it any more.
    Release,
}

/// Output of the borrower's state machine, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Ask the monitor for lenders; [`Event::Decided`] or [`Event::NotDecided`] answers.
    AskMonitor,
    /// Ask the lender of a block.
    AskLender(usize),
    /// Put a block into the address map: its slot, lender's base.
    Fill(usize, u64),
    /// Take a block out of the address map: from now on it faults.
    Fault(usize),
    /// Tell the lender of a block that it is not needed any more.
    Return(usize),
    /// All blocks are active.
    Borrowed,
    /// It did not come about, and nothing is left of it.
    Failed,
    /// It is over, and nothing is left of it.
    Released,
}

/// Part of the window that has one lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// State of the block.
    pub state: State,
    /// Number of the copy that it belongs to.
    pub copy: u32,
    /// Offset of its first byte in the copy's window.
    pub offset: u64,
    /// Bytes.
    pub size_bytes: u64,
}

/// The state that a borrowing works towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Aim {
    Nothing,
    Borrow,
    Fail,
    Keep,
    Release,
}

/// The blocks of a borrowing and their common aim; a pure state machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Borrowing {
    blocks: Vec<Block>,
    aim: Aim,
}

impl Default for Borrowing {
    fn default() -> Borrowing {
        Borrowing::new()
    }
}

impl Borrowing {
    /// Nothing borrowed.
    pub fn new() -> Borrowing {
        Borrowing { blocks: Vec::new(), aim: Aim::Nothing }
    }

    /// All blocks, by number.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Handles an event. Returns the actions, to be carried out in order.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Want(size_bytes, copies) => self.want(size_bytes, copies),
            Event::Decided(copies) => self.decided(&copies),
            Event::NotDecided => self.not_decided(),
            Event::Answered(block, base, size_bytes) => self.answered(block, base, size_bytes),
            Event::Refused(block) | Event::Lost(block) => self.without(block),
            Event::Returned(block) => self.returned(block),
            Event::Release => self.release(),
        }
    }

    fn want(&mut self, size_bytes: u64, copies: u32) -> Vec<Action> {
        if self.aim != Aim::Nothing {
            return Vec::new();
        }
        let reserved = |copy| Block { state: State::Reserved, copy, offset: 0, size_bytes };
        self.blocks = (0..copies).map(reserved).collect();
        self.aim = Aim::Borrow;
        vec![Action::AskMonitor]
    }

    fn is_reserved(&self) -> bool {
        self.aim == Aim::Borrow && self.blocks.iter().all(|block| block.state == State::Reserved)
    }

    fn decided(&mut self, copies: &[Vec<u64>]) -> Vec<Action> {
        if !self.is_reserved() {
            return Vec::new();
        }
        let fits = copies.len() == self.blocks.len()
            && copies.iter().zip(&self.blocks).all(|(pieces, block)| {
                let sum = pieces.iter().try_fold(0_u64, |sum, &piece| sum.checked_add(piece));
                sum == Some(block.size_bytes) && !pieces.contains(&0)
            });
        if !fits {
            return self.not_decided();
        }
        self.blocks.clear();
        for (copy, pieces) in copies.iter().enumerate() {
            let mut offset = 0;
            for &size_bytes in pieces {
                let state = State::Pending;
                self.blocks.push(Block { state, copy: copy as u32, offset, size_bytes });
                offset += size_bytes;
            }
        }
        (0..self.blocks.len()).map(Action::AskLender).collect()
    }

    fn not_decided(&mut self) -> Vec<Action> {
        if !self.is_reserved() {
            return Vec::new();
        }
        self.aim = Aim::Fail;
        self.blocks.iter_mut().for_each(|block| block.state = State::Free);
        self.conclude()
    }

    fn answered(&mut self, number: usize, base: u64, size_bytes: u64) -> Vec<Action> {
        let Some(block) = self.blocks.get_mut(number) else { return Vec::new() };
        if block.state != State::Pending {
            return Vec::new();
        }
        if block.size_bytes != size_bytes {
            block.state = State::Releasing;
            let mut actions = vec![Action::Return(number)];
            actions.extend(self.give_back(Aim::Fail));
            return actions;
        }
        block.state = State::Active;
        let mut actions = vec![Action::Fill(number, base)];
        actions.extend(self.conclude());
        actions
    }

    /// A lender has no part in it any more.
    fn without(&mut self, number: usize) -> Vec<Action> {
        let Some(block) = self.blocks.get_mut(number) else { return Vec::new() };
        let before = std::mem::replace(&mut block.state, State::Free);
        let mut actions = Vec::new();
        if before == State::Active {
            actions.push(Action::Fault(number));
        }
        match self.aim {
            Aim::Borrow => actions.extend(self.give_back(Aim::Fail)),
            _ => actions.extend(self.conclude()),
        }
        actions
    }

    fn returned(&mut self, number: usize) -> Vec<Action> {
        match self.blocks.get_mut(number) {
            Some(block) if block.state == State::Releasing => block.state = State::Free,
            _ => return Vec::new(),
        }
        self.conclude()
    }

    fn release(&mut self) -> Vec<Action> {
        match self.aim {
            Aim::Keep => self.give_back(Aim::Release),
            Aim::Borrow => self.give_back(Aim::Fail),
            _ => Vec::new(),
        }
    }

    /// Gives back all leases that are there, or may come.
    fn give_back(&mut self, aim: Aim) -> Vec<Action> {
        self.aim = aim;
        let mut actions = Vec::new();
        for (number, block) in self.blocks.iter_mut().enumerate() {
            match block.state {
                State::Free | State::Releasing => continue,
                State::Reserved => {
                    block.state = State::Free;
                    continue;
                }
                State::Active => actions.push(Action::Fault(number)),
                State::Pending => {}
            }
            block.state = State::Releasing;
            actions.push(Action::Return(number));
        }
        actions.extend(self.conclude());
        actions
    }

    fn conclude(&mut self) -> Vec<Action> {
        let are_all = |state| self.blocks.iter().all(|block| block.state == state);
        let (aim, action) = match self.aim {
            Aim::Borrow if are_all(State::Active) => (Aim::Keep, Action::Borrowed),
            Aim::Fail if are_all(State::Free) => (Aim::Nothing, Action::Failed),
            Aim::Release if are_all(State::Free) => (Aim::Nothing, Action::Released),
            _ => return Vec::new(),
        };
        self.aim = aim;
        vec![action]
    }
}
