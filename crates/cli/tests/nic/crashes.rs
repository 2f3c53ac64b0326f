//! Either end is killed, again and again: the other one notices, and nothing is left.

use crate::rack::{Rack, until};

const ROUNDS: usize = 4;
const WAYS: [&str; 3] = ["--mode kernel", "--mode tap", "--mode tap --link udp"];

#[test]
fn killed_borrowers_leave_nothing_and_the_nic_is_lent_again() {
    let Some(rack) = Rack::new() else { return };
    let lender = rack.lend();
    for round in 0..ROUNDS * WAYS.len() {
        let borrower = rack.attach(WAYS[round % WAYS.len()]);
        rack.ip("R", "link set lent0 mtu 1200");
        until("the NIC follows", || rack.link("D", "nic0").unwrap().contains("mtu 1200"));
        borrower.kill();
        lender.line("back from 10.77.0.1");
        rack.assert_given_back();
        until("the MTU is back", || rack.link("D", "nic0").unwrap().contains("mtu 1500"));
    }
    lender.stop();
}

#[test]
fn killed_lenders_leave_nothing_and_borrowers_are_told() {
    let Some(rack) = Rack::new() else { return };
    for round in 0..ROUNDS * WAYS.len() {
        let lender = rack.lend();
        let borrower = rack.attach(WAYS[round % WAYS.len()]);
        rack.ip("R", "link set lent0 mtu 1200");
        until("the NIC follows", || rack.link("D", "nic0").unwrap().contains("mtu 1200"));
        lender.kill();
        let (status, complaint) = borrower.end();
        assert_eq!(status, Some(1));
        assert!(complaint.contains("10.77.0.2:7471 is lost"), "{complaint}");
        rack.assert_given_back();
        until("the MTU is back", || rack.link("D", "nic0").unwrap().contains("mtu 1500"));
    }
}

#[test]
fn a_lender_that_ends_in_order_says_so() {
    let Some(rack) = Rack::new() else { return };
    for way in WAYS {
        let lender = rack.lend();
        let borrower = rack.attach(way);
        lender.stop();
        let (status, complaint) = borrower.end();
        assert_eq!(status, Some(1));
        assert!(complaint.contains("the lender takes its NIC back"), "{complaint}");
        rack.assert_given_back();
    }
}

#[test]
fn an_end_that_stops_without_dying_is_lost_in_time() {
    let Some(rack) = Rack::new() else { return };
    for way in WAYS {
        let lender = rack.lend();
        let borrower = rack.attach(way);
        lender.signal("STOP");
        let (status, complaint) = borrower.end();
        assert_eq!(status, Some(1));
        assert!(complaint.contains("nothing was heard of it for 3 s"), "{complaint}");
        lender.signal("CONT");
        lender.line("back from");
        rack.assert_given_back();
        lender.stop();
    }
}

#[test]
fn a_nic_that_is_removed_ends_the_loan() {
    let Some(rack) = Rack::new() else { return };
    for way in WAYS {
        let lender = rack.lend();
        let borrower = rack.attach(way);
        rack.ip("D", "link del nic0");
        let (status, complaint) = lender.end();
        assert_eq!(status, Some(1));
        assert!(complaint.contains("gone"), "{complaint}");
        assert_eq!(borrower.end().0, Some(1));
        until("lent0 is gone", || rack.link("R", "lent0").is_none());
        rack.ip("D", "link add nic0 type veth peer name other");
        rack.ip("D", "link set nic0 up");
        rack.ip("D", "link set other up");
    }
}
