//! `rackmem context`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use clap::{Args, Subcommand};
use rackmem::rack::Rack;
use serde::Serialize;

use crate::args::{RackOrFileArg, parse_mode};
use crate::choice::Choice;
use crate::console::{self, Align, Table};
use crate::failure::Result;

/// Arguments of `rackmem context`.
#[derive(Debug, Args)]
pub struct ContextArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// The command of `rackmem context`.
    #[command(subcommand)]
    pub command: ContextCommand,
}

/// The commands of `rackmem context`.
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// Create a context
    Create {
        /// Its number; without one, any that is free, which is printed
        id: Option<u16>,
        /// Permissions of its file, in octal: write means join, read means read only
        #[arg(long, default_value = "0600", value_parser = parse_mode)]
        mode: u32,
    },
    /// List the contexts of the rack
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a context: nobody can join it any more, members stay
    Remove {
        /// Its number
        id: u16,
    },
}

/// A context in the list.
#[derive(Debug, Serialize)]
struct Listed {
    ctx_id: u16,
    /// Permissions in octal.
    mode: String,
    path: String,
}

/// Creates, lists or removes contexts.
///
/// # Errors
/// There is no rack, or the request is impossible.
pub fn run(choice: &Choice, args: &ContextArgs) -> Result<()> {
    let (rack, _) = choice.existing()?;
    match args.command {
        ContextCommand::Create { id: Some(id), mode } => {
            rack.create_context(id, mode)?;
            console::print(&format!("context {id} created\n"))
        }
        // Only the number, for scripts.
        ContextCommand::Create { id: None, mode } => {
            console::print(&format!("{}\n", rack.create_any_context(mode)?))
        }
        ContextCommand::List { json } => list(&rack, json),
        ContextCommand::Remove { id } => {
            rack.remove_context(id)?;
            console::print(&format!("context {id} removed\n"))
        }
    }
}

fn list(rack: &Rack, json: bool) -> Result<()> {
    let contexts: Vec<Listed> = rack
        .contexts()
        .into_iter()
        .map(|ctx_id| {
            let path = rack.context_path(ctx_id);
            // One that has just been removed has no permissions left.
            let mode = fs::metadata(&path).map_or(0, |data| data.permissions().mode() & 0o777);
            Listed { ctx_id, mode: format!("{mode:04o}"), path: path.display().to_string() }
        })
        .collect();
    if json {
        return console::print_json(&contexts);
    }
    if contexts.is_empty() {
        return console::print(&format!("rack '{}' has no contexts\n", rack.name()));
    }
    let mut table =
        Table::new(&[("context", Align::Right), ("mode", Align::Left), ("file", Align::Left)]);
    for Listed { ctx_id, mode, path } in contexts {
        table.row([ctx_id.to_string(), mode, path]);
    }
    console::print(&table.render())
}
