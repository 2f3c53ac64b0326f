//! Carries out the actions of the borrower's state machine.

use rackmem_fabric::error::Error as Plain;
use rackmem_fabric::net::SILENCE;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ask::ask_monitor;
use super::books::{Books, Lease};
use super::borrowing::{Action, Borrowing, Event};
use super::claim::{Claim, give_back};
use super::messages::{Piece, Reply, Request, Want};
use super::{MAKING, MAX_ATTEMPTS};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::health::Health;
use crate::store::mapped::MappedStore;
use crate::store::spread::{Map, Piece as StorePiece, SpreadStore};
use crate::store::tcp::{TcpStore, Way};
use crate::store::window::Window;
use rackmem_fabric::address::Address;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::rights::Right;

/// The request to the monitor, the way to make it, and limits on the lenders.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub want: Want,
    pub monitor: Address,
    pub proof: Option<Proof>,
    pub spin: Duration,
    pub only_network: bool,
    /// Lenders of this host only: their memory is to take the place of memory that is mapped.
    pub only_mapped: bool,
    pub patience: Duration,
}

/// The books, and one connection for each block.
pub(super) struct Driver {
    pub books: Books,
    pub links: Vec<Option<Link>>,
    windows: Vec<Arc<Window>>,
    /// Memory that was handed over, by block.
    memory: Vec<Option<OwnedFd>>,
    pieces: Vec<Piece>,
    terms: Terms,
    /// Error that makes the borrowing fail.
    failure: Option<Error>,
}

impl Driver {
    /// Borrows; asks for another decision if a lender turns out to be gone or full.
    pub fn borrow(mut terms: Terms) -> Result<Driver> {
        let mut attempt = 1;
        let mut unreached = None;
        loop {
            let mut driver = Driver::new(terms.clone())?;
            let Err((error, culprit)) = driver.attempt() else { return Ok(driver) };
            match culprit {
                Some((name, is_gone)) if attempt < MAX_ATTEMPTS => {
                    if is_gone {
                        unreached = Some(format!("lender {name}: {error}"));
                        terms.want.avoid.push(name);
                    }
                }
                _ => {
                    return Err(match unreached {
                        Some(why) => Error::refused(format!("{error} ({why})")),
                        None => error,
                    });
                }
            }
            attempt += 1;
        }
    }

