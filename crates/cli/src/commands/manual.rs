//! `rackmem man` and `rackmem completion`: made from the same description as `--help`.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Cli, CompletionArgs};
use crate::console;
use crate::failure::{Failure, Result};

/// Prints completions for a shell.
///
/// # Errors
/// The output cannot be written.
pub fn completion(args: &CompletionArgs) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rackmem", &mut text);
    console::print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page: the command, then each of its commands.
///
/// # Errors
/// The output cannot be written.
pub fn man() -> Result<()> {
    let mut root = Cli::command();
    root.build();
    let page = page(&root).map_err(|error| Failure::io("cannot make the manual page", error))?;
    console::print(&String::from_utf8_lossy(&page))
}

fn page(root: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(root.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    for command in root
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        page.extend(command_section(command)?);
    }
    page.extend(epilogue("SH", "NOTES", root).into_bytes());
    Ok(page)
}

/// A section with the parts of a command's own page as subsections.
fn command_section(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut parts = Vec::new();
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    if command.has_subcommands() {
        let mut commands = Vec::new();
        man.render_subcommands_section(&mut commands)?;
        // They have no pages of their own.
        parts.extend(String::from_utf8_lossy(&commands).replace("(1)\n", "\n").into_bytes());
    }
    let parts = format!("\n{}", String::from_utf8_lossy(&parts)).replace("\n.SH ", "\n.SS ");
    let title = format!(".SH \"RACKMEM {}\"", command.get_name().to_uppercase());
    Ok((title + &parts + &epilogue("SS", "NOTES", command)).into_bytes())
}

/// What stands at the end of `--help`, line by line as it stands there.
fn epilogue(macro_name: &str, title: &str, command: &Command) -> String {
    let Some(text) = command.get_after_long_help() else { return String::new() };
    let mut section = format!(".{macro_name} {title}\n.nf\n");
    for line in text.to_string().lines() {
        // A dot or quote in front would make a macro of it, a backslash an escape.
        section += "\\&";
        section += &line.replace('\\', "\\\\").replace('-', "\\-");
        section += "\n";
    }
    section + ".fi\n"
}
