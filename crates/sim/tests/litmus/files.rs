//! Tests whose verdicts are known: from the specification's appendix, or from what each rule is for.

use std::fs;
use std::path::Path;

use rackmem_sim::cpu::CpuSpec;
use rackmem_sim::litmus::suite::{Class, Judged};
use rackmem_sim::litmus::test::Test;
use rackmem_sim::litmus::{model, parse};

/// Name, text, and test.
pub fn files() -> Vec<(String, String, Test)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/litmus");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "litmus"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).expect("it can be read");
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        let test = parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        (name, text, test)
    };
    paths.iter().map(read).collect()
}

#[test]
fn the_model_has_the_published_verdicts() {
    let files = files();
    assert!(files.len() >= 25, "{}", files.len());
    for (name, text, test) in files {
        let allowed = model::allowed(&test).unwrap_or_else(|excess| panic!("{name}: {excess}"));
        let is_allowed = test.condition.is_true(allowed.outcomes.keys());
        let expected = text.lines().find_map(|line| line.strip_prefix("Verdict="));
        let found = if is_allowed { "allowed" } else { "forbidden" };
        assert_eq!(Some(found), expected, "{name}");
    }
}

#[test]
fn cores_keep_to_the_model() {
    for (name, _, test) in files() {
        let judged = Judged::new(test, &CpuSpec::default(), 0..300);
        let judged = judged.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(judged.seen(Class::Forbidden), 0, "{name}: {:?}", judged.seen);
    }
}

#[test]
fn stores_join_older_ones_of_their_line_unless_a_fence_is_between() {
    let judge = |name: &str| {
        let file = files().into_iter().find(|(file, ..)| file == name);
        let (.., test) = file.unwrap_or_else(|| panic!("{name} is there"));
        Judged::new(test, &CpuSpec::default(), 0..3000).unwrap_or_else(|error| panic!("{error}"))
    };
    let joined = judge("MP+joined.litmus");
    assert!(joined.seen(Class::Relaxed) > 0, "{:?}", joined.seen);
    for name in ["MP+joined-fence.w.w.litmus", "MP+joined-amo.rl.litmus"] {
        let fenced = judge(name);
        assert_eq!(fenced.seen(Class::Forbidden), 0, "{name}: {:?}", fenced.seen);
    }
}
