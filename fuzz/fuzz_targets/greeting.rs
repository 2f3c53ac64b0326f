//! Handshakes between hosts: any bytes, cut anywhere, at both ends, instead of or after those of the other end, for
//! each kind of proofs.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use rackmem_fabric::credentials::{Credentials, Kind};
use rackmem_fabric::greeting::{Callee, Caller, Hello, Purpose, Welcome, refusal};
use rackmem_fabric::keys::PrivateKey;

const KINDS: [Kind; 4] = [Kind::Secret, Kind::Keys, Kind::Both, Kind::Guest];

/// What nodes 0 and 1 prove themselves by, for each kind.
static CREDENTIALS: LazyLock<[[Arc<Credentials>; 2]; 4]> =
    LazyLock::new(|| KINDS.map(|kind| [0, 1].map(|node| Arc::new(credentials(kind, node)))));

fn credentials(kind: Kind, node: u8) -> Credentials {
    let key = |node| PrivateKey::from_random([node; 32]);
    let peers = (0..2).map(|node| key(node).public()).collect();
    let secret = (kind == Kind::Both).then_some([5; 32]);
    match kind {
        Kind::Secret => Credentials::Secret([5; 32]),
        Kind::Keys | Kind::Both => Credentials::Keys { own: key(node), peers, secret },
        Kind::Guest => Credentials::Guest { admission: 7, key: [5; 32] },
    }
}

fn hello() -> Hello {
    Hello {
        rack: "lab".to_owned(),
        nodes: 2,
        from: 1,
        address: "127.0.0.1:7400".parse().unwrap(),
        to: 0,
        incarnation: 1,
        purpose: Purpose::Control,
        sealed: true,
        version: String::new(),
        worker: None,
    }
}

/// What a stranger says: nobody without secret and key is heard.
fn call(callee: &Arc<Credentials>, bytes: &[u8]) {
    match Callee::new(callee).hear::<Hello>(bytes) {
        Ok(Ok(asked)) => panic!("a hello without a proof: {:?}", asked.hello),
        Ok(Err(_)) => {}
        Err(error) => {
            assert!(refusal(&error, callee.kind()).is_none_or(|told| told.len() <= 10));
        }
    }
}

/// What a stranger answers.
fn answer(caller: &Credentials, bytes: &[u8]) {
    let (caller, _) = Caller::new(caller, 0, &hello());
    if let Ok(Ok(met)) = caller.answered::<Welcome>(bytes) {
        panic!("a welcome without a proof: {:?}", met.welcome);
    }
}

/// What a stranger says who has recorded a hello.
fn replay([callee, caller]: &[Arc<Credentials>; 2], bytes: &[u8]) {
    let (_, first) = Caller::new(caller, 0, &hello());
    let Ok(Ok(asked)) = Callee::new(callee).hear::<Hello>(&first) else { panic!("a good hello") };
    let (_, unproved) = asked.answer(Ok(Welcome { incarnation: 2, version: String::new(), worker: None }));
    assert!(!matches!(unproved.prove(bytes), Ok(Ok(_))), "keys without a proof");
}

/// A hello that was changed on its way: a flipped byte of the message is never heard.
fn change(ends: &[Arc<Credentials>; 2], bytes: &[u8]) {
    let (_, mut first) = Caller::new(&ends[1], 0, &hello());
    let original = first.clone();
    // The number of an admission only says which key is meant.
    let head_bytes = if ends[0].kind() == Kind::Guest { 18 } else { 10 };
    for (at, byte) in bytes.chunks_exact(2).map(|pair| (usize::from(pair[0]), pair[1])) {
        if let Some(changed) = first.get_mut(head_bytes + at) {
            *changed ^= byte;
        }
    }
    let is_heard = matches!(Callee::new(&ends[0]).hear::<Hello>(&first), Ok(Ok(_)));
    assert_eq!(is_heard, first == original);
}

fuzz_target!(|data: &[u8]| {
    let Some((way, bytes)) = data.split_first() else { return };
    let ends = &CREDENTIALS[usize::from(way / 4 % 4)];
    match way % 4 {
        0 => call(&ends[0], bytes),
        1 => answer(&ends[1], bytes),
        2 => replay(ends, bytes),
        _ => change(ends, bytes),
    }
});
