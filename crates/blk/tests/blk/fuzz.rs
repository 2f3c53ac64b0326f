//! No bytes upset the negotiation, and the cuts between them change nothing.

use proptest::collection::vec;
use proptest::prelude::*;

use rackmem_blk::negotiate::{MAX_OPTION_BYTES, MAX_OPTIONS, Negotiation, Step};
use rackmem_blk::request::{Reply, Request};
use rackmem_blk::wire::{Errno, REQUEST_BYTES, option};
use rackmem_blk::{Agreed, Export, TlsMode};

use super::client::{context_data, go_data, option_bytes, request_bytes};

fn export(is_read_only: bool) -> Export {
    let (name, description) = ("memory".to_owned(), String::new());
    Export { name, description, size_bytes: 1 << 20, is_read_only }
}

/// Options as clients send them, and worse.
fn an_option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("memory".to_owned()), Just(String::new()), ".{0,40}"];
    let kinds = vec(0_u16..5, 0..4);
    let context = prop_oneof![Just("base:allocation"), Just("base:"), Just("other:x")];
    let numbers = prop_oneof![Just(option::GO), Just(option::INFO)];
    let meta = prop_oneof![Just(option::SET_META_CONTEXT), Just(option::LIST_META_CONTEXT)];
    prop_oneof![
        (numbers, name.clone(), kinds)
            .prop_map(|(n, name, kinds)| option_bytes(n, &go_data(&name, &kinds))),
        (meta, name, context)
            .prop_map(|(n, name, query)| option_bytes(n, &context_data(&name, query))),
        (0_u32..20, vec(any::<u8>(), 0..60)).prop_map(|(number, data)| option_bytes(number, &data)),
        Just(option_bytes(option::STRUCTURED_REPLY, &[])),
        (0_u32..9, 10_000_usize..40_000).prop_map(|(n, bytes)| option_bytes(n, &vec![0; bytes])),
        vec(any::<u8>(), 0..40),
    ]
}

fn mode() -> impl Strategy<Value = TlsMode> {
    prop_oneof![Just(TlsMode::Off), Just(TlsMode::On), Just(TlsMode::Require)]
}

/// Feeds bytes as they arrive in these cuts; returns the replies, the last step, and the number of bytes used.
fn run(tls: TlsMode, bytes: &[u8], cuts: &[usize]) -> (Vec<u8>, Step, usize) {
    let export = export(false);
    let mut out = Vec::new();
    let mut negotiation = Negotiation::begin(&export, tls, &mut out);
    let (mut arrived, mut used) = (0, 0);
    let mut cuts = cuts.iter().cycle();
    loop {
        let (more, step) = negotiation.feed(&bytes[used..arrived], &mut out);
        used += more;
        if step == Step::StartTls {
            negotiation.secured();
        } else if step != Step::More {
            return (out, step, used);
        } else if arrived == bytes.len() {
            assert!(arrived - used < MAX_OPTION_BYTES + 16, "what waits is bounded");
            return (out, step, used);
        } else {
            arrived = bytes.len().min(arrived + 1 + cuts.next().unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn how_a_handshake_is_cut_changes_nothing(
        tls in mode(),
        flags in prop_oneof![9 => Just(3_u32), 1 => any::<u32>()],
        options in vec(an_option(), 0..12),
        cuts in vec(0_usize..5000, 1..8),
    ) {
        let bytes = [&flags.to_be_bytes()[..], &options.concat()].concat();
        let whole = run(tls, &bytes, &[usize::MAX / 2]);
        let cut = run(tls, &bytes, &cuts);
        prop_assert_eq!(&whole.1, &cut.1);
        prop_assert_eq!(whole.2, cut.2);
        prop_assert!(whole.0 == cut.0);
        prop_assert!(whole.0.len() < MAX_OPTIONS as usize * 1000);
        if tls == TlsMode::Require && !bytes.windows(16).any(|w| w == &option_bytes(5, &[])[..]) {
            prop_assert!(!matches!(whole.1, Step::Transmission(_)), "no export without TLS");
        }
    }

    #[test]
    fn an_admitted_request_stays_inside(
        request in (any::<u16>(), 0_u16..12, any::<u64>(), any::<u64>(), any::<u32>()),
        small in any::<bool>(),
        is_read_only in any::<bool>(),
        structured in any::<bool>(),
    ) {
        let (flags, command, cookie, offset, length) = request;
        let (flags, offset, length) =
            if small { (flags & 15, offset % (2 << 20), length % (2 << 20)) } else { (flags, offset, length) };
        let request = Request { flags, command, cookie, offset, length };
        let bytes: [u8; REQUEST_BYTES] = request_bytes(&request).try_into().unwrap();
        prop_assert_eq!(Request::parse(&bytes), Some(request));
        let export = export(is_read_only);
        let agreed = Agreed { structured, base_allocation: structured };
        match request.check(&export, agreed) {
            Ok(operation) => {
                let is_range = command != 3;
                prop_assert!(!is_range || offset + u64::from(length) <= export.size_bytes);
                prop_assert!(!is_read_only || ![1, 4, 6].contains(&command), "{:?}", operation);
            }
            Err(error) => {
                prop_assert!([Errno::NotPermitted, Errno::Invalid, Errno::NoSpace].contains(&error));
                prop_assert!(Reply::error(&request, agreed, error).bytes().len() >= 16);
            }
        }
    }
}
