//! Checks of the repository's text that a machine can make: tags resolve, paths exist, documents are short,
//! crates see no more of each other than they may, comments say something, files and lines are not too
//! long.
//!
//! `cargo test -p rackmem-abi --test tidy`
//!
//! The numbers at the top are limits. Mend what exceeds one; do not raise it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most bytes of ARCHITECTURE.md.
const ARCHITECTURE_BYTES: usize = 12_000;

/// Most lines of README.md.
const README_LINES: usize = 120;

/// The crates that a crate may see; ARCHITECTURE.md says what each line forbids.
const ARROWS: &[(&str, &[&str])] = &[
    ("abi", &[]),
    ("rmc", &["abi"]),
    ("riscv", &[]),
    ("sim", &["abi", "rmc", "riscv"]),
    ("experiments", &["abi", "sim"]),
    ("fabric", &["abi", "rmc"]),
    ("runtime", &["abi", "rmc", "fabric"]),
    ("nic", &["fabric", "rmc"]),
    ("sockets", &["fabric", "rmc", "runtime"]),
    ("lease", &["fabric", "rmc", "runtime"]),
    ("paging", &["lease", "runtime"]),
    ("blk", &["fabric", "lease"]),
    ("preload", &["lease", "paging"]),
    ("python", &["cli", "experiments", "lease", "paging", "runtime", "sim"]),
    (
        "cli",
        &[
            "abi",
            "blk",
            "experiments",
            "fabric",
            "lease",
            "nic",
            "paging",
            "preload",
            "riscv",
            "runtime",
            "sim",
            "sockets",
        ],
    ),
];

/// Most lines of code of a file: neither blank nor comment.
const FILE_LINES: usize = 600;

/// Most columns of a line of Rust or Markdown. Tables, lines with the address of a page, and Markdown's blocks do not
/// count: what a program prints is as wide as it is.
const COLUMNS: usize = 120;

/// The same of the C headers that programs include.
const HEADER_COLUMNS: usize = 100;

/// The documents in which every path in backquotes is that of a file or folder, from the repository's root.
const WITH_PATHS: &[&str] = &["docs/questions.md", "docs/checks.md"];

// ---- Tags ----------------------------------------------------------------------------------------

#[test]
fn every_tag_is_decided() {
    let repository = Repository::open();
    let decided = decisions(&repository);
    let mut wrong = Vec::new();
    for file in repository.with(&["rs", "toml", "md", "h", "c"]) {
        for (line, text) in numbered(&repository.text(file)) {
            for tag in tags(text).filter(|tag| !decided.contains_key(*tag)) {
                wrong.push(format!(
                    "{file}:{line}: {tag} has no row in docs/questions.md; add one that states the question and its \
                     decision, or remove the tag"
                ));
            }
        }
    }
    none(wrong);
}

#[test]
fn every_decision_has_a_tag_in_use_or_a_module() {
    let repository = Repository::open();
    let mut used = BTreeSet::new();
    for file in repository.with(&["rs", "toml", "md", "h", "c"]) {
        if file != "docs/questions.md" {
            used.extend(tags(&repository.text(file)).map(str::to_owned));
        }
    }
    let wrong = decisions(&repository)
        .into_iter()
        .filter(|(tag, row)| !used.contains(tag) && !row.module.contains('`'))
        .map(|(tag, row)| {
            format!(
                "docs/questions.md:{}: nothing mentions {tag}, and its row names no module; name one, or delete it",
                row.line
            )
        });
    none(wrong.collect());
}

struct Row {
    line: usize,
    module: String,
}

/// The rows of docs/questions.md by tag.
fn decisions(repository: &Repository) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for (line, text) in numbered(&repository.text("docs/questions.md")) {
        let cells = cells(text);
        let Some(&tag) = cells.first() else { continue };
        if tags(tag).next() != Some(tag) {
            continue;
        }
        let place = format!("docs/questions.md:{line}");
        assert_eq!(cells.len(), 4, "{place}: write tag | question | decision | module");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{place}: fill the empty cell");
        let row = Row { line, module: cells[3].to_owned() };
        assert!(
            rows.insert(tag.to_owned(), row).is_none(),
            "{place}: {tag} has a row already; join both"
        );
    }
    rows
}

