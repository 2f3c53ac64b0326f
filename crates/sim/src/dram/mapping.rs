use crate::block::BLOCK_BYTES;
use crate::dram::spec::{DramMapping, DramSpec};

/// The place of a block in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the rank, below `dram.ranks`.
    pub rank: usize,
    /// Bank, counted over all ranks.
    pub bank: usize,
    /// Row of the bank. Not limited: a chip's address space has gaps, and only what is used is there.
    pub row: u64,
}

/// The fields of a block's number.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    bank: Field,
    rank: Field,
    row_shift: u32,
    bank_bits: u32,
    /// Bits of a bank group's number: the lowest of the bank's field, so that neighbours there are in
    /// different groups.
    group_bits: u32,
    hashed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    shift: u32,
    mask: u64,
}

impl Field {
    #[inline]
    fn of(self, line: u64) -> u64 {
        line >> self.shift & self.mask
    }
}

impl Mapping {
    /// The mapping of a machine's channels.
    pub fn new(spec: &DramSpec) -> Mapping {
        let columns = (spec.row_bytes / BLOCK_BYTES).trailing_zeros();
        let (ranks, banks) = (spec.ranks.trailing_zeros(), spec.banks.trailing_zeros());
        // First bits of bank and rank.
        let (bank, rank) = match spec.mapping {
            DramMapping::RowRankBankColumn => (columns, columns + banks),
            DramMapping::RowBankRankColumn => (columns + ranks, columns),
            DramMapping::RowColumnRankBank => (0, banks),
            DramMapping::RowColumnBankRank => (ranks, 0),
        };
        Mapping {
            bank: Field { shift: bank, mask: u64::from(spec.banks) - 1 },
            rank: Field { shift: rank, mask: u64::from(spec.ranks) - 1 },
            row_shift: columns + ranks + banks,
            bank_bits: banks,
            group_bits: spec.bank_groups.trailing_zeros(),
            hashed: spec.bank_hash,
        }
    }

    /// The place of a block; blocks of a channel are numbered without gaps.
    #[inline]
    pub fn place(&self, line: u64) -> Place {
        let row = line >> self.row_shift;
        let mut bank = self.bank.of(line);
        if self.hashed {
            bank ^= row & self.bank.mask;
        }
        // Banks are numbered group by group.
        let group = bank & ((1 << self.group_bits) - 1);
        bank = bank >> self.group_bits | group << (self.bank_bits - self.group_bits);
        let rank = self.rank.of(line);
        Place { rank: rank as usize, bank: (rank << self.bank_bits | bank) as usize, row }
    }
}
