//! Writes a page about the C interface from the comments of its headers: `c_reference OUT.html HEADER...`

mod headers;

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, process};

use headers::{Group, Header};

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The C interface of rackmem</title><style>
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #8881; padding: .6rem; overflow-x: auto; } h3 { font: bold 1rem monospace; margin-top: 2rem; }
</style></head><body><h1>The C interface of rackmem</h1>
"#;

fn main() {
    let mut arguments = env::args().skip(1);
    let (Some(out), headers) = (arguments.next(), arguments.collect::<Vec<_>>()) else {
        eprintln!("c_reference: name the page to write and the headers");
        process::exit(2);
    };
    if let Err(error) = write(Path::new(&out), &headers) {
        eprintln!("c_reference: {error}");
        process::exit(1);
    }
}

fn write(out: &Path, paths: &[String]) -> Result<(), String> {
    let mut page = HEAD.to_owned();
    let mut sections = String::new();
    page += "<ul>\n";
    for path in paths {
        let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let title = path.split_once("include/").map_or(path.as_str(), |(_, title)| title);
        let _ = writeln!(page, "<li><a href=\"#{title}\">{title}</a></li>");
        sections += &section(title, &headers::read(&text));
    }
    page += "</ul>\n";
    page += &sections;
    page += "</body></html>\n";
    let folder = out.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(out, page))
        .map_err(|error| format!("{}: {error}", out.display()))
}

fn section(title: &str, header: &Header) -> String {
    let mut text = format!("<h2 id=\"{title}\">{title}</h2>\n{}", paragraphs(&header.introduction));
    for group in &header.groups {
        text += &declarations(group);
    }
    text
}

fn declarations(group: &Group) -> String {
    let names = group.names.iter().map(|name| format!("<span id=\"{name}\">{name}</span>"));
    let names = names.collect::<Vec<_>>().join(", ");
    let (code, comment) = (escaped(&group.code), paragraphs(&group.comment));
    format!("<h3>{names}</h3>\n<pre>{code}</pre>\n{comment}")
}

/// A comment as HTML: indented paragraphs are examples, tables or lists, whose lines stay as they are.
fn paragraphs(comment: &str) -> String {
    let mut text = String::new();
    for paragraph in comment.split("\n\n") {
        let is_laid_out = paragraph.lines().any(|line| line.starts_with("  "));
        let tag = if is_laid_out { "pre" } else { "p" };
        let _ = writeln!(text, "<{tag}>{}</{tag}>", escaped(paragraph));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
