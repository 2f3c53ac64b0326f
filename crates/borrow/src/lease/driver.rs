//! Carries out what the borrower's state machine says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ask::ask_monitor;
use super::books::{Books, Lease};
use super::borrowing::{Action, Borrowing, Event};
use super::messages::{Piece, Reply, Request, Want};
use super::{MAKING, MAX_ATTEMPTS, SILENCE};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::net::link::Link;
use crate::net::secret::Secret;
use crate::store::Store;
use crate::store::health::Health;
use crate::store::mapped::MappedStore;
use crate::store::spread::{Map, Piece as StorePiece, SpreadStore};
use crate::store::tcp::{TcpStore, Way};
use crate::store::window::Window;

/// Who asks, and how.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub want: Want,
    pub monitor: Address,
    pub secret: Option<Secret>,
    pub spin: Duration,
    pub only_network: bool,
}

/// The books, and one connection for each block.
pub(super) struct Driver {
    pub books: Arc<Mutex<Books>>,
    pub links: Vec<Option<Link>>,
    windows: Vec<Arc<Window>>,
    pieces: Vec<Piece>,
    terms: Terms,
    /// Why it did not come about.
    failure: Option<Error>,
}

impl Driver {
    /// Borrows; asks for another decision if a lender turns out to be gone or full.
    pub fn borrow(mut terms: Terms) -> Result<Driver> {
        let mut attempt = 1;
        loop {
            let mut driver = Driver::new(terms.clone())?;
            let Err((error, culprit)) = driver.attempt() else { return Ok(driver) };
            if attempt == MAX_ATTEMPTS {
                return Err(error);
            }
            match culprit {
                Some((name, is_gone)) if is_gone => terms.want.avoid.push(name),
                Some(_) => {}
                None => return Err(error),
            }
            attempt += 1;
        }
    }

    fn new(terms: Terms) -> Result<Driver> {
        let Want { size_bytes, copies, .. } = terms.want;
        let mut windows = Vec::new();
        let mut maps = Vec::new();
        for copy in 0..copies {
            windows.push(Arc::new(Window::reserve(size_bytes)?));
            let name =
                if copies == 1 { "a lender".to_owned() } else { format!("copy {}", copy + 1) };
            maps.push(Arc::new(Map::new(size_bytes, &name)));
        }
        let books =
            Books { borrowing: Borrowing::new(), leases: Vec::new(), slots: Vec::new(), maps };
        let books = Arc::new(Mutex::new(books));
        let (links, pieces) = (Vec::new(), Vec::new());
        Ok(Driver { books, links, windows, pieces, terms, failure: None })
    }

    /// One try; an error names the lender that it failed for, and whether it could not be reached.
    fn attempt(&mut self) -> std::result::Result<(), (Error, Option<(String, bool)>)> {
        let mut culprit = None;
        let want = Event::Want(self.terms.want.size_bytes, self.terms.want.copies);
        let mut actions = VecDeque::from(self.step(want));
        // The promises of the monitor hold as long as this connection.
        let mut monitor = None;
        while let Some(action) = actions.pop_front() {
            let events = match action {
                Action::AskMonitor => {
                    let (link, event) = self.ask_monitor();
                    monitor = link;
                    vec![event]
                }
                Action::AskLender(number) if self.is_pending(number) => {
                    match self.ask_lender(number) {
                        Ok(event) => vec![event],
                        Err(error) => {
                            let is_gone = !matches!(error, Error::Refused(_));
                            culprit = Some((self.pieces[number].lender.name.clone(), is_gone));
                            self.failure.get_or_insert(error);
                            vec![Event::Lost(number)]
                        }
                    }
                }
                Action::Fill(number, _) => self.fill(number),
                Action::Return(number) => vec![self.give_back(number)],
                Action::Fault(number) => {
                    self.lock().fault(number, "it was given back");
                    Vec::new()
                }
                Action::Borrowed => {
                    drop(monitor);
                    return Ok(());
                }
                Action::Failed => break,
                Action::AskLender(_) | Action::Released => Vec::new(),
            };
            for event in events {
                actions.extend(self.step(event));
            }
        }
        let nothing = || Error::Protocol("the borrowing has ended by itself".to_owned());
        Err((self.failure.take().unwrap_or_else(nothing), culprit))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, event: Event) -> Vec<Action> {
        self.lock().borrowing.step(event)
    }

    fn is_pending(&self, number: usize) -> bool {
        let books = self.lock();
        books.borrowing.blocks()[number].state == super::borrowing::State::Pending
    }

    fn ask_monitor(&mut self) -> (Option<Link>, Event) {
        let request = Request::Want(self.terms.want.clone());
        let asked = ask_monitor(&self.terms.monitor, self.terms.secret.as_ref(), &request);
        let (link, copies) = match asked {
            Ok((link, Reply::Granted(copies))) => (link, copies),
            Ok((_, other)) => {
                self.failure = Some(Error::Protocol(format!("the monitor answers {other:?}")));
                return (None, Event::NotDecided);
            }
            Err(error) => {
                self.failure = Some(error);
                return (None, Event::NotDecided);
            }
        };
        let sizes = copies.iter().map(|copy| copy.iter().map(|piece| piece.size_bytes).collect());
        let event = Event::Decided(sizes.collect());
        self.pieces = copies.into_iter().flatten().collect();
        self.links = self.pieces.iter().map(|_| None).collect();
        let mut books = self.lock();
        books.leases = self.pieces.iter().map(|_| None).collect();
        books.slots = vec![None; self.pieces.len()];
        drop(books);
        (Some(link), event)
    }

