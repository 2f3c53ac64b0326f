//! Clients that break the protocol: they get its error or are disconnected, and nobody else notices.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rackmem_blk::negotiate::{self, Negotiation, Step};
use rackmem_blk::wire::{command, flag, info, option, reply};
use rackmem_blk::{Export, MAX_CONNECTIONS, TlsMode};
use rackmem_fabric::net::stranger::{MAX_FIRST_FRAME_BYTES, MAX_STRANGERS};

use super::client::{Client, context_data, go_data, option_bytes};
use super::rig::{BOTH, Reach, Rig};

#[test]
fn wrong_requests_get_errors_and_the_connection_goes_on() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let size = rig_size(&rig);
        for structured in [false, true] {
            let mut client = Client::ready(&rig, structured);
            assert_eq!(client.read(size, 1), Err(22));
            assert_eq!(client.read(u64::MAX, 4096), Err(22));
            assert_eq!(client.read(0, u32::MAX), Err(22));
            assert_eq!(client.read(0, 0), Err(22));
            assert_eq!(client.write(size - 1, &[1, 2]), Err(28));
            assert_eq!(client.command(command::WRITE_ZEROES, 0, size - 1, 2), Err(28));
            assert_eq!(client.command(command::TRIM, 0, size - 1, 2), Err(22));
            assert_eq!(client.command(99, 0, 0, 1), Err(22));
            assert_eq!(client.command(command::FLUSH, 1 << 9, 0, 0), Err(22));
            assert_eq!(client.command(command::WRITE_ZEROES, flag::DF, 0, 1), Err(22));
            assert_eq!(client.read(size - 2, 2), Ok(vec![0, 0]), "nothing was written");
        }
    }
}

fn rig_size(rig: &Rig) -> u64 {
    use rackmem_lease::store::Store;
    rig.heap.size_bytes()
}

#[test]
fn a_read_only_export_takes_no_writes() {
    for reach in BOTH {
        let rig = Rig::with(reach, |config| config.is_read_only = true);
        let mut client = Client::ready(&rig, false);
        assert_eq!(client.write(0, &[1; 100_000]), Err(1));
        assert_eq!(client.command(command::TRIM, 0, 0, 1), Err(1));
        assert_eq!(client.command(command::WRITE_ZEROES, 0, 0, 1), Err(1));
        assert_eq!(client.read(0, 2), Ok(vec![0, 0]));
    }
}

#[test]
fn bytes_that_are_no_request_end_the_connection() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let mut other = Client::ready(&rig, false);
        let mut client = Client::ready(&rig, false);
        client.write(0, &[1; 10]).unwrap();
        client.send(&[0xff; 28]);
        assert!(client.is_hung_up());
        assert_eq!(other.read(0, 10), Ok(vec![1; 10]));
    }
}

#[test]
fn clients_that_hang_up_in_the_middle_leave_nothing_behind() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let mut other = Client::ready(&rig, false);
        for length in [1, 27, 28, 100, 70_000] {
            let mut client = Client::ready(&rig, false);
            let mut bytes = super::client::request_bytes(&rackmem_blk::request::Request {
                flags: 0,
                command: command::WRITE,
                cookie: 1,
                offset: 0,
                length: 100_000,
            });
            bytes.resize(length, 1);
            client.send(&bytes[..length]);
        }
        // Handshakes, too.
        for length in [0, 3, 4, 12, 19] {
            let mut socket = UnixStream::connect(rig.path()).unwrap();
            let bytes = [&[0, 0, 0, 3], &option_bytes(option::LIST, &[])[..]].concat();
            socket.write_all(&bytes[..length]).unwrap();
        }
        other.write(1 << 20, &[3; 100]).unwrap();
        assert_eq!(other.read(1 << 20, 100), Ok(vec![3; 100]));
        // The last client is greeted last: the server has taken all.
        let last = Client::connect(&rig);
        drop((other, last));
        assert_eq!(rig.end().clients, 12);
    }
}

