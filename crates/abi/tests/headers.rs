//! Everything that the C headers have for programs has a comment.

#[path = "../examples/c_reference/headers.rs"]
mod headers;

use std::fs;
use std::path::Path;

#[test]
fn all_that_is_public_in_the_headers_has_a_comment() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut wrong = Vec::new();
    let mut count = 0;
    for folder in ["", "rackmem", "scratchpad"] {
        for entry in fs::read_dir(include.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "h") {
                continue;
            }
            let header = headers::read(&fs::read_to_string(&path).unwrap());
            let place = path.strip_prefix(&include).unwrap().display().to_string();
            assert!(!header.introduction.is_empty(), "{place}: its first line says nothing");
            for group in header.groups {
                count += group.names.len();
                if group.comment.is_empty() {
                    wrong.push(format!(
                        "include/{place}:{}: {}",
                        group.line,
                        group.names.join(", ")
                    ));
                }
            }
        }
    }
    assert!(count > 250, "only {count} names are found: the headers are not understood");
    assert!(wrong.is_empty(), "without a comment:\n{}", wrong.join("\n"));
}

#[test]
fn declarations_are_told_apart() {
    let header = headers::read(
        "/*\n * What it is.\n */\n#ifndef X_H\n#define X_H\n\n/* Two sizes. */\n#define A 1\n#define B \\\n    2\n\n\
         #define C 3 /* own */\n\n#define D 4\nenum { E = 1 };\n\n/* Adds. */\nstatic inline int f(int a)\n{\n    \
         return a;\n}\n\ntypedef struct s {\n    int x; /* a field */\n} s;\n\n/* Called. */\n\
         typedef void (*g)(int);\n\nint hidden_(void);\n\n/* ---- Part ---- */\n\nint h(void);\n#endif\n",
    );
    assert_eq!(header.introduction, "What it is.");
    let said: Vec<(String, &str)> =
        header.groups.iter().map(|group| (group.names.join(" "), group.comment.as_str())).collect();
    let expected = [
        ("A B", "Two sizes."),
        ("C", "own"),
        ("D E", ""),
        ("f", "Adds."),
        ("s", ""),
        ("g", "Called."),
        ("h", ""),
    ];
    assert_eq!(said, expected.map(|(names, comment)| (names.to_owned(), comment)));
    assert_eq!(header.groups[3].code, "static inline int f(int a);\n");
}
