//! `rackmem borrow`: runs a program whose heap grows into borrowed memory.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};
use rackmem_fabric::Address;
use rackmem_lease::ledger;
use rackmem_lease::store::mirror::DEFAULT_PATIENCE;
use rackmem_paging::program::{Mode, Report, SETTINGS_VARIABLE, Settings};
use rackmem_paging::{
    Delivery, MAX_PREFETCH_PAGES, MIN_CACHE_PAGES, PAGE_BYTES, Pager, PagerOptions,
};
use rustix::process::{Resource, getrlimit};

use super::access::{MONITOR, NodeProofArgs, monitor};
use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::failure::{Failure, Result};
use crate::{console, installed, loadable, size};

/// First text of `rackmem borrow --help`.
pub const ABOUT: &str = "\
Runs an unmodified program whose heap grows into memory that other nodes lend (`rackmem lend`).

A library is loaded into the program. A process leases SIZE bytes once it uses more memory than --threshold, \
maps more than that at once, or has mapped four times as much. From then on, large mappings by malloc or mmap \
are borrowed: at most --cache bytes of them are in local memory, and the other pages are at the lender until \
they are touched. A child of fork() reads what its parent had and shares its lease. A program that is executed \
makes a lease of its own, of SIZE bytes again, once it has grown so large.

These stay local: what was mapped before the lease, stacks, code, files, shared memory, mappings of less than \
256 KiB, and what does not fit into SIZE. Memory that is reserved without access (PROT_NONE) is borrowed once \
it is made writable. If three quarters of what a borrowing process mapped are local, it says why when it \
exits; with --stats every process does.

If the lender dies, an access to lost pages is SIGBUS, as for a truncated file. If the lender does not answer, \
or the network is torn, the program waits until it is back, for --patience seconds at most. If the lender ends \
in order, the memory moves to another lender with room within the grace time (memory of a lender on this host, \
to another one on this host).

With --mirror 2, two lenders have the same bytes. Any one of them may die, stop or end, and the program goes \
on; a lost copy is made anew at another lender, if there is one. A child of fork() keeps the copies that it \
was born with. Such events are reported on stderr.

Statically linked, setuid and Go programs cannot load the library: the command refuses them. A program that \
starts one runs it without borrowed memory, and says so.

System calls: as root, or with access to /dev/userfaultfd, all system calls work in the default mode. With \
--mode inline, or without that right, the kernel cannot wait for a page that is away; a process says so when \
it begins to borrow. The library then gives the kernel local copies in place of borrowed memory, and system \
calls return what they return without borrowing. Reads and writes of files of more than 256 KiB are made in \
pieces, between which other users of the same file position may come; appending is not. These do not work \
there: io_uring, which is refused with ENOSYS so that programs use other calls; system calls that do not go \
through the C library (libaio, assembly), which fail with EFAULT if their memory is away; aio_read and \
aio_write; pointers inside of the arguments of ioctl and setsockopt; process_vm_readv by another process, and \
ptrace; and signals, unless their handlers have SA_ONSTACK, on stacks that a program makes of borrowed \
memory.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem lend 2G                                      on another node, or in another shell
  rackmem borrow 512M -- redis-server --port 7000
  rackmem borrow 4G --cache 256M --stats -- python3 build_index.py
  rackmem borrow 1G --mirror 2 -- ./program            survives the death of a lender
  rackmem borrow 1G --mode inline --prefetch 0 -- ./random_access

Environment:
  RACKMEM_MONITOR  address of the monitor, if --monitor does not say it
  RACKMEM_SECRET   file with the secret of the network, if --secret does not say it
  RACKMEM_RACK_FILE, RACKMEM_NODE, RACKMEM_KEY_FILE
                   file of the rack whose nodes prove themselves by keys, the node that this is, and
                   its private key, if --rack-file, --node and --key-file do not say them
  RACKMEM_CLEARTEXT  1: nothing is encrypted, as --cleartext says
  RACKMEM_PRELOAD  the library that is loaded [default: librackmem_preload.so beside this
                   command, or in ../lib]

Exit status: that of the program, whose process this becomes; 1 if nobody lends or the program
cannot be given memory; 127 if there is no such program.";

