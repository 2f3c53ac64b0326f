//! The live page of `rackmem top --web`: by itself, and as a browser shows it.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::browser::Browser;
use crate::client::{get, port_in, send};
use crate::common::{Host, kill, until};
use crate::operations::Run;

/// Windows, and schemes with their ground.
const WIDTHS: [u32; 2] = [1280, 400];
const SCHEMES: [(&str, &str); 2] = [("light", "rgb(255, 255, 255)"), ("dark", "rgb(24, 24, 24)")];

/// Contents of the page: time of the measurement, exact values and texts of cells, charts, and what it has loaded.
const SHOWN: &str = r##"
(() => {
    const rows = id => [...document.querySelectorAll(`#${id} tr`)].slice(1).map(row =>
        [...row.cells].map(cell => [cell.textContent, cell.title]));
    return {
        measured: Number(document.getElementById("said").dataset.measured ?? 0),
        nodes: rows("nodes"),
        lenders: rows("lenders"),
        charts: document.querySelectorAll("#charts figure").length,
        lines: document.querySelectorAll("#charts [aria-label=line] path").length,
        loaded: performance.getEntriesByType("resource").map(one => one.name),
    };
})()"##;

#[derive(Debug, Default, Deserialize)]
struct Shown {
    measured: f64,
    nodes: Vec<Vec<(String, String)>>,
    lenders: Vec<Vec<(String, String)>>,
    charts: usize,
    lines: usize,
    loaded: Vec<String>,
}

/// `rackmem top --web`.
struct Top {
    child: Child,
    url: String,
    port: u16,
}

impl Top {
    fn start(host: &Host) -> Top {
        let arguments = ["top", "--web", "--interval", "0.3"];
        let mut child = host.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let port = port_in(&url).unwrap_or_else(|| panic!("no URL: {url:?}"));
        Top { child, url: url.trim_end().to_owned(), port }
    }

    fn data(&self) -> Value {
        let answer = get(self.port, "/data.json");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        serde_json::from_str(&answer.body).unwrap()
    }

