//! Results of programs are right, on every machine.

use rackmem_sim::machine::Machine;
use serde_json::Value;

use super::{SMALL_MESH, chips, load, run, said};

#[test]
fn a_rack_of_scale_out_numa_does_what_a_rack_has_to_do() {
    let cores = [("tiles.columns", "2"), ("llc.banks", "4"), ("llc.size_bytes", "8M")];
    for (settings, nodes) in [(&[][..], 2), (&cores, 3)] {
        let outcome = run(&load("sonuma", settings), nodes, &["rack_test"]);
        let last = format!("rack_test: 29 passed on {nodes} nodes\n");
        assert!(said(&outcome).ends_with(&last), "{}", said(&outcome));
    }
}

/// A load of a line over and over takes the only way of a set from a store to another line, but not for ever.
#[test]
fn stores_are_done_in_caches_of_one_way() {
    let outcome = run(&load("sonuma", &[("l1.ways", "1")]), 2, &["rack_test", "join", "read"]);
    assert!(said(&outcome).ends_with("rack_test: 2 passed on 2 nodes\n"));
}

/// The library's own test, but for several queue pairs of one thread: a tile has one.
pub(super) const TEST_OF_TILES: [&str; 28] = [
    "rack_test",
    "join",
    "read",
    "write",
    "async",
    "fetch-and-add",
    "compare-and-swap",
    "atomics-of-both-sides",
    "polling",
    "notify",
    "sleep",
    "errors",
    "async-errors",
    "barrier",
    "messages",
    "many-messages",
    "push",
    "pull",
    "overtaking",
    "map",
    "counter",
    "counter-tree",
    "copy",
    "queue",
    "mr-queue",
    "lock",
    "counter-barrier",
    "sync-errors",
];

#[test]
fn racks_of_manycore_ni_do_as_well() {
    let tests = TEST_OF_TILES;
    for placement in ["split", "edge", "per-tile", "uncached"] {
        let outcome = run(&chips(&[("ni.placement", placement)]), 2, &tests);
        let last = format!("rack_test: {} passed on 2 nodes\n", tests.len() - 1);
        assert!(said(&outcome).ends_with(&last), "{placement}: {}", said(&outcome));
    }
}

/// A longer work queue than an interface in a tile has would lie in the completion queue behind it.
#[test]
fn a_queue_pair_is_no_longer_than_its_interface_has_room_for() {
    let outcome = run(&chips(&[("ni.wq_entries", "8")]), 2, &["hello"]);
    let why = b"no queue pair of 64 entries: No space left on device\n";
    assert!(outcome.nodes.iter().any(|node| node.stderr.ends_with(why)));
}

/// Bytes a second of a stream of messages of 4 KB that the receiver pulls.
fn streamed(more: &[&str]) -> f64 {
    let args = ["netpipe", "--sizes=4096", "--seconds=0.00001", "--threshold=0", "--json"];
    let json = said(&run(&load("sonuma", &[]), 2, &[&args[..], more].concat()));
    let report: Value = serde_json::from_str(&json).expect("a line of JSON");
    report["sizes"][0]["stream"]["bytes_per_second"].as_f64().expect("a number")
}

#[test]
fn sends_that_block_wait_until_the_receiver_has_pulled() {
    let (blocking, going_on) = (streamed(&[]), streamed(&["--async"]));
    assert!(going_on > 1.05 * blocking, "{going_on:e} against {blocking:e} bytes/s");
}

/// The ranks of all variants, as the checksums that PageRank prints.
fn checksums(json: &str) -> Vec<String> {
    let report: Value = serde_json::from_str(json).expect("a line of JSON");
    let variants = report["variants"].as_array().expect("variants");
    variants.iter().map(|variant| variant["checksum"].as_str().unwrap_or("").to_owned()).collect()
}

/// Bulk adds in the order of the serial algorithm, so the ranks are the same to the bit; fine-grain
/// adds in the order in which replies come, and says itself by how much it differs.
#[test]
fn pagerank_has_the_same_ranks_however_it_is_computed() {
    let args = ["pagerank", "--kronecker", "7:8", "--supersteps", "2", "--json", "--variant"];
    let alone = load("sonuma", &[]);
    let serial = said(&run(&alone, 1, &[&args[..], &["serial"]].concat()));
    let cores =
        load("sonuma", &[("tiles.columns", "4"), ("llc.banks", "8"), ("llc.size_bytes", "16M")]);
    let threads = ["serial,shm", "--threads", "4"];
    let shm = said(&run(&cores, 1, &[&args[..], &threads].concat()));
    assert_eq!(checksums(&shm), [&checksums(&serial)[..]; 2].concat());
    let rack = said(&run(&alone, 3, &[&args[..], &["serial,bulk,fine"]].concat()));
    assert_eq!(checksums(&rack)[..2], checksums(&shm)[..]);
    let report: Value = serde_json::from_str(&rack).expect("a line of JSON");
    let difference = report["variants"][2]["difference"].as_f64().expect("a number");
    assert!(difference < 1e-13, "fine-grain differs by {difference}");
}

/// PageRank's serial and fine-grain variants on two nodes of so many threads.
fn fine_grain(machine: &Machine, threads: &str) -> [Value; 2] {
    let args = ["pagerank", "--kronecker", "7:8", "--supersteps", "2", "--json"];
    let with = ["--variant", "serial,fine", "--node-threads", threads];
    let json = said(&run(machine, 2, &[&args[..], &with].concat()));
    let report: Value = serde_json::from_str(&json).expect("a line of JSON");
    std::array::from_fn(|variant| report["variants"][variant].clone())
}

/// Cores of a node, each with a queue pair, share the node's edges; what one has of a vertex of
/// another is added at the end, in another order. On the machine of Scale-Out NUMA, the queues of
/// all lie in one set of the RMC's L1 and must not keep others out of it.
#[test]
fn fine_grain_pagerank_may_use_all_cores_of_a_node() {
    let cores =
        load("sonuma", &[("tiles.columns", "4"), ("llc.banks", "8"), ("llc.size_bytes", "16M")]);
    for machine in [chips(&[]), cores] {
        let [serial, one] = fine_grain(&machine, "1");
        let [same, four] = fine_grain(&machine, "4");
        assert_eq!(serial["checksum"], same["checksum"]);
        assert_eq!(one["remote_operations"], four["remote_operations"]);
        let number = |value: &Value| value.as_f64().expect("a number");
        for fine in [&one, &four] {
            assert!(number(&fine["difference"]) < 1e-13, "{fine}");
        }
        let gain = number(&one["seconds"]) / number(&four["seconds"]);
        assert!(gain > 2.0, "{gain}: {one} {four}");
    }
}

/// A chip whose other end is its mirror image answers its own requests: every read comes back, and
/// what four cores read at once costs less than four times as long.
#[test]
fn one_chip_can_read_its_mirror_image() {
    let machine = load("manycore-ni", &SMALL_MESH);
    let reads = |threads: &str| {
        let args = ["many_reads", "--json", "--reads=200", "--threads", threads];
        let outcome = run(&machine, 1, &args);
        let report: serde_json::Value = serde_json::from_str(&said(&outcome)).expect("JSON");
        let lines: f64 = ["requests", "lines_stored"]
            .map(|name| (0..2).map(|n| outcome.stats[&format!("node[0].rmc[{n}].{name}")]).sum())
            .into_iter()
            .reduce(f64::min)
            .expect("two counters");
        assert!(lines >= report["reads"].as_f64().expect("a number"), "{lines} {report}");
        report["operations_per_second"].as_f64().expect("a number")
    };
    assert!(reads("4") > 2.0 * reads("1"));
}
