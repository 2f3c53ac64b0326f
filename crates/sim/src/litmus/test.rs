//! A litmus test: what its threads execute, and what its author asks about the end.

use thiserror::Error;

/// Number of a location in [`Test::locations`].
pub type Place = usize;

/// A litmus test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// As it stands behind `RISCV`.
    pub name: String,
    /// Shared variables.
    pub locations: Vec<Location>,
    /// Columns, from `P0` on.
    pub threads: Vec<Thread>,
    /// Bytes of each access: 4 or 8.
    pub bytes: u8,
    /// What makes up an outcome, in this order.
    pub observed: Vec<Observed>,
    /// The question about the end.
    pub condition: Condition,
}

/// A shared variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// As the test spells it.
    pub name: String,
    /// Value at the start.
    pub value: Value,
}

/// A value of a register or a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// An integer, sign-extended.
    Number(i64),
    /// The address of a location.
    Address(Place),
}

/// What one core executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Registers that do not start at zero.
    pub registers: Vec<(u8, Value)>,
    /// Instructions in program order.
    pub steps: Vec<Step>,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its encoding. That of a branch goes [`BRANCH_BYTES`] ahead, until it is laid out.
    pub word: u32,
    /// The step to which a branch goes; the number of steps stands for the end.
    pub target: Option<usize>,
}

/// Distance in the encoding of a branch in a [`Step`].
pub const BRANCH_BYTES: i32 = 8;

/// Something whose value at the end is part of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Observed {
    /// A register of a thread.
    Register(usize, u8),
    /// A shared variable, when all threads have ended.
    Location(Place),
}

/// Values at the end, in the order of [`Test::observed`].
pub type Outcome = Vec<Value>;

/// How a condition is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// Some execution has it.
    Exists,
    /// None has it.
    NotExists,
    /// All have it.
    Forall,
}

impl Quantifier {
    /// As it stands in a file.
    pub fn name(self) -> &'static str {
        match self {
            Quantifier::Exists => "exists",
            Quantifier::NotExists => "~exists",
            Quantifier::Forall => "forall",
        }
    }
}

/// A question about the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether some, none or all executions are meant.
    pub quantifier: Quantifier,
    /// What they have.
    pub holds: Formula,
}

/// A formula over values at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Always the same.
    Constant(bool),
    /// Entry of [`Test::observed`] has a value.
    Is(usize, Value),
    /// The formula does not hold.
    Not(Box<Formula>),
    /// All of them.
    And(Vec<Formula>),
    /// Any of them.
    Or(Vec<Formula>),
}

impl Formula {
    /// Whether it holds of an outcome.
    pub fn holds(&self, outcome: &[Value]) -> bool {
        match self {
            Formula::Constant(value) => *value,
            Formula::Is(entry, value) => outcome[*entry] == *value,
            Formula::Not(inner) => !inner.holds(outcome),
            Formula::And(all) => all.iter().all(|part| part.holds(outcome)),
            Formula::Or(any) => any.iter().any(|part| part.holds(outcome)),
        }
    }
}

impl Condition {
    /// Whether it is true if these outcomes, and no others, come.
    pub fn is_true<'o>(&self, mut outcomes: impl Iterator<Item = &'o Outcome>) -> bool {
        match self.quantifier {
            Quantifier::Exists => outcomes.any(|outcome| self.holds.holds(outcome)),
            Quantifier::NotExists => !outcomes.any(|outcome| self.holds.holds(outcome)),
            Quantifier::Forall => outcomes.all(|outcome| self.holds.holds(outcome)),
        }
    }
}

impl Test {
    /// The bytes of a register that a store stores.
    pub fn stored(&self, value: u64) -> u64 {
        if self.bytes == 4 { u64::from(value as u32) } else { value }
    }

    /// The register into which a load loads these bytes.
    pub fn loaded(&self, raw: u64) -> u64 {
        if self.bytes == 4 { raw as i32 as u64 } else { raw }
    }

    /// A value as text.
    pub fn value(&self, value: Value) -> String {
        match value {
            Value::Number(number) => number.to_string(),
            Value::Address(place) => self.locations[place].name.clone(),
        }
    }

    /// The name of something observed, as a condition has it.
    pub fn observed_name(&self, observed: Observed) -> String {
        match observed {
            Observed::Register(thread, register) => format!("{thread}:x{register}"),
            Observed::Location(place) => format!("[{}]", self.locations[place].name),
        }
    }

    /// An outcome as text: `1:x7=1; 1:x8=0;`.
    pub fn outcome(&self, outcome: &[Value]) -> String {
        let part = |(observed, value): (&Observed, &Value)| {
            format!("{}={};", self.observed_name(*observed), self.value(*value))
        };
        self.observed.iter().zip(outcome).map(part).collect::<Vec<_>>().join(" ")
    }

    /// The condition as text.
    pub fn condition(&self) -> String {
        format!("{} ({})", self.condition.quantifier.name(), self.formula(&self.condition.holds))
    }

    fn formula(&self, formula: &Formula) -> String {
        let join = |parts: &[Formula], word: &str| {
            let inner = |part: &Formula| match part {
                Formula::And(_) | Formula::Or(_) => format!("({})", self.formula(part)),
                _ => self.formula(part),
            };
            parts.iter().map(inner).collect::<Vec<_>>().join(word)
        };
        match formula {
            Formula::Constant(value) => value.to_string(),
            Formula::Is(entry, value) => {
                format!("{}={}", self.observed_name(self.observed[*entry]), self.value(*value))
            }
            Formula::Not(inner) => format!("~({})", self.formula(inner)),
            Formula::And(parts) => join(parts, " /\\ "),
            Formula::Or(parts) => join(parts, " \\/ "),
        }
    }
}

/// Where the locations of a test are.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Address of each location.
    pub addresses: Vec<u64>,
}

impl Layout {
    /// The bits of a value.
    pub fn bits(&self, value: Value) -> u64 {
        match value {
            Value::Number(number) => number as u64,
            Value::Address(place) => self.addresses[place],
        }
    }

    /// The value that has these bits.
    pub fn value(&self, bits: u64) -> Value {
        match self.place(bits) {
            Some(place) => Value::Address(place),
            None => Value::Number(bits as i64),
        }
    }

    /// The location at an address.
    pub fn place(&self, address: u64) -> Option<Place> {
        self.addresses.iter().position(|&at| at == address)
    }
}

/// A test that cannot be parsed, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: expected {expected}, found {found}")]
pub struct ParseError {
    /// The name of the file.
    pub file: String,
    /// Line, from 1 on.
    pub line: usize,
    /// What should be there.
    pub expected: String,
    /// What is there instead.
    pub found: String,
}
