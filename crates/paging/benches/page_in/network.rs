//! The same over TCP loopback, from a lender of a rack of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use rackmem::rack::Rack;
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::proof::Proof;
use rackmem_lease::agent::{Agent, Config};
use rackmem_lease::{Borrowed, Wanted, borrow};
use rackmem_paging::{Delivery, PAGE_BYTES, Waiting};

use super::{
    ROUNDS, SPIN, away, bare, bind, median, options, shuffled, summary, touch_all, unbind,
};

/// A lender with room for so many pages, and a lease of them over the network.
fn lease(pages: usize, secret: Option<&Proof>) -> Option<(Agent, Borrowed)> {
    let rack = Rack::named(Some(&format!("bench-{}", std::process::id()))).ok()?;
    let size_bytes = (pages * PAGE_BYTES) as u64;
    let mut config = Config::lender(rack.clone(), size_bytes + (64 << 20));
    config.listen = Some("127.0.0.1:0".to_owned());
    config.access = secret.cloned().map_or_else(Access::insecure, Access::with_proof);
    if let Some(lend) = &mut config.lend {
        lend.spin = SPIN;
        lend.overcommit = true;
    }
    let agent = Agent::start(config, |_| {}).map_err(|error| println!("skipped: {error}")).ok()?;
    let rack = Some(rack.name().to_owned());
    let proof = secret.cloned();
    let wanted = Wanted { rack, proof, only_network: true, spin: SPIN, ..Wanted::new(size_bytes) };
    let borrowed = borrow(&wanted).map_err(|error| println!("skipped: {error}")).ok()?;
    Some((agent, borrowed))
}

/// A donor that spins: 8 bytes in, a page out.
fn donate(pages: usize) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let borrower = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let (mut donor, _) = listener.accept().expect("a connection");
    borrower.set_nodelay(true).expect("TCP");
    borrower.set_nonblocking(true).expect("a socket");
    donor.set_nodelay(true).expect("TCP");
    donor.set_nonblocking(true).expect("a socket");
    let (is_there, donors) = std::sync::mpsc::channel();
    unbind();
    std::thread::spawn(move || {
        bind(1);
        let _ = is_there.send(());
        let memory = vec![7u8; pages * PAGE_BYTES];
        let mut request = [0; 8];
        loop {
            match donor.read(&mut request) {
                Ok(8) => {
                    let offset = u64::from_le_bytes(request) as usize;
                    // A page fits into the socket's buffer.
                    let _ = donor.write_all(&memory[offset..offset + PAGE_BYTES]);
                }
                Ok(_) => return,
                Err(_) => std::hint::spin_loop(),
            }
        }
    });
    // It must be on its core before this thread spins on its own.
    donors.recv().expect("the donor runs");
    bind(0);
    borrower
}

pub fn random_page_in(pages: usize) {
    println!(
        "random 4 KiB page-in over TCP loopback, both ends spinning, {pages} pages, us (p50 / p99)"
    );
    random("in cleartext", pages, None);
    random("encrypted", pages, Some(&secret()));
}

fn secret() -> Proof {
    Proof::secret(b"a secret of both ends")
}

fn random(what: &str, pages: usize, secret: Option<&Proof>) {
    let order = shuffled(pages);
    let Some((_agent, borrowed)) = lease(pages, secret) else { return };
    let options = options(2 * pages, Delivery::Inline, Waiting::Sleep, 0);
    let Some((pager, base)) = away(borrowed.store(), &options, pages) else { return };
    let (mut ours, mut bares) = (Vec::new(), Vec::new());
    bind(0);
    for _ in 0..ROUNDS {
        ours.push(summary(touch_all(base, &order)));
        pager.evict_all().expect("the store is there");
        let donor = donate(pages);
        bare::fetch_from(Some(donor.as_raw_fd()));
        bares.push(summary(bare::page_in(bare::Kind::Inline, std::ptr::null_mut(), &order)));
        bare::fetch_from(None);
    }
    unbind();
    let of = |runs: &[(f64, f64)], p99: bool| {
        median(runs.iter().map(|run| if p99 { run.1 } else { run.0 }).collect())
    };
    let (a, b) = (of(&ours, false), of(&bares, false));
    let (c, d) = (of(&ours, true), of(&bares, true));
    println!(
        "  {what}, in the faulting thread: rackmem {a:.2} / {c:.2}, bare {b:.2} / {d:.2}, ratio {:.2}",
        a / b
    );
}

pub fn sequential(pages: usize) {
    println!(
        "sequential reads over TCP loopback, a quarter local, GB/s without and with prefetch (degree 32)"
    );
    let secret = Some(secret());
    for (name, delivery, secret) in [
        ("handler thread", Delivery::Thread, None),
        ("in the faulting thread", Delivery::Inline, None),
        ("encrypted, in the faulting thread", Delivery::Inline, secret.as_ref()),
    ] {
        let mut speeds = [Vec::new(), Vec::new()];
        for (with, speeds) in speeds.iter_mut().enumerate() {
            for _ in 0..3 {
                let Some((_agent, borrowed)) = lease(pages, secret) else { return };
                let options = options(pages / 4, delivery, Waiting::Sleep, 32 * with);
                let Some((_pager, base)) = away(borrowed.store(), &options, pages) else { return };
                let begin = Instant::now();
                for page in 0..pages {
                    // SAFETY: mapped by `away`.
                    let word = unsafe { base.add(page * PAGE_BYTES).cast::<u64>().read_volatile() };
                    assert_eq!(word, page as u64 + 1, "what was written");
                }
                speeds.push((pages * PAGE_BYTES) as f64 / begin.elapsed().as_secs_f64() / 1e9);
            }
        }
        let [without, with] = speeds.map(median);
        println!("  {name}: {without:.2}, {with:.2}, ratio {:.1}", with / without);
    }
}
