//! Texts of the help, fitted to a terminal.

/// Fills paragraphs up to so many columns, and lines of lists with a hanging indent. A line that begins with spaces
/// stands for itself, but for what follows it at its hanging indent.
pub fn fitted(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match lines.last_mut() {
            Some(last) if goes_on(last, line) => *last += &format!(" {}", line.trim_start()),
            _ => lines.push(line.to_owned()),
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| wrapped(line, columns)).collect();
    lines.join("\n")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The column at which a line is continued: in a list, that of the text behind the name.
fn hanging_indent(line: &str) -> usize {
    let indent = indent(line);
    let name = line[indent..].find("  ").filter(|_| indent > 0);
    name.map_or(indent, |end| line.len() - line[indent + end..].trim_start().len())
}

/// Whether a line is of the same paragraph, or of the same entry of a list, as the last one.
fn goes_on(last: &str, line: &str) -> bool {
    let is_text = !last.is_empty() && !line.is_empty() && !last.ends_with('\\');
    let is_paragraph = indent(last) == 0;
    let at = hanging_indent(last);
    is_text && indent(line) == at && (is_paragraph || at > indent(last))
}

/// A line, as several if it is too long. Behind a long name, such as an example, the text has lines of its own.
fn wrapped(line: &str, columns: usize) -> String {
    let (own, hanging) = (indent(line), hanging_indent(line));
    let further = if own > 0 { own + 4 } else { 0 };
    if hanging > columns / 2 && line.chars().count() > columns {
        let (name, text) = line.split_at(hanging);
        let text = format!("{}{text}", " ".repeat(further));
        return filled(name.trim_end(), further, columns) + "\n" + &filled(&text, further, columns);
    }
    filled(line, if hanging > own { hanging } else { further }, columns)
}

/// Words in lines, all but the first with an indent.
fn filled(words: &str, indent: usize, columns: usize) -> String {
    let (mut rest, mut lines) = (words.to_owned(), String::new());
    while let Some(at) = place_to_break(&rest, columns) {
        lines += rest[..at].trim_end();
        lines.push('\n');
        rest = format!("{:indent$}{}", "", rest[at..].trim_start());
    }
    lines + &rest
}

/// The last space behind the first word from which on a line is too long, or the first one there is.
fn place_to_break(line: &str, columns: usize) -> Option<usize> {
    let (end, _) = line.char_indices().nth(columns)?;
    let begin = indent(line);
    let mut spaces = line[begin..].match_indices(' ').map(|(at, _)| begin + at);
    let first = spaces.next()?;
    Some(spaces.take_while(|&at| at <= end).last().unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_filled() {
        let text = "one two\nthree four five\n\nsix\nExamples:\n  rackmem a\n  rackmem b\n";
        let filled = "one two three\nfour five\n\nsix Examples:\n  rackmem a\n  rackmem b";
        assert_eq!(fitted(text, 13), filled);
        assert_eq!(fitted("averylongword is\nthere", 5), "averylongword\nis\nthere");
        assert_eq!(fitted("", 5), "");
    }

    #[test]
    fn lists_have_a_hanging_indent() {
        let text = "  --a   one two three\n        four\n  --bc  five\n";
        assert_eq!(fitted(text, 18), "  --a   one two\n        three four\n  --bc  five");
        let example = "  rackmem x -- y  two words";
        assert_eq!(fitted(example, 12), "  rackmem x\n      -- y\n      two\n      words");
        let command = "  rackmem x \\\n  rackmem y";
        assert_eq!(fitted(command, 80), command);
    }
}
