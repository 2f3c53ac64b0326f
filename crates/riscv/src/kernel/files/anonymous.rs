//! Files without a name, which are in memory: `memfd_create`.

use std::collections::BTreeMap;
use std::io::{self, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::regular::Regular;
use super::table::{Open, OpenFile, READ_WRITE};
use super::{Context, Errno, Files, Result};
use crate::kernel::saved::{Checked, require};
use crate::kernel::synthetic::FIRST_INODE;
use crate::kernel::{Kind, Status};
use crate::names::bytes_of;
use crate::space::PAGE;

/// The longest file.
const LONGEST: u64 = i64::MAX as u64;

/// The content of a file in memory. Pages that are missing are zeros.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Content {
    pages: BTreeMap<u64, Vec<u8>>,
    size_bytes: u64,
    permissions: u32,
}

/// A content that open files share. Each of them is saved with it, and [`Files::share_contents`] brings them together.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Content>>);

/// A file in memory that is open.
#[derive(Serialize, Deserialize)]
pub(super) struct Anonymous {
    /// As the link below `/proc/self/fd` shows it.
    name: String,
    content: Shared,
    /// The next byte to be read or written.
    position: u64,
}

impl Shared {
    /// No thread that panics leaves the content half changed.
    fn get(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared, D::Error> {
        Ok(Shared(Arc::new(Mutex::new(Content::deserialize(deserializer)?))))
    }
}

/// Parts of a range of bytes that are on one page each: page, first byte there, bytes.
fn parts(at: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = at + done as u64;
        let first = (place % PAGE) as usize;
        let count = (length - done).min(PAGE as usize - first);
        done += count;
        (count > 0).then_some((place / PAGE, first, count))
    })
}

impl Content {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> usize {
        let count = (buffer.len() as u64).min(self.size_bytes.saturating_sub(at)) as usize;
        let mut rest = &mut buffer[..count];
        for (page, first, count) in parts(at, count) {
            let (to, behind) = rest.split_at_mut(count);
            match self.pages.get(&page) {
                Some(page) => to.copy_from_slice(&page[first..first + count]),
                None => to.fill(0),
            }
            rest = behind;
        }
        count
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        const FBIG: i32 = 27;
        let end = at.checked_add(bytes.len() as u64).filter(|&end| end <= LONGEST);
        let end = end.ok_or_else(|| io::Error::from_raw_os_error(FBIG))?;
        let mut rest = bytes;
        for (page, first, count) in parts(at, bytes.len()) {
            let (from, behind) = rest.split_at(count);
            let page = self.pages.entry(page).or_insert_with(|| vec![0; PAGE as usize]);
            page[first..first + count].copy_from_slice(from);
            rest = behind;
        }
        if !bytes.is_empty() {
            self.size_bytes = self.size_bytes.max(end);
        }
        Ok(())
    }

    /// Whole pages go, and bytes of others are zero.
    fn zero(&mut self, begin: u64, end: u64) {
        for (&number, page) in self.pages.range_mut(begin / PAGE..end.div_ceil(PAGE)) {
            let first = begin.saturating_sub(number * PAGE) as usize;
            let last = (end - number * PAGE).min(PAGE) as usize;
            page[first..last].fill(0);
        }
        let whole = begin.div_ceil(PAGE)..end / PAGE;
        self.pages.retain(|number, _| !whole.contains(number));
    }

    fn set_size(&mut self, size_bytes: u64) {
        self.pages.retain(|number, _| number * PAGE < size_bytes);
        let kept = (size_bytes % PAGE) as usize;
        if let Some(last) = self.pages.get_mut(&(size_bytes / PAGE)) {
            last[kept..].fill(0);
        }
        self.size_bytes = size_bytes;
    }
}

