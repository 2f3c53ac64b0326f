//! The worker: the thread that is the remote memory controller.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rackmem_abi::Status;
use rackmem_fabric::tcp::TcpLink;
use rackmem_rmc::qp::Qp;
use rackmem_rmc::{Bounds, Network, QpConfig, Rmc, Stats, rgp};

use super::local::{Backing, LocalTable};
use super::packet::{PacketMemory, PacketQps};
use super::{Config, Error, Result};
use crate::direct;
use crate::links::{Guest, Links, Path};
use crate::shm::bell::Bells;
use crate::shm::line_lock::Owner;
use crate::shm::queue::QueueMemory;
use crate::shm::segment::{Segment, View};

/// Names a client of this daemon.
pub type ClientId = usize;

/// Transactions in flight from this node, in packet mode: enough to fill a ring of a link several
/// times over (the papers leave the size of the ITT open).
const ITT_ENTRIES: u32 = 1024;

/// Entries of one queue pair taken before the next one's turn; their completions are published
/// together, so that the application is not disturbed once per entry.
const BATCH: usize = 16;

/// Packets per turn of a pipeline.
const PACKET_BUDGET: usize = 64;

/// While no packets flow, the lanes are looked at once in so many turns: there are many of them,
/// and each look would delay the queue pairs on mapped segments.
const TURNS_PER_PACKET_TURN: u32 = 8;

/// Turns for which packets are expected after the last one: a program that waits for each operation
/// posts the next one after two misses of a cache, which take some ten turns.
const TURNS_AFTER_PACKETS: u32 = 64;

/// Time that control waits for the worker. A turn waits up to five seconds for a line lock.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that control waits for the worker's end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Polls without finding work between two looks at the clock.
const POLLS_PER_LOOK: u32 = 256;

/// A queue pair that the worker is to serve.
#[derive(Debug)]
pub struct NewQp {
    /// The client that owns it.
    pub client: ClientId,
    /// Shared memory of its queues, counters and operands.
    pub memory: Arc<QueueMemory>,
    /// Context, entries, rights.
    pub config: QpConfig,
    /// Whether operations travel as packets; else they run on mapped segments.
    pub by_packets: bool,
}

/// Where the segment of a node lies.
#[derive(Clone, Debug)]
pub enum Place {
    /// In memory that is mapped here.
    Mapped(Arc<Segment>),
    /// On another host.
    Far(Bounds),
}

/// A command of control to the worker.
#[derive(Debug)]
pub enum Command {
    /// A client has come.
    AddClient(ClientId, Owner, LocalTable),
    /// A client has gone: its queue pairs and buffers are forgotten.
    RemoveClient(ClientId),
    /// A client has mapped memory at an address.
    Place(ClientId, u64, Backing),
    /// A queue pair.
    AddQp(NewQp),
    /// A client has this memory no more.
    Forget(ClientId, Backing),
    /// A queue pair less.
    RemoveQp(ClientId, Arc<QueueMemory>),
    /// The segment of a node in a context is mapped, or closed.
    SetSegment {
        /// Node; may be this one.
        nid: u16,
        /// Context.
        ctx_id: u16,
        /// The segment, or the status with which operations on it complete.
        segment: std::result::Result<Place, Status>,
    },
    /// A link is up, or down: then all transfers to the node fail.
    SetLink(u16, Option<Path>),
    /// A process of another host has a link of its own.
    AddGuest(Guest, Box<TcpLink>),
    /// The links with these numbers have ended.
    RemoveGuests(Vec<u64>),
    /// Publishes the counters of queue pairs that run by packets, and sends those of the controller.
    Report(mpsc::Sender<Stats>),
    /// The end.
    Stop,
}

/// A command was not carried out in time. It will be, in its turn, if the worker goes on.
#[derive(Debug)]
pub struct HeldUp;

/// Control's end.
#[derive(Debug)]
pub struct Handle {
    commands: mpsc::Sender<(Command, mpsc::Sender<()>)>,
    pending: Arc<AtomicBool>,
    bell: Arc<Bells>,
    /// Shared by the workers of all nodes of this process; the last one waits for it.
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Handle {
    /// Hands over a command and waits until it is carried out, which takes no longer than the
    /// worker's current turn. That may wait for line locks of processes that were stopped.
    ///
    /// # Errors
    /// It takes longer than [`COMMAND_TIMEOUT`].
    pub fn call(&self, command: Command) -> std::result::Result<(), HeldUp> {
        self.call_within(command, COMMAND_TIMEOUT)
    }

    fn call_within(&self, command: Command, timeout: Duration) -> std::result::Result<(), HeldUp> {
        let (done, wait) = mpsc::channel();
        if self.commands.send((command, done)).is_ok() {
            self.pending.store(true, Ordering::Release);
            self.bell.ring();
            if wait.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout) {
                tracing::error!("the controller has not taken a command for {timeout:?}");
                return Err(HeldUp);
            }
        }
        Ok(())
    }

