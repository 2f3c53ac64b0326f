//! Handshakes between hosts: any bytes, cut anywhere, at both ends, instead of or after those of the other end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rackmem_fabric::greeting::{Callee, Caller, Hello, Purpose, Welcome, refusal};

const SECRET: [u8; 32] = [5; 32];

fn hello() -> Hello {
    Hello {
        rack: "lab".to_owned(),
        nodes: 2,
        from: 1,
        to: 0,
        incarnation: 1,
        purpose: Purpose::Control,
        sealed: true,
        version: String::new(),
    }
}

/// What a stranger says: nobody without the secret is heard.
fn call(bytes: &[u8]) {
    match Callee::new(&SECRET).hear(bytes) {
        Ok(Ok(asked)) => panic!("a hello without the secret: {:?}", asked.hello),
        Ok(Err(_)) => {}
        Err(error) => assert!(refusal(&error).is_none_or(|told| told.len() <= 10)),
    }
}

/// What a stranger answers.
fn answer(bytes: &[u8]) {
    let (caller, _) = Caller::new(&SECRET, &hello());
    if let Ok(Ok(met)) = caller.answered(bytes) {
        panic!("a welcome without the secret: {:?}", met.welcome);
    }
}

/// What a stranger says who has recorded a hello.
fn replay(bytes: &[u8]) {
    let (_, first) = Caller::new(&SECRET, &hello());
    let Ok(Ok(asked)) = Callee::new(&SECRET).hear(&first) else { panic!("a good hello") };
    let (_, unproved) = asked.answer(Ok(Welcome { incarnation: 2, version: String::new() }));
    assert!(!matches!(unproved.prove(bytes), Ok(Ok(_))), "keys without the secret");
}

fuzz_target!(|data: &[u8]| {
    let Some((way, bytes)) = data.split_first() else { return };
    match way % 3 {
        0 => call(bytes),
        1 => answer(bytes),
        _ => replay(bytes),
    }
});
