//! The smallest client that speaks all of the protocol that the server does.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rackmem_blk::request::Request;
use rackmem_blk::wire::{
    OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
    chunk, command, option, reply,
};

use super::rig::Rig;

/// Longest wait for the server; a test that needs it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    pub socket: UnixStream,
    pub size_bytes: u64,
    pub flags: u16,
    structured: bool,
    cookie: u64,
}

/// An option's bytes.
pub fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Data of `GO` and `INFO`.
pub fn go_data(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
pub fn context_data(name: &str, query: &str) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(1_u32.to_be_bytes());
    data.extend((query.len() as u32).to_be_bytes());
    data.extend(query.as_bytes());
    data
}

/// A request's bytes without its payload.
pub fn request_bytes(request: &Request) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(request.flags.to_be_bytes());
    bytes.extend(request.command.to_be_bytes());
    bytes.extend(request.cookie.to_be_bytes());
    bytes.extend(request.offset.to_be_bytes());
    bytes.extend(request.length.to_be_bytes());
    bytes
}

impl Client {
    /// Connects and reads the greeting.
    pub fn connect(rig: &Rig) -> Client {
        let socket = UnixStream::connect(rig.path()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client { socket, size_bytes: 0, flags: 0, structured: false, cookie: 0 };
        let greeting: [u8; 18] = client.bytes();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3]);
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects and negotiates everything.
    pub fn ready(rig: &Rig, structured: bool) -> Client {
        let mut client = Client::connect(rig);
        client.structured = structured;
        if structured {
            assert_eq!(client.ask(option::STRUCTURED_REPLY, &[]).0, reply::ACK);
            let data = context_data("memory", "base:allocation");
            let (kind, data) = client.ask(option::SET_META_CONTEXT, &data);
            assert_eq!((kind, &data[4..]), (reply::META_CONTEXT, &b"base:allocation"[..]));
            assert_eq!(client.option_reply().1, reply::ACK);
        }
        client.go("memory");
        client
    }

    pub fn go(&mut self, name: &str) {
        let (kind, data) = self.ask(option::GO, &go_data(name, &[]));
        assert_eq!(kind, reply::INFO, "{}", String::from_utf8_lossy(&data));
        self.size_bytes = u64::from_be_bytes(data[2..10].try_into().unwrap());
        self.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
        assert_eq!(self.option_reply().1, reply::ACK);
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn vec(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes())
    }

    /// Option, kind and data of the next reply to an option.
    pub fn option_reply(&mut self) -> (u32, u32, Vec<u8>) {
        assert_eq!(self.u64(), OPTION_REPLY_MAGIC);
        let (option, kind, length) = (self.u32(), self.u32(), self.u32());
        (option, kind, self.vec(length as usize))
    }

    /// Sends an option; kind and data of the first reply.
    pub fn ask(&mut self, number: u32, data: &[u8]) -> (u32, Vec<u8>) {
        self.send(&option_bytes(number, data));
        let (option, kind, data) = self.option_reply();
        assert_eq!(option, number);
        (kind, data)
    }

    /// Sends a request; returns it with its cookie.
    pub fn post(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> Request {
        self.cookie += 1;
        let request = Request { flags, command, cookie: self.cookie, offset, length };
        self.send(&request_bytes(&request));
        request
    }

    /// The reply to this request, which must be the next one: the bytes read, or the error.
    pub fn reply(&mut self, request: &Request) -> Result<Vec<u8>, u32> {
        let reads = [command::READ, command::BLOCK_STATUS].contains(&request.command);
        let magic = self.u32();
        if magic == SIMPLE_REPLY_MAGIC {
            assert!(!(self.structured && reads), "a simple reply to a structured read");
            let (error, cookie) = (self.u32(), self.u64());
            assert_eq!(cookie, request.cookie);
            let wanted = if reads && error == 0 { request.length as usize } else { 0 };
            return if error == 0 { Ok(self.vec(wanted)) } else { Err(error) };
        }
        assert_eq!(magic, STRUCTURED_REPLY_MAGIC);
        assert!(self.structured);
        let (flags, kind, cookie, length) = (self.u16(), self.u16(), self.u64(), self.u32());
        assert_eq!((flags, cookie), (chunk::FLAG_DONE, request.cookie));
        match kind {
            chunk::OFFSET_DATA => {
                assert_eq!(self.u64(), request.offset);
                assert_eq!(length, request.length + 8);
                Ok(self.vec(request.length as usize))
            }
            chunk::ERROR => {
                let error = self.u32();
                let text = self.u16();
                assert_eq!(length, 6 + u32::from(text));
                self.vec(usize::from(text));
                Err(error)
            }
            _ => Ok(self.vec(length as usize)),
        }
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        let request = self.post(command::READ, 0, offset, length);
        self.reply(&request)
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), u32> {
        let request = self.post(command::WRITE, 0, offset, bytes.len() as u32);
        self.send(bytes);
        self.reply(&request).map(drop)
    }

    pub fn command(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, u32> {
        let request = self.post(command, flags, offset, length);
        self.reply(&request)
    }

    /// Whether the server has hung up; bytes that it still sends are read over.
    pub fn is_hung_up(&mut self) -> bool {
        match io::copy(&mut self.socket, &mut io::sink()) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}
