use rackmem::{daemon, rack::Rack};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let rack = Rack::named(None).unwrap();
    let nodes = 2;
    if a[1] == "create" {
        let _ = rack.remove();
        rack.create(nodes).unwrap();
        rack.create_context(0, 0o600).unwrap();
        return;
    }
    daemon::run(daemon::Config {
        rack,
        nid: a[1].parse().unwrap(),
        pin_core: Some(1),
        spin: std::time::Duration::from_micros(200),
        share_core: std::env::var("SHARE").is_ok(),
    })
    .unwrap();
}
