//! The jobs of [`crate::store::replicas`], carried out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::places::lock;
use super::{CLOSED, LEASE_RETRY, REPLACE_AFTER, RETRY, TURN, Work, line};
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::mirror::{Progress, Synchroniser};
use crate::store::replicas::Job;

impl Work {
    /// Carries out due jobs; returns the time until the next one.
    pub(super) fn work(&mut self) -> Option<Duration> {
        let mut limit = self.lines.iter().any(|line| line.broken.is_some()).then_some(RETRY);
        if self.store.check().is_err() {
            return limit;
        }
        for job in self.store.jobs() {
            let next = match job {
                Job::Retire(member) => self.retire(member),
                Job::Synchronise(member) => self.synchronise(member),
                Job::Rejoin(member) => self.rejoin(member),
                Job::Lease(member) => self.lease(member),
            };
            limit = Some(limit.map_or(next, |limit| limit.min(next)));
        }
        limit
    }

    fn retire(&mut self, member: usize) -> Duration {
        let names = lock(&self.places).names(member);
        self.store.remove(member);
        self.drop_copy(member, "another lender has taken its place");
        self.say(&format!("{names} has its memory back: another lender has the bytes"));
        Duration::ZERO
    }

    /// Copies for a while the pages that a member misses.
    fn synchronise(&mut self, member: usize) -> Duration {
        self.away[member] = None;
        let mut synchroniser = match self.synchroniser.take() {
            Some(synchroniser) if synchroniser.member() == member => synchroniser,
            _ => match Synchroniser::new(&self.store, member) {
                Ok(synchroniser) => synchroniser,
                Err(_) => return RETRY,
            },
        };
        let begun = Instant::now();
        let next = loop {
            match synchroniser.step() {
                Ok(Progress::Copied(_)) if begun.elapsed() >= TURN => break Duration::ZERO,
                Ok(Progress::Copied(_)) => {}
                Ok(Progress::NoSource) => break RETRY,
                Ok(Progress::Nothing) => match self.finish(&mut synchroniser) {
                    Ok(true) => return Duration::ZERO,
                    Ok(false) => break RETRY,
                    Err(_) => return RETRY,
                },
                Err(_) => return RETRY,
            }
        };
        self.synchroniser = Some(synchroniser);
        next
    }

    fn finish(&mut self, synchroniser: &mut Synchroniser) -> Result<bool> {
        let member = synchroniser.member();
        let is_done = synchroniser.finish(CLOSED, || {
            let mut places = lock(&self.places);
            let (Some(window), Some((driver, _))) = (&self.window, places.members[member]) else {
                return Ok(());
            };
            let store = places.drivers[driver].map_at(window)?;
            drop(places);
            self.store.replace(member, Arc::new(store));
            Ok(())
        })?;
        if is_done {
            let names = lock(&self.places).names(member);
            let are = if self.store.is_degraded() { "one more copy is" } else { "all copies are" };
            self.say(&format!("{are} whole, with the one at {names}"));
        }
        Ok(is_done)
    }

    fn rejoin(&mut self, member: usize) -> Duration {
        let now = Instant::now();
        let (since, at) = *self.away[member].get_or_insert((now, now));
        if since.elapsed() >= REPLACE_AFTER {
            self.store.is_overdue(member);
        }
        if now >= at {
            if at == since {
                let names = lock(&self.places).names(member);
                self.say(&format!(
                    "{names} does not answer: going on with what other lenders have"
                ));
            }
            match self.store.rejoin(member) {
                Ok(()) => return Duration::ZERO,
                Err(Error::Lost { .. }) => return Duration::ZERO,
                Err(_) => self.away[member] = Some((since, Instant::now() + RETRY)),
            }
        }
        RETRY
    }

    /// Borrows a further copy.
    fn lease(&mut self, member: usize) -> Duration {
        let left = self.lease_at.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return left;
        }
        self.lease_at = Instant::now() + LEASE_RETRY;
        let mut terms = self.terms.clone();
        terms.want.copies = 1;
        terms.want.avoid = lock(&self.places).lenders();
        terms.only_mapped = self.window.is_some();
        self.store.leasing(member);
        match Driver::borrow(terms) {
            Ok(mut driver) => {
                let store = driver.stores().remove(0);
                let mut places = lock(&self.places);
                let number = places.drivers.len();
                self.lines.extend(line::lines(&mut driver, number));
                places.drivers.push(driver);
                places.members[member] = Some((number, 0));
                drop(places);
                self.is_refused = false;
                self.store.leased(member, Some(Arc::new(store)));
                Duration::ZERO
            }
            Err(error) => {
                self.store.leased(member, None);
                if !std::mem::replace(&mut self.is_refused, true) {
                    let host = if self.window.is_some() { " on this host" } else { "" };
                    self.say(&format!("no other lender{host} has room for a copy yet: {error}"));
                }
                LEASE_RETRY
            }
        }
    }
}
