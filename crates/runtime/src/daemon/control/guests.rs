//! Processes that have a link of their own to a daemon of another host.
//!
//! A process asks its daemon to be *invited* by the daemon of another node. The first daemon makes a number and a
//! random key, and announces both to the second one, with the context and the rights that it vouches for. The process
//! gets number and key, connects by itself, and proves by the key that it is the one that was announced.
//!
//! # Decisions
//!
//! - *The link of a guest ends with what it rests on*: the link between the daemons, its own node's membership in the
//!   context, the segment that it was told of. While there is no segment, its requests get the reason. It ends when
//!   there is another one.
//! - *A hello may overtake its announcement*, which comes by another connection. It waits, as long as any handshake.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rackmem_fabric::credentials::Credentials;
use rackmem_fabric::greeting::{Hello, Purpose};
use rackmem_fabric::guest::{Invitation, READY};
use rackmem_fabric::socket;
use rackmem_fabric::stream::Stream;
use rackmem_fabric::tcp::TcpLink;
use rackmem_rmc::Rights;
use rustix::event::epoll;
use rustix::rand::{GetRandomFlags, getrandom};

use super::far::Far;
use super::{Answer, Context, Control, PeerSegment, Refusal, refuse};
use crate::daemon::worker::Command;
use crate::links::Guest;
use crate::protocol::{Admission, Request, Response};

/// Time from the announcement of a guest to its proof.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Announced guests and links of guests, of one node. Each takes two descriptors.
const MAX_GUESTS_PER_NODE: usize = 64;

/// The same of all nodes.
const MAX_GUESTS: usize = 192;

/// An announced guest that has not come.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) nid: u16,
    pub(super) admission: Admission,
    ends: Instant,
    /// There is no place for it; it is told so when it comes.
    is_refused: bool,
}

/// A guest that has come.
#[derive(Debug)]
pub(super) struct Present {
    nid: u16,
    ctx_id: u16,
    socket: OwnedFd,
}

fn random<const N: usize>() -> std::result::Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| refuse("no random numbers")(error.into()))?;
    Ok(bytes)
}

impl Far {
    /// Proof of the guest with this number, if it was announced.
    pub(super) fn admitted_by(&self, number: u64) -> Option<Credentials> {
        let expected = self.expected.get(&number)?;
        let key = (expected.ends > Instant::now()).then_some(expected.admission.key)?;
        Some(Credentials::Guest { admission: number, key })
    }

    /// Whether a hello that was sealed by an admission's key is the announced one's.
    pub(super) fn check_guest(
        &self,
        number: u64,
        hello: &Hello,
    ) -> std::result::Result<(), String> {
        let expected =
            self.expected.get(&number).ok_or("the invitation was used, or is too old")?;
        let is_it = hello.purpose == Purpose::Guest
            && hello.from == expected.nid
            && hello.to == self.nid
            && hello.sealed != self.file.cleartext;
        if expected.is_refused {
            return Err("it has too many processes with a link already".to_owned());
        }
        is_it.then_some(()).ok_or_else(|| "the invitation is another one's".to_owned())
    }

    /// Processes of a node that have a link.
    pub(super) fn guests_from(&self, nid: u16) -> usize {
        self.guests.values().filter(|guest| guest.nid == nid).count()
    }

    fn guests_of(&self, nid: u16) -> usize {
        let expected = self.expected.values().filter(|expected| expected.nid == nid).count();
        expected + self.guests_from(nid)
    }
}

impl Control {
    /// Has the daemon of a node on another host invite a member of this one.
    pub(super) fn invite(&mut self, id: u64, nid: u16) -> Answer {
        let no_link = || (libc::ENETUNREACH, format!("no link over a network to node {nid}"));
        let member = self.member(id)?;
        if !member.invitations.take() {
            return Err((libc::EAGAIN, "too many invitations at a time".to_owned()));
        }
        let (ctx_id, incarnation, rights) = (member.ctx_id, member.incarnation, member.rights);
        let is_there = |segment: &PeerSegment| match segment {
            PeerSegment::Remote(bounds) => Some(*bounds),
            _ => None,
        };
        let peer = self.peer_contexts.get(&(nid, ctx_id));
        let bounds = peer.filter(|peer| peer.incarnation == incarnation);
        let bounds = bounds.and_then(|peer| is_there(&peer.segment)).ok_or_else(no_link)?;
        let far = self.far.as_ref().ok_or_else(no_link)?;
        let there = far.peers.get(&nid).ok_or_else(no_link)?.address;
        let here = far.file.nodes[usize::from(self.nid)].address;
        let hello = far.hello(nid, Purpose::Guest);
        let (number, key) = (u64::from_ne_bytes(random()?), random()?);
        let is_read_only = rights == Rights::ReadOnly;
        let size_bytes = bounds.size_bytes;
        let admission = Admission { number, key, ctx_id, incarnation, is_read_only, size_bytes };
        let link = self.peers.get(&nid).copied().ok_or_else(no_link)?;
        super::peers::tell(self.session(link), &Request::Admit(admission), &[]);
        let invitation = Box::new(Invitation { here, there, number, key, hello });
        Ok((Response::Invited { invitation, size_bytes }, Vec::new()))
    }

