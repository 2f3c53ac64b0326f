//! Every code block of the README and of the book runs, in the order in which it stands.
//!
//! A chapter is one shell script in one folder. Of ` ```console ` blocks, lines that begin with `$ ` are commands and
//! the others what they print; ` ```LANGUAGE file=NAME ` writes a file. The words after the language say more:
//! `fails` (the command has to), `needs=WORD,...` (left out where that is missing), `wait=TEXT` (a command in the
//! background is ready when it has printed this). Numbers in outputs may be any.

mod chapter;
mod script;

use std::fs;
use std::path::{Path, PathBuf};

use chapter::Chapter;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
#[ignore = "builds for release, takes minutes: cargo test --release --test book -- --ignored"]
fn the_readme_runs_from_a_clone() {
    let chapter =
        Chapter::parse("README.md", &fs::read_to_string(root().join("README.md")).unwrap());
    script::run(&chapter, &root()).unwrap();
}

#[test]
#[ignore = "takes minutes in a build for debugging: cargo test --release --test book -- --ignored"]
fn the_book_runs() {
    let source = root().join("docs/book/src");
    let summary = fs::read_to_string(source.join("SUMMARY.md")).unwrap();
    let names = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let mut failed = Vec::new();
    for (name, _) in names {
        let chapter = Chapter::parse(name, &fs::read_to_string(source.join(name)).unwrap());
        let folder = tempfile::Builder::new().prefix("rk").tempdir().unwrap();
        failed.extend(script::run(&chapter, folder.path()).err());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
