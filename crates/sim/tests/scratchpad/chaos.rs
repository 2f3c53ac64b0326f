//! Many transfers at once, with little room everywhere: none is lost and none waits for ever.

use proptest::prelude::*;
use rackmem_sim::scratchpad::State;
use rackmem_sim::scratchpad::region::DRAM;

use super::system::{InOrder, Random, System, at};

const CORES: u16 = 4;
const COMMANDS: u32 = 4;
const ACK: u32 = 1024;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_lost_and_nothing_gets_stuck(
        transfers in prop::collection::vec((0..CORES, 0..=CORES, 0..=CORES, 1u64..700), 1..60),
        seed: u64,
    ) {
        let mut random = Random(seed);
        let mut system = System::new(CORES);
        for core in 0..CORES {
            (0..COMMANDS).for_each(|line| system.mark(core, line, State::Command));
            system.store(core, at(core, ACK + 8), 1 << 40, &mut InOrder);
            system.mark(core, ACK / 64, State::Counter);
        }
        let mut expected = [0u64; CORES as usize];
        for (nth, &(core, from, to, bytes)) in transfers.iter().enumerate() {
            let place = |core: u16, offset| if core < CORES { at(core, offset) } else { DRAM };
            let buffer = 64 * (nth as u32 % COMMANDS);
            let words = [2 | bytes << 8, place(to, 4096), at(core, ACK), place(from, 2048)];
            for (word, value) in (0..).zip(words) {
                system.store(core, at(core, buffer + 8 * word), value, &mut random);
            }
            expected[usize::from(core)] += bytes;
        }
        system.settle(&mut random);
        for core in 0..CORES {
            let counted = system.word(core, ACK) - (1 << 40);
            prop_assert_eq!(counted, expected[usize::from(core)], "core {}", core);
        }
    }
}