/// The tags in a text: U with one or two digits, or Q-, TS-, DE- and CI- with two.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').flat_map(|word| {
        // A tag may stand in a compound, as in "U18-like".
        let parts: Vec<&str> = word.split('-').collect();
        let mut found = Vec::new();
        let mut at = 0;
        for (i, part) in parts.iter().enumerate() {
            let next = parts.get(i + 1).copied().unwrap_or_default();
            if is_number(part.strip_prefix('U').unwrap_or_default(), 1..=2) {
                found.push(&word[at..at + part.len()]);
            } else if ["Q", "TS", "DE", "CI"].contains(part) && is_number(next, 2..=2) {
                found.push(&word[at..at + part.len() + 1 + next.len()]);
            }
            at += part.len() + 1;
        }
        found
    })
}

fn is_number(text: &str, digits: std::ops::RangeInclusive<usize>) -> bool {
    digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[test]
fn tags_are_told_from_other_words() {
    let found: Vec<&str> =
        tags("(U9, Q-27), TS-10/TS-11; `DE-08`. U123 AU9 CI-5 UTS-10 U9x SEQ-27 CI").collect();
    assert_eq!(found, ["U9", "Q-27", "TS-10", "TS-11", "DE-08"]);
}

// ---- Documents -----------------------------------------------------------------------------------

#[test]
fn paths_in_documents_exist() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    for document in ["ARCHITECTURE.md"].iter().chain(WITH_PATHS) {
        let is_whole = WITH_PATHS.contains(document);
        for (line, text) in numbered(&repository.text(document)) {
            for path in quoted(text).filter(|text| is_path(text)) {
                if !repository.has(path.trim_end_matches('/'), is_whole) {
                    let how = if is_whole { "from the repository's root" } else { "or its end" };
                    wrong.push(format!(
                        "{document}:{line}: there is no `{path}`; write the path of a file, {how}"
                    ));
                }
            }
        }
    }
    none(wrong);
}

/// The parts of a line between backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_path(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
    let ends = [".rs", ".h", ".c", ".toml", ".md", ".json"];
    is_plain && (text.contains('/') || ends.iter().any(|end| text.ends_with(end)))
}

#[test]
fn documents_are_short() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    let mut check = |document: &str, is: usize, most: usize, unit: &str| {
        if is > most {
            wrong.push(format!(
                "{document}:1: it has {is} {unit} and may have {most}; move details to the code or to docs/"
            ));
        }
    };
    check("ARCHITECTURE.md", repository.text("ARCHITECTURE.md").len(), ARCHITECTURE_BYTES, "bytes");
    check("README.md", repository.text("README.md").lines().count(), README_LINES, "lines");
    none(wrong);
}

// ---- Arrows --------------------------------------------------------------------------------------

#[test]
fn crates_see_what_they_may() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    for manifest in repository.with(&["toml"]) {
        let Some(name) =
            manifest.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some((_, may)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            wrong.push(format!(
                "{manifest}:1: the crate {name} is not in ARROWS (tests/tidy.rs); say there and in ARCHITECTURE.md \
                 what it may see, and why it is no module"
            ));
            continue;
        };
        for (line, to) in dependencies(&repository.text(manifest)) {
            if !may.contains(&to.as_str()) {
                wrong.push(format!(
                    "{manifest}:{line}: {name} may not see {to}; move what it needs to a crate that both may see"
                ));
            }
        }
    }
    none(wrong);
}

#[test]
fn the_table_of_arrows_is_that_of_the_architecture() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    let mut documented = BTreeSet::new();
    let text = repository.text("ARCHITECTURE.md");
    let rows = numbered(&text).skip_while(|(_, line)| !line.starts_with("| crate |")).skip(2);
    for (line, text) in rows.take_while(|(_, line)| line.starts_with('|')) {
        let cells = cells(text);
        let name = quoted(cells[0]).next().unwrap_or_default();
        let sees: BTreeSet<&str> = quoted(cells[1]).collect();
        let table = ARROWS.iter().find(|(from, _)| *from == name);
        let may: Option<BTreeSet<&str>> = table.map(|(_, may)| may.iter().copied().collect());
        if may.as_ref() != Some(&sees) {
            wrong.push(format!("ARCHITECTURE.md:{line}: ARROWS in tests/tidy.rs says otherwise of `{name}`: {may:?}"));
        }
        documented.insert(name.to_owned());
    }
    for (name, _) in ARROWS.iter().filter(|(name, _)| !documented.contains(*name)) {
        wrong.push(format!(
            "ARCHITECTURE.md:1: its table of crates has no row for `{name}`; add it"
        ));
    }
    none(wrong);
}

