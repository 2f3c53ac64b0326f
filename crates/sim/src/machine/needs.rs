//! Settings that are read only if another one has a certain value.

use toml::{Table, Value};

use super::kind::Kind;

/// What reads a machine: it decides whether cores execute a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Not known yet: a workload or a program.
    Any,
    /// `sim run`: the workload that the machine describes.
    Workload,
    /// `sim exec`: a program, whatever the workload is.
    Program,
    /// `sim exec --traffic steady`: a program, of which the traffic is measured as of a workload.
    Traffic,
    /// `dram`: traffic to the memory alone.
    Memory,
}

/// The setting that says what cores do, unless `sim exec` has them execute a program.
const WORKLOAD: &str = "workload.kind";
const PROGRAM: &str = "program";
/// What stands for a value of [`WORKLOAD`] where the traffic of a program is measured.
const TRAFFIC: &str = "traffic";

/// A condition under which settings, or all of their sections, are read.
struct Need {
    of: &'static [&'static str],
    /// The setting that decides.
    selector: &'static str,
    is: Is,
}

enum Is {
    OneOf(&'static [&'static str]),
    NotZero,
    /// Nothing of the model reads it, for this reason.
    Never(&'static str),
}

const fn one_of(
    of: &'static [&'static str],
    selector: &'static str,
    values: &'static [&'static str],
) -> Need {
    Need { of, selector, is: Is::OneOf(values) }
}

/// Kinds of `workload.kind` that `sim run` runs.
const READS: &[&str] = &["sync-read", "async-read"];
/// Places of network interfaces with an RGP and an RCP as Manycore NI has them.
const QUEUE_PAIRS: &[&str] = &["edge", "per-tile", "split", "uncached"];
/// Those of them with NI caches.
const CACHED: &[&str] = &["edge", "per-tile", "split"];
/// Those with links at the edge.
const LINKED: &[&str] = &["edge", "per-tile", "split", "numa", "uncached"];
/// Those that order a completion behind its data, or wait for stores to memory of another node.
const STORING: &[&str] = &["edge", "per-tile", "split", "uncached", "window", "bridge"];
/// Those with RMCs of whatever kind.
const RMCS: &[&str] = &["edge", "per-tile", "split", "numa", "uncached", "sonuma"];
/// Experiments that use a network interface card.
const CARDS: &[&str] = &["nic-send", "nic-receive", "nic-ping-pong"];
/// Experiments that send messages by the queue pair channel; another one has it copy blocks.
const CHANNELS: &[&str] = &["qpair-ping-pong", "qpair-stream"];

