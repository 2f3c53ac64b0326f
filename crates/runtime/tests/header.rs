//! `include/rackmem.h` and `include/scratchpad.h` compile everywhere without a warning. The former
//! says what `rackmem-abi` says, and declares nothing that librackmem lacks.

mod support;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;

use rackmem::capi::{CMapping, OpenArgs, VERSION};
use rackmem::client::ffi::{Engine, LOWEST_ADDRESS, POSTED, Qp, Window};
use rackmem::protocol::Progress;
use rackmem::shm::{line_lock, segment};
use rackmem_abi::{
    CQ_ENTRY_BYTES, CqEntry, LINE_BYTES, MAX_ADDRESS, MAX_LENGTH, MAX_NODES, MAX_OFFSET,
    MAX_WQ_SIZE, Op, Status, WQ_ENTRY_BYTES, WqEntry,
};
use support::c::{self, Compiler};

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"];

fn generated(name: &str, text: &str) -> PathBuf {
    let path = c::scratch_dir().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn header(name: &str) -> String {
    std::fs::read_to_string(c::include_dir().join(name)).unwrap()
}

#[test]
fn it_compiles_without_a_warning() {
    const ALL: [&str; 14] = [
        "rackmem/abi.h",
        "rackmem/runtime.h",
        "rackmem/direct.h",
        "rackmem/access.h",
        "rackmem/two_sided.h",
        "rackmem/messaging_ring.h",
        "rackmem/messaging_send.h",
        "rackmem/messaging.h",
        "rackmem/barrier.h",
        "rackmem.h",
        "scratchpad/scrlib.h",
        "scratchpad/nilib.h",
        "scratchpad/syslib.h",
        "scratchpad.h",
    ];
    for name in ALL {
        // Alone, twice, and after the others.
        let text = format!(
            "#include \"{name}\"\n#include \"{name}\"\n#include \"rackmem.h\"\n\
             int main(void) {{ return 0; }}\n"
        );
        let source = generated(&format!("{}.c", name.replace('/', "-")), &text);
        for compiler in Compiler::all() {
            for level in ["-O0", "-O2"] {
                let mut arguments = vec!["-c", "-o", "/dev/null", level];
                arguments.extend(WARNINGS);
                compiler.compile(&source, &arguments);
            }
        }
    }
}

/// Expressions of C, and the values that they must have.
struct Table(Vec<(String, i128)>);

impl Table {
    fn add(&mut self, expression: impl Into<String>, value: impl TryInto<i128>) {
        let value = value.try_into().unwrap_or_else(|_| panic!("fits 128 bits"));
        self.0.push((expression.into(), value));
    }

    /// A program that prints them, a line each: numbers wide enough for all, with their sign.
    fn program(&self) -> String {
        let mut text = "#include \"rackmem.h\"\n#include <stdio.h>\nint main(void)\n{\n".to_owned();
        for (expression, value) in &self.0 {
            let (kind, format) =
                if *value < 0 { ("long long", "lld") } else { ("unsigned long long", "llu") };
            writeln!(text, "    printf(\"%{format}\\n\", ({kind})({expression}));").unwrap();
        }
        text + "    return 0;\n}\n"
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap()
}

fn constants(table: &mut Table) {
    table.add("RACKMEM_LINE_BYTES", LINE_BYTES as u64);
    table.add("MAX_WQ_SIZE", MAX_WQ_SIZE as u64);
    table.add("RACKMEM_MAX_NODES", MAX_NODES as u64);
    table.add("RACKMEM_MAX_LENGTH", MAX_LENGTH);
    table.add("RACKMEM_MAX_OFFSET", MAX_OFFSET);
    table.add("RACKMEM_MAX_ADDRESS", MAX_ADDRESS);
    table.add("RACKMEM_WQ_ENTRY_BYTES", WQ_ENTRY_BYTES as u64);
    table.add("RACKMEM_CQ_ENTRY_BYTES", CQ_ENTRY_BYTES as u64);
    table.add("RACKMEM_STATUS_COUNT", Status::ALL.len() as u64);
    table.add("RACKMEM_POSTED", POSTED);
    table.add("RACKMEM_SLOT_FREE", 0);
    table.add("RACKMEM_SLOT_BUSY", 1);
    table.add("RACKMEM_SLOT_DONE", 2);
    table.add("RACKMEM_PROGRESS_DEFAULT", 0);
    table.add("RACKMEM_VERSION_MAJOR", number(env!("CARGO_PKG_VERSION_MAJOR")));
    table.add("RACKMEM_VERSION_MINOR", number(env!("CARGO_PKG_VERSION_MINOR")));
    table.add("RACKMEM_VERSION_PATCH", number(env!("CARGO_PKG_VERSION_PATCH")));
    table.add("RACKMEM_VERSION", VERSION);
    table.add("RACKMEM_MAPPING_LIVE", segment::State::Live as u32);
    table.add("RACKMEM_HAS_WINDOWS", 1);
    table.add("RACKMEM_SEGMENT_LIVE", segment::State::Live as u32);
    table.add("RACKMEM_SEGMENT_LOCKS", segment::LOCKS_AT as u64);
    table.add("RACKMEM_SEGMENT_DATA", segment::DATA_AT as u64);
    table.add("RACKMEM_BLOCK_BYTES", line_lock::BLOCK_BYTES);
    table.add("RACKMEM_LOCK_COUNT", line_lock::LOCK_COUNT as u64);
    table.add("RACKMEM_TICKET_SHIFT", line_lock::TICKET_SHIFT);
    table.add("RACKMEM_OWNER_MASK", line_lock::OWNER_MASK);
    table.add("RACKMEM_LOWEST_ADDRESS", LOWEST_ADDRESS);
    for op in Op::ALL {
        let name = match op {
            Op::Nop => "NOP",
            Op::Read => "READ",
            Op::Write => "WRITE",
            Op::FetchAdd => "FETCH_ADD",
            Op::CompareSwap => "COMPARE_SWAP",
            Op::Notify => "NOTIFY",
        };
        table.add(format!("RACKMEM_OP_{name}"), op as u8);
    }
    for status in Status::ALL {
        let name = match status {
            Status::Ok => "OK",
            Status::OutOfSegment => "OUT_OF_SEGMENT",
            Status::NoContext => "NO_CONTEXT",
            Status::NoPermission => "NO_PERMISSION",
            Status::NoNode => "NO_NODE",
            Status::NodeLost => "NODE_LOST",
            Status::BadLocalBuffer => "BAD_LOCAL_BUFFER",
            Status::MisalignedAtomic => "MISALIGNED_ATOMIC",
            Status::BadOperation => "BAD_OPERATION",
        };
        table.add(format!("RACKMEM_{name}"), status as u8);
    }
    for progress in Progress::ALL {
        let name = progress.name().to_uppercase();
        table.add(format!("RACKMEM_PROGRESS_{name}"), progress as u8 + 1);
    }
    for code in 0..=255 {
        let status = Status::from_code(code).unwrap_or(Status::BadOperation);
        table.add(format!("rackmem_status_errno({code})"), status.errno());
    }
}

fn layouts(table: &mut Table) {
    table.add("sizeof(rackmem_wq_entry)", WQ_ENTRY_BYTES as u64);
    table.add("sizeof(rackmem_cq_entry)", CQ_ENTRY_BYTES as u64);
    table.add("sizeof(rackmem_qp)", size_of::<Qp>() as u64);
    table.add("sizeof(rackmem_window)", size_of::<Window>() as u64);
    table.add("sizeof(rackmem_line_lock)", size_of::<line_lock::LineLock>() as u64);
    table.add("offsetof(rackmem_segment_head, sleepers)", segment::SLEEPERS_AT as u64);
    table.add("sizeof(rackmem_engine)", size_of::<Engine>() as u64);
    table.add("sizeof(rackmem_open_args)", size_of::<OpenArgs>() as u64);
    table.add("sizeof(rackmem_mapping)", size_of::<CMapping>() as u64);
    macro_rules! offsets {
        ($c:literal, $rust:ty, $($member:ident)*) => {
            $(table.add(
                concat!("offsetof(", $c, ", ", stringify!($member), ")"),
                offset_of!($rust, $member) as u64,
            );)*
        };
    }
    offsets!("rackmem_qp", Qp, wq cq operands rmc_asleep engine engine_state callback_arg size
        posted reaped done first_error spin_limit slot_state slot_status windows own_state counters
        rouse window_count owner connection);
    offsets!("rackmem_window", Window, segment readable_bytes writable_bytes);
    offsets!("rackmem_engine", Engine, execute progress wake sleep start posts);
    offsets!("rackmem_mapping", CMapping, memory size_bytes state);
    offsets!("rackmem_open_args", OpenArgs, rack nid ctx_id read_only segment_bytes progress);
}

/// Entries with each field zero, one, all ones, and mixed.
fn entries(table: &mut Table) {
    let offsets = [0, 1, 0xab_cdef_0123, MAX_OFFSET];
    let lengths = [0, 1, 0xffff, 0x1_0000, 0xab_cdef, MAX_LENGTH];
    let buffers = [0, 0x1000, 0xdead_beef_cafe, MAX_ADDRESS];
    for index in 0..96usize {
        let entry = WqEntry {
            phase: index % 2 == 0,
            op_code: (index % 8) as u8,
            dst_nid: [0, 1, 0xabc, 0xfff][index / 2 % 4],
            offset: offsets[index / 3 % 4],
            length: lengths[index % 6],
            buffer: buffers[index / 5 % 4],
        };
        let WqEntry { phase, op_code, dst_nid, offset, length, buffer } = entry;
        let words = entry.encode();
        let phase = u8::from(phase);
        table.add(
            format!("rackmem_wq_word0({phase}u, {op_code}u, {dst_nid}u, {offset}u, {length}u)"),
            words[0],
        );
        table.add(format!("rackmem_wq_word1({buffer}u, {length}u)"), words[1]);
    }
    for index in 0..40u16 {
        let entry = CqEntry {
            phase: index % 2 == 1,
            slot: [0, 1, 127, 0xabcd, 0xffff][usize::from(index) % 5],
            status_code: (index * 7 % 256) as u8,
        };
        let word = entry.encode();
        table.add(format!("rackmem_cq_slot({word}u)"), entry.slot);
        table.add(format!("rackmem_cq_status({word}u)"), entry.status_code);
        table.add(format!("rackmem_cq_phase({word}u)"), u8::from(entry.phase));
    }
}

#[test]
fn it_says_what_the_crate_abi_says() {
    let mut table = Table(Vec::new());
    constants(&mut table);
    layouts(&mut table);
    entries(&mut table);
    let source = generated("values.c", &table.program());
    for compiler in Compiler::all() {
        let program = c::scratch_dir().join(format!("values-{}", compiler.name()));
        compiler.compile(&source, &["-O1", "-o", program.to_str().unwrap()]);
        let output = Command::new(&program).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let values: Vec<i128> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(values.len(), table.0.len());
        for ((expression, expected), value) in table.0.iter().zip(values) {
            assert_eq!(value, *expected, "{expression} in {}", compiler.name());
        }
    }
}

/// Everything that looks like a name and satisfies `wanted`, outside comments.
fn names(text: &str, wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").expect("comments end").1;
    }
    code.push_str(rest);
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| wanted(word)).map(str::to_owned).collect()
}

