//! The links of a node, as its controller's port to the fabric.
//!
//! *Guests* are processes of other hosts that have a link of their own to this daemon. They only ask: for one context,
//! with the rights that their own daemon has vouched for.

pub mod shm;

use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rackmem_abi::{Header, Op, Status};
use rackmem_fabric::tcp::TcpLink;
use rackmem_fabric::ucx::UcxLink;
use rackmem_fabric::{Faulty, Lane, Link, reply, request};
use rackmem_rmc::{Full, Network, Rights, Sink, Source, Unsent};
use rustix::event::{Timespec, epoll};

/// Connections up to which each is read in turn; of more, the kernel says which have something.
const MAX_READ_BLINDLY: usize = 2;

/// Connections that are found readable at a time.
const EVENTS: usize = 32;

use self::shm::ShmLink;

/// The way to a node.
#[derive(Debug)]
pub enum Path {
    /// Of this host, by memory that both daemons map.
    Shm(Box<ShmLink>),
    /// Of another host.
    Tcp(Box<TcpLink>),
    /// Of another host, by UCX.
    Ucx(Box<UcxLink>),
    /// Of another host, with faults.
    Faulty(Box<Faulty<TcpLink>>),
}

/// Calls a method of [`Link`], whichever it is.
macro_rules! each {
    ($path:expr, $link:ident => $call:expr) => {
        match $path {
            Path::Shm($link) => $call,
            Path::Tcp($link) => $call,
            Path::Ucx($link) => $call,
            Path::Faulty($link) => $call,
        }
    };
}

/// A process of another host that has a link of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Number of the link.
    pub id: u64,
    /// The node that the process is.
    pub nid: u16,
    /// The only context that it reaches.
    pub ctx_id: u16,
    /// Operations that it may do there.
    pub rights: Rights,
}

impl Guest {
    fn may(&self, header: &Header) -> bool {
        let writes = header.op.modifies() || header.op == Op::Notify;
        header.src_nid == self.nid
            && header.ctx_id == self.ctx_id
            && (self.rights == Rights::ReadWrite || !writes)
    }
}

/// Packets that a link with more of them has taken in a row, while others wait: each look at a link costs.
const IN_A_ROW: u32 = 16;

/// The link that a lane is at, so that none starves.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Its place among those that there are.
    at: usize,
    /// Packets that are taken from it before the next one's turn.
    left: u32,
}

impl Turn {
    #[inline]
    fn go_on(&mut self) {
        *self = Turn { at: self.at + 1, left: IN_A_ROW };
    }

    /// A packet of this link was found.
    #[inline]
    fn found(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.go_on();
        }
    }
}

/// The links of a node.
#[derive(Debug)]
pub struct Links {
    nid: u16,
    nodes: usize,
    /// By node; the links of guests follow.
    paths: Vec<Option<Path>>,
    /// In the order of their links.
    guests: Vec<Option<Guest>>,
    /// Links that there are.
    live: Vec<usize>,
    /// Links to other hosts.
    far: Vec<usize>,
    /// Links to other hosts that are read in each turn.
    blind: Vec<usize>,
    /// Whether TCP is so much used that it is asked.
    asks_kernel: bool,
    /// Says which of many connections have something to read, once there are many.
    readable: Option<OwnedFd>,
    /// The next link to look at for requests, and for replies.
    turns: [Turn; 2],
    /// The link whose request [`Network::peek_request`] has named.
    request: Option<usize>,
    /// The link whose reply [`Network::recv_reply`] has returned last.
    reply: Option<usize>,
}

impl Links {
    /// No links yet, in a rack of `nodes` nodes.
    pub fn new(nid: u16, nodes: u16) -> Links {
        let nodes = usize::from(nodes);
        Links {
            nid,
            nodes,
            paths: (0..nodes).map(|_| None).collect(),
            guests: Vec::new(),
            live: Vec::new(),
            far: Vec::new(),
            blind: Vec::new(),
            asks_kernel: false,
            readable: None,
            turns: [Turn { at: 0, left: IN_A_ROW }; 2],
            request: None,
            reply: None,
        }
    }

