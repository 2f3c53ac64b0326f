//! The parts of the paper.

use crate::reproduce::paper::Part;

/// Mechanisms, and how the machines are made.
pub const INTERFACE: Part =
    Part { name: "interface", title: "Sections 3 to 5: mechanisms and parameters" };
/// Locks and barriers of the prototype.
pub const TABLE1: Part = Part {
    name: "table1",
    title: "Table 1 and section 5.4.1: locks and barriers of the prototype",
};
/// STREAM triad.
pub const STREAM: Part = Part { name: "stream", title: "Figure 8: STREAM triad" };
/// Bitonic sort.
pub const BITONIC: Part = Part { name: "bitonic", title: "Figure 9: bitonic sort" };
/// Fast Fourier transform.
pub const FFT: Part = Part { name: "fft", title: "Figure 10: FFT" };
/// Locks of the simulated chip.
pub const LOCKS: Part = Part { name: "locks", title: "Figure 11a: locks of up to 128 cores" };
/// Barriers of the simulated chip.
pub const BARRIERS: Part =
    Part { name: "barriers", title: "Figure 11b: barriers of up to 128 cores" };

/// All, in the paper's order.
pub const ALL: [Part; 7] = [INTERFACE, TABLE1, STREAM, BITONIC, FFT, LOCKS, BARRIERS];

/// The part that a claim belongs to by its name, for claims that no check assigns.
pub fn of_id(short_id: &str) -> Option<Part> {
    let mut words = short_id.split('/');
    match (words.next().unwrap_or_default(), words.next_back().unwrap_or_default()) {
        ("sim", "barrier-episodes" | "barrier-trees" | "arrival-store-value") => Some(BARRIERS),
        ("sim", _) => Some(LOCKS),
        ("sect541" | "table1a" | "table1b", _) => Some(TABLE1),
        ("sect41" | "proto" | "func", _) => Some(INTERFACE),
        ("bench", _) => Some(BITONIC),
        (name, _) => ALL.into_iter().find(|part| part.name == name),
    }
}
