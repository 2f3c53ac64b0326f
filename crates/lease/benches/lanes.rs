//! Round trips on lanes, beside a minimal ping-pong over TCP in the same run: the difference is our own cost.
//!
//! `cargo bench -p rackmem-lease --bench lanes`

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rackmem::rack::Rack;
use rackmem_fabric::net::access::Access;
use rackmem_lease::agent::{Agent, Config, Lend};
use rackmem_lease::store::packet::HEADER_BYTES;
use rackmem_lease::store::{Lane, Store};
use rackmem_lease::{Borrowed, Wanted, borrow};

const PAGE: usize = 4096;
const STORE_BYTES: u64 = 64 << 20;
const SAMPLES: usize = 5_000;
/// Requests in flight in measurements of throughput.
const DEPTH: usize = 32;

/// The median and the 99th percentile, in microseconds.
fn percentiles(mut step: impl FnMut(usize)) -> (f64, f64) {
    (0..SAMPLES / 10).for_each(&mut step);
    let mut samples: Vec<Duration> = (0..SAMPLES)
        .map(|n| {
            let begun = Instant::now();
            step(n);
            begun.elapsed()
        })
        .collect();
    samples.sort_unstable();
    let us = |at: usize| samples[at].as_secs_f64() * 1e6;
    (us(SAMPLES / 2), us(SAMPLES * 99 / 100))
}

/// Answers requests, of the size that ours have, with pages of as much memory; spins or sleeps.
fn minimal_server(spins: bool) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        end.set_nodelay(true).unwrap();
        end.set_nonblocking(spins).unwrap();
    }
    std::thread::spawn(move || {
        let memory = vec![7; STORE_BYTES as usize];
        let mut request = [0; HEADER_BYTES];
        while read_all(&mut server, &mut request) {
            let at = u64::from_le_bytes(*request.first_chunk().unwrap()) as usize;
            let parts = [IoSlice::new(&request), IoSlice::new(&memory[at..at + PAGE])];
            // A page is less than the kernel takes at once.
            assert_eq!(server.write_vectored(&parts).unwrap(), HEADER_BYTES + PAGE);
        }
    });
    client
}

fn read_all(stream: &mut TcpStream, into: &mut [u8]) -> bool {
    let mut got = 0;
    while got < into.len() {
        match stream.read(&mut into[got..]) {
            Ok(0) => return false,
            Ok(n) => got += n,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(_) => return false,
        }
    }
    true
}

fn minimal(spins: bool) -> (f64, f64) {
    let mut client = minimal_server(spins);
    let mut answer = [0; HEADER_BYTES + PAGE];
    let mut request = [0; HEADER_BYTES];
    percentiles(|n| {
        request[..8].copy_from_slice(&offset(n).to_le_bytes());
        client.write_all(&request).unwrap();
        read_all(&mut client, &mut answer);
    })
}

fn lender(rack: &Rack, spin: Duration) -> Agent {
    let lend = Some(Lend { spin, populate: true, ..Lend::new(2 * STORE_BYTES) });
    let listen = Some("127.0.0.1:0".to_owned());
    let access = Access::insecure();
    let config = Config { lend, listen, access, ..Config::lender(rack.clone(), 0) };
    Agent::start(config, |_| {}).expect("a lender starts")
}

fn borrowed(rack: &Rack, spin: Duration, only_network: bool) -> Borrowed {
    let rack = Some(rack.name().to_owned());
    borrow(&Wanted { rack, spin, only_network, ..Wanted::new(STORE_BYTES) }).expect("it is lent")
}

/// Pages all over the store, one after the other.
fn offset(n: usize) -> u64 {
    (n as u64 * 7919 % (STORE_BYTES / PAGE as u64)) * PAGE as u64
}

fn reads(lane: &mut dyn Lane) -> (f64, f64) {
    let mut page = [0; PAGE];
    percentiles(|n| lane.read(offset(n), &mut page).unwrap())
}

fn writes(lane: &mut dyn Lane) -> (f64, f64) {
    percentiles(|n| lane.write(offset(n), &[3; PAGE]).unwrap())
}

/// Thousands of pages a second with [`DEPTH`] in flight.
fn rate(lane: &mut dyn Lane) -> f64 {
    let mut page = [0; PAGE];
    let begun = Instant::now();
    let rounds = 4 * SAMPLES / DEPTH;
    for round in 0..rounds {
        for n in 0..DEPTH {
            lane.ask_read(offset(round * DEPTH + n), PAGE).unwrap();
        }
        for _ in 0..DEPTH {
            lane.take(&mut page).unwrap();
        }
    }
    (rounds * DEPTH) as f64 / begun.elapsed().as_secs_f64() / 1e3
}

/// Gigabytes a second by requests of a megabyte, two in flight.
fn bandwidth(lane: &mut dyn Lane) -> f64 {
    let mut block = vec![0; 1 << 20];
    let blocks = STORE_BYTES >> 20;
    let begun = Instant::now();
    let rounds = 1024;
    lane.ask_read(0, block.len()).unwrap();
    for round in 1..rounds {
        lane.ask_read((round % blocks) << 20, block.len()).unwrap();
        lane.push().unwrap();
        lane.take(&mut block).unwrap();
    }
    lane.take(&mut block).unwrap();
    (rounds << 20) as f64 / begun.elapsed().as_secs_f64() / 1e9
}

fn row(name: &str, store: &dyn Store, peer: Option<f64>) {
    let mut lane = store.lane().expect("a lane");
    let (read, tail) = reads(&mut *lane);
    let (write, _) = writes(&mut *lane);
    let ratio = peer.map_or("-".to_owned(), |peer| format!("{:.2}", read / peer));
    println!(
        "{name:<28} {read:>9.2} {tail:>9.2} {write:>9.2} {ratio:>8} {:>11.0} {:>8.2}",
        rate(&mut *lane),
        bandwidth(&mut *lane)
    );
}

fn main() {
    let rack = Rack::named(Some(&format!("bench{}", std::process::id()))).expect("a name");
    println!(
        "4 KB pages, depth 1 in us; depth {DEPTH} in thousands a second; 1 MB reads in GB/s\n"
    );
    println!(
        "{:<28} {:>9} {:>9} {:>9} {:>8} {:>11} {:>8}",
        "", "read p50", "p99", "write", "to peer", "k reads/s", "GB/s"
    );
    for spins in [false, true] {
        let how = if spins { "spinning" } else { "sleeping" };
        let (peer, tail) = minimal(spins);
        println!("{:<28} {peer:>9.2} {tail:>9.2}", format!("minimal TCP, {how}"));
        let spin = if spins { Duration::from_millis(1) } else { Duration::ZERO };
        let lender = lender(&rack, spin);
        let over_tcp = borrowed(&rack, spin, true);
        row(&format!("lane over TCP, {how}"), &*over_tcp.store(), Some(peer));
        drop(over_tcp);
        drop(lender);
    }
    let lender = lender(&rack, Lend::DEFAULT_SPIN);
    let asleep = borrowed(&rack, Duration::ZERO, true);
    row("lane over TCP, as by default", &*asleep.store(), None);
    drop(asleep);
    let mapped = borrowed(&rack, Duration::ZERO, false);
    row("lane to mapped memory", &*mapped.store(), None);
    drop(mapped);
    drop(lender);
}
