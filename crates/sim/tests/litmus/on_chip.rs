//! Tests on the cores of a chip, whose caches have to tell them of all that goes away.

use rackmem_sim::litmus::test::Outcome;
use rackmem_sim::litmus::{model, on_chip};
use rackmem_sim::machine::{self, Override};

use crate::files::files;

#[test]
fn cores_of_a_chip_keep_to_the_model() {
    // Caches of two lines, so that copies are driven out.
    let settings = [
        ("tiles.columns", "4"),
        ("llc.banks", "8"),
        ("llc.size_bytes", "1M"),
        ("l1.size_bytes", "128"),
    ];
    let settings = settings.map(|(path, value)| Override::new(path, value));
    let machine = machine::load("sonuma", &settings).expect("a machine that can be built");
    for (name, _, test) in files() {
        let allowed = model::allowed(&test).unwrap_or_else(|excess| panic!("{name}: {excess}"));
        let seen = on_chip::run(&test, &machine, 0..40);
        let seen = seen.unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_forbidden = |outcome: &&Outcome| !allowed.outcomes.contains_key(*outcome);
        let forbidden: Vec<String> =
            seen.keys().filter(is_forbidden).map(|outcome| test.outcome(outcome)).collect();
        assert!(forbidden.is_empty(), "{name}: {forbidden:?}");
    }
}
