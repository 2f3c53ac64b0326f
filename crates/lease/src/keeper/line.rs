//! The keeper's connections to lenders: their messages, and new connections in place of broken ones.

use std::time::{Duration, Instant};

use super::places::lock;
use super::{RETRY, Work};
use crate::claim::give_back;
use crate::driver::Driver;
use crate::error::Error;
use crate::messages::Reply;
use rackmem_fabric::net::SILENCE;
use rackmem_fabric::net::link::Link;

/// A connection to the lender of a block.
pub(super) struct Line {
    pub driver: usize,
    pub block: usize,
    pub link: Option<Link>,
    /// Since when there is no connection, and when to try again.
    pub broken: Option<(Instant, Instant)>,
    /// The lease is not used any more; its lender is notified when it can be reached.
    pub is_owed: bool,
}

pub(super) fn lines(driver: &mut Driver, number: usize) -> Vec<Line> {
    let links = std::mem::take(&mut driver.links);
    driver.links = links.iter().map(|_| None).collect();
    let line = |(block, link)| Line { driver: number, block, link, broken: None, is_owed: false };
    links.into_iter().enumerate().map(line).collect()
}

impl Work {
    /// Takes in the messages of a lender.
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
                    let lease = books.leases[line.block].as_ref();
                    if lease.is_none_or(|lease| lease.address.is_none()) {
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
            let Line { driver, block, broken, is_owed, .. } = self.lines[number];
            let Some((since, _)) = broken.filter(|(_, at)| Instant::now() >= *at) else { continue };
            let Some(claim) = lock(&self.places).drivers[driver].claim(block) else { continue };
            let line = &mut self.lines[number];
            let reason = match claim.resume() {
                Ok(link) if is_owed => {
                    let _ = give_back(link, Instant::now() + SILENCE);
                    String::new()
                }
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
            if !is_owed {
                // In this order, as everywhere.
                let mut places = lock(&self.places);
                let _held = self.store.keep_from_forking();
                places.drivers[driver].books.lost(block, &reason);
            }
        }
        self.lines.retain(|line| !line.is_owed || line.broken.is_some());
    }
}
