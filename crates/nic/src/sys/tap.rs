//! A TAP interface: its packets are read and written by this process, and it goes with it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::checked;
use super::interface::Interface;

/// The device that makes TAP interfaces.
pub const DEVICE: &str = "/dev/net/tun";

/// Packets that the kernel keeps for us: of 64 KB each with segmentation offload.
const QUEUE_PACKETS: libc::c_int = 1000;

/// A TAP interface.
#[derive(Debug)]
pub struct Tap {
    file: File,
    interface: Interface,
}

impl Tap {
    /// Makes the interface `name`, with a `virtio_net_hdr` in front of each packet and all offloads that
    /// the kernel has, so that packets of up to 64 KB are handed over whole.
    ///
    /// # Errors
    /// Errors of the system calls: `EBUSY` if there is such an interface.
    pub fn create(name: &str) -> io::Result<Tap> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(DEVICE)?;
        // SAFETY: all zeros are a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = from as libc::c_char;
        }
        let exclusive = libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | exclusive) as libc::c_short;
        // SAFETY: this is what the call takes.
        checked(unsafe {
            libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request).into()
        })?;
        let tap = Tap { file, interface: Interface::named(name)? };
        tap.set_offloads()?;
        tap.set_queue();
        Ok(tap)
    }

    fn set_offloads(&self) -> io::Result<()> {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        // Kernels before 6.2 do not segment UDP here.
        self.set_offload(tcp | udp).or_else(|_| self.set_offload(tcp))
    }

    fn set_offload(&self, offloads: libc::c_uint) -> io::Result<()> {
        // SAFETY: the argument is a number.
        checked(unsafe {
            libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads as libc::c_ulong)
                .into()
        })
        .map(drop)
    }

    fn set_queue(&self) {
        const TUNSETSNDBUF: libc::c_ulong = 0x4004_54d4;
        let unlimited = libc::c_int::MAX;
        // A shorter queue is no failure.
        // SAFETY: the argument points to a number that outlives the call.
        let _ =
            unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETSNDBUF as _, &raw const unlimited) };
        let _ = self.interface.set_queue_packets(QUEUE_PACKETS);
    }

    /// Puts the cable in or takes it out, as programs see it.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_carrier(&self, carrier: bool) -> io::Result<()> {
        let carrier = libc::c_int::from(carrier);
        // SAFETY: the argument points to a number that outlives the call.
        checked(unsafe {
            libc::ioctl(self.file.as_raw_fd(), libc::TUNSETCARRIER as _, &raw const carrier).into()
        })
        .map(drop)
    }

    /// The TAP interface itself, for its settings.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// A packet that was sent through the interface, header first; it does not wait.
    ///
    /// # Errors
    /// `WouldBlock` if there is none.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.file, into)?)
    }

    /// Makes a packet arrive at the interface, header first.
    ///
    /// # Errors
    /// Errors of the system call: `EIO` if the interface is switched off.
    pub fn send(&self, packet: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.file, packet)?)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
