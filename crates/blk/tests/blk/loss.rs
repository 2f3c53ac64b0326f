//! The lender dies: requests fail, the server does not.

use rackmem_blk::wire::command;

use super::client::Client;
use super::rig::{BOTH, Rig};

#[test]
fn requests_fail_with_eio_and_the_server_stays() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        for structured in [false, true] {
            let mut client = Client::ready(&rig, structured);
            if !structured {
                client.write(0, &[1; 4096]).unwrap();
                rig.heap.lose();
            }
            for _ in 0..3 {
                assert_eq!(client.read(0, 4096), Err(5));
                assert_eq!(client.read(0, 3 << 20), Err(5));
                assert_eq!(client.write(0, &[2; 4096]), Err(5));
                assert_eq!(client.write(0, &vec![2; 3 << 20]), Err(5));
                assert_eq!(client.command(command::WRITE_ZEROES, 0, 0, 1 << 20), Err(5));
                assert_eq!(client.command(command::FLUSH, 0, 0, 0), Err(5));
            }
            assert_eq!(client.read(u64::MAX, 1), Err(22), "what is wrong is still wrong");
        }
    }
}

/// It dies while requests are under way.
#[test]
fn requests_under_way_are_all_answered() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let mut client = Client::ready(&rig, true);
        let mut losses = 0;
        for round in 0..40 {
            let requests: Vec<_> =
                (0..16).map(|i| client.post(command::READ, 0, i * 4096, 4096)).collect();
            if round == 20 {
                rig.heap.lose();
            }
            for request in requests {
                match client.reply(&request) {
                    Ok(bytes) => assert_eq!(bytes.len(), 4096),
                    Err(error) => {
                        assert_eq!(error, 5);
                        losses += 1;
                    }
                }
            }
        }
        assert!((19 * 16..=20 * 16).contains(&losses), "{losses}");
    }
}
