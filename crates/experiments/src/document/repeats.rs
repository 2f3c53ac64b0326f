//! Claims that a paper states several times.

use std::collections::BTreeMap;

use super::{Document, Measurement, Quantity, Way};
use crate::language::ast::Expr;

impl Document {
    /// Notes which claims repeat others: the same quantity, class and published value. The first one in the order of
    /// the paper counts.
    pub(super) fn find_repeats(&mut self) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for claim in &self.published {
            let id = claim.short_id();
            let Some(check) = self.checks.iter_mut().find(|check| check.id == id) else { continue };
            let Way::Measured(measurement) = &mut check.way else { continue };
            let (value, relation) = (claim.value, claim.relation.sign());
            let key = format!("{} {value:?} {relation}", quantity(measurement));
            match seen.get(&key) {
                Some(first) => measurement.repeats = Some(first.clone()),
                None => drop(seen.insert(key, claim.id.clone())),
            }
        }
    }
}

/// A quantity as a text that is the same for the same expressions.
fn quantity(measurement: &Measurement) -> String {
    let plain = |expr: &Expr| expr.substituted(&measurement.with);
    let sides = match &measurement.quantity {
        Quantity::Value(value) => vec![plain(value)],
        Quantity::Sides(left, right) => vec![plain(left), plain(right)],
    };
    format!("{:?} {sides:?}", measurement.class)
}