    /// Ends the worker of this node; `false`: it is held up.
    pub fn stop(&self) -> bool {
        self.call_within(Command::Stop, STOP_TIMEOUT).is_ok()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // One that is held up ends with the process.
        if self.stop() && Arc::strong_count(&self.thread) == 1 {
            let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
            let _ = thread.map(JoinHandle::join);
        }
    }
}

/// Starts one thread that is the worker of each of the nodes.
///
/// # Errors
/// The thread cannot be started, or not be pinned to the core.
pub fn spawn(config: &Config, nodes: u16, bell: &Arc<Bells>) -> Result<Vec<Handle>> {
    let thread = Arc::new(Mutex::new(None));
    let (mut workers, mut handles) = (Vec::new(), Vec::new());
    for &nid in &config.nids {
        let (commands, inbox) = mpsc::channel();
        let pending = Arc::new(AtomicBool::new(false));
        workers.push(Worker::new(nid, nodes, inbox, pending.clone()));
        let (bell, thread) = (bell.clone(), thread.clone());
        handles.push(Handle { commands, pending, bell, thread });
    }
    let (spin, share_core, pin_core) = (config.spin, config.share_core, config.pin_core);
    let (ready, wait) = mpsc::channel();
    let bell = bell.clone();
    let started = std::thread::Builder::new()
        .name("rmc".to_owned())
        .spawn(move || {
            let pinned = pin_core.map_or(Ok(()), pin);
            let go = pinned.is_ok();
            let _ = ready.send(pinned);
            if go {
                run(workers, &bell, spin, share_core);
            }
        })
        .map_err(|e| Error::io("cannot start the worker", e))?;
    *thread.lock().expect("no holder panics") = Some(started);
    match wait.recv() {
        Ok(Err(error)) => Err(Error::io("cannot pin the worker to its core", error)),
        _ => Ok(handles),
    }
}

/// Runs workers in turn until all have been stopped.
fn run(mut workers: Vec<Worker>, bell: &Bells, spin: Duration, share_core: bool) {
    let mut idle_polls = 0;
    let mut idle_since = Instant::now();
    loop {
        if workers.iter().any(Worker::has_command) {
            workers.retain_mut(|worker| !worker.has_command() || worker.obey());
            if workers.is_empty() {
                return;
            }
        }
        if workers.iter_mut().map(Worker::turn).sum::<usize>() != 0 {
            idle_polls = 0;
            continue;
        }
        if idle_polls == 0 {
            idle_since = Instant::now();
        }
        idle_polls += 1;
        if share_core {
            std::thread::yield_now();
        }
        if idle_polls % POLLS_PER_LOOK == 0 && idle_since.elapsed() >= spin {
            bell.sleep_unless(|| workers.iter().any(Worker::has_work));
            idle_polls = 0;
        }
    }
}

