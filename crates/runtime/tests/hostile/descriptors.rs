//! Descriptors, and what may be done with them.

use crate::support::raw::Raw;
use crate::support::{BOUND, TestRack, eventually};
use rackmem::Status;
use rackmem::client::Context;
use rackmem::protocol::{PeerState, Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::shm::mapping::Access;
use rackmem::shm::segment::Segment;
use rackmem_abi::{Op, WqEntry};
use rustix::fs::SealFlags;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use crate::attach::memfd;
use crate::bystander::CANARY;
use crate::queues::Poster;
use crate::{start, wait};

/// Whether the memory behind a descriptor can be mapped for writing.
fn is_writable(fd: &OwnedFd) -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, which is not used.
    unsafe {
        match mmap(std::ptr::null_mut(), 4096, prot, MapFlags::SHARED, fd, 0) {
            Ok(base) => munmap(base, 4096).is_ok(),
            Err(_) => false,
        }
    }
}

#[test]
fn memory_that_was_handed_over_keeps_its_size() {
    let rack = TestRack::start("seals", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let other = Context::open(&rack.options(1, 0).segment_bytes(8192)).unwrap();
    let (raw, [segment, flag, _]) = Raw::member(&rack.rack, 0, 0, 8192);
    let (_, queue) = raw.queue_pair(8, Progress::Daemon);
    let got = raw.call(&Request::CreateBuffer { size_bytes: 8192 }, &[]).unwrap();
    let buffer = got.fds.into_iter().next().unwrap();
    let peer = || {
        let got = raw.call(&Request::Peer { nid: 1 }, &[]).unwrap();
        assert!(matches!(
            got.message,
            Response::Peer { state: PeerState::Present | PeerState::Absent | PeerState::Left, .. }
        ));
        got.fds.into_iter().next()
    };
    eventually("node 1 has joined", || peer().is_some());
    let queue = queue.mapping().fd().try_clone_to_owned().unwrap();
    for (what, fd) in
        [("segment", segment), ("queue", queue), ("buffer", buffer), ("peer", peer().unwrap())]
    {
        let len = rustix::fs::fstat(&fd).unwrap().st_size as u64;
        for wrong in [0, 4096, len - 1, len + 4096] {
            assert!(rustix::fs::ftruncate(&fd, wrong).is_err(), "{what}: {wrong}");
        }
        for seals in [SealFlags::WRITE, SealFlags::FUTURE_WRITE, SealFlags::GROW] {
            assert!(rustix::fs::fcntl_add_seals(&fd, seals).is_err(), "{what}: {seals:?}");
        }
        let grow = rustix::fs::FallocateFlags::empty();
        assert!(rustix::fs::fallocate(&fd, grow, len, 4096).is_err(), "{what}");
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_size as u64, len);
        assert!(is_writable(&fd), "{what}: the test would see nothing");
    }
    drop(other);
    // The bell's flag is for looking only.
    assert!(!is_writable(&flag));
    let stranger = Raw::connect(&rack.rack, 0).hello();
    assert!(stranger.fds.is_empty(), "who has proved nothing gets nothing");
    // So is a segment for those who opened the context for reading.
    let _other = Context::open(&rack.options(1, 0).segment_bytes(8192)).unwrap();
    let reader = Raw::connect(&rack.rack, 0);
    reader.hello();
    reader.open(0, 0, rack.rack.open_context(0, true).unwrap().as_fd());
    let mut segment = None;
    eventually("node 1 has joined again", || {
        let got = reader.call(&Request::Peer { nid: 1 }, &[]).unwrap();
        segment = got.fds.into_iter().next();
        segment.is_some()
    });
    let segment = segment.unwrap();
    assert!(!is_writable(&segment));
    assert!(rustix::fs::ftruncate(&segment, 0).is_err());
}

const NOBODY: u32 = 65534;

/// Exit status of a child that may not become another user: root of a container need not be able to.
const STAYS_ROOT: i32 = 77;

/// Becomes another user, or ends this process if it may not.
fn become_nobody() {
    // SAFETY: plain system calls, before any thread that would mind.
    unsafe {
        let steps = [
            || libc::setgroups(0, std::ptr::null()),
            || libc::setgid(NOBODY),
            || libc::setuid(NOBODY),
        ];
        if steps.iter().any(|step| step() != 0) {
            let error = std::io::Error::last_os_error();
            // Not permitted, or no such user in this container.
            assert!(matches!(error.raw_os_error(), Some(libc::EPERM | libc::EINVAL)), "{error}");
            std::process::exit(STAYS_ROOT);
        }
        // Otherwise procfs refuses everything, for another reason.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
}

/// The role `stranger <socket>`: another user who listens there, until it is killed.
pub(crate) fn be_stranger(args: &[String]) {
    become_nobody();
    let _listener = rackmem::transport::listen(std::path::Path::new(&args[0])).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_stranger_does_not_answer() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root can become another user");
        return;
    }
    let rack = TestRack::start("strangers", 1);
    let dir = tempfile::tempdir().unwrap();
    // Sockets of his own in a directory for all, in ours which we left open, and in one of his.
    let dirs = [0o1777, 0o777, 0o755].map(|mode| {
        let path = dir.path().join(format!("{mode:o}"));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    });
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&dirs[2], Some(NOBODY), Some(NOBODY)).unwrap();
    for (path, is_named) in dirs.iter().zip([false, false, true]) {
        let socket = path.join("node-0.sock");
        let mut stranger = start(&rack, "stranger", socket.to_str().unwrap());
        let mut ended = None;
        let mut answer = None;
        eventually("the stranger listens", || {
            ended = stranger.try_wait().unwrap();
            answer = Some(rackmem::transport::Channel::connect(&socket));
            let absent = [std::io::ErrorKind::NotFound, std::io::ErrorKind::ConnectionRefused];
            let error = answer.as_ref().unwrap().as_ref().err();
            ended.is_some() || error.is_none_or(|error| !absent.contains(&error.kind()))
        });
        if ended.is_some_and(|status| status.code() == Some(STAYS_ROOT)) {
            eprintln!("not tested: this root cannot become another user");
            return;
        }
        let _ = stranger.kill();
        let _ = stranger.wait();
        match answer.unwrap() {
            Ok(_) => assert!(is_named, "{}", path.display()),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
                assert!(!is_named && error.to_string().contains("user 65534"), "{error}");
            }
        }
    }
}

