//! Borrowers, lenders and a monitor that run the very machines of the crate, joined by connections
//! that keep order and can break.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rackmem_fabric::rights::Right;
use rackmem_lease::borrowing::{self, Borrowing};
use rackmem_lease::messages::{Network, Offer, Party, Piece, Record, Reply, Request, Want};
use rackmem_lease::monitor::{self, Monitor};
use rackmem_lease::pool::{self, Pool};
use rackmem_lease::quota::Account;
use rackmem_rmc::amt::{Amt, SlotId, Target};

/// A connection; never used again.
pub type Conn = u64;

/// The process at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    Borrower(usize),
    Lender(usize),
    Monitor,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    Request(Request),
    Reply(Reply),
}

/// One direction of a connection: the receiver, the messages in flight, and the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    pub to: End,
    pub messages: VecDeque<Message>,
    pub is_ended: bool,
    /// The receiver listens no more.
    pub is_deaf: bool,
    /// It is the connection that ended, not the sender.
    pub is_broken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Borrower {
    pub lives: bool,
    pub machine: Borrowing,
    pub has_wanted: bool,
    pub has_released: bool,
    pub monitor: Option<Conn>,
    /// Per block: the lender, and the connection while there is one.
    pub blocks: Vec<(usize, Option<Conn>)>,
    /// The address map of each copy, and the slot of each block.
    pub amts: Vec<Amt>,
    pub slots: Vec<Option<SlotId>>,
    /// Connections on which the lender has not said yet whether the lease is there still.
    pub resuming: BTreeSet<Conn>,
    /// Result of the borrowing, once it has ended.
    pub outcome: Option<borrowing::Action>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lender {
    pub lives: bool,
    pub pool: Pool,
    /// Bases of leases whose memory is being made.
    pub making: BTreeSet<u64>,
    /// Memory that there is, by base: bytes, once it was granted.
    pub memory: BTreeMap<u64, u64>,
    /// Bases of leases whose borrowers may come back.
    pub orphans: BTreeSet<u64>,
    pub uplink: Option<Conn>,
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub borrowers: Vec<Borrower>,
    pub lenders: Vec<Lender>,
    pub monitor: Option<Monitor>,
    pub epoch: u64,
    /// Both directions: from the end that connected, and to it.
    pub conns: BTreeMap<Conn, [Way; 2]>,
    pub next_conn: Conn,
    /// Leases outlive broken connections, as over a network.
    pub resumes: bool,
    /// The node of all borrowers, if it is known, and its bound.
    pub account: Option<Account>,
    /// Memory that was thrown away twice, or a message that made no sense.
    pub broken: Option<&'static str>,
}

fn party(name: usize) -> Party {
    let host_id = name.to_string();
    Party { name: host_id.clone(), host: String::new(), host_id, pid: 0 }
}

impl World {
    pub fn new(borrowers: usize, sizes: &[u64], resumes: bool, account: Option<Account>) -> World {
        let borrower = Borrower {
            lives: true,
            machine: Borrowing::new(),
            has_wanted: false,
            has_released: false,
            monitor: None,
            blocks: Vec::new(),
            amts: Vec::new(),
            slots: Vec::new(),
            resuming: BTreeSet::new(),
            outcome: None,
        };
        let lender = |&size: &u64| Lender {
            lives: true,
            pool: Pool::new(size, 1 << 20),
            making: BTreeSet::new(),
            memory: BTreeMap::new(),
            orphans: BTreeSet::new(),
            uplink: None,
            size,
        };
        let mut world = World {
            borrowers: vec![borrower; borrowers],
            lenders: sizes.iter().map(lender).collect(),
            monitor: Some(Monitor::new(0)),
            epoch: 0,
            conns: BTreeMap::new(),
            next_conn: 1,
            resumes,
            account,
            broken: None,
        };
        // All lenders are known at first.
        for number in 0..sizes.len() {
            world.report_anew(number);
            let uplink = world.lenders[number].uplink.unwrap();
            world.deliver(uplink, 0);
        }
        world
    }

    fn connect(&mut self, from: End, to: End) -> Conn {
        let conn = self.next_conn;
        self.next_conn += 1;
        let way = |to| {
            let messages = VecDeque::new();
            Way { to, messages, is_ended: false, is_deaf: false, is_broken: false }
        };
        self.conns.insert(conn, [way(to), way(from)]);
        conn
    }

    fn send(&mut self, conn: Conn, direction: usize, message: Message) {
        let Some(ways) = self.conns.get_mut(&conn) else { return };
        let way = &mut ways[direction];
        if !way.is_ended && !way.is_deaf {
            way.messages.push_back(message);
        }
    }

    fn request(&mut self, conn: Conn, request: &Request) {
        self.send(conn, 0, Message::Request(request.clone()));
    }

    fn reply(&mut self, conn: Conn, reply: &Reply) {
        self.send(conn, 1, Message::Reply(reply.clone()));
    }

    /// The end that gets `direction` is closed: it hears and says nothing more.
    fn close(&mut self, conn: Conn, direction: usize) {
        let Some(ways) = self.conns.get_mut(&conn) else { return };
        ways[direction].is_deaf = true;
        ways[direction].messages.clear();
        ways[1 - direction].is_ended = true;
        if ways.iter().all(|way| way.is_deaf) {
            self.conns.remove(&conn);
        }
    }

    /// All that is under way is lost, and both ends will notice.
    pub fn break_conn(&mut self, conn: Conn) {
        for way in self.conns.get_mut(&conn).unwrap() {
            way.messages.clear();
            way.is_ended = true;
            way.is_broken = self.resumes;
        }
    }

    pub fn kill(&mut self, end: End) {
        match end {
            End::Borrower(number) => {
                let borrower = &mut self.borrowers[number];
                borrower.lives = false;
                borrower.amts.clear();
            }
            End::Lender(number) => {
                self.lenders[number].lives = false;
                self.lenders[number].memory.clear();
            }
            End::Monitor => self.monitor = None,
        }
        for conn in self.conns.keys().copied().collect::<Vec<_>>() {
            for direction in [0, 1] {
                if self.conns.get(&conn).is_some_and(|ways| ways[direction].to == end) {
                    self.close(conn, direction);
                }
            }
        }
    }

    /// Another process becomes the monitor.
    pub fn take_over(&mut self) {
        self.epoch += 1;
        self.monitor = Some(Monitor::new(self.epoch));
    }

    /// A lender connects to the monitor, and reports its offer and leases.
    pub fn report_anew(&mut self, number: usize) {
        let conn = self.connect(End::Lender(number), End::Monitor);
        self.lenders[number].uplink = Some(conn);
        self.offer(number);
    }

    fn offer(&mut self, number: usize) {
        let lender = &self.lenders[number];
        let offer = Offer {
            lender: party(number),
            addresses: Vec::new(),
            size_bytes: lender.size,
            is_leaving: lender.pool.is_leaving(),
            network: Network::None,
            node: None,
        };
        let records: Vec<Record> = lender.pool.records().cloned().collect();
        if let Some(conn) = lender.uplink {
            self.request(conn, &Request::Offer(offer, records));
        }
    }

    pub fn deliver(&mut self, conn: Conn, direction: usize) {
        let way = &mut self.conns.get_mut(&conn).unwrap()[direction];
        match (way.to, way.messages.pop_front().unwrap()) {
            (End::Monitor, Message::Request(request)) => self.monitor_hears(conn, request),
            (End::Lender(number), Message::Request(request)) => {
                self.lender_hears(number, conn, request);
            }
            (End::Borrower(number), Message::Reply(reply)) => {
                self.borrower_hears(number, conn, reply)
            }
            _ => {}
        }
    }

    /// An end notices that the other one is gone.
    pub fn notice(&mut self, conn: Conn, direction: usize) {
        let Way { to, is_broken, .. } = self.conns[&conn][direction];
        self.close(conn, direction);
        match to {
            End::Monitor => {
                self.monitor.as_mut().unwrap().step(monitor::Event::Gone(conn));
            }
            End::Lender(number) if self.lenders[number].uplink == Some(conn) => {
                self.lenders[number].uplink = None;
            }
            End::Lender(number) if is_broken => self.pool(number, pool::Event::Broken(conn)),
            End::Lender(number) => self.pool(number, pool::Event::Gone(conn)),
            End::Borrower(number) => self.borrower_gone(number, conn),
        }
    }

    fn monitor_hears(&mut self, conn: Conn, request: Request) {
        let event = match request {
            Request::Offer(offer, records) => monitor::Event::Offer(conn, offer, records),
            Request::Leased(record) => monitor::Event::Leased(conn, record),
            Request::Ended(base) => monitor::Event::Ended(conn, base),
            Request::Want(want) => monitor::Event::Want(conn, want),
            _ => return self.broken = Some("not for the monitor"),
        };
        for action in self.monitor.as_mut().unwrap().step(event) {
            match action {
                monitor::Action::Grant(to, pieces) => self.reply(to, &Reply::Granted(pieces)),
                monitor::Action::Refuse(to, _) => self.reply(to, &Reply::Refused(String::new())),
            }
        }
    }

    fn lender_hears(&mut self, number: usize, conn: Conn, request: Request) {
        let event = match request {
            Request::Lease { ticket, size_bytes, borrower, .. } => {
                pool::Event::Ask(conn, self.account, ticket, size_bytes, borrower)
            }
            Request::Return => pool::Event::Return(conn),
            Request::Resume { base, .. } => pool::Event::Resume(conn, base),
            _ => return self.broken = Some("not for a lender"),
        };
        self.pool(number, event);
    }

    /// The thread that makes memory is done.
    pub fn made(&mut self, number: usize, base: u64, is_there: bool) {
        self.lenders[number].making.remove(&base);
        if !is_there {
            return self.pool(number, pool::Event::NotMade(base, String::new()));
        }
        self.lenders[number].memory.insert(base, 0);
        self.pool(number, pool::Event::Made(base));
    }

    /// The borrower of a lease had its time to come back.
    pub fn expire(&mut self, number: usize, base: u64) {
        self.lenders[number].orphans.remove(&base);
        self.pool(number, pool::Event::Expire(base));
    }

    pub fn leave(&mut self, number: usize) {
        self.pool(number, pool::Event::Leave);
        self.offer(number);
    }

    pub fn end_of_grace(&mut self, number: usize) {
        self.pool(number, pool::Event::Close);
    }

    fn pool(&mut self, number: usize, event: pool::Event) {
        use pool::Action;
        for action in self.lenders[number].pool.step(event) {
            match action {
                Action::Make(base, _) => {
                    self.lenders[number].making.insert(base);
                }
                Action::Grant(user, record) => {
                    let (base, size_bytes) = (record.base, record.size_bytes);
                    self.lenders[number].memory.insert(base, size_bytes);
                    self.reply(user, &Reply::Leased { base, size_bytes, token: String::new() });
                    self.report(number, &Request::Leased(record));
                }
                Action::Refuse(user, _) => self.reply(user, &Reply::Refused(String::new())),
                Action::Destroy(base) => {
                    self.lenders[number].orphans.remove(&base);
                    if self.lenders[number].memory.remove(&base).is_none() {
                        self.broken = Some("memory thrown away twice");
                    }
                }
                Action::Report(base) => self.report(number, &Request::Ended(base)),
                Action::Returned(user) => self.reply(user, &Reply::Returned),
                Action::Notify(user) => self.reply(user, &Reply::Notice(0)),
                Action::Orphan(base) => {
                    self.lenders[number].orphans.insert(base);
                }
                Action::Resumed(user, base) => {
                    self.lenders[number].orphans.remove(&base);
                    self.reply(user, &Reply::Resumed);
                }
                Action::NoLease(user) => self.reply(user, &Reply::NoLease),
                Action::HangUp(user) => self.close(user, 0),
            }
        }
    }

    fn report(&mut self, number: usize, report: &Request) {
        if let Some(conn) = self.lenders[number].uplink {
            self.request(conn, report);
        }
    }

    pub fn want(&mut self, number: usize, bytes: u64, copies: u32) {
        self.borrowers[number].has_wanted = true;
        self.borrowers[number].amts = vec![Amt::new(16, 0, bytes); copies as usize];
        self.borrow(number, borrowing::Event::Want(bytes, copies));
    }

    pub fn release(&mut self, number: usize) {
        self.borrowers[number].has_released = true;
        self.borrow(number, borrowing::Event::Release);
    }

    fn borrower_hears(&mut self, number: usize, conn: Conn, reply: Reply) {
        use borrowing::Event;
        let borrower = &mut self.borrowers[number];
        if borrower.monitor == Some(conn) {
            let event = match reply {
                Reply::Granted(copies) => {
                    let pieces = copies.iter().flatten();
                    let name = |piece: &Piece| (piece.lender.name.parse().unwrap(), None);
                    borrower.blocks = pieces.map(name).collect();
                    borrower.slots.clear();
                    self.tickets(number, &copies);
                    let sizes =
                        |copy: &Vec<Piece>| copy.iter().map(|piece| piece.size_bytes).collect();
                    Event::Decided(copies.iter().map(sizes).collect())
                }
                _ => Event::NotDecided,
            };
            return self.borrow(number, event);
        }
        let Some(block) = borrower.blocks.iter().position(|&(_, to)| to == Some(conn)) else {
            return self.broken = Some("an answer on an unknown connection");
        };
        match reply {
            Reply::Leased { base, size_bytes, .. } => {
                self.borrow(number, Event::Answered(block, base, size_bytes));
            }
            Reply::Refused(_) => self.borrow(number, Event::Refused(block)),
            Reply::Resumed => {
                self.borrowers[number].resuming.remove(&conn);
            }
            Reply::NoLease => {
                self.hang_up(number, block);
                self.borrow(number, Event::Lost(block));
            }
            Reply::Returned => {
                self.hang_up(number, block);
                self.borrow(number, Event::Returned(block));
            }
            _ => {}
        }
    }

    /// The decisions are kept with the connections that will show them.
    fn tickets(&mut self, number: usize, copies: &[Vec<Piece>]) {
        let Borrower { amts, slots, .. } = &mut self.borrowers[number];
        for (amt, pieces) in amts.iter_mut().zip(copies) {
            for piece in pieces {
                let slot = amt.reserve(piece.size_bytes, 1).expect("there is room");
                amt.ask(slot).expect("it was reserved");
                slots.push(Some(slot));
            }
        }
        for (block, piece) in copies.iter().flatten().enumerate() {
            let lender = self.borrowers[number].blocks[block].0;
            let conn = self.connect(End::Borrower(number), End::Lender(lender));
            self.borrowers[number].blocks[block].1 = Some(conn);
            if !self.lenders[lender].lives {
                self.close(conn, 0);
            }
            let (ticket, size_bytes) = (piece.ticket, piece.size_bytes);
            let borrower = party(number);
            let purpose = Right::Borrow;
            let lease = Request::Lease { ticket, size_bytes, borrower, patience_ms: 0, purpose };
            self.request(conn, &lease);
        }
    }

    fn hang_up(&mut self, number: usize, block: usize) {
        if let Some(conn) = self.borrowers[number].blocks[block].1.take() {
            self.borrowers[number].resuming.remove(&conn);
            self.close(conn, 1);
        }
    }

    fn borrower_gone(&mut self, number: usize, conn: Conn) {
        let borrower = &mut self.borrowers[number];
        if borrower.monitor == Some(conn) {
            borrower.monitor = None;
            return self.borrow(number, borrowing::Event::NotDecided);
        }
        if let Some(block) = borrower.blocks.iter().position(|&(_, to)| to == Some(conn)) {
            borrower.blocks[block].1 = None;
            borrower.resuming.remove(&conn);
            if !self.resume(number, block) {
                self.borrow(number, borrowing::Event::Lost(block));
            }
        }
    }

    /// Asks a lender, if it lives, for a lease that the borrower has.
    fn resume(&mut self, number: usize, block: usize) -> bool {
        let Borrower { machine, slots, amts, blocks, .. } = &self.borrowers[number];
        let borrowing::Block { state, copy, .. } = machine.blocks()[block];
        let lender = blocks[block].0;
        let is_active = state == borrowing::State::Active;
        if !(self.resumes && is_active && self.lenders[lender].lives) {
            return false;
        }
        let entry = slots[block].and_then(|slot| amts[copy as usize].get(slot));
        let base = entry.expect("it was filled").remote_base;
        let conn = self.connect(End::Borrower(number), End::Lender(lender));
        self.borrowers[number].blocks[block].1 = Some(conn);
        self.borrowers[number].resuming.insert(conn);
        self.request(conn, &Request::Resume { base, token: String::new() });
        true
    }

    /// A borrower has waited long enough for a lender.
    pub fn time_out(&mut self, number: usize, block: usize) {
        self.hang_up(number, block);
        self.borrow(number, borrowing::Event::Lost(block));
    }

    fn borrow(&mut self, number: usize, event: borrowing::Event) {
        use borrowing::Action;
        let mut actions = VecDeque::from(self.borrowers[number].machine.step(event));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::AskMonitor => self.ask_monitor(number),
                // See `tickets`.
                Action::AskLender(_) => {}
                Action::Fill(block, base) => self.fill(number, block, base),
                Action::Fault(block) => {
                    let copy = self.borrowers[number].machine.blocks()[block].copy;
                    let borrower = &mut self.borrowers[number];
                    let slot = borrower.slots[block].take().expect("it was filled");
                    borrower.amts[copy as usize].release(slot).expect("it was mapped");
                    borrower.amts[copy as usize].free(slot).expect("it was released");
                }
                Action::Return(block) => match self.borrowers[number].blocks[block].1 {
                    Some(conn) => self.request(conn, &Request::Return),
                    None => actions
                        .extend(self.borrowers[number].machine.step(borrowing::Event::Lost(block))),
                },
                Action::Borrowed | Action::Failed | Action::Released => {
                    if let Some(conn) = self.borrowers[number].monitor.take() {
                        self.close(conn, 1);
                    }
                    for block in 0..self.borrowers[number].blocks.len() {
                        if action != Action::Borrowed {
                            self.hang_up(number, block);
                        }
                    }
                    self.borrowers[number].outcome = Some(action);
                }
            }
        }
    }

    fn ask_monitor(&mut self, number: usize) {
        if self.monitor.is_none() {
            return self.borrow(number, borrowing::Event::NotDecided);
        }
        let conn = self.connect(End::Borrower(number), End::Monitor);
        self.borrowers[number].monitor = Some(conn);
        let blocks = self.borrowers[number].machine.blocks();
        let want = Want {
            borrower: party(number),
            size_bytes: blocks[0].size_bytes,
            copies: blocks.len() as u32,
            avoid: Vec::new(),
            purpose: Right::Borrow,
            account: self.account,
        };
        self.request(conn, &Request::Want(want));
    }

    fn fill(&mut self, number: usize, block: usize, remote_base: u64) {
        let borrower = &mut self.borrowers[number];
        let copy = borrower.machine.blocks()[block].copy as usize;
        let target = Target { destination: borrower.blocks[block].0 as u16, address: remote_base };
        let slot = borrower.slots[block].expect("it was reserved");
        if borrower.amts[copy].grant(slot, target).is_err() {
            self.broken = Some("a block cannot be mapped");
        }
    }
}
