//! Every change is told once, in the order of the line, to the node that the table names, and lines
//! take turns.

use proptest::collection::vec;
use proptest::prelude::*;
use rackmem_rmc::imt::{Change, Imt};

fn mapped() -> Imt {
    let mut imt = Imt::default();
    (0..16).for_each(|line| imt.map(line, Some(u16::from(line) + 100)));
    imt
}

proptest! {
    #[test]
    fn what_is_told_is_what_happened(events in vec((0u8..17, any::<bool>()), 0..300)) {
        let mut imt = mapped();
        let (mut level, mut known, mut untold) = ([false; 16], [false; 16], [false; 16]);
        let mut told = |imt: &mut Imt, level: &[bool; 16], untold: &mut [bool; 16]| {
            let change = imt.take()?;
            let line = usize::from(change.line);
            assert_eq!(change.destination, 100 + u16::from(change.line));
            assert_ne!(change.asserted, known[line], "changes alternate");
            assert!(untold[line] || change.asserted == level[line], "nothing is made up");
            known[line] = change.asserted;
            untold[line] = known[line] != level[line];
            Some(change)
        };
        for (what, asserted) in events {
            let line = usize::from(what);
            if what == 16 {
                told(&mut imt, &level, &mut untold);
            } else {
                untold[line] |= level[line] != asserted;
                level[line] = asserted;
                prop_assert_eq!(imt.drive(what, asserted), imt.has_changes());
            }
        }
        while told(&mut imt, &level, &mut untold).is_some() {}
        prop_assert_eq!(known, level, "in the end the other side knows");
        prop_assert_eq!(untold, [false; 16]);
    }
}

#[test]
fn a_pulse_is_told_as_both_changes() {
    let mut imt = mapped();
    imt.drive(3, true);
    imt.drive(3, false);
    let change = |asserted| Some(Change { line: 3, asserted, destination: 103 });
    assert_eq!([imt.take(), imt.take(), imt.take()], [change(true), change(false), None]);
}

#[test]
fn lines_take_turns() {
    let mut imt = mapped();
    let mut order = Vec::new();
    for _ in 0..6 {
        for line in [2, 9] {
            imt.drive(line, true);
            imt.drive(line, false);
        }
        order.extend(imt.take().map(|change| change.line));
    }
    assert_eq!(order, [2, 9, 2, 9, 2, 9]);
}

#[test]
fn lines_that_are_mapped_to_nobody_wait() {
    let mut imt = Imt::default();
    assert!(!imt.drive(0, true));
    assert_eq!(imt.take(), None);
    imt.map(0, Some(7));
    assert_eq!(imt.take(), Some(Change { line: 0, asserted: true, destination: 7 }));
}
