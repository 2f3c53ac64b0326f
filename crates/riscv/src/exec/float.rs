//! Floating-point instructions: operands out of the registers, arithmetic from [`crate::float`].

use super::{BOX, Trap};
use crate::float::convert::{self, Integer};
use crate::float::{Double, Env, Format, Rounding, Single, compare, host, soft};
use crate::{Hart, Inst, Op};

/// Executes a floating-point instruction that is neither load nor store.
pub(super) fn execute(hart: &mut Hart, inst: &Inst) -> Result<(), Trap> {
    let rounding = rounding(hart, inst)?;
    let unit = Unit { inst, rounding };
    match inst.op {
        Op::FaddD => unit.double2(hart, host::double::add, soft::add::<Double>),
        Op::FsubD => unit.double2(hart, host::double::sub, soft::sub::<Double>),
        Op::FmulD => unit.double2(hart, host::double::mul, soft::mul::<Double>),
        Op::FdivD => unit.double2(hart, host::double::div, soft::div::<Double>),
        Op::FmaddD => unit.double_fma(hart, 0, 0),
        Op::FmsubD => unit.double_fma(hart, 0, Double::SIGN),
        Op::FnmsubD => unit.double_fma(hart, Double::SIGN, 0),
        Op::FnmaddD => unit.double_fma(hart, Double::SIGN, Double::SIGN),
        Op::FsqrtD => unit.double_sqrt(hart),
        Op::FaddS => unit.single2(hart, host::single::add, soft::add::<Single>),
        Op::FsubS => unit.single2(hart, host::single::sub, soft::sub::<Single>),
        Op::FmulS => unit.single2(hart, host::single::mul, soft::mul::<Single>),
        Op::FdivS => unit.single2(hart, host::single::div, soft::div::<Single>),
        Op::FmaddS => unit.single_fma(hart, 0, 0),
        Op::FmsubS => unit.single_fma(hart, 0, Single::SIGN),
        Op::FnmsubS => unit.single_fma(hart, Single::SIGN, 0),
        Op::FnmaddS => unit.single_fma(hart, Single::SIGN, Single::SIGN),
        Op::FsqrtS => unit.single_sqrt(hart),
        _ => unit.others(hart),
    }
    Ok(())
}

/// The mode that the instruction rounds by. What does not round does not care.
fn rounding(hart: &Hart, inst: &Inst) -> Result<Rounding, Trap> {
    const DYNAMIC: u8 = 7;
    let mode = if inst.rm == DYNAMIC { hart.rounding() } else { Rounding::from_bits(inst.rm) };
    mode.ok_or(Trap::Illegal)
}

/// A single-precision operand: an unboxed value counts as NaN.
fn unboxed(register: u64) -> u64 {
    if register & BOX == BOX { register & !BOX } else { Single::NAN }
}

type Host2 = fn(u64, u64, u8) -> Option<u64>;
type Soft2 = fn(u64, u64, &mut Env) -> u64;

/// One instruction about to be executed.
struct Unit<'a> {
    inst: &'a Inst,
    rounding: Rounding,
}

