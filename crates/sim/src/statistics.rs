//! What statistics and other fields of reports mean: `statistics.toml`, which `rackmem sim stats` prints.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::machine::{Kind, Machine};

/// A statistic, or another field of a report.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Statistic {
    /// Path of the part and name, indices left out: `node[].rmc.maq.hits`.
    pub path: String,
    /// What is counted, or the unit of the value.
    pub unit: String,
    /// The counting part, the events, and the interval.
    pub meaning: String,
}

/// What is simulated, by the statistics that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Simulated {
    /// A chip with queue pairs, or loads in their place, that runs its own workload.
    Workload,
    /// Simplified nodes on a torus.
    Torus,
    /// Any node that executes a program.
    Program,
    /// Such a node with the RMC of Scale-Out NUMA.
    Sonuma,
    /// Such a node with network interfaces of Manycore NI.
    ManycoreNi,
    /// Such a node with cache-integrated network interfaces.
    CacheIntegrated,
    /// Such a node with a window of borrowed memory.
    Window,
    /// Such a node with a module that extends its on-chip interconnect.
    Bridge,
    /// Nodes with an extended on-chip interconnect.
    Extension,
}

impl Simulated {
    /// All that a machine can simulate.
    pub fn of(machine: &Machine) -> &'static [Simulated] {
        match machine.kind {
            Kind::Memory => &[],
            Kind::Torus => &[Simulated::Torus],
            Kind::Soc => &[Simulated::Extension],
            Kind::Chip => machine.ni.placement.statistics(),
        }
    }
}

/// Statistics of a part of machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The part, and the kind of run that has it.
    pub title: String,
    /// What has the part.
    pub of: Vec<Simulated>,
    /// Members of `stats` that the part writes.
    pub statistic: Vec<Statistic>,
}

/// A program of `programs/`, and what it prints with `--json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// That of its file in `programs/`, without `.c`.
    pub name: String,
    /// Members of `output` of its reports.
    pub member: Vec<Statistic>,
}

/// All statistics and fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Members of a report's `stats`, by part.
    pub part: Vec<Part>,
    /// Its other members.
    pub field: Vec<Statistic>,
    /// Members that reports of executed programs have besides these.
    pub execution: Vec<Statistic>,
    /// Outputs of programs.
    pub program: Vec<Program>,
}

/// The schema of this version of the model.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let none = Schema { part: vec![], field: vec![], execution: vec![], program: vec![] };
        toml::from_str(include_str!("statistics.toml")).unwrap_or(none)
    });
    &SCHEMA
}

impl Schema {
    /// Members of a report's `stats`.
    pub fn statistics(&self) -> impl Iterator<Item = &Statistic> {
        self.part.iter().flat_map(|part| &part.statistic)
    }

    /// Other members of reports, of workloads and of executed programs.
    pub fn fields(&self) -> impl Iterator<Item = &Statistic> {
        self.field.iter().chain(&self.execution)
    }

    /// Statistics that reports of a machine can have.
    pub fn statistics_of(&self, machine: &Machine) -> impl Iterator<Item = &Statistic> {
        let simulated = Simulated::of(machine);
        let has = move |part: &&Part| part.of.iter().any(|one| simulated.contains(one));
        self.part.iter().filter(has).flat_map(|part| &part.statistic)
    }

    /// Members of the output of a program; `None` if it is not one of `programs/`.
    pub fn output_of(&self, program: &str) -> Option<&[Statistic]> {
        let found = self.program.iter().find(|one| one.name == program);
        found.map(|one| one.member.as_slice())
    }

    /// Whether reports can have a statistic of this path, with indices or without.
    pub fn has(&self, path: &str) -> bool {
        let path = without_indices(path);
        self.statistics().any(|known| known.path == path)
    }

    /// Whether there are statistics whose path ends so.
    pub fn has_end(&self, end: &str) -> bool {
        let end = without_indices(end);
        self.statistics().any(|known| known.path.ends_with(&end))
    }
}

/// A path with `[]` for every `[12]`.
pub fn without_indices(path: &str) -> String {
    let mut plain = String::new();
    let mut is_inside = false;
    for c in path.chars() {
        match c {
            '[' => is_inside = true,
            ']' => is_inside = false,
            c if is_inside && c.is_ascii_digit() => continue,
            _ => {}
        }
        plain.push(c);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    #[test]
    fn the_schema_has_each_path_once_and_says_what_it_means() {
        let schema = schema();
        let mut paths: Vec<&str> = schema.statistics().map(|one| one.path.as_str()).collect();
        let all = paths.len();
        assert!(all > 100 && schema.field.len() > 50);
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), all);
        let mut fields: Vec<&str> = schema.fields().map(|one| one.path.as_str()).collect();
        let all = fields.len();
        fields.sort_unstable();
        fields.dedup();
        assert_eq!(fields.len(), all);
        let outputs = schema.program.iter().flat_map(|program| &program.member);
        for one in schema.statistics().chain(schema.fields()).chain(outputs) {
            assert!(!one.unit.is_empty() && one.meaning.len() > 7, "{}", one.path);
        }
    }

    #[test]
    fn a_machine_has_the_statistics_of_its_parts_only() {
        let paths = |machine: &str| -> Vec<&str> {
            let machine = machine::load(machine, &[]).expect("a built-in machine");
            schema().statistics_of(&machine).map(|one| one.path.as_str()).collect()
        };
        let (sonuma, torus) = (paths("sonuma"), paths("rack-torus"));
        assert!(sonuma.contains(&"node[].rmc.maq.hits") && !sonuma.contains(&"core.reads"));
        assert!(
            torus.contains(&"noc.hops_mean.request") && !torus.contains(&"node[].rmc.maq.hits")
        );
        assert!(paths("manycore-ni").contains(&"core.reads"));
    }

    #[test]
    fn paths_are_known_with_indices_and_without() {
        assert_eq!(without_indices("node[12].core[3].loads"), "node[].core[].loads");
        assert!(schema().has("node[0].rmc.maq.hits") && schema().has("rrpp.lines"));
        assert!(schema().has_end("rmc.requests") && schema().has_end("[1].remote_stores"));
        assert!(!schema().has("rrpp.lies") && !schema().has_end(".none"));
    }
}