    fn end(mut self) {
        kill(self.child.id(), "TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

/// The text of a number as people read it, back to a number.
fn read(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let scale = match unit {
        "" | "B" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1048576.0,
        "GiB" => 1073741824.0,
        _ => panic!("{text}"),
    };
    number.parse::<f64>().unwrap() * scale
}

/// Checks that a cell shows the member of an object.
fn check_cell(cell: &(String, String), object: &Value, name: &str) {
    let (text, title) = cell;
    let expected = object[name].as_f64().unwrap_or_else(|| panic!("no {name} in {object}"));
    let exact: f64 = title.parse().unwrap_or_else(|_| panic!("{name}: {cell:?}"));
    // This reader of JSON may be wrong in the last digit.
    assert!((exact - expected).abs() <= 1e-12 * expected, "{name}: {title} for {expected}");
    assert!((read(text) - expected).abs() <= 0.006 * expected, "{name}: {text} for {expected}");
}

fn check(shown: &Shown, data: &Value) {
    let nodes = data["nodes"].as_array().unwrap();
    let mut rows = shown.nodes.iter();
    for node in nodes {
        let row = rows.next().expect("a row of the node");
        assert_eq!(row[0].0, node["nid"].to_string());
        for (at, name) in [
            (5, "ops_per_second"),
            (6, "bytes_per_second"),
            (7, "errors"),
            (9, "served_packets_per_second"),
        ] {
            check_cell(&row[at], node, name);
        }
        for qp in node["qps"].as_array().unwrap() {
            let row = rows.next().expect("a row of the queue pair");
            for (at, name) in [(1, "pid"), (2, "qp"), (3, "ctx_id")] {
                assert_eq!(row[at].0, qp[name].to_string(), "{name}");
            }
            assert_eq!(row[4].0, qp["progress"].as_str().unwrap());
            for (at, name) in [(5, "ops_per_second"), (6, "bytes_per_second"), (7, "errors")] {
                check_cell(&row[at], qp, name);
            }
            assert_eq!(row[8].0, format!("{}/{}", qp["outstanding"], qp["entries"]));
        }
    }
    assert!(rows.next().is_none());
    let lenders = data["lenders"].as_array().unwrap();
    assert_eq!(lenders.len(), shown.lenders.len());
    for (lender, row) in lenders.iter().zip(&shown.lenders) {
        assert_eq!(row[0].0, lender["name"].as_str().unwrap());
        for (at, name) in [(1, "size_bytes"), (2, "leased_bytes"), (3, "free_bytes"), (4, "leases")]
        {
            check_cell(&row[at], lender, name);
        }
        assert_eq!(row[5].0, "lends");
    }
}

/// A lender without a port.
struct Lender(Child);

impl Lender {
    fn start(host: &Host) -> Lender {
        let arguments = ["lend", "--overcommit", "16M", "--name", "<b>store</b>"];
        let mut child = host.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().map(Result::unwrap).any(|line| line.contains("lends")));
        Lender(child)
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_page_shows_what_the_rack_does() {
    let Some(browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let browser = RefCell::new(browser);
    let host = Host::new();
    host.ok(&["up", "--nodes", "2"]);
    let lender = Lender::start(&host);
    let run = Run::busy(&host, "inline", u64::MAX);
    let top = Top::start(&host);
    until("the run is seen", || {
        top.data()["nodes"][0]["ops_per_second"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    for (width, (scheme, ground)) in
        WIDTHS.into_iter().flat_map(|width| SCHEMES.map(|scheme| (width, scheme)))
    {
        let errors = browser.borrow_mut().open(&top.url, width, scheme);
        assert!(errors.is_empty(), "{width} {scheme}: {errors:?}");
        let now = || -> Shown {
            serde_json::from_value(browser.borrow_mut().value(SHOWN)).expect("what is shown")
        };
        // The page and the answer may be of neighbouring measurements: ask until they are of the same one.
        until("numbers are those of the data", || {
            let data = top.data();
            let shown = now();
            let is_same = data["unix_seconds"].as_f64() == Some(shown.measured);
            if is_same {
                check(&shown, &data);
            }
            is_same
        });
        until("charts have lines", || now().lines >= 6);
        let shown = now();
        assert_eq!(shown.charts, 4);
        assert!(shown.loaded.iter().all(|name| name.starts_with(&top.url)), "{:?}", shown.loaded);
        let mut browser = browser.borrow_mut();
        let page_width = browser.value("document.documentElement.scrollWidth");
        assert_eq!(page_width, width, "{scheme}: the page itself does not scroll sideways");
        let colours = browser.colours();
        assert_eq!(colours[0].0, ground, "{width} {scheme}: {:?}", &colours[..3]);
        assert!(colours.len() > 10, "{width} {scheme}: {} colours", colours.len());
        let errors = browser.open("about:blank", width, scheme);
        assert!(errors.is_empty(), "while it followed, {width} {scheme}: {errors:?}");
    }
    drop(lender);
    run.cut();
    top.end();
    host.ok(&["down"]);
}

#[test]
fn the_page_is_for_this_host_and_loads_nothing_else() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "1"]);
    let top = Top::start(&host);
    let page = get(top.port, "/");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'; script-src 'self'; connect-src 'self'"));
    assert!(!page.body.contains("http"), "{}", page.body);
    until("there is data", || !top.data().is_null());
    // The same members as `rackmem top --json` prints.
    let printed = host.ok(&["top", "--once", "--json", "--interval", "0.05"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let data = top.data();
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&data), members(&printed));
    assert_eq!(data["nodes"][0]["nid"], printed["nodes"][0]["nid"]);
    assert!(data["lenders"].is_null(), "nobody lends");
    let rebound = send(top.port, "GET /data.json HTTP/1.1\r\nHost: rack.example\r\n\r\n");
    assert_eq!((rebound.status, rebound.body.contains("nid")), (403, false));
    assert_eq!(get(top.port, "/../page.css").status, 404);
    // The end does not wait for a daemon that does not answer.
    kill(host.daemon(0), "STOP");
    top.end();
    kill(host.daemon(0), "CONT");
    for refused in [&["top", "--web", "0.0.0.0:80"][..], &["top", "--web", "--once"]] {
        host.fails(2, refused);
    }
    host.ok(&["down"]);
    let complaint = host.fails(1, &["top", "--web"]);
    assert!(complaint.contains("start it with `rackmem up"), "{complaint}");
    host.assert_nothing_left();
}

/// The command ends with the rack, and says why.
#[test]
fn it_ends_when_the_rack_does() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "1"]);
    let mut top = Top::start(&host);
    host.ok(&["down"]);
    assert_eq!(top.child.wait().unwrap().code(), Some(1));
    host.assert_nothing_left();
}