/// Conditions under which settings are read. A setting is read if all conditions about it and about its section hold;
/// one with a selector that machines of this kind do not have says nothing.
const NEEDS: &[Need] = &[
    // -- cores, and what they do
    one_of(&["core"], "workload.kind", READS),
    one_of(&["core"], "ni.placement", QUEUE_PAIRS),
    one_of(&["core.posts_per_poll", "core.store_buffer"], "workload.kind", &["async-read"]),
    one_of(&["cpu", "system", "lan", "memory.size_bytes"], "workload.kind", &[PROGRAM]),
    one_of(
        &[
            "workload.transfer_bytes",
            "workload.cores",
            "workload.first_core",
            "workload.footprint_bytes",
        ],
        "workload.kind",
        READS,
    ),
    one_of(&["workload.warmup_reads", "run.reads"], "workload.kind", &["sync-read"]),
    one_of(&["workload.rate", "workload.arrivals"], "workload.kind", &["async-read"]),
    one_of(
        &[
            "run.window_cycles",
            "run.steady",
            "run.precision_percent",
            "run.min_windows",
            "run.max_windows",
        ],
        "workload.kind",
        &["async-read", TRAFFIC],
    ),
    one_of(&["run.watchdog_cycles"], "workload.kind", READS),
    Need { of: &["workload.arrivals"], selector: "workload.rate", is: Is::NotZero },
    // -- memory
    one_of(&["memory.latency_ns", "memory.bytes_per_cycle"], "memory.model", &["fixed"]),
    one_of(&["memory.contents"], "workload.kind", READS),
    one_of(&["dram"], "memory.model", &["ddr3"]),
    one_of(
        &["dram.row_accesses"],
        "dram.scheduler",
        &["rank-then-bank-round-robin", "bank-queues"],
    ),
    one_of(&["dram.bank_queue"], "dram.scheduler", &["bank-queues"]),
    one_of(&["llc.banks"], "noc.topology", &["crossbar"]),
    // -- network on chip
    one_of(&["noc.routing", "noc.hop_cycles"], "noc.topology", &["mesh"]),
    one_of(&["noc.tree_hop_cycles", "noc.tiles_per_cycle"], "noc.topology", &["noc-out"]),
    // -- network interfaces
    one_of(
        &["ni.cache", "ni.owned_state", "ni.back_side_cycles"],
        "ni.placement",
        &["per-tile", "split"],
    ),
    one_of(&["ni.owned_state"], "ni.cache", &["back-side"]),
    one_of(
        &[
            "ni.rgp_frontend_cycles",
            "ni.rgp_backend_cycles",
            "ni.rcp_backend_cycles",
            "ni.rcp_frontend_cycles",
            "ni.rcp_stores",
            "ni.unroll_per_cycle",
            "ni.max_outstanding_lines",
            "ni.wq_entries",
        ],
        "ni.placement",
        QUEUE_PAIRS,
    ),
    one_of(&["ni.cache_blocks", "ni.cache_latency_cycles"], "ni.placement", CACHED),
    one_of(&["ni.interface_cycles"], "ni.placement", &["split"]),
    one_of(&["l2", "scratchpad"], "ni.placement", &["cache-integrated"]),
    one_of(
        &[
            "ni.lane_credits",
            "ni.rrpp_request_cycles",
            "ni.rrpp_reply_cycles",
            "ni.rrpp_transactions",
            "network.remote",
        ],
        "ni.placement",
        LINKED,
    ),
    one_of(&["ni.completion"], "ni.placement", STORING),
    one_of(&["network.credits"], "ni.placement", RMCS),
    one_of(&["rmc"], "ni.placement", &["sonuma"]),
    one_of(&["window"], "ni.placement", &["window", "bridge"]),
    one_of(
        &[
            "window.policy",
            "window.combining_buffers",
            "window.posted",
            "window.link_gtps",
            "window.link_lanes",
            "window.link_bits_per_ten",
            "window.request_overhead_bytes",
            "window.completion_overhead_bytes",
            "window.ack_bytes",
            "window.max_payload_bytes",
            "window.max_read_bytes",
            "window.dma_descriptors",
            "window.dma_setup_ns",
        ],
        "ni.placement",
        &["window"],
    ),
    one_of(
        &["window.coherent", "window.register_ns", "extension", "nic", "qpair"],
        "ni.placement",
        &["bridge"],
    ),
    Need {
        of: &[
            "nic.header_bytes",
            "nic.ring",
            "nic.packets_per_ack",
            "nic.window_bytes",
            "nic.send_ns",
            "nic.receive_ns",
            "nic.ack_ns",
            "nic.reclaim_ns",
        ],
        selector: "ni.placement",
        is: Is::Never("programs are driver and stack of the card"),
    },
    Need {
        of: &[
            "qpair.library_ns",
            "qpair.poll_ns",
            "qpair.uncached_ns",
            "qpair.ocm_bytes",
            "qpair.ocm_reserved_bytes",
            "qpair.page_bytes",
            "qpair.translate_ns",
        ],
        selector: "ni.placement",
        is: Is::Never("programs are the library of the channel, and their memory holds the queues"),
    },
    Need {
        of: &["extension.nodes", "extension.lva_base_bytes", "extension.lva_bytes"],
        selector: "ni.placement",
        is: Is::Never("chips have as many nodes as execute, and the window follows their memory"),
    },
    // -- network between chips
    one_of(
        &["network.hop_latency_ns", "network.hops"],
        "ni.placement",
        &["edge", "per-tile", "split", "uncached", "numa", "sonuma", "window"],
    ),
    one_of(&["network.nodes"], "network.remote", &["nodes"]),
    one_of(&["network.nodes"], "workload.kind", READS),
    // -- simplified nodes
    one_of(&["traffic.hot_share", "traffic.hot_node"], "traffic.pattern", &["hot-spot"]),
    one_of(&["traffic.outstanding"], "traffic.loop", &["closed"]),
    one_of(&["traffic.offered_gbps"], "traffic.loop", &["open"]),
    // -- nodes with an extended interconnect
    one_of(&["experiment.footprint_bytes"], "experiment.kind", &["reads"]),
    one_of(&["nic"], "experiment.kind", CARDS),
    one_of(&["qpair"], "experiment.kind", &["qpair-ping-pong", "qpair-stream", "rdma"]),
    one_of(
        &[
            "qpair.queue_entries",
            "qpair.packet_bytes",
            "qpair.library_ns",
            "qpair.poll_ns",
            "qpair.buffers",
            "qpair.translation",
            "qpair.descriptor_bytes",
            "qpair.uncached_ns",
            "qpair.l2_ns",
            "qpair.l2_message_bytes",
            "qpair.ocm_ns",
            "qpair.ocm_bytes",
            "qpair.ocm_reserved_bytes",
            "qpair.mmu_cycles",
            "qpair.page_bytes",
            "qpair.translate_ns",
        ],
        "experiment.kind",
        CHANNELS,
    ),
    one_of(&["qpair.descriptor_bytes", "qpair.uncached_ns"], "qpair.buffers", &["uncached"]),
    one_of(&["qpair.l2_ns", "qpair.l2_message_bytes"], "qpair.buffers", &["cached"]),
    one_of(
        &["qpair.ocm_ns", "qpair.ocm_bytes", "qpair.ocm_reserved_bytes"],
        "qpair.buffers",
        &["ocm"],
    ),
    one_of(&["qpair.mmu_cycles"], "qpair.translation", &["channel"]),
    one_of(&["qpair.page_bytes", "qpair.translate_ns"], "qpair.translation", &["call"]),
    Need {
        of: &["qpair.connections"],
        selector: "qpair.connections",
        is: Is::Never("experiments use one connection of each node"),
    },
];

