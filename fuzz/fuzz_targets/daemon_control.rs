//! Clients of a daemon that say anything, with any descriptors: its books stay right, and nothing of them stays when
//! they have gone.
#![no_main]

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use rackmem::daemon::fuzz::{Client, Daemon, link_memory};
use rackmem::protocol::{PROTOCOL_VERSION, Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::shm::bell::Bells;
use rackmem::shm::mapping::Mapping;
use rackmem::shm::segment::Segment;

const CLIENTS: usize = 4;
const O_PATH: i32 = 0o10000000;

struct Lab {
    rack: Rack,
    /// There between two inputs.
    daemon: Option<Daemon>,
    /// Descriptors that a client may have open.
    fds: Vec<OwnedFd>,
    open_files: usize,
}

/// Descriptors of this process, but for pipes: those are of the fuzzer, to a program that names functions.
fn open_files() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let names = fds.map(|fd| std::fs::read_link(fd.path()).unwrap_or_default());
    names.filter(|name| !name.to_string_lossy().starts_with("pipe:")).count()
}

impl Lab {
    fn daemon(&mut self) -> &mut Daemon {
        self.daemon.as_mut().expect("it is there between two inputs")
    }
}

fn lab() -> &'static Mutex<Lab> {
    static LAB: OnceLock<Mutex<Lab>> = OnceLock::new();
    LAB.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("rackmem-fuzz-{}", std::process::id()));
        // SAFETY: this process has no other thread yet that asks for the environment.
        unsafe { std::env::set_var("RACKMEM_DIR", &dir) };
        let rack = Rack::named(Some("fuzz")).unwrap();
        rack.create(3).unwrap();
        rack.create_context(1, 0o600).unwrap();
        rack.create_context(2, 0o600).unwrap();
        let open = |id, options: &mut OpenOptions| options.open(rack.context_path(id)).unwrap();
        let mut files = vec![
            open(1, OpenOptions::new().read(true).write(true)),
            open(1, OpenOptions::new().read(true)),
            open(1, OpenOptions::new().write(true)),
            open(1, OpenOptions::new().read(true).custom_flags(O_PATH)),
            open(2, OpenOptions::new().read(true).write(true)),
            File::open("/dev/null").unwrap(),
            File::open(&dir).unwrap(),
        ];
        let bell = Arc::new(Bells::create().unwrap()).add().unwrap();
        let small = Mapping::create("small", 1).unwrap();
        let (memory, segment) = (link_memory(), Segment::create(2, 1, 8192).unwrap());
        let mut fds: Vec<OwnedFd> = files.drain(..).map(OwnedFd::from).collect();
        fds.extend(bell.fds().unwrap());
        let lent = [memory.fd(), small.fd(), segment.mapping().fd()];
        fds.extend(lent.map(|fd| fd.try_clone_to_owned().unwrap()));
        drop((bell, small, memory, segment));
        let daemon = Some(Daemon::new(&rack));
        let mut lab = Lab { rack, daemon, fds, open_files: 0 };
        lab.open_files = open_files();
        Mutex::new(lab)
    })
}

/// A request whose numbers often mean something.
fn request(input: &mut Unstructured<'_>) -> Request {
    let code = input.arbitrary::<u8>().unwrap_or(0);
    let small = input.arbitrary::<u8>().unwrap_or(0);
    let number = match input.arbitrary::<u8>().unwrap_or(0) {
        255 => u64::MAX,
        254 => input.arbitrary().unwrap_or(0),
        shift => u64::from(small) << (shift % 20),
    };
    let (id, few) = (u16::from(small % 4), u32::from(small % 4));
    let version = if small == 255 { PROTOCOL_VERSION - 1 } else { PROTOCOL_VERSION };
    match code % 16 {
        0 | 1 => Request::Hello { version },
        2 | 3 => Request::Open { ctx_id: id, segment_bytes: number, shared: small & 1 == 1 },
        4 => {
            let progress = Progress::ALL[usize::from(small) % 3];
            Request::CreateQp { entries: 1 << (number % 12), progress }
        }
        5 => Request::DestroyQp { qp: few },
        6 => Request::CreateBuffer { size_bytes: number },
        7 => Request::PlaceBuffer { buffer: few, address: number },
        8 if small >= 128 => Request::DropBuffer { buffer: few },
        8 => Request::PlaceQp { qp: few, address: number },
        9 => Request::PlaceSegment { address: number },
        10 => Request::Peer { nid: id },
        11 => Request::Close,
        12 => Request::Status,
        13 => Request::Link { version, nid: id },
        14 => Request::ContextUp { ctx_id: id, incarnation: number, size_bytes: number },
        _ => Request::ContextDown { ctx_id: id, lost: small & 1 == 1 },
    }
}

fn say(lab: &Lab, client: &Client, code: u8, input: &mut Unstructured<'_>) {
    let bytes = if code & 64 == 0 {
        serde_json::to_vec(&request(input)).unwrap()
    } else {
        let length = usize::from(input.arbitrary::<u8>().unwrap_or(0)).min(input.len());
        input.bytes(length).unwrap_or(&[]).to_vec()
    };
    let count = usize::from(code >> 3 & 7).min(6);
    let pick = |input: &mut Unstructured<'_>| {
        let which = usize::from(input.arbitrary::<u8>().unwrap_or(0));
        &lab.fds[which % lab.fds.len()]
    };
    let fds: Vec<BorrowedFd<'_>> = (0..count).map(|_| pick(input).as_fd()).collect();
    client.send(&bytes, &fds);
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut lab = lab().lock().unwrap();
    let mut clients: [Option<Client>; CLIENTS] = Default::default();
    while !input.is_empty() {
        let code = input.arbitrary::<u8>().unwrap_or(0);
        let which = usize::from(code) % CLIENTS;
        if code & 4 != 0 && code & 128 != 0 {
            if let Some(client) = clients[which].take() {
                let session = client.hang_up();
                while lab.daemon().serve(session) {}
            }
        } else {
            if clients[which].is_none() {
                clients[which] = Some(lab.daemon().connect());
            }
            let client = clients[which].as_ref().unwrap();
            say(&lab, client, code, &mut input);
            let session = client.session();
            let lives = lab.daemon().serve(session);
            while let Some(answer) = clients[which].as_ref().unwrap().answer() {
                let peer = serde_json::from_slice::<Request>(&answer).is_ok();
                assert!(peer || serde_json::from_slice::<Response>(&answer).is_ok());
            }
            if !lives {
                clients[which] = None;
            }
        }
        lab.daemon().check();
    }
    for client in clients.iter_mut().filter_map(Option::take) {
        let session = client.hang_up();
        while lab.daemon().serve(session) {}
    }
    lab.daemon().check();
    assert_eq!(lab.daemon().len(), 0, "nothing stays of clients that have gone");
    if lab.daemon().knows_segments() {
        // They end with the daemon.
        lab.daemon = None;
        lab.daemon = Some(Daemon::new(&lab.rack));
    }
    // The worker, and one that ends, lets go of its descriptors in its own time.
    let deadline = Instant::now() + Duration::from_secs(10);
    while open_files() != lab.open_files && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(open_files(), lab.open_files, "no descriptor stays of clients that have gone");
});
