//! One instruction of a column.

use rackmem_riscv::encode::{b, i, opcode, r, s, u};

use super::tokens::Tokens;
use crate::litmus::test::{BRANCH_BYTES, ParseError};

/// What one instruction of a test becomes.
pub(super) struct Encoded<'t> {
    /// Its words; a large constant has two.
    pub(super) words: Vec<u32>,
    /// The label to which it branches.
    pub(super) label: Option<&'t str>,
    /// Bytes that it moves to or from memory, 0 if none.
    pub(super) bytes: u8,
}

type Result<T> = std::result::Result<T, ParseError>;

const KNOWN: &str = "an instruction (lw, ld, sw, sd, li, mv, nop, add, sub, xor, or, and and their immediates, fence, \
                     lr, sc, amo*, beq, bne, blt, bge, beqz, bnez, j)";

/// Parses one instruction, and nothing after it.
pub(super) fn instruction<'t>(tokens: &mut Tokens<'t>) -> Result<Encoded<'t>> {
    let Some(mnemonic) = tokens.peek() else { return Err(tokens.fail(KNOWN)) };
    let plain = |word| Encoded { words: vec![word], label: None, bytes: 0 };
    let encoded = if let Some((opcode, funct3, bytes)) = moved(mnemonic) {
        tokens.skip();
        Encoded { bytes, ..plain(load_or_store(tokens, opcode, funct3)?) }
    } else if let Some((funct3, funct7)) = register_operation(mnemonic) {
        tokens.skip();
        let [rd, rs1, rs2] = three_registers(tokens)?;
        plain(r(opcode::OP, funct3, funct7, rd, rs1, rs2))
    } else if let Some(funct3) = immediate_operation(mnemonic) {
        tokens.skip();
        plain(with_immediate(tokens, funct3)?)
    } else if let Some(branch) = branch(mnemonic) {
        tokens.skip();
        let (word, label) = branch_to(tokens, branch)?;
        Encoded { label: Some(label), ..plain(word) }
    } else if mnemonic == "li" {
        tokens.skip();
        Encoded { words: constant(tokens)?, label: None, bytes: 0 }
    } else if mnemonic.starts_with("fence") {
        plain(fence(tokens)?)
    } else if let Some((word, bytes)) = atomic(tokens)? {
        Encoded { bytes, ..plain(word) }
    } else {
        plain(short(tokens)?)
    };
    tokens.end("the end of the instruction: `|` or `;`")?;
    Ok(encoded)
}

/// Opcode, width and bytes of loads and stores.
fn moved(mnemonic: &str) -> Option<(u32, u32, u8)> {
    match mnemonic {
        "lw" => Some((opcode::LOAD, 2, 4)),
        "ld" => Some((opcode::LOAD, 3, 8)),
        "sw" => Some((opcode::STORE, 2, 4)),
        "sd" => Some((opcode::STORE, 3, 8)),
        _ => None,
    }
}

fn register_operation(mnemonic: &str) -> Option<(u32, u32)> {
    match mnemonic {
        "add" => Some((0, 0)),
        "sub" => Some((0, 0x20)),
        "xor" => Some((4, 0)),
        "or" => Some((6, 0)),
        "and" => Some((7, 0)),
        _ => None,
    }
}

fn immediate_operation(mnemonic: &str) -> Option<u32> {
    match mnemonic {
        "addi" => Some(0),
        "xori" => Some(4),
        "ori" => Some(6),
        "andi" => Some(7),
        _ => None,
    }
}

/// A kind of branch: its condition, and the number of registers that are compared.
fn branch(mnemonic: &str) -> Option<(u32, usize)> {
    let conditions = [("beq", 0), ("bne", 1), ("blt", 4), ("bge", 5), ("bltu", 6), ("bgeu", 7)];
    match mnemonic {
        "beqz" => Some((0, 1)),
        "bnez" => Some((1, 1)),
        "j" => Some((0, 0)),
        _ => conditions
            .into_iter()
            .find(|(name, _)| *name == mnemonic)
            .map(|(_, condition)| (condition, 2)),
    }
}

fn branch_to<'t>(
    tokens: &mut Tokens<'t>,
    (condition, compared): (u32, usize),
) -> Result<(u32, &'t str)> {
    let mut registers = [0; 2];
    for register in &mut registers[..compared] {
        *register = tokens.register()?;
        tokens.expect(",")?;
    }
    let label = tokens.name("a label")?;
    Ok((b(condition, registers[0], registers[1], BRANCH_BYTES), label))
}

fn three_registers(tokens: &mut Tokens) -> Result<[u32; 3]> {
    let first = tokens.register()?;
    tokens.expect(",")?;
    let second = tokens.register()?;
    tokens.expect(",")?;
    Ok([first, second, tokens.register()?])
}

fn small(tokens: &mut Tokens) -> Result<i32> {
    let before = tokens.clone();
    let expected = "a number from -2048 to 2047";
    match tokens.number(expected)? {
        number @ -2048..=2047 => Ok(number as i32),
        _ => Err(before.fail(expected)),
    }
}