impl Unit<'_> {
    /// `fast` if the host rounds as wanted and knows the flags, else `soft`.
    #[inline(always)]
    fn either(
        &self,
        hart: &mut Hart,
        fast: impl FnOnce(u8) -> Option<u64>,
        soft: impl FnOnce(&mut Env) -> u64,
    ) -> u64 {
        if self.rounding == Rounding::NearestEven
            && let Some(result) = fast(hart.fflags)
        {
            return result;
        }
        self.softly(hart, soft)
    }

    fn softly(&self, hart: &mut Hart, soft: impl FnOnce(&mut Env) -> u64) -> u64 {
        let mut env = Env::new(self.rounding);
        let result = soft(&mut env);
        hart.fflags |= env.flags;
        result
    }

    #[inline(always)]
    fn double2(&self, hart: &mut Hart, fast: Host2, soft: Soft2) {
        let (a, b) = (hart.f(self.inst.rs1), hart.f(self.inst.rs2));
        let result = self.either(hart, |flags| fast(a, b, flags), |env| soft(a, b, env));
        hart.set_f(self.inst.rd, result);
    }

    #[inline(always)]
    fn single2(&self, hart: &mut Hart, fast: Host2, soft: Soft2) {
        let (a, b) = (unboxed(hart.f(self.inst.rs1)), unboxed(hart.f(self.inst.rs2)));
        let result = self.either(hart, |flags| fast(a, b, flags), |env| soft(a, b, env));
        hart.set_f(self.inst.rd, result | BOX);
    }

    /// The signs of product and addend are changed by `product` and `addend`.
    fn double_fma(&self, hart: &mut Hart, product: u64, addend: u64) {
        let (a, b) = (hart.f(self.inst.rs1) ^ product, hart.f(self.inst.rs2));
        let c = hart.f(self.inst.rs3) ^ addend;
        let fast = |flags| host::double::fma(a, b, c, flags);
        let result = self.either(hart, fast, |env| soft::fma::<Double>(a, b, c, env));
        hart.set_f(self.inst.rd, result);
    }

    fn single_fma(&self, hart: &mut Hart, product: u64, addend: u64) {
        let (a, b) = (unboxed(hart.f(self.inst.rs1)) ^ product, unboxed(hart.f(self.inst.rs2)));
        let c = unboxed(hart.f(self.inst.rs3)) ^ addend;
        let fast = |flags| host::single::fma(a, b, c, flags);
        let result = self.either(hart, fast, |env| soft::fma::<Single>(a, b, c, env));
        hart.set_f(self.inst.rd, result | BOX);
    }

    fn double_sqrt(&self, hart: &mut Hart) {
        let a = hart.f(self.inst.rs1);
        let fast = |flags| host::double::sqrt(a, flags);
        let result = self.either(hart, fast, |env| soft::sqrt::<Double>(a, env));
        hart.set_f(self.inst.rd, result);
    }

    fn single_sqrt(&self, hart: &mut Hart) {
        let a = unboxed(hart.f(self.inst.rs1));
        let fast = |flags| host::single::sqrt(a, flags);
        let result = self.either(hart, fast, |env| soft::sqrt::<Single>(a, env));
        hart.set_f(self.inst.rd, result | BOX);
    }

    fn others(&self, hart: &mut Hart) {
        let inst = self.inst;
        let integer = hart.x(inst.rs1);
        let (a, b) = (hart.f(inst.rs1), hart.f(inst.rs2));
        match inst.op {
            Op::FmvXW => hart.set_x(inst.rd, a as i32 as u64),
            Op::FmvXD => hart.set_x(inst.rd, a),
            Op::FmvWX => hart.set_f(inst.rd, integer | BOX),
            Op::FmvDX => hart.set_f(inst.rd, integer),
            // Always exact, so neither mode nor flags matter.
            Op::FcvtDW => hart.set_f(inst.rd, f64::from(integer as i32).to_bits()),
            Op::FcvtDWu => hart.set_f(inst.rd, f64::from(integer as u32).to_bits()),
            Op::FcvtDS => {
                let result =
                    self.softly(hart, |e| convert::between::<Single, Double>(unboxed(a), e));
                hart.set_f(inst.rd, result);
            }
            Op::FcvtSD => {
                let result = self.softly(hart, |e| convert::between::<Double, Single>(a, e));
                hart.set_f(inst.rd, result | BOX);
            }
            op => {
                if let Some(operation) = either_format(op) {
                    self.either_format(hart, operation, integer, [a, b]);
                } else {
                    unreachable!("{op:?} is executed elsewhere");
                }
            }
        }
    }

    fn either_format(&self, hart: &mut Hart, operation: Both, integer: u64, [a, b]: [u64; 2]) {
        let is_double = operation.is_double;
        let result = if is_double {
            self.softly(hart, |env| operation.kind.apply::<Double>(a, b, integer, env))
        } else {
            let (a, b) = (unboxed(a), unboxed(b));
            self.softly(hart, |env| operation.kind.apply::<Single>(a, b, integer, env))
        };
        match (operation.kind.gives_float(), is_double) {
            (false, _) => hart.set_x(self.inst.rd, result),
            (true, true) => hart.set_f(self.inst.rd, result),
            (true, false) => hart.set_f(self.inst.rd, result | BOX),
        }
    }
}

