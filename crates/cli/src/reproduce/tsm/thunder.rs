//! Runs on the FPGA prototype: messages between two nodes, by queue pairs and by Ethernet.

use super::experiment::{Experiment, Machine};
use super::results::{Known, Results};

/// Way of messages and place of their buffers: the four configurations of the paper, and Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// 1: buffers in memory that caches do not keep; translation by system calls.
    Uncached,
    /// 2: buffers in coherent memory; translation by system calls.
    Cached,
    /// Buffers in coherent memory, which were translated beforehand: messages are copied through them.
    CachedCopy,
    /// 3: translation by the channel.
    CachedMmu,
    /// 4: buffers in on-chip memory, translation by the channel.
    OcmMmu,
    /// Gigabit Ethernet.
    Ethernet,
}

/// The paper's configurations.
pub const QUEUE_PAIRS: [Way; 4] = [Way::Uncached, Way::Cached, Way::CachedMmu, Way::OcmMmu];

/// Packet sizes: the smallest, those around the limit of the cache, and the largest for on-chip memory.
pub const SIZES: [u32; 6] = [SMALL, 1 << 10, 4 << 10, 16 << 10, 64 << 10, LARGE];

/// The smallest.
pub const SMALL: u32 = 64;

/// The largest.
pub const LARGE: u32 = 128 << 10;

/// Messages between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchange {
    /// Way of the messages.
    pub way: Way,
    /// Each message answers the last one; else they follow each other.
    pub is_ping_pong: bool,
    /// Bytes of each.
    pub bytes: u32,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Uncached => "uncached",
            Way::Cached => "cached",
            Way::CachedCopy => "cached-copy",
            Way::CachedMmu => "cached-mmu",
            Way::OcmMmu => "ocm-mmu",
            Way::Ethernet => "ethernet",
        }
    }
}

impl Exchange {
    /// Its name: `ocm-mmu/latency/64`.
    pub fn name(&self) -> String {
        let what = if self.is_ping_pong { "latency" } else { "bandwidth" };
        format!("{}/{what}/{}", self.way.name(), self.bytes)
    }

    /// Settings of the machine.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let kind = match (self.way, self.is_ping_pong) {
            (Way::Ethernet, true) => "nic-ping-pong",
            (Way::Ethernet, false) => "nic-send",
            (_, true) => "qpair-ping-pong",
            (_, false) => "qpair-stream",
        };
        let (buffers, translation) = match self.way {
            Way::Uncached => ("uncached", "call"),
            Way::Cached => ("cached", "call"),
            Way::CachedCopy => ("cached", "copy"),
            Way::CachedMmu => ("cached", "channel"),
            Way::OcmMmu | Way::Ethernet => ("ocm", "channel"),
        };
        let count = match (self.way, self.is_ping_pong) {
            (Way::Ethernet, false) => 4_000,
            _ => 40,
        };
        vec![
            ("experiment.kind", kind.to_owned()),
            ("experiment.message_bytes", self.bytes.to_string()),
            ("experiment.warm_up", (count / 4).to_string()),
            ("experiment.count", count.to_string()),
            ("qpair.buffers", buffers.to_owned()),
            ("qpair.translation", translation.to_owned()),
        ]
    }
}

impl Results {
    fn of_exchange(&self, exchange: Exchange, name: &str) -> Known<f64> {
        let run = Experiment::thunder(exchange);
        let found = self.report(run)?.output[name].as_f64();
        found.or(self.planned(1.0)).ok_or_else(|| format!("{} reports no {name}", run.name()))
    }

    /// One way from socket to socket, in us.
    ///
    /// # Errors
    /// The run is missing.
    pub fn message_us(&self, way: Way, bytes: u32) -> Known<f64> {
        let exchange = Exchange { way, is_ping_pong: true, bytes };
        Ok(self.of_exchange(exchange, "latency_ns")? / 1000.0)
    }

    /// The library's part of that.
    ///
    /// # Errors
    /// The run is missing.
    pub fn library_us(&self, way: Way, bytes: u32) -> Known<f64> {
        let exchange = Exchange { way, is_ping_pong: true, bytes };
        Ok(self.of_exchange(exchange, "software_ns")? / 1000.0)
    }

    /// Time of the cores of both ends for a message, in us.
    ///
    /// # Errors
    /// The run is missing.
    pub fn message_core_us(&self, way: Way, bytes: u32) -> Known<f64> {
        let exchange = Exchange { way, is_ping_pong: true, bytes };
        Ok(self.of_exchange(exchange, "core_ns")? / 1000.0)
    }

    /// Bandwidth of messages of a size, in MB/s.
    ///
    /// # Errors
    /// The run is missing.
    pub fn message_mb_per_s(&self, way: Way, bytes: u32) -> Known<f64> {
        let exchange = Exchange { way, is_ping_pong: false, bytes };
        Ok(self.of_exchange(exchange, "mbps")? / 8.0)
    }

    /// A word of the FPGA prototype.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn thunder_word(&self, section: &str, key: &str) -> Known<&str> {
        let table = self.setting.thunder.as_ref().map_err(String::clone)?;
        let word = table.get(section).and_then(|section| section.get(key)).and_then(|w| w.as_str());
        word.ok_or_else(|| format!("the machine has no word {section}.{key}"))
    }

    /// A number of the FPGA prototype.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn thunder_number(&self, path: &str) -> Known<f64> {
        self.number_of(Machine::Thunder, path)
    }
}
