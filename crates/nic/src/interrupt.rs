//! Interrupts of a lent device (DEOI §III-D): the lines of a NIC, and the message that tells the borrower of a change.
//! [`rackmem_rmc::imt`] says what is sent when, and where to.

/// The link of the NIC: asserted while its cable is in.
pub const LINK: u8 = 0;
/// Errors: a pulse when the NIC counted new ones.
pub const ERROR: u8 = 1;
/// Reception: asserted while packets wait at the lender since the way to the borrower is full.
pub const RECEPTION: u8 = 2;
/// Settings: a pulse when address or MTU of the NIC were changed at the lender.
pub const SETTINGS: u8 = 3;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interrupt {
    /// Number of the line, below [`LINES`](rackmem_rmc::imt::LINES).
    pub id: u8,
    /// Its level from now on.
    pub asserted: bool,
}
