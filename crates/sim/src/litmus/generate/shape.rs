//! The classic shapes: accesses of each thread, and the values of an execution in which the order of some
//! thread is not kept.

/// A location, by its number: x, y, z.
pub(super) type Name = usize;

/// A load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// A load, and the value that it gets in the execution in question.
    Read(Name, u32),
    /// A store of a value.
    Write(Name, u32),
}

/// What the threads of a family of tests access.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    /// Accesses by thread, in program order.
    pub(super) threads: Vec<Vec<Access>>,
    /// Locations and their values at the end of the execution in question.
    pub(super) last: Vec<(Name, u32)>,
}

impl Shape {
    /// Whether both threads are the same, up to the names of locations.
    pub(super) fn is_symmetric(&self) -> bool {
        ["SB", "LB", "2+2W", "SB+rfi"].contains(&self.name)
    }
}

/// By name: threads, and the values at the end. `Wx1` stores 1 to x, `Rx0` loads 0 from it.
const SHAPES: [(&str, &str, &str); 43] = [
    ("MP", "Wx1 Wy1 | Ry1 Rx0", ""),
    ("SB", "Wx1 Ry0 | Wy1 Rx0", ""),
    ("LB", "Rx1 Wy1 | Ry1 Wx1", ""),
    ("S", "Wx2 Wy1 | Ry1 Wx1", "x2"),
    ("R", "Wx1 Wy1 | Wy2 Rx0", "y2"),
    ("2+2W", "Wx2 Wy1 | Wy2 Wx1", "x2 y2"),
    ("WRC", "Wx1 | Rx1 Wy1 | Ry1 Rx0", ""),
    ("RWC", "Wx1 | Rx1 Ry0 | Wy1 Rx0", ""),
    ("WWC", "Wx2 | Rx2 Wy1 | Ry1 Wx1", "x2"),
    ("WRW+WR", "Wx1 | Rx1 Wy1 | Wy2 Rx0", "y2"),
    ("WRR+2W", "Wx2 | Rx2 Ry0 | Wy1 Wx1", "x2"),
    ("WRW+2W", "Wx2 | Rx2 Wy1 | Wy2 Wx1", "x2 y2"),
    ("IRIW", "Wx1 | Rx1 Ry0 | Wy1 | Ry1 Rx0", ""),
    ("IRWIW", "Wx2 | Rx2 Wy1 | Wy2 | Ry2 Wx1", "x2 y2"),
    ("IRRWIW", "Wx2 | Rx2 Ry0 | Wy1 | Ry1 Wx1", "x2"),
    ("ISA2", "Wx1 Wy1 | Ry1 Wz1 | Rz1 Rx0", ""),
    ("W+RWC", "Wx1 Wy1 | Ry1 Rz0 | Wz1 Rx0", ""),
    ("Z6.0", "Wx1 Wy1 | Ry1 Wz1 | Wz2 Rx0", "z2"),
    ("Z6.1", "Wx2 Wy1 | Wy2 Wz1 | Rz1 Wx1", "x2 y2"),
    ("Z6.2", "Wx2 Wy1 | Ry1 Wz1 | Rz1 Wx1", "x2"),
    ("Z6.3", "Wx1 Wy1 | Wy2 Wz1 | Rz1 Rx0", "y2"),
    ("Z6.4", "Wx1 Wy1 | Wy2 Rz0 | Wz1 Rx0", "y2"),
    ("Z6.5", "Wx2 Wy1 | Wy2 Rz0 | Wz1 Wx1", "x2 y2"),
    ("3.SB", "Wx1 Ry0 | Wy1 Rz0 | Wz1 Rx0", ""),
    ("3.LB", "Rx1 Wy1 | Ry1 Wz1 | Rz1 Wx1", ""),
    ("3.2W", "Wx2 Wy1 | Wy2 Wz1 | Wz2 Wx1", "x2 y2 z2"),
    ("SB+rfi", "Wx1 Rx1 Ry0 | Wy1 Ry1 Rx0", ""),
    ("MP+rfi", "Wx1 Wy1 | Ry1 Wz1 Rz1 Rx0", ""),
    ("LB+rfi", "Rx1 Wz1 Rz1 Wy1 | Ry1 Wx1", ""),
    ("R+rfi", "Wx1 Wy1 | Wy2 Ry2 Rx0", "y2"),
    ("MP+RR", "Wx1 Wy1 | Ry1 Ry1 Rx0", ""),
    ("MP+WW", "Wx1 Wx2 Wy1 | Ry1 Rx1", ""),
    ("CoRR", "Wx1 | Rx1 Rx0", ""),
    ("CoRR2", "Wx1 | Wx2 | Rx1 Rx2 | Rx2 Rx1", ""),
    ("CoWW", "Wx1 Wx2", "x1"),
    ("CoRW1", "Rx1 Wx1", ""),
    ("CoRW2", "Wx2 | Rx2 Wx1", "x2"),
    ("CoWR", "Wx1 Rx0", ""),
    ("CoWWR", "Wx1 Wx2 Rx1", ""),
    ("CoWRR", "Wx1 Rx2 Rx1 | Wx2", "x2"),
    ("CoWR2", "Wx1 Rx2 | Wx2", "x1"),
    ("CoMP", "Wx1 Wx2 | Rx2 Rx0", ""),
    ("CoSB", "Wx1 Rx2 | Wx2 Rx1", ""),
];

pub(super) fn shapes() -> impl Iterator<Item = Shape> {
    SHAPES.iter().map(|&(name, threads, last)| Shape {
        name,
        threads: threads
            .split('|')
            .map(|thread| thread.split_whitespace().map(access).collect())
            .collect(),
        last: last.split_whitespace().map(named).collect(),
    })
}

fn access(text: &str) -> Access {
    let (kind, rest) = text.split_at(1);
    let (name, value) = named(rest);
    if kind == "R" { Access::Read(name, value) } else { Access::Write(name, value) }
}

/// A location's letter, and a digit.
fn named(text: &str) -> (Name, u32) {
    let bytes = text.as_bytes();
    (usize::from(bytes[0] - b'x'), u32::from(bytes[1] - b'0'))
}
