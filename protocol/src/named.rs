//! Enums whose variants have names.

/// Declares an enum of named variants with [`Display`](std::fmt::Display). One after a `;` is not in `ALL` or `named`.
///
/// ```
/// rampmeter_protocol::named! {
///     /// A colour.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Colour {
///         /// Like blood.
///         Red = "red",
///         /// Like the sky.
///         Blue = "blue",
///     }
/// }
/// assert_eq!((Colour::ALL.map(Colour::as_str), Colour::named("blue")), (["red", "blue"], Some(Colour::Blue)));
/// assert_eq!(Colour::Red.to_string(), "red");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$outer:meta])*
        $vis:vis enum $enum:ident {
            $($(#[$inner:meta])* $variant:ident = $name:literal,)+
            $(; $(#[$unlisted_meta:meta])* $unlisted:ident = $unlisted_name:literal,)?
        }
    ) => {
        $(#[$outer])*
        $vis enum $enum {
            $($(#[$inner])* $variant,)+
            $($(#[$unlisted_meta])* $unlisted,)?
        }

        impl $enum {
            /// All listed variants, in the order of their declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the variant's name in texts.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    $(Self::$unlisted => $unlisted_name,)?
                }
            }

            /// Returns the listed variant with this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == name)
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
