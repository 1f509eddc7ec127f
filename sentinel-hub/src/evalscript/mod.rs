//! Reads what an evalscript's `setup()` returns, without running the script.
//!
//! Sentinel Hub's evalscripts are JavaScript, and nearly all of them return a literal from `setup()`. Only
//! literals are read: strings, numbers, arrays, objects, spread, members of `SampleType` and `Mosaicking`,
//! and names of earlier constants with such values. Anything else is refused, so that a value is never wrong.
//!
//! A constant counts only if nothing can have changed it when `setup()` runs. All top-level code runs before that, and
//! so do all functions if one of their names occurs there. In such code every mention of the constant has to be part of
//! a literal that is read. Other functions, such as `evaluatePixel`, run later and may do anything.
//!
//! Time and memory are linear in a script's length. Constants are read again for each mention, bounded by [`MAX_READ`].

mod outline;
#[cfg(test)]
mod tests;
mod tokens;

use outline::{Mentions, Outline};
use serde_json::{Map, Value};
use tokens::{Fallible, Kind, Tokens};

/// Longest script, in bytes. Scripts that contain a model have some hundred thousand.
const MAX_SOURCE: usize = 1024 * 1024;

/// Most bytes of literals that `setup()` may return. Two hundred bands and outputs have 10 KiB.
const MAX_READ: usize = 64 * 1024;

/// Deepest nesting of values, and of constants that refer to constants.
const MAX_DEPTH: u32 = 64;

/// Reads what the script's `setup()` returns. Names that do not affect the price become null.
pub(crate) fn setup(source: &str) -> Fallible<Value> {
    if source.len() > MAX_SOURCE {
        return Err(format!("a script has at most {MAX_SOURCE} bytes"));
    }
    let tokens = Tokens::of(source)?;
    let outline = Outline::of(&tokens);
    let Some(name) = outline.declaration("setup") else { return tokens.refuse(0, "there is no function `setup`") };
    let (place, read) = ((true, false), Mentions::from([("setup", [name].into())]));
    let mut reader = Reader { tokens: &tokens, outline, at: name + 1, depth: 0, left: MAX_READ, place, read };
    let value = reader.setup()?;
    reader.outline.check(&reader.read).map(|()| value)
}

struct Reader<'a> {
    tokens: &'a Tokens<'a>,
    outline: Outline<'a>,
    at: usize,
    depth: u32,
    left: usize,
    /// Whether the value affects a price, and whether it is inside `output`.
    place: (bool, bool),
    /// What was read of the top level.
    read: Mentions<'a>,
}

impl<'a> Reader<'a> {
    fn unexpected<T>(&self, at: usize) -> Fallible<T> {
        let shown: String = self.tokens.text(at).chars().take(20).collect();
        self.tokens.refuse(at, &format!("`{shown}` is no part of a literal that `setup` returns"))
    }

    fn next(&mut self) -> Fallible<usize> {
        let at = self.at;
        let Some(left) = self.left.checked_sub(self.tokens.text(at).len()) else {
            return self.tokens.refuse(at, &format!("`setup` returns more than {MAX_READ} bytes"));
        };
        (self.left, self.at) = (left, at + 1);
        Ok(at)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let is_next = self.tokens.is(self.at, mark);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, mark: &str) -> Fallible<()> {
        if self.eat(mark) { Ok(()) } else { self.unexpected(self.at) }
    }

    /// Checks that the value is not part of a longer expression.
    fn end(&self) -> Fallible<()> {
        if self.tokens.ends_expression(self.at) { Ok(()) } else { self.unexpected(self.at) }
    }

    /// Reads the result of the function, from behind its name.
    fn setup(&mut self) -> Fallible<Value> {
        let is_value = self.eat("=");
        let is_arrow = is_value && self.tokens.word(self.at) != "function";
        self.at += usize::from(is_value && !is_arrow);
        for mark in ["(", ")", "=>"].into_iter().take(if is_arrow { 3 } else { 2 }) {
            self.expect(mark)?;
        }
        let value = if is_arrow && !self.tokens.is(self.at, "{") { self.value()? } else { self.body()? };
        if is_value { self.end().map(|()| value) } else { Ok(value) }
    }

    fn body(&mut self) -> Fallible<Value> {
        self.expect("{")?;
        let at = self.next()?;
        if self.tokens.word(at) != "return" || self.tokens.is_first(self.at) {
            return self.unexpected(at);
        }
        let value = self.value()?;
        self.eat(";");
        self.expect("}").map(|()| value)
    }

