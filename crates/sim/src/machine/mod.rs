//! Machine files: the parts of a machine ([`spec`]), and the way from a file to a machine.
//!
//! A file inherits from the one that its `base` names and overrides it; settings of the command
//! line override both. Whatever is wrong is said in one line with its place: unknown keys, wrong
//! types and machines that cannot be built ([`validate`]).

mod builtin;
mod error;
mod experiment;
mod extension;
mod geometry;
mod kind;
mod layer;
mod load;
mod nearest;
mod needs;
mod open;
mod rack;
mod schema;
pub mod spec;
mod validate;
mod validate_extension;
mod validate_rack;
mod validate_window;

pub use builtin::{BUILT_IN, BuiltIn, DEVICES};
pub use error::{MachineError, Origin};
pub use kind::Kind;
pub use load::{asked, load, load_device, load_for, load_text, resolved, unread};
pub use nearest::nearest;
pub use needs::Use;
pub use open::{Open, open};
pub use schema::Override;
pub use spec::Machine;
pub use validate::{Invalid, validate};
pub(crate) use validate_window::MAX_DESCRIPTORS;

#[cfg(test)]
mod tests;
