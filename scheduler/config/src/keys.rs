//! The keys of the configuration as a table: name, parser, default, and documentation.
//!
//! [`keys!`] makes three things of one list: the struct that serde reads, a [`Table`] for the
//! [commented default file](mod@super::default_file), and `fill`, which puts values into settings.

use std::fmt::Write;
use toml::Spanned;

#[derive(Debug)]
pub(super) struct Table {
    pub(super) about: &'static [&'static str],
    pub(super) keys: &'static [Key],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// The name in Rust, which is `r#match` where the file has `match`.
    pub(super) rust_name: &'static str,
    pub(super) doc: &'static [&'static str],
    pub(super) shown: Shown,
}

/// The value that the commented file shows for a key, as TOML.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown {
    /// The value that counts if the key is left out.
    Default(&'static str),
    /// One possible value. There is no default.
    Example(&'static str),
    /// The value that a first configuration has.
    Given(&'static str),
    /// The key is a table with keys of its own.
    Table,
}

impl Key {
    /// Returns the name in the file.
    pub(super) fn name(&self) -> &'static str {
        self.rust_name.trim_start_matches("r#")
    }

    /// Writes the key into the commented file, with `mark` before a given value. Writes no table.
    pub(super) fn write(&self, file: &mut String, mark: &str, beneath: &str) {
        let (mark, value) = match self.shown {
            Shown::Default(value) | Shown::Example(value) => ("#", value),
            Shown::Given(value) => (mark, value),
            Shown::Table => return,
        };
        self.doc.iter().for_each(|line| line_of(file, format_args!("#{line}")));
        file.push_str(beneath);
        line_of(file, format_args!("{mark}{} = {value}\n", self.name()));
    }

    /// Formats the key as an item of a list in another key's documentation.
    pub(super) fn item(&self) -> String {
        let (Shown::Default(value) | Shown::Example(value) | Shown::Given(value)) = self.shown else {
            return String::new();
        };
        let mut item = format!("# * `{} = {value}`\n", self.name());
        self.doc.iter().for_each(|line| line_of(&mut item, format_args!("#  {line}")));
        item
    }
}

pub(super) fn line_of(file: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(file, "{line}").expect("a string takes every text");
}

/// Converts the value of a key to the type of the settings.
pub(super) fn value<T: Clone + Into<U>, U>(given: &Spanned<T>) -> U {
    given.get_ref().clone().into()
}

/// Declares a table of the file. Its documentation is the head, a blank line, and what the
/// commented file has above it. A row is
///
/// ```text
/// /// The documentation of the key.
/// name: Option<Spanned<Parser>> = Default("value") => field,
/// ```
///
/// The type parses the value and reports its faults. `=> field` is for values that depend on no other key: the
/// generated `fill` puts them into that field of the settings, whose type follows `fills`.
macro_rules! keys {
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:ident),+)]
        #[serde($($outer:tt)+)]
        $vis:vis struct $table:ident fills $settings:ty {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde($($serde:tt)+)])?
                $key_vis:vis $key:ident: $type:ty = $shown:ident $(($value:literal))? $(=> $($field:ident).+)?,
            )+
        }
    ) => {
        $crate::keys::keys! {
            $(#[doc = $about])+
            #[derive($($derive),+)]
            #[serde($($outer)+)]
            $vis struct $table {
                $(
                    $(#[doc = $doc])+
                    $(#[serde($($serde)+)])?
                    $key_vis $key: $type = $shown $(($value))?,
                )+
            }
        }

        impl $table {
            /// Puts the given values into `settings`, and leaves all other fields as they are.
            pub(crate) fn fill(&self, settings: &mut $settings) {
                $($(
                    if let Some(given) = &self.$key {
                        settings.$($field).+ = $crate::keys::value(given);
                    }
                )?)+
            }
        }
    };
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:ident),+)]
        #[serde($($outer:tt)+)]
        $vis:vis struct $table:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde($($serde:tt)+)])?
                $key_vis:vis $key:ident: $type:ty = $shown:ident $(($value:literal))?,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive($($derive),+)]
        #[serde($($outer)+)]
        #[allow(rustdoc::broken_intra_doc_links, reason = "comments of the default file name tables, such as [[token]]")]
        $vis struct $table {
            $(
                $(#[doc = $doc])+
                $(#[serde($($serde)+)])?
                $key_vis $key: $type,
            )+
        }

        impl $table {
            pub(crate) const TABLE: $crate::keys::Table = $crate::keys::Table {
                about: &[$($about),+],
                keys: &[
                    $($crate::keys::Key {
                        rust_name: stringify!($key),
                        doc: &[$($doc),+],
                        shown: $crate::keys::Shown::$shown $(($value))?,
                    },)+
                ],
            };
        }
    };
}

/// Declares the words that a key takes, in kebab-case.
macro_rules! words {
    ($(#[$outer:meta])* $vis:vis enum $table:ident { $($word:ident),+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        $vis enum $table { $($word),+ }
    };
}

pub(super) use {keys, words};
