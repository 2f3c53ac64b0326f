//! The preserved program order: 13 rules, by their numbers in the specification.
//!
//! In each of them, `a` comes before `b` in program order.

use super::event::{Event, Kind, Set};
use super::execution::Execution;

/// By operation `b`: the operations `a` that rules 1 and 4 to 11 and 13 order before it.
pub(super) fn always_preserved(execution: &Execution) -> Vec<Set> {
    (0..execution.events.len()).map(|b| before(execution, b, always)).collect()
}

/// The operations `a` that rules 2, 3 and 12 order before `b`: they depend on what is read.
pub(super) fn preserved_by_values(execution: &Execution, b: usize) -> Set {
    before(execution, b, by_values)
}

fn before(execution: &Execution, b: usize, rule: fn(&Execution, usize, usize) -> bool) -> Set {
    let candidates = set(execution.before[b]).filter(|&a| rule(execution, a, b));
    candidates.map(|a| 1 << a).sum()
}

/// The members of a set.
fn set(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let member = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(member)
    })
}

fn always(execution: &Execution, a: usize, b: usize) -> bool {
    let (first, second) = (&execution.events[a], &execution.events[b]);
    let between = || set(execution.before[b] & !execution.before[a]).filter(move |&m| m != a);
    let has = |set: Set| set >> a & 1 != 0;
    let is_rcsc = |event: &Event| event.acquire || event.release;
    let rule_1 = second.stores.is_some() && first.place == second.place;
    let rule_4 = has(second.fenced);
    let rule_5 = first.acquire;
    let rule_6 = second.release;
    let rule_7 = is_rcsc(first) && is_rcsc(second);
    let rule_8 = second.pair == Some(a);
    let rule_9 = has(second.address);
    let rule_10 = has(second.data);
    let rule_11 = second.stores.is_some() && has(second.control);
    let rule_13 = second.stores.is_some() && between().any(|m| has(execution.events[m].address));
    rule_1
        || rule_4
        || rule_5
        || rule_6
        || rule_7
        || rule_8
        || rule_9
        || rule_10
        || rule_11
        || rule_13
}

fn by_values(execution: &Execution, a: usize, b: usize) -> bool {
    let (first, second) = (&execution.events[a], &execution.events[b]);
    if second.loads.is_none() {
        return false;
    }
    let stores_between = || {
        set(execution.before[b] & !execution.before[a])
            .filter(move |&m| m != a && execution.events[m].stores.is_some())
    };
    let source = execution.source[b];
    let rule_2 = first.loads.is_some()
        && first.place == second.place
        && execution.source[a] != source
        && !stores_between().any(|m| execution.events[m].place == first.place);
    let is_rmw = matches!(first.kind, Kind::Amo | Kind::StoreConditional);
    let rule_3 = is_rmw && source == Some(a);
    let rule_12 = stores_between().any(|m| {
        let between = &execution.events[m];
        source == Some(m) && (between.address | between.data) >> a & 1 != 0
    });
    rule_2 || rule_3 || rule_12
}
