//! Messages of two threads by a queue pair and by TCP on this host (TSM §2.4, figures 10 and 11). Queue pairs go
//! through user level alone; TCP stands for the paper's Ethernet, as what the kernel's stack makes of the same host.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use rackmem_fabric::Address;
use rackmem_sockets::{Access, Link, Listener, QStream, Terms};

use super::{Figures, Samples, rounds, timed_ns};
use rackmem_experiments::{Effort, Known};

/// Bytes of a message.
pub const SIZES: [usize; 4] = [64, 4 << 10, 16 << 10, 128 << 10];

const TERMS: Terms = Terms { connections: 1, registered_bytes: 8 << 20 };

/// Half a round trip in us, or bandwidth in MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Half of a round trip.
    Latency,
    /// One after the other.
    Bandwidth,
}

/// Name of a figure.
pub fn name(way: &str, figure: Figure, bytes: usize) -> String {
    format!("{way}/{figure:?}/{bytes}").to_lowercase()
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Both figures of both ways by size.
///
/// # Errors
/// There is no connection, or a message did not arrive as it was.
pub fn measure(effort: Effort) -> Known<Figures> {
    let scale = if effort == Effort::Quick { 1 } else { 8 };
    exchange(200 * scale, rounds(effort))
}

/// An end, and the thread that has the other one.
type Way = (Box<dyn Stream>, JoinHandle<Known<()>>);

fn exchange(messages: usize, rounds: usize) -> Known<Figures> {
    let mut ways = [("qpair", by_queue_pair()?), ("tcp", by_tcp()?)];
    let mut samples = Samples::default();
    for _ in 0..rounds {
        for bytes in SIZES {
            for (way, (stream, _)) in &mut ways {
                for figure in [Figure::Latency, Figure::Bandwidth] {
                    let ns = timed_ns(|| order(&mut **stream, figure, bytes, messages))?;
                    let each_us = ns / messages as f64 / 1e3;
                    samples.add(
                        name(way, figure, bytes),
                        match figure {
                            Figure::Latency => each_us / 2.0,
                            Figure::Bandwidth => bytes as f64 / each_us,
                        },
                    );
                }
            }
        }
    }
    for (_, (stream, peer)) in ways {
        // The other end finds that no more orders come.
        drop(stream);
        peer.join().map_err(|_| "the other end of a connection has ended".to_owned())??;
    }
    Ok(samples.medians())
}

fn by_queue_pair() -> Known<Way> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = dir.path().join("qpair");
    let address = Address::Unix(path);
    let listener =
        Listener::bind(&address, Access::insecure()).map_err(|error| error.to_string())?;
    let peer = std::thread::spawn(move || {
        let accept = || QStream::new(listener.accept()?.accept()?);
        serve(&mut accept().map_err(|error: rackmem_fabric::error::Error| error.to_string())?)
    });
    let connect = || QStream::new(Link::connect(&address, None, TERMS)?.open()?);
    let stream = connect().map_err(|error: rackmem_fabric::error::Error| error.to_string())?;
    Ok((Box::new(stream), peer))
}

fn by_tcp() -> Known<Way> {
    let connect = || -> std::io::Result<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let ours = TcpStream::connect(listener.local_addr()?)?;
        let theirs = listener.accept()?.0;
        ours.set_nodelay(true)?;
        theirs.set_nodelay(true)?;
        Ok((ours, theirs))
    };
    let (ours, mut theirs) = connect().map_err(|error| error.to_string())?;
    Ok((Box::new(ours), std::thread::spawn(move || serve(&mut theirs))))
}

/// The other end: for each order a size, a number, and whether all messages are echoed or the last alone.
fn serve(stream: &mut dyn Stream) -> Known<()> {
    let mut words = [[0; 8]; 3];
    let mut buffer = vec![0; SIZES[SIZES.len() - 1]];
    while stream.read_exact(words.as_flattened_mut()).is_ok() {
        let [bytes, messages, echoes] = words.map(|word| u64::from_le_bytes(word) as usize);
        let message = buffer.get_mut(..bytes).ok_or("an order is for too large a message")?;
        for number in 0..messages {
            stream.read_exact(message).map_err(|error| error.to_string())?;
            if echoes == 1 || number + 1 == messages {
                stream.write_all(message).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

fn order(stream: &mut dyn Stream, figure: Figure, bytes: usize, messages: usize) -> Known<()> {
    let echoes = usize::from(figure == Figure::Latency);
    let sent: Vec<u8> = (0..bytes).map(|at| (at * 31 + bytes) as u8).collect();
    let mut back = vec![0; bytes];
    let mut run = || -> std::io::Result<()> {
        stream.write_all(
            [bytes, messages, echoes].map(|n| (n as u64).to_le_bytes()).as_flattened(),
        )?;
        for number in 0..messages {
            stream.write_all(&sent)?;
            if echoes == 1 || number + 1 == messages {
                stream.read_exact(&mut back)?;
            }
        }
        Ok(())
    };
    run().map_err(|error| error.to_string())?;
    match back == sent {
        true => Ok(()),
        false => Err("a message did not come back as it was".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_all_sizes_come_back_as_they_were() {
        let figures = exchange(3, 1).unwrap();
        assert_eq!(figures.len(), 2 * 2 * SIZES.len());
        assert!(figures[&name("tcp", Figure::Latency, 64)].is_finite());
        assert!(figures[&name("qpair", Figure::Bandwidth, 128 << 10)].is_finite());
    }
}
