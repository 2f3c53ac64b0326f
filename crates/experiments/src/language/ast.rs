//! The tree of an expression.

use super::template::Template;

/// An expression, with the place in its text where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Offset in bytes from the start of the text.
    pub at: usize,
    /// The expression.
    pub node: Node,
}

/// A kind of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `1_000`, `2.5e-3`.
    Number(f64),
    /// A text in quotes.
    Text(String),
    /// A text with expressions in braces.
    Filled(Template),
    /// `true` or `false`.
    Bool(bool),
    /// Nothing: a setting or an argument with this value is left out.
    None,
    /// A variable, a definition, a machine.
    Name(String),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `name(a, b, key=c)`: a function, a definition or a run.
    Call(String, Vec<Argument>),
    /// `value for name in list if condition`, inside a call or brackets.
    Each(Box<Expr>, Vec<Clause>),
    /// `value.name`.
    Member(Box<Expr>, String),
    /// `list[0]`, or `list[name=value, ...]`: the first row with these members.
    Index(Box<Expr>, Vec<Argument>),
    /// `-a`, `not a`.
    Unary(Unary, Box<Expr>),
    /// `a + b` and the like.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a if condition else b`.
    If {
        /// True or false; of an unknown one both branches are evaluated.
        condition: Box<Expr>,
        /// Value if it is true.
        yes: Box<Expr>,
        /// Value if it is false.
        no: Box<Expr>,
    },
}

/// An argument of a call, or a condition on a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name, if it is given by name.
    pub name: Option<String>,
    /// Evaluated in the scope of the call.
    pub value: Expr,
}

/// A part of a comprehension.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// `for name in list`.
    For(String, Expr),
    /// `if condition`.
    If(Expr),
}

/// An operator with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-`, of a number.
    Minus,
    /// `not`, of a comparison or a flag.
    Not,
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `+`, of numbers or texts.
    Add,
    /// `-`, of two numbers.
    Subtract,
    /// `*`, of two numbers.
    Multiply,
    /// `/`, of two numbers: never rounded.
    Divide,
    /// `%`: the remainder, with the sign of the left operand.
    Modulo,
    /// `==`, of any two plain values.
    Equal,
    /// `!=`, of any two plain values.
    Unequal,
    /// `<`, of two numbers.
    Less,
    /// `<=`, of two numbers.
    AtMost,
    /// `>`, of two numbers.
    More,
    /// `>=`, of two numbers.
    AtLeast,
    /// `in`: membership of a list.
    In,
    /// `and`: the right operand is not looked at if the left is false.
    And,
    /// `or`: the right operand is not looked at if the left is true.
    Or,
}
