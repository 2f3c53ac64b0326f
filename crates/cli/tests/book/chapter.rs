//! A chapter as its code blocks.

use std::collections::BTreeMap;

/// A code block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of the chapter on which it begins.
    pub line: usize,
    pub language: String,
    /// Attributes behind the language: `name=value`, or a name alone.
    pub attributes: BTreeMap<String, String>,
    pub text: String,
}

/// A command and its output.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    pub line: usize,
    pub text: String,
    pub output: Vec<String>,
}

pub struct Chapter {
    pub name: String,
    pub blocks: Vec<Block>,
}

impl Chapter {
    pub fn parse(name: &str, text: &str) -> Chapter {
        let mut blocks = Vec::new();
        let mut lines = (1..).zip(text.lines());
        while let Some((line, first)) = lines.next() {
            let Some(info) = first.trim_start().strip_prefix("```") else { continue };
            let indent = first.len() - first.trim_start().len();
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            let body: Vec<&str> = body.map(|line| line.get(indent..).unwrap_or_default()).collect();
            blocks.push(Block::new(line, info, body.join("\n") + "\n"));
        }
        Chapter { name: name.to_owned(), blocks }
    }
}

impl Block {
    fn new(line: usize, info: &str, text: String) -> Block {
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default().to_owned();
        let attribute = |word: &str| {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            (name.to_owned(), value.to_owned())
        };
        Block { line, language, attributes: words.map(attribute).collect(), text }
    }

    /// Of a console: its commands.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut continues = false;
        for (line, text) in (self.line + 1..).zip(self.text.lines()) {
            if let Some(command) = text.strip_prefix("$ ") {
                commands.push(Command { line, text: command.to_owned(), output: Vec::new() });
            } else if let Some(last) = commands.last_mut() {
                if continues {
                    last.text += "\n";
                    last.text += text.strip_prefix("> ").unwrap_or(text);
                } else {
                    last.output.push(text.to_owned());
                }
            }
            let command = commands.last().filter(|command| command.output.is_empty());
            continues = command.is_some_and(|command| command.text.ends_with('\\'));
        }
        commands
    }
}

/// A line as it is compared: any number for each number, one blank for several.
pub fn comparable(line: &str) -> String {
    let mut compared = String::new();
    for c in line.trim().chars() {
        let c = if c.is_ascii_digit() { '0' } else { c };
        let repeats = compared.ends_with(c) && (c == '0' || c == ' ');
        if !repeats {
            compared.push(c);
        }
    }
    // 1.5 and 15 are both numbers, and so is 1,500.
    compared.replace("0.0", "0").replace("0,0", "0")
}

#[test]
fn consoles_are_commands_and_outputs() {
    let text =
        "a\n```console needs=root,x fails\n$ one \\\n>   two\nout  12.5 s\n...\n$ three\n```\nb\n";
    let chapter = Chapter::parse("c", text);
    let [block] = &chapter.blocks[..] else { panic!("{:?}", chapter.blocks) };
    assert_eq!((block.line, block.language.as_str()), (2, "console"));
    assert_eq!(block.attributes["needs"], "root,x");
    assert!(block.attributes.contains_key("fails"));
    let commands = block.commands();
    assert_eq!(commands.len(), 2);
    assert_eq!(commands[0].text, "one \\\n  two");
    assert_eq!(commands[0].output, ["out  12.5 s", "..."]);
    assert_eq!((commands[1].line, commands[1].text.as_str()), (7, "three"));
    assert_eq!(comparable("out  12.5 s "), comparable("out 7 s"));
    assert_ne!(comparable("out 12.5 s"), comparable("out 12.5 us"));
}
