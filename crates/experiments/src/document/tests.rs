//! Each error in a file is one line, with its place.

use super::Document;

const HEAD: &str = "paper = \"mine\"\ntitle = \"Mine\"\n";
const RUN: &str = "[run.read]\nparameters = \"bytes\"\nname = \"read/{bytes}\"\nmachine = \"manycore-ni\"\n\
     [run.pipe]\nname = \"pipe\"\nmachine = \"sonuma\"\nprogram = \"netpipe\"\nnodes = \"2\"\n";
const PART: &str = "[[part]]\nname = \"all\"\ntitle = \"All\"\n";

fn claim(rest: &str) -> String {
    format!("{HEAD}{RUN}{PART}[[part.claim]]\nid = \"x\"\n{rest}\n")
}

fn problem(text: &str) -> String {
    Document::parse("mine.toml", text, None).unwrap_err().to_string()
}

#[test]
fn a_file_of_a_user_gives_its_own_values() {
    let text = claim(
        "class = \"ratio\"\nmeasure = \"read(64).app_gbps\"\nvalue = 3\nunit = \"GB/s\"\nrelation = \"~\"",
    );
    let document = Document::parse("mine.toml", &text, None).unwrap();
    let claim = &document.published[0];
    assert_eq!((claim.id.as_str(), claim.value, claim.relation.sign()), ("mine/x", Some(3.0), "~"));
}

#[test]
fn wrong_files_are_refused_in_one_line() {
    let measured =
        |expr: &str| claim(&format!("class = \"ratio\"\nvalue = 1\nmeasure = \"{expr}\""));
    for (text, expected) in [
        (measured("read(64).x +"), "mine.toml:19: expected a value, found the end"),
        (
            measured("raed(64).x"),
            "mine.toml:16: x: there is no function 'raed'; did you mean read?",
        ),
        (measured("read(64) + sise"), "mine.toml:16: x: there is no 'sise'"),
        (
            measured("read(64).stats['rrpp.line']"),
            "x: no report has a statistic 'rrpp.line'; did you mean rrpp.lines?",
        ),
        (measured("total(read(64).stats, '.none')"), "no report has a statistic '.none'"),
        (
            measured("read(64).latency.mean_cycle"),
            "x: the report of read has no 'latency.mean_cycle'; did you mean latency.mean_cycles?",
        ),
        (
            measured("pipe.output.size[0].bytes"),
            "the report of pipe has no 'output.size[].bytes'; did you mean output.sizes[].bytes?",
        ),
        (measured("pipe.output['treshold']"), "did you mean output.threshold?"),
        (measured("read(64).links[0].form"), "the report of read has no 'links[].form'"),
        (measured("read()"), "x: read needs 'bytes'"),
        (measured("read(1, 2)"), "x: read takes 1 argument(s), not 2"),
        (measured("read(byte=1)"), "x: read has no parameter 'byte'; did you mean bytes?"),
        (measured("sqrt(1, 2)"), "x: sqrt takes 1 argument(s), not 2"),
        (claim("class = \"rato\"\nmeasure = 1"), "unknown variant `rato`"),
        (claim("measure = 1"), "x: needs a 'class'"),
        (
            claim("class = \"order\"\nleft = 1"),
            "x: needs 'measure', or 'left' and 'right', or 'untestable'",
        ),
        (claim("clas = \"order\""), "unknown field `clas`"),
        (
            claim("untestable = \"no\"\n[[claim]]\nid = \"x\"\nuntestable = \"no\""),
            "the claim 'x' has two experiments",
        ),
        (
            format!("{HEAD}[let]\na = \"b + 1\"\nb = \"f(a)\"\n\"f(x)\" = \"x\"\n{PART}"),
            "a -> b -> a is a circle",
        ),
        (
            format!("{HEAD}[let]\na = {{ quick = 1 }}\n{PART}"),
            "mine.toml:4: expected a value, or { quick = ..., full = ... }",
        ),
        (format!("{HEAD}[fitted]\nkeys = [\"mine/x\"]\n{PART}"), "fitted: there is no 'keys'"),
        (
            format!("{HEAD}[fitted]\nkeys = [\"mine/x\"]\n[let]\nkeys = 1\n{PART}"),
            "fitted: keys: the paper has no claim 'mine/x'",
        ),
        (
            format!("{HEAD}[run.x]\nname = \"x\"\nprogram = \"hello\"\nbeside = [[]]\n{PART}"),
            "mine.toml:6: expected a program and its arguments",
        ),
        (
            format!("{HEAD}[run.x]\nname = \"x\"\nbeside = [[\"hello\"]]\n{PART}"),
            "mine.toml:5: 'beside' needs a 'program' on the nodes before",
        ),
        (
            format!(
                "{HEAD}[run.x]\nname = \"x\"\nprogram = \"hello\"\noutput = \"steady\"\n{PART}"
            ),
            "mine.toml:4: an 'output' of traffic needs a 'machine'",
        ),
        (
            format!(
                "{HEAD}[run.x]\nname = \"x\"\nprogram = \"hello\"\nbeside = [[\"{{none_such}}\"]]\n{PART}"
            ),
            "there is no 'none_such'",
        ),
        (
            format!("{HEAD}[let]\n\"a b\" = 1\n{PART}"),
            "mine.toml:4: 'a b' is not a name with parameters",
        ),
        (
            format!("{HEAD}{PART}[[part.row]]\nname = \"x\"\nvalue = \"y\"\nunit = \"\"\n"),
            "there is no 'y'",
        ),
        (
            format!("{HEAD}{PART}[[part.claim]]\nid = \"x\"\neach = [\"a of b\"]\n"),
            "expected 'name in value', found 'a of b'",
        ),
    ] {
        let found = problem(&text);
        assert!(found.contains(expected), "{text}\n{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn claims_and_experiments_are_the_same_set() {
    let published = "[[claim]]\nid = \"mine/y\"\nkind = \"value\"\n\
                     where = \"\"\nmetric = \"\"\nconfig = \"\"\nquote = \"\"\n";
    let parse = |id: &str| {
        let text = claim("untestable = \"there is no such thing here\"")
            .replace("\"x\"", &format!("{id:?}"));
        Document::parse("mine.toml", &text, Some(published)).map_err(|error| error.to_string())
    };
    assert!(parse("y").is_ok());
    assert!(parse("x").unwrap_err().contains("the paper has no claim 'x'"));
    let empty = format!("{HEAD}{PART}");
    let found = Document::parse("mine.toml", &empty, Some(published)).unwrap_err().to_string();
    assert!(found.contains("the claim 'y' has no experiment"), "{found}");
}