    /// Adds or removes the link to a node. Returns whether there was one before.
    pub fn set(&mut self, nid: u16, path: Option<Path>) -> bool {
        self.put(usize::from(nid), path)
    }

    /// Adds the link of a guest.
    pub fn add_guest(&mut self, guest: Guest, link: Box<TcpLink>) {
        let free = self.guests.iter().position(Option::is_none);
        let place = free.unwrap_or(self.guests.len());
        if free.is_none() {
            self.guests.push(None);
            self.paths.push(None);
        }
        self.guests[place] = Some(guest);
        self.put(self.nodes + place, Some(Path::Tcp(link)));
    }

    /// Removes the link of a guest.
    pub fn remove_guest(&mut self, id: u64) {
        let is_it = |guest: &Option<Guest>| guest.is_some_and(|guest| guest.id == id);
        let Some(place) = self.guests.iter().position(is_it) else { return };
        self.guests[place] = None;
        self.put(self.nodes + place, None);
    }

    fn put(&mut self, index: usize, path: Option<Path>) -> bool {
        // The reply that was returned last has been used, whichever link it came by.
        if let Some(index) = self.reply.take() {
            self.take(Lane::Reply, index);
        }
        self.request = None;
        if let (Some(Path::Tcp(link)), Some(readable)) = (&self.paths[index], &self.readable) {
            // The socket may be open elsewhere, and would be reported.
            let _ = epoll::delete(readable, link);
        }
        if let (Some(Path::Tcp(link)), Some(readable)) = (&path, &self.readable) {
            add_readable(readable, link, index);
        }
        let old = std::mem::replace(&mut self.paths[index], path);
        self.live = (0..self.paths.len()).filter(|index| self.paths[*index].is_some()).collect();
        let is_far = |index: &usize| !matches!(self.paths[*index], Some(Path::Shm(_)));
        self.far = self.live.iter().copied().filter(is_far).collect();
        let is_tcp = |index: &usize| matches!(self.paths[*index], Some(Path::Tcp(_)));
        let (tcp, mut blind): (Vec<usize>, Vec<usize>) = self.far.iter().partition(|i| is_tcp(i));
        if tcp.len() > MAX_READ_BLINDLY && self.readable.is_none() {
            self.watch_readable();
        }
        self.asks_kernel = tcp.len() > MAX_READ_BLINDLY && self.readable.is_some();
        if !self.asks_kernel {
            blind.extend(tcp);
        }
        self.blind = blind;
        old.is_some()
    }

    /// Has the kernel say from here on which connections have something to read.
    fn watch_readable(&mut self) {
        let Ok(readable) = epoll::create(epoll::CreateFlags::CLOEXEC) else { return };
        for &index in &self.far {
            if let Some(Path::Tcp(link)) = &self.paths[index] {
                add_readable(&readable, link, index);
            }
        }
        self.readable = Some(readable);
    }

    /// Whether a packet waits.
    pub fn have_work(&self) -> bool {
        self.paths.iter().flatten().any(|path| each!(path, link => link.has_work()))
    }

    /// Takes in what other hosts have sent. Returns whether anything has come.
    #[inline]
    pub fn receive(&mut self) -> bool {
        let mut came = self.asks_kernel && self.receive_readable();
        for &index in &self.blind {
            if let Some(path) = &mut self.paths[index] {
                came |= each!(path, link => link.receive());
            }
        }
        came
    }

