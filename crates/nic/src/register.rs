//! Registers of a lent NIC, which the borrower reads and writes (DEOI §III-D, remote MMIO). Each has
//! eight bytes; addresses count bytes.
//!
//! | address | register | written |
//! |---|---|---|
//! | 0x00 | MAC address, in the lower six bytes | changes it |
//! | 0x08 | MTU, bytes | changes it |
//! | 0x10 | link: 1 while the cable is in | no |
//! | 0x18 | 1 while switched on | switches it |
//! | 0x20 | megabits a second, 0 if unknown | no |
//! | 0x40 .. 0x58 | received: bytes, packets, errors, drops | no |
//! | 0x60 .. 0x78 | sent: the same | no |
//! | 0x80 + 8 i | IMT: the node that interrupt i goes to, or [`NOBODY`] | changes it |

use std::io;

use rackmem_rmc::imt::{Imt, LINES};

use super::sys::interface::{Interface, Mac};

/// The MAC address.
pub const MAC: u16 = 0x00;
/// Bytes of the largest packet, without its Ethernet header; writable.
pub const MTU: u16 = 0x08;
/// Whether the cable is in.
pub const LINK: u16 = 0x10;
/// Whether it is switched on.
pub const ON: u16 = 0x18;
/// Speed in megabits a second, 0 if unknown; read-only.
pub const SPEED: u16 = 0x20;
/// The first of four counters of received traffic: bytes, packets, errors, drops.
pub const RECEIVED: u16 = 0x40;
/// The first of four counters of sent traffic, in the same order.
pub const SENT: u16 = 0x60;
/// The first entry of the IMT.
pub const IMT: u16 = 0x80;
const IMT_END: u16 = IMT + 8 * LINES as u16;

/// Value of an IMT register whose interrupt is masked: its change waits until a node is set.
pub const NOBODY: u64 = u64::MAX;

/// Reason why a register was not read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such register.
    NoSuchRegister,
    /// It cannot be written.
    ReadOnly,
    /// The NIC does not take this value; the kernel's `errno`.
    Device(u8),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Device(error.raw_os_error().and_then(|code| code.try_into().ok()).unwrap_or(5))
    }
}

/// A MAC address as a register has it.
pub fn from_mac(mac: Mac) -> u64 {
    mac.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// A register's value as a MAC address.
pub fn to_mac(value: u64) -> Mac {
    let [_, _, mac @ ..] = value.to_be_bytes();
    mac
}

/// Reads a register.
///
/// # Errors
/// There is none, or the NIC is gone.
pub fn read(interface: &Interface, imt: &Imt, register: u16) -> Result<u64, Fault> {
    if register % 8 != 0 {
        return Err(Fault::NoSuchRegister);
    }
    Ok(match register {
        MAC => from_mac(interface.mac()?),
        MTU => interface.mtu()?.into(),
        LINK => interface.has_link()?.into(),
        ON => interface.is_up()?.into(),
        SPEED => interface.speed_mbits().unwrap_or(0),
        RECEIVED..0x60 => interface.counters()?.received[usize::from(register - RECEIVED) / 8],
        SENT..0x80 => interface.counters()?.sent[usize::from(register - SENT) / 8],
        IMT..IMT_END => imt.destination(((register - IMT) / 8) as u8).map_or(NOBODY, u64::from),
        _ => return Err(Fault::NoSuchRegister),
    })
}

/// Writes a register.
///
/// # Errors
/// There is none, it is read-only, or the NIC does not take the value.
pub fn write(interface: &Interface, imt: &mut Imt, register: u16, value: u64) -> Result<(), Fault> {
    const INVALID: Fault = Fault::Device(libc::EINVAL as u8);
    if register % 8 != 0 {
        return Err(Fault::NoSuchRegister);
    }
    match register {
        MAC if value >> 48 == 0 => Ok(interface.set_mac(to_mac(value))?),
        MTU => Ok(interface.set_mtu(u32::try_from(value).map_err(|_| INVALID)?)?),
        ON if value <= 1 => Ok(interface.set_up(value == 1)?),
        IMT..IMT_END => {
            let node = match value {
                NOBODY => None,
                value => Some(u16::try_from(value).map_err(|_| INVALID)?),
            };
            imt.map(((register - IMT) / 8) as u8, node);
            Ok(())
        }
        MAC | ON => Err(INVALID),
        LINK | SPEED | RECEIVED..0x80 => Err(Fault::ReadOnly),
        _ => Err(Fault::NoSuchRegister),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_a_register_or_none() {
        let interface = Interface::named("lo").unwrap();
        let mut imt = Imt::all_to(3);
        for address in 0..0x200 {
            let readable = match address {
                _ if address % 8 != 0 => false,
                MAC => continue, // the loopback has none
                MTU..=SPEED | RECEIVED..IMT_END => true,
                _ => false,
            };
            let got = read(&interface, &imt, address);
            assert_eq!(got != Err(Fault::NoSuchRegister), readable, "{address:#x}: {got:?}");
            if matches!(address, LINK | SPEED | RECEIVED..0x80) {
                let got = write(&interface, &mut imt, address, 0);
                assert!(
                    matches!(got, Err(Fault::ReadOnly | Fault::NoSuchRegister)),
                    "{address:#x}"
                );
            }
        }
        assert_eq!(write(&interface, &mut imt, IMT + 8, 9), Ok(()));
        assert_eq!(read(&interface, &imt, IMT + 8), Ok(9));
        assert_eq!(write(&interface, &mut imt, IMT + 8, NOBODY), Ok(()));
        assert_eq!((read(&interface, &imt, IMT + 8), imt.destination(1)), (Ok(NOBODY), None));
        assert!(matches!(write(&interface, &mut imt, IMT, 1 << 16), Err(Fault::Device(_))));
        assert!(matches!(write(&interface, &mut imt, MTU, u64::MAX), Err(Fault::Device(_))));
    }

    #[test]
    fn addresses_are_numbers() {
        let mac = [2, 0, 0, 0xab, 0xcd, 0xef];
        assert_eq!(from_mac(mac), 0x0200_00ab_cdef);
        assert_eq!(to_mac(from_mac(mac)), mac);
    }
}
