//! Threads that read and write, the keeper, and faults of lenders, one step at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rackmem_lease::store::mirror::{Patience, Progress, Synchroniser};
use rackmem_lease::store::replicas::{Job, MAX_MEMBERS, State};
use rackmem_lease::store::{Lane, MirrorStore, Store};

use crate::sim::{Lender, PAGE, Random};

const PAGES: usize = 6;
const LANES: usize = 2;

/// Counts of the events for which there are schedules.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub rejoined: u64,
    pub replaced: u64,
    pub evacuated: u64,
    pub waited: u64,
    pub late: u64,
    pub fell_back: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.rejoined += other.rejoined;
        self.replaced += other.replaced;
        self.evacuated += other.evacuated;
        self.waited += other.waited;
        self.late += other.late;
        self.fell_back += other.fell_back;
    }
}

/// Request of a lane: the page, and the generations between which the answer must be.
enum Asked {
    Read { page: usize, least: u64, most: Option<u64> },
    Write { page: usize, generation: u64 },
}

struct User {
    lane: Box<dyn Lane>,
    asked: VecDeque<Asked>,
}

/// A page's generations: the newest that was asked for, and the newest that was answered. One lane writes it.
#[derive(Clone, Copy, Default)]
struct Page {
    asked: u64,
    answered: u64,
}

pub struct World {
    random: Random,
    store: MirrorStore,
    lenders: BTreeMap<usize, Lender>,
    /// Lenders that are lost or have their memory back.
    former: Vec<Lender>,
    users: Vec<User>,
    pages: [Page; PAGES],
    synchroniser: Option<Synchroniser>,
    /// A child of fork has no keeper.
    has_keeper: bool,
    pub seen: Seen,
}

/// The bytes of a generation of a page. Generation 0 is zeros.
fn bytes(page: usize, generation: u64) -> Vec<u8> {
    let word = match generation {
        0 => 0,
        _ => Random((page as u64) << 32 | generation).next() << 16 | generation,
    };
    word.to_le_bytes().repeat(PAGE / 8)
}

