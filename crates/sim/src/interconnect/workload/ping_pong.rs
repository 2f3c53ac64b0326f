//! Messages to and fro through a card: NetPIPE (DEOI §IV-B), whose latency is half a round trip.

use super::stack::{Stack, Told, USER};
use super::{Rounds, Workload};
use crate::interconnect::nic::CardFrame;
use crate::interconnect::node::Op;
use crate::interconnect::platform::{Platform, Upcall};
use crate::machine::Machine;
use crate::machine::spec::ExperimentSpec;
use crate::report::ExtensionReport;

/// The core whose thread answers: the other one is interrupted.
const CORE: u16 = 1;
/// The stack has made the packet of the answer.
const MADE: u8 = 0;

/// One message at a time, answered by the other end.
#[derive(Debug)]
pub struct PingPong {
    stack: Stack,
    spec: ExperimentSpec,
    core: u16,
    rounds: Rounds,
}

impl PingPong {
    pub fn new(machine: &Machine) -> PingPong {
        PingPong {
            stack: Stack::new(machine),
            spec: machine.experiment.clone(),
            core: CORE.min(machine.soc.cores - 1),
            rounds: Rounds::new(&machine.experiment),
        }
    }

    fn frame(&self) -> CardFrame {
        CardFrame { bytes: self.spec.message_bytes + self.stack.nic.header_bytes, tag: 0 }
    }

    /// The other end sends the next message.
    fn ask(&mut self, platform: &mut Platform) {
        let at = platform.now() + self.stack.peer();
        let frame = self.frame();
        self.stack.arrive_from_peer(platform, at, frame);
    }

    /// The thread takes the message, and makes the packet of the answer.
    fn answer(&mut self, platform: &mut Platform) {
        let copy = self.stack.call(self.spec.message_bytes);
        let send = self.stack.work(self.stack.nic.send_ns);
        let ops = [self.stack.wake(), copy, copy, send, Op::call(MADE)];
        platform.thread(USER, self.core, ops);
    }
}

impl Workload for PingPong {
    fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        let most = self.stack.segment();
        if self.spec.message_bytes > most {
            return Err(format!(
                "experiment.message_bytes: is {}, must be at most {most}, the data of one packet",
                self.spec.message_bytes
            ));
        }
        self.stack.start(platform)?;
        self.ask(platform);
        Ok(())
    }

    fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> bool {
        match self.stack.told(platform, upcall) {
            Told::Received(frames) if !frames.is_empty() => self.answer(platform),
            Told::Other(Upcall::Called { call, .. }) if call.what == MADE => {
                let frame = self.frame();
                let tell = self.stack.post(platform, frame);
                platform.thread(USER, self.core, [tell]);
            }
            Told::Other(Upcall::AtPeer { .. }) => {
                self.rounds.add(platform.now());
                self.ask(platform);
            }
            _ => {}
        }
        self.rounds.are_complete()
    }

    fn report(&self, platform: &Platform, report: &mut ExtensionReport) {
        let latency_ns = self.rounds.mean_ns() / 2.0;
        report.latency_ns = Some(latency_ns);
        report.mbps = Some(f64::from(self.spec.message_bytes) * 8000.0 / latency_ns);
        report.utilisation(platform, USER);
    }
}