impl Anonymous {
    /// Checks what was read.
    pub(super) fn check(&self) -> Checked {
        let Anonymous { content, position, .. } = self;
        let Content { pages, size_bytes, .. } = &*content.get();
        require(*size_bytes <= LONGEST && *position <= LONGEST, || {
            format!("size_bytes: {size_bytes} or the position {position} is beyond {LONGEST}")
        })?;
        pages.iter().try_for_each(|(number, page)| {
            let is_inside = number.checked_mul(PAGE).is_some_and(|begin| begin < *size_bytes);
            require(is_inside && page.len() as u64 == PAGE, || {
                format!("pages.{number}: must be before the end of the file, and have {PAGE} bytes")
            })
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.content.get().size_bytes
    }

    /// Makes the bytes from `begin` to `end`, which are in the file, be zeros.
    pub(super) fn zero(&mut self, begin: u64, end: u64) {
        self.content.get().zero(begin, end);
    }

    pub(super) fn permissions(&self) -> u32 {
        self.content.get().permissions
    }

    pub(super) fn permit(&mut self, permissions: u32) {
        self.content.get().permissions = permissions;
    }

    /// The same file, opened again: its place is its own.
    pub(super) fn again(&self) -> Anonymous {
        Anonymous { name: self.name.clone(), content: self.content.clone(), position: 0 }
    }

    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of memory that it takes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.content.get().pages.len() as u64 * PAGE
    }

    /// The first place from `at` on that is on a page.
    pub(super) fn next_data(&self, at: u64) -> Option<u64> {
        self.content.get().pages.range(at / PAGE..).next().map(|(page, _)| at.max(page * PAGE))
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], at: u64) -> usize {
        self.content.get().read_at(buffer, at)
    }

    pub(super) fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.content.get().write_at(bytes, at)
    }

    pub(super) fn set_size(&mut self, size_bytes: u64) {
        self.content.get().set_size(size_bytes);
    }

    pub(super) fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(to) => Some(to),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.size_bytes().checked_add_signed(by),
        };
        self.position = to.filter(|&to| to <= LONGEST).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl Files {
    /// `memfd_create`: files that cannot be sealed.
    pub(super) fn new_anonymous(
        &mut self,
        context: &mut Context<'_>,
        name: u64,
        flags: u64,
    ) -> Result {
        const CLOSE_ON_EXEC: u32 = 1;
        const ALLOW_SEALING: u32 = 2;
        const LONGEST_NAME: usize = 249;
        const PERMISSIONS: u32 = 0o777;
        let flags = flags as u32;
        if flags & !(CLOSE_ON_EXEC | ALLOW_SEALING) != 0 {
            return Err(Errno::INVAL);
        }
        let name = context.read_string(name).map_err(|errno| match errno {
            Errno::NAMETOOLONG => Errno::INVAL,
            other => other,
        })?;
        if bytes_of(&name).len() > LONGEST_NAME {
            return Err(Errno::INVAL);
        }
        let inode = FIRST_INODE + u64::from(self.table.next_number());
        let name = format!("/memfd:{name} (deleted)");
        let content = Shared::default();
        content.get().permissions = PERMISSIONS;
        let file = Anonymous { name, content, position: 0 };
        let open = Open::File(Regular::Memory(file));
        let status =
            Status { permissions: PERMISSIONS, links: 0, ..Status::new(Kind::File, inode) };
        let close_on_exec = flags & CLOSE_ON_EXEC != 0;
        self.table.add(OpenFile { open, flags: READ_WRITE, status }, close_on_exec)
    }

    /// Has open files that were read share the contents that they shared when they were saved.
    pub(super) fn share_contents(&mut self) {
        let mut contents = BTreeMap::new();
        for OpenFile { open, status, .. } in self.table.files_mut() {
            if let Open::File(Regular::Memory(file)) = open {
                let content = contents.entry(status.inode).or_insert_with(|| file.content.clone());
                file.content = content.clone();
            }
        }
    }

    /// Bytes that files in memory may still take: together they are no larger than the memory of the machine.
    pub(in crate::kernel) fn room(&self, context: &Context<'_>) -> u64 {
        context.host.memory_bytes().saturating_sub(self.table.held_bytes())
    }
}
