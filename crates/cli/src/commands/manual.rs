//! `rackmem man` and `rackmem completion`: made from the same description as `--help`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;

use crate::console;
use crate::failure::{Failure, Result};
use crate::help::{self, GROUPS};

/// Columns of a text: `man` indents it, on a terminal of 80.
const COLUMNS: usize = 72;

/// Arguments of `rackmem completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Shell to print completions for
    pub shell: clap_complete::Shell,
}

/// Arguments of `rackmem man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command that is explained [default: rackmem itself]
    #[arg(conflicts_with = "write")]
    pub command: Option<String>,
    /// Write all pages to this folder
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
}

/// Prints completions for a shell.
///
/// # Errors
/// The output cannot be written.
pub fn completion(args: &CompletionArgs) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(COLUMNS), "rackmem", &mut text);
    console::print(&String::from_utf8_lossy(&text))
}

/// Prints a manual page, or writes all of them.
///
/// # Errors
/// There is no such command, or the output cannot be written.
pub fn man(args: &ManArgs) -> Result<()> {
    let mut root = help::command(COLUMNS);
    root.build();
    let failed = |error| Failure::io("cannot make the manual page", error);
    if let Some(dir) = &args.write {
        return write_all(&root, dir).map_err(|error| {
            Failure::io(format_args!("cannot write to {}", dir.display()), error)
        });
    }
    let page = match &args.command {
        None => root_page(&root),
        Some(name) => command_page(subcommand(&root, name)?),
    };
    console::print(&String::from_utf8_lossy(&page.map_err(failed)?))
}

fn subcommand<'a>(root: &'a Command, name: &str) -> Result<&'a Command> {
    let found = explained(root).find(|command| command.get_name() == name);
    found.ok_or_else(|| {
        Failure::usage(format!("there is no command '{name}': `rackmem --help` lists them"))
    })
}

/// The commands that have a page of their own.
fn explained(root: &Command) -> impl Iterator<Item = &Command> {
    let commands = root.get_subcommands();
    commands.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn write_all(root: &Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("rackmem.1"), root_page(root)?)?;
    for command in explained(root) {
        let name = format!("rackmem-{}.1", command.get_name());
        fs::write(dir.join(name), command_page(command)?)?;
    }
    Ok(())
}

fn root_page(root: &Command) -> io::Result<Vec<u8>> {
    let mut page = beginning(&Man::new(root.clone()))?;
    let mut groups = ".SH COMMANDS\n".to_owned();
    for (title, names) in GROUPS {
        groups += &format!(".SS {title}\n");
        let pages = names.iter().filter(|&&name| name != "help");
        for command in pages.filter_map(|name| root.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            groups += &format!(".TP\n\\fBrackmem\\-{name}\\fR(1)\n{}\n", escaped(&about));
        }
    }
    page.extend(groups.into_bytes());
    page.extend(epilogue("SH", "NOTES", root).into_bytes());
    Ok(page)
}

/// A page up to its description.
fn beginning(man: &Man) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    Ok(page)
}

fn command_page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut page = beginning(&man)?;
    man.render_options_section(&mut page)?;
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        page.extend(section(part)?);
    }
    page.extend(epilogue("SH", "NOTES", command).into_bytes());
    page.extend(b".SH SEE ALSO\n\\fBrackmem\\fR(1)\n");
    Ok(page)
}

/// A section with the parts of a page of its own as subsections.
fn section(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut parts = Vec::new();
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    let parts = format!("\n{}", String::from_utf8_lossy(&parts)).replace("\n.SH ", "\n.SS ");
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_uppercase();
    Ok((format!(".SH \"{name}\"") + &parts + &epilogue("SS", "NOTES", command)).into_bytes())
}

/// The last text of `--help`, line by line as it stands there.
fn epilogue(macro_name: &str, title: &str, command: &Command) -> String {
    let Some(text) = command.get_after_long_help() else { return String::new() };
    let mut section = format!(".{macro_name} {title}\n.nf\n");
    for line in text.to_string().lines() {
        section += &escaped(line);
        section += "\n";
    }
    section + ".fi\n"
}

/// A line whose first character makes no macro of it, and whose backslashes are none.
fn escaped(line: &str) -> String {
    format!("\\&{}", line.replace('\\', "\\\\").replace('-', "\\-"))
}
