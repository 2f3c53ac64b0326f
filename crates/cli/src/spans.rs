//! Spans in OTLP's JSON form, a line of a file for each: the `otlpjsonfile` receiver of the OpenTelemetry collector
//! reads such files.
//!
//! # Decisions
//!
//! - A file, and no exporter: nothing leaves the host by itself, and no library has to send it.
//! - A span is written when it ends, in one piece at the end of the file, so several processes may share a file. What
//!   a process that is killed had begun is not in it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rackmem_fabric::random;
use rackmem_lease::messages::{Party, Record};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// A file of spans.
#[derive(Debug)]
pub struct Spans {
    file: File,
    resource: Value,
}

/// A span that has begun; its trace has no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    trace: String,
    id: String,
    name: &'static str,
    begun: SystemTime,
}

impl Span {
    /// Begins now.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub fn begin(name: &'static str) -> io::Result<Span> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (trace, id) = (random::nonce()?, random::nonce()?);
        Ok(Span { trace: hex(&trace), id: hex(&id[..8]), name, begun: SystemTime::now() })
    }
}

impl Spans {
    /// Opens a file at its end; one that is new is for its user alone.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Spans> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(|error| Failure::io(path.display(), error))?;
        let attributes = [
            text("service.name", "rackmem"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            number("process.pid", std::process::id().into()),
        ];
        Ok(Spans { file, resource: json!({ "attributes": attributes }) })
    }

    /// Ends a span now, and writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, span: &Span, attributes: &[Value]) -> io::Result<()> {
        let nanoseconds = |time: SystemTime| {
            time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
        };
        // A clock that was set back must not end a span before it began.
        let end = SystemTime::now().max(span.begun);
        let span = json!({
            "traceId": span.trace,
            "spanId": span.id,
            "name": span.name,
            "kind": 1,
            "startTimeUnixNano": nanoseconds(span.begun),
            "endTimeUnixNano": nanoseconds(end),
            "attributes": attributes,
        });
        let scope = json!({ "name": "rackmem", "version": env!("CARGO_PKG_VERSION") });
        let line = json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": scope, "spans": [span] }],
        }] });
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// An attribute that is a text.
fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// An attribute that is a number; JSON of OTLP has those of 64 bits as texts.
fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// Spans of the leases of a lender.
#[derive(Debug)]
pub struct LeaseSpans {
    spans: Spans,
    rack: String,
    /// By the base of the lease.
    open: BTreeMap<u64, Span>,
    has_failed: bool,
}

impl LeaseSpans {
    /// Writes to a file.
    pub fn new(spans: Spans, rack: &str) -> LeaseSpans {
        LeaseSpans { spans, rack: rack.to_owned(), open: BTreeMap::new(), has_failed: false }
    }

    /// A lease has begun.
    pub fn begin(&mut self, lease: &Record) {
        match Span::begin("lease") {
            Ok(span) => _ = self.open.insert(lease.base, span),
            Err(error) => self.warn(&error),
        }
    }

    /// A lease has ended.
    pub fn end(&mut self, lease: &Record) {
        let Some(span) = self.open.remove(&lease.base) else { return };
        let Party { name, host, pid, .. } = &lease.borrower;
        let attributes = [
            text("rackmem.rack", &self.rack),
            number("rackmem.lease.size_bytes", lease.size_bytes),
            text("rackmem.borrower.name", name),
            text("rackmem.borrower.host", host),
            number("rackmem.borrower.pid", (*pid).into()),
        ];
        if let Err(error) = self.spans.end(&span, &attributes) {
            self.warn(&error);
        }
    }

    /// Says once that spans are missing: that is no reason to stop lending.
    fn warn(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::warn!("spans of leases are missing from here on: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_otlp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spans.jsonl");
        for _ in 0..2 {
            let span = Span::begin("work").unwrap();
            Spans::open(&path).unwrap().end(&span, &[number("n", u64::MAX)]).unwrap();
        }
        let lines = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        let span = |line: &Value| line["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone();
        let [first, second] = [span(&lines[0]), span(&lines[1])];
        assert_eq!(first["attributes"][0]["value"]["intValue"], u64::MAX.to_string());
        assert_ne!(first["traceId"], second["traceId"]);
        for (name, digits) in [("traceId", 32), ("spanId", 16)] {
            let id = first[name].as_str().unwrap();
            assert!(id.len() == digits && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
        }
    }
}
