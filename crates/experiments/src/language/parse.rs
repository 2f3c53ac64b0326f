//! From text to tree. The grammar is that of Python's expressions, as far as it goes.

use super::Problem;
use super::ast::{Argument, Binary, Clause, Expr, Node, Unary};
use super::token::{Kind, Token, tokens};

/// Deepest nesting: a bound on recursion, far above what a reader could follow.
const DEEPEST: usize = 64;

/// Parses an expression.
///
/// # Errors
/// The text is not one.
pub fn parse(text: &str) -> Result<Expr, Problem> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        Kind::End => Ok(expr),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

/// Binary operators by precedence, the loosest first.
const LEVELS: [&[(&str, Binary)]; 5] = [
    &[("or", Binary::Or)],
    &[("and", Binary::And)],
    &[
        ("==", Binary::Equal),
        ("!=", Binary::Unequal),
        ("<=", Binary::AtMost),
        (">=", Binary::AtLeast),
        ("<", Binary::Less),
        (">", Binary::More),
        ("in", Binary::In),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Modulo)],
];

/// Level of comparisons among [`LEVELS`].
const COMPARISONS: usize = 2;

/// Words that are not names.
const KEYWORDS: [&str; 9] = ["if", "else", "for", "in", "and", "or", "not", "true", "false"];

impl Parser {
    fn peek(&self) -> &Kind {
        &self.tokens[self.next].kind
    }

    fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    fn advance(&mut self) -> Kind {
        let kind = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        kind
    }

    /// Takes this sign or keyword if it is next.
    fn takes(&mut self, wanted: &str) -> bool {
        let is = match self.peek() {
            Kind::Sign(sign) => *sign == wanted,
            Kind::Word(word) => word == wanted,
            _ => false,
        };
        if is {
            self.advance();
        }
        is
    }

    fn expect(&mut self, wanted: &str) -> Result<(), Problem> {
        if self.takes(wanted) { Ok(()) } else { Err(self.unexpected(&format!("'{wanted}'"))) }
    }

    fn unexpected(&self, expected: &str) -> Problem {
        Problem::new(self.at(), format!("expected {expected}, found {}", self.peek().shown()))
    }

    fn expression(&mut self) -> Result<Expr, Problem> {
        let yes = self.nested(|parser| parser.binary(0))?;
        if !self.takes("if") {
            return Ok(yes);
        }
        let condition = Box::new(self.binary(0)?);
        self.expect("else")?;
        let no = Box::new(self.nested(Parser::expression)?);
        Ok(Expr { at: yes.at, node: Node::If { condition, yes: Box::new(yes), no } })
    }

