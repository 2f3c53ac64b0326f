//! Queue pairs, over memory and over TCP, beside Unix sockets and TCP on this host, two processes: `cargo bench -p
//! rackmem-sockets --bench qpair`. Half a round trip, and bandwidth one way, by message size; medians over the
//! repetitions, in which all take turns. Figures of one run are to be compared, with each other only.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rackmem_fabric::Address;
use rackmem_sockets::{Access, Link, Listener, QStream, Terms};

const SIZES: [usize; 5] = [8, 128, 4096, 65_536, 1 << 20];
const REPETITIONS: usize = 5;
/// Time that a measurement takes, about.
const LASTS: Duration = Duration::from_millis(200);
const TERMS: Terms = Terms { connections: 1, registered_bytes: 16 << 20 };
const WAYS: [&str; 4] = ["queue pair", "QP over TCP", "Unix socket", "TCP"];

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--echo") {
        Some(at) => echo(&arguments[at + 1], &arguments[at + 2]),
        None => measure(),
    }
}

fn connect(way: &str, address: &str) -> Box<dyn Stream> {
    match way {
        "queue pair" | "QP over TCP" => {
            let link = Link::connect(&address.parse().unwrap(), None, TERMS).unwrap();
            Box::new(QStream::new(link.open().unwrap()).unwrap())
        }
        "Unix socket" => Box::new(UnixStream::connect(address).unwrap()),
        _ => {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            Box::new(stream)
        }
    }
}

fn accept(way: &str, dir: &Path) -> (Child, Box<dyn Stream>) {
    let path = dir.join(way);
    let start = |address: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--echo", way, address]).spawn().unwrap()
    };
    match way {
        "queue pair" | "QP over TCP" => {
            let address = match way {
                "queue pair" => Address::Unix(path),
                _ => Address::Tcp("127.0.0.1:0".to_owned()),
            };
            let listener = Listener::bind(&address, Access::insecure()).unwrap();
            let child = start(&listener.address().to_string());
            let link = listener.accept().unwrap();
            (child, Box::new(QStream::new(link.accept().unwrap()).unwrap()))
        }
        "Unix socket" => {
            let listener = UnixListener::bind(&path).unwrap();
            (start(path.to_str().unwrap()), Box::new(listener.accept().unwrap().0))
        }
        _ => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let child = start(&listener.local_addr().unwrap().to_string());
            let stream = listener.accept().unwrap().0;
            stream.set_nodelay(true).unwrap();
            (child, Box::new(stream))
        }
    }
}

/// The other process: for each order, a size, a number and whether each message is echoed.
fn echo(way: &str, address: &str) {
    let mut stream = connect(way, address);
    let mut buffer = vec![0; 1 << 20];
    let mut order = [0; 24];
    while stream.read_exact(&mut order).is_ok() {
        let word = |at: usize| u64::from_le_bytes(order[at * 8..][..8].try_into().unwrap());
        let (size, messages, echoes) = (word(0) as usize, word(1), word(2) != 0);
        for number in 0..messages {
            stream.read_exact(&mut buffer[..size]).unwrap();
            if echoes || number + 1 == messages {
                stream.write_all(&buffer[..size]).unwrap();
            }
        }
    }
}

/// Seconds for so many messages.
fn run(stream: &mut dyn Stream, size: usize, messages: u64, echoes: bool) -> f64 {
    let mut buffer = vec![1; size];
    let order = [size as u64, messages, u64::from(echoes)].map(u64::to_le_bytes).concat();
    let begin = Instant::now();
    stream.write_all(&order).unwrap();
    for number in 0..messages {
        stream.write_all(&buffer).unwrap();
        if echoes || number + 1 == messages {
            stream.read_exact(&mut buffer).unwrap();
        }
    }
    begin.elapsed().as_secs_f64()
}

fn measure() {
    let dir = tempfile::TempDir::new().unwrap();
    let mut ends: Vec<_> = WAYS.iter().map(|way| accept(way, dir.path())).collect();
    for (echoes, title) in [(true, "half round trip, us"), (false, "bandwidth, MB/s")] {
        let [memory, network, unix, tcp] = WAYS;
        println!("\n{title:>22}{memory:>14}{network:>14}{unix:>14}{tcp:>14}   ratios to TCP");
        for size in SIZES {
            let mut samples = [const { Vec::new() }; WAYS.len()];
            for _ in 0..REPETITIONS {
                for (way, (_, stream)) in ends.iter_mut().enumerate() {
                    let probe = run(&mut **stream, size, 20, echoes) / 20.0;
                    let messages = (LASTS.as_secs_f64() / probe).clamp(20.0, 200_000.0) as u64;
                    let each = run(&mut **stream, size, messages, echoes) / messages as f64;
                    let value = if echoes { each / 2.0 * 1e6 } else { size as f64 / each / 1e6 };
                    samples[way].push(value);
                }
            }
            let middle = samples.map(|mut values| {
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            });
            let [memory, network, unix, tcp] = middle;
            println!(
                "{size:>20} B{memory:>14.2}{network:>14.2}{unix:>14.2}{tcp:>14.2}   {:.2}, {:.2}",
                memory / tcp,
                network / tcp
            );
        }
    }
    for (child, stream) in &mut ends {
        *stream = Box::new(std::io::Cursor::new(Vec::new()));
        child.wait().unwrap();
    }
}