/// Crates of this repository that a manifest needs for more than tests, with the line that says so.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut counts = false;
    for (line, text) in numbered(manifest) {
        let text = text.trim();
        let section = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let mut key = text.split(['=', '.']).next().unwrap_or_default().trim();
        if let Some(section) = section {
            let (table, name) = section.split_once("dependencies.").unwrap_or((section, ""));
            counts = !table.contains("dev-") && section.contains("dependencies");
            key = name;
        }
        if !counts {
            continue;
        }
        // A dependency under another name has a line or field `package = "..."`.
        let renamed = text.split("package = \"").nth(1).and_then(|rest| rest.split('"').next());
        let package = renamed.unwrap_or(key).trim_matches('"');
        match package.strip_prefix("rackmem-") {
            Some(name) => found.push((line, name.to_owned())),
            None if package == "rackmem" => found.push((line, "runtime".to_owned())),
            None => {}
        }
    }
    found
}

#[test]
fn dependencies_are_found_in_all_forms() {
    let manifest = "[package]\nname = \"rackmem-sim\"\n[dependencies]\nlibc = \"0.2\"\nrackmem.workspace = true\n\
                    [target.'cfg(loom)'.dependencies]\nrackmem-abi = { path = \"../abi\" }\n\
                    [dependencies.rackmem-rmc]\nworkspace = true\n[build-dependencies]\n\
                    other = { package = \"rackmem-sim\" }\n[dev-dependencies]\nrackmem-cli.workspace = true\n\
                    [dev-dependencies.rackmem-lease]\npath = \"../lease\"\n";
    let names: Vec<String> = dependencies(manifest).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["runtime", "abi", "rmc", "sim"]);
}

#[test]
fn published_crates_include_only_their_own_files() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    for manifest in repository.with(&["toml"]) {
        let folder =
            manifest.strip_suffix("/Cargo.toml").filter(|path| path.starts_with("crates/"));
        let Some(folder) = folder else { continue };
        if repository.text(manifest).contains("\npublish = false\n") {
            continue;
        }
        for file in repository.with(&["rs"]) {
            let Some(inside) = file.strip_prefix(&format!("{folder}/src/")) else { continue };
            for (line, _) in numbered(&repository.text(file)).filter(|line| leaves(inside, line.1))
            {
                wrong.push(format!(
                    "{file}:{line}: its package lacks what is included; link the data into {folder}, and name it \
                     under `include` of {manifest}"
                ));
            }
        }
    }
    none(wrong);
}

/// Whether a line of a file of `src` includes a file from outside of the crate.
fn leaves(inside: &str, line: &str) -> bool {
    let up = |text: &str| text.split("../").take_while(|part| part.is_empty()).count();
    let mut included = line.split("include_").skip(1).filter_map(|rest| rest.split('"').nth(1));
    included.any(|path| path.starts_with("../") && up(path) > inside.split('/').count())
}

#[test]
fn includes_from_outside_are_found() {
    assert!(!leaves("lib.rs", "const A: &str = include_str!(\"../machines/a.toml\");"));
    assert!(leaves("lib.rs", "const A: &str = include_str!(\"../../machines/a.toml\");"));
    assert!(!leaves("a/b.rs", "include_str!(concat!(\"../../machines/\", $name, \".toml\"))"));
    assert!(leaves("a/b.rs", "include_bytes!(concat!(\"../../../machines/\", $name))"));
    assert!(!leaves("lib.rs", "#[path = \"../../other.rs\"]"));
}

// ---- Comments ------------------------------------------------------------------------------------

#[test]
fn comments_say_more_than_names() {
    let repository = Repository::open();
    let mut found = Vec::new();
    for file in repository.with(&["rs"]) {
        let text = repository.text(file);
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(comment) = doc(line) else { continue };
            let is_alone = (at == 0 || doc(lines[at - 1]).is_none())
                && lines.get(at + 1).is_none_or(|next| doc(next).is_none());
            let item = lines[at + 1..]
                .iter()
                .find(|line| !line.trim().starts_with('#'))
                .and_then(|line| item(line));
            if is_alone && says_nothing(comment, item.unwrap_or_default()) {
                found.push(format!(
                    "{file}:{}: `/// {comment}` says no more than the name; say unit, range, reason or source, or \
                     delete it (and have the item private, if a comment is asked for)",
                    at + 1
                ));
            }
        }
    }
    none(found);
}

