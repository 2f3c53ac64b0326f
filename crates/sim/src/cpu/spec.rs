//! Widths, units and times of a core.

use std::ops::RangeInclusive;

use crate::block::BLOCK_BYTES;
use crate::section::section;

/// The most instructions that can be in flight: the window is kept in masks of as many bits.
pub const MAX_WINDOW: u32 = 64;

/// The most targets of indirect jumps that a core may keep.
const MAX_TARGETS: u32 = 1 << 16;

/// The most cycles that a unit may take; less than the slots of the core's event wheel.
pub const MAX_LATENCY: u32 = 60;

section! {
    /// An out-of-order core. "ARM Cortex-A15-like, 64-bit, out of order, 3-wide dispatch/retirement,
    /// 60-entry ROB" (soNUMA Table 1, Manycore NI Table 2); the defaults of all that the papers do not
    /// give say where they are from. Latencies are in cycles. What the L1 for data decides is not part of
    /// a machine file's section, but set from its own.
    pub struct CpuSpec {
        /// Instructions fetched a cycle, up to a taken branch. 4: the A15 fetches 16 bytes a cycle.
        fetch_width: u32 = 4,
        /// Stages from fetch to dispatch: what a misprediction costs, but for its resolution. 12: the
        /// A15 has 5 of fetch and 7 of decoding, renaming and dispatch.
        front_end_cycles: u32 = 12,
        /// Instructions dispatched a cycle (Table 1, Table 2).
        dispatch_width: u32 = 3,
        /// Operations that begin in a cycle. 8, as the A15 has pipelines: the units are the limit.
        issue_width: u32 = 8,
        /// Instructions retired a cycle (Table 1, Table 2).
        retire_width: u32 = 3,
        /// Entries of the reorder buffer (Table 1, Table 2); at most [`MAX_WINDOW`].
        rob_entries: u32 = 60,
        /// Loads in flight. 32: with as many MSHRs, fewer would leave some of them unused.
        load_queue: u32 = 32,
        /// Stores that have not retired. 16, as in the A15's successor A57.
        store_queue: u32 = 16,
        /// Lines that retired stores wait for: those to a line share an entry. 16, as the A57 has
        /// entries.
        store_buffer: u32 = 16,
        /// Entries behind the oldest whose lines are asked for while it waits. 4: without any, each line
        /// of a stream of stores would cost a whole miss, which no core of this size lets happen; with
        /// more, a stream would take MSHRs from loads.
        stores_ahead: u32 = 4,
        /// Integer units. 3: the papers give widths and no counts of units, so that simple operations
        /// are limited by the width.
        alus: u32 = 3,
        /// Multipliers. 1, as in the A15.
        multipliers: u32 = 1,
        /// Floating-point pipelines. 2, as in the A15.
        fp_units: u32 = 2,
        /// Accesses that begin in a cycle, and stores that leave, together: the L1's ports (Table 2).
        #[serde(skip)]
        memory_ports: u32 = 2,
        /// Address generation. 1: with the L1 it gives 4 cycles from load to use, as in the A15.
        address_cycles: u32 = 1,
        /// Tag and data of the L1 (Table 1, Table 2).
        #[serde(skip)]
        l1_cycles: u32 = 3,
        /// From a store in the queue to a load that gets its data. As an L1 hit, so that the loads that
        /// depend need not know.
        forward_cycles: u32 = 3,
        /// From the arrival of a line to the value of a load that waited for it: it reads the L1 again.
        refill_cycles: u32 = 3,
        /// Multiplication, pipelined. This and all below: 64-bit forms in LLVM's model of the A57.
        mul_cycles: u32 = 5,
        /// Division, one at a time.
        div_cycles: u32 = 35,
        /// Floating-point addition, pipelined.
        fp_add_cycles: u32 = 5,
        /// Floating-point multiplication, pipelined.
        fp_mul_cycles: u32 = 5,
        /// Fused multiply-add, pipelined.
        fma_cycles: u32 = 9,
        /// Floating-point division and square root, one at a time.
        fp_div_cycles: u32 = 32,
        /// Conversions between formats, and between integers and floating point.
        convert_cycles: u32 = 5,
        /// Moves between the register files.
        move_cycles: u32 = 3,
        /// Capacity of the L1 for instructions (32 KB, Table 1, Table 2).
        icache_bytes: u64 = 32 << 10,
        /// Its ways (2, Table 1).
        icache_ways: u32 = 2,
        /// Whether branches and jumps are predicted. Otherwise the next instruction in memory is fetched
        /// behind each of them, and those that go elsewhere cost as much as a wrong prediction.
        predicts: bool = true,
        /// Bits of history of the gshare predictor, and of the number of its counters. 12: 1 KB of
        /// counters, about what cores of this size spend.
        history_bits: u32 = 12,
        /// Entries of the table of targets of indirect jumps; a power of two. 256, as in the A15.
        indirect_targets: u32 = 256,
        /// Entries of the return stack. 48 in the A15; 16 is as good for programs in C and cheaper to
        /// look at when the core decides whether it repeats itself.
        return_stack: u32 = 16,
        /// Whether a core that repeats itself sleeps until a line that it reads goes away. Changes the
        /// time that a simulation takes, and nothing else.
        sleeps: bool = true,
    }
}

