//! Plain words for the types in parsers' messages.

const TYPES: [(&str, &str); 8] = [
    ("expected f64", "expected a number"),
    ("expected usize", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected u32", "expected a whole number"),
    ("expected u16", "expected a whole number"),
    ("expected i64", "expected a whole number"),
    ("expected a boolean", "expected true or false"),
    ("expected a sequence", "expected a list"),
];
/// The text before the name of a Rampmeter type in a parser's message.
const OWN_TYPE: &str = "expected struct ";

/// Replaces the names of Rust types in a parser's message.
///
/// ```
/// use rampmeter_protocol::plain_types::in_plain_types;
/// let text = in_plain_types("invalid type: string \"five\", expected f64");
/// assert_eq!(text, "invalid type: string \"five\", expected a number");
/// let text = in_plain_types("invalid type: integer `5`, expected struct Price at line 1");
/// assert_eq!(text, "invalid type: integer `5`, expected values by name at line 1");
/// ```
#[must_use]
pub fn in_plain_types(message: &str) -> String {
    let text = TYPES.iter().fold(message.to_owned(), |text, (of_parser, plain)| text.replace(of_parser, plain));
    match text.split_once(OWN_TYPE) {
        Some((before, after)) => {
            format!("{before}expected values by name{}", after.trim_start_matches(char::is_alphanumeric))
        }
        None => text,
    }
}
