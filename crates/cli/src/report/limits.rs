//! Sentences that name the stage, link or memory which limited a run.

use super::runs::Run;

/// A part that is busy for so much of the time is what others wait for.
const BUSY: f64 = 0.85;

/// A stage with so much of the latency is worth a sentence.
const LARGE: f64 = 0.25;

/// Sentences on what a run waited for; never none.
pub fn of(run: &Run) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(unsure(run));
    said.extend(saturated(run));
    said.extend(stages(run));
    said.extend(links(run));
    said.extend(memory(run));
    if said.is_empty() {
        let counts = ["breakdown", "links"].iter().any(|name| run.report.get(name).is_some());
        said.push(String::from(match counts {
            true => "Nothing that the report counts is near its limit.",
            false => "The report counts nothing that tells what limited it.",
        }));
    }
    said
}

fn unsure(run: &Run) -> Option<String> {
    let is_unsure = run.report["converged"].as_bool() == Some(false);
    is_unsure.then(|| {
        "The run ended before its bandwidth was known as precisely as was asked for.".to_owned()
    })
}

fn saturated(run: &Run) -> Option<String> {
    let saturated = run.report["offered"]["saturated"].as_bool() == Some(true);
    saturated.then(|| {
        "Fewer reads complete than are offered: latencies grow as long as it runs.".to_owned()
    })
}

/// Stages that take much of a read's latency.
fn stages(run: &Run) -> Vec<String> {
    let Some(stages) = run.report["breakdown"].as_array() else { return vec![] };
    let cycles = |stage: &serde_json::Value| stage["mean_cycles"].as_f64().unwrap_or(0.0);
    let total: f64 = stages.iter().map(cycles).sum();
    let mut large: Vec<(f64, &str)> = stages
        .iter()
        .filter(|stage| cycles(stage) > LARGE * total)
        .map(|stage| (cycles(stage), stage["name"].as_str().unwrap_or_default()))
        .collect();
    large.sort_by(|a, b| b.0.total_cmp(&a.0));
    let say = |(cycles, name): (f64, &str)| {
        let share = 100.0 * cycles / total;
        format!("{name} takes {share:.0} % of a read's latency, {cycles:.0} of {total:.0} cycles.")
    };
    large.into_iter().map(say).collect()
}

/// The busiest link of the network on chip.
fn links(run: &Run) -> Option<String> {
    let links = run.report["links"].as_array().filter(|_| !run.is_rack())?;
    let utilisation = |link: &serde_json::Value| link["utilisation"].as_f64().unwrap_or(0.0);
    let busiest = links.iter().max_by(|a, b| utilisation(a).total_cmp(&utilisation(b)))?;
    let share = utilisation(busiest);
    let busy = links.iter().filter(|link| utilisation(link) > BUSY).count();
    let place = |end: &str| format!("({}, {})", busiest[end][0], busiest[end][1]);
    let (from, to) = (place("from"), place("to"));
    (share > BUSY).then(|| {
        format!(
            "{busy} of {} links on chip are busy for more than {:.0} % of the time, the one from {from} to {to} for \
             {:.0} %.",
            links.len(),
            100.0 * BUSY,
            100.0 * share
        )
    })
}

/// Misses of the last-level cache.
fn memory(run: &Run) -> Option<String> {
    let (hits, misses) = (run.stat("home.llc_hits")?, run.stat("home.llc_misses")?);
    let share = misses / (hits + misses).max(1.0);
    (share > BUSY).then(|| {
        format!("{:.0} % of the requests that come to a home go on to memory.", 100.0 * share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(report: serde_json::Value) -> Vec<String> {
        of(&Run { name: String::new(), report, keys: Default::default() })
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
