//! Options of the handshake: the data of each, and its reply.

use super::super::export::{MAX_PAYLOAD_BYTES, PREFERRED_BLOCK_BYTES};
use super::super::wire::{MAX_STRING_BYTES, info, option, reply, u16_at, u32_at};
use super::{BASE_ALLOCATION, BASE_ALLOCATION_ID, Negotiation, Step, TlsMode, end, say};

/// Zeros that end the handshake by `EXPORT_NAME` unless both sides do without.
const EXPORT_NAME_ZEROS: usize = 124;

/// Data of an option, taken from the front.
struct Data<'a>(&'a [u8]);

/// Refusal of data that cannot be understood: the reply's kind and text.
type Refusal = (u32, &'static [u8]);

const CUT_SHORT: Refusal = (reply::ERR_INVALID, b"the data does not have the length it should");
const NO_SUCH_EXPORT: Refusal = (reply::ERR_UNKNOWN, b"there is no such export");

impl<'a> Data<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let (front, rest) = self.0.split_at_checked(length).ok_or(CUT_SHORT)?;
        self.0 = rest;
        Ok(front)
    }

    fn number(&mut self) -> Result<u32, Refusal> {
        Ok(u32_at(self.bytes(4)?, 0))
    }

    fn string(&mut self) -> Result<&'a [u8], Refusal> {
        let length = self.number()? as usize;
        if length > MAX_STRING_BYTES {
            return Err((reply::ERR_TOO_BIG, b"the string is too long"));
        }
        self.bytes(length)
    }

    fn end(self) -> Result<(), Refusal> {
        if self.0.is_empty() { Ok(()) } else { Err(CUT_SHORT) }
    }
}

impl Negotiation<'_> {
    pub(super) fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let refusal: Refusal = if !data.is_empty() {
            (reply::ERR_INVALID, b"it has no data")
        } else if self.is_secure {
            (reply::ERR_INVALID, b"TLS is on already")
        } else if self.tls == TlsMode::Off {
            (reply::ERR_POLICY, b"this server has no TLS")
        } else {
            say(out, option::STARTTLS, reply::ACK, &[]);
            return Step::StartTls;
        };
        say(out, option::STARTTLS, refusal.0, refusal.1);
        Step::More
    }

    pub(super) fn export_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Step {
        if !self.export.is_called(name) {
            let name = String::from_utf8_lossy(&name[..name.len().min(MAX_STRING_BYTES)]);
            return end(format!("there is no export {name:?}"));
        }
        out.extend(self.export.size_bytes.to_be_bytes());
        out.extend(self.export.flags(self.agreed.structured).to_be_bytes());
        if !self.no_zeroes {
            out.extend([0; EXPORT_NAME_ZEROS]);
        }
        Step::Transmission(self.agreed)
    }

    pub(super) fn list(&self, data: &[u8], out: &mut Vec<u8>) {
        if !data.is_empty() {
            return say(out, option::LIST, reply::ERR_INVALID, b"it has no data");
        }
        let name = self.export.name.as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        let entry = [&length, name, self.export.description.as_bytes()].concat();
        say(out, option::LIST, reply::SERVER, &entry);
        say(out, option::LIST, reply::ACK, &[]);
    }

    /// Answers `GO` or `INFO`; says whether with success.
    pub(super) fn go(&self, number: u32, data: &[u8], out: &mut Vec<u8>) -> bool {
        match self.information(number, data, out) {
            Ok(()) => {
                say(out, number, reply::ACK, &[]);
                true
            }
            Err((kind, text)) => {
                say(out, number, kind, text);
                false
            }
        }
    }

    fn information(&self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut data = Data(data);
        let name = data.string()?;
        let kinds = u16_at(data.bytes(2)?, 0);
        let wanted = data.bytes(usize::from(kinds) * 2)?;
        data.end()?;
        if !self.export.is_called(name) {
            return Err(NO_SUCH_EXPORT);
        }
        let size = self.export.size_bytes.to_be_bytes();
        let flags = self.export.flags(self.agreed.structured).to_be_bytes();
        inform(out, number, info::EXPORT, &[&size, &flags]);
        let is_wanted = |kind: u16| wanted.chunks_exact(2).any(|bytes| u16_at(bytes, 0) == kind);
        if is_wanted(info::NAME) {
            inform(out, number, info::NAME, &[self.export.name.as_bytes()]);
        }
        if is_wanted(info::DESCRIPTION) {
            inform(out, number, info::DESCRIPTION, &[self.export.description.as_bytes()]);
        }
        if is_wanted(info::BLOCK_SIZE) {
            let [least, preferred, most] =
                [1, PREFERRED_BLOCK_BYTES, MAX_PAYLOAD_BYTES].map(u32::to_be_bytes);
            inform(out, number, info::BLOCK_SIZE, &[&least, &preferred, &most]);
        }
        Ok(())
    }

    pub(super) fn contexts(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) {
        let is_set = number == option::SET_META_CONTEXT;
        if is_set {
            self.agreed.base_allocation = false;
        }
        match self.is_base_allocation_meant(is_set, data) {
            Ok(is_meant) => {
                self.agreed.base_allocation |= is_set && is_meant;
                if is_meant {
                    let id = BASE_ALLOCATION_ID.to_be_bytes();
                    let entry = [&id[..], BASE_ALLOCATION.as_bytes()].concat();
                    say(out, number, reply::META_CONTEXT, &entry);
                }
                say(out, number, reply::ACK, &[]);
            }
            Err((kind, text)) => say(out, number, kind, text),
        }
    }

    fn is_base_allocation_meant(&self, is_set: bool, data: &[u8]) -> Result<bool, Refusal> {
        let mut data = Data(data);
        let name = data.string()?;
        let queries = data.number()?;
        // A list that asks for nothing in particular gets all.
        let mut is_meant = !is_set && queries == 0;
        for _ in 0..queries {
            let query = data.string()?;
            is_meant |= query == BASE_ALLOCATION.as_bytes() || !is_set && query == b"base:";
        }
        data.end()?;
        if !self.agreed.structured {
            return Err((reply::ERR_INVALID, b"structured replies come first"));
        }
        if !self.export.is_called(name) {
            return Err(NO_SUCH_EXPORT);
        }
        Ok(is_meant)
    }
}

fn inform(out: &mut Vec<u8>, option: u32, kind: u16, parts: &[&[u8]]) {
    let data = [&kind.to_be_bytes()[..], &parts.concat()].concat();
    say(out, option, reply::INFO, &data);
}
