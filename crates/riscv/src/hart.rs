//! The state of a hardware thread.

use serde::{Deserialize, Serialize};

use crate::csr;
use crate::float::Rounding;

/// The registers of one hardware thread (hart) in user mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hart {
    /// Address of the next instruction.
    pub pc: u64,
    /// Integer registers. `x[0]` stays 0.
    pub x: [u64; 32],
    /// Floating-point registers; single-precision values have all upper bits set (NaN boxing).
    pub f: [u64; 32],
    /// Accrued exception flags, as bits of [`float::flags`](crate::float::flags).
    pub fflags: u8,
    /// Dynamic rounding mode as it was written, 0 to 7; 5 to 7 are none.
    pub frm: u8,
}

/// Numbers of the integer registers that calls use.
pub mod abi {
    /// Return address.
    pub const RA: usize = 1;
    /// Stack pointer.
    pub const SP: usize = 2;
    /// Thread pointer.
    pub const TP: usize = 4;
    /// First argument, and the result.
    pub const A0: usize = 10;
    /// Number of a system call.
    pub const A7: usize = 17;
}

impl Hart {
    /// A hart about to execute the instruction at `pc`, all registers zero.
    pub fn new(pc: u64) -> Hart {
        Hart { pc, x: [0; 32], f: [0; 32], fflags: 0, frm: 0 }
    }

    /// Checks registers that were read.
    ///
    /// # Errors
    /// The first one that no hart has so, and what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let Hart { pc, x, fflags, frm, .. } = self;
        let wrong = match () {
            () if pc % 2 != 0 => format!("pc: is {pc:#x}, and instructions are at even addresses"),
            () if x[0] != 0 => format!("x[0]: is {}, and always 0", x[0]),
            () if *fflags > 31 => format!("fflags: is {fflags}, must be 31 at most"),
            () if *frm > 7 => format!("frm: is {frm}, must be 7 at most"),
            () => return Ok(()),
        };
        Err(wrong)
    }

    /// The floating-point control and status register.
    pub fn fcsr(&self) -> u32 {
        u32::from(self.frm) << 5 | u32::from(self.fflags)
    }

    /// The dynamic rounding mode, unless it holds a reserved value.
    #[inline]
    pub fn rounding(&self) -> Option<Rounding> {
        Rounding::from_bits(self.frm)
    }

    #[inline(always)]
    pub(crate) fn x(&self, number: u8) -> u64 {
        self.x[(number & 31) as usize]
    }

    #[inline(always)]
    pub(crate) fn set_x(&mut self, number: u8, value: u64) {
        self.x[(number & 31) as usize] = value;
        self.x[0] = 0;
    }

    #[inline(always)]
    pub(crate) fn f(&self, number: u8) -> u64 {
        self.f[(number & 31) as usize]
    }

    #[inline(always)]
    pub(crate) fn set_f(&mut self, number: u8, value: u64) {
        self.f[(number & 31) as usize] = value;
    }

    /// The value of one of the floating-point control registers.
    pub(crate) fn float_csr(&self, number: u32) -> u64 {
        match number {
            csr::FFLAGS => self.fflags.into(),
            csr::FRM => self.frm.into(),
            _ => self.fcsr().into(),
        }
    }

    /// Writes one of the floating-point control registers; bits that it lacks are ignored.
    pub(crate) fn set_float_csr(&mut self, number: u32, value: u64) {
        match number {
            csr::FFLAGS => self.fflags = value as u8 & 0x1f,
            csr::FRM => self.frm = value as u8 & 7,
            _ => {
                self.fflags = value as u8 & 0x1f;
                self.frm = (value >> 5) as u8 & 7;
            }
        }
    }
}
