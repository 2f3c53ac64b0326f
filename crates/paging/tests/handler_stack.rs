//! Faults on borrowed memory come on the stacks of the program: small ones suffice.

#[path = "../../lease/tests/support/mod.rs"]
mod support;

use rackmem_fabric::net::access::Access;
use rackmem_lease::Wanted;
use rackmem_lease::agent::{Agent, Config};
use rackmem_paging::region::Region;
use rackmem_paging::{Delivery, PAGE_BYTES, PagerOptions};
use support::{blocks, connections, rack, secret, start, wanted};

const PAGES: usize = 512;

/// Fills a stack before its use, so that a changed byte shows how deep it was used.
const PAINT: u8 = 0xa5;

/// Size of the stack: more than is needed, so that the need can be measured.
const STACK_BYTES: usize = 256 << 10;

/// Most bytes that the handler may need beside the kernel's own on the stack.
const MOST_BYTES: usize = 2048;

/// Bytes that the kernel puts on the stack of a handler.
fn frame_bytes() -> usize {
    // SAFETY: takes a number; 0 if the kernel does not say.
    let said = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    said.max(libc::MINSIGSTKSZ)
}

/// Does something in a thread with an alternate signal stack; returns the number of the stack's bytes that were used.
fn used_by(work: impl FnOnce() + Send) -> usize {
    let mut stack = vec![PAINT; STACK_BYTES];
    let place = stack.as_mut_ptr() as usize;
    std::thread::scope(|scope| {
        let on_stack = move || {
            let (flags, size) = (0, STACK_BYTES);
            let stack = libc::stack_t { ss_sp: place as *mut _, ss_flags: flags, ss_size: size };
            let mut old = stack;
            // SAFETY: the memory outlives the thread, and the thread has its former stack again when it ends.
            unsafe { assert_eq!(libc::sigaltstack(&stack, &mut old), 0) };
            work();
            // SAFETY: as above.
            unsafe { assert_eq!(libc::sigaltstack(&old, std::ptr::null_mut()), 0) };
        };
        scope.spawn(on_stack).join().unwrap();
    });
    let untouched = stack.iter().take_while(|&&byte| byte == PAINT).count();
    STACK_BYTES - untouched
}

/// Cuts all lanes of this process; returns the number of their ends.
fn cut_lanes() -> usize {
    let mut lanes = connections();
    lanes.retain(|(fd, _)| blocks(fd));
    lanes.iter().for_each(|(fd, _)| _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both));
    lanes.len()
}

fn check(region: &[u8], what: &str) {
    for (number, page) in region.chunks_exact(PAGE_BYTES).enumerate() {
        assert!(page.iter().all(|&byte| byte == number as u8), "{what}: page {number}");
    }
}

#[test]
fn a_small_signal_stack_suffices() {
    let rack = rack();
    let lend = |name: &str| -> Agent {
        let access = Access::with_proof(secret());
        let (name, listen) = (Some(name.to_owned()), Some("127.0.0.1:0".to_owned()));
        start(Config { name, listen, access, ..Config::lender(rack.clone(), 16 << 20) })
    };
    let _lenders = [lend("ann"), lend("bob")];
    let options = PagerOptions {
        cache_bytes: 64 * PAGE_BYTES,
        delivery: Delivery::Inline,
        ..PagerOptions::default()
    };
    for (only_network, copies) in [(false, 1), (true, 1), (true, 2)] {
        let what = format!("only network: {only_network}, copies: {copies}");
        let wanted =
            Wanted { only_network, copies, proof: Some(secret()), ..wanted(&rack, PAGES as u64) };
        let mut region = match Region::borrow(&wanted, &options) {
            Err(error) if [libc::EPERM, libc::ENOSYS].contains(&error.errno()) => {
                return println!("skipped: {error}");
            }
            region => region.unwrap(),
        };
        for (number, page) in region.chunks_exact_mut(PAGE_BYTES).enumerate() {
            page.fill(number as u8);
        }
        let whole = used_by(|| check(&region, &what));
        assert_eq!(cut_lanes() > 0, only_network, "{what}");
        let cut = used_by(|| check(&region, &what));
        println!("{what}: {whole} {cut} of which {} the kernel's", frame_bytes());
        let most = frame_bytes() + MOST_BYTES;
        assert!(whole > libc::MINSIGSTKSZ, "{what}: the handler ran elsewhere");
        assert!(whole.max(cut) <= most, "{what}: {whole} and {cut} bytes, at most {most}");
    }
}