#[test]
fn no_constant_is_left_out_of_the_comparison() {
    let mut table = Table(Vec::new());
    constants(&mut table);
    let compared: BTreeSet<&str> = table.0.iter().map(|(name, _)| name.as_str()).collect();
    let is_constant = |word: &str| {
        let is_upper =
            word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let other = ["RACKMEM_ABI_H", "RACKMEM_RUNTIME_H", "RACKMEM_STATIC_ASSERT"];
        is_upper
            && (word.starts_with("RACKMEM_") || word.starts_with("MAX_"))
            && !other.contains(&word)
    };
    let declared = names(&(header("rackmem/abi.h") + &header("rackmem/runtime.h")), is_constant);
    assert!(declared.len() > 30, "{declared:?}");
    for name in &declared {
        // Names that only occur in comments of `constants` would not compile.
        assert!(compared.contains(name.as_str()), "{name} is not compared");
    }
}

/// The functions that `runtime.h` and `two_sided.h` declare: names followed by a parenthesis, at file level.
fn declared_functions() -> Vec<String> {
    let mut functions = Vec::new();
    for line in (header("rackmem/runtime.h") + &header("rackmem/two_sided.h")).lines() {
        let is_declaration = line.starts_with(|c: char| c.is_ascii_alphabetic())
            && !line.starts_with("typedef")
            && !line.starts_with("struct");
        if let (true, Some((before, _))) = (is_declaration, line.split_once('(')) {
            let name = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
            functions.extend(
                name.filter(|name| name.starts_with("rackmem_") || name.starts_with("rmc_"))
                    .map(str::to_owned),
            );
        }
    }
    functions
}

