//! Reads C headers: what they declare for programs, and the comments of these declarations.
//!
//! A comment belongs to all declarations between it and the next empty line. Names that end with an underscore are not
//! for programs, and neither are include guards.

/// Declarations that share a comment.
#[derive(Debug, Default)]
pub struct Group {
    /// Line of the first declaration, from 1.
    pub line: usize,
    /// Text of the comment without its delimiters; empty if there is none.
    pub comment: String,
    /// Names of functions, types and constants.
    pub names: Vec<String>,
    /// The declarations, without bodies of functions.
    pub code: String,
}

/// One header.
#[derive(Debug, Default)]
pub struct Header {
    /// Its first comment.
    pub introduction: String,
    /// Declarations for programs, in the order of the file.
    pub groups: Vec<Group>,
}

/// A part of a header on its top level.
enum Piece {
    Blank,
    Comment(String),
    Code { line: usize, text: String, note: String },
}

/// Reads the text of a header.
pub fn read(text: &str) -> Header {
    let mut header = Header::default();
    let mut group = Group::default();
    let mut is_first = true;
    for piece in pieces(text) {
        match piece {
            Piece::Blank => close(&mut header, &mut group),
            Piece::Comment(comment) if is_first => {
                header.introduction = comment;
                is_first = false;
            }
            Piece::Comment(comment) => {
                if !group.names.is_empty() {
                    close(&mut header, &mut group);
                }
                // A line of dashes begins a section of the file.
                if !comment.starts_with("---") {
                    group.comment = comment;
                }
            }
            Piece::Code { line, text, note } => add(&mut group, line, &text, &note),
        }
    }
    close(&mut header, &mut group);
    header
}

fn close(header: &mut Header, group: &mut Group) {
    let group = std::mem::take(group);
    if !group.names.is_empty() {
        header.groups.push(group);
    }
}

fn add(group: &mut Group, line: usize, text: &str, note: &str) {
    let Some(name) = name(text) else { return };
    if name.ends_with('_') || name.ends_with("_H") {
        return;
    }
    if group.names.is_empty() {
        group.line = line;
    }
    if !group.names.contains(&name) {
        group.names.push(name);
    }
    if group.comment.is_empty() {
        group.comment = note.to_owned();
    }
    group.code += signature(text).trim_end();
    group.code += "\n";
}

/// The text of a declaration without the body of a function.
fn signature(text: &str) -> String {
    match text.split_once('{') {
        Some((head, _)) if head.trim_end().ends_with(')') && !text.starts_with('#') => {
            head.trim_end().to_owned() + ";"
        }
        _ => text.to_owned(),
    }
}

/// The name that a directive or declaration gives.
fn name(text: &str) -> Option<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let first = |text: &str| {
        let word: String = text.trim_start().chars().take_while(|c| is_word(*c)).collect();
        (!word.is_empty()).then_some(word)
    };
    let last =
        |text: &str| text.rsplit(|c| !is_word(c)).find(|word| !word.is_empty()).map(str::to_owned);
    if text.starts_with('#') {
        return first(text.strip_prefix("#define ")?);
    }
    if text.starts_with("extern \"C\"") || text.starts_with("RACKMEM_STATIC_ASSERT") {
        return None;
    }
    if text.starts_with("typedef")
        && !text.contains('{')
        && let Some((_, rest)) = text.split_once("(*")
    {
        return first(rest);
    }
    let text = text.replace("__attribute__((", "");
    if text.starts_with("typedef") {
        return last(&text);
    }
    let head = text.split(['{', ';']).next()?;
    if let Some(parameters) = head.rfind('(').filter(|_| !text.starts_with("enum")) {
        let opening = head.find('(').unwrap_or(parameters);
        return last(&head[..opening]);
    }
    match head.trim() {
        "enum" => first(text.split_once('{')?.1),
        _ => last(head),
    }
}

/// Parts of a text on its top level: what is between braces stays with its declaration.
fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let start = line.trim();
        if start.is_empty() {
            found.push(Piece::Blank);
        } else if start == "}" || start == "extern \"C\" {" {
        } else if start.starts_with("/*") {
            let mut comment = line.to_owned();
            while !comment.contains("*/") {
                let Some((_, more)) = lines.next() else { break };
                comment = comment + "\n" + more;
            }
            found.push(Piece::Comment(said(&comment)));
        } else {
            let mut code = line.to_owned();
            while !is_whole(&code) {
                let Some((_, more)) = lines.next() else { break };
                code = code + "\n" + more;
            }
            // Comments between braces are those of fields.
            let is_short = code.starts_with('#') || !code.contains('\n');
            let note = code.split_once("/*").filter(|_| is_short);
            let note = note.map_or(String::new(), |(_, note)| said(note));
            found.push(Piece::Code { line: at + 1, text: code, note });
        }
    }
    found
}

/// Whether a directive or declaration is at its end.
fn is_whole(code: &str) -> bool {
    if code.starts_with('#') {
        return !code.ends_with('\\') && count(code, "/*") == count(code, "*/");
    }
    let code = without_comments(code);
    let is_closed = count(&code, "{") == count(&code, "}");
    let code = code.trim_end();
    is_closed && (code.ends_with(';') || (code.ends_with('}') && !code.starts_with("typedef")))
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

fn without_comments(code: &str) -> String {
    let mut parts = code.split("/*");
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        left += part.split_once("*/").map_or("", |(_, after)| after);
    }
    left
}

/// The text of a comment, without its delimiters and the stars before its lines.
fn said(comment: &str) -> String {
    let text = comment.trim().trim_start_matches("/*");
    let text = text.split("*/").next().unwrap_or_default();
    let lines = text.lines().map(|line| {
        let line = line.trim_end();
        let line = line.trim_start().strip_prefix('*').unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line)
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}