/// Arguments of `rackmem borrow`.
#[derive(Debug, Args)]
pub struct BorrowArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Memory that each process borrows at most, and leases when it begins to borrow
    #[arg(value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    /// Local memory that it occupies at most [default: a quarter of SIZE]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub cache: Option<u64>,
    /// Memory that a process uses before it begins to borrow; what is mapped by then stays local
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64M")]
    pub threshold: u64,
    /// Lenders that have the same bytes, so that all but one may die
    #[arg(long, value_name = "COPIES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4))]
    pub mirror: u32,
    /// Time that the program waits while no lender that has its memory can be reached
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_PATIENCE.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Pages to prefetch in a stream of faults (0: none)
    #[arg(long, value_name = "PAGES", default_value_t = PagerOptions::default().prefetch_pages as u64,
          value_parser = clap::value_parser!(u64).range(0..=MAX_PREFETCH_PAGES as u64))]
    pub prefetch: u64,
    /// Reads that are in flight at most
    #[arg(long, value_name = "READS", default_value_t = PagerOptions::default().window as u64,
          value_parser = clap::value_parser!(u64).range(1..=256))]
    pub window: u64,
    /// Thread that answers faults: one of the pager, or the one that faults, or the faster of both
    #[arg(long, value_enum, default_value_t = ModeArg::Thread)]
    pub mode: ModeArg,
    /// Address of the monitor
    #[arg(long, value_name = "ADDRESS")]
    pub monitor: Option<Address>,
    /// What this process proves.
    #[command(flatten)]
    pub proof: NodeProofArgs,
    /// Reach lenders of this host over the network, too: for measurements
    #[arg(long)]
    pub network: bool,
    /// Say at the end of each process what was borrowed, fetched, kept and written, on stderr
    #[arg(long)]
    pub stats: bool,
    /// Say it as a line of JSON
    #[arg(long)]
    pub json: bool,
    /// Program and arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Values of `--mode` of `rackmem borrow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// A thread beside those of the program
    Thread,
    /// The thread that faults, in a handler of SIGBUS: some microseconds faster; `rackmem help borrow`
    /// says what that means for system calls
    Inline,
    /// Whichever is faster here, measured at the start
    Auto,
}

/// Replaces this process by the program.
///
/// # Errors
/// Nobody lends, the library is not there, or it cannot be loaded into the program.
pub fn run(choice: &Choice, args: &BorrowArgs) -> Result<()> {
    let program = loadable::find(&args.command[0])?;
    loadable::check(&program)?;
    let mut settings = settings(args)?;
    let library = library()?;
    check_address_space(&settings)?;
    check_lenders(choice, args, &settings)?;
    caution(&mut settings);
    let mut command = Command::new(&program);
    command.arg0(&args.command[0]).args(&args.command[1..]);
    command.env(SETTINGS_VARIABLE, settings.to_variable());
    command.env("LD_PRELOAD", preloaded(&library, std::env::var_os("LD_PRELOAD").as_deref()));
    hand_down(choice, &args.proof, &mut command)?;
    let error = command.exec();
    Err(Failure::io(format!("cannot run '{}'", program.display()), error))
}

/// Says what programs have to do without, once for all processes, if that is known before they run.
fn caution(settings: &mut Settings) {
    let delivery = match settings.pager_options().delivery {
        // A process may find the handler thread faster.
        Delivery::Auto => Delivery::Thread,
        delivery => delivery,
    };
    settings.is_cautioned = Pager::would_be_user_mode_only(delivery);
    if settings.is_cautioned {
        console::remark(&format!("the program {}", Settings::caution(delivery)));
    }
}

/// Tells the program its rack, and the proof that the command has.
fn hand_down(choice: &Choice, args: &NodeProofArgs, command: &mut Command) -> Result<()> {
    let NodeProofArgs { proof, node } = args;
    // The program may change its directory before it borrows.
    let found = |path: &PathBuf, what: &str| {
        let cannot = |error| Failure::io(format!("cannot find {what} {}", path.display()), error);
        path.canonicalize().map_err(cannot)
    };
    if let Some(rack) = choice.name() {
        command.env("RACKMEM_RACK", rack).env_remove(MONITOR);
    }
    if proof.cleartext {
        command.env("RACKMEM_CLEARTEXT", "1");
    }
    if let Some(secret) = &proof.secret {
        command.env("RACKMEM_SECRET", found(secret, "the secret")?);
    } else if let Some(file) = choice.file() {
        command.env("RACKMEM_RACK_FILE", &file.path).env_remove("RACKMEM_SECRET");
        command.env_remove("RACKMEM_RACK");
        if let Some(key_file) = &proof.key_file {
            let key_file = std::path::absolute(key_file)
                .map_err(|error| Failure::io("cannot tell the working directory", error))?;
            command.env("RACKMEM_KEY_FILE", key_file);
        }
        if let Some(node) = node {
            command.env("RACKMEM_NODE", node.to_string());
        }
    }
    Ok(())
}

