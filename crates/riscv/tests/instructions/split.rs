//! Instructions in two halves do what they do in one.

use proptest::prelude::*;
use rackmem_riscv::csr::Counter;
use rackmem_riscv::encode::{i, opcode, r, s};
use rackmem_riscv::exec::split::{Access, AccessKind, Issued, complete, issue};
use rackmem_riscv::exec::{Exit, Trap, execute};
use rackmem_riscv::{AmoOp, Hart, Port, decode};

/// A few words of memory, at any address.
#[derive(Clone, Debug, PartialEq)]
struct Words([u8; 64]);

impl Words {
    fn peek(&self, address: u64, size: u8) -> u64 {
        (0..size).rev().fold(0, |value, byte| {
            value << 8 | u64::from(self.0[(address.wrapping_add(byte.into()) % 64) as usize])
        })
    }

    fn poke(&mut self, address: u64, size: u8, data: u64) {
        for byte in 0..size {
            let at = (address.wrapping_add(byte.into()) % 64) as usize;
            self.0[at] = (data >> (8 * byte)) as u8;
        }
    }

    /// Performs an access, as a driver does.
    fn carry_out(&mut self, access: &Access) -> u64 {
        let Access { address, size, data, .. } = *access;
        match access.kind {
            AccessKind::Load | AccessKind::LoadReserved => self.peek(address, size),
            AccessKind::Store => {
                self.poke(address, size, data);
                0
            }
            AccessKind::Amo(op) => {
                let old = self.peek(address, size);
                self.poke(address, size, op.apply(size, old, data));
                old
            }
            AccessKind::StoreConditional => 1,
            AccessKind::Fence { .. } | AccessKind::FenceI => 0,
        }
    }
}

impl Port for Words {
    type Stop = ();

    fn load(&mut self, address: u64, size: u8) -> Result<u64, ()> {
        Ok(self.peek(address, size))
    }

    fn store(&mut self, address: u64, size: u8, data: u64) -> Result<(), ()> {
        self.poke(address, size, data);
        Ok(())
    }

    fn amo(&mut self, op: AmoOp, address: u64, size: u8, operand: u64) -> Result<u64, ()> {
        let old = self.peek(address, size);
        self.poke(address, size, op.apply(size, old, operand));
        Ok(old)
    }

    fn load_reserved(&mut self, address: u64, size: u8) -> Result<u64, ()> {
        Ok(self.peek(address, size))
    }

    fn store_conditional(&mut self, _: u64, _: u8, _: u64) -> Result<bool, ()> {
        Ok(false)
    }

    fn fence(&mut self, _: u8, _: u8) -> Result<(), ()> {
        Ok(())
    }

    fn fence_i(&mut self) -> Result<(), ()> {
        Ok(())
    }

    fn counter(&mut self, _: Counter) -> Result<u64, ()> {
        Ok(COUNT)
    }
}

const COUNT: u64 = 0x1234_5678_9abc;

