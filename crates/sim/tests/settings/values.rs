//! Settings of a machine, and other values that they could have.

use rackmem_sim::machine::{self, Machine, Override, Use};
use toml::{Table, Value};

fn table(machine: &Machine) -> Table {
    machine::resolved(machine).parse().expect("a machine as text")
}

/// Paths of all settings of its kind but for its name, its description and its kind.
pub fn paths(machine: &Machine) -> Vec<String> {
    let mut all = Vec::new();
    for (section, value) in &table(machine) {
        match value {
            Value::Table(keys) => all.extend(keys.keys().map(|key| format!("{section}.{key}"))),
            _ if ["name", "description", "kind"].contains(&section.as_str()) => {}
            _ => all.push(section.clone()),
        }
    }
    all
}

fn value(machine: &Machine, path: &str) -> Value {
    let table = table(machine);
    match path.split_once('.') {
        None => table[path].clone(),
        Some((section, key)) => table[section][key].clone(),
    }
}

/// All settings of its kind and their values, as overrides have them.
pub fn all(machine: &Machine) -> Vec<(String, String)> {
    let of = |path: String| (path.clone(), value(machine, &path).to_string());
    paths(machine).into_iter().map(of).collect()
}

/// Values that none of the rules below finds.
const FOUND: &[(&str, &[&str])] = &[
    ("rack.topology", &["torus:4x4x4", "torus:8x4"]),
    ("rack.router", &["3-stage"]),
    ("noc.router", &["1-stage", "4-stage"]),
    ("dram.trc_nck", &["90"]),
    ("dram.trefi_nck", &["5000"]),
    ("dram.trtw_nck", &["30"]),
    ("dram.write_queue", &["33"]),
    ("extension.damaged_per_million", &["100000"]),
    ("extension.lost_per_million", &["100000"]),
];

/// Other values of a setting; not all of them may fit.
pub fn others(machine: &Machine, path: &str) -> Vec<String> {
    if let Some((_, values)) = FOUND.iter().find(|(found, _)| *found == path) {
        return values.iter().map(|&value| value.to_owned()).collect();
    }
    match value(machine, path) {
        Value::Boolean(is) => vec![(!is).to_string()],
        Value::Integer(is) => {
            let mut all = vec![
                is * 2,
                is / 2,
                is + 1,
                is * 8,
                1,
                2,
                is / 4,
                is - 1,
                is * 64,
                is / 16,
                0,
                is + 7,
            ];
            all.retain(|&other| other != is && other >= 0);
            all.iter().map(i64::to_string).collect()
        }
        Value::Float(is) => {
            let all = [is * 2.0 + 0.5, is / 3.0, (is * 10.0).round(), is / 100.0, 0.0, 0.3];
            all.iter().filter(|&&other| other != is).map(|other| format!("{other:?}")).collect()
        }
        Value::String(is) => {
            names(machine, path).into_iter().filter(|other| *other != is).collect()
        }
        _ => vec![],
    }
}

/// The values of a setting that has names for values: the complaint about another name lists them.
fn names(machine: &Machine, path: &str) -> Vec<String> {
    let wrong = [Override::new(path, "\"?\"").if_read()];
    let complaint = machine::load_text(Use::Any, "it", &machine::resolved(machine), &wrong);
    let complaint = complaint.expect_err("no value has such a name").problem;
    let (_, listed) = complaint.split_once("expected").expect(&complaint);
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
