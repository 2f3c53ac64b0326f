//! Packets of the two lanes.

use rackmem_abi::{HEADER_BYTES, LINE_BYTES, Op};

use crate::machine::Machine;
use crate::machine::spec::TrafficOp;
use crate::noc::{Class, Packet};

/// Lanes, which are virtual networks of the routers.
pub(super) const LANES: usize = 2;
/// The lane of requests; it waits for that of the replies.
pub(super) const REQUEST: u8 = 0;
/// The lane of replies; it waits for nothing, since RCPs always take them.
pub(super) const REPLY: u8 = 1;

/// A line of a request: the content of its packets besides their header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Place of the request in the source's ITT.
    pub slot: u16,
    /// Bytes of the line that are meant, 1 to 64.
    pub length: u8,
}

impl Line {
    #[inline]
    pub fn tag(self) -> u32 {
        u32::from(self.slot) | u32::from(self.length) << 16
    }

    #[inline]
    pub fn of(packet: &Packet) -> Line {
        Line { slot: packet.tag as u16, length: (packet.tag >> 16) as u8 }
    }
}

/// The division of requests into lines, and of lines into packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    op: Op,
    link_bytes: usize,
    transfer_bytes: u32,
}

impl Format {
    pub fn new(machine: &Machine) -> Format {
        let op = match machine.traffic.op {
            TrafficOp::Read => Op::Read,
            TrafficOp::Write => Op::Write,
        };
        let transfer_bytes = machine.workload.transfer_bytes;
        Format { op, link_bytes: machine.rack.link_bytes as usize, transfer_bytes }
    }

    /// Lines of a request; its buffer begins with a line.
    pub fn lines(&self) -> u32 {
        self.transfer_bytes.div_ceil(LINE_BYTES as u32)
    }

    /// Bytes of the line of a request that has so many left, this one included.
    #[inline]
    pub fn length(&self, lines_left: u32) -> u8 {
        let last = (self.transfer_bytes - 1) % LINE_BYTES as u32 + 1;
        if lines_left == 1 { last as u8 } else { LINE_BYTES as u8 }
    }

    /// Flits of a packet of this lane for a line.
    #[inline]
    pub fn flits(&self, lane: u8, length: u8) -> u8 {
        let payload = match lane {
            REQUEST => self.op.operand_bytes(length.into()),
            _ => self.op.result_bytes(length.into()),
        };
        (HEADER_BYTES + payload).div_ceil(self.link_bytes) as u8
    }

    /// The packet for a line on a lane; its tag names the line's slot and length.
    #[inline]
    pub fn packet(&self, lane: u8, src: u16, dst: u16, line: Line) -> Packet {
        Packet {
            src,
            dst,
            vnet: lane,
            flits: self.flits(lane, line.length),
            class: Class::Other,
            flow: 0,
            tag: line.tag(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(op: TrafficOp, transfer_bytes: u32) -> Format {
        let mut machine = Machine::default();
        machine.traffic.op = op;
        machine.workload.transfer_bytes = transfer_bytes;
        Format::new(&machine)
    }

    #[test]
    fn data_travels_with_replies_of_reads_and_requests_of_writes() {
        let (read, write) = (format(TrafficOp::Read, 64), format(TrafficOp::Write, 64));
        assert_eq!((read.flits(REQUEST, 64), read.flits(REPLY, 64)), (1, 5));
        assert_eq!((write.flits(REQUEST, 64), write.flits(REPLY, 64)), (5, 1));
    }

    #[test]
    fn the_last_line_may_be_short() {
        let format = format(TrafficOp::Read, 200);
        let lengths: Vec<u8> = (1..=format.lines()).map(|left| format.length(left)).collect();
        assert_eq!(lengths, [8, 64, 64, 64]);
        assert_eq!(format.flits(REPLY, 8), 2);
    }

    #[test]
    fn a_line_survives_its_way() {
        let line = Line { slot: 16_383, length: 64 };
        let packet = format(TrafficOp::Read, 64).packet(REPLY, 1, 2, line);
        assert_eq!(Line::of(&packet), line);
    }
}
