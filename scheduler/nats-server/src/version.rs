//! The version of a nats-server, as a server prints it. Old servers lack what the store needs.

use std::fmt;

/// The version of a nats-server. A pre-release counts as its release: 2.12.0-RC.1 is read as
/// 2.12.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// The oldest supported version. Older servers silently ignore message schedules and atomic
    /// batches.
    pub const OLDEST: Self = Self::new(2, 12, 0);

    /// The version `major.minor.patch`.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The first version in the output of `nats-server --version`.
    pub(crate) fn in_output(output: &str) -> Option<Self> {
        output.split_whitespace().find_map(Self::of_word)
    }

    fn of_word(word: &str) -> Option<Self> {
        let number = word.strip_prefix('v').unwrap_or(word);
        let (release, _pre_release) = number.split_once(['-', '+']).unwrap_or((number, ""));
        let mut parts = release.split('.').map(|part| part.parse().ok());
        let version = Self::new(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_read_from_what_servers_print() {
        let table = [
            ("nats-server: v2.15.1\n", Some(Version::new(2, 15, 1))),
            ("nats-server: v2.9.10", Some(Version::new(2, 9, 10))),
            ("nats-server: v2.12.0-RC.4", Some(Version::new(2, 12, 0))),
            ("nats-server: v2.12.3+build.7", Some(Version::new(2, 12, 3))),
            ("nats-server version 2.0.0", Some(Version::new(2, 0, 0))),
            ("nats-server: v2.12", None),
            ("nats-server: v2.12.0.1", None),
            ("nats-server: v2.x.0", None),
            ("nats-server: v-2.12.0", None),
            ("command not found", None),
            ("", None),
        ];
        for (output, version) in table {
            assert_eq!(Version::in_output(output), version, "{output:?}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let ascending = [
            Version::new(2, 9, 25),
            Version::new(2, 11, 99),
            Version::OLDEST,
            Version::new(2, 12, 1),
            Version::new(3, 0, 0),
        ];
        assert!(ascending.is_sorted());
        assert_eq!(Version::OLDEST.to_string(), "2.12.0");
    }
}
