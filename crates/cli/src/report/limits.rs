//! The stage, link or memory that limited a run, in sentences.

use super::runs::Run;

/// A part that is busy for so much of the time is what others wait for.
const BUSY: f64 = 0.85;

/// A stage with so much of the latency is worth a sentence.
const LARGE: f64 = 0.25;

/// Something that a run waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Name of the part, the same in every run, so that runs can be counted by it.
    pub what: String,
    /// How much of it there is, from 0 to 1.
    pub share: Option<f64>,
    /// A sentence about this run.
    pub said: String,
}

impl Limit {
    fn new(what: impl Into<String>, share: Option<f64>, said: impl Into<String>) -> Limit {
        Limit { what: what.into(), share, said: said.into() }
    }
}

/// What a run waited for; never none.
pub fn of(run: &Run) -> Vec<Limit> {
    let mut found = Vec::new();
    found.extend(unsure(run));
    found.extend(saturated(run));
    found.extend(stages(run));
    found.extend(links(run));
    found.extend(memory(run));
    if found.is_empty() {
        let counts = ["breakdown", "links"].iter().any(|name| run.report.get(name).is_some());
        found.push(match counts {
            true => Limit::new(
                "nothing is near its limit",
                None,
                "Nothing that the report counts is near its limit.",
            ),
            false => Limit::new(
                "nothing that is counted",
                None,
                "The report counts nothing that tells what limited it.",
            ),
        });
    }
    found
}

fn unsure(run: &Run) -> Option<Limit> {
    let is_unsure = run.report["converged"].as_bool() == Some(false);
    let said = "The run ended before its bandwidth was known as precisely as was asked for.";
    is_unsure.then(|| Limit::new("bandwidth not known precisely", None, said))
}

fn saturated(run: &Run) -> Option<Limit> {
    let saturated = run.report["offered"]["saturated"].as_bool() == Some(true);
    let said = "Fewer reads complete than are offered: latencies grow as long as it runs.";
    saturated.then(|| Limit::new("saturated", None, said))
}

/// Stages that take much of a read's latency.
fn stages(run: &Run) -> Vec<Limit> {
    let total: f64 = run.stages().map(|(_, cycles)| cycles).sum();
    let mut large: Vec<(&str, f64)> =
        run.stages().filter(|&(_, cycles)| cycles > LARGE * total).collect();
    large.sort_by(|a, b| b.1.total_cmp(&a.1));
    let limit = |(name, cycles): (&str, f64)| {
        let share = cycles / total;
        let percent = 100.0 * share;
        let said = format!(
            "{name} takes {percent:.0} % of a read's latency, {cycles:.0} of {total:.0} cycles."
        );
        Limit::new(name, Some(share), said)
    };
    large.into_iter().map(limit).collect()
}

/// The busiest link of the network on chip.
fn links(run: &Run) -> Option<Limit> {
    let links = run.report["links"].as_array().filter(|_| !run.is_rack())?;
    let utilisation = |link: &serde_json::Value| link["utilisation"].as_f64().unwrap_or(0.0);
    let busiest = links.iter().max_by(|a, b| utilisation(a).total_cmp(&utilisation(b)))?;
    let share = utilisation(busiest);
    let busy = links.iter().filter(|link| utilisation(link) > BUSY).count();
    let place = |end: &str| format!("({}, {})", busiest[end][0], busiest[end][1]);
    let (from, to) = (place("from"), place("to"));
    (share > BUSY).then(|| {
        let said = format!(
            "{busy} of {} links on chip are busy for more than {:.0} % of the time, the one from {from} to {to} for \
             {:.0} %.",
            links.len(),
            100.0 * BUSY,
            100.0 * share
        );
        Limit::new("links on chip", Some(share), said)
    })
}

/// Misses of the last-level cache.
fn memory(run: &Run) -> Option<Limit> {
    let (hits, misses) = (run.stat("home.llc_hits")?, run.stat("home.llc_misses")?);
    let share = misses / (hits + misses).max(1.0);
    (share > BUSY).then(|| {
        let percent = 100.0 * share;
        let said = format!("{percent:.0} % of the requests that come to a home go on to memory.");
        Limit::new("misses of the last-level cache", Some(share), said)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(report: serde_json::Value) -> Vec<String> {
        let limits = of(&Run::new(String::new(), report, Default::default()));
        limits.into_iter().map(|limit| limit.said).collect()
    }

    #[test]
    fn what_is_near_its_limit_is_said() {
        assert_eq!(said(json!({})), ["The report counts nothing that tells what limited it."]);
        let idle = said(json!({ "links": [] }));
        assert_eq!(idle, ["Nothing that the report counts is near its limit."]);
        let report = json!({
            "converged": false,
            "breakdown": [{"name": "rrpp", "mean_cycles": 900.0}, {"name": "rgp", "mean_cycles": 100.0}],
            "links": [
                {"from": [0, 1], "to": [1, 1], "utilisation": 0.95},
                {"from": [0, 0], "to": [1, 0], "utilisation": 0.2},
            ],
            "stats": {"home.llc_hits": 1.0, "home.llc_misses": 99.0},
        });
        let found = said(report);
        assert_eq!(found.len(), 4);
        assert!(
            found[1].starts_with("rrpp takes 90 % of a read's latency, 900 of 1000"),
            "{found:?}"
        );
        assert!(found[2].starts_with("1 of 2 links"), "{found:?}");
        assert!(found[3].starts_with("99 % of the requests"), "{found:?}");
    }
}
