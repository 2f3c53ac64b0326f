//! Blocks of borrowed memory that a channel copies to local memory, one after the other: Thunder's RDMA
//! channel (TSM §4.2), which is controlled by the operating system and goes by the address mapping table.

use rackmem_rmc::amt::Target;

use super::{Rounds, Workload};
use crate::interconnect::node::Op;
use crate::interconnect::packet::{Access, Master};
use crate::interconnect::platform::{Platform, Upcall};
use crate::interconnect::report::ExtensionReport;
use crate::interconnect::time::ps;
use crate::machine::Machine;
use crate::machine::spec::{ExperimentSpec, QpairSpec, SocSpec};

const NEXT: u8 = 0;
/// The channel has been told of it.
const TOLD: u8 = 1;
/// The block is there.
const THERE: u8 = 2;

/// The node that borrows, and the one that lends.
const BORROWER: u16 = 0;
const LENDER: u16 = 1;

/// Bit of an access of the channel that writes.
const WRITE: u32 = 1 << 31;

/// Copies of blocks from the lender to the borrower.
#[derive(Debug)]
pub struct Rdma {
    qpair: QpairSpec,
    soc: SocSpec,
    experiment: ExperimentSpec,
    base: u64,
    asked: u32,
    under_way: u32,
    written: u32,
    blocks: Rounds,
}

impl Rdma {
    pub fn new(machine: &Machine) -> Rdma {
        Rdma {
            qpair: machine.qpair.clone(),
            soc: machine.soc.clone(),
            experiment: machine.experiment.clone(),
            base: 0,
            asked: 0,
            under_way: 0,
            written: 0,
            blocks: Rounds::new(&machine.experiment),
        }
    }

    /// Asks for bursts, as many as may be under way.
    fn read(&mut self, platform: &mut Platform) {
        let all = self.experiment.message_bytes;
        while self.asked < all && self.under_way < self.qpair.bursts {
            let bytes = self.qpair.burst_bytes.min(all - self.asked);
            let address = self.base + u64::from(self.asked);
            self.access(platform, false, address, self.asked, bytes);
            self.asked += bytes;
            self.under_way += 1;
        }
    }

    fn access(&self, platform: &mut Platform, is_write: bool, address: u64, at: u32, bytes: u32) {
        let master = Master::Qpair(at | if is_write { WRITE } else { 0 });
        let now = platform.now();
        platform.access(Access::new(master, BORROWER, is_write, address, bytes, now));
    }

    fn called(&mut self, platform: &mut Platform, what: u8) {
        match what {
            NEXT => {
                let tell = self.soc.port_ns / 2.0 + self.soc.register_ns;
                let work = Op::Work(ps(self.soc.call_ns + tell));
                platform.thread(BORROWER, 0, [work, Op::call(TOLD)]);
            }
            TOLD => {
                (self.asked, self.written) = (0, 0);
                self.read(platform);
            }
            THERE => {
                self.blocks.add(platform.now());
                platform.thread(BORROWER, 0, [Op::call(NEXT)]);
            }
            _ => {}
        }
    }
}

impl Workload for Rdma {
    fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        let lent = Target { destination: LENDER, address: 0 };
        let bytes = u64::from(self.experiment.message_bytes);
        self.base = platform.borrow(BORROWER, lent, bytes)?.1;
        platform.thread(BORROWER, 0, [Op::call(NEXT)]);
        Ok(())
    }

    fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> bool {
        match upcall {
            Upcall::Called { call, .. } => self.called(platform, call.what),
            // A burst has come: it goes to local memory.
            Upcall::Qpair { operation, access } if operation & WRITE == 0 => {
                self.under_way -= 1;
                self.access(platform, true, operation.into(), operation, access.bytes);
                self.read(platform);
            }
            Upcall::Qpair { access, .. } => {
                self.written += access.bytes;
                if self.written == self.experiment.message_bytes {
                    // The channel interrupts; its handler wakes who waits.
                    let work = Op::Work(ps(self.soc.interrupt_ns + self.soc.wake_ns));
                    platform.thread(BORROWER, 0, [work, Op::call(THERE)]);
                }
            }
            _ => {}
        }
        self.blocks.are_complete()
    }

    fn report(&self, platform: &Platform, report: &mut ExtensionReport) {
        let each_ns = self.blocks.mean_ns();
        report.latency_ns = Some(each_ns);
        report.software_ns = Some(self.soc.call_ns + self.soc.interrupt_ns + self.soc.wake_ns);
        report.mbps = Some(f64::from(self.experiment.message_bytes) * 8000.0 / each_ns);
        report.utilisation(platform, BORROWER);
    }
}