/// A client asks for much and reads nothing: its thread waits, others' do not, and the end comes.
#[test]
fn a_client_that_does_not_read_delays_nobody() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let mut greedy = Client::ready(&rig, false);
        for _ in 0..64 {
            greedy.post(command::READ, 0, 0, 1 << 20);
        }
        let mut other = Client::ready(&rig, false);
        for _ in 0..100 {
            assert_eq!(other.read(0, 4096), Ok(vec![0; 4096]));
        }
        rig.end();
    }
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    let rig = Rig::new(Reach::Mapped);
    let mut client = Client::connect(&rig);
    for byte in option_bytes(option::GO, &go_data("", &[info::NAME, info::BLOCK_SIZE])) {
        client.send(&[byte]);
        std::thread::sleep(Duration::from_micros(200));
    }
    let kinds: Vec<u16> = (0..3)
        .map(|_| {
            let (_, kind, data) = client.option_reply();
            assert_eq!(kind, reply::INFO);
            u16::from_be_bytes([data[0], data[1]])
        })
        .collect();
    assert_eq!(kinds, [info::EXPORT, info::NAME, info::BLOCK_SIZE]);
    assert_eq!(client.option_reply().1, reply::ACK);
    assert_eq!(client.read(0, 1), Ok(vec![0]));
}

#[test]
fn wrong_options_get_errors_and_the_handshake_goes_on() {
    let rig = Rig::new(Reach::Mapped);
    let mut client = Client::connect(&rig);
    let long_name = "n".repeat(5000);
    let cases = [
        (option::GO, go_data("nobody", &[]), reply::ERR_UNKNOWN),
        (option::INFO, go_data(&long_name, &[]), reply::ERR_TOO_BIG),
        (option::GO, go_data("memory", &[])[..6].to_vec(), reply::ERR_INVALID),
        (option::GO, [go_data("memory", &[]), vec![0]].concat(), reply::ERR_INVALID),
        (option::GO, vec![0xff; 10], reply::ERR_TOO_BIG),
        (option::LIST, vec![1], reply::ERR_INVALID),
        (option::STRUCTURED_REPLY, vec![1], reply::ERR_INVALID),
        (option::SET_META_CONTEXT, context_data("memory", "base:allocation"), reply::ERR_INVALID),
        (option::STARTTLS, vec![], reply::ERR_POLICY),
        (77, vec![1, 2, 3], reply::ERR_UNSUP),
        (11, vec![], reply::ERR_UNSUP),
        (option::LIST, vec![0; 100_000], reply::ERR_TOO_BIG),
    ];
    for (number, data, error) in cases {
        assert_eq!(client.ask(number, &data).0, error, "option {number}, {} bytes", data.len());
    }
    let (kind, data) = client.ask(option::LIST, &[]);
    assert_eq!((kind, &data[4..]), (reply::SERVER, &b"memoryfor tests"[..]));
    assert_eq!(client.option_reply().1, reply::ACK);
    client.go("memory");
    assert_eq!(client.read(0, 1), Ok(vec![0]));
}

#[test]
fn breaches_of_the_handshake_end_the_connection() {
    let rig = Rig::new(Reach::Mapped);
    let too_long = [&option_bytes(option::LIST, &[])[..12], &[0x7f; 4]].concat();
    let breaches = [
        vec![0xff; 16],
        too_long,
        option_bytes(option::EXPORT_NAME, b"nobody"),
        option_bytes(77, &[]).repeat(negotiate::MAX_OPTIONS as usize + 1),
    ];
    for breach in breaches {
        let mut client = Client::connect(&rig);
        client.send(&breach);
        assert!(client.is_hung_up());
    }
    let mut socket = UnixStream::connect(rig.path()).unwrap();
    socket.write_all(&[0x80, 0, 0, 3]).unwrap();
    let mut greeting = Vec::new();
    assert_eq!(socket.read_to_end(&mut greeting).unwrap(), 18, "unknown client flags");
    let mut client = Client::connect(&rig);
    assert_eq!(client.ask(option::ABORT, &[]).0, reply::ACK);
    assert!(client.is_hung_up());
}

#[test]
fn the_old_way_to_an_export_works() {
    let rig = Rig::new(Reach::Mapped);
    for name in ["", "memory"] {
        let mut client = Client::connect(&rig);
        client.send(&option_bytes(option::EXPORT_NAME, name.as_bytes()));
        let answer: [u8; 10] = client.bytes();
        assert_eq!(answer[..8], rig_size(&rig).to_be_bytes());
        assert_eq!(client.read(0, 1), Ok(vec![0]));
    }
}

