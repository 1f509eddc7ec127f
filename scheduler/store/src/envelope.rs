//! An envelope that reveals damage: magic, version, length, checksum, a signature if there are keys, and content.

use super::state_keys::{SignatureFault, StateKeys};

/// The first word of every value.
const MAGIC: &str = "rampmeter";
/// The version of content that every build reads.
pub(super) const FIRST: u32 = 1;
/// The version of a record that names pages of keys, for which earlier builds would not look.
pub(super) const WITH_PAGES: u32 = 2;
/// The latest version that this build reads.
const VERSION: u32 = WITH_PAGES;

/// Why a value can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The value does not begin like a value of Rampmeter.
    #[error("not a value of Rampmeter")]
    Foreign,
    /// The value was deleted.
    #[error("it was deleted")]
    Deleted,
    /// The value is of a later version.
    #[error("written in format {0}, this build reads {VERSION}")]
    Newer(u32),
    /// The value is shorter or longer than its header says.
    #[error("{found} bytes long instead of {expected}")]
    Length {
        /// The length in the header.
        expected: usize,
        /// The actual length.
        found: usize,
    },
    /// The content does not match its checksum.
    #[error("its checksum is wrong")]
    Checksum,
    /// No scheduler has signed the value.
    #[error(transparent)]
    Signature(#[from] SignatureFault),
    /// The content can't be read.
    #[error("its content can't be read: {0}")]
    Content(String),
}

/// Wraps `content` of this version into an envelope, and signs it as the value of `name`.
pub(super) fn seal(keys: &StateKeys, name: &str, version: u32, content: &[u8]) -> Vec<u8> {
    let mut header = format!("{MAGIC} {version} {} {:08x}", content.len(), crc32c::crc32c(content));
    if let Some(signature) = keys.sign(name, &header, content) {
        header = format!("{header} {signature}");
    }
    [header.as_bytes(), b"\n", content].concat()
}

/// Checks the envelope of the value of `name`, and returns the content.
pub(super) fn open<'a>(keys: &StateKeys, name: &str, value: &'a [u8]) -> Result<&'a [u8], RecordError> {
    let end = value.iter().position(|byte| *byte == b'\n').ok_or(RecordError::Foreign)?;
    let (header, content) = (&value[..end], &value[end + 1..]);
    let header = std::str::from_utf8(header).map_err(|_| RecordError::Foreign)?;
    let words = header.split(' ').collect::<Vec<_>>();
    let ([magic, version, length, checksum], signature) = match words[..] {
        [magic, version, length, checksum] => ([magic, version, length, checksum], None),
        [magic, version, length, checksum, signature] => ([magic, version, length, checksum], Some(signature)),
        _ => return Err(RecordError::Foreign),
    };
    let version: u32 = version.parse().map_err(|_| RecordError::Foreign)?;
    let expected: usize = length.parse().map_err(|_| RecordError::Foreign)?;
    match () {
        () if magic != MAGIC || version == 0 => Err(RecordError::Foreign),
        () if version > VERSION => Err(RecordError::Newer(version)),
        () if content.len() != expected => Err(RecordError::Length { expected, found: content.len() }),
        () if checksum != format!("{:08x}", crc32c::crc32c(content)) => Err(RecordError::Checksum),
        () => {
            let header = signature.and_then(|_| header.rsplit_once(' ')).map_or(header, |(header, _)| header);
            keys.check(name, header, content, signature)?;
            Ok(content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "an-old-key-of-forty-characters-or-so-0123";
    const NEW: &str = "a-new-key-of-forty-characters-or-so-45678";

    fn keys(lines: &[&str]) -> StateKeys {
        if lines.is_empty() { StateKeys::default() } else { StateKeys::parse(&lines.join("\n")).unwrap() }
    }

    #[test]
    fn a_sealed_value_can_be_opened() {
        let keys = StateKeys::default();
        assert_eq!(open(&keys, "", &seal(&keys, "", FIRST, b"content")), Ok(&b"content"[..]));
    }

    #[test]
    fn a_record_counts_if_a_key_has_signed_it_under_its_name() {
        use SignatureFault::{Missing, Wrong};
        let written = |lines: &[&str], name: &str| seal(&keys(lines), name, FIRST, b"content");
        let old = written(&[OLD], "b.state.hub");
        let forged = String::from_utf8(old.clone()).unwrap().replace("content", "contend");
        let forged = forged
            .replace(&format!("{:08x}", crc32c::crc32c(b"content")), &format!("{:08x}", crc32c::crc32c(b"contend")));
        #[rustfmt::skip]
        let table = [
            // The stored value, the reader's keys, and the outcome.
            (old.clone(),                          &[OLD][..],              None),
            (old.clone(),                          &["# two", "", NEW, OLD], None),
            (old.clone(),                          &[NEW],                  Some(Wrong)),
            (old.clone(),                          &[],                     None),
            (forged.into_bytes(),                  &[OLD, "unsigned"],      Some(Wrong)),
            (written(&[OLD], "b.state.api"),       &[OLD],                  Some(Wrong)),
            (written(&[OLD], "c.state.hub"),       &[OLD],                  Some(Wrong)),
            (written(&[], "b.state.hub"),          &[OLD],                  Some(Missing)),
            (written(&[], "b.state.hub"),          &["unsigned", OLD],      None),
            (written(&["unsigned", NEW, OLD], ""), &[OLD],                  Some(Wrong)),
        ];
        for (value, reader, expected) in table {
            let read = open(&keys(reader), "b.state.hub", &value);
            assert_eq!(
                read.err(),
                expected.map(RecordError::Signature),
                "{} for {reader:?}",
                String::from_utf8_lossy(&value)
            );
        }
        assert!(!String::from_utf8(old).unwrap().contains(OLD));
    }

    #[test]
    fn every_bit_flip_and_every_truncation_is_noticed() {
        let keys = StateKeys::default();
        let sealed = seal(&keys, "", FIRST, b"{\"epoch\":7}");
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(open(&keys, "", &flipped), Ok(&b"{\"epoch\":7}"[..]), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(open(&keys, "", &sealed[..length]).is_err(), "length {length}");
        }
    }
}