#[test]
fn everything_declared_is_in_the_library() {
    let functions = declared_functions();
    assert!(functions.len() >= 23, "{functions:?}");
    let mut text = "#include \"rackmem.h\"\n#include <stdio.h>\n\
                    typedef void function(void);\nstatic function *volatile all[] = {\n"
        .to_owned();
    for name in &functions {
        writeln!(text, "    (function *){name},").unwrap();
    }
    text += "};\nint main(void)\n{\n    size_t i, n = sizeof all / sizeof *all;\n\
             \x20   for (i = 0; i < n && all[i]; i++)\n        ;\n    printf(\"%d\\n\", (int)i);\n\
             \x20   return 0;\n}\n";
    let source = generated("symbols.c", &text);
    for is_cpp in [false, true] {
        let Some(compiler) = Compiler::first_of(is_cpp) else { continue };
        let with_static = compiler.link(&source, "symbols-static", &[]);
        let with_shared = c::scratch_dir().join(format!("symbols-shared-{}", compiler.name()));
        let library = c::shared_library();
        let rpath = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
        compiler.compile(
            &source,
            &["-o", with_shared.to_str().unwrap(), library.to_str().unwrap(), &rpath],
        );
        for program in [with_static, with_shared] {
            let output = Command::new(&program).output().unwrap();
            let count = String::from_utf8(output.stdout).unwrap();
            assert_eq!(count.trim(), functions.len().to_string(), "{}", program.display());
        }
    }
}
