//! The commands in groups by audience, as `--help` and the manual pages show them.

use std::fmt::Write;

use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;

/// Each group and its commands, in the order in which they are shown.
pub const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Write and run programs",
        &["demo", "run", "cc", "up", "down", "status", "info", "context", "key", "top", "bench"],
    ),
    ("Lend and borrow", &["borrow", "lend", "leases", "monitor", "blk", "nic", "sockets"]),
    (
        "Model and study",
        &["sim", "sweep", "noc", "dram", "reproduce", "sensitivity", "accuracy", "report"],
    ),
    ("Tools", &["completion", "man", "help"]),
];

/// Parses the arguments of this process; ends it for `--help`, `--version` and mistakes.
pub fn parse() -> Cli {
    let matches = command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The command line, whose help has groups.
pub fn command() -> clap::Command {
    let mut built = Cli::command();
    built.build();
    let mut template = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _ = writeln!(template, "\n{title}:");
        for command in names.iter().filter_map(|name| built.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(template, "  {:<12}{about}", command.get_name());
        }
    }
    template += "\nOptions:\n{options}{after-help}";
    Cli::command().help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let mut built = Cli::command();
        built.build();
        let shown = built.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<&str> = shown.map(|command| command.get_name()).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
    }
}
