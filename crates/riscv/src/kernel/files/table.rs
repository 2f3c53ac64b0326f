//! Descriptors of a process, and the open files that they stand for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::again::WithoutContent;
use super::epoll::Interests;
use super::held::Holds;
use super::locks::Locks;
use super::pipes::Pipe;
use super::regular::Regular;
use super::timer::Timer;
use super::{Errno, Result, Way};
use crate::kernel::network::Network;
use crate::kernel::saved::{Checked, require};
use crate::kernel::synthetic::{FIRST_INODE, normal};
use crate::kernel::{Entry, Kind, Status, Stream};
use crate::names::bytes_of;

/// Descriptors of a process, at most.
pub(super) const MOST_FILES: usize = 1024;

/// Open files of a process, at most, with those that only mappings need: each is open on the host, too.
const MOST_OPEN: usize = 2 * MOST_FILES;

/// Open files and pipes over the life of a process are fewer, so that no number comes again.
const LAST_FILE: u32 = 1 << 31;

pub(super) const WRITE_ONLY: u64 = 1;
pub(super) const READ_WRITE: u64 = 2;
pub(super) const APPEND: u64 = 0o2000;
pub(super) const NONBLOCK: u64 = 0o4000;
/// Signals that there is something to read or room to write, to an owner, of which there is none.
pub(super) const ASYNC: u64 = 0o20000;
pub(super) const CLOEXEC: u64 = 0o200_0000;
pub(super) const PATH: u64 = 0o1000_0000;

/// Kinds of open files.
#[derive(Serialize, Deserialize)]
pub(super) enum Open {
    Input,
    Output(Stream),
    File(Regular),
    /// A text that the kernel has made up, and the place of the next byte.
    Text(Vec<u8>, usize),
    Null,
    Zero,
    Full,
    Random,
    /// A folder by its name without links, what is in it, and the place of the next entry.
    Folder(String, Vec<Entry>, usize),
    /// A file without its content: one that was opened with `O_PATH` and is no folder.
    Path(WithoutContent),
    /// An end of the pipe with this number, or both: the flags say which.
    Pipe(u32),
    Event {
        count: u64,
        one_by_one: bool,
    },
    Timer(Timer),
    Epoll(Interests),
    /// The socket with this number.
    Socket(u32),
}

/// An open file: descriptors that are copies share it.
#[derive(Serialize, Deserialize)]
pub(super) struct OpenFile {
    pub open: Open,
    /// Flags of `open` that `fcntl` shows.
    pub flags: u64,
    pub status: Status,
}

impl OpenFile {
    /// Whether it was opened for that.
    pub(super) const fn permits(&self, way: Way) -> bool {
        match way {
            _ if self.flags & PATH != 0 => false,
            Way::Read => self.flags & 3 != WRITE_ONLY,
            Way::Write => self.flags & 3 != 0,
        }
    }

    const fn is_timer(&self) -> bool {
        matches!(self.open, Open::Timer(_))
    }

    fn is_on_disk(&self) -> bool {
        match &self.open {
            Open::File(Regular::Disk(_)) => true,
            Open::Path(path) => path.is_on_disk(),
            _ => false,
        }
    }
}

/// What a number of a process's descriptors stands for.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Descriptor {
    /// Number of the open file.
    pub file: u32,
    pub close_on_exec: bool,
}

/// The descriptors of a process.
#[derive(Serialize, Deserialize)]
pub(super) struct Table {
    descriptors: Vec<Option<Descriptor>>,
    files: BTreeMap<u32, OpenFile>,
    pipes: BTreeMap<u32, Pipe>,
    /// Open files that mappings need.
    kept: Vec<u32>,
    /// And those that calls hold.
    pub(super) holds: Holds,
    pub(super) locks: Locks,
    pub(super) network: Network,
    /// Open files that are the host's.
    on_disk: usize,
    /// And those that are timers, by number.
    timers: Vec<u32>,
    last: u32,
    /// The program's own limit of descriptors, if it has set one.
    #[serde(default)]
    pub(super) limit: Option<usize>,
}

