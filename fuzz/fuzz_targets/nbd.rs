//! A client of the block device: cuts of the handshake change nothing, and both ways of serving requests answer alike
//! and leave the same bytes.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rackmem_blk::negotiate::{MAX_OPTION_BYTES, Negotiation, Step};
use rackmem_blk::request::Request;
use rackmem_blk::wire::REQUEST_BYTES;
use rackmem_blk::{Agreed, Export, TlsMode};
use rackmem_blk::fuzz::serve;
use rackmem_lease::store::{HeapStore, Lane, Store};

const EXPORT_BYTES: u64 = 64 << 10;

/// The same bytes, only by lanes.
struct Remote(HeapStore);

impl Store for Remote {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn lane(&self) -> rackmem_lease::Result<Box<dyn Lane>> {
        self.0.lane()
    }

    fn check(&self) -> rackmem_lease::Result<()> {
        self.0.check()
    }
}

fn export(is_read_only: bool) -> Export {
    let (name, description) = ("memory".to_owned(), "lent".to_owned());
    Export { name, description, size_bytes: EXPORT_BYTES, is_read_only }
}

/// Negotiates; returns the replies, the last step, and the number of bytes used.
fn negotiate(export: &Export, tls: TlsMode, bytes: &[u8], cut: usize) -> (Vec<u8>, Step, usize) {
    let mut out = Vec::new();
    let mut negotiation = Negotiation::begin(export, tls, &mut out);
    let (mut used, mut arrived) = (0, bytes.len().min(cut));
    loop {
        let (more, step) = negotiation.feed(&bytes[used..arrived], &mut out);
        used += more;
        match step {
            Step::StartTls => negotiation.secured(),
            Step::More if arrived == bytes.len() => return (out, step, used),
            Step::More => arrived = bytes.len().min(arrived + cut),
            _ => return (out, step, used),
        }
        assert!(arrived - used < MAX_OPTION_BYTES + 16 + cut, "what waits is bounded");
    }
}

fn contents(store: &HeapStore) -> Vec<u8> {
    let base = store.mapped().unwrap();
    // SAFETY: the store is mapped for as long as it lives, and nobody serves it now.
    unsafe { std::slice::from_raw_parts(base, EXPORT_BYTES as usize) }.to_vec()
}

/// The same bytes, one request after the other: a client that waits for each answer.
fn requests(mut input: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while !input.is_empty() {
        let request = input.first_chunk().and_then(Request::parse);
        let length = request.map_or(usize::MAX, |request| REQUEST_BYTES + request.payload_bytes());
        let (here, rest) = input.split_at(length.min(input.len()));
        parts.push(here);
        input = rest;
    }
    parts
}

/// Serves both ways and compares.
fn transmit(export: &Export, agreed: Agreed, input: &[u8], cut: usize) {
    let one_by_one = requests(input);
    let cut: Vec<&[u8]> = input.chunks(cut).collect();
    let stores = [(); 4].map(|()| HeapStore::new(EXPORT_BYTES).expect("a few pages"));
    let [near, far, near_cut, far_cut] = &stores;
    let remote = |store: &HeapStore| Arc::new(Remote(store.clone()));
    let expected = serve(Arc::new(near.clone()), export.clone(), agreed, &one_by_one);
    let by_lane = serve(remote(far), export.clone(), agreed, &one_by_one);
    // Of requests that are under way together, a read may see what a later write did.
    let others = [
        serve(Arc::new(near_cut.clone()), export.clone(), agreed, &cut),
        serve(remote(far_cut), export.clone(), agreed, &cut),
    ];
    // A client that breaks the protocol may miss answers to what it had sent before.
    let length = expected.0.len().min(by_lane.0.len());
    assert!(expected.0[..length] == by_lane.0[..length], "both ways answer alike");
    assert!(
        others.iter().chain([&by_lane]).all(|other| other.1 == expected.1),
        "all ends are alike"
    );
    if expected.1 {
        assert!(others.iter().chain([&by_lane]).all(|other| other.0.len() == expected.0.len()));
        let first = contents(near);
        assert!(stores.iter().all(|store| contents(store) == first), "all ways do the same");
    }
    if export.is_read_only {
        assert!(stores.iter().all(|store| contents(store).iter().all(|&byte| byte == 0)));
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[mode, cut], bytes)) = data.split_first_chunk::<2>() else { return };
    let tls = [TlsMode::Off, TlsMode::On, TlsMode::Require][usize::from(mode % 3)];
    let export = export(mode & 4 != 0);
    let cut = usize::from(cut) + 1;
    if mode & 8 == 0 {
        let agreed = Agreed { structured: mode & 16 != 0, base_allocation: mode & 16 != 0 };
        return transmit(&export, agreed, bytes, 16 * cut);
    }
    let whole = negotiate(&export, tls, bytes, usize::MAX / 2);
    assert_eq!(whole, negotiate(&export, tls, bytes, cut));
    if let Step::Transmission(agreed) = whole.1 {
        transmit(&export, agreed, &bytes[whole.2..], 16 * cut);
    }
});
