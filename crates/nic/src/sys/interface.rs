//! Network interfaces of this network namespace: addresses, sizes, states.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{checked, descriptor};

/// Most bytes of an interface's name.
pub const MAX_NAME_BYTES: usize = libc::IFNAMSIZ - 1;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// An interface by name; the kernel is asked anew for each of its properties.
#[derive(Debug)]
pub struct Interface {
    name: String,
    socket: OwnedFd,
}

/// Counters of an interface, as the kernel keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes, packets, errors and drops of received traffic.
    pub received: [u64; 4],
    /// The same of sent traffic.
    pub sent: [u64; 4],
}

/// `struct in6_ifreq` of the kernel.
#[repr(C)]
struct Request6 {
    address: [u8; 16],
    prefix: u32,
    index: libc::c_int,
}

/// `struct ethtool_value` with room for `struct ethtool_cmd`, of which the speed is read.
#[repr(C, align(8))]
struct EthtoolCommand {
    command: u32,
    supported_advertising: [u32; 2],
    speed_low: u16,
    between: [u8; 14],
    speed_high: u16,
    rest: [u8; 12],
}

const ETHTOOL_GSET: u32 = 1;

impl Interface {
    /// The interface `name`, if there is one.
    ///
    /// # Errors
    /// Errors of the system calls: `ENODEV` if there is none.
    pub fn named(name: &str) -> io::Result<Interface> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: no pointers.
        let socket = descriptor(unsafe {
            libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into()
        })?;
        let interface = Interface { name: name.to_owned(), socket };
        interface.index()?;
        Ok(interface)
    }

    /// Name of the interface, as `ip link` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: all zeros are a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, &from) in request.ifr_name.iter_mut().zip(self.name.as_bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    fn call(&self, number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: `request` is what these calls take, with whatever they read filled in.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), number as _, request) };
        checked(result.into()).map(drop)
    }

    fn ask(&self, number: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut request = self.request();
        self.call(number, &mut request)?;
        Ok(request)
    }

    /// Its number.
    ///
    /// # Errors
    /// It is gone.
    pub fn index(&self) -> io::Result<u32> {
        let answer = self.ask(libc::SIOCGIFINDEX as _)?;
        // SAFETY: this call fills in the index.
        Ok(unsafe { answer.ifr_ifru.ifru_ifindex } as u32)
    }

    /// Its address; an error if it is no Ethernet.
    ///
    /// # Errors
    /// It is gone, or no Ethernet.
    pub fn mac(&self) -> io::Result<Mac> {
        let answer = self.ask(libc::SIOCGIFHWADDR as _)?;
        // SAFETY: this call fills in the address.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no Ethernet interface"));
        }
        Ok(std::array::from_fn(|at| address.sa_data[at] as u8))
    }

    /// Gives it another address.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_mac(&self, mac: Mac) -> io::Result<()> {
        let mut request = self.request();
        // SAFETY: all zeros are a valid value.
        let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
        address.sa_family = libc::ARPHRD_ETHER;
        for (to, from) in address.sa_data.iter_mut().zip(mac) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_hwaddr = address;
        self.call(libc::SIOCSIFHWADDR as _, &mut request)
    }

    /// Most bytes of a packet, without the Ethernet header.
    ///
    /// # Errors
    /// It is gone.
    pub fn mtu(&self) -> io::Result<u32> {
        let answer = self.ask(libc::SIOCGIFMTU as _)?;
        // SAFETY: this call fills in the MTU.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu }.max(0) as u32)
    }

    /// Changes it.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
        self.call(libc::SIOCSIFMTU as _, &mut request)
    }

    /// Sets the length of the queue in front of it, in packets.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_queue_packets(&self, packets: libc::c_int) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_metric = packets;
        self.call(libc::SIOCSIFTXQLEN as _, &mut request)
    }

    fn flags(&self) -> io::Result<libc::c_int> {
        let answer = self.ask(libc::SIOCGIFFLAGS as _)?;
        // SAFETY: this call fills in the flags.
        Ok(unsafe { answer.ifr_ifru.ifru_flags }.into())
    }

    /// Whether it is switched on.
    ///
    /// # Errors
    /// It is gone.
    pub fn is_up(&self) -> io::Result<bool> {
        Ok(self.flags()? & libc::IFF_UP != 0)
    }

    /// Whether it is switched on and its cable is in.
    ///
    /// # Errors
    /// It is gone.
    pub fn has_link(&self) -> io::Result<bool> {
        Ok(self.flags()? & (libc::IFF_UP | libc::IFF_RUNNING) == libc::IFF_UP | libc::IFF_RUNNING)
    }

    /// Switches it on or off.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_up(&self, up: bool) -> io::Result<()> {
        let flags = self.flags()?;
        let mut request = self.request();
        let wanted = if up { flags | libc::IFF_UP } else { flags & !libc::IFF_UP };
        request.ifr_ifru.ifru_flags = wanted as libc::c_short;
        self.call(libc::SIOCSIFFLAGS as _, &mut request)
    }

    /// Megabits a second, if it knows.
    pub fn speed_mbits(&self) -> Option<u64> {
        // SAFETY: all zeros are a valid value.
        let mut command: EthtoolCommand = unsafe { std::mem::zeroed() };
        command.command = ETHTOOL_GSET;
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut command).cast();
        self.call(libc::SIOCETHTOOL as _, &mut request).ok()?;
        let speed = u64::from(command.speed_high) << 16 | u64::from(command.speed_low);
        (speed != 0 && speed < u64::from(u32::MAX)).then_some(speed)
    }

    /// Adds an address with the length of its network's prefix.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn add_ip(&self, ip: IpAddr, prefix: u8) -> io::Result<()> {
        match ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                self.set_ipv4(libc::SIOCSIFADDR as _, u32::from(ip))?;
                self.set_ipv4(libc::SIOCSIFNETMASK as _, mask)
            }
            IpAddr::V6(ip) => {
                // SAFETY: no pointers.
                let socket = descriptor(unsafe {
                    libc::socket(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into()
                })?;
                let index = self.index()? as libc::c_int;
                let mut request = Request6 { address: ip.octets(), prefix: prefix.into(), index };
                // SAFETY: `request` is what this call takes on a socket of IPv6.
                let result = unsafe {
                    libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR as _, &raw mut request)
                };
                checked(result.into()).map(drop)
            }
        }
    }

    fn set_ipv4(&self, number: libc::c_ulong, address: u32) -> io::Result<()> {
        let mut request = self.request();
        // SAFETY: all zeros are a valid value.
        let mut socket_address: libc::sockaddr = unsafe { std::mem::zeroed() };
        socket_address.sa_family = libc::AF_INET as _;
        for (to, from) in socket_address.sa_data[2..6].iter_mut().zip(address.to_be_bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_addr = socket_address;
        self.call(number, &mut request)
    }

    /// Counters of the interface, as the kernel keeps them.
    ///
    /// # Errors
    /// It is gone.
    pub fn counters(&self) -> io::Result<Counters> {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        counters_of(&text, &self.name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }
}

/// The counters of interface `name` in the kernel's table of all.
fn counters_of(table: &str, name: &str) -> Option<Counters> {
    let row = table.lines().find_map(|line| {
        let (interface, numbers) = line.split_once(':')?;
        (interface.trim() == name).then_some(numbers)
    })?;
    let numbers: Vec<u64> = row.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let four = |from: usize| -> Option<[u64; 4]> { numbers.get(from..from + 4)?.try_into().ok() };
    Some(Counters { received: four(0)?, sent: four(8)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_understood() {
        let table = "Inter-|   Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                     eth0:17 18 19 20 0 0 0 0 25 26 27 28 0 0 0 0\n";
        let counters = counters_of(table, "eth0").unwrap();
        assert_eq!(counters, Counters { received: [17, 18, 19, 20], sent: [25, 26, 27, 28] });
        assert_eq!(counters_of(table, "lo").unwrap().sent, [9, 10, 11, 12]);
        assert_eq!(counters_of(table, "eth"), None);
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "a-name-that-is-too-long", "rackmem-none"] {
            assert!(Interface::named(name).is_err(), "{name}");
        }
    }
}
