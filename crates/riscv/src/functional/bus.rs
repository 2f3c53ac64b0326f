//! The port of a hart here: the address space itself.

use crate::code::Fetch;
use crate::csr::Counter;
use crate::port::{AmoOp, Port};
use crate::space::{AddressSpace, Cause, Fault, Wanted};

/// Bytes of a reservation, 2^6: a line.
const LINE_SHIFT: u32 = 6;

/// Reasons to leave the hot loop.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// The access is not allowed.
    Fault(Fault),
    /// `fence.i`: decoded code has to go.
    FenceI,
    /// A counter is read: only the engine knows how many instructions there were.
    Counter,
}

/// Memory of one hart for the time of one slice.
///
/// No other hart runs meanwhile, so its own accesses are atomic as they stand, and a reservation
/// is lost to others by being forgotten between slices.
pub(super) struct Bus<'a> {
    pub(super) space: &'a mut AddressSpace,
    /// The reserved line; it outlives the bus if the slice goes on.
    reservation: &'a mut Option<u64>,
    /// The value of all counters, if the engine has put it here.
    pub(super) count: Option<u64>,
}

impl<'a> Bus<'a> {
    pub(super) fn new(space: &'a mut AddressSpace, reservation: &'a mut Option<u64>) -> Bus<'a> {
        Bus { space, reservation, count: None }
    }
}

fn aligned(address: u64, size: u8, wanted: Wanted) -> Result<(), Stop> {
    if address % u64::from(size) == 0 {
        return Ok(());
    }
    Err(Stop::Fault(Fault { address, wanted, cause: Cause::Misaligned }))
}

impl Fetch for Bus<'_> {
    #[inline]
    fn fetch(&self, address: u64) -> Result<u16, Fault> {
        self.space.fetch(address)
    }
}

impl Port for Bus<'_> {
    type Stop = Stop;

    #[inline(always)]
    fn load(&mut self, address: u64, size: u8) -> Result<u64, Stop> {
        self.space.load(address, size).map_err(Stop::Fault)
    }

    #[inline(always)]
    fn store(&mut self, address: u64, size: u8, data: u64) -> Result<(), Stop> {
        self.space.store(address, size, data).map_err(Stop::Fault)
    }

    fn amo(&mut self, op: AmoOp, address: u64, size: u8, operand: u64) -> Result<u64, Stop> {
        aligned(address, size, Wanted::Write)?;
        let old = self.load(address, size)?;
        self.store(address, size, op.apply(size, old, operand))?;
        Ok(old)
    }

    fn load_reserved(&mut self, address: u64, size: u8) -> Result<u64, Stop> {
        aligned(address, size, Wanted::Read)?;
        let value = self.load(address, size)?;
        *self.reservation = Some(address >> LINE_SHIFT);
        Ok(value)
    }

    fn store_conditional(&mut self, address: u64, size: u8, data: u64) -> Result<bool, Stop> {
        aligned(address, size, Wanted::Write)?;
        let stands = self.reservation.take() == Some(address >> LINE_SHIFT);
        if stands {
            self.store(address, size, data)?;
        }
        Ok(stands)
    }

    fn fence(&mut self, _predecessors: u8, _successors: u8) -> Result<(), Stop> {
        Ok(())
    }

    fn fence_i(&mut self) -> Result<(), Stop> {
        Err(Stop::FenceI)
    }

    fn counter(&mut self, _counter: Counter) -> Result<u64, Stop> {
        self.count.ok_or(Stop::Counter)
    }
}
