//! Speed of a DDR3 channel: `cargo bench -p rackmem-sim --bench dram [-- SECONDS]` per kind of traffic.

use std::time::{Duration, Instant};

use rackmem_sim::dram::{Channel, Done, Kind, Request, Tick};
use rackmem_sim::engine::Random;
use rackmem_sim::machine::spec::DramSpec;

/// Requests between two looks at the clock.
const BATCH: u32 = 100_000;

/// Traffic by name, the share of writes in percent, whether addresses follow each other, and ticks from
/// request to request; 0 = as many as there is room for.
const TRAFFIC: [(&str, u64, bool, Tick); 4] = [
    ("random reads, queues full", 0, false, 0),
    ("random, a third written, queues full", 33, false, 0),
    ("random, a third written, half load", 33, false, 12),
    ("stream of reads, queues full", 0, true, 0),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Without it, cargo only wants to know whether this compiles and starts.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let seconds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(1.0);
    println!("{:38} {:>12} {:>12}", "traffic", "requests/s", "bus busy");
    for (name, writes, stream, gap) in TRAFFIC {
        let (rate, busy) = measure(Duration::from_secs_f64(seconds), writes, stream, gap);
        println!("{name:38} {rate:>12.0} {:>10.1} %", busy * 100.0);
    }
}

/// Time that this process has had a core, so that others do not count; where the system does not say,
/// time since `began`.
fn core_time(began: Instant) -> Duration {
    let says = std::fs::read_to_string("/proc/self/schedstat").ok();
    let ns = says.and_then(|text| text.split(' ').next()?.parse().ok());
    ns.map_or(began.elapsed(), Duration::from_nanos)
}

/// Requests per second of a core's time, and the share of time in which data are on the wires.
fn measure(time: Duration, writes_percent: u64, stream: bool, gap: Tick) -> (f64, f64) {
    let mut channel = Channel::new(&DramSpec::default());
    let mut random = Random::new(1, 0);
    let mut done: Vec<Done> = Vec::new();
    let (mut now, mut count, began) = (0, 0, Instant::now());
    let before = core_time(began);
    while began.elapsed() < time {
        for id in count..count + BATCH {
            let line = if stream { u64::from(id) } else { random.below(1 << 26) };
            let write = random.below(100) < writes_percent;
            let kind = if write { Kind::Write } else { Kind::Read };
            now += gap;
            while !channel.has_room(kind) {
                let next = channel.next().expect("a full queue has something to do");
                now = now.max(next);
                channel.advance(next, &mut done);
            }
            channel.push(now, Request { id, line, kind }, &mut done);
            done.clear();
        }
        count += BATCH;
    }
    let seconds = (core_time(began) - before).as_secs_f64();
    (f64::from(count) / seconds, channel.stats(now).data_ticks as f64 / now as f64)
}
