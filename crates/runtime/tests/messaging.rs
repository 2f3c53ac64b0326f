//! Messages and barriers through the safe face, in every way of progress.

mod support;

use rackmem::client::{Barrier, Messaging};
use rackmem::protocol::Progress;
use support::TestRack;

#[test]
fn child() {
    if let Some((_, args)) = support::role() {
        support::be_daemon(&args);
    }
}

#[test]
fn messages_of_any_size_arrive_in_order() {
    let rack = TestRack::start("messages", 2);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let contexts = rack.open_all(ctx_id, Messaging::area_bytes(2), progress);
        let mut ends: Vec<Messaging> = contexts
            .iter()
            .map(|c| Messaging::open(c, c.queue_pair(16).unwrap(), 0).unwrap())
            .collect();
        let (mut b, mut a) = (ends.pop().unwrap(), ends.pop().unwrap());
        let sizes = [0, 1, 56, 57, 1000, 4095, 4096, 70_000, 300_000];
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for threshold in [0, 512, usize::MAX] {
                    a.set_threshold(threshold);
                    for size in sizes {
                        a.send(1, &vec![size as u8; size]).unwrap();
                    }
                }
                let mut reply = [0; 2];
                assert_eq!(a.receive_any(&mut reply).unwrap(), (1, 2));
                assert_eq!(&reply, b"ok");
            });
            let mut buffer = vec![0; 300_000];
            for size in sizes.iter().cycle().take(3 * sizes.len()).copied() {
                if size > 0 && size < 1000 {
                    let error = b.receive(0, &mut []).unwrap_err();
                    assert_eq!(error.errno(), 90, "too small a buffer: {error}");
                }
                assert_eq!(b.receive(0, &mut buffer).unwrap(), size);
                assert!(buffer[..size].iter().all(|byte| *byte == size as u8));
            }
            assert!(b.try_receive(0, &mut buffer).unwrap().is_none());
            b.send(0, b"ok").unwrap();
        });
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let rack = TestRack::start("barriers", 3);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let contexts = rack.open_all(ctx_id, 4096, progress);
        let arrived = AtomicU32::new(0);
        std::thread::scope(|threads| {
            for context in &contexts {
                threads.spawn(|| {
                    let qp = context.queue_pair(8).unwrap();
                    let mut all = Barrier::open(context, qp, 0, &[]).unwrap();
                    for epoch in 1..=50 {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        all.wait().unwrap();
                        let seen = arrived.load(Ordering::SeqCst);
                        assert!(seen >= 3 * epoch, "{seen} have come to epoch {epoch}");
                    }
                    if context.nid() != 1 {
                        let qp = context.queue_pair(8).unwrap();
                        let offset = Barrier::area_bytes(3);
                        let mut some = Barrier::open(context, qp, offset, &[0, 2]).unwrap();
                        some.wait().unwrap();
                    }
                });
            }
        });
    }
}