impl CpuSpec {
    /// Checks that a core can be built so.
    ///
    /// # Errors
    /// The first setting with which it cannot, as a machine file names it, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        self.check_counts()?;
        self.check_queues()?;
        for (name, cycles) in self.latencies() {
            within(name, cycles, 1..=MAX_LATENCY)?;
        }
        self.check_icache()?;
        for (name, entries) in [
            ("cpu.indirect_targets", self.indirect_targets),
            ("cpu.return_stack", self.return_stack),
        ] {
            if !entries.is_power_of_two() {
                return Err((name, format!("makes {entries} entries, must make a power of two")));
            }
        }
        within("cpu.indirect_targets", self.indirect_targets, 1..=MAX_TARGETS)?;
        within("cpu.return_stack", self.return_stack, 1..=64)?;
        within("cpu.history_bits", self.history_bits, 1..=20)
    }

    fn check_counts(&self) -> Result<(), (&'static str, String)> {
        for (name, width) in [
            ("cpu.fetch_width", self.fetch_width),
            ("cpu.dispatch_width", self.dispatch_width),
            ("cpu.issue_width", self.issue_width),
            ("cpu.retire_width", self.retire_width),
        ] {
            within(name, width, 1..=MAX_WINDOW / 2)?;
        }
        for (name, count) in [
            ("cpu.alus", self.alus),
            ("cpu.multipliers", self.multipliers),
            ("cpu.fp_units", self.fp_units),
            ("l1.ports", self.memory_ports),
            ("cpu.load_queue", self.load_queue),
            ("cpu.icache_ways", self.icache_ways),
        ] {
            within(name, count, 1..=u32::MAX)?;
        }
        within("cpu.rob_entries", self.rob_entries, 1..=MAX_WINDOW)
    }

    fn check_icache(&self) -> Result<(), (&'static str, String)> {
        let (bytes, ways) = (self.icache_bytes, self.icache_ways);
        let set_bytes = BLOCK_BYTES * u64::from(ways);
        if bytes.is_multiple_of(set_bytes) && (bytes / set_bytes).is_power_of_two() {
            return Ok(());
        }
        let problem = format!(
            "is {bytes}, must be a power of two times {set_bytes}: sets of cpu.icache_ways = {ways} lines of \
             {BLOCK_BYTES} bytes"
        );
        Err(("cpu.icache_bytes", problem))
    }

    fn check_queues(&self) -> Result<(), (&'static str, String)> {
        within("cpu.store_queue", self.store_queue, 1..=super::store_queue::ENTRIES)?;
        within("cpu.store_buffer", self.store_buffer, 1..=super::store_buffer::MOST)?;
        let (entries, most) = (self.front_end_entries(), super::front::ENTRIES);
        if entries > most {
            let problem = format!(
                "is {}, and cpu.fetch_width * (cpu.front_end_cycles + 2) is {entries}, must be at most {most}",
                self.front_end_cycles
            );
            return Err(("cpu.front_end_cycles", problem));
        }
        Ok(())
    }

    /// Instructions between fetch and dispatch.
    pub(super) fn front_end_entries(&self) -> u32 {
        self.fetch_width.saturating_mul(self.front_end_cycles.saturating_add(2))
    }

    fn latencies(&self) -> [(&'static str, u32); 13] {
        [
            ("cpu.front_end_cycles", self.front_end_cycles),
            ("cpu.address_cycles", self.address_cycles),
            ("l1.latency_cycles", self.l1_cycles),
            ("cpu.forward_cycles", self.forward_cycles),
            ("cpu.refill_cycles", self.refill_cycles),
            ("cpu.mul_cycles", self.mul_cycles),
            ("cpu.div_cycles", self.div_cycles),
            ("cpu.fp_add_cycles", self.fp_add_cycles),
            ("cpu.fp_mul_cycles", self.fp_mul_cycles),
            ("cpu.fma_cycles", self.fma_cycles),
            ("cpu.fp_div_cycles", self.fp_div_cycles),
            ("cpu.convert_cycles", self.convert_cycles),
            ("cpu.move_cycles", self.move_cycles),
        ]
    }
}

fn within(
    name: &'static str,
    value: u32,
    range: RangeInclusive<u32>,
) -> Result<(), (&'static str, String)> {
    let (least, most) = (range.start(), range.end());
    match range.contains(&value) {
        true => Ok(()),
        false if *most == u32::MAX => Err((name, format!("is {value}, must be at least {least}"))),
        false => Err((name, format!("is {value}, must be {least} to {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_of_the_papers_can_be_built_and_written_out() {
        let spec = CpuSpec::default();
        assert_eq!(spec.check(), Ok(()));
        let text = toml::to_string(&spec).expect("it has no odd values");
        assert_eq!(toml::from_str(&text), Ok(spec));
        assert!(toml::from_str::<CpuSpec>("rob_entires = 60").is_err(), "misspelt");
    }

    #[test]
    fn what_can_not_be_built_is_refused() {
        let default = CpuSpec::default;
        let wrong = [
            CpuSpec { rob_entries: MAX_WINDOW + 1, ..default() },
            CpuSpec { rob_entries: 0, ..default() },
            CpuSpec { alus: 0, ..default() },
            CpuSpec { retire_width: 33, ..default() },
            CpuSpec { store_queue: u32::MAX, ..default() },
            CpuSpec { front_end_cycles: u32::MAX, ..default() },
            CpuSpec { div_cycles: MAX_LATENCY + 1, ..default() },
            CpuSpec { l1_cycles: 0, ..default() },
            CpuSpec { store_buffer: 65, ..default() },
            CpuSpec { store_buffer: 0, ..default() },
            CpuSpec { fetch_width: 10, ..default() },
            CpuSpec { icache_ways: 3, ..default() },
            CpuSpec { icache_bytes: 255, ..default() },
            CpuSpec { indirect_targets: 2 * MAX_TARGETS, ..default() },
            CpuSpec { icache_ways: 0, ..default() },
            CpuSpec { return_stack: 24, ..default() },
            CpuSpec { history_bits: 21, ..default() },
        ];
        for spec in wrong {
            assert!(spec.check().is_err(), "{spec:?}");
        }
    }
}
