//! Rejects HTTP/1 heads that can be read in several ways.
//!
//! Two servers that read a request differently let a client smuggle a second one past the first. hyper accepts lines
//! without a carriage return, bodies with two lengths, and transfer codings other than `chunked`; this does not.

/// The first bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";
const END: &[u8] = b"\r\n\r\n";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The head is incomplete.
    Open,
    /// An empty line in front of a request, which servers skip.
    Empty,
    /// The head ends after this many bytes, and its body is framed like this.
    Clear(usize, Framing),
    /// The connection is HTTP/2, whose frames state their lengths.
    Http2,
    /// The head can be read in several ways.
    Ambiguous(&'static str),
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The body has this many bytes.
    Length(u64),
    /// The body ends with its last chunk.
    Chunked,
}

/// Checks `bytes`, of which `seen` were checked before.
pub(crate) fn check(bytes: &[u8], seen: usize) -> Verdict {
    if bytes.starts_with(PREFACE) {
        return Verdict::Http2;
    }
    if bytes.starts_with(b"\r\n") {
        return Verdict::Empty;
    }
    let from = seen.min(bytes.len()).saturating_sub(END.len() - 1);
    match bytes[from..].windows(END.len()).position(|window| window == END) {
        Some(end) => read(&bytes[..from + end + END.len()]),
        None if has_bare_line_end(&bytes[from..], from == 0) => Verdict::Ambiguous("a line ends without CR LF"),
        None => Verdict::Open,
    }
}

/// Whether a line feed has no carriage return in front, or a carriage return no line feed behind.
fn has_bare_line_end(bytes: &[u8], is_start: bool) -> bool {
    let starts_bare = is_start && bytes.first() == Some(&b'\n');
    let pairs = bytes.windows(2).any(|pair| (pair[0] == b'\r') != (pair[1] == b'\n'));
    starts_bare || pairs
}

fn read(head: &[u8]) -> Verdict {
    if has_bare_line_end(head, true) {
        return Verdict::Ambiguous("a line ends without CR LF");
    }
    let mut lengths = Fields::default();
    let mut codings = Fields::default();
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).skip(1);
    for line in lines.take_while(|line| !line.is_empty()) {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Verdict::Ambiguous("a field is folded");
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Verdict::Ambiguous("a line has no colon");
        };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths.add(value);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            codings.add(value);
        }
    }
    match framing(&lengths, &codings) {
        Ok(framing) => Verdict::Clear(head.len(), framing),
        Err(why) => Verdict::Ambiguous(why),
    }
}

#[derive(Default)]
struct Fields<'a> {
    first: Option<&'a [u8]>,
    has_more: bool,
}

impl<'a> Fields<'a> {
    fn add(&mut self, value: &'a [u8]) {
        self.has_more = self.first.is_some();
        self.first.get_or_insert(value);
    }
}

fn framing(lengths: &Fields<'_>, codings: &Fields<'_>) -> Result<Framing, &'static str> {
    match (lengths.first, codings.first) {
        _ if lengths.has_more || codings.has_more => Err("the body's length is told twice"),
        (Some(_), Some(_)) => Err("the body has a length and a transfer coding"),
        (None, None) => Ok(Framing::Length(0)),
        (Some(length), None) => digits(length).map(Framing::Length).ok_or("the body's length is no number"),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        (None, Some(_)) => Err("the transfer coding is not `chunked`"),
    }
}

/// Parses digits alone: only some servers accept a sign.
fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_head(fields: &str) -> Verdict {
        check(format!("POST / HTTP/1.1\r\n{fields}\r\n").as_bytes(), 0)
    }

    #[test]
    fn a_head_that_can_be_read_in_two_ways_is_ambiguous() {
        let twice = "the body's length is told twice";
        let both = "the body has a length and a transfer coding";
        let bare = "a line ends without CR LF";
        let coding = "the transfer coding is not `chunked`";
        let length = "the body's length is no number";
        #[rustfmt::skip]
        let table = [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",                 both),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",                 both),
            ("content-length : 5\r\nTRANSFER-ENCODING\t: chunked\r\n",              both),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",       twice),
            ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",       twice),
            ("Transfer-Encoding: gzip, chunked\r\n",                                coding),
            ("Transfer-Encoding: xchunked\r\n",                                     coding),
            ("Transfer-Encoding: \"chunked\"\r\n",                                  coding),
            ("Content-Length: 5\r\nContent-Length: 6\r\n",                          twice),
            ("Content-Length: 5\r\nContent-Length: 5\r\n",                          twice),
            ("Content-Length: +5\r\n",                                              length),
            ("Content-Length: 5, 5\r\n",                                            length),
            ("Content-Length: 0x5\r\n",                                             length),
            ("Content-Length: 99999999999999999999\r\n",                            length),
            ("A: b\r\n c\r\n",                                                      "a field is folded"),
            ("A: b\r\n\tTransfer-Encoding: chunked\r\n",                            "a field is folded"),
            ("A: b\nTransfer-Encoding: chunked\r\n",                                bare),
            ("A: b\rTransfer-Encoding: chunked\r\n",                                bare),
            ("Transfer-Encoding\r\n",                                               "a line has no colon"),
        ];
        for (fields, why) in table {
            assert_eq!(check_head(fields), Verdict::Ambiguous(why), "{fields:?}");
        }
        assert_eq!(check(b"GET / HTTP/1.1\n\n", 0), Verdict::Ambiguous(bare));
        assert_eq!(check(b"\nGET / HTTP/1.1", 0), Verdict::Ambiguous(bare));
    }

    #[test]
    fn a_clear_head_tells_how_its_body_ends() {
        let lengths = [("", 0), ("Content-Length: 5\r\n", 5), ("A: b, c\r\ncontent-length:007 \r\n", 7)];
        for (fields, length) in lengths {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n");
            let found = check(format!("{head}body").as_bytes(), 0);
            assert_eq!(found, Verdict::Clear(head.len(), Framing::Length(length)), "{fields:?}");
        }
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n";
        assert_eq!(check(head.as_bytes(), 0), Verdict::Clear(head.len(), Framing::Chunked));
        assert_eq!(check(PREFACE, 0), Verdict::Http2);
        assert_eq!(check(b"\r\nGET / HTTP/1.1\r\n\r\n", 0), Verdict::Empty);
    }

    /// The network may cut a head anywhere.
    #[test]
    fn a_head_in_pieces_is_the_same_head() {
        let heads =
            ["GET / HTTP/1.1\r\nA: b\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"];
        for head in heads {
            let whole = check(head.as_bytes(), 0);
            for cut in 1..head.len() {
                assert_eq!(check(&head.as_bytes()[..cut], 0), Verdict::Open, "{cut} of {head:?}");
                assert_eq!(check(head.as_bytes(), cut), whole, "{cut} of {head:?}");
            }
        }
    }
}
