//! The model's parts beside something else.
//!
//! | file | content |
//! |---|---|
//! | `noc` | networks beside BookSim2's curves |
//! | `dram` | memories beside DRAMsim3's table |
//! | `instructions` | the core beside the interpreter |
//! | `queueing` | waits and numbers in flight beside formulas |
//!
//! A folder of references has `noc/<case>.cfg` and `.csv`, written by BookSim2, and `dram/dramsim3.csv`. Such files are
//! not part of the product; who has them says where they are. The other two need no files.

pub mod dram;
pub mod instructions;
pub mod noc;
pub mod queueing;

use std::path::Path;
use std::{fs, io};

/// The text of a regular file: to open a pipe could wait for ever, and a device may have no end.
fn read(file: &Path) -> io::Result<String> {
    let found = fs::metadata(file)?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other("is no regular file"));
    }
    fs::read_to_string(file)
}
