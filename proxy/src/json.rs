//! JSON that is read as it passes, in bounded memory.

use crate::models::models;

/// The bytes of a text that are kept. The rest is only counted.
const MAX_KEPT: usize = 1024;
/// The bytes of a key that are kept in a path.
const MAX_KEY: usize = 64;
/// Depth from which a text is not taken for JSON. No API nests as deep.
const MAX_DEPTH: usize = 128;

/// Reads JSON in pieces of any length, and reports each value and key at its end. It does not check the grammar, which
/// is up to the recipient. Outside of objects and arrays it skips everything, such as the `data:` of an event.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    levels: Vec<Level>,
    /// The keys that lead to the current value. Arrays add none.
    path: String,
    state: State,
    text: Text,
    has_value: bool,
    is_too_deep: bool,
}

#[derive(Debug)]
pub(crate) struct Seen<'a> {
    /// The keys that lead there, joined by dots.
    pub(crate) path: &'a str,
    /// The number of objects and arrays around it.
    pub(crate) depth: usize,
    pub(crate) in_array: bool,
    pub(crate) value: Value<'a>,
}

/// A value other than an object or an array, or a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Key(&'a Text),
    Text(&'a Text),
    Number(f64),
    /// `true`, `false` or `null`.
    Word,
}

/// Receives what a [`Scanner`] has read.
pub(crate) type See<'a> = &'a mut dyn FnMut(&Seen<'_>);

/// What is known of a text, however long it is.
#[derive(Debug, Default)]
pub(crate) struct Text {
    start: Vec<u8>,
    pub(crate) bytes: usize,
    /// Its tokens, in twelfths of one.
    pub(crate) twelfths: u64,
    pub(crate) hash: u64,
    /// Whether it has a character that Base64 lacks.
    has_words: bool,
}

#[derive(Debug)]
struct Level {
    is_object: bool,
    expects_key: bool,
    /// The length of the path to this object or array.
    path: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    Number,
    Word,
    Text,
    Escaped,
    /// Within `\u….`: the digits left, and the number so far.
    Unicode(u8, u32),
}

impl Text {
    pub(crate) fn start(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.start)
    }

    pub(crate) fn is_base64(&self) -> bool {
        !self.has_words
    }

    fn push(&mut self, byte: u8) {
        self.bytes += 1;
        self.twelfths += u64::from(models().twelfths_of(byte));
        self.hash = hashed(self.hash, u64::from(byte));
        self.has_words |= !(byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte));
        if self.start.len() < MAX_KEPT {
            self.start.push(byte);
        }
    }

    fn push_char(&mut self, code: u32) {
        let mut bytes = [0; 4];
        // A character of two surrogates counts as two.
        let encoded = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut bytes);
        encoded.bytes().for_each(|byte| self.push(byte));
    }

    fn clear(&mut self) {
        self.start.clear();
        (self.bytes, self.twelfths, self.hash, self.has_words) = (0, 0, 0, false);
    }
}

/// Extends the hash `former` by `next` (FNV-1a).
pub(crate) fn hashed(former: u64, next: u64) -> u64 {
    (former ^ next).wrapping_add(1).wrapping_mul(0x0000_0100_0000_01b3)
}

impl Scanner {
    pub(crate) fn read(&mut self, piece: &[u8], see: See<'_>) {
        for byte in piece {
            match self.state {
                State::Text => self.in_text(*byte, see),
                State::Escaped => self.escaped(*byte),
                State::Unicode(left, code) => self.in_unicode(*byte, left, code),
                State::Number if byte.is_ascii_digit() || b"+-.eE".contains(byte) => self.text.push(*byte),
                State::Word if byte.is_ascii_alphabetic() => {}
                State::Number | State::Word => {
                    self.end_plain(see);
                    self.between(*byte);
                }
                State::Between => self.between(*byte),
            }
        }
    }

    /// Forgets what is open, as at the end of an event of a stream.
    pub(crate) fn reset(&mut self) {
        *self = Scanner::default();
    }

