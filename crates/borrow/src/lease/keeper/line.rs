//! The connections to lenders: what comes over them, and how they come back.

use std::time::{Duration, Instant};

use super::places::lock;
use super::{RETRY, Work};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::lease::ANSWER;
use crate::lease::driver::Driver;
use crate::lease::messages::{Reply, Request};
use crate::net::link::Link;
use crate::net::socket::is_refused;

/// A connection to the lender of a block.
pub(super) struct Line {
    pub driver: usize,
    pub block: usize,
    pub address: Option<Address>,
    pub link: Option<Link>,
    /// Since when there is no connection, and when to try again.
    pub broken: Option<(Instant, Instant)>,
}

pub(super) fn lines(driver: &mut Driver, number: usize) -> Vec<Line> {
    let links = std::mem::take(&mut driver.links);
    driver.links = links.iter().map(|_| None).collect();
    let line = |(block, link): (usize, Option<Link>)| {
        let address = link.as_ref().and_then(|link| link.peer().ok());
        Line { driver: number, block, address, link, broken: None }
    };
    links.into_iter().enumerate().map(line).collect()
}

impl Work {
    /// Takes in what a lender says.
    pub(super) fn hear(&mut self, number: usize) {
        let line = &mut self.lines[number];
        loop {
            let Some(link) = &mut line.link else { return };
            match link.poll::<Reply>() {
                Ok(Some(Reply::Notice(ms))) => return self.leaves(number, ms),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => {
                    line.link = None;
                    let mut places = lock(&self.places);
                    let books = &mut places.drivers[line.driver].books;
                    let is_local = books.leases[line.block].as_ref().is_none_or(|l| l.is_local);
                    if is_local || line.address.is_none() {
                        let _held = self.store.keep_from_forking();
                        books.lost(line.block, &error.reason());
                    } else {
                        line.broken = Some((Instant::now(), Instant::now()));
                    }
                    return;
                }
            }
        }
    }

    fn leaves(&mut self, number: usize, ms: u64) {
        let grace = Duration::from_millis(ms.min(u64::from(u32::MAX)));
        let line = &self.lines[number];
        let mut places = lock(&self.places);
        let member = places.member_of(line);
        let Some(lease) = &mut places.drivers[line.driver].books.leases[line.block] else { return };
        lease.notice = Some(Instant::now() + grace);
        let text = format!(
            "lender {} wants its memory back within {} s: looking for another lender",
            lease.lender.name,
            grace.as_secs_f64()
        );
        drop(places);
        self.say(&text);
        self.lease_at = Instant::now();
        member.into_iter().for_each(|member| self.store.leaves(member));
    }

    /// Tries to get connections back that broke.
    pub(super) fn reconnect(&mut self) {
        for number in 0..self.lines.len() {
            let line = &self.lines[number];
            let Some((since, _)) = line.broken.filter(|(_, at)| Instant::now() >= *at) else {
                continue;
            };
            let resumed = self.resume(line);
            let line = &mut self.lines[number];
            let reason = match resumed {
                Ok(link) => {
                    (line.link, line.broken) = (Some(link), None);
                    continue;
                }
                Err(Error::Lost { reason, .. }) => reason,
                Err(error) if since.elapsed() > self.terms.patience => error.to_string(),
                Err(_) => {
                    line.broken = Some((since, Instant::now() + RETRY));
                    continue;
                }
            };
            line.broken = None;
            // In this order, as everywhere.
            let mut places = lock(&self.places);
            let _held = self.store.keep_from_forking();
            places.drivers[line.driver].books.lost(line.block, &reason);
        }
    }

    fn resume(&self, line: &Line) -> Result<Link> {
        let (Some(address), Some((base, token, lender))) = (&line.address, {
            let places = lock(&self.places);
            let lease = places.drivers[line.driver].books.leases[line.block].as_ref();
            lease.map(|lease| (lease.base, lease.token.clone(), lease.lender.name.clone()))
        }) else {
            return Err(Error::Stopped);
        };
        let lost = |reason: &str| Error::Lost { lender, reason: reason.to_owned() };
        let mut link = match Link::connect(address, self.terms.secret.as_ref(), ANSWER) {
            Err(error) if is_refused(&error) => return Err(lost("its process has ended")),
            link => link.map_err(not_for_good)?,
        };
        link.send(&Request::Resume { base, token }).map_err(not_for_good)?;
        match link.receive(ANSWER).map_err(not_for_good)? {
            Reply::Resumed => Ok(link),
            Reply::NoLease => Err(lost("it has the lease no more")),
            other => Err(Error::Protocol(format!("it answers {other:?}"))),
        }
    }
}

/// A connection that is lost says nothing of the lease.
fn not_for_good(error: Error) -> Error {
    match error {
        Error::Lost { lender, reason } => Error::Broken { lender, reason },
        other => other,
    }
}
