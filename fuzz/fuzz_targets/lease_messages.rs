//! Messages about leases: a monitor, a lender's pool and a borrower take any sequence of them.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem_lease::borrowing::{self, Borrowing};
use rackmem_lease::messages::{Reply, Request, Ticket, Want};
use rackmem_lease::quota::Account;
use rackmem_lease::{monitor, pool};
use rackmem_fabric::net::frame::{decode, encode};

const POOL_BYTES: u64 = 1 << 20;

/// The node of borrowers that have a quota.
const ACCOUNT: Account = Account { node: 3, max_bytes: Some(POOL_BYTES / 4) };

/// Longest frame.
const LIMIT: usize = 1 << 24;

/// A frame says the same after it was written again.
fn again(frame: &[u8]) -> Option<Request> {
    if let Ok(reply) = decode::<Reply>(frame) {
        assert_eq!(decode::<Reply>(&encode(&reply, LIMIT).unwrap()[4..]).unwrap(), reply);
    }
    let request = decode::<Request>(frame).ok()?;
    assert_eq!(decode::<Request>(&encode(&request, LIMIT).unwrap()[4..]).unwrap(), request);
    Some(request)
}

#[derive(Default)]
struct World {
    monitor: Option<monitor::Monitor>,
    pool: Option<pool::Pool>,
    borrowing: Borrowing,
    /// Bases that were handed out: first and end.
    leased: BTreeMap<u64, u64>,
}

impl World {
    /// A base that was handed out, or 0.
    fn base(&self, number: u8) -> u64 {
        let count = self.leased.len().max(1);
        self.leased.keys().nth(usize::from(number) % count).copied().unwrap_or(0)
    }

    fn monitor(&mut self, event: monitor::Event) {
        let wanted = match &event {
            monitor::Event::Want(_, want) => Some(want.clone()),
            _ => None,
        };
        let monitor = self.monitor.get_or_insert_with(|| monitor::Monitor::new(7));
        for action in monitor.step(event) {
            let (monitor::Action::Grant(_, copies), Some(want)) = (action, &wanted) else {
                continue;
            };
            assert_eq!(copies.len(), want.copies as usize);
            for pieces in &copies {
                let sum: u64 = pieces.iter().map(|piece| piece.size_bytes).sum();
                assert_eq!(sum, want.size_bytes, "a copy has all that was wanted");
            }
            let sizes = copies.iter().map(|c| c.iter().map(|p| p.size_bytes).collect()).collect();
            self.borrowing.step(borrowing::Event::Want(want.size_bytes, want.copies));
            self.borrowing.step(borrowing::Event::Decided(sizes));
        }
        for listing in monitor.listings() {
            let leased = listing.leases.iter().map(|lease| lease.size_bytes);
            let leased = leased.fold(0, u64::saturating_add);
            let room = listing.offer.size_bytes.saturating_sub(leased);
            // A lender that reports more leases than before may break promises, never the other way round.
            assert!(listing.promised_bytes <= listing.offer.size_bytes.max(room) || leased > 0);
        }
    }

    fn pool(&mut self, event: pool::Event) {
        let pool = self.pool.get_or_insert_with(|| pool::Pool::new(POOL_BYTES, 1 << 40));
        for action in pool.step(event) {
            if let pool::Action::Make(base, size_bytes) = action {
                let before = self.leased.range(..base + size_bytes).next_back();
                assert!(
                    before.is_none_or(|(_, &end)| end <= base),
                    "addresses are never used again"
                );
                self.leased.insert(base, base + size_bytes);
            }
        }
        assert!(pool.leased_bytes() <= POOL_BYTES, "no more is leased than is lent");
        let of_node = pool.records().filter(|record| record.node == Some(ACCOUNT.node));
        let held: u64 = of_node.map(|record| record.size_bytes).sum();
        assert!(Some(held) <= ACCOUNT.max_bytes, "a node stays within its quota");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut world = World::default();
    while !input.is_empty() {
        let (code, who) =
            (input.arbitrary::<u8>().unwrap_or(0), input.arbitrary::<u8>().unwrap_or(0));
        let who = u64::from(who % 4);
        let number = input.arbitrary::<u8>().unwrap_or(0);
        let size_bytes = u64::from(number) * 8192;
        match code % 10 {
            0..=3 => {
                let length = usize::from(input.arbitrary::<u16>().unwrap_or(0)).min(input.len());
                let Some(request) = again(input.bytes(length).unwrap_or(&[])) else { continue };
                match request {
                    Request::Offer(offer, leases) => {
                        world.monitor(monitor::Event::Offer(who, offer, leases))
                    }
                    Request::Leased(record) => world.monitor(monitor::Event::Leased(who, record)),
                    Request::Ended(base) => world.monitor(monitor::Event::Ended(who, base)),
                    // A lender of a test has at most four copies.
                    Request::Want(want) if want.copies <= 4 => {
                        let account = (who % 2 == 0).then_some(ACCOUNT);
                        let want = Want { account, ..want };
                        world.monitor(monitor::Event::Want(who, want))
                    }
                    Request::Lease { ticket, size_bytes, borrower, .. } => {
                        world.pool(pool::Event::Ask(who, None, ticket, size_bytes, borrower))
                    }
                    Request::Return => world.pool(pool::Event::Return(who)),
                    _ => {}
                }
            }
            4 => {
                world.monitor(monitor::Event::Gone(who));
                let base = world.base(number);
                world.pool(match number % 3 {
                    0 => pool::Event::Gone(who),
                    1 => pool::Event::Broken(who),
                    _ => pool::Event::Expire(base),
                });
            }
            5 if number % 2 == 0 => {
                let base = world.base(number / 2);
                world.pool(pool::Event::Resume(who, base));
            }
            5 => {
                let base = world.base(number / 2);
                world.pool(pool::Event::Made(base));
            }
            6 => {
                let base = world.base(number);
                world.pool(pool::Event::NotMade(base, String::new()));
            }
            7 => {
                let ticket = Ticket { epoch: 7, number: who };
                world.pool(pool::Event::Ask(who, Some(ACCOUNT), ticket, size_bytes, Default::default()));
            }
            8 => {
                drop(world.borrowing.step(borrowing::Event::Answered(who as usize, 0, size_bytes)))
            }
            _ => {
                use borrowing::Event::{Lost, NotDecided, Refused, Release, Returned};
                let who = who as usize;
                let events = [Lost(who), NotDecided, Refused(who), Release, Returned(who)];
                world.borrowing.step(events[usize::from(number) % 5].clone());
            }
        }
    }
});
