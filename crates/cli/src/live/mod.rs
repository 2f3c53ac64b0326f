//! The live page of `rackmem top --web`: the table of `rackmem top`, and charts of the last minutes.
//!
//! | module | what is in it |
//! |---|---|
//! | [`mod@measure`] | what `rackmem top` shows, as a value |
//! | `page`, `live.js` | the page and its script, which asks for `/data.json` again and again |

pub mod measure;
mod page;

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rackmem::rack::Rack;

use crate::console;
use crate::failure::{Failure, Result};
use crate::http::{Endpoint, Server};
use crate::interrupt::Interrupt;
use measure::{Lender, lenders, look, measure};

/// Time between two looks whether the measuring thread has failed.
const LOOK: Duration = Duration::from_millis(100);

/// Lent memory beside a rack: a monitor that does not answer must not hold up what is known of the nodes.
pub struct Lenders(Arc<Mutex<Option<Vec<Lender>>>>);

impl Lenders {
    /// Asks again and again, until the process ends.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn watch(rack: &Rack, interval: Duration) -> Result<Lenders> {
        let latest = Arc::new(Mutex::new(None));
        let (rack, shared) = (rack.clone(), latest.clone());
        aside("lenders", move || {
            loop {
                let now = lenders(&rack);
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = now;
                thread::sleep(interval);
            }
        })?;
        Ok(Lenders(latest))
    }

    /// What is known now.
    pub fn latest(&self) -> Option<Vec<Lender>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves the page until a signal comes.
///
/// # Errors
/// The port is taken, or the rack is gone.
pub fn serve(
    rack: &Rack,
    interval: Duration,
    endpoint: Endpoint,
    interrupt: &Interrupt,
) -> Result<()> {
    let server = Server::listen(endpoint)?;
    let url = server.url();
    let data = Arc::new(Mutex::new(None));
    let (failed, failure) = mpsc::channel();
    let (measured, of) = (data.clone(), rack.clone());
    // A daemon that does not answer holds up its thread, and not the end of the command.
    aside("measure", move || {
        let _ = failed.send(measure_for_ever(&of, interval, &measured));
    })?;
    let page = page::html(rack.name(), interval);
    server.serve(move |path| page::response(path, &page, &data))?;
    console::print(&format!("{url}\n"))?;
    while interrupt.sleep(LOOK).is_ok() {
        if let Ok(failure) = failure.try_recv() {
            return Err(failure);
        }
    }
    Ok(())
}

/// The latest measurement as JSON; `None`: there is none yet.
type Data = Arc<Mutex<Option<Vec<u8>>>>;

/// Measures until the rack is gone; returns why.
fn measure_for_ever(rack: &Rack, interval: Duration, data: &Data) -> Failure {
    let measure_all = || -> Result<()> {
        let mut before = look(rack)?;
        let lenders = Lenders::watch(rack, interval)?;
        loop {
            thread::sleep(interval);
            let after = look(rack)?;
            let measurement = measure(rack.name(), &before, &after, lenders.latest());
            let json = serde_json::to_vec(&measurement)
                .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
            *data.lock().unwrap_or_else(PoisonError::into_inner) = Some(json);
            before = after;
        }
    };
    measure_all().err().unwrap_or_else(|| Failure::new("the measurement has ended"))
}

fn aside(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(drop).map_err(|error| Failure::io("cannot start a thread", error))
}
