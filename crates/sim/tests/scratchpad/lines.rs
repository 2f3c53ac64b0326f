//! States of lines: the operating system takes them away and brings them back.

use rackmem_sim::scratchpad::{Misuse, State};

use super::system::{InOrder, System, at};

/// State and tag bits are all that a line has besides its data (CI-05).
#[test]
fn lines_can_be_saved_and_restored() {
    let mut system = System::new(2);
    system.store(0, at(0, 64 + 8), (-5i64) as u64, &mut InOrder);
    system.mark(0, 1, State::Counter);
    system.mark(0, 2, State::Command);
    system.mark_queue(0, 3, State::SingleReader, 2, 128);
    system.store(0, at(0, 64), 2, &mut InOrder);
    system.store(0, at(0, 128 + 8), at(1, 1024), &mut InOrder);
    system.store(0, at(0, 192), 33, &mut InOrder);
    let ni = &system.nis[0];
    let saved: Vec<_> =
        (0..6).map(|line| (ni.tag(line, 0), ni.tag(line, 1), ni.load(line).unwrap())).collect();

    let mut restored = System::new(2);
    for (line, (_, _, words)) in (0..).zip(&saved) {
        for (word, value) in (0..).zip(words) {
            restored.store(0, at(0, 64 * line + 8 * word), *value, &mut InOrder);
        }
    }
    for (line, &(state, tag, _)) in (0..).zip(&saved) {
        if state == State::Plain as u64 {
            continue;
        }
        restored.nis[0].convert(line, state).unwrap();
        restored.nis[0].restore_tag(line, tag);
    }
    for (line, (state, tag, words)) in (0..).zip(&saved) {
        let ni = &restored.nis[0];
        assert_eq!((ni.tag(line, 0), ni.tag(line, 1)), (*state, *tag), "line {line}");
        assert_eq!(ni.load(line).as_ref(), Ok(words), "line {line}");
    }
    for (word, value) in [(0, 2 | 8 << 8), (16, 0), (24, at(0, 192 + 64))] {
        restored.store(0, at(0, 128 + word), value, &mut InOrder);
    }
    restored.settle(&mut InOrder);
    assert_eq!(restored.word(1, 1024), 33, "the command goes on where it was");
}

/// The state word shows whether a line has a job in the job list.
#[test]
fn lines_that_are_under_way_say_so() {
    let mut system = System::new(2);
    system.store(0, at(0, 64 + 8), (-8i64) as u64, &mut InOrder);
    system.store(0, at(0, 64 + 16), 1, &mut InOrder);
    system.store(0, at(0, 64 + 32), at(1, 1024), &mut InOrder);
    system.mark(0, 1, State::Counter);
    system.mark(0, 2, State::Command);
    let is_under_way = |system: &System| [1, 2].map(|line| system.nis[0].tag(line, 0) >> 63 == 1);
    for (word, value) in [(0, 2 | 200 << 8), (8, at(1, 512)), (16, 0)] {
        system.store(0, at(0, 128 + word), value, &mut InOrder);
    }
    assert_eq!(is_under_way(&system), [false, false]);
    system.store(0, at(0, 128 + 24), at(0, 4096), &mut InOrder);
    system.store(0, at(0, 64), 8, &mut InOrder);
    assert_eq!(is_under_way(&system), [true, true]);
    let busy = system.nis[0].convert(2, State::Plain as u64);
    assert_eq!(busy, Err(Misuse::InUse(at(0, 128))));
    while is_under_way(&system) != [false, false] {
        assert!(system.step(&mut InOrder).unwrap(), "nothing moves");
    }
    assert_eq!(system.nis[0].convert(2, State::Plain as u64), Ok(()));
    assert_eq!(system.nis[0].convert(1, State::Plain as u64), Ok(()));
}

#[test]
fn a_queue_keeps_the_lines_of_its_body() {
    let mut system = System::new(1);
    system.mark_queue(0, 3, State::MultipleReader, 1, 128);
    let ni = &mut system.nis[0];
    for line in [4u32, 5] {
        let place = at(0, 64 * line);
        assert_eq!(ni.convert(line, State::Cache as u64), Err(Misuse::InUse(place)));
    }
    assert_eq!(ni.convert(6, State::Counter as u64), Ok(()));
    for line in 3..6 {
        assert_eq!(ni.convert(line, State::Cache as u64), Ok(()), "the descriptor goes first");
    }
}
