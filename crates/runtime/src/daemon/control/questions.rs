//! The state of nodes of other hosts: a process of this host asks its daemon, and that asks theirs.
//!
//! A peer has at most one question to answer. Processes that ask meanwhile get the same answer.

use std::io;
use std::time::{Duration, Instant};

use super::clients::refused;
use super::far::{FarPeer, printable};
use super::{Control, Refusal, peers};
use crate::daemon::line::Line;
use crate::protocol::{Request, Response};
use crate::status::NodeStatus;

/// Time that a daemon of another host has for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A question that a peer has not answered.
#[derive(Debug)]
pub(super) struct Question {
    /// Connections of the processes that ask.
    by: Vec<u64>,
    pub(super) ends: Instant,
}

/// Shortens the lists of a status that no message takes. Returns false if they are empty.
fn shorten(status: &mut NodeStatus) -> bool {
    let longest = status.qps.len().max(status.links.len()).max(status.contexts.len());
    status.qps.truncate(status.qps.len() / 2);
    status.links.truncate(status.links.len() / 2);
    status.contexts.truncate(status.contexts.len() / 2);
    longest > 0
}

impl Control {
    /// Asks the daemon of a node on another host for its state, which a process gets later.
    pub(super) fn ask(&mut self, id: u64, nid: u16) -> Result<(), Refusal> {
        let Some(peer) = self.far.as_mut().and_then(|far| far.peers.get_mut(&nid)) else {
            return Err((libc::EHOSTDOWN, format!("node {nid} is of this host, and not up")));
        };
        let Some(link) = peer.control.filter(|_| peer.is_linked()) else {
            return Err(self.unreached(nid));
        };
        if let Some(question) = &mut peer.question {
            if !question.by.contains(&id) {
                question.by.push(id);
            }
            return Ok(());
        }
        peer.question = Some(Question { by: vec![id], ends: Instant::now() + ANSWER_TIMEOUT });
        peers::tell(self.session(link), &Request::Ask, &[]);
        Ok(())
    }

    /// Why there is no link to a node of another host, since when, and what was tried.
    fn unreached(&self, nid: u16) -> Refusal {
        let known = self.far.as_ref().and_then(|far| Some((far, far.peers.get(&nid)?)));
        let Some((far, peer)) = known else { return (libc::EINVAL, String::new()) };
        let FarPeer { address, calls, since, .. } = peer;
        let calls = match calls {
            0 => String::new(),
            1 => " and a call".to_owned(),
            calls => format!(" and {calls} calls"),
        };
        let (seconds, here, why) = (since.elapsed().as_secs(), self.nid, far.why(nid, peer));
        let text = format!("no link from node {here} to {address} for {seconds} s{calls}: {why}");
        (libc::ENETUNREACH, text)
    }

    /// A daemon of another host asks for the state of this node.
    pub(super) fn tell_status(&mut self, id: u64) -> bool {
        let (Ok(mut status), Some(session)) = (self.status(), self.sessions.get_mut(&id)) else {
            return true;
        };
        while let Err(error) = session.line.send(&Request::Told(Box::new(status.clone())), &[]) {
            let is_too_long = error.kind() == io::ErrorKind::InvalidInput;
            if !is_too_long || !shorten(&mut status) {
                // The peer notices that no answer comes.
                break;
            }
        }
        true
    }

    /// A peer has answered.
    pub(super) fn told(&mut self, nid: u16, mut status: NodeStatus) {
        if status.nid == nid {
            clean(&mut status);
            self.answer_question(nid, &Response::Status(Box::new(status)));
        }
    }

    /// The link to a peer has ended.
    pub(super) fn give_up_question(&mut self, nid: u16) {
        let refusal = self.unreached(nid);
        self.answer_question(nid, &refused(refusal));
    }

    pub(super) fn give_up_questions(&mut self, now: Instant) {
        let is_over = |peer: &FarPeer| peer.question.as_ref().is_some_and(|q| q.ends <= now);
        let peers = self.far.iter().flat_map(|far| &far.peers);
        let late: Vec<_> = peers.filter(|(_, peer)| is_over(peer)).map(|(nid, _)| *nid).collect();
        for nid in late {
            let text = format!(
                "the daemon of node {nid} has not answered that of node {} for {ANSWER_TIMEOUT:?}",
                self.nid
            );
            self.answer_question(nid, &refused((libc::ETIMEDOUT, text)));
        }
    }

    fn answer_question(&mut self, nid: u16, response: &Response) {
        let peer = self.far.as_mut().and_then(|far| far.peers.get_mut(&nid));
        let Some(question) = peer.and_then(|peer| peer.question.take()) else { return };
        for id in question.by {
            let session = self.sessions.get_mut(&id);
            if let Some(session) = session.filter(|session| matches!(session.line, Line::Near(_))) {
                // One that does not read notices the end when it does.
                if session.line.send(response, &[]).is_err() {
                    session.line.hang_up("it does not listen");
                }
            }
        }
    }
}

/// Makes the texts of another host's daemon such as may be shown.
fn clean(status: &mut NodeStatus) {
    let links = status.links.iter_mut();
    let of_links = links.flat_map(|link| {
        let key = link.proof.as_mut().and_then(|proof| proof.key.as_mut());
        let texts = [&mut link.address, &mut link.why, &mut link.version];
        texts.into_iter().chain(&mut link.rights).chain(key)
    });
    for text in of_links.chain([&mut status.version]) {
        *text = printable(text);
    }
}