fn pin(core: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// A segment as the pipelines need it.
#[derive(Debug)]
enum Known {
    Mapped(View),
    Far(Bounds),
}

/// The segments of all nodes, by context.
#[derive(Debug)]
pub struct Segments {
    nodes: u16,
    /// By node, whether there is a link, on which it announces its contexts.
    is_linked: Vec<bool>,
    by_context: Vec<Vec<std::result::Result<Known, Status>>>,
}

impl Segments {
    fn set(&mut self, nid: u16, ctx_id: u16, place: std::result::Result<Place, Status>) {
        let index = usize::from(ctx_id);
        if index >= self.by_context.len() {
            self.by_context.resize_with(index + 1, Vec::new);
        }
        let known = &mut self.by_context[index];
        known.resize_with(usize::from(self.nodes), || Err(Status::NoContext));
        known[usize::from(nid)] = place.map(|place| match place {
            Place::Mapped(segment) => Known::Mapped(segment.view()),
            Place::Far(bounds) => Known::Far(bounds),
        });
    }

    #[inline(always)]
    fn known(&self, nid: u16, ctx_id: u16) -> std::result::Result<&Known, Status> {
        let known = self.by_context.get(usize::from(ctx_id)).ok_or(Status::NoContext)?;
        match known.get(usize::from(nid)) {
            Some(Ok(known)) => Ok(known),
            Some(Err(why)) => Err(*why),
            None => Err(Status::NoContext),
        }
    }

    /// The segment of a node in a context, if it is mapped.
    ///
    /// # Errors
    /// The status with which operations on it complete.
    #[inline(always)]
    pub fn get(&self, nid: u16, ctx_id: u16) -> std::result::Result<&View, Status> {
        match self.known(nid, ctx_id)? {
            Known::Mapped(view) => Ok(view),
            Known::Far(_) => Err(Status::NoContext),
        }
    }

    /// Whether a range lies in a segment. A node without a link is left to the controller, which finds it lost.
    ///
    /// # Errors
    /// `OutOfSegment`; or the status with which operations on the segment complete, if control knows none.
    #[inline(always)]
    pub fn check(
        &self,
        nid: u16,
        ctx_id: u16,
        offset: u64,
        length: u64,
    ) -> std::result::Result<(), Status> {
        let known = match self.known(nid, ctx_id) {
            Ok(known) => known,
            Err(why) if self.is_linked.get(usize::from(nid)) == Some(&true) => return Err(why),
            Err(_) => return Ok(()),
        };
        let checked = match known {
            Known::Mapped(view) => view.check(offset, length),
            Known::Far(bounds) => bounds.check(offset, length),
        };
        if checked == Err(Status::OutOfSegment) { checked } else { Ok(()) }
    }
}

/// A client as the pipelines need it.
#[derive(Debug)]
pub struct Client {
    /// Its mark in line locks.
    pub owner: Owner,
    /// Its local buffers.
    pub local: LocalTable,
}

/// A queue pair that runs on mapped segments.
#[derive(Debug)]
struct DirectQp {
    client: ClientId,
    memory: Arc<QueueMemory>,
    state: Qp,
}

struct Worker {
    nid: u16,
    nodes: u16,
    inbox: mpsc::Receiver<(Command, mpsc::Sender<()>)>,
    pending: Arc<AtomicBool>,
    clients: Vec<Option<Client>>,
    direct: Vec<DirectQp>,
    segments: Segments,
    rmc: Rmc,
    packet: PacketQps,
    links: Links,
    /// Turns so far, modulo 2^32.
    turns: u32,
    /// Turns for which packets are still expected.
    packet_turns: u32,
}

impl Worker {
    fn new(
        nid: u16,
        nodes: u16,
        inbox: mpsc::Receiver<(Command, mpsc::Sender<()>)>,
        pending: Arc<AtomicBool>,
    ) -> Worker {
        let mut rmc = Rmc::new(nid, nodes, ITT_ENTRIES);
        rmc.share_itt();
        Worker {
            nid,
            nodes,
            inbox,
            pending,
            clients: Vec::new(),
            direct: Vec::new(),
            segments: Segments {
                nodes,
                is_linked: vec![false; usize::from(nodes)],
                by_context: Vec::new(),
            },
            rmc,
            packet: PacketQps::default(),
            links: Links::new(nid, nodes),
            turns: 0,
            packet_turns: 0,
        }
    }

    #[inline(always)]
    fn has_command(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Carries out commands; `false`: stop.
    fn obey(&mut self) -> bool {
        self.pending.store(false, Ordering::Release);
        while let Ok((command, done)) = self.inbox.try_recv() {
            if matches!(command, Command::Stop) {
                return false;
            }
            self.carry_out(command);
            let _ = done.send(());
        }
        true
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::AddClient(id, owner, local) => {
                if id >= self.clients.len() {
                    self.clients.resize_with(id + 1, || None);
                }
                self.clients[id] = Some(Client { owner, local });
            }
            Command::RemoveClient(id) => {
                self.direct.retain(|qp| qp.client != id);
                self.packet.remove_client(id, &mut self.rmc);
                self.clients[id] = None;
            }
            Command::Place(id, address, backing) => {
                if let Some(client) = &mut self.clients[id] {
                    client.local.place(address, backing);
                }
            }
            Command::AddQp(qp) => self.add_qp(qp),
            Command::RemoveQp(id, memory) => {
                self.direct.retain(|qp| !Arc::ptr_eq(&qp.memory, &memory));
                self.packet.remove(&memory, &mut self.rmc);
                self.forget(id, &Backing::Queue(memory));
            }
            Command::Forget(id, backing) => self.forget(id, &backing),
            Command::SetSegment { nid, ctx_id, segment } => {
                let is_own = nid == self.nid;
                match &segment {
                    Ok(Place::Mapped(segment)) if is_own => {
                        let bounds = Bounds { size_bytes: segment.size_bytes() };
                        let installed = self.rmc.install_context(ctx_id, bounds);
                        installed.expect("control has checked the number");
                    }
                    Err(why) if is_own => _ = self.rmc.remove_context(ctx_id, *why),
                    _ => {}
                }
                self.segments.set(nid, ctx_id, segment);
            }
            Command::SetLink(nid, link) => {
                let is_down = link.is_none();
                self.segments.is_linked[usize::from(nid)] = !is_down && nid != self.nid;
                // Requests that were under way on another link get no answer on this one.
                if self.links.set(nid, link) || is_down {
                    let mut memory = PacketMemory::new(
                        self.nid,
                        &self.packet,
                        &mut self.clients,
                        &self.segments,
                    );
                    self.rmc.fail_node(nid, &mut memory);
                }
            }
            Command::AddGuest(guest, link) => self.links.add_guest(guest, link),
            Command::RemoveGuests(ids) => {
                ids.into_iter().for_each(|id| self.links.remove_guest(id))
            }
            Command::Report(reply) => {
                self.packet.publish(&self.rmc);
                let _ = reply.send(*self.rmc.stats());
            }
            Command::Stop => unreachable!("handled by obey"),
        }
    }

    fn forget(&mut self, id: ClientId, backing: &Backing) {
        if let Some(client) = &mut self.clients[id] {
            client.local.forget(backing);
        }
    }

    fn add_qp(&mut self, new: NewQp) {
        if new.by_packets {
            self.packet.add(new, &mut self.rmc);
        } else if let Some(state) = Qp::new(new.config) {
            self.direct.push(DirectQp { client: new.client, memory: new.memory, state });
        }
    }

    /// One turn of all pipelines. Returns the number of steps done.
    #[inline(always)]
    fn turn(&mut self) -> usize {
        let mut steps = 0;
        for qp in &mut self.direct {
            if let Some(client) = &mut self.clients[qp.client] {
                steps += qp.poll(client, &self.segments, &self.links, self.nodes);
            }
        }
        self.turns = self.turns.wrapping_add(1);
        self.packet_turns = self.packet_turns.saturating_sub(1);
        if self.packet_turns != 0 || self.turns % TURNS_PER_PACKET_TURN == 0 {
            let packets = self.turn_packets();
            if packets != 0 {
                self.packet_turns = TURNS_AFTER_PACKETS;
            }
            steps += packets;
        }
        steps
    }

    fn turn_packets(&mut self) -> usize {
        let mut memory =
            PacketMemory::new(self.nid, &self.packet, &mut self.clients, &self.segments);
        let (rmc, links) = (&mut self.rmc, &mut self.links);
        let came = links.receive();
        let steps = rmc.poll_rcp(&mut memory, links, PACKET_BUDGET)
            + rmc.poll_rrpp(&mut memory, links, PACKET_BUDGET)
            + rmc.poll_rgp(&mut memory, links, PACKET_BUDGET);
        if steps != 0 {
            links.wake();
        }
        steps + usize::from(links.transmit_far() || came)
    }

    fn has_work(&self) -> bool {
        self.has_command()
            || self.links.have_work()
            || self.direct.iter().any(DirectQp::has_entry)
            || self.packet.have_entries(&self.rmc)
    }
}

impl DirectQp {
    fn has_entry(&self) -> bool {
        let next = self.state.next_entry();
        rgp::accept(self.memory.wq_words(next.index), next.phase).is_some()
    }

    /// Takes up to a batch of entries, performs them, then publishes their completions.
    #[inline(always)]
    fn poll(
        &mut self,
        client: &mut Client,
        segments: &Segments,
        links: &Links,
        nodes: u16,
    ) -> usize {
        let mut completions = [(0, 0); BATCH];
        let mut count = 0;
        while count < BATCH {
            let next = self.state.next_entry();
            let words = self.memory.wq_words(next.index);
            let Some(entry) = rgp::accept(words, next.phase) else { break };
            let ctx_id = self.state.config().ctx_id;
            let outcome =
                rgp::check(&entry, nodes, self.state.config().rights).and_then(
                    |work| match segments.get(work.dst_nid, ctx_id) {
                        Ok(view) => direct::perform(work, view, &mut client.local, client.owner),
                        Err(_) if !links.is_up(work.dst_nid) => Err(Status::NodeLost),
                        Err(why) => Err(why),
                    },
                );
            let status = outcome.err().unwrap_or(Status::Ok);
            let slot = self.state.take_entry(false);
            completions[count] = self.state.complete(slot, status, entry.length);
            count += 1;
        }
        if count != 0 {
            for (position, word) in &completions[..count] {
                // Publishes the data stored before; pairs with the application's acquire load.
                self.memory.cq_entry(*position).store(*word, Ordering::Release);
            }
            self.memory.bed().wake();
            self.memory.counters().publish(&self.state.stats());
        }
        count
    }
}
