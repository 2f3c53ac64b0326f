//! The packets that endpoints create.

use super::matrix::Draws;
use super::pattern::{HotSpots, Pattern};
use super::{Experiment, ExperimentError, PacketSize};
use crate::engine::{Cycle, Random};
use crate::noc::Packet;

/// The Bernoulli process of all endpoints: a trial per cycle and endpoint, of which those without a
/// packet are jumped over.
pub(super) struct Traffic {
    /// Cycle and endpoint of the next packet.
    pub next_cycle: Cycle,
    next_source: u64,
    /// 1 / ln(1 - probability of a packet), or 0 if every trial makes one.
    scale: f64,
    endpoints: u64,
    /// By source: the share of its successful trials that make a packet; empty if all do.
    shares: Vec<f64>,
    destinations: Destinations,
    packet_flits: PacketSize,
    vnets: u64,
    random: Random,
}

/// Where packets go.
enum Destinations {
    /// By source.
    Fixed(Vec<u16>),
    Drawn {
        hot: HotSpots,
        no_self: bool,
    },
    Matrix(Draws),
}

impl Traffic {
    pub fn new(experiment: &Experiment) -> Result<Traffic, ExperimentError> {
        let endpoints = experiment.spec.endpoints();
        let destinations = Destinations::new(experiment, endpoints)?;
        let (peak, shares) = match &destinations {
            Destinations::Matrix(draws) => (draws.peak(), draws.shares()),
            _ => (1.0, Vec::new()),
        };
        let limit = experiment.packet_flits.mean_flits() / peak;
        let rate = experiment.rate;
        if !(rate > 0.0 && rate <= limit) {
            return Err(ExperimentError::BadRate { rate, limit });
        }
        let probability = rate / limit;
        let mut traffic = Traffic {
            next_cycle: 0,
            next_source: 0,
            scale: if probability < 1.0 { 1.0 / (-probability).ln_1p() } else { 0.0 },
            endpoints: endpoints as u64,
            shares,
            destinations,
            packet_flits: experiment.packet_flits.clone(),
            vnets: experiment.spec.vnets.len() as u64,
            random: Random::new(experiment.seed, 0),
        };
        traffic.skip_failures();
        Ok(traffic)
    }

    /// The next packet; the one after it is then known.
    pub fn packet(&mut self) -> Packet {
        let src = self.next_source as u16;
        let random = &mut self.random;
        let dst = self.destinations.of(src, self.endpoints, random);
        let flits = self.packet_flits.draw(random);
        let bits = random.bits();
        let vnet = (((bits & 0xffff) * self.vnets) >> 16) as u8;
        let from_directory = bits >> 16 & 1 != 0;
        let packet =
            Packet { src, dst, vnet, flits, from_directory, flow: (bits >> 32) as u32, tag: 0 };
        self.next_source += 1;
        self.skip_failures();
        packet
    }

    /// Goes on to the next trial that makes a packet.
    fn skip_failures(&mut self) {
        loop {
            // The number of failures before a success has a geometric distribution.
            let failures = ((1.0 - self.random.unit()).ln() * self.scale) as u64;
            self.next_source += failures;
            if self.next_source >= self.endpoints {
                self.next_cycle += self.next_source / self.endpoints;
                self.next_source %= self.endpoints;
            }
            let share = self.shares.get(self.next_source as usize);
            if share.is_none_or(|&share| self.random.unit() < share) {
                return;
            }
            self.next_source += 1;
        }
    }
}

impl Destinations {
    fn new(experiment: &Experiment, endpoints: usize) -> Result<Destinations, ExperimentError> {
        let no_self = experiment.no_self;
        let mut hot = match &experiment.pattern {
            Pattern::Matrix(matrix) => return Ok(Destinations::Matrix(matrix.draws(endpoints)?)),
            Pattern::HotSpot(hot) => hot.clone(),
            Pattern::Uniform => HotSpots { share: 0.0, endpoints: Vec::new() },
            other => return other.table(&experiment.spec).map(Destinations::Fixed),
        };
        if hot.endpoints.iter().any(|&endpoint| usize::from(endpoint) >= endpoints) {
            return Err(ExperimentError::BadHotSpots { text: experiment.pattern.to_string() });
        }
        if hot.endpoints.is_empty() {
            hot.endpoints.push((endpoints / 2) as u16);
        }
        Ok(Destinations::Drawn { hot, no_self })
    }

    #[inline]
    fn of(&self, src: u16, endpoints: u64, random: &mut Random) -> u16 {
        match self {
            Destinations::Fixed(table) => table[usize::from(src)],
            Destinations::Matrix(draws) => draws.destination(src.into(), random.unit()),
            Destinations::Drawn { hot, .. } if hot.share > 0.0 && random.unit() < hot.share => {
                match hot.endpoints[..] {
                    [only] => only,
                    ref several => several[random.below(several.len() as u64) as usize],
                }
            }
            Destinations::Drawn { no_self: true, .. } if endpoints > 1 => {
                let other = random.below(endpoints - 1) as u16;
                if other < src { other } else { other + 1 }
            }
            Destinations::Drawn { .. } => random.below(endpoints) as u16,
        }
    }
}