/// Settings with their values, and the reader of the machine.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// The whole machine.
    pub machine: &'a Table,
    /// What reads it.
    pub reader: Use,
}

impl Reading<'_> {
    /// Why nothing reads a setting of this machine; `None` if something does.
    pub(super) fn unread(self, path: &str) -> Option<String> {
        let of_kind = || self.unread_by_kind(path);
        let of_values =
            || NEEDS.iter().filter(|need| need.is_about(path)).find_map(|need| self.broken(need));
        let is_replaced = path == WORKLOAD
            && matches!(self.reader, Use::Program | Use::Traffic)
            && self.value(WORKLOAD).as_deref() != Some(PROGRAM);
        if is_replaced {
            return Some("cores execute a program".to_owned());
        }
        of_kind().or_else(of_values)
    }

    /// The same, if it follows from the kind of machine.
    pub(super) fn unread_by_kind(self, path: &str) -> Option<String> {
        let kind = self.kind();
        if kind.reads(path) {
            return None;
        }
        let others = Kind::ALL.into_iter().filter(|other| other.reads(path));
        let others: Vec<String> = others.map(|other| format!("\"{}\"", other.name())).collect();
        let because = match self.reader {
            Use::Memory => "traffic to the memory alone reads memory.* and dram.*".to_owned(),
            _ => format!(
                "it is for kind = {}, and this machine's is \"{}\"",
                others.join(" or "),
                kind.name()
            ),
        };
        Some(because)
    }

    fn kind(self) -> Kind {
        let named = |kind: &Kind| self.value("kind").as_deref() == Some(kind.name());
        match self.reader {
            Use::Memory => Kind::Memory,
            _ => Kind::ALL.into_iter().find(named).unwrap_or_default(),
        }
    }

    /// Why a condition does not hold.
    fn broken(self, need: &Need) -> Option<String> {
        let selector = need.selector;
        if !self.kind().reads(selector) {
            return None;
        }
        let values = self.possible(selector);
        let wanted = match need.is {
            Is::Never(because) => return Some(because.to_owned()),
            Is::NotZero if values.iter().any(|value| value.parse() != Ok(0.0)) => return None,
            Is::OneOf(wanted) if values.iter().any(|value| wanted.contains(&value.as_str())) => {
                return None;
            }
            Is::NotZero => "that is not 0".to_owned(),
            Is::OneOf(wanted) => {
                let shown = |value: &&str| match *value {
                    TRAFFIC => "sim exec --traffic steady".to_owned(),
                    value => format!("\"{value}\""),
                };
                let wanted: Vec<String> = wanted.iter().map(shown).collect();
                format!("= {}", wanted.join(" or "))
            }
        };
        let has = values.first()?;
        Some(format!("it needs {selector} {wanted}, and here it is {has}"))
    }

    /// The value of a setting, and others that its reader may give it.
    fn possible(self, selector: &str) -> Vec<String> {
        let has = self.value(selector);
        let program = || PROGRAM.to_owned();
        match self.reader {
            Use::Program if selector == WORKLOAD => vec![program()],
            Use::Traffic if selector == WORKLOAD => vec![program(), TRAFFIC.to_owned()],
            Use::Any if selector == WORKLOAD => has.into_iter().chain([program()]).collect(),
            _ => has.into_iter().collect(),
        }
    }

    fn value(self, path: &str) -> Option<String> {
        let value = match path.split_once('.') {
            None => self.machine.get(path),
            Some((section, key)) => self.machine.get(section)?.get(key),
        };
        value.map(|value| match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        })
    }
}

impl Need {
    fn is_about(&self, path: &str) -> bool {
        let section = path.split('.').next().unwrap_or_default();
        self.of.iter().any(|&of| of == path || of == section)
    }
}
