//! Queues: entries of every kind.

use crate::support::raw::{self, Raw};
use crate::support::{BOUND, TestRack};
use rackmem::Status;
use rackmem::protocol::{Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::shm::queue::QueueMemory;
use rackmem_abi::{CqEntry, WqEntry, phase_of};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::bystander::{Bystander, Edge, StopAtEnd};
use crate::{Random, start, wait};

/// A queue pair driven by hand, with manners: a slot is used again after its completion.
pub(crate) struct Poster {
    pub(crate) memory: QueueMemory,
    size: u32,
    pub(crate) posted: u32,
    pub(crate) reaped: u32,
    busy: Vec<bool>,
    pub(crate) last: u8,
}

impl Poster {
    pub(crate) fn new(memory: QueueMemory, size: u32) -> Poster {
        Poster { memory, size, posted: 0, reaped: 0, busy: vec![false; size as usize], last: 0 }
    }

    /// Takes the completions that are there; each must be of a busy slot.
    pub(crate) fn reap(&mut self) {
        loop {
            let word = self.memory.cq_entry(self.reaped % self.size).load(Ordering::Acquire);
            let entry = CqEntry::decode(word);
            if entry.phase != phase_of(self.reaped, self.size) {
                return;
            }
            assert_ne!(self.reaped, self.posted, "a completion of nothing");
            let busy = &mut self.busy[usize::from(entry.slot)];
            assert!(std::mem::replace(busy, false), "slot {} completes twice", entry.slot);
            assert!(Status::from_code(entry.status_code).is_some());
            self.last = entry.status_code;
            self.reaped += 1;
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        !self.busy[(self.posted % self.size) as usize]
    }

    pub(crate) fn post(&mut self, entry: WqEntry) {
        assert!(self.is_free());
        let slot = self.posted % self.size;
        let words = WqEntry { phase: phase_of(self.posted, self.size), ..entry }.encode();
        self.memory.wq_word(slot, 1).store(words[1], Ordering::Relaxed);
        self.memory.wq_word(slot, 0).store(words[0], Ordering::Release);
        self.busy[slot as usize] = true;
        self.posted += 1;
    }
}

/// An entry that means mischief more often than chance would.
fn entry(random: &mut Random, buffers: &[u64]) -> WqEntry {
    let offset = match random.below(6) {
        0 => random.below(1 << 40),
        1 => Edge::BYTES - random.below(80),
        2 => Edge::BYTES + random.below(4096),
        3 => rackmem_abi::MAX_OFFSET - random.below(100),
        _ => random.below(Edge::BYTES / 8) * 8,
    };
    let length = match random.below(8) {
        // Seldom: by packets it is a quarter of a million lines, each with an error of its own.
        0 if random.below(30) == 0 => random.below(1 << 24) as u32,
        0 => random.below(100_000) as u32,
        1 => 0,
        2 => random.below(3000) as u32,
        3 => Edge::BYTES as u32 + random.below(3) as u32 - 1,
        4..6 => 8,
        _ => random.below(200) as u32,
    };
    WqEntry {
        phase: random.below(2) == 0,
        op_code: random.below(8) as u8,
        dst_nid: if random.below(8) == 0 { random.below(4096) } else { random.below(3) } as u16,
        offset,
        length,
        buffer: buffers[random.below(buffers.len() as u64) as usize] + random.below(9000),
    }
}

/// Takes completions, of which the `last` came when it says. If there are none, leaves the core to
/// the daemons.
fn reap_or_rest(queues: &mut [Poster], last: &mut Instant) {
    let reaped = |queues: &[Poster]| queues.iter().map(|queue| queue.reaped).sum::<u32>();
    let before = reaped(queues);
    queues.iter_mut().for_each(Poster::reap);
    if reaped(queues) != before {
        *last = Instant::now();
        return;
    }
    assert!(last.elapsed() < BOUND, "an entry never completes");
    std::thread::sleep(Duration::from_micros(20));
}

/// The role `poster <progress> <polite|wild> <seed>`: a member of context 0 at node 0.
pub(crate) fn be_poster(args: &[String]) {
    let progress = Progress::from_name(&args[0]).unwrap();
    let polite = args[1] == "polite";
    let mut random = Random(args[2].parse::<u64>().unwrap() * 2 + 1);
    let rack = Rack::named(None).unwrap();
    let (raw, [_segment, _flag, wake]) = Raw::member(&rack, 0, 0, Edge::BYTES);
    let ring = || rustix::io::write(&wake, &1u64.to_ne_bytes()).map(|_| ()).unwrap_or(());
    // Nothing is mapped there in this process, so that only it would come to harm.
    let nowhere = 0x2345_0000_0000u64;
    let claims = [nowhere, nowhere + 4096, 0, u64::MAX - 5000, (1 << 48) - 100, 1 << 47];
    for address in claims {
        let made = raw.call(&Request::CreateBuffer { size_bytes: 16384 }, &[]).unwrap();
        let Response::Buffer { buffer } = made.message else { panic!("{:?}", made.message) };
        raw.call(&Request::PlaceBuffer { buffer, address }, &[]).unwrap();
    }
    raw.call(&Request::PlaceSegment { address: nowhere + 5000 }, &[]).unwrap();
    let buffers =
        [nowhere, nowhere + 4096, 0, (1 << 48) - 10_000, 1 << 47, 0x2345_6700_0000, 1 << 45];
    // Over its own buffers answers overwrite a queue; a member with manners keeps them apart.
    let queues_at = if polite { 0x2346_0000_0000 } else { nowhere };
    let mut queues: Vec<Poster> = [2, 16, 128]
        .map(|size| {
            let (qp, memory) = raw.queue_pair(size, progress);
            let address = queues_at + u64::from(size) * 100;
            raw.call(&Request::PlaceQp { qp, address }, &[]).unwrap();
            Poster::new(memory, size)
        })
        .into();
    if polite {
        let mut last = Instant::now();
        while queues.iter().any(|queue| queue.posted < 600) {
            reap_or_rest(&mut queues, &mut last);
            for queue in &mut queues {
                if queue.posted < 2000 && queue.is_free() {
                    queue.post(entry(&mut random, &buffers));
                }
            }
            ring();
        }
        while queues.iter().any(|queue| queue.reaped != queue.posted) {
            ring();
            reap_or_rest(&mut queues, &mut last);
        }
        std::thread::sleep(Duration::from_millis(20));
        queues.iter_mut().for_each(Poster::reap);
    } else {
        for round in 0..60_000u32 {
            let queue = &queues[random.below(3) as usize];
            let slot = random.below(128) as u32;
            let words = if random.below(10) == 0 {
                [random.next(), random.next()]
            } else {
                entry(&mut random, &buffers).encode()
            };
            queue.memory.wq_word(slot, 1).store(words[1], Ordering::Relaxed);
            queue.memory.wq_word(slot, 0).store(words[0], Ordering::Release);
            if random.below(20) == 0 {
                // Counters, bed, completions: all of it is the client's to write.
                let at = random.below(queue.memory.mapping().len() as u64 / 8) as usize * 8;
                let word = if random.below(2) == 0 { u64::MAX } else { random.next() };
                // SAFETY: within the mapping, a multiple of 8.
                let place = unsafe { &*queue.memory.mapping().base().add(at).cast::<AtomicU64>() };
                place.store(word, Ordering::Relaxed);
            }
            if round % 16 == 0 {
                ring();
            }
        }
    }
    // Gone in the middle of it, without a word.
    std::process::exit(0);
}

#[test]
fn no_entry_reaches_beyond_its_context() {
    let rack = TestRack::start("entries", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let bystanders =
        [Bystander::new(&rack, 1, Progress::Packet), Bystander::new(&rack, 2, Progress::Daemon)];
    let edges = [Edge::new(&rack, 0, 0), Edge::new(&rack, 1, 0)];
    let pids = [0, 1].map(|nid| raw::status(&rack.rack, nid).pid);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _stop = StopAtEnd(&stop);
        for bystander in &bystanders {
            threads.spawn(|| bystander.work(&stop));
        }
        for progress in [Progress::Daemon, Progress::Packet] {
            for manners in ["polite", "wild"] {
                for seed in 1..3 {
                    let args = format!("{} {manners} {seed}", progress.name());
                    let status = wait(start(&rack, "poster", &args));
                    assert!(manners == "wild" || status.success(), "{args}: {status}");
                }
            }
        }
        bystanders.iter().for_each(Bystander::wait_at_work);
    });
    assert!(bystanders.iter().all(Bystander::is_untouched));
    assert!(edges.iter().all(Edge::is_untouched));
    assert_eq!(pids, [0, 1].map(|nid| raw::status(&rack.rack, nid).pid));
}

/// Places a queue pair's operands until the daemon has enough. Returns the number of places.
fn use_up_places(raw: &Raw) -> u64 {
    let (qp, _) = raw.queue_pair(2, Progress::Inline);
    for made in 0..10_000 {
        let place = Request::PlaceQp { qp, address: (1 + made) << 30 };
        match raw.call(&place, &[]).unwrap().message {
            Response::Done => {}
            Response::Error { errno: libc::ENOSPC, .. } => return made,
            other => panic!("{other:?}"),
        }
    }
    panic!("there is no limit");
}

#[test]
fn places_go_with_the_queue_pairs_that_have_them() {
    let rack = TestRack::start("places", 1);
    rack.rack.create_context(0, 0o600).unwrap();
    let (raw, _) = Raw::member(&rack.rack, 0, 0, 4096);
    let most = use_up_places(&raw);
    assert!(most > 256, "{most} places");
    // It is destroyed.
    assert!(matches!(
        raw.call(&Request::DestroyQp { qp: 0 }, &[]).unwrap().message,
        Response::Done
    ));
    assert_eq!(use_up_places(&raw), most);
    // Its member leaves, and joins again by the same connection.
    for _ in 0..3 {
        assert!(matches!(raw.call(&Request::Close, &[]).unwrap().message, Response::Done));
        let file = rack.rack.open_context(0, false).unwrap();
        raw.open(0, 4096, file.as_fd());
        assert_eq!(use_up_places(&raw), most);
    }
    // Its context is made again, and this member stays in the old one.
    rack.rack.remove_context(0).unwrap();
    rack.rack.create_context(0, 0o600).unwrap();
    let _new = Raw::member(&rack.rack, 0, 0, 4096);
    assert_eq!(use_up_places(&raw), most);
}
