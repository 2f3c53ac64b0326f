//! Sockets of programs on two nodes, with nothing between them but what the test carries.

use rackmem_riscv::Hart;
use rackmem_riscv::kernel::{Caused, Effect, Errno};
use rackmem_riscv::network::{
    Address, BUFFER_BYTES, Connection, Content, Kind, MOST_DATA, MOST_DATAGRAM, Segment,
};

use super::kernel::{DATA, Process};

const FCNTL: u64 = 25;
const CLOSE: u64 = 57;
const READ: u64 = 63;
const KILL: u64 = 129;
const WRITE: u64 = 64;
const EXIT_GROUP: u64 = 94;
const SOCKET: u64 = 198;
const BIND: u64 = 200;
const LISTEN: u64 = 201;
const ACCEPT: u64 = 202;
const SOCKETPAIR: u64 = 199;
const CONNECT: u64 = 203;
const GETPEERNAME: u64 = 205;
const SENDTO: u64 = 206;
const SENDMSG: u64 = 211;

const UNIX: u64 = 1;
const INET: u64 = 2;
const STREAM: u64 = 1;
const NONBLOCK: u64 = 0o4000;

/// Where addresses and bytes are.
const ADDRESS: u64 = DATA + 64;
const LENGTH: u64 = DATA + 128;
const BUFFER: u64 = DATA + 0x1000;
const BUFFER_PAGES: u64 = 64;

const ANY: [u8; 4] = [0, 0, 0, 0];
const PORT: u16 = 6379;
const SERVER: Address = Address { node: 0, port: PORT };
const CLIENT: Address = Address { node: 1, port: 32768 };

/// The first one that node 1 asks for.
const CONNECTION: Connection = Connection { node: 1, count: 0 };

fn node(number: u16) -> Process {
    let mut process = Process::new();
    process.kernel.join_network(number, 2);
    let length = BUFFER_PAGES * rackmem_riscv::space::PAGE;
    process.space.map(BUFFER, length, rackmem_riscv::space::Permissions::READ_WRITE);
    process
}

/// A call; `None` if its thread sleeps.
fn call(process: &mut Process, number: u64, args: &[u64]) -> Option<u64> {
    let (state, reply) = process.any_call(0, number, args);
    match reply.effect {
        Effect::Return => Some(state.x[rackmem_riscv::abi::A0]),
        Effect::Sleep { until_ns: None } => None,
        other => panic!("{other:?}"),
    }
}

/// A call that succeeds.
fn done(process: &mut Process, number: u64, args: &[u64]) -> u64 {
    let value = call(process, number, args).expect("it does not sleep");
    assert!((value as i64) >= 0, "call {number}: {}", value as i64);
    value
}

fn put_address(process: &mut Process, ip: [u8; 4], port: u16) {
    let words =
        [INET | u64::from(port.swap_bytes()) << 16 | u64::from(u32::from_le_bytes(ip)) << 32, 0];
    for (at, word) in (0..).zip(words) {
        process.space.store(ADDRESS + 8 * at, 8, word).expect("it is mapped");
    }
}

fn listen(process: &mut Process, ip: [u8; 4], backlog: u64) -> u64 {
    put_address(process, ip, PORT);
    let server = done(process, SOCKET, &[INET, STREAM, 0]);
    done(process, BIND, &[server, ADDRESS, 16]);
    done(process, LISTEN, &[server, backlog]);
    server
}

/// A client that asks for a connection to a node's port.
fn ask(process: &mut Process, ip: [u8; 4]) -> (u64, Option<u64>) {
    put_address(process, ip, PORT);
    let client = done(process, SOCKET, &[INET, STREAM, 0]);
    (client, call(process, CONNECT, &[client, ADDRESS, 16]))
}

/// Carries segments between nodes until there are none. Returns how many harts woke.
fn carry(nodes: &mut [Process; 2]) -> usize {
    let mut woken = 0;
    loop {
        let under_way: Vec<Segment> =
            nodes.iter_mut().flat_map(|node| node.kernel.take_segments()).collect();
        if under_way.is_empty() {
            return woken;
        }
        for segment in under_way {
            woken += nodes[usize::from(segment.to.node)].kernel.deliver(segment).len();
        }
    }
}

