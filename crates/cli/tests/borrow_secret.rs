//! `rackmem borrow --secret`: the program knows the secret of the network, wherever it goes.

mod common;
mod lender;

use common::{Done, Host};
use lender::{Lender, borrow, is_possible, program};

#[test]
fn a_program_borrows_of_a_lender_that_wants_a_secret() {
    let host = Host::new();
    let secret = host.secret("secret", "nobody guesses this");
    let _lender = Lender::start_guarded(&host, "512M", &secret);
    if !is_possible(&host) {
        return;
    }
    let program = program("borrowed");
    // A program that begins in another directory than it was named in.
    let script = format!("cd / && {} malloc", program.display());
    let run = |more: &[&str]| {
        let args =
            [&["128M", "--cache", "4M", "--threshold", "0", "--network", "--json"], more].concat();
        let mut command = borrow(&host, &args, &["sh", "-c", &script]);
        Done::from(command.current_dir(host.racks()).output().unwrap())
    };
    let done = run(&["--secret", "secret"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let reports = done.err.lines().filter_map(|line| serde_json::from_str(line).ok());
    let fetched = reports.map(|report: serde_json::Value| report["fetched"].as_u64().unwrap());
    assert!(fetched.sum::<u64>() > 100, "{}", done.err);
    let without = run(&[]);
    assert!(without.err.contains("--secret FILE"), "{without:?}");
}