/// The generation of which these are the bytes.
fn generation(page: usize, got: &[u8]) -> u64 {
    let generation = u64::from(u16::from_le_bytes([got[0], got[1]]));
    assert!(got == bytes(page, generation), "page {page} is torn, or another page's");
    generation
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let copies = 1 + random.below(2) as usize;
        let lenders: BTreeMap<usize, Lender> =
            (0..copies).map(|member| (member, Lender::new(PAGES, random.next()))).collect();
        let stores = lenders.values().map(|lender| Arc::new(lender.clone()) as Arc<dyn Store>);
        let patience = Patience { limit: Duration::from_secs(3600), retry: Duration::ZERO };
        let store = MirrorStore::new(stores.collect(), patience, Arc::new(|_| {})).unwrap();
        let user = |_| User { lane: store.lane().unwrap(), asked: VecDeque::new() };
        let users = (0..LANES).map(user).collect();
        World {
            store,
            lenders,
            former: Vec::new(),
            users,
            pages: Default::default(),
            synchroniser: None,
            has_keeper: !random.one_in(4),
            seen: Seen::default(),
            random,
        }
    }

    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.random.below(20) {
                0..5 => self.write(),
                5..9 => self.read(),
                9..13 => self.take(),
                13..17 => self.keep(),
                17 => self.harm(),
                18 => self.be_late(),
                _ => self.renew_lane(),
            }
        }
        self.rest();
    }

    fn user(&mut self) -> usize {
        self.random.below(LANES as u64) as usize
    }

    fn write(&mut self) {
        let user = self.user();
        // A page has one writer.
        let page = self.random.below((PAGES / LANES) as u64) as usize * LANES + user;
        let generation = self.pages[page].asked + 1;
        self.pages[page].asked = generation;
        let from = bytes(page, generation);
        let offset = (page * PAGE) as u64;
        self.users[user].lane.ask_write(offset, &from).unwrap();
        self.users[user].asked.push_back(Asked::Write { page, generation });
    }

    fn read(&mut self) {
        let user = self.user();
        let page = self.random.below(PAGES as u64) as usize;
        let is_own = page % LANES == user;
        let Page { asked, answered } = self.pages[page];
        // A lane's own requests take effect in their order.
        let least = if is_own { asked } else { answered };
        let most = is_own.then_some(asked);
        self.users[user].lane.ask_read((page * PAGE) as u64, PAGE).unwrap();
        self.users[user].asked.push_back(Asked::Read { page, least, most });
    }

    fn take(&mut self) {
        let user = self.user();
        self.take_one(user);
    }

    fn take_one(&mut self, user: usize) -> bool {
        let User { lane, asked } = &mut self.users[user];
        match asked.pop_front() {
            None => return false,
            Some(Asked::Write { page, generation }) => {
                lane.take(&mut []).unwrap();
                self.pages[page].answered = generation;
            }
            Some(Asked::Read { page, least, most }) => {
                let mut into = vec![0xee; PAGE];
                lane.take(&mut into).unwrap();
                let got = generation(page, &into);
                let most = most.unwrap_or(self.pages[page].asked);
                assert!(
                    (least..=most).contains(&got),
                    "page {page}: {got} not in {least}..={most}"
                );
            }
        }
        true
    }

    /// A thread goes, and another comes.
    fn renew_lane(&mut self) {
        let user = self.user();
        while self.take_one(user) {}
        self.users[user].lane = self.store.lane().unwrap();
    }

    fn harm(&mut self) {
        let members: Vec<usize> = self.lenders.keys().copied().collect();
        let member = members[self.random.below(members.len() as u64) as usize];
        let live = members.iter().filter(|&&member| self.store.state(member) == State::Live);
        let is_last = live.count() == 1 && self.store.state(member) == State::Live;
        // Without a keeper one that has missed nothing takes the place of the last.
        let is_whole = |&other: &usize| match self.store.state(other) {
            State::Live => true,
            State::Away => !self.has_keeper && !self.store.misses(other),
            _ => false,
        };
        let has_other = members.iter().any(|other| *other != member && is_whole(other));
        match self.random.below(4) {
            0 if has_other => {
                self.seen.fell_back += u64::from(is_last);
                let lender = self.lenders.remove(&member).unwrap();
                lender.lose();
                let error = lender.check().unwrap_err();
                self.store.lose(member, &error);
                self.former.push(lender);
            }
            1 => self.store.leaves(member),
            _ => {
                let attempts = 1 + self.random.below(12) as u32;
                self.seen.waited += u64::from(is_last);
                self.lenders[&member].silence(attempts);
            }
        }
    }

    fn be_late(&mut self) {
        self.lenders.values().chain(&self.former).for_each(Lender::be_late);
    }

    /// Does one of the keeper's jobs, or a part of it.
    fn keep(&mut self) {
        let jobs = self.store.jobs();
        if jobs.is_empty() || !self.has_keeper {
            return;
        }
        match jobs[self.random.below(jobs.len() as u64) as usize] {
            Job::Lease(member) => {
                self.store.leasing(member);
                let lender = (!self.random.one_in(4)).then(|| {
                    let lender = Lender::new(PAGES, self.random.next());
                    self.lenders.insert(member, lender.clone());
                    Arc::new(lender) as Arc<dyn Store>
                });
                self.seen.replaced += u64::from(lender.is_some());
                self.store.leased(member, lender);
            }
            Job::Rejoin(member) => {
                if self.random.one_in(5) {
                    self.store.is_overdue(member);
                }
                self.seen.rejoined += u64::from(self.store.rejoin(member).is_ok());
            }
            Job::Retire(member) => {
                self.store.remove(member);
                self.former.extend(self.lenders.remove(&member));
                self.seen.evacuated += 1;
            }
            Job::Synchronise(member) => self.synchronise(member),
        }
    }

    fn synchronise(&mut self, member: usize) {
        let mut synchroniser = match self.synchroniser.take() {
            Some(synchroniser) if synchroniser.member() == member => synchroniser,
            _ => match Synchroniser::new(&self.store, member) {
                Ok(synchroniser) => synchroniser,
                Err(_) => return,
            },
        };
        let step = match self.random.below(3) {
            0 => synchroniser.finish(Duration::ZERO, || Ok(())).map(|is_done| !is_done),
            _ => synchroniser.step().map(|progress| progress != Progress::NoSource),
        };
        if matches!(step, Ok(true)) {
            self.synchroniser = Some(synchroniser);
        }
    }

    /// Everybody is well again: in the end all copies that are whole are the same, and all answered writes are in them.
    fn rest(&mut self) {
        self.lenders.values().for_each(|lender| lender.silence(0));
        for user in 0..LANES {
            while self.take_one(user) {}
        }
        for _ in 0..500 {
            self.keep();
        }
        if self.has_keeper {
            assert!(self.store.jobs().is_empty(), "{:?}", self.store.jobs());
            assert!(!self.store.is_degraded());
        }
        for user in 0..LANES {
            self.renew_lane();
            let _ = user;
        }
        self.be_late();
        for member in (0..MAX_MEMBERS).filter(|&member| self.store.state(member) == State::Live) {
            for page in 0..PAGES {
                let got = generation(page, &self.lenders[&member].page(page));
                assert_eq!(got, self.pages[page].answered, "page {page} of member {member}");
            }
        }
        let late = self.lenders.values().chain(&self.former).map(Lender::late_done);
        self.seen.late = late.sum();
    }
}