fn settings(args: &BorrowArgs) -> Result<Settings> {
    let cache = args.cache.unwrap_or(args.size / 4).next_multiple_of(PAGE_BYTES as u64) as usize;
    let settings = Settings {
        size_bytes: args.size.next_multiple_of(PAGE_BYTES as u64),
        copies: args.mirror,
        cache_bytes: cache.max(MIN_CACHE_PAGES * PAGE_BYTES),
        threshold_bytes: usize::try_from(args.threshold).unwrap_or(usize::MAX),
        prefetch_pages: args.prefetch as usize,
        window: args.window as usize,
        mode: match args.mode {
            ModeArg::Thread => Mode::Thread,
            ModeArg::Inline => Mode::Inline,
            ModeArg::Auto => Mode::Auto,
        },
        monitor: args.monitor.as_ref().map(ToString::to_string),
        only_network: args.network,
        patience_seconds: args.patience,
        report: match (args.stats, args.json) {
            (_, true) => Report::Json,
            (true, false) => Report::Text,
            (false, false) => Report::None,
        },
        is_cautioned: false,
    };
    if settings.size_bytes == 0 {
        return Err(Failure::usage("0 bytes cannot be borrowed: say how much, such as 512M"));
    }
    settings.pager_options().check().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(settings)
}

/// Checks that a limit of the process leaves room for the library and for what is borrowed.
fn check_address_space(settings: &Settings) -> Result<()> {
    let needed = OWN_ADDRESSES_BYTES + settings.size_bytes;
    match getrlimit(Resource::As).current {
        Some(limit) if limit < needed => Err(Failure::new(format!(
            "the process may have {} of addresses (`ulimit -v`), but borrowing takes {}: raise the limit",
            size::exact(limit),
            size::exact(needed)
        ))),
        _ => Ok(()),
    }
}

/// Checks that there is so much to borrow. The lease is made by the program when it needs it, so that may
/// have changed then: it says so, and goes on with local memory.
fn check_lenders(choice: &Choice, args: &BorrowArgs, settings: &Settings) -> Result<()> {
    let monitor = monitor(choice, args.monitor.as_ref())?;
    let ledger = ledger(choice.rack_name(), monitor.as_ref(), args.proof.read(choice)?)?;
    let lenders = ledger.lenders.iter().filter(|lender| !lender.offer.is_leaving);
    let free: u64 = lenders.clone().map(|lender| lender.free_bytes()).sum();
    let wanted = settings.size_bytes.saturating_mul(settings.copies.into());
    if free < wanted {
        return Err(Failure::new(format!(
            "{} are wanted, but lenders have only {} left (`rackmem leases`): start another with \
             `rackmem lend`, or borrow less",
            size::exact(wanted),
            size::exact(free)
        )));
    }
    if lenders.count() < settings.copies as usize {
        return Err(Failure::new(format!(
            "{} copies need as many lenders: start another with `rackmem lend`",
            settings.copies
        )));
    }
    Ok(())
}

/// Addresses that the library takes for itself: its heap, and tables.
const OWN_ADDRESSES_BYTES: u64 = 9 << 29;

/// Name of the library's file.
const LIBRARY: &str = "librackmem_preload.so";

/// The library's path: where it was built, or where it was installed.
fn library() -> Result<PathBuf> {
    let library = library_anywhere()?;
    // The loader's list ends a name there.
    if library.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(Failure::new(format!(
            "{} cannot be loaded into programs: its path has a space or a colon in it",
            library.display()
        )));
    }
    Ok(library)
}

fn library_anywhere() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("RACKMEM_PRELOAD") {
        let path = PathBuf::from(path);
        let found = path.canonicalize().map_err(|error| {
            Failure::io(format!("cannot use RACKMEM_PRELOAD='{}'", path.display()), error)
        })?;
        loadable::check_library(&found).map_err(|failure| {
            let why = failure.message.unwrap_or_default();
            Failure::new(format!("cannot use RACKMEM_PRELOAD: {why}; unset it, or name {LIBRARY}"))
        })?;
        return Ok(found);
    }
    installed::find(LIBRARY, LIBRARY)?.ok_or_else(|| {
        Failure::new(format!(
            "{LIBRARY} is neither beside this command nor in ../lib: build it with \
             `cargo build --release -p rackmem-preload`, or say in RACKMEM_PRELOAD where it is"
        ))
    })
}

/// `LD_PRELOAD` with the library in front of what is there.
fn preloaded(library: &std::path::Path, others: Option<&OsStr>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_stay_loaded() {
        let library = std::path::Path::new("/lib/a.so");
        assert_eq!(preloaded(library, None), "/lib/a.so");
        assert_eq!(preloaded(library, Some(OsStr::new(""))), "/lib/a.so");
        assert_eq!(preloaded(library, Some(OsStr::new("b.so"))), "/lib/a.so:b.so");
    }
}
