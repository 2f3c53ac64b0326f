//! A link: bytes take their time one after the other, without rounding away.

use rackmem_sim::window::wire::Wire;

#[test]
fn bytes_follow_each_other() {
    let mut wire = Wire::new(Some(4.0));
    assert_eq!(wire.send(10, 40), 20);
    assert_eq!(wire.send(12, 4), 21);
    assert_eq!(wire.send(100, 1), 101);
    assert_eq!(wire.busy_cycles(), 11);
    let mut slow = Wire::new(Some(1.0 / 3.0));
    let last = (0..1000).map(|_| slow.send(0, 1)).last();
    assert_eq!(last, Some(3000));
}

#[test]
fn parts_of_cycles_add_up() {
    let mut wire = Wire::new(Some(4.0 / 3.4));
    let last = (0..10_000).map(|_| wire.send(0, 88)).last().unwrap() as f64;
    assert!((last / (10_000.0 * 88.0 * 0.85) - 1.0).abs() < 1e-3, "{last}");
}

#[test]
fn a_link_without_limit_takes_no_time() {
    let mut wire = Wire::new(None);
    assert_eq!((wire.send(7, 1 << 20), wire.cycles(99), wire.free_at()), (7, 0, 7));
}

/// Bytes that come alone are not held up, however many they are; others that come with them follow.
#[test]
fn what_passes_at_the_same_time_follows_each_other() {
    let mut wire = Wire::new(Some(4.0));
    assert_eq!([wire.pass(100, 40), wire.pass(200, 40), wire.pass(210, 40)], [100, 200, 210]);
    assert_eq!([wire.pass(210, 40), wire.pass(210, 4), wire.pass(300, 4)], [220, 221, 300]);
    assert_eq!(wire.busy_cycles(), 42);
}