fn harts() -> impl Strategy<Value = Hart> {
    (any::<[u64; 32]>(), any::<[u64; 32]>(), 0u8..32, 0u8..5).prop_map(|(mut x, f, fflags, frm)| {
        x[0] = 0;
        Hart { pc: 0x1000, x, f, fflags, frm }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn two_halves_are_one_whole(word: u32, major in 0usize..8, hart in harts(), bytes: [u8; 32]) {
        const MAJORS: [u32; 8] = [
            opcode::LOAD, opcode::LOAD_FP, opcode::STORE, opcode::STORE_FP, opcode::AMO,
            opcode::MISC_MEM, opcode::SYSTEM, opcode::OP,
        ];
        // Mostly what touches memory; now and then anything.
        let word = if word % 8 == 0 { word } else { word & !0x7f | MAJORS[major] };
        let inst = decode(word);
        let mut memory = Words(std::array::from_fn(|index| bytes[index % 32]));
        let (mut whole, mut halves) = (hart.clone(), hart);
        let mut memory_of_halves = memory.clone();
        let once = execute(&mut whole, &inst, &mut memory);
        match issue(&mut halves, &inst, |_| COUNT) {
            Ok(Issued::Done) => prop_assert_eq!(once, Ok(())),
            Ok(Issued::Access(access)) => {
                prop_assert_eq!(once, Ok(()));
                let value = memory_of_halves.carry_out(&access);
                if access.has_value() {
                    complete(&mut halves, &inst, value);
                }
            }
            Err(trap) => prop_assert_eq!(once, Err(Exit::Trap(trap))),
        }
        prop_assert_eq!(whole, halves);
        prop_assert_eq!(memory, memory_of_halves);
    }
}

fn access(hart: &mut Hart, word: u32) -> Access {
    match issue(hart, &decode(word), |_| 0) {
        Ok(Issued::Access(access)) => access,
        other => panic!("{other:?} is no access"),
    }
}

#[test]
fn loads_complete_in_any_order() {
    let mut hart = Hart::new(0x1000);
    hart.x[10] = 0x2000;
    let words = [
        i(opcode::LOAD, 3, 11, 10, 8),   // ld a1,8(a0)
        i(opcode::LOAD, 0, 12, 10, -1),  // lb a2,-1(a0)
        i(opcode::LOAD_FP, 2, 1, 10, 4), // flw ft1,4(a0)
    ];
    let accesses = words.map(|word| access(&mut hart, word));
    assert_eq!(hart.pc, 0x100c, "the hart is past all three");
    assert_eq!(accesses.map(|a| (a.address, a.size)), [(0x2008, 8), (0x1fff, 1), (0x2004, 4)]);
    complete(&mut hart, &decode(words[2]), 0x3f80_0000);
    complete(&mut hart, &decode(words[1]), 0x80);
    complete(&mut hart, &decode(words[0]), 7);
    assert_eq!((hart.x[11], hart.x[12]), (7, -128i64 as u64));
    assert_eq!(hart.f[1], 0xffff_ffff_3f80_0000, "boxed");
}

#[test]
fn stores_and_atomics_bring_their_data() {
    let mut hart = Hart::new(0);
    hart.x[10] = 0x2000;
    hart.x[11] = 0x1122_3344_5566_7788;
    let store = access(&mut hart, s(opcode::STORE, 1, 10, 11, 2));
    assert_eq!((store.kind, store.address, store.size), (AccessKind::Store, 0x2002, 2));
    assert_eq!((store.data, store.has_value()), (0x7788, false));
    let amo = access(&mut hart, r(opcode::AMO, 2, 2, 12, 10, 11));
    assert_eq!(amo.kind, AccessKind::Amo(AmoOp::Add));
    assert_eq!((amo.data, amo.acquire, amo.release), (0x5566_7788, true, false));
    complete(&mut hart, &decode(r(opcode::AMO, 2, 0, 12, 10, 11)), 0xffff_ffff);
    assert_eq!(hart.x[12], u64::MAX, "32-bit values are sign-extended");
}

#[test]
fn traps_leave_the_hart_as_it_was() {
    for (word, trap) in [(0x73, Trap::Ecall), (0x0010_0073, Trap::Ebreak), (0, Trap::Illegal)] {
        let mut hart = Hart::new(0x1000);
        let before = hart.clone();
        assert_eq!(issue(&mut hart, &decode(word), |_| 0), Err(trap));
        assert_eq!(hart, before);
    }
    let mut hart = Hart::new(0x1000);
    hart.frm = 5;
    let dynamic = decode(r(opcode::OP_FP, 7, 1, 0, 1, 2));
    assert_eq!(issue(&mut hart, &dynamic, |_| 0), Err(Trap::Illegal), "a reserved rounding mode");
}

#[test]
fn unsigned_minimum_of_words() {
    assert_eq!(AmoOp::MinUnsigned.apply(4, 0xffff_ffff, 1), 1);
    assert_eq!(AmoOp::Min.apply(4, 0xffff_ffff, 1), 0xffff_ffff);
    assert_eq!(AmoOp::MaxUnsigned.apply(8, u64::MAX, 1), u64::MAX);
}
