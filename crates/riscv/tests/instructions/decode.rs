//! Decoder and disassembler.

use proptest::prelude::*;
use rackmem_riscv::encode::{b, i, j, opcode, r, s, u};
use rackmem_riscv::{Class, Inst, JumpHint, Op, Reg, decode, disassemble, expand, length};

fn text(word: u32) -> String {
    disassemble(&decode(word), 0x1000).to_string()
}

#[test]
fn what_assemblers_write() {
    // Words and texts as GNU objdump has them, spaces aside.
    for (word, expected) in [
        (0x0000_0013, "nop"),
        (0xfe01_0113, "addi sp,sp,-32"),
        (0x0000_8067, "ret"),
        (0x0081_3083, "ld ra,8(sp)"),
        (0x0011_3423, "sd ra,8(sp)"),
        (0x0000_0517, "auipc a0,0x0"),
        (0x8000_0537, "lui a0,0x80000"),
        (0x0ff0_000f, "fence"),
        (0x0330_000f, "fence rw,rw"),
        (0x8330_000f, "fence.tso"),
        (0x0230_000f, "fence r,rw"),
        (0x1405_27af, "lr.w.aq a5,(a0)"),
        (0x18e5_27af, "sc.w a5,a4,(a0)"),
        (0x06c5_b52f, "amoadd.d.aqrl a0,a2,(a1)"),
        (0x02b5_7553, "fadd.d fa0,fa0,fa1"),
        (0xc205_1553, "fcvt.w.d a0,fa0,rtz"),
        (0xd205_0553, "fcvt.d.w fa0,a0"),
        (0x22b5_8553, "fmv.d fa0,fa1"),
        (0x0010_2573, "frflags a0"),
        (0xc000_2573, "rdcycle a0"),
        (0x0000_0073, "ecall"),
        (0x40a0_0533, "neg a0,a0"),
        (0x0015_3513, "seqz a0,a0"),
        (0x4035_5513, "srai a0,a0,0x3"),
        (0x0005_0463, "beqz a0,0x1008"),
        (0xff5f_f06f, "j 0xff4"),
        (0x8082, "ret"),
        (0x1141, "addi sp,sp,-16"),
        (0x852e, "mv a0,a1"),
        (0x9002, "ebreak"),
        (0xffff_ffff, ".4byte 0xffffffff"),
        (0x0000, ".2byte 0x0000"),
    ] {
        assert_eq!(text(word), expected, "{word:#010x}");
    }
}

#[test]
fn compressed_instructions_stand_for_full_ones() {
    for (half, word) in [
        (0x0048, i(opcode::OP_IMM, 0, 10, 2, 4)),      // c.addi4spn
        (0x4188, i(opcode::LOAD, 2, 10, 11, 0)),       // c.lw
        (0x6588, i(opcode::LOAD, 3, 10, 11, 8)),       // c.ld
        (0xe588, s(opcode::STORE, 3, 11, 10, 8)),      // c.sd
        (0x2588, i(opcode::LOAD_FP, 3, 10, 11, 8)),    // c.fld
        (0x157d, i(opcode::OP_IMM, 0, 10, 10, -1)),    // c.addi
        (0x357d, i(opcode::OP_IMM_32, 0, 10, 10, -1)), // c.addiw
        (0x557d, i(opcode::OP_IMM, 0, 10, 0, -1)),     // c.li
        (0x7139, i(opcode::OP_IMM, 0, 2, 2, -64)),     // c.addi16sp
        (0x757d, u(opcode::LUI, 10, -4096)),           // c.lui
        (0x9101, i(opcode::OP_IMM, 5, 10, 10, 32)),    // c.srli
        (0x957d, i(opcode::OP_IMM, 5, 10, 10, 0x43f)), // c.srai
        (0x8d0d, r(opcode::OP, 0, 0x20, 10, 10, 11)),  // c.sub
        (0x9d2d, r(opcode::OP_32, 0, 0, 10, 10, 11)),  // c.addw
        (0xa001, j(0, 0)),                             // c.j
        (0xc119, b(0, 10, 0, 6)),                      // c.beqz
        (0xfd7d, b(1, 10, 0, -2)),                     // c.bnez
        (0x0532, i(opcode::OP_IMM, 1, 10, 10, 12)),    // c.slli
        (0x4522, i(opcode::LOAD, 2, 10, 2, 8)),        // c.lwsp
        (0x7542, i(opcode::LOAD, 3, 10, 2, 48)),       // c.ldsp
        (0xf82a, s(opcode::STORE, 3, 2, 10, 48)),      // c.sdsp
        (0x8502, i(opcode::JALR, 0, 0, 10, 0)),        // c.jr
        (0x9502, i(opcode::JALR, 0, 1, 10, 0)),        // c.jalr
        (0x952e, r(opcode::OP, 0, 0, 10, 10, 11)),     // c.add
    ] {
        assert_eq!(expand(half), Some(word), "{half:#06x}: {}", text(half.into()));
    }
}

