//! Random reads of lines by one core, each after the other: latency, and the layers that it is made of
//! (DEOI §IV-A).

use rackmem_rmc::amt::Target;

use super::{Rounds, Workload};
use crate::engine::Random;
use crate::interconnect::node::Op;
use crate::interconnect::packet::Layer;
use crate::interconnect::platform::{Platform, Upcall};
use crate::interconnect::time::Ps;
use crate::machine::Machine;
use crate::machine::spec::{ExperimentSpec, Place};
use crate::report::ExtensionReport;
use crate::report::LAYERS;

const NEXT: Op = Op::call(0);

/// The node that reads, and the one that lends.
const READER: u16 = 0;
const LENDER: u16 = 1;

/// Reads of random lines, local or borrowed.
#[derive(Debug)]
pub struct Reads {
    spec: ExperimentSpec,
    line_bytes: u32,
    loop_cycles: u32,
    base: u64,
    random: Random,
    reads: Rounds,
    failed: u64,
    layers: [Ps; LAYERS],
    total: Ps,
    least: Ps,
    most: Ps,
}

impl Reads {
    pub fn new(machine: &Machine) -> Reads {
        Reads {
            spec: machine.experiment.clone(),
            line_bytes: machine.soc.line_bytes,
            loop_cycles: machine.soc.loop_cycles,
            base: 0,
            random: Random::new(machine.seed, 1),
            reads: Rounds::new(&machine.experiment),
            failed: 0,
            layers: [0; LAYERS],
            total: 0,
            least: Ps::MAX,
            most: 0,
        }
    }
}

impl Workload for Reads {
    fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        if self.spec.place == Place::Remote {
            let lent = Target { destination: LENDER, address: 0 };
            self.base = platform.borrow(READER, lent, self.spec.footprint_bytes)?.1;
        }
        platform.thread(READER, 0, [NEXT]);
        Ok(())
    }

    fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> bool {
        match upcall {
            Upcall::Called { .. } => {
                let lines = self.spec.footprint_bytes / u64::from(self.line_bytes);
                let line = self.random.below(lines) * u64::from(self.line_bytes);
                let work = Op::Work(platform.core_cycles(self.loop_cycles));
                let load = Op::Load(self.base + line, self.line_bytes);
                platform.thread(READER, 0, [work, load, NEXT]);
            }
            Upcall::Loaded { access, .. } => {
                self.reads.add(platform.now());
                if self.reads.is_measured() {
                    let work = platform.core_cycles(self.loop_cycles);
                    let time = access.trip.mark - access.start + work;
                    self.total += time;
                    (self.least, self.most) = (self.least.min(time), self.most.max(time));
                    self.failed += u64::from(access.failed);
                    for (sum, layer) in self.layers.iter_mut().zip(access.trip.layers) {
                        *sum += layer;
                    }
                    self.layers[Layer::Software as usize] += work;
                }
            }
            _ => {}
        }
        self.reads.are_complete()
    }

    fn report(&self, _: &Platform, report: &mut ExtensionReport) {
        let count = self.reads.measured().max(1) as f64;
        let ns = |ps: Ps| ps as f64 / 1000.0;
        report.latency_ns = Some(ns(self.total) / count);
        report.least_latency_ns = Some(ns(self.least));
        report.most_latency_ns = Some(ns(self.most));
        report.layers_ns = Some(self.layers.map(|layer| ns(layer) / count));
        report.failed = self.failed;
    }
}
