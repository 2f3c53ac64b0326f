//! The end of a file: what is observed, and the condition.

use super::Names;
use super::tokens::{Tokens, number, register};
use crate::litmus::test::{Condition, Formula, Observed, ParseError, Quantifier, Value};

type Result<T> = std::result::Result<T, ParseError>;

/// The last part of a file.
pub(super) struct End<'n> {
    pub(super) names: &'n Names,
    pub(super) observed: Vec<Observed>,
}

impl End<'_> {
    /// `locations [...]`, if it is there, and the condition.
    pub(super) fn parse(&mut self, tokens: &mut Tokens) -> Result<Condition> {
        if tokens.take("locations") {
            self.locations(tokens)?;
        }
        let quantifier = if tokens.take("~") {
            tokens.expect("exists")?;
            Quantifier::NotExists
        } else if tokens.take("exists") {
            Quantifier::Exists
        } else if tokens.take("forall") {
            Quantifier::Forall
        } else {
            return Err(tokens.fail("exists, ~exists or forall"));
        };
        let holds = self.any(tokens)?;
        tokens.take(";");
        tokens.end("/\\, \\/ or the end of the file")?;
        Ok(Condition { quantifier, holds })
    }

    fn locations(&mut self, tokens: &mut Tokens) -> Result<()> {
        tokens.expect("[")?;
        while !tokens.take("]") {
            self.observed(tokens)?;
            if !tokens.take(";") && tokens.peek() != Some("]") {
                return Err(tokens.fail("`;` or `]`"));
            }
        }
        Ok(())
    }

    fn any(&mut self, tokens: &mut Tokens) -> Result<Formula> {
        let mut parts = vec![self.all(tokens)?];
        while tokens.take("\\/") {
            parts.push(self.all(tokens)?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Formula::Or(parts) })
    }

    fn all(&mut self, tokens: &mut Tokens) -> Result<Formula> {
        let mut parts = vec![self.one(tokens)?];
        while tokens.take("/\\") {
            parts.push(self.one(tokens)?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Formula::And(parts) })
    }

    fn one(&mut self, tokens: &mut Tokens) -> Result<Formula> {
        if tokens.take("~") || tokens.take("not") {
            return Ok(Formula::Not(Box::new(self.one(tokens)?)));
        }
        if tokens.take("(") {
            let inner = self.any(tokens)?;
            tokens.expect(")")?;
            return Ok(inner);
        }
        for (word, value) in [("true", true), ("false", false)] {
            if tokens.take(word) {
                return Ok(Formula::Constant(value));
            }
        }
        let entry = self.observed(tokens)?;
        tokens.expect("=")?;
        Ok(Formula::Is(entry, self.value(tokens)?))
    }

    /// A register of a thread, or a location.
    fn observed(&mut self, tokens: &mut Tokens) -> Result<usize> {
        let expected = "a register such as 0:x5, or a location";
        let observed = if let Some(thread) = tokens.peek().and_then(number) {
            if usize::try_from(thread).is_ok_and(|thread| thread >= self.names.threads) {
                return Err(tokens.fail(&format!("a thread below {}", self.names.threads)));
            }
            tokens.skip();
            tokens.expect(":")?;
            Observed::Register(thread as usize, tokens.register()? as u8)
        } else {
            let in_brackets = tokens.take("[");
            let place = self.names.place(tokens).ok_or_else(|| tokens.fail(expected))?;
            tokens.skip();
            if in_brackets {
                tokens.expect("]")?;
            }
            Observed::Location(place)
        };
        let known = self.observed.iter().position(|other| *other == observed);
        Ok(known.unwrap_or_else(|| {
            self.observed.push(observed);
            self.observed.len() - 1
        }))
    }

    fn value(&self, tokens: &mut Tokens) -> Result<Value> {
        self.names.value(tokens)
    }
}

impl Names {
    /// The location that the next token names.
    pub(super) fn place(&self, tokens: &Tokens) -> Option<usize> {
        let name = tokens.peek()?;
        self.locations.iter().position(|location| location.name == name)
    }

    /// A number, or the address of a location.
    pub(super) fn value(&self, tokens: &mut Tokens) -> Result<Value> {
        tokens.take("&");
        if let Some(place) = self.place(tokens) {
            tokens.skip();
            return Ok(Value::Address(place));
        }
        tokens.number("a number or a location").map(Value::Number)
    }
}

/// Whether a word can be the name of a location.
pub(super) fn is_location(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_') && register(word).is_none()
}