#[test]
fn reserved_encodings_are_illegal() {
    let illegal = [
        0x0000,      // all zeros
        0x8002,      // c.jr x0
        0x4002,      // c.lwsp x0
        0x2001,      // c.addiw x0
        0x6101,      // c.addi16sp 0
        0x0205_d553, // rounding mode 5
        0x0010_5573, // csrrwi to fflags is fine, but ...
        0xc000_1073, // ... counters can not be written
        0x3000_2573, // mstatus
        0x3020_0073, // mret
        0x1050_0073, // wfi
        0x1015_27af, // lr.w with a second source
        0x0c05_7553, // half precision
    ];
    for word in illegal.into_iter().filter(|&word| word != 0x0010_5573) {
        assert_eq!(decode(word).op, Op::Illegal, "{word:#010x}: {}", text(word));
    }
    assert_eq!(decode(0x0010_5573).op, Op::Csrrwi);
}

#[test]
fn jumps_tell_calls_from_returns() {
    let jalr = |rd, rs1| decode(i(opcode::JALR, 0, rd, rs1, 0)).jump_hint();
    assert_eq!(jalr(0, 1), JumpHint::Return);
    assert_eq!(jalr(0, 6), JumpHint::None);
    assert_eq!(jalr(1, 6), JumpHint::Call);
    assert_eq!(jalr(1, 5), JumpHint::ReturnAndCall);
    assert_eq!(jalr(5, 5), JumpHint::Call);
    assert_eq!(decode(j(1, 8)).jump_hint(), JumpHint::Call);
    assert_eq!(decode(j(0, 8)).jump_hint(), JumpHint::None);
}

#[test]
fn metadata_names_registers_and_sizes() {
    let fused = decode(0x6a02_7543); // fmadd.d fa0,ft4,ft0,fa3
    assert_eq!(fused.op, Op::FmaddD);
    assert_eq!(fused.dest(), Some(Reg::f(10)));
    assert_eq!(fused.sources(), [Some(Reg::f(4)), Some(Reg::f(0)), Some(Reg::f(13))]);
    assert_eq!(fused.class(), Class::FpFma);
    let store = decode(s(opcode::STORE_FP, 2, 10, 3, 4));
    assert_eq!((store.dest(), store.access_size()), (None, 4));
    assert_eq!(store.sources(), [Some(Reg::x(10)), Some(Reg::f(3)), None]);
    let to_zero = decode(i(opcode::OP_IMM, 0, 0, 0, 1));
    assert_eq!((to_zero.dest(), to_zero.sources()), (None, [None; 3]));
    assert_eq!(decode(b(0, 1, 2, -8)).target(0x1000), Some(0xff8));
}

fn without_encoding(inst: Inst) -> Inst {
    Inst { len: 0, raw: 0, ..inst }
}

/// Every 16-bit pattern, so nothing is left to chance.
#[test]
fn every_compressed_instruction_is_its_expansion() {
    for half in 0..=u16::MAX {
        if length(half) != 2 {
            assert_eq!(expand(half), None);
            continue;
        }
        let inst = decode(half.into());
        assert_eq!((inst.len, inst.raw), (2, half.into()));
        let _ = disassemble(&inst, 0).to_string();
        match expand(half) {
            Some(word) => {
                assert_ne!(inst.op, Op::Illegal, "{half:#06x}");
                assert_eq!(without_encoding(inst), without_encoding(decode(word)), "{half:#06x}");
            }
            None => assert_eq!(inst.op, Op::Illegal, "{half:#06x}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_word_decodes_and_prints(word: u32, pc: u64) {
        let inst = decode(word);
        prop_assert!(!disassemble(&inst, pc).to_string().is_empty());
        let _ = (inst.sources(), inst.dest(), inst.class(), inst.jump_hint(), inst.target(pc));
    }

    #[test]
    fn likely_words_decode_and_print(word: u32, major in 0usize..21, pc: u64) {
        const MAJORS: [u32; 21] = [
            opcode::LOAD, opcode::LOAD_FP, opcode::MISC_MEM, opcode::OP_IMM, opcode::AUIPC,
            opcode::OP_IMM_32, opcode::STORE, opcode::STORE_FP, opcode::AMO, opcode::OP,
            opcode::LUI, opcode::OP_32, opcode::MADD, opcode::MSUB, opcode::NMSUB, opcode::NMADD,
            opcode::OP_FP, opcode::BRANCH, opcode::JALR, opcode::JAL, opcode::SYSTEM,
        ];
        let inst = decode(word & !0x7f | MAJORS[major]);
        prop_assert_eq!(inst.len, 4);
        prop_assert!(!disassemble(&inst, pc).to_string().is_empty());
    }

    #[test]
    fn immediates_survive(imm in -2048i32..2048, rd in 0u32..32, rs1 in 0u32..32, far: i32) {
        let addi = decode(i(opcode::OP_IMM, 0, rd, rs1, imm));
        prop_assert_eq!((addi.rd, addi.rs1, addi.imm), (rd as u8, rs1 as u8, imm));
        let store = decode(s(opcode::STORE, 3, rd, rs1, imm));
        prop_assert_eq!((store.rs1, store.rs2, store.imm), (rd as u8, rs1 as u8, imm));
        prop_assert_eq!(decode(b(0, rd, rs1, imm * 2)).imm, imm * 2);
        let distance = (far % (1 << 20)) & !1;
        prop_assert_eq!(decode(j(rd, distance)).imm, distance);
        prop_assert_eq!(decode(u(opcode::LUI, rd, far)).imm, far & !0xfff);
    }
}
