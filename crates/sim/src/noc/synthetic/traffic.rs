//! The packets that endpoints create.

use super::matrix::Draws;
use super::pattern::{HotSpots, Pattern};
use super::{Experiment, ExperimentError, PacketSize};
use crate::engine::{Cycle, Random};
use crate::noc::{Class, Packet};

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
        let class = match bits >> 16 & 3 {
            1 => Class::Directory,
            3 => Class::MemoryRequest,
            _ => Class::Other,
        };
        let packet = Packet { src, dst, vnet, flits, class, flow: (bits >> 32) as u32, tag: 0 };
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
        if no_self && endpoints == 1 {
            return Err(ExperimentError::NoOther {
                topology: experiment.spec.topology.to_string(),
            });
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
            Destinations::Drawn { hot, no_self } => {
                let is_hot = hot.share > 0.0 && random.unit() < hot.share;
                let spot = if is_hot { hot_spot(hot, src, *no_self, random) } else { None };
                spot.unwrap_or_else(|| any(src, endpoints, *no_self, random))
            }
        }
    }
}

/// One of the hot spots, with the same probability; none if the source is the only one and does not send to itself.
#[inline]
fn hot_spot(hot: &HotSpots, src: u16, no_self: bool, random: &mut Random) -> Option<u16> {
    let is_other = |&&spot: &&u16| !no_self || spot != src;
    let others = || hot.endpoints.iter().filter(is_other);
    match others().count() {
        0 => None,
        1 => others().next().copied(),
        several => others().nth(random.below(several as u64) as usize).copied(),
    }
}

/// Any endpoint, with the same probability.
#[inline]
fn any(src: u16, endpoints: u64, no_self: bool, random: &mut Random) -> u16 {
    if !no_self {
        return random.below(endpoints) as u16;
    }
    let other = random.below(endpoints - 1) as u16;
    if other < src { other } else { other + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noc::{Pipeline, Routing, Shape, Spec};

    /// Of many packets: how many go from each endpoint of a row of four to each.
    fn packets(hot_spots: &str) -> [[u32; 4]; 4] {
        let shape: Shape = "mesh:4x1".parse().unwrap();
        let spec = Spec::standalone(shape, Routing::Xy, Pipeline::Five);
        let pattern = hot_spots.parse().unwrap();
        let experiment = Experiment { pattern, no_self: true, ..Experiment::new(spec, 0.5) };
        let mut traffic = Traffic::new(&experiment).unwrap();
        let mut counts = [[0; 4]; 4];
        for _ in 0..40_000 {
            let packet = traffic.packet();
            counts[usize::from(packet.src)][usize::from(packet.dst)] += 1;
        }
        counts
    }

    #[test]
    fn an_endpoint_without_others_sends_to_itself_or_is_refused() {
        let spec = Spec::standalone("mesh:1x1".parse().unwrap(), Routing::Xy, Pipeline::Five);
        for pattern in ["uniform", "hot-spot:1:0"] {
            let pattern = pattern.parse().unwrap();
            let alone = Experiment { pattern, ..Experiment::new(spec.clone(), 0.1) };
            assert!(Traffic::new(&alone).is_ok());
            let error = Traffic::new(&Experiment { no_self: true, ..alone }).err().unwrap();
            assert!(error.to_string().contains("`mesh:1x1` has one; give it more"), "{error}");
        }
    }

    #[test]
    fn hot_spots_do_not_send_to_themselves_if_nobody_does() {
        for (hot_spots, spots) in [("hot-spot:1:2", &[2][..]), ("hot-spot:1:1,2", &[1, 2])] {
            let counts = packets(hot_spots);
            for (src, row) in counts.iter().enumerate() {
                assert_eq!(row[src], 0, "{hot_spots}: {counts:?}");
                let others = spots.iter().filter(|&&spot| spot != src).count() as u32;
                for (dst, &count) in row.iter().enumerate().filter(|&(dst, _)| dst != src) {
                    // A spot that is the only one sends to all others.
                    let expected = match (others, spots.contains(&dst)) {
                        (0, _) => 10_000 / 3,
                        (_, true) => 10_000 / others,
                        (_, false) => 0,
                    };
                    assert!(count.abs_diff(expected) < 400, "{hot_spots}: {counts:?}");
                }
            }
        }
    }
}
