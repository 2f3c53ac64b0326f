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

    /// The words of a line of the shell up to the end of its first command.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for letter in line.chars() {
            match (letter, quote) {
                ('\'' | '"', None) => quote = Some(letter),
                (_, Some(open)) if letter == open => quote = None,
                (' ', None) => words.push(String::new()),
                _ => words.last_mut().unwrap().push(letter),
            }
        }
        // Two spaces begin a remark.
        let ends = |word: &String| ["", "|", "&&", "&", ">", "<"].contains(&word.as_str());
        // Names of hosts would be looked up.
        let known = |word: String| match word.split_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => format!("127.0.0.1:{port}"),
            None if word == "lender" => "127.0.0.1".to_owned(),
            _ => word,
        };
        words.into_iter().take_while(|word| !ends(word)).map(known).collect()
    }

    fn examples(command: &clap::Command, all: &mut Vec<String>) {
        let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let help = help.replace("\\\n", "");
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            let commands = line.split(" && ").map(str::trim);
            all.extend(commands.filter(|one| one.starts_with("rackmem ")).map(str::to_owned));
        }
        command.get_subcommands().for_each(|command| examples(command, all));
    }

    #[test]
    fn examples_are_command_lines() {
        let mut all = Vec::new();
        examples(&Cli::command(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        for example in all {
            let parsed = command().try_get_matches_from(words(&example));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}