    fn new(terms: Terms) -> Result<Driver> {
        let Want { size_bytes, copies, .. } = terms.want;
        let mut windows = Vec::new();
        let mut maps = Vec::new();
        for _ in 0..copies {
            windows.push(Arc::new(Window::reserve(size_bytes)?));
            maps.push(Arc::new(Map::new(size_bytes)));
        }
        let books =
            Books { borrowing: Borrowing::new(), leases: Vec::new(), slots: Vec::new(), maps };
        let (links, pieces, memory) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Driver { books, links, windows, memory, pieces, terms, failure: None })
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
                            let is_gone = !matches!(error, Error::Plain(Plain::Refused(_)));
                            culprit = Some((self.pieces[number].lender.name.clone(), is_gone));
                            self.failure.get_or_insert(error);
                            vec![Event::Lost(number)]
                        }
                    }
                }
                Action::Fill(number, _) => self.fill(number),
                Action::Return(number) => vec![self.give_back(number, Instant::now() + SILENCE)],
                Action::Fault(number) => {
                    self.books.fault(number, "it was given back");
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
        let nothing = || Error::protocol("the borrowing has ended by itself".to_owned());
        Err((self.failure.take().unwrap_or_else(nothing), culprit))
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        self.books.borrowing.step(event)
    }

    fn is_pending(&self, number: usize) -> bool {
        self.books.borrowing.blocks()[number].state == super::borrowing::State::Pending
    }

    fn ask_monitor(&mut self) -> (Option<Link>, Event) {
        let request = Request::Want(self.terms.want.clone());
        let asked = ask_monitor(&self.terms.monitor, self.terms.proof.as_ref(), &request);
        let (link, copies) = match asked {
            Ok((link, Reply::Granted(copies))) => (link, copies),
            Ok((_, other)) => {
                self.failure = Some(Error::protocol(format!("the monitor answers {other:?}")));
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
        self.memory = self.pieces.iter().map(|_| None).collect();
        self.books.leases = self.pieces.iter().map(|_| None).collect();
        self.books.slots = vec![None; self.pieces.len()];
        (Some(link), event)
    }

    /// Steps 1 to 4 of DE-08.
    fn ask_lender(&mut self, number: usize) -> Result<Event> {
        self.books.reserve(number)?;
        let piece = &self.pieces[number];
        let mut link = self.reach(piece)?;
        let borrower = self.terms.want.borrower.clone();
        link.send(&Request::Lease {
            ticket: piece.ticket,
            size_bytes: piece.size_bytes,
            borrower,
            patience_ms: self.terms.patience.as_millis() as u64,
            purpose: self.terms.want.purpose,
        })?;
        let (base, size_bytes, token) = match link.receive(MAKING)? {
            Reply::Leased { base, size_bytes, token } => (base, size_bytes, token),
            Reply::Refused(why) => return Err(Error::refused(why)),
            other => {
                let lender = &piece.lender.name;
                return Err(Error::protocol(format!("lender {lender} answers {other:?}")));
            }
        };
        link.allow_silence(self.terms.patience);
        let lender = piece.lender.clone();
        let block = self.books.borrowing.blocks()[number];
        let name = format!("lender {}", lender.name);
        let memory = link.take_fd();
        let health = match &memory {
            Some(memory) => Health::in_memory(name, memory.as_fd(), size_bytes),
            None => Health::new(name),
        };
        let health = health.map_err(|error| Error::io("cannot map the word of a lease", error))?;
        let (health, is_local) = (Arc::new(health), memory.is_some());
        if !is_local && self.terms.only_mapped {
            return Err(Error::protocol(format!("lender {} is not on this host", lender.name)));
        }
        self.memory[number] = memory;
        let store = match block.size_bytes == size_bytes {
            true => Some(self.open(number, &link, base, token.clone(), &health)?),
            false => None,
        };
        let copy = block.copy as usize;
        self.books.leases[number] = Some(Lease {
            lender,
            base,
            size_bytes,
            token,
            is_local,
            address: link.peer().ok(),
            health,
            copy,
            store,
            notice: None,
        });
        self.links[number] = Some(link);
        Ok(Event::Answered(number, base, size_bytes))
    }

    /// The bytes of a lease: mapped if the lender handed them over, else by lanes.
    fn open(
        &self,
        number: usize,
        link: &Link,
        base: u64,
        token: String,
        health: &Arc<Health>,
    ) -> Result<Arc<dyn Store>> {
        let block = self.books.borrowing.blocks()[number];
        if let Some(memory) = &self.memory[number] {
            let window = self.windows[block.copy as usize].clone();
            window.map(block.offset, block.size_bytes, memory)?;
            let store = MappedStore::new(window, block.offset, block.size_bytes, health.clone());
            return Ok(Arc::new(store));
        }
        let way = Way {
            address: link.peer()?,
            base,
            size_bytes: block.size_bytes,
            token,
            proof: self.terms.proof.clone(),
            spin: self.terms.spin,
            patience: self.terms.patience,
        };
        Ok(Arc::new(TcpStore::new(way, health.clone())))
    }

    /// Maps the memory of the only copy, all of which is mapped, in the place of another; returns its bytes there.
    pub fn map_at(&mut self, window: &Arc<Window>) -> Result<SpreadStore> {
        for (number, block) in self.books.borrowing.blocks().iter().enumerate() {
            let (Some(memory), Some(lease)) =
                (&self.memory[number], &mut self.books.leases[number])
            else {
                return Err(Error::protocol("a piece is not mapped".to_owned()));
            };
            window.map(block.offset, block.size_bytes, memory)?;
            let health = lease.health.clone();
            let store = MappedStore::new(window.clone(), block.offset, block.size_bytes, health);
            lease.store = Some(Arc::new(store));
        }
        self.windows = vec![window.clone()];
        Ok(self.stores().remove(0))
    }

    /// The mapping of the first copy.
    pub fn window(&self) -> &Arc<Window> {
        &self.windows[0]
    }

    /// A connection to the lender: the first of its addresses that works.
    fn reach(&self, piece: &Piece) -> Result<Link> {
        let here = &self.terms.want.borrower.host_id;
        let Terms { only_network, only_mapped, .. } = self.terms;
        let mut last = None;
        for address in &piece.addresses {
            let is_possible = match address.is_local() {
                true => piece.lender.host_id == *here && !only_network,
                false => !only_mapped,
            };
            if !is_possible {
                continue;
            }
            let proof = self.terms.proof.as_ref();
            let link = Link::connect(address, proof, SILENCE)
                .and_then(|link| link.require(proof, Right::Lend).map(|()| link));
            match link {
                Ok(link) => return Ok(link),
                Err(error) => last = Some(error.into()),
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::protocol(format!(
                "lender {} cannot be reached from here: start it with --listen HOST:PORT",
                piece.lender.name
            ))
        }))
    }

    /// Step 5 of DE-08.
    fn fill(&mut self, number: usize) -> Vec<Event> {
        let books = &self.books;
        let block = books.borrowing.blocks()[number];
        let (Some(lease), Some(slot)) = (&books.leases[number], books.slots[number]) else {
            return vec![Event::Lost(number)];
        };
        let node = node_in_copy(&books.borrowing, number);
        match books.maps[block.copy as usize].grant(slot, node, lease.base) {
            Ok(()) => Vec::new(),
            Err(rejected) => {
                self.failure = Some(Error::protocol(format!("a lease does not fit: {rejected}")));
                vec![Event::Lost(number)]
            }
        }
    }

    /// Tells the lender; over a new connection if the old one is broken and there is time for that.
    fn give_back(&mut self, number: usize, deadline: Instant) -> Event {
        let link = self.links.get_mut(number).and_then(Option::take);
        if link.is_some_and(|link| give_back(link, deadline).is_ok()) {
            return Event::Returned(number);
        }
        let claim = self.claim(number).filter(|_| Instant::now() < deadline);
        match claim.map(|claim| claim.resume().and_then(|link| give_back(link, deadline))) {
            Some(Ok(())) => Event::Returned(number),
            Some(Err(_)) | None => Event::Lost(number),
        }
    }

    /// Proof that a lease over the network is ours, for another connection; `None` on the same host.
    pub fn claim(&self, number: usize) -> Option<Claim> {
        let lease = self.books.leases.get(number)?.as_ref()?;
        Some(Claim {
            address: lease.address.clone()?,
            proof: self.terms.proof.clone(),
            base: lease.base,
            token: lease.token.clone(),
            lender: lease.lender.name.clone(),
            patience: self.terms.patience,
        })
    }

    /// Gives everything back; from the deadline on without waiting for answers.
    pub fn release(&mut self, deadline: Instant) {
        let mut actions = VecDeque::from(self.step(Event::Release));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Fault(number) => self.books.fault(number, "it was given back"),
                Action::Return(number) => {
                    let event = self.give_back(number, deadline);
                    actions.extend(self.step(event));
                }
                _ => {}
            }
        }
    }

    /// The stores of the copies.
    pub fn stores(&self) -> Vec<SpreadStore> {
        let books = &self.books;
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

/// Index of a block among the pieces of its copy.
fn node_in_copy(borrowing: &Borrowing, number: usize) -> u16 {
    let blocks = borrowing.blocks();
    let before = blocks[..number].iter().filter(|block| block.copy == blocks[number].copy);
    before.count() as u16
}
