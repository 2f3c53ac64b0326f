//! Control registers that user mode reaches: the floating-point ones and the counters.

/// Accrued exception flags.
pub const FFLAGS: u32 = 0x001;
/// Dynamic rounding mode.
pub const FRM: u32 = 0x002;
/// Both of them: flags in bits 4 to 0, rounding mode in bits 7 to 5.
pub const FCSR: u32 = 0x003;
/// Cycle counter.
pub const CYCLE: u32 = 0xc00;
/// Wall-clock time.
pub const TIME: u32 = 0xc01;
/// Instructions retired.
pub const INSTRET: u32 = 0xc02;

/// A counter that user mode may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// `rdcycle`
    Cycle,
    /// `rdtime`
    Time,
    /// `rdinstret`
    Instret,
}

impl Counter {
    /// The counter behind a register number.
    pub const fn from_csr(csr: u32) -> Option<Counter> {
        match csr {
            CYCLE => Some(Counter::Cycle),
            TIME => Some(Counter::Time),
            INSTRET => Some(Counter::Instret),
            _ => None,
        }
    }
}

/// The name of a register that user mode reaches, `None` for every other number.
pub const fn name(csr: u32) -> Option<&'static str> {
    Some(match csr {
        FFLAGS => "fflags",
        FRM => "frm",
        FCSR => "fcsr",
        CYCLE => "cycle",
        TIME => "time",
        INSTRET => "instret",
        _ => return None,
    })
}

/// Whether user mode may write it: its two upper bits say so.
pub const fn is_writable(csr: u32) -> bool {
    csr >> 10 != 3
}