/// A connection from node 1 to node 0: the descriptors of both ends.
fn connected(nodes: &mut [Process; 2]) -> (u64, u64) {
    let server = listen(&mut nodes[0], ANY, 4);
    let (client, outcome) = ask(&mut nodes[1], [10, 0, 0, 1]);
    assert_eq!(outcome, None);
    carry(nodes);
    assert_eq!(call(&mut nodes[1], CONNECT, &[client, ADDRESS, 16]), Some(0));
    (done(&mut nodes[0], ACCEPT, &[server, 0, 0]), client)
}

fn kind_of(segment: &Segment) -> &Kind {
    match &segment.content {
        Content::Stream { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}

/// A part of the first connection that node 1 asks for.
fn stream(from: Address, to: Address, kind: Kind) -> Segment {
    Segment { from, to, content: Content::Stream { connection: CONNECTION, kind } }
}

fn kinds(process: &mut Process) -> Vec<Kind> {
    process.kernel.take_segments().iter().map(kind_of).cloned().collect()
}

fn hears(process: &mut Process, from: Address, to: Address, kind: Kind) -> Vec<Kind> {
    process.kernel.deliver(stream(from, to, kind));
    kinds(process)
}

#[test]
fn a_client_of_another_node_is_served() {
    let mut nodes = [node(0), node(1)];
    let server = listen(&mut nodes[0], ANY, 4);
    assert_eq!(call(&mut nodes[0], ACCEPT, &[server, 0, 0]), None, "nobody has asked");
    let (client, outcome) = ask(&mut nodes[1], [10, 0, 0, 1]);
    assert_eq!(outcome, None, "the answer is not there");
    let asked = nodes[1].kernel.take_segments();
    assert_eq!(asked, [stream(CLIENT, SERVER, Kind::Connect)]);
    assert_eq!(asked[0].wire_bytes(), 84, "no frame is smaller");
    assert_eq!(nodes[0].kernel.deliver(asked[0].clone()), [0], "the server goes on");
    let answer = nodes[0].kernel.take_segments();
    assert_eq!(answer, [stream(SERVER, CLIENT, Kind::Accept)]);
    assert_eq!(call(&mut nodes[0], ACCEPT, &[server, 0, 0]), Some(server + 1));
    assert_eq!(nodes[1].kernel.deliver(answer[0].clone()), [0], "the client goes on");
    assert_eq!(call(&mut nodes[1], CONNECT, &[client, ADDRESS, 16]), Some(0));
}

#[test]
fn names_are_addresses_of_nodes() {
    let mut nodes = [node(0), node(1)];
    let (accepted, client) = connected(&mut nodes);
    for (node, descriptor, expected) in [(0, accepted, [10, 0, 0, 2]), (1, client, [10, 0, 0, 1])] {
        nodes[node].space.store(LENGTH, 4, 16).expect("it is mapped");
        done(&mut nodes[node], GETPEERNAME, &[descriptor, ADDRESS, LENGTH]);
        let ip = nodes[node].space.load(ADDRESS + 4, 4).expect("it is mapped");
        assert_eq!((ip as u32).to_le_bytes(), expected);
    }
}

#[test]
fn bytes_travel_in_frames_as_far_as_there_is_room() {
    let mut nodes = [node(0), node(1)];
    let (accepted, client) = connected(&mut nodes);
    done(&mut nodes[1], WRITE, &[client, BUFFER, 3000]);
    let segments = nodes[1].kernel.take_segments();
    let lengths: Vec<u64> = segments.iter().map(Segment::wire_bytes).collect();
    assert_eq!(lengths, [1538, 1538, 78 + 80]);
    assert_eq!(call(&mut nodes[0], READ, &[accepted, BUFFER, 4000]), None);
    for segment in segments {
        assert_eq!(nodes[0].kernel.deliver(segment), [0], "the reader goes on");
    }
    assert_eq!(done(&mut nodes[0], READ, &[accepted, BUFFER, 4000]), 3000);
    assert_eq!(kinds(&mut nodes[0]), [], "the sender has room enough");

    done(&mut nodes[1], FCNTL, &[client, 4, NONBLOCK]);
    let mut written = 3000;
    while let Some(count) = call(&mut nodes[1], WRITE, &[client, BUFFER, 200_000])
        && (count as i64) > 0
    {
        written += count as usize;
    }
    assert_eq!(written, 2 * BUFFER_BYTES, "both buffers are full");
    let sent = nodes[1].kernel.take_segments();
    let bytes = |segment: &Segment| match kind_of(segment) {
        Kind::Data(bytes) => bytes.len(),
        other => panic!("{other:?}"),
    };
    assert!(sent.iter().all(|segment| bytes(segment) <= MOST_DATA));
    let total: usize = sent.iter().map(bytes).sum();
    assert_eq!(total, BUFFER_BYTES - 3000, "no more than the receiver has room for");
    for segment in sent {
        nodes[0].kernel.deliver(segment);
    }
    // Half of the buffer is read: room for as much is given back at once, and the sender goes on.
    done(&mut nodes[0], READ, &[accepted, BUFFER, BUFFER_BYTES as u64 / 2]);
    let bytes = 3000 + BUFFER_BYTES as u32 / 2;
    assert_eq!(kinds(&mut nodes[0]), [Kind::Room { bytes }]);
}

#[test]
fn nobody_at_a_port_is_an_answer() {
    let mut alone = node(0);
    assert_eq!(hears(&mut alone, CLIENT, SERVER, Kind::Connect), [Kind::Refuse]);
    for kind in [Kind::Data(vec![1]), Kind::Finish, Kind::Accept] {
        assert_eq!(hears(&mut alone, CLIENT, SERVER, kind), [Kind::Reset]);
    }
    for kind in [Kind::Reset, Kind::Refuse, Kind::Room { bytes: 1 }] {
        assert_eq!(hears(&mut alone, CLIENT, SERVER, kind), [], "there is no answer to an answer");
    }
    let elsewhere = Address { node: 1, port: PORT };
    assert_eq!(hears(&mut alone, CLIENT, elsewhere, Kind::Connect), [], "it is for another node");
    listen(&mut alone, [127, 0, 0, 1], 4);
    assert_eq!(hears(&mut alone, CLIENT, SERVER, Kind::Connect), [Kind::Refuse]);
}

#[test]
fn more_data_than_there_is_room_for_ends_the_connection() {
    let mut nodes = [node(0), node(1)];
    let (accepted, _) = connected(&mut nodes);
    let flood = Kind::Data(vec![0; BUFFER_BYTES + 1]);
    assert_eq!(hears(&mut nodes[0], CLIENT, SERVER, flood), [Kind::Reset]);
    let read = call(&mut nodes[0], READ, &[accepted, BUFFER, 8]);
    assert_eq!(read, Some(Errno::CONNRESET.result()));
}

#[test]
fn addresses_outside_of_the_run_have_no_way() {
    let mut alone = node(0);
    for ip in [[10, 0, 0, 3], [10, 0, 1, 1], [192, 168, 0, 1]] {
        assert_eq!(ask(&mut alone, ip).1, Some(Errno::NETUNREACH.result()));
    }
    for ip in [[10, 0, 0, 1], [127, 0, 0, 1], ANY] {
        assert_eq!(
            ask(&mut alone, ip).1,
            Some(Errno::CONNREFUSED.result()),
            "it is the node itself"
        );
    }
    assert_eq!(kinds(&mut alone), []);
    let ip_6 = call(&mut alone, SOCKET, &[10, STREAM, 0]);
    assert_eq!(ip_6, Some(Errno::AFNOSUPPORT.result()));
    let raw = call(&mut alone, SOCKET, &[INET, 3, 0]);
    assert_eq!(raw, Some(Errno::SOCKTNOSUPPORT.result()));
}

#[test]
fn connections_beyond_the_backlog_wait_until_one_is_accepted() {
    let mut nodes = [node(0), node(1)];
    let server = listen(&mut nodes[0], ANY, 1);
    let clients: Vec<u64> = (0..4).map(|_| ask(&mut nodes[1], [10, 0, 0, 1]).0).collect();
    carry(&mut nodes);
    let is_connected =
        |nodes: &mut [Process; 2], client| call(&mut nodes[1], CONNECT, &[client, ADDRESS, 16]);
    assert_eq!(
        is_connected(&mut nodes, clients[1]),
        Some(0),
        "as on Linux, one more than asked for"
    );
    assert_eq!(is_connected(&mut nodes, clients[2]), None);
    done(&mut nodes[0], ACCEPT, &[server, 0, 0]);
    assert!(carry(&mut nodes) > 0);
    assert_eq!(is_connected(&mut nodes, clients[2]), Some(0));
    assert_eq!(is_connected(&mut nodes, clients[3]), None);
    done(&mut nodes[0], CLOSE, &[server]);
    carry(&mut nodes);
    let outcome = |nodes: &mut [Process; 2], client| {
        call(&mut nodes[1], READ, &[client, BUFFER, 8]).map(|value| value as i64)
    };
    assert_eq!(is_connected(&mut nodes, clients[3]), Some(Errno::CONNREFUSED.result()));
    for waiting in &clients[1..3] {
        assert_eq!(outcome(&mut nodes, *waiting), Some(Errno::CONNRESET.result() as i64));
    }
    assert_eq!(outcome(&mut nodes, clients[0]), None, "the accepted one is open");
}

#[test]
fn a_program_that_is_killed_resets_its_connections() {
    const ABORT: u64 = 6;
    const PROCESS: u64 = 1000;
    let kill = |process: &mut Process| {
        let (_, reply) = process.any_call(0, KILL, &[PROCESS, ABORT]);
        assert_eq!(reply.effect, Effect::Killed(ABORT as i32));
    };
    let crash = |process: &mut Process| {
        let what = Caused::Illegal;
        let mut state = Hart::new(0x1000);
        assert!(!process.fault(0, &mut state, what));
    };
    for end in [&kill as &dyn Fn(&mut Process), &crash] {
        let mut nodes = [node(0), node(1)];
        let (_, client) = connected(&mut nodes);
        done(&mut nodes[1], WRITE, &[client, BUFFER, 10]);
        carry(&mut nodes);
        end(&mut nodes[0]);
        nodes[0].end();
        assert_eq!(kinds(&mut nodes[0]), [Kind::Reset], "there were bytes to read");
    }
}

#[test]
fn a_program_that_ends_closes_its_connections() {
    for reads_all in [false, true] {
        let mut nodes = [node(0), node(1)];
        let (accepted, client) = connected(&mut nodes);
        done(&mut nodes[1], WRITE, &[client, BUFFER, 10]);
        carry(&mut nodes);
        if reads_all {
            done(&mut nodes[0], READ, &[accepted, BUFFER, 10]);
        }
        assert_eq!(call(&mut nodes[1], READ, &[client, BUFFER, 8]), None);
        let (_, reply) = nodes[0].any_call(0, EXIT_GROUP, &[0]);
        assert_eq!(reply.effect, Effect::Exit(0));
        nodes[0].end();
        assert_eq!(carry(&mut nodes), 1, "the reader goes on");
        let end = call(&mut nodes[1], READ, &[client, BUFFER, 8]);
        let expected = if reads_all { 0 } else { Errno::CONNRESET.result() };
        assert_eq!(end, Some(expected));
        assert_eq!(hears(&mut nodes[0], CLIENT, SERVER, Kind::Connect), [Kind::Refuse]);
    }
}

#[test]
fn a_client_that_asks_again_from_its_port_has_nothing_of_the_connection_before() {
    const CLIENT_PORT: u16 = 700;
    let mut nodes = [node(0), node(1)];
    let server = listen(&mut nodes[0], ANY, 4);
    let asks_from_port = |nodes: &mut [Process; 2]| {
        put_address(&mut nodes[1], ANY, CLIENT_PORT);
        let client = done(&mut nodes[1], SOCKET, &[INET, STREAM, 0]);
        done(&mut nodes[1], BIND, &[client, ADDRESS, 16]);
        put_address(&mut nodes[1], [10, 0, 0, 1], PORT);
        assert_eq!(call(&mut nodes[1], CONNECT, &[client, ADDRESS, 16]), None);
        client
    };
    let first = asks_from_port(&mut nodes);
    carry(&mut nodes);
    let accepted = done(&mut nodes[0], ACCEPT, &[server, 0, 0]);
    // Bytes are under way when the client resets the connection, and asks for another one.
    done(&mut nodes[0], WRITE, &[accepted, BUFFER, 10]);
    let stale = nodes[0].kernel.take_segments();
    done(&mut nodes[0], WRITE, &[accepted, BUFFER, 1]);
    carry(&mut nodes);
    done(&mut nodes[1], CLOSE, &[first]);
    let second = asks_from_port(&mut nodes);
    for segment in stale {
        nodes[1].kernel.deliver(segment);
    }
    carry(&mut nodes);
    assert_eq!(call(&mut nodes[1], CONNECT, &[second, ADDRESS, 16]), Some(0));
    let accepted = done(&mut nodes[0], ACCEPT, &[server, 0, 0]);
    assert_eq!(call(&mut nodes[1], READ, &[second, BUFFER, 8]), None, "nothing is for it");
    done(&mut nodes[0], WRITE, &[accepted, BUFFER, 3]);
    carry(&mut nodes);
    assert_eq!(call(&mut nodes[1], READ, &[second, BUFFER, 8]), Some(3));
}

#[test]
fn unix_sockets_stay_in_their_node() {
    let mut alone = node(0);
    let one = done(&mut alone, SOCKET, &[UNIX, STREAM, 0]);
    alone.space.store(ADDRESS, 8, UNIX | u64::from(b'x') << 24).expect("it is mapped");
    done(&mut alone, BIND, &[one, ADDRESS, 4]);
    done(&mut alone, LISTEN, &[one, 4]);
    let other = done(&mut alone, SOCKET, &[UNIX, STREAM, 0]);
    done(&mut alone, CONNECT, &[other, ADDRESS, 4]);
    done(&mut alone, WRITE, &[other, BUFFER, 5]);
    let accepted = done(&mut alone, ACCEPT, &[one, 0, 0]);
    assert_eq!(done(&mut alone, READ, &[accepted, BUFFER, 8]), 5);
    assert_eq!(kinds(&mut alone), []);
}

#[test]
fn a_client_that_gives_up_is_not_accepted() {
    let mut nodes = [node(0), node(1)];
    let server = listen(&mut nodes[0], ANY, 0);
    let (first, _) = ask(&mut nodes[1], [10, 0, 0, 1]);
    let (second, _) = ask(&mut nodes[1], [10, 0, 0, 1]);
    let (third, _) = ask(&mut nodes[1], [10, 0, 0, 1]);
    carry(&mut nodes);
    done(&mut nodes[1], CLOSE, &[second]);
    carry(&mut nodes);
    done(&mut nodes[0], ACCEPT, &[server, 0, 0]);
    carry(&mut nodes);
    assert_eq!(call(&mut nodes[1], CONNECT, &[first, ADDRESS, 16]), Some(0));
    assert_eq!(call(&mut nodes[1], CONNECT, &[third, ADDRESS, 16]), Some(0));
    let accepted = done(&mut nodes[0], ACCEPT, &[server, 0, 0]);
    done(&mut nodes[1], WRITE, &[third, BUFFER, 7]);
    carry(&mut nodes);
    assert_eq!(call(&mut nodes[0], READ, &[accepted, BUFFER, 8]), Some(7));
    assert_eq!(call(&mut nodes[0], ACCEPT, &[server, 0, 0]), None);
}

#[test]
fn descriptors_behind_another_control_message_are_refused() {
    const CREDENTIALS: u64 = 2 << 32 | 1;
    const RIGHTS: u64 = 1 << 32 | 1;
    let mut alone = node(0);
    done(&mut alone, SOCKETPAIR, &[UNIX, STREAM, 0, DATA]);
    let end = alone.space.load(DATA, 4).expect("it is mapped");
    let message = [0, 0, BUFFER + 0x100, 1, BUFFER + 0x200, 48, 0];
    let piece = [BUFFER + 0x300, 3];
    let put = |alone: &mut Process, at: u64, words: &[u64]| {
        for (at, &word) in (at..).step_by(8).zip(words) {
            alone.space.store(at, 8, word).expect("it is mapped");
        }
    };
    put(&mut alone, BUFFER, &message);
    put(&mut alone, BUFFER + 0x100, &piece);
    for (second, expected) in [
        ([20, RIGHTS, 0], Errno::OPNOTSUPP.result()),
        ([20, CREDENTIALS, 0], 3),
        ([15, CREDENTIALS, 0], Errno::INVAL.result()),
        ([25, CREDENTIALS, 0], Errno::INVAL.result()),
    ] {
        put(&mut alone, BUFFER + 0x200, &[20, CREDENTIALS, 0]);
        put(&mut alone, BUFFER + 0x218, &second);
        assert_eq!(call(&mut alone, SENDMSG, &[end, BUFFER, 0]), Some(expected));
    }
}

#[test]
fn datagrams_travel_in_fragments_and_what_nobody_takes_is_told() {
    const DATAGRAMS: u64 = 2;
    let mut nodes = [node(0), node(1)];
    let receiver = done(&mut nodes[0], SOCKET, &[INET, DATAGRAMS, 0]);
    put_address(&mut nodes[0], ANY, PORT);
    done(&mut nodes[0], BIND, &[receiver, ADDRESS, 16]);
    assert_eq!(call(&mut nodes[0], READ, &[receiver, BUFFER, 8]), None, "nothing has come");
    let sender = done(&mut nodes[1], SOCKET, &[INET, DATAGRAMS, 0]);
    put_address(&mut nodes[1], [10, 0, 0, 1], PORT);
    done(&mut nodes[1], CONNECT, &[sender, ADDRESS, 16]);
    for length in [0, 18, 19, 1472, 1473, MOST_DATAGRAM as u64] {
        done(&mut nodes[1], SENDTO, &[sender, BUFFER, length, 0, 0, 0]);
    }
    let sent = nodes[1].kernel.take_segments();
    let wires: Vec<u64> = sent.iter().map(Segment::wire_bytes).collect();
    // 44 whole fragments, and one of 395 bytes.
    assert_eq!(wires, [84, 84, 85, 1538, 1538 + 84, 44 * 1538 + 38 + 20 + 395]);
    assert!(sent.iter().all(|segment| (segment.from, segment.to) == (CLIENT, SERVER)));
    for segment in sent {
        assert_eq!(nodes[0].kernel.deliver(segment), [0], "the receiver goes on");
    }
    for length in [0, 18, 19, 1472, 1473, MOST_DATAGRAM as u64] {
        assert_eq!(call(&mut nodes[0], READ, &[receiver, BUFFER, 1 << 17]), Some(length));
    }
    // What has no room is lost, and nobody is told.
    for _ in 0..10 {
        done(&mut nodes[1], WRITE, &[sender, BUFFER, MOST_DATAGRAM as u64]);
    }
    carry(&mut nodes);
    for _ in 0..3 {
        done(&mut nodes[0], READ, &[receiver, BUFFER, 8]);
    }
    assert_eq!(call(&mut nodes[0], READ, &[receiver, BUFFER, 8]), None);
    // Nobody is there any more.
    done(&mut nodes[0], CLOSE, &[receiver]);
    done(&mut nodes[1], WRITE, &[sender, BUFFER, 8]);
    assert_eq!(call(&mut nodes[1], READ, &[sender, BUFFER, 8]), None);
    carry(&mut nodes);
    let told = call(&mut nodes[1], READ, &[sender, BUFFER, 8]);
    assert_eq!(told, Some(Errno::CONNREFUSED.result()));
    let answer = Segment { from: SERVER, to: CLIENT, content: Content::Unreachable };
    assert_eq!(answer.wire_bytes(), 38 + 20 + 36);
    assert_eq!(nodes[1].kernel.deliver(answer), [] as [usize; 0], "nobody waits");
    nodes[1].end();
    assert_eq!(carry(&mut nodes), 0);
}