fn with_immediate(tokens: &mut Tokens, funct3: u32) -> Result<u32> {
    let rd = tokens.register()?;
    tokens.expect(",")?;
    let rs1 = tokens.register()?;
    tokens.expect(",")?;
    Ok(i(opcode::OP_IMM, funct3, rd, rs1, small(tokens)?))
}

fn constant(tokens: &mut Tokens) -> Result<Vec<u32>> {
    let rd = tokens.register()?;
    tokens.expect(",")?;
    let before = tokens.clone();
    let expected = "a number of 32 bits";
    let value = tokens.number(expected)?;
    let value = i32::try_from(value).map_err(|_| before.fail(expected))?;
    if (-2048..2048).contains(&value) {
        return Ok(vec![i(opcode::OP_IMM, 0, rd, 0, value)]);
    }
    let upper = u(opcode::LUI, rd, value.wrapping_add(0x800));
    Ok(vec![upper, i(opcode::OP_IMM_32, 0, rd, rd, value << 20 >> 20)])
}

fn load_or_store(tokens: &mut Tokens, opcode: u32, funct3: u32) -> Result<u32> {
    let register = tokens.register()?;
    tokens.expect(",")?;
    let offset = if tokens.peek() == Some("(") { 0 } else { small(tokens)? };
    let base = in_brackets(tokens)?;
    Ok(match opcode {
        opcode::LOAD => i(opcode, funct3, register, base, offset),
        _ => s(opcode, funct3, base, register, offset),
    })
}

fn in_brackets(tokens: &mut Tokens) -> Result<u32> {
    tokens.expect("(")?;
    let base = tokens.register()?;
    tokens.expect(")")?;
    Ok(base)
}

/// `fence`, `fence pred,succ`, `fence.tso` and `fence.i`.
fn fence(tokens: &mut Tokens) -> Result<u32> {
    let fence = |imm| i(opcode::MISC_MEM, 0, 0, 0, imm);
    let word = match tokens.peek() {
        Some("fence.i") => i(opcode::MISC_MEM, 1, 0, 0, 0),
        Some("fence.tso") => fence(0x833_u32 as i32),
        Some("fence") => {
            tokens.skip();
            if tokens.peek().is_none() {
                return Ok(fence(0xff));
            }
            let before = set(tokens)?;
            tokens.expect(",")?;
            return Ok(fence(before << 4 | set(tokens)?));
        }
        _ => return Err(tokens.fail("fence, fence.tso or fence.i")),
    };
    tokens.skip();
    Ok(word)
}

/// A set of accesses, such as `rw`.
fn set(tokens: &mut Tokens) -> Result<i32> {
    let expected = "a set of i, o, r and w";
    let text = tokens.peek().ok_or_else(|| tokens.fail(expected))?;
    let mut bits = 0;
    for letter in text.chars() {
        bits |= match letter {
            'i' => 8,
            'o' => 4,
            'r' => 2,
            'w' => 1,
            _ => return Err(tokens.fail(expected)),
        };
    }
    tokens.skip();
    Ok(bits)
}

/// An atomic, if it is one: its word, and its bytes.
fn atomic(tokens: &mut Tokens) -> Result<Option<(u32, u8)>> {
    let text = tokens.peek().unwrap_or_default();
    let mut parts = text.split('.');
    let Some(funct5) = parts.next().and_then(atomic_operation) else { return Ok(None) };
    let width = match parts.next() {
        Some("w") => 2,
        Some("d") => 3,
        _ => return Err(tokens.fail("an atomic with .w or .d")),
    };
    let mut order = 0;
    for part in parts {
        order |= match part {
            "aq" => 2,
            "rl" => 1,
            "aqrl" => 3,
            _ => return Err(tokens.fail("an atomic with .aq, .rl or .aq.rl")),
        };
    }
    tokens.skip();
    let rd = tokens.register()?;
    tokens.expect(",")?;
    let mut data = 0;
    if funct5 != LR {
        data = tokens.register()?;
        tokens.expect(",")?;
    }
    if tokens.peek() == Some("0") {
        tokens.skip();
    }
    let base = in_brackets(tokens)?;
    Ok(Some((r(opcode::AMO, width, funct5 << 2 | order, rd, base, data), 1 << width)))
}

const LR: u32 = 2;

fn atomic_operation(name: &str) -> Option<u32> {
    Some(match name {
        "lr" => LR,
        "sc" => 3,
        "amoswap" => 1,
        "amoadd" => 0,
        "amoxor" => 4,
        "amoor" => 8,
        "amoand" => 12,
        "amomin" => 16,
        "amomax" => 20,
        "amominu" => 24,
        "amomaxu" => 28,
        _ => return None,
    })
}

/// `nop` and `mv`.
fn short(tokens: &mut Tokens) -> Result<u32> {
    match tokens.peek() {
        Some("nop") => {
            tokens.skip();
            Ok(i(opcode::OP_IMM, 0, 0, 0, 0))
        }
        Some("mv") => {
            tokens.skip();
            let rd = tokens.register()?;
            tokens.expect(",")?;
            Ok(i(opcode::OP_IMM, 0, rd, tokens.register()?, 0))
        }
        _ => Err(tokens.fail(KNOWN)),
    }
}
