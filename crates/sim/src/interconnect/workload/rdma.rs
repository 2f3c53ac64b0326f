//! Blocks of borrowed memory that a channel copies to local memory, one after the other: Thunder's RDMA
//! channel (TSM §4.2), which is controlled by the operating system and goes by the address mapping table.

use rackmem_rmc::amt::Target;

use super::{Rounds, Workload};
use crate::interconnect::bursts::{Burst, Bursts};
use crate::interconnect::node::Op;
use crate::interconnect::packet::{Access, Master};
use crate::interconnect::platform::{Platform, Upcall};
use crate::interconnect::time::ps;
use crate::machine::Machine;
use crate::machine::spec::{ExperimentSpec, QpairSpec, SocSpec};
use crate::report::ExtensionReport;

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
    bursts: Bursts,
    blocks: Rounds,
}

impl Rdma {
    pub fn new(machine: &Machine) -> Rdma {
        Rdma {
            qpair: machine.qpair.clone(),
            soc: machine.soc.clone(),
            experiment: machine.experiment.clone(),
            base: 0,
            bursts: Bursts::new(&machine.qpair, 0),
            blocks: Rounds::new(&machine.experiment),
        }
    }

    /// Asks for bursts, as many as may be under way.
    fn read(&mut self, platform: &mut Platform) {
        while let Some(Burst { at, bytes }) = self.bursts.ask() {
            self.access(platform, false, self.base + at, at as u32, bytes);
        }
    }

    fn access(&self, platform: &mut Platform, is_write: bool, address: u64, at: u32, bytes: u32) {
        let master = Master::Qpair(at | if is_write { WRITE } else { 0 });
        let now = platform.now();
        platform.access(Access::new(master, BORROWER, is_write, address, bytes, now));
    }

    /// A burst is in local memory. After the last one the channel interrupts; the handler wakes the thread that waits.
    fn written(&mut self, platform: &mut Platform, bytes: u32) {
        if self.bursts.moved(bytes) {
            let work = Op::Work(ps(self.soc.interrupt_ns + self.soc.wake_ns));
            platform.thread(BORROWER, 0, [work, Op::call(THERE)]);
        }
    }

    fn called(&mut self, platform: &mut Platform, what: u8) {
        match what {
            NEXT => {
                let tell = self.soc.port_ns / 2.0 + self.soc.register_ns;
                let work = Op::Work(ps(self.soc.call_ns + tell));
                platform.thread(BORROWER, 0, [work, Op::call(TOLD)]);
            }
            TOLD => {
                self.bursts = Bursts::new(&self.qpair, self.experiment.message_bytes.into());
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
                self.bursts.leave();
                self.access(platform, true, operation.into(), operation, access.bytes);
                self.read(platform);
            }
            Upcall::Qpair { access, .. } => self.written(platform, access.bytes),
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