/// The text of a line of documentation of an item.
fn doc(line: &str) -> Option<&str> {
    line.trim().strip_prefix("///").map(str::trim)
}

/// The name that a line of Rust declares.
fn item(line: &str) -> Option<&str> {
    const BEFORE: [&str; 15] = [
        "pub",
        "const",
        "static",
        "unsafe",
        "async",
        "extern",
        "mut",
        "fn",
        "struct",
        "enum",
        "union",
        "trait",
        "type",
        "mod",
        "macro_rules!",
    ];
    let words = line.trim().split(|c: char| c.is_whitespace() || "(){}<>:,;=\"".contains(c));
    words
        .filter(|word| {
            !word.is_empty()
                && !BEFORE.contains(word)
                && !["crate", "super", "self", "in"].contains(word)
        })
        .find(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

/// Whether a comment of one line is empty, a bare question, or the words of the name again.
fn says_nothing(comment: &str, name: &str) -> bool {
    const QUESTIONS: [&str; 10] =
        ["what", "who", "which", "where", "when", "how", "why", "many", "much", "to"];
    const FILLERS: [&str; 10] =
        ["the", "a", "an", "its", "their", "this", "that", "it", "of", "is"];
    let comment = comment.to_lowercase();
    let words: Vec<&str> = comment
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !FILLERS.contains(word))
        .collect();
    let stem = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let of_comment: BTreeSet<String> = words.iter().map(|word| stem(word)).collect();
    let of_name: BTreeSet<String> = words_of(name).iter().map(|word| stem(word)).collect();
    words.iter().all(|word| QUESTIONS.contains(word)) || of_comment == of_name
}

/// The words of a name in any of Rust's styles.
fn words_of(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let is_camel = part.chars().any(char::is_lowercase);
        let mut word = String::new();
        for c in part.chars() {
            if is_camel && c.is_uppercase() && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        }
        words.push(word);
    }
    words
}

/// Beginnings of sentences without a subject: "Who waits is woken" names nobody.
const HEADLESS: [&str; 5] = ["Who ", "Whoever ", "Whose ", "Is told ", "Is asked "];

#[test]
fn sentences_name_their_subject() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    for file in repository.with(&["rs", "h", "c", "py", "toml", "md"]) {
        for (line, text) in numbered(&repository.text(file)) {
            if let Some(start) = prose(file, text).and_then(headless) {
                wrong.push(format!(
                    "{file}:{line}: a sentence begins with `{}`; name its subject: a thread that, a reader who",
                    start.trim()
                ));
            }
        }
    }
    none(wrong);
}

/// The part of a line that people read: all of Markdown, and a comment that has the line for itself.
fn prose<'a>(file: &str, line: &'a str) -> Option<&'a str> {
    let line = line.trim();
    match file.ends_with(".md") {
        true => Some(line),
        false => {
            ["///", "//!", "//", "/*", "*", "#"].iter().find_map(|mark| line.strip_prefix(mark))
        }
    }
}

/// The beginning of a sentence that has no subject and is no question.
fn headless(text: &str) -> Option<&'static str> {
    let mut sentences = text.split_inclusive(['.', '?', '|']).map(str::trim);
    sentences.find_map(|sentence| {
        let sentence = sentence.trim_start_matches(['-', '*', ' ']);
        let start = HEADLESS.iter().find(|start| sentence.starts_with(**start));
        start.copied().filter(|_| !sentence.ends_with('?'))
    })
}

#[test]
fn headless_sentences_are_told_from_others() {
    let found = |file, line| prose(file, line).and_then(headless);
    assert_eq!(found("a.rs", "    /// Who waits is woken."), Some("Who "));
    assert_eq!(found("a.h", " * Lines are atomic. Whoever polls sees one."), Some("Whoever "));
    assert_eq!(found("a.md", "- Is told when it ends"), Some("Is told "));
    assert_eq!(found("a.rs", "    // Who enforces that? The lender."), None);
    assert_eq!(found("a.rs", "    let text = \"Who waits\";"), None);
    assert_eq!(found("a.rs", "    /// A thread who waits is woken."), None);
}