/// An operation that both formats have.
struct Both {
    kind: Kind,
    is_double: bool,
}

enum Kind {
    Sign(fn(u64, u64) -> u64),
    Min,
    Max,
    Eq,
    Lt,
    Le,
    Class,
    ToInteger(Integer),
    FromInteger(Integer),
}

impl Kind {
    fn gives_float(&self) -> bool {
        matches!(self, Kind::Sign(_) | Kind::Min | Kind::Max | Kind::FromInteger(_))
    }

    fn apply<F: Format>(&self, a: u64, b: u64, integer: u64, env: &mut Env) -> u64 {
        match self {
            Kind::Sign(sign) => (a & !F::SIGN) | (sign(a, b) & F::SIGN),
            Kind::Min => compare::min::<F>(a, b, env),
            Kind::Max => compare::max::<F>(a, b, env),
            Kind::Eq => compare::eq::<F>(a, b, env).into(),
            Kind::Lt => compare::lt::<F>(a, b, env).into(),
            Kind::Le => compare::le::<F>(a, b, env).into(),
            Kind::Class => compare::classify::<F>(a),
            Kind::ToInteger(to) => convert::to_integer::<F>(a, *to, env),
            Kind::FromInteger(from) => convert::from_integer::<F>(integer, *from, env),
        }
    }
}

fn either_format(op: Op) -> Option<Both> {
    let (kind, is_double) = match op {
        Op::FsgnjS => (Kind::Sign(|_, b| b), false),
        Op::FsgnjD => (Kind::Sign(|_, b| b), true),
        Op::FsgnjnS => (Kind::Sign(|_, b| !b), false),
        Op::FsgnjnD => (Kind::Sign(|_, b| !b), true),
        Op::FsgnjxS => (Kind::Sign(|a, b| a ^ b), false),
        Op::FsgnjxD => (Kind::Sign(|a, b| a ^ b), true),
        Op::FminS => (Kind::Min, false),
        Op::FminD => (Kind::Min, true),
        Op::FmaxS => (Kind::Max, false),
        Op::FmaxD => (Kind::Max, true),
        Op::FeqS => (Kind::Eq, false),
        Op::FeqD => (Kind::Eq, true),
        Op::FltS => (Kind::Lt, false),
        Op::FltD => (Kind::Lt, true),
        Op::FleS => (Kind::Le, false),
        Op::FleD => (Kind::Le, true),
        Op::FclassS => (Kind::Class, false),
        Op::FclassD => (Kind::Class, true),
        Op::FcvtWS => (Kind::ToInteger(Integer::W), false),
        Op::FcvtWuS => (Kind::ToInteger(Integer::WU), false),
        Op::FcvtLS => (Kind::ToInteger(Integer::L), false),
        Op::FcvtLuS => (Kind::ToInteger(Integer::LU), false),
        Op::FcvtWD => (Kind::ToInteger(Integer::W), true),
        Op::FcvtWuD => (Kind::ToInteger(Integer::WU), true),
        Op::FcvtLD => (Kind::ToInteger(Integer::L), true),
        Op::FcvtLuD => (Kind::ToInteger(Integer::LU), true),
        Op::FcvtSW => (Kind::FromInteger(Integer::W), false),
        Op::FcvtSWu => (Kind::FromInteger(Integer::WU), false),
        Op::FcvtSL => (Kind::FromInteger(Integer::L), false),
        Op::FcvtSLu => (Kind::FromInteger(Integer::LU), false),
        Op::FcvtDL => (Kind::FromInteger(Integer::L), true),
        Op::FcvtDLu => (Kind::FromInteger(Integer::LU), true),
        _ => return None,
    };
    Some(Both { kind, is_double })
}