    /// Steps 1 to 4 of DE-08.
    fn ask_lender(&mut self, number: usize) -> Result<Event> {
        self.lock().reserve(number)?;
        let piece = &self.pieces[number];
        let mut link = self.reach(piece)?;
        let borrower = self.terms.want.borrower.clone();
        link.send(&Request::Lease(piece.ticket, piece.size_bytes, borrower))?;
        let (base, size_bytes, token) = match link.receive(MAKING)? {
            Reply::Leased { base, size_bytes, token } => (base, size_bytes, token),
            Reply::Refused(why) => return Err(Error::Refused(why)),
            other => {
                let lender = &piece.lender.name;
                return Err(Error::Protocol(format!("lender {lender} answers {other:?}")));
            }
        };
        let block = self.lock().borrowing.blocks()[number];
        let health = Arc::new(Health::new(format!("lender {}", piece.lender.name)));
        let (is_local, store) = if block.size_bytes == size_bytes {
            self.open(number, &mut link, block.copy as usize, block.offset, base, token, &health)?
        } else {
            (false, None)
        };
        let lender = piece.lender.clone();
        let copy = block.copy as usize;
        let lease = Lease { lender, base, size_bytes, is_local, health, copy, store, notice: None };
        self.lock().leases[number] = Some(lease);
        self.links[number] = Some(link);
        Ok(Event::Answered(number, base, size_bytes))
    }

    /// The bytes of a lease: mapped if the lender handed them over, else by lanes.
    #[allow(clippy::too_many_arguments, reason = "what a lease is made of")]
    fn open(
        &self,
        number: usize,
        link: &mut Link,
        copy: usize,
        offset: u64,
        base: u64,
        token: String,
        health: &Arc<Health>,
    ) -> Result<(bool, Option<Arc<dyn Store>>)> {
        let size_bytes = self.pieces[number].size_bytes;
        if let Some(memory) = link.take_fd() {
            let window = self.windows[copy].clone();
            window.map(offset, size_bytes, &memory)?;
            let store = MappedStore::new(window, offset, size_bytes, health.clone());
            return Ok((true, Some(Arc::new(store))));
        }
        let way = Way {
            address: link.name().parse().map_err(Error::Protocol)?,
            base,
            size_bytes,
            token,
            secret: self.terms.secret.clone(),
            spin: self.terms.spin,
        };
        Ok((false, Some(Arc::new(TcpStore::new(way, health.clone())))))
    }

    /// A connection to the lender: the first of its addresses that works.
    fn reach(&self, piece: &Piece) -> Result<Link> {
        let here = &self.terms.want.borrower.host_id;
        let mut last = None;
        for address in &piece.addresses {
            let is_possible = match address.is_local() {
                true => piece.lender.host_id == *here && !self.terms.only_network,
                false => true,
            };
            if !is_possible {
                continue;
            }
            match Link::connect(address, self.terms.secret.as_ref(), SILENCE) {
                Ok(link) => return Ok(link),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::Protocol(format!(
                "lender {} cannot be reached from here: start it with --listen HOST:PORT",
                piece.lender.name
            ))
        }))
    }

    /// Step 5 of DE-08.
    fn fill(&mut self, number: usize) -> Vec<Event> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let block = books.borrowing.blocks()[number];
        let books = &mut *books;
        let (Some(lease), Some(slot)) = (&books.leases[number], books.slots[number]) else {
            return vec![Event::Lost(number)];
        };
        let node = node_in_copy(&books.borrowing, number);
        match books.maps[block.copy as usize].grant(slot, node, lease.base) {
            Ok(()) => Vec::new(),
            Err(rejected) => {
                self.failure = Some(Error::Protocol(format!("a lease does not fit: {rejected}")));
                vec![Event::Lost(number)]
            }
        }
    }

    fn give_back(&mut self, number: usize) -> Event {
        let link = self.links.get_mut(number).and_then(Option::take);
        match link.map(give_back) {
            Some(Ok(())) => Event::Returned(number),
            Some(Err(_)) | None => Event::Lost(number),
        }
    }

    /// Gives everything back.
    pub fn release(&mut self) -> Result<()> {
        let mut actions = VecDeque::from(self.step(Event::Release));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Fault(number) => self.lock().fault(number, "it was given back"),
                Action::Return(number) => {
                    let event = self.give_back(number);
                    actions.extend(self.step(event));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The stores of the copies.
    pub fn stores(&self) -> Vec<SpreadStore> {
        let books = self.lock();
        let copies = books.maps.iter().zip(&self.windows).enumerate();
        copies
            .map(|(copy, (map, window))| {
                let leases = books.leases.iter().flatten().filter(|lease| lease.copy == copy);
                let window = leases.clone().all(|lease| lease.is_local).then(|| window.clone());
                let pieces = leases.filter_map(|lease| {
                    Some(StorePiece { remote_base: lease.base, store: lease.store.clone()? })
                });
                SpreadStore::new(map.clone(), pieces.collect(), window)
            })
            .collect()
    }
}

/// Which of its copy's pieces a block is.
fn node_in_copy(borrowing: &Borrowing, number: usize) -> u16 {
    let blocks = borrowing.blocks();
    let before = blocks[..number].iter().filter(|block| block.copy == blocks[number].copy);
    before.count() as u16
}

/// Tells the lender, and waits until it has thrown the memory away.
fn give_back(mut link: Link) -> Result<()> {
    link.send(&Request::Return)?;
    loop {
        if matches!(link.receive(SILENCE)?, Reply::Returned) {
            return Ok(());
        }
    }
}
