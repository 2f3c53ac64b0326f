//! A headless Chromium, spoken to over pipes by its DevTools protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Bound on every wait: for an answer, an event, the end of the browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names under which Chromium is installed.
const COMMANDS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Events that nobody has waited for yet.
    events: Vec<Value>,
    session: Option<String>,
    last_id: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts one; none if none is installed.
    pub fn start() -> Option<Browser> {
        let command = COMMANDS.into_iter().find(|command| is_installed(command))?;
        let profile = tempfile::tempdir().expect("there is room for temporary files");
        // It reads messages from descriptor 3 and writes to 4. It logs what a missing bus of the desktop costs.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", command])
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("it is a pipe");
        let messages = read(child.stdout.take().expect("it is a pipe"));
        let mut browser = Browser {
            child,
            input,
            messages,
            events: Vec::new(),
            session: None,
            last_id: 0,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let message = self.next(method);
            if message["id"] != self.last_id {
                self.events.push(message);
                continue;
            }
            assert!(message["error"].is_null(), "{method}: {}", message["error"]);
            return message["result"].clone();
        }
    }

    /// Opens a page at this width of the window and in this colour scheme, and waits until it is there. Returns the
    /// errors that it has caused.
    pub fn open(&mut self, url: &str, width: u32, scheme: &str) -> Vec<String> {
        self.events.clear();
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", json!({"features": [scheme]}));
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next("Page.loadEventFired");
            self.events.push(event);
        }
        // The browser answers in order: events of the page come before this answer.
        self.value("document.readyState");
        self.events.iter().filter_map(error).collect()
    }

    /// The value of an expression, or of the promise that it is.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The colours of what is seen now, each with its number of pixels, the most frequent first.
    pub fn colours(&mut self) -> Vec<(String, u64)> {
        let image = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let data = image["data"].as_str().expect("an image");
        let counted = self.value(&COUNT_COLOURS.replace("DATA", data));
        serde_json::from_value(counted).expect("colours with counts")
    }

    fn next(&mut self, awaited: &str) -> Value {
        match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(error) => panic!("{awaited}: no message in {PATIENCE:?}: {error}"),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = json!({"id": self.last_id + 1, "method": "Browser.close"});
        // It may be gone already.
        let _ = self.input.write_all(format!("{close}\0").as_bytes());
        let end = Instant::now() + PATIENCE;
        // When it ends, its messages end, too.
        while Instant::now() < end && self.messages.recv_timeout(PATIENCE).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes the image as the browser does, and counts.
const COUNT_COLOURS: &str = r#"
(async () => {
    // Not by a URL: a page may forbid images.
    const bytes = Uint8Array.from(atob("DATA"), character => character.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, image.width, image.height).data;
    const counts = new Map();
    for (let at = 0; at < pixels.length; at += 4) {
        const colour = `rgb(${pixels[at]}, ${pixels[at + 1]}, ${pixels[at + 2]})`;
        counts.set(colour, (counts.get(colour) ?? 0) + 1);
    }
    return [...counts].sort((a, b) => b[1] - a[1]);
})()"#;

/// The message of an event that is an error.
fn error(event: &Value) -> Option<String> {
    let is_error = match event["method"].as_str()? {
        "Runtime.exceptionThrown" => true,
        "Runtime.consoleAPICalled" => event["params"]["type"] == "error",
        "Log.entryAdded" => event["params"]["entry"]["level"] == "error",
        _ => false,
    };
    is_error.then(|| event["params"].to_string())
}

/// Messages as they come, until the browser ends.
fn read(output: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for message in BufReader::new(output).split(0) {
            let message = message.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let is_sent = message.is_some_and(|message| sender.send(message).is_ok());
            if !is_sent {
                return;
            }
        }
    });
    receiver
}

fn is_installed(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}
