//! Sections of machine files.

/// Makes a struct of settings: each with the value that it has if a file does not name it. A setting without a
/// value has its type's default.
macro_rules! section {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty $(= $default:expr)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::section::section!(@value $($default)?),)* }
            }
        }
    };
    (@value $default:expr) => { $default };
    (@value) => { Default::default() };
}
pub(crate) use section;
