//! Speed of the network on chip: `cargo bench -p rackmem-sim --bench noc [-- SECONDS]` per load.

use std::time::Duration;

use rackmem_sim::noc::bench;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Without it, cargo only wants to know whether this compiles and starts.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let seconds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(1.0);
    let rows = match bench(Duration::from_secs_f64(seconds), false) {
        Ok(rows) => rows,
        Err(error) => panic!("{error}"),
    };
    println!("{:40} {:>5} {:>12} {:>13}", "network", "load", "cycles/s", "Mflit-hops/s");
    for row in rows {
        println!(
            "{:40} {:>5} {:>12.0} {:>13.2}{}",
            row.name,
            row.rate,
            row.cycles_per_second,
            row.million_flit_hops_per_second,
            if row.saturated { "  saturated" } else { "" }
        );
    }
}
