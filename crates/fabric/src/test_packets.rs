//! Packets for tests of links.

use rackmem_abi::{Header, Op, Status};
use rackmem_rmc::Sink;

use crate::{Lane, Link};

pub(crate) fn pump(link: &mut impl Link) {
    link.transmit();
    link.receive();
}

pub(crate) fn header(op: Op, length: u16, tid: u32) -> Header {
    Header { dst_nid: 1, src_nid: 0, op, ctx_id: 0, length, offset: 0, tid }
}

pub(crate) fn fill(byte: u8) -> impl FnOnce(Sink<'_>) -> Result<(), Status> {
    move |out: Sink<'_>| {
        let bytes = vec![byte; out.len()];
        out.put(&bytes);
        Ok(())
    }
}

pub(crate) fn payload(link: &impl Link, lane: Lane) -> Vec<u8> {
    let source = link.payload(lane);
    let mut bytes = vec![0; source.len()];
    source.copy_to(&mut bytes);
    bytes
}
