//! The required content of memory after each operation.

use rackmem_abi::{LINE_BYTES, MAX_LENGTH, Op, Status};
use rackmem_sim::engine::Random;

/// Bytes of a context segment; no multiple of a page or a line.
pub const SEGMENT: u64 = 50_001;
/// Bytes of the local buffers of a context: whole pages, with nothing mapped behind them.
pub const BUFFERS: u64 = 81_920;

/// Pages of the local buffers that are not there, or only to be read.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    pub page: u64,
    pub hole: u64,
    pub read_only: u64,
}

impl Pages {
    fn allow(&self, from: u64, bytes: u64, is_store: bool) -> bool {
        let touches = |page: u64| {
            let (start, end) = (page * self.page, (page + 1) * self.page);
            from < end && from + bytes > start
        };
        let is_there = from + bytes <= BUFFERS && !touches(self.hole);
        bytes == 0 || is_there && !(is_store && touches(self.read_only))
    }
}

/// Memory of which the oracle keeps a copy: of a node, a context, its segment or its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub node: usize,
    pub ctx: usize,
    pub is_segment: bool,
}

/// An operation under way.
#[derive(Clone, Debug)]
pub struct Operation {
    pub node: usize,
    pub ctx: usize,
    pub op: Op,
    pub dst: u16,
    pub offset: u64,
    pub length: u32,
    /// Offset of the local buffer.
    pub buffer: u64,
    /// Statuses with which it may end.
    pub statuses: Vec<Status>,
    claims: Vec<(Region, std::ops::Range<u64>, bool)>,
}

pub struct Oracle {
    /// By node and context: segment and buffers.
    pub bytes: Vec<Vec<[Vec<u8>; 2]>>,
    /// Ranges of operations under way, and whether they are written.
    claims: Vec<(Region, std::ops::Range<u64>, bool)>,
    pub pages: Pages,
    /// Contexts that have segments.
    pub joined: Vec<bool>,
}

impl Oracle {
    pub fn new(nodes: usize, joined: Vec<bool>, pages: Pages, random: &mut Random) -> Oracle {
        let mut fill =
            |bytes: u64| -> Vec<u8> { (0..bytes).map(|_| random.bits() as u8).collect() };
        let mut context = || [fill(BUFFERS), fill(SEGMENT)];
        let bytes = (0..nodes).map(|_| joined.iter().map(|_| context()).collect()).collect();
        Oracle { bytes, claims: Vec::new(), pages, joined }
    }

    pub fn region(&self, region: Region) -> &Vec<u8> {
        &self.bytes[region.node][region.ctx][usize::from(region.is_segment)]
    }

    fn region_mut(&mut self, region: Region) -> &mut Vec<u8> {
        &mut self.bytes[region.node][region.ctx][usize::from(region.is_segment)]
    }

    /// A random operation that no other one under way disturbs, if one is found.
    pub fn invent(&mut self, node: usize, ctx: usize, random: &mut Random) -> Option<Operation> {
        let nodes = self.bytes.len() as u64;
        let op = match random.below(12) {
            0..5 => Op::Read,
            5..9 => Op::Write,
            9 => Op::FetchAdd,
            10 => Op::CompareSwap,
            _ => [Op::Nop, Op::Notify][random.below(2) as usize],
        };
        let length = match (op, random.below(20)) {
            (Op::FetchAdd | Op::CompareSwap, 0) => 4,
            (Op::FetchAdd | Op::CompareSwap, _) => 8,
            (_, 0) => 0,
            (_, 1..3) => random.below(9000),
            (_, 3..8) => random.below(700),
            (_, 8) => 8192,
            _ => 1 + random.below(128),
        };
        let mut offset = random.below(SEGMENT - length);
        let mut buffer = random.below(BUFFERS - length.max(16));
        if random.below(3) == 0 {
            (offset, buffer) = (offset / 64 * 64, buffer / 64 * 64);
        }
        if op.is_atomic() && random.below(20) > 0 {
            offset = offset / 8 * 8;
        }
        let mut dst = random.below(nodes) as u16;
        match random.below(60) {
            0 => dst = nodes as u16 + random.below(9) as u16,
            1 => offset = SEGMENT - random.below(100).min(SEGMENT),
            2 => offset = (1 << 40) - 1 - random.below(200),
            3 => buffer = BUFFERS - 1 - random.below(200),
            4 => buffer = (1 << 44) + random.below(1 << 30),
            _ => {}
        }
        let length = (length as u32).min(MAX_LENGTH);
        let mut operation = Operation {
            node,
            ctx,
            op,
            dst,
            offset,
            length,
            buffer,
            statuses: Vec::new(),
            claims: Vec::new(),
        };
        operation.statuses = self.statuses(&operation);
        operation.claims = self.claims_of(&operation);
        let disturbs = |(region, range, writes): &(Region, std::ops::Range<u64>, bool)| {
            let meets = |(other, others, other_writes): &(Region, std::ops::Range<u64>, bool)| {
                let overlap = range.start < others.end && others.start < range.end;
                region == other && overlap && (*writes || *other_writes)
            };
            self.claims.iter().any(meets)
        };
        // An operation whose own buffer and target meet has no defined result.
        let own = |one: usize, other: usize| {
            let (a, b) = (&operation.claims[one], &operation.claims[other]);
            a.0 == b.0 && a.1.start < b.1.end && b.1.start < a.1.end
        };
        let count = operation.claims.len();
        let meets_itself = (0..count).any(|one| (0..one).any(|other| own(one, other)));
        if operation.claims.iter().any(disturbs) || meets_itself {
            return None;
        }
        self.claims.extend(operation.claims.iter().cloned());
        Some(operation)
    }

