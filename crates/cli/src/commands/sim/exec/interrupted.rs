//! Ctrl-C, SIGTERM and SIGHUP while a program is executed: the run ends as at a limit, so that its files are written.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rackmem_sim::exec::Stop;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Result;
use crate::interrupt::Interrupt;

/// Time in which a run sees that it has to end: one that waits for input does not.
const GRACE: Duration = Duration::from_secs(2);

/// Time in which it writes its files.
const ENDING: Duration = Duration::from_secs(60);

/// Does some work that ends when it is asked to stop.
///
/// # Errors
/// The work failed, or a signal came, or signals cannot be caught.
pub fn stoppable(work: impl FnOnce(&Arc<Stop>) -> Result<()>) -> Result<()> {
    let interrupt = Arc::new(Interrupt::catch_with_hangup()?);
    let stop = Arc::new(Stop::default());
    let (caught, asked) = (Arc::clone(&interrupt), Arc::clone(&stop));
    thread::spawn(move || {
        while caught.sleep(Duration::from_secs(3600)).is_ok() {}
        asked.ask();
        thread::sleep(GRACE);
        if asked.is_seen() {
            thread::sleep(ENDING);
        }
        // As if nobody had caught it.
        caught.received().map(emulate_default_handler)
    });
    let done = work(&stop);
    interrupt.check().and(done)
}