    /// Whether everything opened was closed, and there was something.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_value && self.levels.is_empty() && !self.is_too_deep
    }

    fn between(&mut self, byte: u8) {
        match byte {
            _ if self.is_too_deep => {}
            b'{' | b'[' => self.open(byte == b'{'),
            _ if self.levels.is_empty() => {}
            b'}' | b']' => drop(self.levels.pop()),
            b',' => self.next(),
            b'"' => self.begin(State::Text),
            b'-' | b'0'..=b'9' => {
                self.begin(State::Number);
                self.text.push(byte);
            }
            b'a'..=b'z' => self.begin(State::Word),
            _ => {}
        }
    }

    fn begin(&mut self, state: State) {
        self.text.clear();
        self.state = state;
    }

    fn open(&mut self, is_object: bool) {
        if self.levels.is_empty() {
            self.path.clear();
        }
        (self.has_value, self.is_too_deep) = (true, self.levels.len() >= MAX_DEPTH);
        self.levels.push(Level { is_object, expects_key: is_object, path: self.path.len() });
    }

    fn next(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.expects_key = level.is_object;
            self.path.truncate(level.path);
        }
    }

    fn in_text(&mut self, byte: u8, see: See<'_>) {
        match byte {
            b'"' => self.end_text(see),
            b'\\' => self.state = State::Escaped,
            byte => self.text.push(byte),
        }
    }

    fn escaped(&mut self, byte: u8) {
        self.state = State::Text;
        match byte {
            b'u' => self.state = State::Unicode(4, 0),
            b'n' | b't' | b'r' | b'b' | b'f' => self.text.push(b' '),
            byte => self.text.push(byte),
        }
    }

    fn in_unicode(&mut self, byte: u8, left: u8, code: u32) {
        let code = code * 16 + char::from(byte).to_digit(16).unwrap_or(0);
        self.state = State::Unicode(left - 1, code);
        if left == 1 {
            self.text.push_char(code);
            self.state = State::Text;
        }
    }

    fn end_text(&mut self, see: See<'_>) {
        self.state = State::Between;
        let Some(level) = self.levels.last_mut() else { return };
        let is_key = std::mem::take(&mut level.expects_key);
        if is_key {
            self.path.truncate(level.path);
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.extend(self.text.start().chars().take(MAX_KEY));
        }
        self.show(if is_key { Value::Key(&self.text) } else { Value::Text(&self.text) }, see);
    }

    fn end_plain(&mut self, see: See<'_>) {
        let was = std::mem::take(&mut self.state);
        let number = (was == State::Number).then(|| self.text.start().parse().ok()).flatten();
        self.show(number.map_or(Value::Word, Value::Number), see);
    }

    fn show(&self, value: Value<'_>, see: See<'_>) {
        let in_array = self.levels.last().is_some_and(|level| !level.is_object);
        see(&Seen { path: &self.path, depth: self.levels.len(), in_array, value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen of a text in pieces of this length, and whether it is whole.
    fn seen(text: &str, length: usize) -> (String, bool) {
        let (mut scanner, mut notes) = (Scanner::default(), String::new());
        let mut note = |seen: &Seen<'_>| {
            let shown = match seen.value {
                Value::Key(_) => return,
                Value::Text(text) => text.start().into_owned(),
                Value::Number(number) => number.to_string(),
                Value::Word => "word".to_owned(),
            };
            notes += &format!("{}{}={shown} ", seen.path, if seen.in_array { "[]" } else { "" });
        };
        text.as_bytes().chunks(length).for_each(|piece| scanner.read(piece, &mut note));
        (notes.trim_end().to_owned(), scanner.is_whole())
    }

    #[test]
    fn values_are_seen_at_their_paths_in_pieces_of_any_length() {
        #[rustfmt::skip]
        let table = [
            (r#"{"a":{"b":[1,{"c":"x"},-2.5e1],"d":null},"e":true}"#,   "a.b[]=1 a.b.c=x a.b[]=-25 a.d=word e=word",   true),
            (r#"[{"a":1},{"a":"\"\\\u00e4\u4e2d\ud83d\ude00"}]"#,       "a=1 a=\"\\ä中\u{fffd}\u{fffd}",                            true),
            ("data: {\"a\" : \"}\"}\n",                                 "a=}",                                          true),
            (r#"{"a":"x"#,                                              "",                                             false),
            ("no JSON, but \"a\": 1",                                   "",                                             false),
            ("}{\"a\":7}",                                              "a=7",                                          true),
        ];
        for (text, expected, is_whole) in table {
            for length in [1, 2, 7, 1000] {
                assert_eq!(seen(text, length), (expected.to_owned(), is_whole), "{text} in pieces of {length}");
            }
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_text() {
        let (mut scanner, mut notes) = (Scanner::default(), |_: &Seen<'_>| {});
        let key = "k".repeat(10 * MAX_KEY);
        scanner.read(format!("{{\"{key}\":\"").as_bytes(), &mut notes);
        (0..100).for_each(|_| scanner.read(&[b'a'; 10_000], &mut notes));
        assert_eq!((scanner.text.bytes, scanner.text.start.len(), scanner.path.len()), (1_000_000, MAX_KEPT, MAX_KEY));
        scanner.read("\"}".as_bytes(), &mut notes);
        assert!(scanner.is_whole());
        (0..1000).for_each(|_| scanner.read(br#"{"key":1} "#, &mut notes));
        assert!(scanner.path.len() <= MAX_KEY, "one text behind the other");
        scanner.read("[".repeat(1_000_000).as_bytes(), &mut notes);
        assert!(scanner.levels.len() <= MAX_DEPTH + 1 && !scanner.is_whole());
    }
}