    /// A daemon announces a guest. One that has come already goes on.
    pub(super) fn admit(&mut self, nid: u16, admission: Admission) {
        let Some(far) = &mut self.far else { return };
        let now = Instant::now();
        far.expected.retain(|_, expected| expected.ends > now);
        let of_all = far.expected.len() + far.guests.len();
        let is_refused = far.guests_of(nid) >= MAX_GUESTS_PER_NODE || of_all >= MAX_GUESTS;
        // Those that are refused are remembered for a while, within bounds.
        if of_all >= 2 * MAX_GUESTS {
            return;
        }
        let ends = now + ADMISSION_TIMEOUT;
        far.expected.insert(admission.number, Expected { nid, admission, ends, is_refused });
        for id in far.waiting_guests() {
            self.greet(id);
        }
    }

    /// A guest has proved that it is the announced one.
    pub(super) fn welcome_guest(&mut self, number: u64, mut stream: Stream) {
        let Some(far) = &mut self.far else { return };
        let Some(Expected { nid, admission, .. }) = far.expected.remove(&number) else { return };
        let Admission { ctx_id, incarnation, is_read_only, size_bytes, .. } = admission;
        let is_its = |context: &Context| {
            context.incarnation == incarnation && context.segment.size_bytes() == size_bytes
        };
        if !self.contexts.get(&ctx_id).is_some_and(is_its) {
            return;
        }
        let id = self.next_session;
        let ends = epoll::EventFlags::RDHUP;
        let watched = stream.as_fd().try_clone_to_owned().and_then(|socket| {
            socket::allow_pauses(socket.as_fd())?;
            epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(id), ends)?;
            self.bell.watch(&stream)?;
            Ok(socket)
        });
        let Ok(socket) = watched else { return };
        self.next_session += 1;
        far.guests.insert(id, Present { nid, ctx_id, socket });
        let rights = if is_read_only { Rights::ReadOnly } else { Rights::ReadWrite };
        let guest = Guest { id, nid, ctx_id, rights };
        stream.out().push(READY);
        stream.transmit();
        let link = Box::new(TcpLink::new(stream));
        let _ = self.worker.call(Command::AddGuest(guest, link));
    }

    /// Ends the links of the guests of a node: all, or those in a context.
    pub(super) fn end_guests(&mut self, nid: Option<u16>, ctx_id: Option<u16>) {
        let Some(far) = &mut self.far else { return };
        let is_meant = |from: u16, to: u16| {
            nid.is_none_or(|nid| nid == from) && ctx_id.is_none_or(|ctx_id| ctx_id == to)
        };
        far.expected.retain(|_, guest| !is_meant(guest.nid, guest.admission.ctx_id));
        let guests = far.guests.iter().filter(|(_, guest)| is_meant(guest.nid, guest.ctx_id));
        let ids: Vec<u64> = guests.map(|(id, _)| *id).collect();
        self.remove_guests(ids);
    }

    /// Ends the link of a guest; `false`: the number is no guest's.
    pub(super) fn end_guest(&mut self, id: u64) -> bool {
        let is_guest = self.far.as_ref().is_some_and(|far| far.guests.contains_key(&id));
        if is_guest {
            self.remove_guests(vec![id]);
        }
        is_guest
    }

    fn remove_guests(&mut self, ids: Vec<u64>) {
        let Some(far) = self.far.as_mut().filter(|_| !ids.is_empty()) else { return };
        for guest in ids.iter().filter_map(|id| far.guests.remove(id)) {
            let _ = epoll::delete(&self.epoll, &guest.socket);
            socket::end(guest.socket.as_fd());
        }
        let _ = self.worker.call(Command::RemoveGuests(ids));
    }
}
