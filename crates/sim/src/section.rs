//! Sections of machine files, and values that stand there as text.

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

/// Lets a file have a value as the text that its `FromStr` takes and its `Display` makes.
macro_rules! text_form {
    ($type:ty, $error:ty) => {
        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(text: String) -> Result<$type, $error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    };
}
pub(crate) use text_form;