/// The status of what is no file.
pub(super) const fn device(kind: Kind) -> Status {
    Status::new(kind, FIRST_INODE)
}

impl Default for Table {
    fn default() -> Self {
        let mut table = Table {
            descriptors: Vec::new(),
            files: BTreeMap::new(),
            pipes: BTreeMap::new(),
            kept: Vec::new(),
            holds: Holds::default(),
            locks: Locks::default(),
            network: Network::default(),
            on_disk: 0,
            timers: Vec::new(),
            last: 0,
            limit: None,
        };
        let streams = [Open::Input, Open::Output(Stream::Out), Open::Output(Stream::Err)];
        for open in streams {
            // There is room for three.
            let _ = table
                .add(OpenFile { open, flags: READ_WRITE, status: device(Kind::Device) }, false);
        }
        table
    }
}

impl Open {
    /// Whether it can tell an owner by signals.
    pub(super) const fn may_signal(&self) -> bool {
        matches!(self, Open::Pipe(_) | Open::Socket(_) | Open::Input | Open::Output(_))
    }

    /// Whether `epoll` can watch it.
    pub(super) const fn can_be_watched(&self) -> bool {
        !matches!(self, Open::File(_) | Open::Folder(..) | Open::Path(_) | Open::Text(..))
    }
}

impl Table {
    /// Checks what was read: numbers refer to what is there, and new ones are free.
    pub(super) fn check(&self) -> Checked {
        let Table { descriptors, files, pipes, kept, holds, locks, on_disk, timers, last, .. } =
            self;
        let used = files.keys().chain(pipes.keys()).max().copied().unwrap_or(0);
        require((used..LAST_FILE).contains(last), || {
            format!("last: is {last}, must be {used} to {}", LAST_FILE - 1)
        })?;
        require(descriptors.len() <= MOST_FILES, || {
            format!("descriptors: has more than {MOST_FILES} entries")
        })?;
        require(files.len() <= MOST_OPEN, || format!("files: has more than {MOST_OPEN} entries"))?;
        require(kept.is_sorted_by(|a, b| a < b), || {
            "kept: has a file twice, or not in order".to_owned()
        })?;
        require(kept.iter().all(|file| files.contains_key(file)), || {
            "kept: has a file that is not open".to_owned()
        })?;
        for (at, slot) in descriptors.iter().enumerate() {
            require(slot.is_none_or(|slot| files.contains_key(&slot.file)), || {
                format!("descriptors[{at}].file: no open file has this number")
            })?;
        }
        holds.check(|file| files.contains_key(&file))?;
        locks.check(|file| files.contains_key(&file))?;
        pipes.iter().try_for_each(|(number, pipe)| {
            pipe.check().map_err(|wrong| format!("pipes.{number}.{wrong}"))
        })?;
        files.iter().try_for_each(|(number, file)| {
            self.check_file(file).map_err(|wrong| format!("files.{number}.{wrong}"))
        })?;
        let ring = files.keys().find(|&&file| self.epoll_depth(file).is_none());
        require(ring.is_none(), || {
            format!("files.{}.open: is a ring, or a long chain, of epoll", ring.unwrap_or(&0))
        })?;
        let found = files.values().filter(|file| file.is_on_disk()).count();
        require(*on_disk == found, || format!("on_disk: is {on_disk}, and {found} files are"))?;
        let found = files.iter().filter(|(_, file)| file.is_timer()).map(|(number, _)| number);
        require(timers.iter().eq(found), || "timers: are not those that are open".to_owned())
    }

