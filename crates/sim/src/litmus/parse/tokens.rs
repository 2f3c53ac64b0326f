//! Words and signs of a part of a file, with their lines.

use rackmem_riscv::x_name;

use crate::litmus::test::ParseError;

/// Signs of two characters.
const DOUBLE: [&str; 2] = ["/\\", "\\/"];

/// A word or a sign.
#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    text: &'t str,
    line: usize,
}

/// The tokens of a part of a file, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'t> {
    file: &'t str,
    list: Vec<Token<'t>>,
    at: usize,
    last_line: usize,
}

impl<'t> Tokens<'t> {
    /// No tokens; a failure is one of this line.
    pub(super) fn new(file: &'t str, line: usize) -> Tokens<'t> {
        Tokens { file, list: Vec::new(), at: 0, last_line: line }
    }

    /// The tokens of one line.
    pub(super) fn of_line(file: &'t str, line: usize, text: &'t str) -> Tokens<'t> {
        let mut tokens = Tokens::new(file, line);
        tokens.add(line, text);
        tokens
    }

    /// Adds the tokens of a line.
    pub(super) fn add(&mut self, line: usize, mut text: &'t str) {
        self.last_line = line;
        loop {
            text = text.trim_start();
            let length = length(text);
            if length == 0 {
                return;
            }
            let (token, rest) = text.split_at(length);
            self.list.push(Token { text: token, line });
            text = rest;
        }
    }

    /// The next token, which stays.
    pub(super) fn peek(&self) -> Option<&'t str> {
        self.list.get(self.at).map(|token| token.text)
    }

    /// The token after the next one.
    pub(super) fn second(&self) -> Option<&'t str> {
        self.list.get(self.at + 1).map(|token| token.text)
    }

    /// Goes on by one token.
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Takes the next token if it is this one.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let is_next = self.peek() == Some(text);
        self.at += usize::from(is_next);
        is_next
    }

    /// The next token has to be this one.
    pub(super) fn expect(&mut self, text: &str) -> Result<(), ParseError> {
        if self.take(text) { Ok(()) } else { Err(self.fail(&format!("`{text}`"))) }
    }

    /// There may be no more tokens.
    pub(super) fn end(&self, expected: &str) -> Result<(), ParseError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.fail(expected)) }
    }

    /// The next token is something else than was expected.
    pub(super) fn fail(&self, expected: &str) -> ParseError {
        let token = self.list.get(self.at);
        ParseError {
            file: self.file.to_owned(),
            line: token.map_or(self.last_line, |token| token.line),
            expected: expected.to_owned(),
            found: token.map_or("nothing more".to_owned(), |token| format!("`{}`", token.text)),
        }
    }

    /// A name: it begins with a letter.
    pub(super) fn name(&mut self, expected: &str) -> Result<&'t str, ParseError> {
        match self.peek() {
            Some(text) if is_name(text) => {
                self.skip();
                Ok(text)
            }
            _ => Err(self.fail(expected)),
        }
    }

    /// An integer, decimal or hexadecimal.
    pub(super) fn number(&mut self, expected: &str) -> Result<i64, ParseError> {
        let number = self.peek().and_then(number).ok_or_else(|| self.fail(expected))?;
        self.skip();
        Ok(number)
    }

    /// An integer register by number or name.
    pub(super) fn register(&mut self) -> Result<u32, ParseError> {
        let register = self.peek().and_then(register);
        let register = register.ok_or_else(|| self.fail("a register, x0 to x31"))?;
        self.skip();
        Ok(register.into())
    }
}

/// Bytes of the token with which a text begins.
fn length(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || "_.$+".contains(c);
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return 0 };
    if DOUBLE.iter().any(|sign| text.starts_with(sign)) {
        return 2;
    }
    if is_word(first) || first == '-' {
        return first.len_utf8()
            + characters.take_while(|&c| is_word(c)).map(char::len_utf8).sum::<usize>();
    }
    first.len_utf8()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The integer that a token is.
pub(super) fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    value.ok().filter(|value| *value >= 0).map(|value| sign * value)
}

/// The register that a token is.
pub(super) fn register(text: &str) -> Option<u8> {
    let by_number = text.strip_prefix('x').and_then(|number| number.parse().ok());
    by_number
        .filter(|number| *number < 32)
        .or_else(|| (0..32).find(|&number| x_name(number) == text))
}
