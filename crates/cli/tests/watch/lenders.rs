//! Metrics of lenders and of the monitor.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use rackmem_lease::{Borrowed, Wanted, borrow};
use serde_json::Value;

use crate::client::{metrics, port_in};
use crate::common::{Host, kill, until};
use crate::text::Page;

/// Number of lenders that a monitor knows.
const LENDERS: &str = "rackmem_monitor_lenders{rack=\"default\"}";

/// `rackmem lend` or `rackmem monitor` with metrics.
struct Agent {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Address over the network, and port of the metrics.
    address: String,
    port: u16,
}

impl Agent {
    fn start(host: &Host, arguments: &[&str]) -> Agent {
        let network = ["--listen", "127.0.0.1:0", "--insecure", "--metrics", "127.0.0.1:0"];
        let mut command = host.command(&[arguments, &network].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut address, mut port) = (None, None);
        while address.is_none() || port.is_none() {
            let line = lines.next().expect("it says where").unwrap();
            address = address.or(line.strip_prefix("listens at ").map(str::to_owned));
            port = port.or(port_in(&line));
        }
        Agent { child, lines, address: address.unwrap(), port: port.unwrap() }
    }

    /// Asks it to end, and waits.
    fn end(mut self) {
        kill(self.child.id(), "TERM");
        self.lines.by_ref().for_each(drop);
        assert!(self.child.wait().unwrap().success());
    }
}

fn borrowed(agent: &Agent, size_bytes: u64) -> Borrowed {
    let monitor = Some(agent.address.parse().unwrap());
    borrow(&Wanted { monitor, only_network: true, ..Wanted::new(size_bytes) }).unwrap()
}

fn of(page: &Page, name: &str, lender: &str) -> u64 {
    page.value(&format!("rackmem_{name}{{rack=\"default\",lender=\"{lender}\"}}")) as u64
}

/// Checks a page against what `rackmem leases --json` says.
fn check_against_leases(page: &Page, host: &Host, agent: &Agent) {
    let leases = host.ok(&["leases", "--monitor", &agent.address, "--json"]);
    let ledger: Value = serde_json::from_str(&leases).unwrap();
    let lenders = ledger["lenders"].as_array().unwrap();
    let is_monitor = page.has(LENDERS);
    assert!(!is_monitor || page.value(LENDERS) as usize == lenders.len());
    for lender in lenders {
        let name = lender["offer"]["lender"]["name"].as_str().unwrap();
        let leases = lender["leases"].as_array().unwrap();
        let leased: u64 = leases.iter().map(|lease| lease["size_bytes"].as_u64().unwrap()).sum();
        for (metric, expected) in [
            ("size_bytes", lender["offer"]["size_bytes"].as_u64().unwrap()),
            ("leased_bytes", leased),
            ("leases", leases.len() as u64),
            ("leaving", 0),
        ] {
            if is_monitor {
                assert_eq!(of(page, &format!("monitor_{metric}"), name), expected, "{metric}");
            }
            if page.has(&format!("rackmem_lender_size_bytes{{rack=\"default\",lender=\"{name}\"}}"))
            {
                assert_eq!(of(page, &format!("lender_{metric}"), name), expected, "{metric}");
            }
        }
        let promised = lender["promised_bytes"].as_u64().unwrap();
        assert!(!is_monitor || of(page, "monitor_promised_bytes", name) == promised);
    }
}