    fn receive_readable(&mut self) -> bool {
        let Some(readable) = &self.readable else { return false };
        let mut events = [const { std::mem::MaybeUninit::uninit() }; EVENTS];
        let now = Timespec::default();
        let Ok((events, _)) = epoll::wait(readable, &mut events[..], Some(&now)) else {
            return false;
        };
        let mut came = false;
        for event in events {
            if let Some(Some(Path::Tcp(link))) = self.paths.get_mut(event.data.u64() as usize) {
                came |= link.receive();
            }
        }
        if !came {
            // What was read last has ended meanwhile.
            for &index in &self.far {
                if let Some(Path::Tcp(link)) = &mut self.paths[index]
                    && link.has_work()
                {
                    came |= link.receive();
                }
            }
        }
        came
    }

    /// Has packets leave for other hosts, whether or not new ones were sent. Returns whether any did.
    #[inline]
    pub fn transmit_far(&mut self) -> bool {
        let mut left = false;
        for &index in &self.far {
            if let Some(path) = &mut self.paths[index] {
                left |= each!(path, link => link.transmit());
            }
        }
        left
    }

    /// A node of another host whose link has ended.
    #[inline]
    pub fn lost_far(&self) -> Option<u16> {
        let is_lost = |index: &&usize| {
            let path = self.paths[**index].as_ref();
            path.is_some_and(|path| each!(path, link => link.lost().is_some()))
        };
        self.far.iter().find(is_lost).map(|index| *index as u16)
    }

    /// The sockets of links over TCP, and whether something waits to leave by them.
    pub fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.far.iter().filter_map(|index| match &self.paths[*index] {
            Some(Path::Tcp(link)) => Some((link.as_fd(), link.has_staged())),
            _ => None,
        })
    }

    /// Wakes the daemons of this host that packets were sent to, if they sleep.
    pub fn wake(&mut self) {
        for path in self.paths.iter_mut().flatten() {
            if let Path::Shm(link) = path {
                link.transmit();
            }
        }
    }

    fn path(&self, nid: u16) -> Option<&Path> {
        self.paths[..self.nodes].get(usize::from(nid))?.as_ref()
    }

    #[inline]
    fn send<E>(
        &mut self,
        index: usize,
        header: &Header,
        status: Option<Status>,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        match self.paths.get_mut(index) {
            Some(Some(path)) => each!(path, link => link.send(header, status, fill)),
            // Packets to a lost node vanish.
            _ => Some(Ok(())),
        }
    }

    /// The link by which a reply goes: that of the request.
    fn reply_path(&self, dst_nid: u16) -> usize {
        self.request.unwrap_or(usize::from(dst_nid))
    }

    /// The link whose turn it is on a lane; there is one.
    #[inline(always)]
    fn in_turn(&mut self, lane: Lane) -> usize {
        let turn = &mut self.turns[lane as usize];
        if turn.at >= self.live.len() {
            turn.at = 0;
        }
        self.live[turn.at]
    }

    #[inline]
    fn take(&mut self, lane: Lane, index: usize) {
        if let Some(path) = &mut self.paths[index] {
            each!(path, link => link.take(lane));
        }
    }

    fn payload(&self, lane: Lane, index: Option<usize>) -> Source<'_> {
        match index.and_then(|index| self.paths[index].as_ref()) {
            Some(path) => each!(path, link => link.payload(lane)),
            None => Source::new(&[]),
        }
    }

    /// The next request of a link for this node. A node speaks for itself only, and a guest within its rights: one
    /// that does not is no client of ours, and its link ends.
    #[inline]
    fn request_of(&mut self, index: usize) -> Option<Header> {
        let nid = self.nid;
        let guest = index.checked_sub(self.nodes).and_then(|place| self.guests[place]);
        let path = self.paths[index].as_mut()?;
        loop {
            let header = request(each!(path, link => link.front(Lane::Request))?)?;
            let is_right = match &guest {
                None => usize::from(header.src_nid) == index,
                Some(guest) => guest.may(&header),
            };
            if header.dst_nid == nid && is_right {
                return Some(header);
            }
            if guest.is_some() {
                each!(path, link => link.lose("a request beyond the rights of the process"));
            }
            each!(path, link => link.take(Lane::Request));
        }
    }

    /// The next reply of a link; a node speaks for itself only, and nobody has asked guests.
    #[inline]
    fn reply_of(&mut self, index: usize) -> Option<(Header, Status)> {
        let path = self.paths[index].as_mut()?;
        loop {
            let (header, status) = reply(each!(path, link => link.front(Lane::Reply))?)?;
            if usize::from(header.src_nid) == index && index < self.nodes {
                return Some((header, status));
            }
            each!(path, link => link.take(Lane::Reply));
        }
    }
}