/// The role `other-user`: joins without rights of its own on the rack's directory.
pub(crate) fn be_other_user(_: &[String]) {
    let rack = Rack::named(None).unwrap();
    std::env::set_current_dir(rack.dir()).unwrap();
    become_nobody();
    let reopen = |fd: &OwnedFd| {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        File::options().read(true).write(true).open(path)
    };
    let own = memfd(4096, SealFlags::empty());
    reopen(&own).expect("the way is open as such");

    // For reading: no way to write.
    let raw = Raw::connect_to("node-0.sock".as_ref());
    raw.hello();
    File::options().read(true).write(true).open("contexts/0").expect_err("not allowed to write");
    let [_, flag, _] = raw.open(0, 0, File::open("contexts/0").unwrap().as_fd());
    reopen(&flag).expect_err("the bell's flag must stay as it is");
    let got = raw.call(&Request::Peer { nid: 1 }, &[]).unwrap();
    let segment = got.fds.into_iter().next().expect("node 1 has joined");
    assert!(!is_writable(&segment));
    reopen(&segment).expect_err("the segment must stay as it is");
    Segment::open(segment, Access::Read).expect("it can be read");

    // Not at all.
    File::open("contexts/1").expect_err("not allowed to read");
    let path = File::options().read(true).custom_flags(libc::O_PATH).open("contexts/1").unwrap();
    let raw = Raw::connect_to("node-0.sock".as_ref());
    raw.hello();
    let open = Request::Open { ctx_id: 1, segment_bytes: 0, shared: true };
    let got = raw.call(&open, &[path.as_fd()]).unwrap();
    assert!(matches!(got.message, Response::Error { errno: libc::EACCES, .. }));

    // For writing: operations work on shared buffers; the daemon, which may do more than this
    // user, reaches for no other memory.
    let raw = Raw::connect_to("node-0.sock".as_ref());
    raw.hello();
    let file = File::options().read(true).write(true).open("contexts/2").unwrap();
    let [_, _, wake] = raw.open(2, 4096, file.as_fd());
    let (qp, memory) = raw.queue_pair(4, Progress::Daemon);
    let address = memory.mapping().base() as u64;
    raw.call(&Request::PlaceQp { qp, address }, &[]).unwrap();
    let plain = [7u64; 1];
    let mut poster = Poster::new(memory, 4);
    for (buffer, expected) in [
        (plain.as_ptr() as u64, Status::BadLocalBuffer),
        (poster.memory.operands() as u64, Status::Ok),
    ] {
        let op_code = Op::Write as u8;
        poster.post(WqEntry { phase: true, op_code, dst_nid: 0, offset: 0, length: 8, buffer });
        rustix::io::write(&wake, &1u64.to_ne_bytes()).unwrap();
        let deadline = Instant::now() + BOUND;
        while poster.reaped != poster.posted {
            poster.reap();
            assert!(Instant::now() < deadline);
        }
        assert_eq!(poster.last, expected as u8);
    }
}

#[test]
fn another_users_rights_end_where_its_files_do() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root can become another user");
        return;
    }
    let rack = TestRack::start("users", 2);
    rack.rack.create_context(0, 0o644).unwrap();
    rack.rack.create_context(1, 0o600).unwrap();
    rack.rack.create_context(2, 0o666).unwrap();
    let bystander = Context::open(&rack.options(1, 0).segment_bytes(4096)).unwrap();
    bystander.write_own(0, &[CANARY; 64]).unwrap();
    let options = rack.options(0, 0).read_only(true);
    Context::open(&options).unwrap().wait_joined(1, Some(Instant::now() + BOUND)).unwrap();
    let status = wait(start(&rack, "other-user", ""));
    if status.code() == Some(STAYS_ROOT) {
        eprintln!("not tested: this root cannot become another user");
        return;
    }
    assert!(status.success());
    let mut bytes = [0; 64];
    bystander.read_own(0, &mut bytes).unwrap();
    assert_eq!(bytes, [CANARY; 64]);
}
