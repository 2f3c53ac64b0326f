//! A loan of a NIC: sockets, tunnels and programs that are in place meanwhile. Dropping it gives the NIC back.

use std::io;
use std::net::IpAddr;

use crate::handshake::tunnel_overhead_bytes;
use crate::session::Device;
use crate::sys::bpf::{self, Attached, Door};
use crate::sys::guard::Guard;
use crate::sys::interface::Interface;
use crate::sys::netlink::{self, Tunnel};
use crate::sys::packet::PacketSocket;
use crate::sys::permission;
use crate::transport::Transport;
use rackmem_fabric::error::Result;

/// Mark of the borrower's packets while they pass this host's kernel: nothing else leaves the NIC.
const MARK: u32 = 0x7261_636b;

/// A NIC on loan.
#[derive(Debug)]
pub struct Loan {
    /// Source and sink of its packets, if this process carries them.
    pub device: Option<Device>,
    /// Programs, sockets and guards in the kernel; they end when this is dropped.
    pub kernel: KernelPart,
    /// Most bytes of a packet.
    pub mtu: u32,
    /// A sentence about a feature that is missing, though the loan works.
    pub remark: Option<String>,
}

/// Objects of the kernel that end with the loan, in this order.
#[derive(Debug)]
pub struct KernelPart {
    _programs: Vec<Attached>,
    _promiscuous: Option<PacketSocket>,
    _guard: Guard,
}

impl Loan {
    /// Packets pass through a packet socket of this process.
    ///
    /// # Errors
    /// Rights are missing, or the NIC does not do.
    pub fn by_processes(interface: &Interface) -> Result<Loan> {
        let name = interface.name();
        let failed = |error| permission::explain(&format!("take the packets of {name}"), error);
        let guard = guard(interface, &[]).map_err(failed)?;
        interface.set_up(true).map_err(failed)?;
        let socket = PacketSocket::open(interface, MARK).map_err(failed)?;
        let index = interface.index().map_err(failed)?;
        let doors = [Door::In, Door::Out].map(|door| bpf::only_marked(index, door, MARK));
        let (programs, remark) = match doors.into_iter().collect::<io::Result<Vec<_>>>() {
            Ok(programs) => (programs, None),
            Err(error) => (Vec::new(), Some(still_seen(name, &error))),
        };
        Ok(Loan {
            device: Some(Device::Nic(socket)),
            kernel: KernelPart { _programs: programs, _promiscuous: None, _guard: guard },
            mtu: interface.mtu().map_err(failed)?,
            remark,
        })
    }

    /// Packets pass from the NIC to tunnel `id`, whose other end the borrower has, and back.
    ///
    /// # Errors
    /// Rights are missing, or the kernel has no tunnels or no programs at interfaces.
    pub fn by_kernel(interface: &Interface, transport: &Transport, id: u32) -> Result<Loan> {
        let name = interface.name();
        let failed = |error| permission::explain(&format!("wire {name} to a tunnel"), error);
        let (local, mtu) = transport.path().map_err(failed)?;
        let mtu = mtu.saturating_sub(tunnel_overhead_bytes(local));
        let mtu = mtu.min(interface.mtu().map_err(failed)?);
        let (end, guard) =
            tunnel(interface, id, local, transport.peer().ip(), mtu).map_err(failed)?;
        interface.set_up(true).map_err(failed)?;
        let promiscuous = PacketSocket::promiscuous(interface).map_err(failed)?;
        let programs = wire(interface, &end).map_err(failed)?;
        end.set_up(true).map_err(failed)?;
        Ok(Loan {
            device: None,
            kernel: KernelPart {
                _programs: programs,
                _promiscuous: Some(promiscuous),
                _guard: guard,
            },
            mtu,
            remark: None,
        })
    }
}

/// The lender's end of a tunnel, and the guard that removes it.
fn tunnel(
    nic: &Interface,
    id: u32,
    local: IpAddr,
    remote: IpAddr,
    mtu: u32,
) -> io::Result<(Interface, Guard)> {
    let name = format!("rmnic{}", nic.index()?);
    // Both the lender and its guard may have been killed: what they left is nobody's.
    if let Ok(old) = Interface::named(&name) {
        drop(Guard::new(&[netlink::removal(&old)?])?);
    }
    netlink::create_tunnel(&name, &Tunnel { id, local, remote, mtu, mac: None })?;
    let end = Interface::named(&name)?;
    let guard = guard(nic, &[netlink::removal(&end)?])?;
    Ok((end, guard))
}

fn guard(nic: &Interface, before: &[Vec<u8>]) -> io::Result<Guard> {
    Guard::new(&[before, &netlink::restoration(nic)?].concat())
}

/// All that arrives at the NIC leaves by the tunnel, all that arrives by the tunnel leaves the NIC, and
/// nothing else does.
fn wire(nic: &Interface, tunnel: &Interface) -> io::Result<Vec<Attached>> {
    let (nic, tunnel) = (nic.index()?, tunnel.index()?);
    Ok(vec![
        bpf::only_marked(nic, Door::Out, MARK)?,
        bpf::redirect(tunnel, Door::In, nic, MARK)?,
        bpf::redirect(nic, Door::In, tunnel, MARK)?,
    ])
}

fn still_seen(name: &str, error: &io::Error) -> String {
    format!(
        "this host's own stack still sees the packets of {name}, for the kernel takes no programs at \
         interfaces ({error}); Linux 6.6 and CAP_BPF are needed. Give {name} no addresses meanwhile"
    )
}