    /// The statuses of an operation: success, or the error of any of its lines that cannot be done.
    fn statuses(&self, operation: &Operation) -> Vec<Status> {
        let Operation { op, dst, offset, length, buffer, ctx, .. } = *operation;
        if usize::from(dst) >= self.bytes.len() {
            return vec![Status::NoNode];
        }
        if op.is_atomic() && (length != 8 || offset % 8 != 0) {
            return vec![Status::MisalignedAtomic];
        }
        let visits = matches!(op, Op::Nop | Op::Notify);
        let (offset, length) = if visits { (0, 0) } else { (offset, u64::from(length)) };
        if offset + length > 1 << 40 {
            return vec![Status::OutOfSegment];
        }
        let mut bad = Vec::new();
        let mut at = 0;
        loop {
            let start = offset + at;
            let bytes = (LINE_BYTES as u64 - start % LINE_BYTES as u64).min(length - at);
            let operands = op.operand_bytes(bytes as usize) as u64;
            let results = op.result_bytes(bytes as usize) as u64;
            let remote = match self.joined[ctx] {
                false => Status::NoContext,
                true if start + bytes > SEGMENT => Status::OutOfSegment,
                true => Status::Ok,
            };
            // In the order in which a line meets them.
            let status = if !self.pages.allow(buffer + at, operands, false) {
                Status::BadLocalBuffer
            } else if remote != Status::Ok {
                remote
            } else if !self.pages.allow(buffer + at, results, true) {
                Status::BadLocalBuffer
            } else {
                Status::Ok
            };
            if status != Status::Ok {
                bad.push(status);
            }
            at += bytes;
            if at >= length {
                break;
            }
        }
        bad.sort_unstable();
        bad.dedup();
        if bad.is_empty() { vec![Status::Ok] } else { bad }
    }

    fn claims_of(&self, operation: &Operation) -> Vec<(Region, std::ops::Range<u64>, bool)> {
        let Operation { node, ctx, op, dst, offset, length, buffer, .. } = *operation;
        let mut claims = Vec::new();
        let length = length as usize;
        let (operands, results) = (op.operand_bytes(length), op.result_bytes(length));
        let local = Region { node, ctx, is_segment: false };
        if operands.max(results) > 0 && buffer < BUFFERS {
            let end = (buffer + operands.max(results) as u64).min(BUFFERS);
            claims.push((local, buffer..end, results > 0));
        }
        let remote = Region { node: dst.into(), ctx, is_segment: true };
        let exists = usize::from(dst) < self.bytes.len() && !matches!(op, Op::Nop | Op::Notify);
        if exists && offset < SEGMENT {
            claims.push((remote, offset..(offset + length as u64).min(SEGMENT), op.modifies()));
        }
        claims
    }

    /// The operation has ended: the content of memory is checked, byte by byte, and kept.
    pub fn finish(
        &mut self,
        operation: &Operation,
        status: Status,
        read: impl Fn(Region, u64, usize) -> Vec<u8>,
    ) {
        assert!(operation.statuses.contains(&status), "{status:?} for {operation:?}");
        for claim in &operation.claims {
            let at = self.claims.iter().position(|other| other == claim).unwrap();
            self.claims.swap_remove(at);
        }
        let new = self.result(operation);
        for (region, range, writes) in &operation.claims {
            if !writes {
                continue;
            }
            let pages = self.pages;
            let readable = |at: &u64| region.is_segment || pages.allow(*at, 1, false);
            for at in range.clone().filter(readable) {
                let found = read(*region, at, 1)[0];
                let old = self.region(*region)[at as usize];
                let expected = new.iter().find(|(where_, start, bytes)| {
                    where_ == region && (*start..start + bytes.len() as u64).contains(&at)
                });
                let new = expected.map_or(old, |(_, start, bytes)| bytes[(at - start) as usize]);
                let fits = found == new || (status != Status::Ok && found == old);
                assert!(fits, "{found:#x} at {at} of {region:?}, not {new:#x}: {operation:?}");
                self.region_mut(*region)[at as usize] = found;
            }
        }
    }

    /// The changes of an operation that ends well.
    fn result(&self, operation: &Operation) -> Vec<(Region, u64, Vec<u8>)> {
        let Operation { node, ctx, op, dst, offset, length, buffer, .. } = *operation;
        let local = Region { node, ctx, is_segment: false };
        let remote = Region { node: dst.into(), ctx, is_segment: true };
        let copy = |from: Region, at: u64, bytes: usize| -> Vec<u8> {
            let all = self.region(from);
            let at = (at as usize).min(all.len());
            all[at..(at + bytes).min(all.len())].to_vec()
        };
        if operation.claims.len() < 2 {
            return Vec::new();
        }
        let has_operands = self.pages.allow(buffer, op.operand_bytes(8) as u64, false);
        match op {
            Op::Read => vec![(local, buffer, copy(remote, offset, length as usize))],
            Op::Write => vec![(remote, offset, copy(local, buffer, length as usize))],
            // Also if the old value finds no place at home: the word has changed then.
            Op::FetchAdd | Op::CompareSwap
                if length == 8 && offset % 8 == 0 && offset + 8 <= SEGMENT && has_operands =>
            {
                let word = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
                let old = word(copy(remote, offset, 8));
                let operand = |index: u64| word(copy(local, buffer + index * 8, 8));
                let new = match op {
                    Op::FetchAdd => old.wrapping_add(operand(0)),
                    _ if old == operand(0) => operand(1),
                    _ => old,
                };
                let bytes = |value: u64| value.to_le_bytes().to_vec();
                vec![(local, buffer, bytes(old)), (remote, offset, bytes(new))]
            }
            _ => Vec::new(),
        }
    }
}
