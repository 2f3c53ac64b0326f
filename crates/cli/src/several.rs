//! Several programs in one command line, as launchers of MPI have them: `-n 1 server : -n 2 client`.
//!
//! A lone `:` ends the words of a program. Options of the next one follow, and then its own words.

use std::ffi::{OsStr, OsString};

use clap::{Args, Parser};

use crate::failure::{Failure, Result};

/// The word between two programs.
pub const SEPARATOR: &str = ":";

/// A program of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program<O> {
    /// Options before its name.
    pub options: O,
    /// Its name and its arguments.
    pub words: Vec<OsString>,
}

/// The command line of a program after the first one.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Following<O: Args> {
    #[command(flatten)]
    options: O,
    #[arg(trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Whether words name more than one program.
pub fn is_several(words: &[impl AsRef<OsStr>]) -> bool {
    words.iter().any(|word| word.as_ref() == SEPARATOR)
}

/// The programs of a command line: `options` are those of the first one, and `words` follow them.
///
/// # Errors
/// A program is missing before or after a separator, or its options are wrong.
pub fn programs<O: Args>(options: O, words: &[impl AsRef<OsStr>]) -> Result<Vec<Program<O>>> {
    let mut parts = words
        .split(|word| word.as_ref() == SEPARATOR)
        .map(|part| part.iter().map(|word| word.as_ref().to_owned()).collect::<Vec<OsString>>());
    let first = parts.next().unwrap_or_default();
    let mut programs = vec![Program { options, words: first }];
    for part in parts {
        let parsed = Following::<O>::try_parse_from(part);
        let Following { options, words } = parsed.map_err(|error| refused(&error))?;
        programs.push(Program { options, words });
    }
    match programs.iter().position(|program| program.words.is_empty()) {
        None => Ok(programs),
        Some(0) => Err(missing("before")),
        Some(_) => Err(missing("after")),
    }
}

fn missing(side: &str) -> Failure {
    Failure::usage(format!("a program is missing {side} ':', which stands between two"))
}

/// In one line: what the error is, without the usage of the whole.
fn refused(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let what = line.strip_prefix("error: ").unwrap_or(line);
    Failure::usage(format!("after ':': {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Args)]
    struct Options {
        #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
        nodes: u16,
    }

    fn split(words: &[&str]) -> std::result::Result<Vec<(u16, Vec<String>)>, String> {
        let programs = programs(Options { nodes: 7 }, words);
        let plain = |program: Program<Options>| {
            let words = program.words.into_iter().map(|word| word.into_string().unwrap());
            (program.options.nodes, words.collect())
        };
        let programs = programs.map(|programs| programs.into_iter().map(plain).collect());
        programs.map_err(|failure| failure.message.unwrap_or_default())
    }

    #[test]
    fn each_program_has_its_options_and_words() {
        let of = |nodes, words: &[&str]| (nodes, words.iter().map(|&word| word.into()).collect());
        assert_eq!(split(&["a", "-n", "2"]), Ok(vec![of(7, &["a", "-n", "2"])]));
        let found =
            split(&["a", "x:", ":", "-n", "2", "b", "-n", ":", "--", "c", "--nodes=3", ":x"]);
        let expected = [of(7, &["a", "x:"]), of(2, &["b", "-n"]), of(1, &["c", "--nodes=3", ":x"])];
        assert_eq!(found, Ok(expected.to_vec()));
        assert!(is_several(&["a", ":", "b"]) && !is_several(&[":a", "::"]));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (words, said) in [
            (&["a", ":"][..], "a program is missing after ':'"),
            (&[":", "a"], "a program is missing before ':'"),
            (&["a", ":", ":", "b"], "a program is missing after ':'"),
            (&["a", ":", "-n", "2"], "a program is missing after ':'"),
            (&["a", ":", "-n", "0", "b"], "after ':': invalid value '0' for '--nodes <NODES>'"),
            (&["a", ":", "--speed", "b"], "after ':': unexpected argument '--speed'"),
            (&["a", ":", "--help", "b"], "after ':': unexpected argument '--help'"),
        ] {
            let found = split(words).unwrap_err();
            assert!(found.starts_with(said) && !found.contains('\n'), "{words:?}: {found}");
        }
    }
}