#[test]
fn a_lender_counts_leases_and_what_travels() {
    const SIZE: u64 = 8 << 20;
    let host = Host::new();
    let lender = Agent::start(&host, &["lend", "--overcommit", "32M", "--name", "store"]);
    let before = metrics(lender.port);
    assert!(before.has(LENDERS), "the only lender is the monitor");
    check_against_leases(&before, &host, &lender);
    assert_eq!(of(&before, "lender_registered", "store"), 1);
    let memory = borrowed(&lender, SIZE);
    let store = memory.store();
    let mut lane = store.lane().unwrap();
    let counters = |page: &Page| {
        ["leases_begun", "begun_bytes", "leases_ended", "requests", "read_bytes", "written_bytes"]
            .map(|name| of(page, &format!("lender_{name}_total"), "store"))
    };
    let knows = |leases: u64| of(&metrics(lender.port), "monitor_leases", "store") == leases;
    until("the monitor knows of the lease", || knows(1));
    let idle = metrics(lender.port);
    check_against_leases(&idle, &host, &lender);
    for _ in 0..5 {
        lane.write(4096, &[7; 4096]).unwrap();
        lane.read(0, &mut [0; 8192]).unwrap();
    }
    let busy = metrics(lender.port);
    busy.follows(&idle);
    let [begun, bytes, ended, requests, read, written] = counters(&busy);
    assert_eq!((begun, bytes, ended), (1, SIZE, 0));
    let [.., requests_before, read_before, written_before] = counters(&idle);
    assert_eq!(requests - requests_before, 10);
    assert_eq!((read - read_before, written - written_before), (5 * 8192, 5 * 4096));
    drop(lane);
    memory.release().unwrap();
    until("the monitor knows of its end", || knows(0));
    let after = metrics(lender.port);
    after.follows(&busy);
    assert_eq!(counters(&after)[2], 1);
    check_against_leases(&after, &host, &lender);
    lender.end();
    host.assert_nothing_left();
}

#[test]
fn a_monitor_knows_all_lenders() {
    let host = Host::new();
    let monitor = Agent::start(&host, &["monitor", "--name", "books"]);
    let lend = |name: &str| {
        let arguments = ["lend", "--overcommit", "16M", "--monitor", &monitor.address];
        Agent::start(&host, &[&arguments[..], &["--name", name]].concat())
    };
    let lenders = ["a", "quoted\"b"].map(lend);
    let known = |page: &Page, count: f64| page.has(LENDERS) && page.value(LENDERS) == count;
    until("the ledger is there", || known(&metrics(monitor.port), 2.0));
    let memory = borrowed(&monitor, 4 << 20);
    let leased = || -> u64 {
        let page = metrics(monitor.port);
        ["a", "quoted\\\"b"].map(|name| of(&page, "monitor_leased_bytes", name)).iter().sum()
    };
    until("the monitor knows of the leases", || leased() == 4 << 20);
    let page = metrics(monitor.port);
    assert!(page.names().all(|name| !name.starts_with("rackmem_lender")));
    memory.release().unwrap();
    until("the monitor knows of their end", || leased() == 0);
    check_against_leases(&metrics(lenders[0].port), &host, &lenders[0]);
    for lender in lenders {
        lender.end();
    }
    until("they are gone", || known(&metrics(monitor.port), 0.0));
    monitor.end();
    host.assert_nothing_left();
}

/// Leases that are given back and one that ends with the lender have a span each.
#[test]
fn each_lease_has_a_span() {
    let host = Host::new();
    let file = host.racks().join("spans.jsonl");
    let arguments = ["lend", "--overcommit", "32M", "--grace", "0", "--spans"];
    let lender = Agent::start(&host, &[&arguments[..], &[file.to_str().unwrap()]].concat());
    let sizes = [4 << 20, 8 << 20, 16 << 20];
    for size in &sizes[..2] {
        borrowed(&lender, *size).release().unwrap();
    }
    let _kept = borrowed(&lender, sizes[2]);
    lender.end();
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut last = 0;
    let found: Vec<u64> = lines
        .map(|line| {
            let span = &line["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
            let attribute = |name: &str| {
                let attributes = span["attributes"].as_array().unwrap();
                let found = attributes.iter().find(|attribute| attribute["key"] == name).unwrap();
                found["value"]["intValue"].as_str().unwrap().parse::<u64>().unwrap()
            };
            let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
            let (begun, ended) = (time("startTimeUnixNano"), time("endTimeUnixNano"));
            assert!(last <= begun && begun < ended, "{text}");
            last = ended;
            assert_eq!(span["name"], "lease");
            assert_eq!(attribute("rackmem.borrower.pid"), u64::from(std::process::id()));
            attribute("rackmem.lease.size_bytes")
        })
        .collect();
    assert_eq!(found, sizes);
    std::fs::remove_file(file).unwrap();
    host.assert_nothing_left();
}

/// An agent that does not answer has no numbers, and the client gets no stale ones.
#[test]
fn a_lender_that_ends_takes_its_page_along() {
    let host = Host::new();
    let lender = Agent::start(&host, &["lend", "--overcommit", "16M"]);
    let port = lender.port;
    metrics(port);
    lender.end();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    host.assert_nothing_left();
}