    fn check_file(&self, file: &OpenFile) -> Checked {
        const LONGEST_NAME: usize = 255;
        match &file.open {
            Open::Pipe(number) => require(self.pipes.contains_key(number), || {
                format!("open: there is no pipe {number}")
            }),
            Open::Event { count, .. } => {
                require(*count < u64::MAX, || format!("open.count: is {count}, which is too many"))
            }
            Open::Timer(timer) => timer.check(),
            // Those that are open are not saved.
            Open::Socket(number) => Err(format!("open: there is no socket {number}")),
            Open::File(Regular::Memory(file)) => {
                file.check().map_err(|wrong| format!("open.{wrong}"))
            }
            Open::Folder(_, entries, _) => {
                let is_short = |entry: &Entry| bytes_of(&entry.name).len() <= LONGEST_NAME;
                require(entries.iter().all(is_short), || {
                    format!("open: an entry's name has more than {LONGEST_NAME} bytes")
                })
            }
            Open::Epoll(interests) => interests.check(|watched| {
                self.files.get(&watched).is_some_and(|file| file.open.can_be_watched())
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn slot(&mut self, descriptor: u64) -> Result<&mut Descriptor> {
        let slot = self.descriptors.get_mut(descriptor as u32 as usize);
        slot.and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    /// The open file of a descriptor, also if it has no content (`O_PATH`).
    pub(super) fn any_file(&mut self, descriptor: u64) -> Result<&mut OpenFile> {
        let number = self.file_number(descriptor)?;
        self.by_number(number)
    }

    pub(super) fn file(&mut self, descriptor: u64) -> Result<&mut OpenFile> {
        let number = self.content_number(descriptor)?;
        self.by_number(number)
    }

    pub(super) fn get(&mut self, descriptor: u64) -> Result<&mut Open> {
        Ok(&mut self.file(descriptor)?.open)
    }

    /// Descriptors are below this number, but for those that are open already.
    pub(super) fn most(&self) -> usize {
        self.limit.map_or(MOST_FILES, |limit| limit.min(MOST_FILES))
    }

    /// The lowest free descriptor from `lowest` on.
    fn free(&mut self, lowest: u64) -> Result<usize> {
        let most = self.most();
        let lowest = usize::try_from(lowest).ok().filter(|&lowest| lowest < most.max(1));
        let lowest = lowest.ok_or(Errno::INVAL)?;
        let is_free = |at: &usize| self.descriptors.get(*at).is_none_or(Option::is_none);
        let free = (lowest..most).find(is_free).ok_or(Errno::MFILE)?;
        if free >= self.descriptors.len() {
            self.descriptors.resize(free + 1, None);
        }
        Ok(free)
    }

    /// Descriptors that are free.
    pub(super) fn room(&self) -> usize {
        let most = self.most();
        most - self.descriptors.iter().take(most).flatten().count()
    }

    /// A new open file; returns its descriptor.
    pub(super) fn add(&mut self, file: OpenFile, close_on_exec: bool) -> Result {
        let free = self.free(0)?;
        if self.files.len() >= MOST_OPEN {
            return Err(Errno::NFILE);
        }
        self.last += 1;
        self.on_disk += usize::from(file.is_on_disk());
        self.timers.extend(file.is_timer().then_some(self.last));
        self.files.insert(self.last, file);
        self.descriptors[free] = Some(Descriptor { file: self.last, close_on_exec });
        Ok(free as u64)
    }

    /// Another descriptor, `lowest` or above, of the same open file.
    pub(super) fn duplicate(&mut self, descriptor: u64, lowest: u64) -> Result {
        let file = self.slot(descriptor)?.file;
        let free = self.free(lowest)?;
        self.descriptors[free] = Some(Descriptor { file, close_on_exec: false });
        Ok(free as u64)
    }

    /// `dup3`.
    pub(super) fn replace(&mut self, descriptor: u64, by: u64, flags: u64) -> Result {
        if descriptor as u32 == by as u32 || flags & !CLOEXEC != 0 {
            return Err(Errno::INVAL);
        }
        let file = self.slot(descriptor)?.file;
        let (by, at) = (by as u32, by as u32 as usize);
        if at >= self.most() {
            return Err(Errno::BADF);
        }
        let _ = self.close(by.into());
        if at >= self.descriptors.len() {
            self.descriptors.resize(at + 1, None);
        }
        self.descriptors[at] = Some(Descriptor { file, close_on_exec: flags & CLOEXEC != 0 });
        Ok(by.into())
    }

    pub(super) fn close(&mut self, descriptor: u64) -> Result<()> {
        let Descriptor { file, .. } = *self.slot(descriptor)?;
        self.descriptors[descriptor as u32 as usize] = None;
        if let Some(file) = self.files.get(&file) {
            self.locks.close_descriptor(file.status.inode);
        }
        self.release(file);
        Ok(())
    }

    /// Closes an open file that nothing uses any more, and its locks with it. Returns whether it is closed now.
    pub(super) fn release(&mut self, file: u32) -> bool {
        if self.is_used(file) {
            return false;
        }
        let Some(closed) = self.files.remove(&file) else { return false };
        self.timers.retain(|&timer| timer != file);
        self.on_disk -= usize::from(closed.is_on_disk());
        match closed.open {
            Open::Pipe(number) => self.forget_pipe(number),
            Open::Socket(number) => self.network.close(number),
            _ => {}
        }
        self.locks.close_file(file);
        self.for_each_epoll(|interests| interests.forget(file));
        true
    }

    /// Whether a file of the host is open.
    pub(super) const fn has_any_on_disk(&self) -> bool {
        self.on_disk > 0
    }

    /// What the link below `/proc/self/fd` says of a descriptor.
    pub(super) fn link(&mut self, descriptor: u64) -> Result<String> {
        let OpenFile { open, status, .. } = self.any_file(descriptor)?;
        let inode = status.inode;
        Ok(match open {
            Open::Input | Open::Output(_) => "/dev/tty".to_owned(),
            Open::File(file) => file.shown_name(),
            Open::Folder(name, ..) => name.clone(),
            Open::Path(path) => normal(path.name()),
            Open::Null => "/dev/null".to_owned(),
            Open::Zero => "/dev/zero".to_owned(),
            Open::Full => "/dev/full".to_owned(),
            Open::Random => "/dev/urandom".to_owned(),
            Open::Pipe(number) => format!("pipe:[{number}]"),
            Open::Event { .. } => "anon_inode:[eventfd]".to_owned(),
            Open::Timer(_) => "anon_inode:[timerfd]".to_owned(),
            Open::Epoll(_) => "anon_inode:[eventpoll]".to_owned(),
            Open::Socket(_) => format!("socket:[{inode}]"),
            // Which of its files a text is, is not kept.
            Open::Text(..) => "/proc".to_owned(),
        })
    }

    fn is_used(&self, file: u32) -> bool {
        let mut descriptors = self.descriptors.iter().flatten();
        self.kept.contains(&file)
            || self.holds.has(file)
            || descriptors.any(|other| other.file == file)
    }

    /// Keeps these files open, and closes those that were kept before and are not used any more. Returns whether any
    /// is closed.
    pub(super) fn keep(&mut self, mut files: Vec<u32>) -> bool {
        files.sort_unstable();
        files.dedup();
        let before = std::mem::replace(&mut self.kept, files);
        before.into_iter().fold(false, |is_any, file| self.release(file) | is_any)
    }

    /// An open file, which may have no descriptor.
    pub(super) fn by_number(&mut self, file: u32) -> Result<&mut OpenFile> {
        self.files.get_mut(&file).ok_or(Errno::BADF)
    }

    /// The number of the open file of a descriptor.
    pub(super) fn file_number(&mut self, descriptor: u64) -> Result<u32> {
        Ok(self.slot(descriptor)?.file)
    }

    /// The same of one with content.
    pub(super) fn content_number(&mut self, descriptor: u64) -> Result<u32> {
        let number = self.file_number(descriptor)?;
        if self.by_number(number)?.flags & PATH == 0 { Ok(number) } else { Err(Errno::BADF) }
    }

    /// Descriptors that are in use, from the first number to the last.
    pub(super) fn within(&self, first: u32, last: u32) -> Vec<u64> {
        let used = (0..).zip(&self.descriptors).filter(|(_, slot)| slot.is_some());
        let is_within = |number: &u64| (u64::from(first)..=u64::from(last)).contains(number);
        used.map(|(number, _)| number).filter(is_within).collect()
    }

    /// The number that the next open file, or pipe, gets.
    pub(super) const fn next_number(&self) -> u32 {
        self.last + 1
    }

    pub(super) fn new_pipe(&mut self, pipe: Pipe) -> u32 {
        self.last += 1;
        self.pipes.insert(self.last, pipe);
        self.last
    }

    /// Forgets a pipe that nobody has open.
    pub(super) fn forget_pipe(&mut self, number: u32) {
        let has_end = [Way::Read, Way::Write].iter().any(|&way| self.has_end(number, way));
        if !has_end {
            self.pipes.remove(&number);
        }
    }

    pub(super) fn pipes_mut(&mut self) -> impl Iterator<Item = (u32, &mut Pipe)> {
        self.pipes.iter_mut().map(|(&number, pipe)| (number, pipe))
    }

    pub(super) fn pipes(&self) -> impl Iterator<Item = &Pipe> {
        self.pipes.values()
    }

    pub(super) fn pipe(&mut self, number: u32) -> Result<&mut Pipe> {
        self.pipes.get_mut(&number).ok_or(Errno::BADF)
    }

    /// Whether this end of a pipe is open somewhere, or about to be.
    pub(super) fn has_end(&self, number: u32, way: Way) -> bool {
        let is_end = |file: &OpenFile| {
            matches!(file.open, Open::Pipe(n) if n == number) && file.permits(way)
        };
        let is_opened = self.pipes.get(&number).is_some_and(|pipe| pipe.is_opened(way));
        is_opened || self.files.values().any(is_end)
    }

    pub(super) fn files_with_numbers(&mut self) -> impl Iterator<Item = (&u32, &mut OpenFile)> {
        self.files.iter_mut()
    }

    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut OpenFile> {
        self.files.values_mut()
    }

    pub(super) fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.timers.iter().filter_map(|file| match &self.files.get(file)?.open {
            Open::Timer(timer) => Some(timer),
            _ => None,
        })
    }

    /// Counts timers that are due; returns the numbers of their files.
    pub(super) fn tick(&mut self, now_ns: u64) -> Vec<u32> {
        let Table { timers, files, .. } = self;
        let due =
            timers.iter().filter(|file| match files.get_mut(file).map(|file| &mut file.open) {
                Some(Open::Timer(timer)) => timer.tick(now_ns),
                _ => false,
            });
        due.copied().collect()
    }

    /// Bytes of memory that files in memory take.
    pub(super) fn held_bytes(&self) -> u64 {
        // Files that are open twice have one content.
        let held = self.files.values().filter_map(|OpenFile { open, status, .. }| match open {
            Open::File(Regular::Memory(file)) => Some((status.inode, file.held_bytes())),
            _ => None,
        });
        held.collect::<BTreeMap<u64, u64>>().into_values().sum()
    }

    /// Interests of an open file, if it is one of `epoll`.
    pub(super) fn interests_of(&self, file: u32) -> Option<&Interests> {
        match &self.files.get(&file)?.open {
            Open::Epoll(interests) => Some(interests),
            _ => None,
        }
    }

    /// Numbers of the open files of `epoll` that watch one of these files.
    pub(super) fn watching(&self, files: &BTreeSet<u32>) -> BTreeSet<u32> {
        let numbers = self.files.keys().copied();
        let watches = |epoll: &u32| self.interests_of(*epoll).is_some_and(|it| it.has_any(files));
        numbers.filter(watches).collect()
    }

    pub(super) fn for_each_epoll(&mut self, mut change: impl FnMut(&mut Interests)) {
        for file in self.files_mut() {
            if let Open::Epoll(interests) = &mut file.open {
                change(interests);
            }
        }
    }

    /// The number of the pipe that an open file is an end of.
    pub(super) fn pipe_of(&self, file: u32) -> Option<u32> {
        match self.files.get(&file)?.open {
            Open::Pipe(number) => Some(number),
            _ => None,
        }
    }

    /// The open files that are this end of a pipe.
    pub(super) fn ends(&self, number: u32, way: Way) -> Vec<u32> {
        let is_end = |file: &OpenFile| {
            matches!(file.open, Open::Pipe(other) if other == number) && file.permits(way)
        };
        self.files.iter().filter(|(_, file)| is_end(file)).map(|(&file, _)| file).collect()
    }
}
