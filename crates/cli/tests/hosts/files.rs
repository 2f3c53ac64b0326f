//! Wrong rack files and options are refused in one sentence.

use crate::common::Host;
use crate::rig::Rig;

#[test]
fn a_wrong_file_is_named_with_its_line() {
    let rig = Rig::new(2);
    let file = rig.file();
    let refuses = |text: &str, expected: &str| {
        rig.write("rack.toml", text, 0o644);
        let complaint = rig.fails(1, &["up"]);
        assert!(complaint.starts_with(&format!("rackmem: {file}{expected}")), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    };
    let right = "name = \"lab\"\nsecret_file = \"lab.secret\"\n";
    refuses("nmae = \"lab\"\n", ":1: 'nmae' is no key of a rack file; did you mean 'name'?");
    refuses("name = \"lab\n", ":1: ");
    refuses(right, ": it has no node");
    refuses(
        &format!("{right}[[node]]\naddress = \"127.0.0.2\"\n"),
        ":4: '127.0.0.2' is no address",
    );
    rig.write("lab.secret", "0123456789abcdef", 0o644);
    refuses(right, ":2: others may use the secret");
    let complaint = rig.host.fails(1, &["status", "--rack-file", &rig.path("none.toml")]);
    assert!(complaint.contains("cannot read the rack file /"), "{complaint}");
    rig.assert_nothing_left();
}

/// All listeners say the same of an address that they cannot have.
#[test]
fn a_taken_address_is_said_to_be_with_a_remedy() {
    let rig = Rig::new(2);
    let text = std::fs::read_to_string(rig.file()).unwrap();
    let addresses = text.split('"').filter(|part| part.ends_with(":7400"));
    let [address, free] = addresses.collect::<Vec<_>>()[..] else { panic!("{text}") };
    let _taken = std::net::TcpListener::bind(address).unwrap();
    let up = rig.fails_on(0, &["up", "--node", "0"]).err;
    let fails = |args: &[&str]| rig.host.fails(1, args);
    let elsewhere = ["--listen", address, "--insecure"];
    let lend = fails(&[&["lend", "1M"], &elsewhere[..]].concat());
    let monitor = fails(&[&["monitor"], &elsewhere[..]].concat());
    let sockets = fails(&["sockets", "listen", address, "--to", free, "--insecure"]);
    for said in [up, lend, monitor, sockets] {
        let remedy = ", where another process listens (`ss -lntup` names it): end that one, or choose another port";
        assert!(said.contains(&format!("cannot listen at {address}")), "{said}");
        assert!(said.contains(remedy), "{said}");
    }
    let foreign = fails(&["lend", "1M", "--listen", "192.0.2.1:7400", "--insecure"]);
    assert!(foreign.contains("192.0.2.1:7400, which is no address of this host"), "{foreign}");
    rig.assert_nothing_left();
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let rig = Rig::new(2);
    let file = rig.file();
    for (args, expected) in [
        (&["up", "--nodes", "2"][..], "leave --nodes out"),
        (&["up", "--rack", "lab"], "--rack or --rack-file, not both"),
        (&["run", "--together", "--", "true"], "--together is for a rack of the run's own"),
        (&["up", "--launcher", "ssh {host}"], "--hosts"),
        (&["up", "--node", "0", "--hosts"], "--hosts"),
        (&["run", "--as-node", "0", "--", "true"], "--context"),
    ] {
        let complaint = rig.fails(2, args);
        assert!(complaint.contains(expected), "{args:?}: {complaint}");
    }
    for args in [&["man"][..], &["noc"], &["cc", "x.c"]] {
        let complaint = rig.host.fails(2, &[&["--rack-file", &file], args].concat());
        assert!(complaint.contains("leave --rack-file out"), "{args:?}: {complaint}");
    }
    rig.host.fails(2, &["leases", "--rack", "lab", "--rack-file", &file]);
    for command in [
        &["leases"][..],
        &["lend", "1G"],
        &["nic", "lend", "eth1"],
        &["sockets", "connect", "./m", "--listen", "./l"],
    ] {
        let both = ["--secret", &file, "--rack-file", &file];
        let complaint = rig.host.fails(2, &[command, &both].concat());
        assert!(complaint.contains("cannot be used with"), "{command:?}: {complaint}");
    }
    assert!(rig.fails(1, &["run", "-n", "3", "--", "true"]).contains("'lab' has 2 nodes, not 3"));
    rig.assert_nothing_left();
}

#[test]
fn without_a_rack_file_there_is_one_host() {
    let host = Host::new();
    for args in [
        &["up", "--nodes", "1", "--hosts"][..],
        &["up", "--nodes", "1", "--node", "0"],
        &["down", "--hosts"],
        &["run", "-n", "1", "--launcher", "ssh {host}", "--", "true"],
    ] {
        let complaint = host.fails(2, args);
        assert!(complaint.contains("--rack-file"), "{args:?}: {complaint}");
    }
    assert!(host.fails(2, &["up"]).contains("how many nodes?"));
    host.assert_nothing_left();
}
