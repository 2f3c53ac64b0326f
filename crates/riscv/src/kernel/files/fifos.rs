//! Pipes with names (FIFOs), which programs make by `mknodat`. The host has their names; the bytes are here.

use serde::{Deserialize, Serialize};

use super::pipes::Pipe;
use super::table::{NONBLOCK, Open, READ_WRITE, WRITE_ONLY};
use super::{Context, Errno, Files, Process, Result, Way};
use crate::kernel::{Change, Status};

/// A pipe with a name.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Fifo {
    /// Its number among the files: names of the same one share it.
    inode: u64,
    pub had_writer: bool,
    /// Threads that wait until somebody opens the other end.
    openers: Vec<Opener>,
}

/// A thread that opens one end.
#[derive(Serialize, Deserialize)]
pub(super) struct Opener {
    hart: usize,
    way: Way,
    status: Status,
    /// Somebody has opened the other end since.
    has_met: bool,
}

impl Fifo {
    pub(super) fn new(inode: u64) -> Fifo {
        Fifo { inode, ..Fifo::default() }
    }

    pub(super) fn is_opened(&self, way: Way) -> bool {
        self.openers.iter().any(|opener| opener.way == way)
    }

    /// One end is opened: those that wait for it go on.
    fn note(&mut self, way: Way) {
        self.had_writer |= way == Way::Write;
        for opener in self.openers.iter_mut().filter(|opener| opener.way != way) {
            opener.has_met = true;
        }
    }
}

impl Files {
    /// `mknodat`: regular files, FIFOs and sockets.
    pub(super) fn make_node(&mut self, context: &mut Context<'_>, process: &Process<'_>) -> Result {
        const KIND: u64 = 0o170_000;
        const REGULAR: u64 = 0o100_000;
        const FIFO: u64 = 0o010_000;
        const SOCKET: u64 = 0o140_000;
        const OTHERS: [u64; 3] = [0o020_000, 0o040_000, 0o060_000];
        let [folder, path, mode, ..] = context.args();
        let kind = mode & KIND;
        match kind {
            0 | REGULAR | FIFO | SOCKET => {}
            other if OTHERS.contains(&other) => return Err(Errno::PERM),
            _ => return Err(Errno::INVAL),
        }
        let name = self.name(context, folder, path)?;
        if let Some(errno) = self.new_of_ours(context, process, &name) {
            return Err(errno);
        }
        let change = match kind {
            FIFO => Change::MakePipe(&name),
            SOCKET => Change::MakeSocket(&name),
            _ => Change::MakeFile(&name),
        };
        context.host.change(&change)?;
        let permissions = self.permissions_of(mode);
        context.host.change(&Change::Permit { name: &name, permissions, follow: false })?;
        Ok(0)
    }

    /// Opens an end of a pipe with a name, or both: waits until the other one is open.
    pub(super) fn open_fifo(
        &mut self,
        context: &mut Context<'_>,
        status: Status,
        flags: u64,
    ) -> Result<Open> {
        let number = self.fifo(status.inode);
        let waits = flags & NONBLOCK == 0;
        let ways = match flags & 3 {
            READ_WRITE => &[Way::Read, Way::Write][..],
            WRITE_ONLY => &[Way::Write],
            _ => &[Way::Read],
        };
        if let [way] = *ways
            && !self.meets(context.hart, number, way)?
        {
            match way {
                Way::Write if !waits => {
                    self.table.forget_pipe(number);
                    return Err(Errno::NXIO);
                }
                _ if waits => {
                    let fifo = self.table.pipe(number)?.fifo.get_or_insert_default();
                    if !fifo.openers.iter().any(|opener| opener.hart == context.hart) {
                        let hart = context.hart;
                        fifo.openers.push(Opener { hart, way, status, has_met: false });
                    }
                    return Err(context.block(None));
                }
                _ => {}
            }
        }
        let fifo = self.table.pipe(number)?.fifo.get_or_insert_default();
        fifo.openers.retain(|opener| opener.hart != context.hart);
        ways.iter().for_each(|&way| fifo.note(way));
        context.has_changed = true;
        Ok(Open::Pipe(number))
    }

    /// Whether the other end is open, or was since the thread waits for it.
    fn meets(&mut self, hart: usize, number: u32, way: Way) -> Result<bool> {
        let other = if way == Way::Read { Way::Write } else { Way::Read };
        let is_open = self.table.has_end(number, other);
        let fifo = self.table.pipe(number)?.fifo.get_or_insert_default();
        let has_met = fifo.openers.iter().any(|opener| opener.hart == hart && opener.has_met);
        Ok(is_open || has_met)
    }

    /// The number of the pipe behind a name.
    fn fifo(&mut self, inode: u64) -> u32 {
        let is_it = |pipe: &Pipe| pipe.fifo.as_ref().is_some_and(|fifo| fifo.inode == inode);
        let known = self.table.pipes_mut().find(|(_, pipe)| is_it(pipe)).map(|(number, _)| number);
        match known {
            Some(number) => number,
            None => self.table.new_pipe(Pipe::named(Fifo::new(inode))),
        }
    }

    /// The pipe that a thread opens and for whose other end it waits, whatever its name stands for by now.
    pub(super) fn opening(&self, hart: usize) -> Option<Status> {
        let openers = self.table.pipes().filter_map(|pipe| pipe.fifo.as_ref());
        let opener = openers.flat_map(|fifo| &fifo.openers).find(|opener| opener.hart == hart);
        opener.map(|opener| opener.status)
    }

    /// A thread does not wait for the other end of a pipe any more.
    pub(in crate::kernel) fn stop_opening(&mut self, hart: usize) {
        let mut stopped = None;
        for (number, pipe) in self.table.pipes_mut() {
            let Some(fifo) = &mut pipe.fifo else { continue };
            let before = fifo.openers.len();
            fifo.openers.retain(|opener| opener.hart != hart);
            if fifo.openers.len() < before {
                stopped = Some(number);
            }
        }
        if let Some(number) = stopped {
            self.table.forget_pipe(number);
        }
    }
}