    fn binary(&mut self, level: usize) -> Result<Expr, Problem> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        if level == COMPARISONS && self.takes("not") {
            return self.negated(level);
        }
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            let right = Box::new(self.binary(level + 1)?);
            left = Expr { at: left.at, node: Node::Binary(operator, Box::new(left), right) };
        }
        Ok(left)
    }

    fn operator(&mut self, operators: &[(&str, Binary)]) -> Option<Binary> {
        let found = operators.iter().find(|(sign, _)| self.takes(sign));
        found.map(|&(_, operator)| operator)
    }

    /// What `not` was before: it takes a whole comparison.
    fn negated(&mut self, level: usize) -> Result<Expr, Problem> {
        let at = self.at();
        let operand = self.nested(|parser| parser.binary(level))?;
        Ok(Expr { at, node: Node::Unary(Unary::Not, Box::new(operand)) })
    }

    fn unary(&mut self) -> Result<Expr, Problem> {
        let at = self.at();
        if !self.takes("-") {
            return self.postfix();
        }
        let operand = self.nested(Parser::unary)?;
        Ok(Expr { at, node: Node::Unary(Unary::Minus, Box::new(operand)) })
    }

    /// Parses a level deeper, unless it is too deep.
    fn nested(
        &mut self,
        parse: impl FnOnce(&mut Parser) -> Result<Expr, Problem>,
    ) -> Result<Expr, Problem> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Problem::new(self.at(), "nested too deeply"));
        }
        let expr = parse(self)?;
        self.depth -= 1;
        Ok(expr)
    }

    fn postfix(&mut self) -> Result<Expr, Problem> {
        let mut value = self.primary()?;
        loop {
            let at = value.at;
            let node = if self.takes(".") {
                Node::Member(Box::new(value), self.name("a name")?)
            } else if self.takes("[") {
                let arguments = self.arguments("]")?;
                Node::Index(Box::new(value), arguments)
            } else {
                return Ok(value);
            };
            value = Expr { at, node };
        }
    }

    fn name(&mut self, expected: &str) -> Result<String, Problem> {
        match self.peek() {
            Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) => {
                let word = word.clone();
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn primary(&mut self) -> Result<Expr, Problem> {
        let at = self.at();
        let node = match self.peek().clone() {
            Kind::Number(number) => {
                self.advance();
                Node::Number(number)
            }
            Kind::Text(text) => {
                self.advance();
                Node::Text(text)
            }
            Kind::Sign("(") => {
                self.advance();
                let inside = self.expression()?;
                self.expect(")")?;
                return Ok(inside);
            }
            Kind::Sign("[") => {
                self.advance();
                self.list()?
            }
            Kind::Word(_) => self.word()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Expr { at, node })
    }

    fn word(&mut self) -> Result<Node, Problem> {
        for (keyword, node) in
            [("true", Node::Bool(true)), ("false", Node::Bool(false)), ("none", Node::None)]
        {
            if self.takes(keyword) {
                return Ok(node);
            }
        }
        let name = self.name("a value")?;
        if self.takes("(") {
            return Ok(Node::Call(name, self.arguments(")")?));
        }
        Ok(Node::Name(name))
    }

    fn list(&mut self) -> Result<Node, Problem> {
        let mut values = Vec::new();
        for argument in self.arguments("]")? {
            if let Some(name) = argument.name {
                return Err(Problem::new(argument.value.at, format!("a list has no '{name}='")));
            }
            values.push(argument.value);
        }
        match values.as_slice() {
            [Expr { node: Node::Each(..), .. }] => Ok(values.remove(0).node),
            _ => Ok(Node::List(values)),
        }
    }

    /// Arguments up to the closing bracket.
    fn arguments(&mut self, closing: &str) -> Result<Vec<Argument>, Problem> {
        let mut all = Vec::new();
        while !self.takes(closing) {
            all.push(self.argument()?);
            if !self.takes(",") {
                self.expect(closing)?;
                break;
            }
        }
        Ok(all)
    }

    fn argument(&mut self) -> Result<Argument, Problem> {
        let next = self.tokens.get(self.next + 1).map(|token| &token.kind);
        let mut name = None;
        if matches!(self.peek(), Kind::Word(_)) && next == Some(&Kind::Sign("=")) {
            name = Some(self.name("a name")?);
            self.expect("=")?;
        }
        let value = self.expression()?;
        let clauses = self.clauses()?;
        if clauses.is_empty() {
            return Ok(Argument { name, value });
        }
        let at = value.at;
        let value = Expr { at, node: Node::Each(Box::new(value), clauses) };
        Ok(Argument { name, value })
    }

    fn clauses(&mut self) -> Result<Vec<Clause>, Problem> {
        let mut all = Vec::new();
        loop {
            if self.takes("for") {
                let name = self.name("a variable")?;
                self.expect("in")?;
                // Without `if ... else`: an `if` here begins a condition.
                all.push(Clause::For(name, self.binary(0)?));
            } else if !all.is_empty() && self.takes("if") {
                all.push(Clause::If(self.binary(0)?));
            } else {
                return Ok(all);
            }
        }
    }
}
