//! Link, MTU and address of the NIC are those of the interface; rights to borrow.

use crate::rack::{LENDER, Rack, until};

fn follows(how: &str) {
    let Some(rack) = Rack::new() else { return };
    let lender = rack.lend();
    let borrower = rack.attach(how);
    let says = |host, interface, what: &str| rack.link(host, interface).unwrap().contains(what);

    rack.ip("E", "link set e0 down");
    borrower.line("the link is down");
    until("the cable is out", || says("R", "lent0", "NO-CARRIER"));
    rack.ip("E", "link set e0 up");
    borrower.line("the link is up");
    until("the cable is in", || !says("R", "lent0", "NO-CARRIER"));

    rack.ip("R", "link set lent0 mtu 1300");
    until("the NIC's register is written", || says("D", "nic0", "mtu 1300"));
    rack.ip("D", "link set nic0 mtu 1400");
    until("settings are told", || says("R", "lent0", "mtu 1400"));
    rack.ip("R", "link set lent0 address 02:00:00:00:00:77");
    until("the address is written", || says("D", "nic0", "02:00:00:00:00:77"));
    rack.ip("D", "link set nic0 address 02:00:00:00:00:78");
    until("the address is told", || says("R", "lent0", "02:00:00:00:00:78"));

    borrower.stop();
    lender.line("back");
    rack.assert_given_back();
    until("the MTU is what it was", || says("D", "nic0", "mtu 1500"));
    assert!(!says("D", "nic0", "02:00:00:00:00:7"), "and so is the address");
    lender.stop();
}

#[test]
fn the_interface_is_as_the_nic_through_processes() {
    follows("--mode tap");
}

#[test]
fn the_interface_is_as_the_nic_over_the_link() {
    follows("--mode tap --link udp");
}

#[test]
fn the_interface_is_as_the_nic_through_the_kernel() {
    follows("--mode kernel");
}

#[test]
fn a_nic_has_one_borrower_and_one_lender() {
    let Some(rack) = Rack::new() else { return };
    let lender = rack.lend();
    let borrower = rack.attach("");
    for link in ["tcp", "udp"] {
        let second =
            rack.nic("R", &format!("attach other --from {LENDER} --mode tap --link {link}"));
        let (status, complaint) = second.end();
        assert_eq!(status, Some(1));
        assert!(complaint.contains("nic0 is lent to 10.77.0.1"), "{complaint}");
        lender.line("10.77.0.1");
    }
    let (status, complaint) = rack.nic("D", "lend nic0 --listen 127.0.0.1:1").end();
    assert_eq!(status, Some(1));
    assert!(complaint.contains("already lent by another process"), "{complaint}");
    let (status, complaint) = rack.nic("R", &format!("attach lent0 --from {LENDER}")).end();
    assert_eq!(status, Some(1));
    assert!(complaint.contains("already an interface lent0"), "{complaint}");
    borrower.stop();
    lender.line("back");
    rack.attach("--mode tap").stop();
    lender.stop();
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let Some(rack) = Rack::new() else { return };
    let cases = [
        ("D", "lend nic7", "there is no interface nic7"),
        ("D", "lend lo", "no Ethernet"),
        ("R", "attach lent0 --from 10.77.0.2:9", "cannot reach a lender at 10.77.0.2:9"),
        ("R", "attach a-name-that-is-too-long --from 10.77.0.2", "1 to 15 bytes"),
        ("R", "attach lent0 --from 10.77.0.2 --mode kernel --link udp", "leave out one"),
    ];
    for (host, arguments, expected) in cases {
        let (status, complaint) = rack.nic(host, arguments).end();
        assert_eq!(status, Some(1), "{arguments}: {complaint}");
        assert!(complaint.contains(expected), "{arguments}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn missing_rights_are_named() {
    use std::os::unix::process::CommandExt;
    let Some(rack) = Rack::new() else { return };
    for (host, arguments) in [("D", "lend nic0"), ("R", "attach lent0 --from 10.77.0.2")] {
        // SAFETY: system calls only.
        let plain = |command: &mut std::process::Command| unsafe {
            command.pre_exec(|| {
                // The bounding set goes first: a program that root starts gets what is in it.
                for capability in 0..64 {
                    libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
                }
                Ok(())
            });
        };
        let (status, complaint) = rack.nic_as(host, arguments, plain).end();
        assert_eq!(status, Some(1), "{complaint}");
        assert!(complaint.contains("lacks CAP_NET_ADMIN"), "{complaint}");
        assert!(complaint.contains("sudo setcap cap_net_admin"), "{complaint}");
    }
}
