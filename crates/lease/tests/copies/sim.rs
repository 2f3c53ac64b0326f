//! A lender whose behaviour is decided by the world.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use rackmem_lease::store::{Lane, Store};
use rackmem_lease::{Error, Result};

pub const PAGE: usize = 4096;

/// Numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Debug)]
enum Request {
    Read(usize, usize),
    Write(usize, Vec<u8>),
    Discard(usize, usize),
}

#[derive(Debug)]
struct Inner {
    bytes: Vec<u8>,
    /// Attempts to reach it that fail from now on.
    silent: u32,
    is_lost: bool,
    /// Lanes of earlier eras are broken.
    era: u32,
    next_lane: u32,
    /// Requests of broken lanes, by lane, that the lender may still carry out.
    late: VecDeque<(u32, Request)>,
    late_done: u64,
    random: Random,
}

/// A lender's memory; clones are the same.
#[derive(Clone, Debug)]
pub struct Lender(Arc<Mutex<Inner>>);

impl Inner {
    fn perform(&mut self, request: Request) -> Vec<u8> {
        match request {
            Request::Read(at, length) => return self.bytes[at..at + length].to_vec(),
            Request::Write(at, from) => self.bytes[at..at + from.len()].copy_from_slice(&from),
            Request::Discard(at, length) => self.bytes[at..at + length].fill(0),
        }
        Vec::new()
    }

    /// Carries out some of the late requests that are meant, and forgets the rest.
    fn end_late(&mut self, is_meant: impl Fn(u32) -> bool) {
        let late = std::mem::take(&mut self.late);
        for (lane, request) in late {
            if !is_meant(lane) {
                self.late.push_back((lane, request));
            } else if !self.random.one_in(3) {
                self.perform(request);
            }
        }
    }

    fn answer(&mut self) -> Result<()> {
        let lender = "a lender".to_owned();
        if self.is_lost {
            return Err(Error::Lost { lender, reason: "it is lost".to_owned() });
        }
        if self.silent > 0 {
            self.silent -= 1;
            return Err(Error::Broken { lender, reason: "it is silent".to_owned() });
        }
        Ok(())
    }
}

impl Lender {
    pub fn new(pages: usize, seed: u64) -> Lender {
        Lender(Arc::new(Mutex::new(Inner {
            bytes: vec![0; pages * PAGE],
            silent: 0,
            is_lost: false,
            era: 0,
            next_lane: 0,
            late: VecDeque::new(),
            late_done: 0,
            random: Random(seed),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub fn silence(&self, attempts: u32) {
        self.lock().silent = attempts;
    }

    /// Attempts that will fail still.
    pub fn silent(&self) -> u32 {
        self.lock().silent
    }

    pub fn lose(&self) {
        self.lock().is_lost = true;
    }

    /// A request of a lane that is broken is carried out now.
    pub fn be_late(&self) {
        let mut inner = self.lock();
        if let Some((_, request)) = inner.late.pop_front() {
            inner.late_done += 1;
            inner.perform(request);
        }
    }

    pub fn late_done(&self) -> u64 {
        self.lock().late_done
    }

    pub fn page(&self, page: usize) -> Vec<u8> {
        self.lock().bytes[page * PAGE..][..PAGE].to_vec()
    }
}

impl Store for Lender {
    fn size_bytes(&self) -> u64 {
        self.lock().bytes.len() as u64
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        let mut inner = self.lock();
        inner.answer()?;
        let (number, era) = (inner.next_lane, inner.era);
        inner.next_lane += 1;
        let lender = self.clone();
        let (asked, is_broken) = (VecDeque::new(), false);
        Ok(Box::new(SimLane { lender, number, era, asked, is_broken }))
    }

    fn check(&self) -> Result<()> {
        let inner = self.lock();
        match inner.is_lost {
            true => Err(Error::Lost { lender: "a lender".to_owned(), reason: "lost".to_owned() }),
            false => Ok(()),
        }
    }

    fn fence(&self) -> Result<()> {
        let mut inner = self.lock();
        inner.answer()?;
        inner.era += 1;
        inner.end_late(|_| true);
        Ok(())
    }
}

struct SimLane {
    lender: Lender,
    number: u32,
    era: u32,
    asked: VecDeque<Request>,
    is_broken: bool,
}

impl SimLane {
    /// The lender, if the lane works; else its requests are late.
    fn reach(&mut self) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = self.lender.0.lock().unwrap();
        let is_old = inner.era != self.era;
        let answer = inner.answer();
        if answer.is_err() || is_old || self.is_broken {
            self.is_broken = true;
            // A lane that a fence has ended has nothing that could be late.
            let asked = self.asked.drain(..).filter(|_| !is_old);
            inner.late.extend(asked.map(|request| (self.number, request)));
            answer?;
            let lender = "a lender".to_owned();
            return Err(Error::Broken { lender, reason: "the lane is broken".to_owned() });
        }
        Ok(inner)
    }

    fn ask(&mut self, request: Request) -> Result<()> {
        drop(self.reach()?);
        self.asked.push_back(request);
        Ok(())
    }
}

impl Lane for SimLane {
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()> {
        self.ask(Request::Read(offset as usize, length))
    }

    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        self.ask(Request::Write(offset as usize, from.to_vec()))
    }

    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()> {
        self.ask(Request::Discard(offset as usize, length as usize))
    }

    fn push(&mut self) -> Result<()> {
        self.reach().map(drop)
    }

    fn take(&mut self, into: &mut [u8]) -> Result<()> {
        drop(self.reach()?);
        let request = self.asked.pop_front().expect("something is outstanding");
        let bytes = self.lender.lock().perform(request);
        into.copy_from_slice(&bytes);
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        let mut inner = self.lender.0.lock().unwrap();
        inner.answer()?;
        let number = self.number;
        let asked = self.asked.drain(..).map(|request| (number, request));
        if inner.era == self.era {
            inner.late.extend(asked);
        }
        inner.end_late(|lane| lane == number);
        (self.era, self.is_broken) = (inner.era, false);
        Ok(())
    }

    fn is_ready(&mut self) -> bool {
        !self.asked.is_empty()
    }

    fn outstanding(&self) -> usize {
        self.asked.len()
    }
}

impl Drop for SimLane {
    fn drop(&mut self) {
        let mut inner = self.lender.0.lock().unwrap();
        if inner.era == self.era {
            inner.late.extend(self.asked.drain(..).map(|request| (self.number, request)));
        }
    }
}