fn add_readable(readable: &OwnedFd, link: &TcpLink, index: usize) {
    let data = epoll::EventData::new_u64(index as u64);
    let _ = epoll::add(readable, link, data, epoll::EventFlags::IN);
}

impl Network for Links {
    fn is_up(&self, nid: u16) -> bool {
        self.path(nid).is_some()
    }

    fn unit_bytes(&self, nid: u16) -> usize {
        self.path(nid)
            .map_or(rackmem_abi::LINE_BYTES, |path| each!(path, link => link.unit_bytes()))
    }

    fn can_send_request(&self, dst_nid: u16, payload_bytes: usize, result_bytes: usize) -> bool {
        self.path(dst_nid).is_none_or(
            |path| each!(path, link => link.can_send_request(payload_bytes, result_bytes)),
        )
    }

    #[inline]
    fn send_request(
        &mut self,
        header: &Header,
        load: impl FnOnce(Sink<'_>) -> Result<(), Status>,
    ) -> Result<(), Unsent> {
        let index = usize::from(header.dst_nid);
        self.send(index, header, None, load).ok_or(Unsent::Full)?.map_err(Unsent::Unloaded)
    }

    fn can_send_reply(&self, dst_nid: u16, payload_bytes: usize) -> bool {
        let path = self.paths.get(self.reply_path(dst_nid)).and_then(Option::as_ref);
        path.is_none_or(|path| each!(path, link => link.can_send_reply(payload_bytes)))
    }

    #[inline]
    fn send_reply(
        &mut self,
        header: &Header,
        status: Status,
        fill: impl FnOnce(Sink<'_>),
    ) -> Result<(), Full> {
        let fill = |out: Sink<'_>| {
            fill(out);
            Ok::<(), Infallible>(())
        };
        let index = self.reply_path(header.dst_nid);
        self.send(index, header, Some(status), fill).map(|_| ()).ok_or(Full)
    }

    #[inline]
    fn peek_request(&mut self) -> Option<Header> {
        let mut stalled = None;
        for _ in 0..self.live.len() {
            let index = self.in_turn(Lane::Request);
            if let Some(header) = self.request_of(index) {
                self.request = Some(index);
                if self.can_send_reply(header.src_nid, header.reply_bytes(Status::Ok)) {
                    self.turns[Lane::Request as usize].found();
                    return Some(header);
                }
                stalled.get_or_insert((index, header));
            }
            self.turns[Lane::Request as usize].go_on();
        }
        self.request = stalled.map(|(index, _)| index);
        stalled.map(|(_, header)| header)
    }

    fn operands(&self) -> Source<'_> {
        self.payload(Lane::Request, self.request)
    }

    #[inline]
    fn take_request(&mut self) {
        if let Some(index) = self.request.take() {
            self.take(Lane::Request, index);
        }
    }

    #[inline]
    fn recv_reply(&mut self) -> Option<(Header, Status)> {
        if let Some(index) = self.reply.take() {
            self.take(Lane::Reply, index);
        }
        for _ in 0..self.live.len() {
            let index = self.in_turn(Lane::Reply);
            if let Some(found) = self.reply_of(index) {
                self.turns[Lane::Reply as usize].found();
                self.reply = Some(index);
                return Some(found);
            }
            self.turns[Lane::Reply as usize].go_on();
        }
        None
    }

