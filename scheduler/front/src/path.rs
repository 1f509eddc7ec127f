//! Spellings of a path that mean the same (RFC 3986, section 6.2.2).

/// The one spelling that stands for all spellings of `path`: unreserved characters are decoded,
/// other escapes are in upper case, and dot segments are resolved.
pub(super) fn normalised(path: &str) -> String {
    without_dot_segments(&decoded(path))
}

/// `path` with each escape of an unreserved character decoded. All other escapes keep their
/// meaning.
fn decoded(path: &str) -> String {
    let mut pieces = path.split('%');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match digits.filter(|_| piece.as_bytes()[0] != b'+').map(char::from) {
            Some(plain) if is_unreserved(plain) => text.push(plain),
            Some(reserved) => text.push_str(&format!("%{:02X}", u32::from(reserved))),
            None => {
                text.push('%');
                text.push_str(piece);
                continue;
            }
        }
        text.push_str(&piece[2..]);
    }
    text
}

fn is_unreserved(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~')
}

/// A path that does not begin with a slash has no segments to resolve.
fn without_dot_segments(path: &str) -> String {
    let Some(relative) = path.strip_prefix('/') else { return path.to_owned() };
    let mut kept = Vec::new();
    for segment in relative.split('/') {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if relative.rsplit('/').next().is_some_and(|last| matches!(last, "." | "..")) {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_become_one() {
        #[rustfmt::skip]
        let table = [
            ("/dear",               "/dear"),
            ("/%64ear",             "/dear"),
            ("/%64%65%61%72",       "/dear"),
            ("/%7Euser/%2d%5F%2E",  "/~user/-_."),
            ("/a%2fb%3F%c3%a9",     "/a%2Fb%3F%C3%A9"),
            ("/100%/%zz%4/%+1%",    "/100%/%zz%4/%+1%"),
            ("/%2564ear",           "/%2564ear"),
            ("/a/./b/../dear",      "/a/dear"),
            ("/free/%2e%2E/dear",   "/dear"),
            ("/../../dear",         "/dear"),
            ("/a/b/..",             "/a/"),
            ("/a/.",                "/a/"),
            ("/..",                 "/"),
            ("/",                   "/"),
            ("//dear",              "//dear"),
            ("/a//../b",            "/a/b"),
            ("/a/b/c/./../../g",    "/a/g"),
            ("/...",                "/..."),
            ("*",                   "*"),
            ("",                    ""),
            ("/é%é",                "/é%é"),
        ];
        for (written, expected) in table {
            assert_eq!(normalised(written), expected, "{written}");
            assert_eq!(normalised(expected), expected, "{expected}");
        }
    }
}
