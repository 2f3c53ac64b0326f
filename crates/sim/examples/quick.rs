use rackmem_sim::machine::{Machine, spec::*};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut m = Machine::default();
    m.ni.placement = match args[1].as_str() {
        "edge" => Placement::Edge,
        "per-tile" => Placement::PerTile,
        "numa" => Placement::Numa,
        _ => Placement::Split,
    };
    m.workload.kind =
        if args[2] == "sync" { WorkloadKind::SyncRead } else { WorkloadKind::AsyncRead };
    m.workload.transfer_bytes = args[3].parse().unwrap();
    if let Some(r) = args.get(4) {
        m.noc.routing = match r.as_str() {
            "xy" => NocRouting::Xy,
            "yx" => NocRouting::Yx,
            "o1turn" => NocRouting::O1turn,
            "cdr" => NocRouting::Cdr,
            "out" => {
                m.noc.topology = NocTopology::NocOut;
                NocRouting::Xy
            }
            _ => NocRouting::CdrDirectory,
        };
    }
    if let Some(w) = args.get(5) {
        m.run.window_cycles = w.parse().unwrap();
    }
    if let Some(w) = args.get(6) {
        m.run.max_windows = w.parse().unwrap();
    }
    if let Ok(v) = std::env::var("SB") {
        m.core.store_buffer = v.parse().unwrap();
    }
    if let Ok(v) = std::env::var("PP") {
        m.core.posts_per_poll = v.parse().unwrap();
    }
    if let Ok(v) = std::env::var("VCS") {
        m.noc.vcs = v.parse().unwrap();
    }
    if let Ok(v) = std::env::var("BUF") {
        m.noc.buffer_flits = v.parse().unwrap();
    }
    if let Ok(v) = std::env::var("RT") {
        m.ni.rrpp_transactions = v.parse().unwrap();
    }
    if let Ok(v) = std::env::var("INJ") {
        m.noc.injection_cycles = v.parse().unwrap();
        m.noc.ejection_cycles = m.noc.injection_cycles;
    }
    match rackmem_sim::run::run(&m, &Default::default()) {
        Ok(r) => {
            println!(
                "{} {} {}: cycles {} in {:.2}s = {:.0}/s stable {}",
                args[1],
                args[2],
                args[3],
                r.cycles,
                r.seconds,
                r.cycles as f64 / r.seconds,
                r.stable
            );
            println!("latency {:?}", r.latency);
            for s in &r.breakdown {
                println!("  {:16} {:.1}", s.name, s.mean_cycles);
            }
            println!(
                "app {:.1} rcp {:.1} rrpp {:.1} noc {:.1} ratio {:.2} reads/us {:.1}",
                r.app_gbps,
                r.rcp_gbps,
                r.rrpp_gbps,
                r.noc_gbps,
                r.noc_gbps / r.app_gbps,
                r.reads_per_us
            );
            println!("{:?}", r.windows.iter().map(|w| w.app_gbps as u32).collect::<Vec<_>>());
            if std::env::var("STATS").is_ok() {
                for (k, v) in &r.stats {
                    if !k.starts_with("tile") {
                        println!("   {k} {v:.2}");
                    }
                }
            }
        }
        Err(e) => println!("ERR {e}"),
    }
}