    fn result(&self) -> Source<'_> {
        self.payload(Lane::Reply, self.reply)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rackmem_abi::Op;

    use super::*;
    use crate::links::shm::{Side, create_memory};

    fn answer(tid: u32) -> Header {
        Header { dst_nid: 0, src_nid: 0, op: Op::Nop, ctx_id: 0, length: 0, offset: 0, tid }
    }

    #[test]
    fn a_guest_does_nothing_beyond_its_rights() {
        let guest = Guest { id: 1, nid: 2, ctx_id: 7, rights: Rights::ReadOnly };
        let request = |src_nid, ctx_id, op| Header { src_nid, ctx_id, op, ..answer(0) };
        assert!(guest.may(&request(2, 7, Op::Read)));
        assert!(!guest.may(&request(1, 7, Op::Read)), "another node");
        assert!(!guest.may(&request(2, 8, Op::Read)), "another context");
        for op in [Op::Write, Op::FetchAdd, Op::CompareSwap, Op::Notify] {
            assert!(!guest.may(&request(2, 7, op)), "{op:?}");
            assert!(Guest { rights: Rights::ReadWrite, ..guest }.may(&request(2, 7, op)));
        }
    }

    /// Whatever happens to other links, each reply is returned once.
    #[test]
    fn a_reply_is_taken_once() {
        let memory = Arc::new(create_memory().unwrap());
        let mut links = Links::new(0, 2);
        links.set(0, Some(Path::Shm(Box::new(ShmLink::new(memory, Side::Loop, None)))));
        for tid in [7, 8] {
            links.send_reply(&answer(tid), Status::Ok, |_| ()).unwrap();
        }
        assert_eq!(links.recv_reply(), Some((answer(7), Status::Ok)));
        links.set(1, None);
        assert_eq!(links.recv_reply(), Some((answer(8), Status::Ok)));
        assert_eq!(links.recv_reply(), None);
    }

    /// The sources of the packets that a node takes, as runs, when others have sent it so many on a lane.
    fn runs(lane: Lane, sent: [(u16, u32); 2]) -> Vec<(u16, u32)> {
        let mut links = Links::new(0, 3);
        for (nid, packets) in sent {
            let memory = Arc::new(create_memory().unwrap());
            let mut peer = ShmLink::new(memory.clone(), Side::Other, None);
            links.set(nid, Some(Path::Shm(Box::new(ShmLink::new(memory, Side::Maker, None)))));
            let status = (lane == Lane::Reply).then_some(Status::Ok);
            for tid in 0..packets {
                let header = Header { src_nid: nid, ..answer(tid) };
                peer.send(&header, status, |_| Ok::<(), Infallible>(())).unwrap().unwrap();
            }
        }
        let mut next = || match lane {
            Lane::Request => links.peek_request().inspect(|_| links.take_request()),
            Lane::Reply => links.recv_reply().map(|(header, _)| header),
        };
        let mut runs: Vec<(u16, u32)> = Vec::new();
        while let Some(header) = next() {
            match runs.last_mut() {
                Some((nid, packets)) if *nid == header.src_nid => *packets += 1,
                _ => runs.push((header.src_nid, 1)),
            }
        }
        runs
    }

    #[test]
    fn a_busy_link_lets_others_have_their_turn() {
        let row = IN_A_ROW;
        for lane in [Lane::Request, Lane::Reply] {
            let both_busy = runs(lane, [(1, 2 * row + 3), (2, row + 1)]);
            assert_eq!(both_busy, [(1, row), (2, row), (1, row), (2, 1), (1, 3)], "{lane:?}");
            // One that has nothing costs the other no turn.
            assert_eq!(runs(lane, [(1, 0), (2, 2 * row)]), [(2, 2 * row)], "{lane:?}");
        }
    }
}
