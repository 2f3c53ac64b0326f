//! Calls that say how a file is used, or that its bytes have to last: what is written is where it stays, so they have
//! nothing to do but to check their arguments.

use super::table::Open;
use super::{Context, Errno, Files, Result, Way, number};

impl Files {
    /// `fsync`, `fdatasync`, `sync_file_range`, `fadvise64` and `readahead`.
    pub(super) fn advise(&mut self, context: &mut Context<'_>, number: u64) -> Result {
        const LAST_ADVICE: u64 = 5;
        const RANGE_FLAGS: u64 = 7;
        let [descriptor, begin, length, last, ..] = context.args();
        let file = self.table.file(descriptor)?;
        let may_read = file.permits(Way::Read);
        let has_end = begin.checked_add(length).is_some_and(|end| end <= i64::MAX as u64);
        let is_regular = matches!(file.open, Open::File(_));
        let is_kept = is_regular || matches!(file.open, Open::Folder(..));
        match number {
            number::FSYNC | number::FDATASYNC if is_kept => Ok(0),
            number::FADVISE64 if matches!(file.open, Open::Pipe(_)) => Err(Errno::SPIPE),
            number::FADVISE64 if length <= i64::MAX as u64 && last <= LAST_ADVICE => Ok(0),
            number::SYNC_FILE_RANGE if last & !RANGE_FLAGS == 0 && has_end => {
                if is_kept {
                    Ok(0)
                } else {
                    Err(Errno::SPIPE)
                }
            }
            number::READAHEAD if !may_read => Err(Errno::BADF),
            number::READAHEAD if is_regular => Ok(0),
            _ => Err(Errno::INVAL),
        }
    }
}