#[test]
fn empty_comments_are_told_from_others() {
    let is_empty = |comment, line| says_nothing(comment, item(line).unwrap());
    assert!(is_empty("Its name.", "    pub name: String,"));
    assert!(is_empty("The name.", "    fn name(&self) -> &str {"));
    assert!(is_empty("Layers.", "pub const LAYERS: usize = 7;"));
    assert!(is_empty("Size of the pool", "pub(crate) struct PoolSize(u32);"));
    assert!(is_empty("How many.", "    rows: usize,"));
    assert!(is_empty("", "pub enum State {"));
    assert!(!is_empty("Its name, 64 bytes at most.", "    pub name: String,"));
    assert!(!is_empty("What was posted.", "    posted: u64,"));
    assert!(!is_empty("Bytes of a line.", "pub const LINE: u64 = 64;"));
    assert!(!is_empty("Done.", "    Ok = 0,"));
}

// ---- Lengths -------------------------------------------------------------------------------------

#[test]
fn files_are_short() {
    let repository = Repository::open();
    let mut wrong = Vec::new();
    for file in repository.with(&["rs"]) {
        let lines = code_lines(&repository.text(file));
        if lines > FILE_LINES {
            wrong.push(format!(
                "{file}:1: it has {lines} lines of code and may have {FILE_LINES}; cut it along its parts"
            ));
        }
    }
    none(wrong);
}

/// Lines that are neither blank nor comment.
fn code_lines(text: &str) -> usize {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    text.lines().filter(is_code).count()
}

#[test]
fn lines_are_short() {
    let repository = Repository::open();
    let mut wide = Vec::new();
    for (endings, columns, within) in
        [(&["rs", "md"][..], COLUMNS, ""), (&["h"], HEADER_COLUMNS, "include/")]
    {
        for file in repository.with(endings).filter(|file| file.starts_with(within)) {
            let mut is_block = false;
            for (line, text) in numbered(&repository.text(file)) {
                is_block ^= file.ends_with(".md") && text.trim_start().starts_with("```");
                let width = text.chars().count();
                if width > columns && !is_block && !is_table(text) && !text.contains("://") {
                    wide.push(format!(
                        "{file}:{line}: {width} columns; break it before column {columns}"
                    ));
                }
            }
        }
    }
    none(wide);
}

/// Whether a line is one of a table, in Markdown or in a comment.
fn is_table(line: &str) -> bool {
    line.trim_start_matches(['/', '!', '*', ' ']).starts_with('|')
}

// ---- The repository ------------------------------------------------------------------------------

/// The files of the repository, without build output.
struct Repository {
    root: PathBuf,
    files: Vec<String>,
}

impl Repository {
    fn open() -> Repository {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let mut files = listed(&root).unwrap_or_else(|| {
            let mut found = Vec::new();
            walk(&root, &root, &mut found);
            found
        });
        // Those that were removed and not committed yet are listed, too.
        files.retain(|file| root.join(file).is_file());
        files.sort();
        assert!(
            files.iter().any(|file| file == "tests/tidy.rs"),
            "{} is no repository",
            root.display()
        );
        Repository { root, files }
    }

    /// Paths of the files that end so.
    fn with<'a>(&'a self, endings: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let fits = |file: &&str| {
            Path::new(file).extension().is_some_and(|end| endings.iter().any(|e| end == *e))
        };
        self.files.iter().map(String::as_str).filter(fits)
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Whether there is a file or folder with this path or, unless it `is_whole`, one that ends so.
    fn has(&self, path: &str, is_whole: bool) -> bool {
        let within = format!("/{path}/");
        self.files.iter().map(|file| format!("/{file}/")).any(|file| match is_whole {
            true => file.starts_with(&within),
            false => file.contains(&within),
        })
    }
}

/// The files that git knows of, and new ones that are not ignored; `None` where there is no git.
fn listed(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    let files: BTreeSet<String> =
        text.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
    Some(files.into_iter().collect())
}

/// All files below a folder, but those of `target` and of folders with a dot.
fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            walk(root, &path, found);
        } else if path.is_file() {
            found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        }
    }
}

/// The lines of a text with their numbers.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

/// The cells of a row of a table; nothing, if a line is no row.
fn cells(line: &str) -> Vec<&str> {
    let row = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    row.map_or_else(Vec::new, |row| row.split('|').map(str::trim).collect())
}

/// Fails with all that is wrong.
fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} wrong:\n{}\n", wrong.len(), wrong.join("\n"));
}
