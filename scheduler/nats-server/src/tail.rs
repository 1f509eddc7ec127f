//! The end of a process's output, which usually says what went wrong.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Output;

/// The bytes that are kept, some forty lines: enough for an error with its context, short enough
/// for a message.
const TAIL_BYTES: usize = 4096;

/// The end of a finished process's output: standard output, then standard error.
pub(crate) fn of_output(output: &Output) -> String {
    of_bytes(&[output.stdout.as_slice(), &output.stderr].concat())
}

/// The end of a file. Only this part is read.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    Ok(of_bytes(&end))
}

/// The last complaint in the log of a nats-server, without its time; otherwise the last line.
pub(crate) fn last_complaint(log: &str) -> &str {
    let complaint = |line| ["[FTL] ", "[ERR] "].iter().find_map(|level| Some(str::split_once(line, level)?.1));
    let last_line = log.lines().rfind(|line| !line.trim().is_empty());
    log.lines().rev().find_map(complaint).or(last_line).unwrap_or("its log is empty")
}

fn of_bytes(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(TAIL_BYTES);
    String::from_utf8_lossy(&bytes[start..]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{TAIL_BYTES, last_complaint, of_bytes, of_file};

    #[test]
    fn only_the_end_is_kept() {
        let long = format!("begin{}end\n", "x".repeat(TAIL_BYTES));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &long).unwrap();

        for tail in [of_bytes(long.as_bytes()), of_file(file.path()).unwrap()] {
            assert!(tail.ends_with("xend") && !tail.contains("begin"), "{tail}");
        }
    }

    #[test]
    fn a_log_ends_with_a_complaint() {
        let fatal = "[7] 2026/01/02 03:04:05.6 [INF] Took 4ms\n[7] 2026/01/02 03:04:05.7 [FTL] no port\n";
        assert_eq!(last_complaint(fatal), "no port");
        assert_eq!(last_complaint("nats.conf:1:1: unknown field \"a\"\n\n"), "nats.conf:1:1: unknown field \"a\"");
        assert_eq!(last_complaint(""), "its log is empty");
    }

    #[test]
    fn a_short_text_is_kept_whole() {
        assert_eq!(of_bytes(b"  no such thing\n"), "no such thing");
        assert_eq!(of_bytes(b""), "");
    }
}