    fn value(&mut self) -> Fallible<Value> {
        let at = self.next()?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.tokens.refuse(at, &format!("values are nested more than {MAX_DEPTH} deep"));
        }
        let value = match (self.tokens.kind(at), self.tokens.text(at)) {
            (Kind::Mark, "[") => Value::Array(self.array()?),
            (Kind::Mark, "{") => Value::Object(self.object()?),
            (Kind::Mark, "(") => self.value().and_then(|value| self.expect(")").map(|()| value))?,
            (Kind::Mark, "-") => self.next().and_then(|number| self.number(number, "-"))?,
            (Kind::Word, number) if number.starts_with(|c: char| c.is_ascii_digit()) => self.number(at, "")?,
            (Kind::Word, word) => self.word(word, at)?,
            (Kind::Text | Kind::Mark, _) => Value::String(self.text(at)?),
        };
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Fallible<Vec<Value>> {
        let mut elements = Vec::new();
        while !self.eat("]") {
            let at = self.at;
            match (self.eat("..."), self.value()?) {
                (true, Value::Array(spread)) => elements.extend(spread),
                (true, _) => return self.unexpected(at),
                (false, element) => elements.push(element),
            }
            self.separate("]")?;
        }
        Ok(elements)
    }

    /// Reads a comma, which only a closing mark may replace.
    fn separate(&mut self, close: &str) -> Fallible<()> {
        if self.tokens.is(self.at, close) { Ok(()) } else { self.expect(",") }
    }

    fn object(&mut self) -> Fallible<Map<String, Value>> {
        let mut object = Map::new();
        while !self.eat("}") {
            let at = self.at;
            if self.eat("...") {
                let Value::Object(spread) = self.value()? else { return self.unexpected(at) };
                object.extend(spread);
            } else {
                self.property(&mut object)?;
            }
            self.separate("}")?;
        }
        Ok(object)
    }

    fn property(&mut self, object: &mut Map<String, Value>) -> Fallible<()> {
        let at = self.next()?;
        let word = self.tokens.word(at);
        let key = if word.is_empty() { self.text(at)? } else { word.to_owned() };
        let has_value = self.eat(":");
        if key == "__proto__" || (!has_value && word.is_empty()) {
            return self.unexpected(at);
        }
        self.at -= usize::from(!has_value);
        let outside = self.place;
        self.place = match (key.as_str(), outside.1) {
            ("output", _) => (true, true),
            ("input" | "mosaicking" | "datasource" | "id" | "sampleType", in_output) => (true, in_output),
            (key, in_output) => (key == "bands" && !in_output, in_output),
        };
        object.insert(key, self.value()?);
        self.place = outside;
        Ok(())
    }

    /// Reads the number at `at`, if it is also valid JSON.
    fn number(&self, at: usize, sign: &str) -> Fallible<Value> {
        let number = serde_json::from_str(&format!("{sign}{}", self.tokens.text(at)));
        number.map(Value::Number).or_else(|_| self.unexpected(at))
    }

    /// Reads a string, or a template without expressions, that has no escapes.
    fn text(&self, at: usize) -> Fallible<String> {
        let text = self.tokens.text(at);
        let content = ['"', '\'', '`'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
        let content = content.filter(|content| !content.contains(['\\', '\r']));
        content.map_or_else(|| self.unexpected(at), |content| Ok(content.to_owned()))
    }

    fn word(&mut self, word: &'a str, at: usize) -> Fallible<Value> {
        match (word, self.outline.declaration(word)) {
            ("true" | "false", _) => Ok(Value::Bool(word == "true")),
            ("null" | "undefined" | "NaN", _) => Ok(Value::Null),
            _ if !self.place.0 => {
                // Reading a name that does not matter, such as `bands.length`, has no effect.
                while self.eat(".") {
                    self.next()?;
                }
                Ok(Value::Null)
            }
            ("SampleType" | "Mosaicking", _) => {
                self.expect(".")?;
                self.read.entry(word).or_default().insert(at);
                self.next().map(|member| Value::from(self.tokens.word(member)))
            }
            (_, Some(name)) if name < at => {
                self.read.entry(word).or_default().extend([name, at]);
                self.constant(name)
            }
            _ => self.unexpected(at),
        }
    }

    fn constant(&mut self, name: usize) -> Fallible<Value> {
        let back = std::mem::replace(&mut self.at, name + 1);
        self.expect("=")?;
        let value = self.value()?;
        self.end()?;
        self.at = back;
        Ok(value)
    }
}
