//! What is taken, and what is said of everything else.

use rackmem_sim::litmus::parse;
use rackmem_sim::litmus::test::{Formula, Observed, Quantifier, Value};

const TEXT: &str = r#"RISCV all of it
"A comment" (* another (* one *)
   over lines *)
Cycle=Nothing at all
{ int x = 3; uint64_t y; 0:x5=x; int 0:x6 = -1;
  0:a0=&y; p=x; }
 P0            | P1        ;
 again:        | fence.tso ;
 lr.w.aq x7,(x5) (* ! *) | fence rw,w ;
 sc.w.rl x8,x6,0(x5) | li x9,0x12345 ;
 bnez x8,again | lw a1,-4(a0) ;
locations [p; 1:x9]
~exists (0:x7=3 /\ ~([x]=1 \/ y=x) /\ true)
"#;

#[test]
fn all_of_the_form_is_taken() {
    let test = parse("all.litmus", TEXT).expect("it is a test");
    assert_eq!(test.name, "all of it");
    let names: Vec<&str> = test.locations.iter().map(|location| location.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "p"]);
    assert_eq!(test.locations[0].value, Value::Number(3));
    assert_eq!(test.locations[2].value, Value::Address(0));
    let registers = [(5, Value::Address(0)), (6, Value::Number(-1)), (10, Value::Address(1))];
    assert_eq!(test.threads[0].registers, registers);
    let words: Vec<u32> = test.threads[1].steps.iter().map(|step| step.word).collect();
    // As the assembler has them: fence.tso, fence rw,w, lui, addiw, lw.
    assert_eq!(words, [0x8330_000f, 0x0310_000f, 0x0001_24b7, 0x3454_849b, 0xffc5_2583]);
    assert_eq!(test.threads[0].steps[0].word, 0x1402_a3af, "lr.w.aq t2,(t0)");
    assert_eq!(test.threads[0].steps[1].word, 0x1a62_a42f, "sc.w.rl s0,t1,(t0)");
    assert_eq!(test.threads[0].steps[2].target, Some(0));
    assert_eq!(test.condition.quantifier, Quantifier::NotExists);
    let observed = [
        Observed::Location(2),
        Observed::Register(1, 9),
        Observed::Register(0, 7),
        Observed::Location(0),
        Observed::Location(1),
    ];
    assert_eq!(test.observed, observed);
    let Formula::And(parts) = &test.condition.holds else { panic!("it is a conjunction") };
    assert_eq!(parts.len(), 3);
    assert_eq!(test.condition(), r"~exists (0:x7=3 /\ ~([x]=1 \/ [y]=x) /\ true)");
}

/// The test with one piece in place of another, which does not parse.
fn broken(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    parse("all.litmus", &TEXT.replacen(from, to, 1)).expect_err(to).to_string()
}

#[test]
fn errors_name_line_and_what_was_expected() {
    let cases = [
        (
            "RISCV",
            "AArch64",
            "1: expected RISCV and the name of the test, found `AArch64 all of it`",
        ),
        ("Cycle=", "Cycle ", "4: expected a comment in quotes, a line KEY=VALUE, or `{`"),
        ("int x = 3", "int x = ?", "5: expected a number or a location, found `?`"),
        ("0:x5=x", "0:x32=x", "5: expected a register, x0 to x31, found `x32`"),
        ("0:x5=x; int", "0:x5=x int", "5: expected `;` or `}`, found `int`"),
        ("P0   ", "P1   ", "7: expected columns from P0"),
        ("fence.tso ;", "fence.tso", "8: expected `;` at the end of the line"),
        ("fence rw,w ;", "fence rw,w | nop ;", "9: expected 2 columns"),
        ("fence.tso", "fence.xyz", "8: expected fence, fence.tso or fence.i, found `fence.xyz`"),
        ("fence rw,w", "fence rq,w", "9: expected a set of i, o, r and w, found `rq`"),
        ("lr.w.aq", "lr.w.acq", "9: expected an atomic with .aq, .rl or .aq.rl"),
        ("lr.w.aq", "lr.h", "9: expected an atomic with .w or .d"),
        ("li x9,0x12345", "li x9,0x123456789", "10: expected a number of 32 bits"),
        ("lw a1,-4(a0)", "lw a1,-4000(a0)", "11: expected a number from -2048 to 2047"),
        ("lw a1,-4(a0)", "lw a1,-4(a0) nop", "11: expected the end of the instruction"),
        ("lw a1,-4(a0)", "ld a1,-4(a0)", "11: expected an access of 4 bytes, like those before"),
        ("lw a1,-4(a0)", "vadd a1,a0", "11: expected an instruction (lw, ld"),
        ("bnez x8,again", "bnez x8,once", "11: expected a label of this column, found `once`"),
        (
            "locations [p; 1:x9]",
            "locations [p; q]",
            "12: expected a register such as 0:x5, or a location",
        ),
        ("~exists", "maybe", "13: expected exists, ~exists or forall, found `maybe`"),
        ("~exists", "~forall", "13: expected `exists`, found `forall`"),
        ("0:x7=3 /", "2:x7=3 /", "13: expected a thread below 2, found `2`"),
        ("/\\ true)", "/\\ true) 1", "13: expected /\\, \\/ or the end of the file, found `1`"),
        ("/\\ true)", "/\\ true", "13: expected `)`, found nothing more"),
        ("  0:a0=&y;", "  7:a0=&y;", "7: expected a column P7"),
    ];
    for (from, to, expected) in cases {
        let error = broken(from, to);
        assert!(error.starts_with(&format!("all.litmus:{expected}")), "{to}: {error}");
    }
    let many = TEXT.replacen(" lw a1", &format!(" {}lw a1", "nop ;\n| ".repeat(200)), 1);
    let error = parse("all.litmus", &many).expect_err("there are too many").to_string();
    assert!(error.starts_with("all.litmus:207: expected 200 instructions at most"), "{error}");
    let error = parse("empty.litmus", "").expect_err("it is empty").to_string();
    assert_eq!(
        error,
        "empty.litmus:0: expected RISCV and the name of the test, found nothing more"
    );
}
