//! The normal form of a path, by which limits and routes match it.

use std::fmt::Write;

/// Bytes of a segment, besides letters and digits, that need no escape: `pchar` of RFC 3986 without `;`.
const PLAIN: &[u8] = b"-._~!$&'()*+,=:@";

/// A path that servers interpret differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmbiguousPath {
    /// Some servers decode it before they split segments, or end the path there.
    #[error("the path has an escape of a slash, a backslash or a control character, or a backslash")]
    Separator,
    /// Some servers take it literally.
    #[error("the path has a `%` that begins no escape")]
    Escape,
    /// Some servers drop the parameters first, others the segment before.
    #[error("the path has a dot segment with parameters, or one behind an empty segment")]
    DotSegment,
}

/// Returns the normal form of `path`, common to all spellings that servers treat alike: unnecessary escapes are
/// decoded, others are in upper case, parameters (`;…`) are cut off, dot segments are resolved, and repeated
/// slashes are one. A path without a leading slash stays as it is.
///
/// # Errors
/// If servers interpret the path differently.
pub fn normalised(path: &str) -> Result<String, AmbiguousPath> {
    let Some(relative) = path.strip_prefix('/') else { return Ok(path.to_owned()) };
    let (mut kept, mut is_open) = (Vec::new(), false);
    for written in relative.split('/') {
        let (name, parameters) = written.split_once(';').map_or((written, None), |(name, rest)| (name, Some(rest)));
        let segment = spelled(name)?;
        is_open = matches!(&*segment, "" | "." | "..");
        match (&*segment, kept.last()) {
            ("." | "..", _) if parameters.is_some() => return Err(AmbiguousPath::DotSegment),
            ("..", Some(before)) if String::is_empty(before) => return Err(AmbiguousPath::DotSegment),
            ("..", _) => drop(kept.pop()),
            (".", _) => {}
            _ => kept.push(segment),
        }
    }
    let names: Vec<String> = kept.into_iter().filter(|name| !name.is_empty()).collect();
    let end = if is_open && !names.is_empty() { "/" } else { "" };
    Ok(format!("/{}{end}", names.join("/")))
}

/// Returns the normal form of a segment.
fn spelled(written: &str) -> Result<String, AmbiguousPath> {
    let (mut text, mut rest) = (String::with_capacity(written.len()), written.as_bytes());
    while let [first, behind @ ..] = rest {
        let byte = if *first == b'%' { escaped(behind)? } else { *first };
        rest = if *first == b'%' { &behind[2..] } else { behind };
        match byte {
            b'/' | b'\\' | 0..0x20 | 0x7f => return Err(AmbiguousPath::Separator),
            plain if plain.is_ascii_alphanumeric() || PLAIN.contains(&plain) => text.push(char::from(plain)),
            other => write!(text, "%{other:02X}").expect("a string takes every text"),
        }
    }
    Ok(text)
}

/// Returns the byte whose digits follow a `%` at the beginning of `behind`.
fn escaped(behind: &[u8]) -> Result<u8, AmbiguousPath> {
    let digit = |at: usize| behind.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    let (high, low) = digit(0).zip(digit(1)).ok_or(AmbiguousPath::Escape)?;
    Ok((high << 4 | low) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/http.md has more, which is played against both users of this.
    #[test]
    fn spellings_of_one_path_become_one() {
        use AmbiguousPath::{DotSegment, Escape, Separator};
        #[rustfmt::skip]
        let table = [
            ("/%64%65%61%72",       Ok("/dear")),
            ("/%7Euser/%2d%5F%2E",  Ok("/~user/-_.")),
            ("/b%3F%c3%a9é",        Ok("/b%3F%C3%A9%C3%A9")),
            ("/a%3ab@c%40",         Ok("/a:b@c@")),
            ("/a%3bb",              Ok("/a%3Bb")),
            ("/\"%22 |",            Ok("/%22%22%20%7C")),
            ("/free/%2e%2E/dear",   Ok("/dear")),
            ("/../../dear",         Ok("/dear")),
            ("/a/b/..",             Ok("/a/")),
            ("/a/.",                Ok("/a/")),
            ("/..",                 Ok("/")),
            ("/",                   Ok("/")),
            ("//",                  Ok("/")),
            ("///a//b///",          Ok("/a/b/")),
            ("/;x=1/a;y/b;",        Ok("/a/b")),
            ("/a/b/c/./../../g",    Ok("/a/g")),
            ("/...",                Ok("/...")),
            ("*",                   Ok("*")),
            ("",                    Ok("")),
            ("/a%2fb",              Err(Separator)),
            ("/a%5Cb",              Err(Separator)),
            ("/a\\b",               Err(Separator)),
            ("/a%00",               Err(Separator)),
            ("/a%7f",               Err(Separator)),
            ("/100%",               Err(Escape)),
            ("/%4",                 Err(Escape)),
            ("/%+1",                Err(Escape)),
            ("/é%é",                Err(Escape)),
            ("/dear/..;/free",      Err(DotSegment)),
            ("/dear/.;x/free",      Err(DotSegment)),
            ("/dear/;/../free",     Err(DotSegment)),
            ("/dear//../free",      Err(DotSegment)),
            ("/dear//./../free",    Err(DotSegment)),
        ];
        for (written, expected) in table {
            let spelled = normalised(written);
            assert_eq!(spelled.as_deref(), expected.as_ref().map(|expected| &**expected), "{written}");
            if let Ok(spelled) = spelled {
                assert_eq!(normalised(&spelled), Ok(spelled.clone()), "{written}");
            }
        }
    }
}
