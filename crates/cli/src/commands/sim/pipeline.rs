//! The lives of instructions in the format of gem5's O3PipeView, which Konata shows.
//!
//! A file for each core, as the format does not name cores. A cycle is 1000 ticks, whatever the clock; a stage to
//! which an instruction did not come is at tick 0. Sequence numbers count the instructions of the file in the order
//! of their fetch. Files of an earlier run in the same directory are replaced, or removed.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rackmem_experiments::whole_file;
use rackmem_riscv::disassemble;
use rackmem_sim::cpu::{Life, Lives, Stretch};
use rackmem_sim::machine::Machine;
use rustix::fs::{AtFlags, unlinkat};

use super::args::PipelineArgs;
use super::output;
use crate::console;
use crate::failure::{Failure, Result};

const TICKS_PER_CYCLE: u64 = 1000;

/// The directory of the files, made and held, if there will be any.
///
/// # Errors
/// It cannot be made.
pub(super) fn directory(args: &PipelineArgs) -> Result<Option<OwnedFd>> {
    let Some(dir) = &args.pipeline else { return Ok(None) };
    let failed = |error| output::cannot_write(dir, error);
    output::make(dir)?;
    let [here, real] = [Path::new("."), dir].map(fs::canonicalize);
    let (here, real) = (here.map_err(failed)?, real.map_err(failed)?);
    whole_file::check_inside(&here, dir, &real).map_err(failed)?;
    whole_file::open_folder(dir).map(Some).map_err(failed)
}

/// The stretch that is to be recorded, if one is.
pub(super) fn stretch(args: &PipelineArgs, machine: &Machine) -> Option<Stretch> {
    args.pipeline.as_ref()?;
    let cycle = |ns: f64| (ns * machine.clock_ghz).round() as u64;
    let window = args.pipeline_window.as_ref();
    let cycles = window.map_or(0..u64::MAX, |window| cycle(window.from_ns)..cycle(window.to_ns));
    Some(Stretch { cycles, most: args.pipeline_instructions as usize })
}

/// Writes the lives of nodes' cores, if they are asked for.
///
/// # Errors
/// Nothing was recorded, or a file cannot be written.
pub(super) fn write(
    folder: Option<&OwnedFd>,
    args: &PipelineArgs,
    nodes: &[(u16, Vec<(u16, Lives)>)],
) -> Result<()> {
    let (Some(folder), Some(dir)) = (folder, &args.pipeline) else { return Ok(()) };
    let (mut files, mut instructions, mut whole_to) = (HashSet::new(), 0, None::<u64>);
    for (nid, cores) in nodes {
        for (core, lives) in cores.iter().filter(|(_, lives)| !lives.instructions.is_empty()) {
            let name = format!("node{nid}-core{core}.log");
            whole_file::Place::inside(folder, dir, &name)
                .and_then(|place| place.write_by(|out| write_core(out, lives)))
                .map_err(|error| output::cannot_write(&dir.join(&name), error))?;
            files.insert(name);
            instructions += lives.instructions.len();
            whole_to = [whole_to, lives.whole_to].into_iter().flatten().min();
        }
    }
    if files.is_empty() {
        return Err(Failure::new(
            "no pipeline to show: no core retired an instruction then; choose another --pipeline-window",
        ));
    }
    remove_others(folder, &files).map_err(|error| output::cannot_write(dir, error))?;
    let count = console::count(files.len(), "file");
    console::remark(&format!(
        "wrote {instructions} instructions into {count} of {}",
        dir.display()
    ));
    if let Some(cycle) = whole_to {
        let most = args.pipeline_instructions;
        console::remark(&format!(
            "warning: a core's file has room for {most} instructions: all are whole up to cycle {cycle}; choose a \
             shorter --pipeline-window, or more --pipeline-instructions"
        ));
    }
    Ok(())
}

/// Removes the files of an earlier run: of nodes and cores that this one has not recorded.
fn remove_others(folder: &OwnedFd, files: &HashSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| is_of_core(name) && !files.contains(name)) {
            unlinkat(folder, &name, AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Whether a file has the name of one of a core.
fn is_of_core(name: &str) -> bool {
    let numbers = name.strip_prefix("node").and_then(|rest| rest.strip_suffix(".log"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pair = numbers.and_then(|numbers| numbers.split_once("-core"));
    pair.is_some_and(|(node, core)| is_number(node) && is_number(core))
}

fn write_core(out: &mut dyn Write, lives: &Lives) -> io::Result<()> {
    (1..).zip(&lives.instructions).try_for_each(|(number, life)| write_life(out, number, life))
}

fn write_life(text: &mut dyn Write, number: u64, life: &Life) -> io::Result<()> {
    let tick = |cycle: u64| cycle * TICKS_PER_CYCLE;
    let Life { pc, inst, .. } = life;
    let what = disassemble(inst, *pc);
    writeln!(text, "O3PipeView:fetch:{}:{pc:#010x}:0:{number}:{what}", tick(life.fetched))?;
    for (stage, cycle) in [
        ("decode", life.decoded),
        ("rename", life.dispatched),
        ("dispatch", life.dispatched),
        ("issue", life.issued),
        ("complete", life.completed),
    ] {
        writeln!(text, "O3PipeView:{stage}:{}", tick(cycle))?;
    }
    writeln!(text, "O3PipeView:retire:{}:store:{}", tick(life.retired), tick(life.stored))
}
