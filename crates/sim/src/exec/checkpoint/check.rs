//! Checks of a checkpoint that was read: whoever has written the file, nothing of it may be out of bounds.
//!
//! What depends on the machine that goes on from it, as the tables of its pages, is checked where it is restored.

use serde::de::DeserializeOwned;

use super::Head;
use crate::engine::MOST;
use crate::exec::part::Part;

/// The outcome of a check: otherwise the field, and what is wrong with it.
pub type Checked = Result<(), String>;

/// Refuses a field unless it is sound.
pub fn require(is_sound: bool, wrong: impl FnOnce() -> String) -> Checked {
    if is_sound { Ok(()) } else { Err(wrong()) }
}

/// Refuses a count that no run comes to.
pub fn countable(name: &str, count: u64) -> Checked {
    require(count < MOST, || format!("{name}: is {count}, must be less than {MOST}"))
}

impl Head {
    /// Checks all that does not depend on the machine, with the packed pages of each node.
    pub fn check(&self, contents: &[Vec<u8>]) -> Checked {
        let Head { taken, part, args, inside, inodes, nodes, .. } = self;
        let clock = taken.clock_ghz;
        require(clock.is_normal() && clock > 0.0, || {
            format!("taken.clock_ghz: is {clock}, must be more than 0")
        })?;
        countable("taken.cycle", taken.cycle)?;
        countable("taken.instructions", taken.instructions)?;
        countable("inside", *inside)?;
        require(!args.is_empty(), || "args: is empty, and begins with the program's name".into())?;
        part.check()?;
        inodes.check().map_err(|wrong| format!("inodes: {wrong}"))?;
        require(nodes.len() == contents.len() && nodes.len() <= usize::from(u16::MAX), || {
            format!("nodes: has {} entries, and there is memory of {}", nodes.len(), contents.len())
        })?;
        for (nid, (state, contents)) in nodes.iter().zip(contents).enumerate() {
            let checked = state.check(taken.cycle, contents);
            checked.map_err(|wrong| format!("nodes[{nid}].{wrong}"))?;
            let mut others = state.memory.lent.iter().flat_map(|lent| lent.others());
            let is_other = |node: u16| usize::from(node) < nodes.len() && usize::from(node) != nid;
            if let Some((field, node)) = others.find(|&(_, node)| !is_other(node)) {
                return Err(format!(
                    "nodes[{nid}].memory.lent.{field}: node {node} is no other one"
                ));
            }
        }
        let executed = nodes.iter().fold(0, |sum: u64, state| sum.saturating_add(state.executed()));
        require(executed == taken.instructions, || {
            format!("taken.instructions: is {}, and cores have {executed}", taken.instructions)
        })
    }
}

impl Part {
    fn check(&self) -> Checked {
        match *self {
            Part::Whole | Part::Region => Ok(()),
            Part::Instructions { after, .. } => countable("part.instructions.after", after),
            Part::Samples(samples) => {
                countable("part.samples.every", samples.every)?;
                let used = samples.warm_up.saturating_add(samples.length);
                require(samples.length > 0 && used <= samples.every, || {
                    format!("part.samples.length: is {} of {}", samples.length, samples.every)
                })
            }
        }
    }
}

/// Reads JSON.
///
/// # Errors
/// The field and what is wrong with it.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let end = lines.map(str::len).sum::<usize>() + error.column();
        format!("{}: {error}", field_at(&text.as_bytes()[..end.min(text.len())]))
    })
}

/// The field that JSON ends in which is cut off: `nodes[0].memory.next`.
fn field_at(text: &[u8]) -> String {
    /// An object with the name of its field, or a list with the place.
    enum Level {
        Object(Option<String>),
        List(usize),
    }
    let mut levels = Vec::new();
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, levels.last_mut()) {
            (b'{', _) => levels.push(Level::Object(None)),
            (b'[', _) => levels.push(Level::List(0)),
            (b'}' | b']', _) => drop(levels.pop()),
            (b',', Some(Level::List(place))) => *place += 1,
            (b',', Some(Level::Object(name))) => *name = None,
            (b'"', level) => {
                let mut said = Vec::new();
                while let Some(byte) = bytes.next().filter(|&byte| byte != b'"') {
                    said.extend(if byte == b'\\' { bytes.next() } else { Some(byte) });
                }
                if let Some(Level::Object(name @ None)) = level {
                    *name = Some(String::from_utf8_lossy(&said).into_owned());
                }
            }
            _ => {}
        }
    }
    let path = levels.iter().map(|level| match level {
        Level::Object(name) => format!(".{}", name.as_deref().unwrap_or_default()),
        Level::List(place) => format!("[{place}]"),
    });
    let path: String = path.collect();
    path.trim_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn errors_of_json_name_the_field() {
        let read = |text| parse::<BTreeMap<String, Vec<BTreeMap<String, u8>>>>(text).unwrap_err();
        assert!(read(r#"{"a":[],"b":[{"c":1},{"c":2,"d":300}]}"#).starts_with("b[1].d: "));
        assert!(read("{\"a\":[],\n \"b\":[{\"c\\\"\":\n1},\n-1]}").starts_with("b[1]: "));
        assert!(read(r#"{"a":["#).starts_with("a[0]: EOF"));
        assert!(read("3").starts_with(": invalid type"));
    }
}
