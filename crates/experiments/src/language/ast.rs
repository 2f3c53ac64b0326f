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

impl Expr {
    /// The same with values in place of these variables, and without places: equal trees have equal values.
    #[must_use]
    pub fn substituted(&self, variables: &[(String, Expr)]) -> Expr {
        let of = |expr: &Expr| expr.substituted(variables);
        let boxed = |expr: &Expr| Box::new(of(expr));
        let arguments = |all: &[Argument]| -> Vec<Argument> {
            let one = |one: &Argument| Argument { name: one.name.clone(), value: of(&one.value) };
            all.iter().map(one).collect()
        };
        let node = match &self.node {
            Node::Name(name) => {
                match variables.iter().position(|(known, _)| known == name) {
                    // A variable may be computed of those before it.
                    Some(at) => return variables[at].1.substituted(&variables[..at]),
                    None => Node::Name(name.clone()),
                }
            }
            Node::List(all) => Node::List(all.iter().map(of).collect()),
            Node::Call(name, all) => Node::Call(name.clone(), arguments(all)),
            Node::Each(body, clauses) => Node::Each(
                boxed(body),
                clauses
                    .iter()
                    .map(|clause| match clause {
                        Clause::For(name, list) => Clause::For(name.clone(), of(list)),
                        Clause::If(condition) => Clause::If(of(condition)),
                    })
                    .collect(),
            ),
            Node::Member(value, name) => Node::Member(boxed(value), name.clone()),
            Node::Index(value, all) => match (of(value), arguments(all)) {
                (Expr { node: Node::List(list), .. }, all) if element(&list, &all).is_some() => {
                    return element(&list, &all).cloned().unwrap_or_else(|| self.clone());
                }
                (value, all) => Node::Index(Box::new(value), all),
            },
            Node::Unary(operator, operand) => Node::Unary(*operator, boxed(operand)),
            Node::Binary(operator, left, right) => {
                Node::Binary(*operator, boxed(left), boxed(right))
            }
            Node::If { condition, yes, no } => {
                Node::If { condition: boxed(condition), yes: boxed(yes), no: boxed(no) }
            }
            leaf => leaf.clone(),
        };
        Expr { at: 0, node }
    }
}

/// The element that a number in brackets names.
fn element<'e>(list: &'e [Expr], arguments: &[Argument]) -> Option<&'e Expr> {
    match arguments {
        [Argument { name: None, value: Expr { node: Node::Number(at), .. } }] => {
            list.get(*at as usize)
        }
        _ => None,
    }
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
