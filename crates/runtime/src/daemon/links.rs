//! The links of a node, as its controller's port to the fabric.

use std::convert::Infallible;

use rackmem_abi::{Header, Status};
use rackmem_fabric::tcp::TcpLink;
use rackmem_fabric::{Lane, Link};
use rackmem_rmc::{Full, Network, Sink, Source, Unsent};

use super::link::ShmLink;

/// The way to a node.
#[derive(Debug)]
pub enum Path {
    /// Of this host, by memory that both daemons map.
    Shm(Box<ShmLink>),
    /// Of another host.
    Tcp(Box<TcpLink>),
}

/// Calls a method of [`Link`], whichever it is.
macro_rules! each {
    ($path:expr, $link:ident => $call:expr) => {
        match $path {
            Path::Shm($link) => $call,
            Path::Tcp($link) => $call,
        }
    };
}

/// The links of a node.
#[derive(Debug)]
pub struct Links {
    nid: u16,
    paths: Vec<Option<Path>>,
    /// Nodes that are reached over TCP.
    far: Vec<usize>,
    /// Link that is asked first for requests and for replies, so that none starves.
    turn: [usize; 2],
    /// The link whose request [`Network::peek_request`] has named.
    request: Option<usize>,
    /// The link whose reply [`Network::recv_reply`] has returned last.
    reply: Option<usize>,
}

impl Links {
    /// No links yet, in a rack of `nodes` nodes.
    pub fn new(nid: u16, nodes: u16) -> Links {
        let paths = (0..nodes).map(|_| None).collect();
        Links { nid, paths, far: Vec::new(), turn: [0; 2], request: None, reply: None }
    }

    /// Adds or removes the link to a node. Returns whether there was one before.
    pub fn set(&mut self, nid: u16, path: Option<Path>) -> bool {
        // The reply that was returned last has been used, whichever link it came by.
        if let Some(index) = self.reply.take() {
            self.take(Lane::Reply, index);
        }
        self.request = None;
        let old = std::mem::replace(&mut self.paths[usize::from(nid)], path);
        let is_far = |index: &usize| matches!(self.paths[*index], Some(Path::Tcp(_)));
        self.far = (0..self.paths.len()).filter(is_far).collect();
        old.is_some()
    }

    /// Whether a packet waits.
    pub fn have_work(&self) -> bool {
        self.paths.iter().flatten().any(|path| each!(path, link => link.has_work()))
    }

    /// Takes in what other hosts have sent. Returns whether anything has come.
    #[inline]
    pub fn receive(&mut self) -> bool {
        let mut came = false;
        for &index in &self.far {
            if let Some(Path::Tcp(link)) = &mut self.paths[index] {
                came |= link.receive();
            }
        }
        came
    }

    /// Has packets leave for other hosts, whether or not new ones were sent. Returns whether any did.
    #[inline]
    pub fn transmit_far(&mut self) -> bool {
        let mut left = false;
        for &index in &self.far {
            if let Some(Path::Tcp(link)) = &mut self.paths[index] {
                left |= link.transmit();
            }
        }
        left
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
        self.paths.get(usize::from(nid))?.as_ref()
    }

    #[inline]
    fn send<E>(
        &mut self,
        header: &Header,
        status: Option<Status>,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        match self.paths.get_mut(usize::from(header.dst_nid)) {
            Some(Some(path)) => each!(path, link => link.send(header, status, fill)),
            // Packets to a lost node vanish.
            _ => Some(Ok(())),
        }
    }

    /// The links from the one on whose turn it is.
    fn in_turn(&self, lane: Lane) -> impl Iterator<Item = usize> + use<> {
        let turn = self.turn[lane as usize];
        (turn..self.paths.len()).chain(0..turn)
    }

    fn take(&mut self, lane: Lane, index: usize) {
        let next = index + 1;
        self.turn[lane as usize] = if next < self.paths.len() { next } else { 0 };
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

    /// The next request of a link for this node; a node speaks for itself only.
    fn request_of(&mut self, index: usize) -> Option<Header> {
        let nid = self.nid;
        let path = self.paths[index].as_mut()?;
        loop {
            let header = each!(path, link => link.request())?;
            if header.dst_nid == nid && usize::from(header.src_nid) == index {
                return Some(header);
            }
            each!(path, link => link.take(Lane::Request));
        }
    }

    /// The next reply of a link; a node speaks for itself only.
    fn reply_of(&mut self, index: usize) -> Option<(Header, Status)> {
        let path = self.paths[index].as_mut()?;
        loop {
            let (header, status) = each!(path, link => link.reply())?;
            if usize::from(header.src_nid) == index {
                return Some((header, status));
            }
            each!(path, link => link.take(Lane::Reply));
        }
    }
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
        self.send(header, None, load).ok_or(Unsent::Full)?.map_err(Unsent::Unloaded)
    }

    fn can_send_reply(&self, dst_nid: u16, payload_bytes: usize) -> bool {
        self.path(dst_nid)
            .is_none_or(|path| each!(path, link => link.can_send_reply(payload_bytes)))
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
        self.send(header, Some(status), fill).map(|_| ()).ok_or(Full)
    }

    fn peek_request(&mut self) -> Option<Header> {
        let mut stalled = None;
        for index in self.in_turn(Lane::Request) {
            let Some(header) = self.request_of(index) else { continue };
            if self.can_send_reply(index as u16, header.reply_bytes(Status::Ok)) {
                self.request = Some(index);
                return Some(header);
            }
            stalled.get_or_insert((index, header));
        }
        let (index, header) = stalled?;
        self.request = Some(index);
        Some(header)
    }

    fn operands(&self) -> Source<'_> {
        self.payload(Lane::Request, self.request)
    }

    fn take_request(&mut self) {
        if let Some(index) = self.request.take() {
            self.take(Lane::Request, index);
        }
    }

    fn recv_reply(&mut self) -> Option<(Header, Status)> {
        if let Some(index) = self.reply.take() {
            self.take(Lane::Reply, index);
        }
        for index in self.in_turn(Lane::Reply) {
            if let Some(found) = self.reply_of(index) {
                self.reply = Some(index);
                return Some(found);
            }
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
    use crate::daemon::link::{Side, create_memory};

    fn reply(tid: u32) -> Header {
        Header { dst_nid: 0, src_nid: 0, op: Op::Nop, ctx_id: 0, length: 0, offset: 0, tid }
    }

    /// Whatever happens to other links, each reply is returned once.
    #[test]
    fn a_reply_is_taken_once() {
        let memory = Arc::new(create_memory().unwrap());
        let mut links = Links::new(0, 2);
        links.set(0, Some(Path::Shm(Box::new(ShmLink::new(memory, Side::Loop, None)))));
        for tid in [7, 8] {
            links.send_reply(&reply(tid), Status::Ok, |_| ()).unwrap();
        }
        assert_eq!(links.recv_reply(), Some((reply(7), Status::Ok)));
        links.set(1, None);
        assert_eq!(links.recv_reply(), Some((reply(8), Status::Ok)));
        assert_eq!(links.recv_reply(), None);
    }
}
