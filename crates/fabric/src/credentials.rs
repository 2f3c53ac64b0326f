//! Proofs of a node in a handshake, its own and those that it expects of its peers.

use snow::{Builder, HandshakeState};

use crate::keys::{PrivateKey, PublicKey};

/// A shared secret, as the file of the rack has it.
pub type Psk = [u8; 32];

/// Own and expected proofs of a node.
#[derive(Clone)]
pub enum Credentials {
    /// A secret that all nodes have: whoever knows it can be any of them.
    Secret(Psk),
    /// A key for each node.
    Keys {
        /// This node's own.
        own: PrivateKey,
        /// Those of all nodes, by their numbers.
        peers: Vec<PublicKey>,
        /// A secret that is asked for as well.
        secret: Option<Psk>,
    },
    /// A random key for one connection, which a daemon has announced to the other end.
    Guest {
        /// Number of the announcement.
        admission: u64,
        /// Random bytes that the announcement has brought.
        key: Psk,
    },
}

/// Kind of the proofs that a node asks for. Both ends of a handshake need the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shared secret.
    Secret = 0,
    /// A key for each node.
    Keys = 1,
    /// A key for each node, and a shared secret.
    Both = 2,
    /// A random key for one connection.
    Guest = 3,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Secret, Kind::Keys, Kind::Both, Kind::Guest];

    /// Its handshake in Noise, and the place of the secret there.
    const fn pattern(self) -> (&'static str, u8) {
        match self {
            Kind::Secret | Kind::Guest => ("Noise_NNpsk0_25519_AESGCM_SHA256", 0),
            Kind::Keys => ("Noise_IK_25519_AESGCM_SHA256", 0),
            Kind::Both => ("Noise_IKpsk1_25519_AESGCM_SHA256", 1),
        }
    }

    /// Words for people.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Secret => "a secret",
            Kind::Keys => "keys",
            Kind::Both => "keys and a secret",
            Kind::Guest => "an invitation",
        }
    }
}

impl Credentials {
    /// Kind of its proofs.
    pub fn kind(&self) -> Kind {
        match self {
            Credentials::Secret(_) => Kind::Secret,
            Credentials::Keys { secret: None, .. } => Kind::Keys,
            Credentials::Keys { secret: Some(_), .. } => Kind::Both,
            Credentials::Guest { .. } => Kind::Guest,
        }
    }

    /// The node whose key these credentials have; `None`: they do not tell nodes apart.
    pub fn own_node(&self) -> Option<u16> {
        let Credentials::Keys { own, .. } = self else { return None };
        self.node_of(Some(own.public().bytes()))
    }

    /// Whether there is a key of this node, where there are keys.
    pub(crate) fn knows(&self, node: u16) -> bool {
        !matches!(self, Credentials::Keys { peers, .. } if usize::from(node) >= peers.len())
    }

    /// The node that has shown this key in a handshake.
    pub(crate) fn node_of(&self, key: Option<&[u8]>) -> Option<u16> {
        let Credentials::Keys { peers, .. } = self else { return None };
        let key = PublicKey::from_bytes(key?)?;
        peers.iter().position(|peer| *peer == key).map(|nid| nid as u16)
    }

    /// The end that calls a node.
    ///
    /// # Panics
    /// There are keys, and none for this node.
    pub(crate) fn caller(&self, prologue: &[u8], node: u16) -> HandshakeState {
        let builder = self.builder(prologue);
        let builder = match self {
            Credentials::Secret(_) | Credentials::Guest { .. } => Ok(builder),
            Credentials::Keys { peers, .. } => {
                builder.remote_public_key(peers[usize::from(node)].bytes())
            }
        };
        builder.and_then(Builder::build_initiator).expect("the builder has all it needs")
    }

    /// The end that is called.
    pub(crate) fn callee(&self, prologue: &[u8]) -> HandshakeState {
        self.builder(prologue).build_responder().expect("the builder has all it needs")
    }

    fn builder<'a>(&'a self, prologue: &'a [u8]) -> Builder<'a> {
        let (pattern, place) = self.kind().pattern();
        let builder = Builder::new(pattern.parse().expect("a pattern of Noise"));
        let builder = builder.prologue(prologue).expect("one prologue");
        let (own, secret) = match self {
            Credentials::Secret(secret) | Credentials::Guest { key: secret, .. } => {
                (None, Some(secret))
            }
            Credentials::Keys { own, secret, .. } => (Some(own), secret.as_ref()),
        };
        let builder = match own {
            Some(own) => builder.local_private_key(own.bytes()).expect("one key"),
            None => builder,
        };
        match secret {
            Some(secret) => builder.psk(place, secret).expect("the pattern has one secret"),
            None => builder,
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({:?})", self.kind())
    }
}
