//! Reports as the paper's prototype would give them.

use rackmem_sim::report::{self, ExtensionReport, KeyValueReport};

use super::PAPER;
use super::experiment::{Card, DEFAULT, EXTRA, Experiment, LATENCIES, Place, Trial, VALUES};
use super::results::{Report, Results, of_machine};
use crate::reproduce::accounted::{self, Published};
use crate::reproduce::results::Effort;
use crate::reproduce::runtime::Figures;
use crate::reproduce::runtime::key_value::{Setup, evictions_name, name};

/// The published values, of which the reports are made.
pub(super) struct Perfect {
    published: Published,
}

impl Perfect {
    pub(super) fn new() -> Perfect {
        Perfect { published: Published::of(&PAPER) }
    }

    fn value(&self, id: &str) -> f64 {
        self.published.value(id)
    }

    /// Reports of everything that a reproduction needs.
    pub(super) fn results(&self, effort: Effort) -> Results {
        accounted::filled(&PAPER, effort, of_machine(), |run| self.report(run))
    }

    pub(super) fn report(&self, run: Experiment) -> Report {
        let mut report = report::Report { cycles: 1000, ..report::Report::default() };
        report.stats.insert("node[0].amt.slots".to_owned(), 1.0);
        report.extension = Some(match run {
            Experiment::Reads(place) => self.reads(place),
            Experiment::Card(card, place, bytes) => self.card(card, place, bytes),
            Experiment::KeyValue { remote_mb, value_bytes, database_us } => ExtensionReport {
                key_value: Some(self.key_value(remote_mb, value_bytes, database_us)),
                ..ExtensionReport::default()
            },
            Experiment::Runtime(trial) => return Report::of_host(on_host(trial)),
        });
        Report::of_model(report)
    }

    fn reads(&self, place: Place) -> ExtensionReport {
        let of = |id: &str| self.value(&format!("fig4/{id}"));
        let local = of("local-access");
        let layers = [
            local - 130.0,
            of("transaction-layer/master"),
            of("transaction-layer/slave"),
            0.0,
            2.0 * of("link-layer/latency"),
            of("physical-layer/latency"),
            130.0,
        ];
        let total = if place == Place::Local { local } else { layers.iter().sum() };
        ExtensionReport {
            latency_ns: Some(total),
            layers_ns: Some(layers),
            ..ExtensionReport::default()
        }
    }

    fn card(&self, card: Card, place: Place, bytes: u32) -> ExtensionReport {
        let extra = if place == Place::Remote { 1.0 } else { 0.0 };
        let lost =
            |id: &str| 1.0 - extra * self.value(&format!("fig5/bandwidth-disparity/{id}")) / 100.0;
        let added = extra * 1000.0 * self.value("fig5/ping-pong-extra");
        ExtensionReport {
            latency_ns: (card == Card::PingPong)
                .then(|| 50_000.0 + f64::from(bytes) * 10.0 + added),
            mbps: match card {
                Card::Send => Some(900.0 * lost("outbound")),
                Card::Receive => Some(900.0 * lost("inbound")),
                Card::PingPong => None,
            },
            ..ExtensionReport::default()
        }
    }

    /// The gain is the published one at the default value and latency, and at the largest of both.
    fn key_value(&self, remote_mb: u32, value: u32, latency: u32) -> KeyValueReport {
        let at = |list: &[u32], wanted| list.iter().position(|&one| one == wanted).unwrap() as f64;
        let least = self.value("fig8/max-combination") - 1.0;
        let (larger, sooner) = (2.0 - at(&VALUES, value), 2.0 - at(&LATENCIES, latency));
        let most = match (value, latency) {
            (512, 100) => self.value("fig7/redis/extra-512mb") / 100.0,
            _ => least * 2.5_f64.powf(larger) * 0.6_f64.powf(sooner),
        };
        let gain = 1.0 + most * f64::from(remote_mb) / 512.0;
        let gets = 3000.0 * gain;
        KeyValueReport {
            gets_per_second: gets,
            per_second: vec![if remote_mb > 0 { gets * 0.99 } else { gets }, gets],
            evictions_per_get: 0.4 - f64::from(remote_mb) / 2000.0,
            full_at: (remote_mb <= self.value("fig7/early-drop-limit") as u32).then_some(0.4),
            ..KeyValueReport::default()
        }
    }
}

/// As every host should.
fn on_host(trial: Trial) -> Figures {
    let figures = |list: &[(&str, f64)]| {
        list.iter().map(|&(name, value)| (name.to_owned(), value)).collect::<Figures>()
    };
    let setups = |remote: &[u32], values: &[u32], latencies: &[u32]| {
        let mut all = Figures::new();
        for &remote_mb in remote {
            for &value_bytes in values {
                for &latency in latencies {
                    let setup = Setup { remote_mb, value_bytes };
                    let gain = f64::from(remote_mb * (latency + 1)) / f64::from(value_bytes);
                    all.insert(name(setup, latency), 3000.0 + gain);
                    let evictions = 0.4 - f64::from(remote_mb) / 2000.0;
                    all.insert(evictions_name(setup, latency), evictions);
                }
            }
        }
        all
    };
    match trial {
        Trial::Reads => figures(&[
            ("local", 100.0),
            ("remote", 60_000.0),
            ("page-in", 40_000.0),
            ("lane", 25_000.0),
        ]),
        Trial::Capacity => setups(&EXTRA, &[DEFAULT.0], &[DEFAULT.1]),
        Trial::Sensitivity => setups(&[0, 512], &VALUES, &LATENCIES),
    }
}
