//! The commands in groups by audience, as `--help` and the manual pages show them.

use std::env;
use std::fmt::Write;
use std::io;

use clap::{CommandFactory, FromArgMatches};
use rustix::termios::tcgetwinsize;

use crate::args::Cli;
use crate::prose;

/// Columns of a text that is read.
pub const COLUMNS: usize = 100;

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
    let columns = columns();
    let matches = command(columns).term_width(columns).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Columns of the terminal, at most so many that a text is read easily.
fn columns() -> usize {
    let terminal = tcgetwinsize(io::stdout()).map(|size| usize::from(size.ws_col));
    let variable = || env::var("COLUMNS").ok()?.parse().ok();
    let columns = terminal.ok().filter(|&columns| columns > 0).or_else(variable);
    columns.map_or(COLUMNS, |columns| columns.clamp(40, COLUMNS))
}

/// Fills the lines of the texts of a command and of its subcommands.
fn fitted(mut command: clap::Command, columns: usize) -> clap::Command {
    if let Some(text) = command.get_long_about() {
        let text = prose::fitted(&text.to_string(), columns);
        command = command.long_about(text);
    }
    if let Some(text) = command.get_after_long_help() {
        let text = prose::fitted(&text.to_string(), columns);
        command = command.after_long_help(text);
    }
    command.mut_subcommands(|command| fitted(command, columns))
}

/// The command line, whose help has groups, and lines of at most so many columns.
pub fn command(columns: usize) -> clap::Command {
    let mut built = Cli::command();
    built.build();
    let mut template = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _ = writeln!(template, "\n{title}:");
        for command in names.iter().filter_map(|name| built.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let entry = format!("  {:<13}{about}", command.get_name());
            let _ = writeln!(template, "{}", prose::fitted(&entry, columns));
        }
    }
    template += "\nOptions:\n{options}{after-help}";
    fitted(Cli::command().help_template(template), columns)
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

    fn check_columns(command: &clap::Command, columns: usize) {
        let texts = [command.get_long_about(), command.get_after_long_help()];
        for text in texts.into_iter().flatten().map(ToString::to_string) {
            // A word has no place to break.
            let is_long = |line: &&str| line.trim().contains(' ') && line.chars().count() > columns;
            assert_eq!(text.lines().find(is_long), None, "{}", command.get_name());
        }
        command.get_subcommands().for_each(|command| check_columns(command, columns));
    }

    #[test]
    fn help_fits_a_terminal() {
        for columns in [72, COLUMNS] {
            check_columns(&command(columns), columns);
        }
    }

    #[test]
    fn examples_are_command_lines() {
        let mut all = Vec::new();
        examples(&Cli::command(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        for example in all {
            let parsed = command(COLUMNS).try_get_matches_from(words(&example));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}
