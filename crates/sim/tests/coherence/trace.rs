//! The steps of the controllers that happen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use rackmem_sim::coherence::{Message, Request, Response, Update, home, l1, pair};

use crate::node::Version;

type Steps = BTreeMap<(String, String), BTreeSet<String>>;

/// Collects steps, if asked to. Not a part of the state that it hangs on.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<Mutex<BTreeMap<&'static str, Steps>>>>);

impl PartialEq for Trace {
    fn eq(&self, _: &Trace) -> bool {
        true
    }
}

impl Eq for Trace {}

impl Hash for Trace {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Trace {
    /// A trace that collects.
    pub fn on() -> Trace {
        Trace(Some(Arc::default()))
    }

    /// A controller goes from one state to another.
    pub fn step<C: Controller>(&self, before: &C, event: impl FnOnce() -> String, after: &C) {
        let Some(steps) = &self.0 else { return };
        let step = (before.label(), event());
        let mut steps = steps.lock().unwrap();
        let steps = steps.entry(C::NAME).or_default();
        steps.entry(step).or_default().insert(after.label());
    }

    /// Everything that happened, a line for each state and event.
    pub fn table(&self, controller: &str) -> String {
        let steps = self.0.as_ref().expect("collected").lock().unwrap();
        let mut table = "state | event | next states\n".to_string();
        for ((state, event), next) in &steps[controller] {
            let next: Vec<_> = next.iter().map(String::as_str).collect();
            writeln!(table, "{state} | {event} | {}", next.join(", ")).unwrap();
        }
        table
    }
}

/// A state machine, and its state in short. What is private is found in its `Debug`.
pub trait Controller: Debug {
    const NAME: &'static str;
    fn label(&self) -> String;
}

impl Controller for l1::Block<Version> {
    const NAME: &'static str = "cache";

    fn label(&self) -> String {
        let all = format!("{self:?}");
        let arrived = if all.contains("arrived: true") { " with data" } else { "" };
        format!("{:?}{arrived}", self.state())
    }
}

impl Controller for home::Block<Version> {
    const NAME: &'static str = "home";

    fn label(&self) -> String {
        let directory = match self.directory() {
            home::Directory::Uncached => "uncached",
            home::Directory::Shared(_) => "shared",
            home::Directory::Owned(_) => "owned",
        };
        let all = format!("{self:?}");
        let waits = ["Memory", "Unblock", "Collect"]
            .into_iter()
            .find(|name| all.contains(&format!("transaction: Some({name}")));
        match waits {
            Some(name) => format!("{directory} ({})", name.to_lowercase()),
            None => directory.to_string(),
        }
    }
}

impl Controller for pair::Block<Version> {
    const NAME: &'static str = "pair";

    fn label(&self) -> String {
        let mut label = match self.state() {
            pair::State::Plain(state) => format!("{state:?}"),
            pair::State::Owned { dirty: true } => "O".to_string(),
            pair::State::Owned { dirty: false } => "O clean".to_string(),
        };
        let all = format!("{self:?}");
        for (text, name) in [
            ("l1_owns: true", " (L1 owns)"),
            ("outside: Some(Get)", " (L1 gets)"),
            ("outside: Some(Put)", " (L1 puts)"),
            ("question: Some(Give)", " (L1 to give)"),
            ("question: Some(DropToStore)", " (L1 to drop, store)"),
            ("question: Some(DropToEvict)", " (L1 to drop, evict)"),
            ("question: Some(DropToForward(", " (L1 to drop, forward)"),
        ] {
            if all.contains(text) {
                label += name;
            }
        }
        label
    }
}

/// The kind of a message.
pub fn label(message: &Message<Version>) -> String {
    match message {
        Message::Request(Request::Update(Update::Replace(_))) => "Replace".to_string(),
        Message::Request(Request::Update(Update::Modify(_))) => "Modify".to_string(),
        Message::Request(request) => first_word(request),
        Message::Forward(forward) => first_word(forward),
        Message::Response(Response::Data { grant, .. }) => format!("Data {grant:?}"),
        Message::Response(response) => first_word(response),
    }
}

fn first_word(message: &impl Debug) -> String {
    let text = format!("{message:?}");
    text.split(['(', ' ']).next().unwrap_or_default().to_string()
}