#[test]
fn there_is_a_limit_to_clients_and_a_place_is_free_again_when_one_goes() {
    let rig = Rig::new(Reach::Mapped);
    let mut clients: Vec<Client> =
        (0..MAX_CONNECTIONS).map(|_| Client::ready(&rig, false)).collect();
    let mut one_more = UnixStream::connect(rig.path()).unwrap();
    assert_eq!(one_more.read(&mut [0; 1]).unwrap(), 0, "it is turned away");
    let mut last = clients.pop().unwrap();
    last.post(command::DISC, 0, 0, 0);
    assert!(last.is_hung_up());
    // The place is free once the thread has ended, shortly after it has hung up.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while UnixStream::connect(rig.path()).unwrap().read(&mut [0; 1]).unwrap_or(0) == 0 {
        assert!(std::time::Instant::now() < deadline);
    }
    assert_eq!(clients[0].read(0, 1), Ok(vec![0]));
}

/// Bytes that come one by one put nothing off: all of them together would take a minute.
#[test]
fn a_slow_handshake_has_one_deadline() {
    let rig = Rig::new(Reach::Mapped);
    let mut client = Client::connect(&rig);
    client.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // Never the whole option, which would be answered.
    let mut bytes = option_bytes(option::LIST, &[0; 16_000]).into_iter().take(1000);
    let is_over = |client: &mut Client| {
        let read = client.socket.read(&mut [0; 64]);
        !matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    };
    while !is_over(&mut client) {
        let byte = bytes.next().expect("it ends before these bytes do");
        let _ = client.socket.write_all(&[byte]);
    }
    assert_eq!(Client::ready(&rig, false).read(0, 1), Ok(vec![0]));
}

#[test]
fn silent_strangers_take_no_clients_place() {
    let rig = Rig::new(Reach::Mapped);
    let mut first = Client::ready(&rig, false);
    let strangers: Vec<UnixStream> = (0..MAX_CONNECTIONS + 2 * MAX_STRANGERS)
        .map(|_| UnixStream::connect(rig.path()).unwrap())
        .collect();
    assert_eq!(Client::ready(&rig, false).read(0, 1), Ok(vec![0]));
    assert_eq!(first.read(0, 1), Ok(vec![0]));
    // All the others had to go when the last ones came.
    let is_open = |mut stranger: &UnixStream| {
        stranger.set_nonblocking(true).unwrap();
        let greeting = stranger.read_to_end(&mut Vec::new());
        greeting.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    let open = strangers.iter().filter(|stranger| is_open(stranger)).count();
    assert!(open <= MAX_STRANGERS, "{open}");
}

/// If TLS is required, these are all the bytes that a client can send before it.
#[test]
fn before_tls_a_client_has_few_bytes() {
    let export = Export {
        name: "secret".to_owned(),
        description: String::new(),
        size_bytes: 4096,
        is_read_only: false,
    };
    let says = |bytes: &[u8]| {
        let mut out = Vec::new();
        let mut negotiation = Negotiation::begin(&export, TlsMode::Require, &mut out);
        assert_eq!(negotiation.feed(&3_u32.to_be_bytes(), &mut out), (4, Step::More));
        out.clear();
        let (_, step) = negotiation.feed(bytes, &mut out);
        (step, out)
    };
    let is_over = |bytes: &[u8]| matches!(says(bytes).0, Step::End(Some(_)));
    // As clients begin that try first whether they need it.
    let tries = [option_bytes(option::STRUCTURED_REPLY, &[]), option_bytes(option::LIST, &[])];
    let (step, out) = says(&[tries.concat(), option_bytes(option::STARTTLS, &[])].concat());
    assert_eq!(step, Step::StartTls);
    assert!(!out.windows(6).any(|bytes| bytes == b"secret"));
    assert!(is_over(&option_bytes(77, &[]).repeat(MAX_FIRST_FRAME_BYTES / 16 + 1)));
    assert!(is_over(&option_bytes(77, &[0; 1000]).repeat(5)));
    assert!(
        is_over(&option_bytes(option::LIST, &[0; MAX_FIRST_FRAME_BYTES])[..16]),
        "at its length"
    );
    assert_eq!(says(&option_bytes(77, &[0; 1000]).repeat(4)).0, Step::More);
}
