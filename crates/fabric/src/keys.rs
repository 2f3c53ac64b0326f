//! Keys of nodes (X25519, as Noise uses them), and their text: a prefix, then key and checksum in hexadecimal digits.

use std::fmt::{self, Write};
use std::str::FromStr;

use sha2::{Digest, Sha256};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;

const KEY_BYTES: usize = 32;

/// Bytes by which a mistyped key is noticed.
const CHECKSUM_BYTES: usize = 4;

const PUBLIC: &str = "rackmem-key:";
const PRIVATE: &str = "rackmem-private-key:";

/// Hexadecimal digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 16;

/// A scalar whose product with a point of small order is zero, as that of every private key.
const ANY_SCALAR: [u8; KEY_BYTES] = [8; KEY_BYTES];

/// The key by which others know a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

/// The key by which a node proves who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey([u8; KEY_BYTES]);

/// Reason why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Neither prefix is there.
    #[error(
        "it is no key: `rackmem key new FILE` makes one, whose public key begins with '{PUBLIC}'"
    )]
    NoKey,
    /// A private key where a public one belongs.
    #[error(
        "it is a private key, which nobody but its node may know: write the public one, which `rackmem key show FILE` \
         prints, and make the node a new key if others have seen this one"
    )]
    Private,
    /// A public key where a private one belongs.
    #[error("it is a public key: the file has to be the one that `rackmem key new FILE` has made")]
    Public,
    /// The checksum differs.
    #[error(
        "it is mistyped or cut off: copy the whole text from '{PUBLIC}' on, as `rackmem key show FILE` prints it"
    )]
    Mistyped,
    /// A point of small order, with which every exchange gives zero.
    #[error("it is a key that nobody owns, by which anybody could pass for its node")]
    Weak,
}

fn checksum(prefix: &str, key: &[u8; KEY_BYTES]) -> [u8; CHECKSUM_BYTES] {
    let digest = Sha256::new().chain_update(prefix).chain_update(key).finalize();
    *digest.first_chunk().expect("a digest is longer")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn to_text(prefix: &str, key: &[u8; KEY_BYTES]) -> String {
    format!("{prefix}{}{}", hex(key), hex(&checksum(prefix, key)))
}

fn from_text(text: &str, prefix: &str) -> Result<[u8; KEY_BYTES], KeyError> {
    let digits = text.strip_prefix(prefix).ok_or(KeyError::NoKey)?.as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    let bytes = bytes.filter(|bytes| bytes.len() == KEY_BYTES + CHECKSUM_BYTES);
    let bytes = bytes.ok_or(KeyError::Mistyped)?;
    let key = *bytes.first_chunk().expect("its length was checked");
    if bytes[KEY_BYTES..] == checksum(prefix, &key) { Ok(key) } else { Err(KeyError::Mistyped) }
}

fn curve() -> Box<dyn Dh> {
    DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("the feature is on")
}

impl PublicKey {
    /// A key as a peer has shown it.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<PublicKey> {
        bytes.try_into().ok().map(PublicKey)
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The beginning of the key, for people.
    pub fn fingerprint(&self) -> String {
        hex(&self.0[..FINGERPRINT_DIGITS / 2])
    }

    fn is_weak(&self) -> bool {
        let mut dh = curve();
        dh.set(&ANY_SCALAR);
        let mut product = [0; KEY_BYTES];
        dh.dh(&self.0, &mut product).is_err() || product == [0; KEY_BYTES]
    }
}

impl PrivateKey {
    /// A key whose bytes are random.
    pub fn from_random(bytes: [u8; KEY_BYTES]) -> PrivateKey {
        PrivateKey(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> PublicKey {
        let mut dh = curve();
        dh.set(&self.0);
        PublicKey::from_bytes(dh.pubkey()).expect("a point of the curve")
    }

    /// Its text, which is a secret.
    pub fn to_text(&self) -> String {
        to_text(PRIVATE, &self.0)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        if text.trim().starts_with(PRIVATE) {
            return Err(KeyError::Private);
        }
        let key = PublicKey(from_text(text.trim(), PUBLIC)?);
        if key.is_weak() { Err(KeyError::Weak) } else { Ok(key) }
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PrivateKey, KeyError> {
        if text.trim().starts_with(PUBLIC) {
            return Err(KeyError::Public);
        }
        from_text(text.trim(), PRIVATE).map(PrivateKey)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_text(PUBLIC, &self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PrivateKey {
        PrivateKey::from_random([0x5a; KEY_BYTES])
    }

    /// RFC 7748, 6.1: Alice's keys.
    #[test]
    fn the_curve_is_that_of_the_rfc() {
        let private = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2,
            0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5,
            0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let public = PrivateKey(private).public();
        let expected = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        assert_eq!(hex(public.bytes()), expected);
        assert_eq!(public.fingerprint(), expected[..FINGERPRINT_DIGITS]);
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        let (private, public) = (key(), key().public());
        assert_eq!(private.to_text().parse(), Ok(private.clone()));
        assert_eq!(format!(" {public}\n").parse(), Ok(public));
        let text = public.to_string();
        assert!(text.starts_with("rackmem-key:") && text.is_ascii() && text.len() == 84, "{text}");
        assert_eq!(format!("{private:?}"), "PrivateKey");
    }

    /// Each digit that is wrong, missing or swapped with the next.
    #[test]
    fn a_mistyped_key_is_noticed() {
        let text = key().public().to_string();
        for at in PUBLIC.len()..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            let wrong = String::from_utf8(bytes).unwrap();
            assert_eq!(wrong.parse::<PublicKey>(), Err(KeyError::Mistyped), "{wrong}");
            assert_eq!(text[..at].parse::<PublicKey>(), Err(KeyError::Mistyped));
        }
        assert_eq!(format!("{text}00").parse::<PublicKey>(), Err(KeyError::Mistyped));
        assert_eq!(format!("{}é", &text[..82]).parse::<PublicKey>(), Err(KeyError::Mistyped));
    }

    #[test]
    fn keys_in_each_others_place_are_named() {
        assert_eq!(key().to_text().parse::<PublicKey>(), Err(KeyError::Private));
        assert_eq!(key().public().to_string().parse::<PrivateKey>(), Err(KeyError::Public));
        let renamed = key().to_text().replace(PRIVATE, PUBLIC);
        assert_eq!(renamed.parse::<PublicKey>(), Err(KeyError::Mistyped));
        for text in ["", "lab", "rackmem-key", "RACKMEM-KEY:00"] {
            assert_eq!(text.parse::<PublicKey>(), Err(KeyError::NoKey), "{text}");
            assert_eq!(text.parse::<PrivateKey>(), Err(KeyError::NoKey), "{text}");
        }
    }

    /// With 0 or 1 as a node's key, everybody would know the result of its exchanges.
    #[test]
    fn keys_of_small_order_are_refused() {
        for low in [0, 1] {
            let mut point = [0; KEY_BYTES];
            point[0] = low;
            let text = PublicKey(point).to_string();
            assert_eq!(text.parse::<PublicKey>(), Err(KeyError::Weak), "{low}");
        }
    }
}
