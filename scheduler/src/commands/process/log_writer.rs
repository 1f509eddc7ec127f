//! Writes log lines to standard error, without waiting for a slow reader or failing with a broken one.
//!
//! `tracing-appender` does not count refused lines, and its own complaints there can block or panic.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Bound on the bytes of waiting lines: ten thousand lines or more, little beside a busy scheduler's memory.
const MAX_WAITING: usize = 4 << 20;
/// How long the process waits for its last lines: little beside the 5 s of a hand-over and a manager's 10 s.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Queues lines for a thread that writes them. Lines without room, or that fail, are lost and counted.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    entries: Sender<Entry>,
    counts: Arc<Counts>,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Answered once all previous entries are written.
    Flush(Sender<()>),
}

#[derive(Debug, Default)]
struct Counts {
    waiting_bytes: AtomicUsize,
    lost_lines: AtomicU64,
}

impl LogWriter {
    /// Starts to write to `output`, and fails if the system can't start a thread. After lines were lost,
    /// `report_lost` is called with their number once a line is written again.
    pub(crate) fn start(output: impl Write + Send + 'static, report_lost: fn(lost_lines: u64)) -> io::Result<Self> {
        let (entries, written) = channel();
        let counts = Arc::new(Counts::default());
        let writer = LogWriter { entries, counts: Arc::clone(&counts) };
        std::thread::Builder::new()
            .name("logs".to_owned())
            .spawn(move || write_all(output, &written, &counts, report_lost))?;
        Ok(writer)
    }

    pub(crate) fn lost_lines(&self) -> u64 {
        self.counts.lost_lines.load(Ordering::Relaxed)
    }

    /// Waits until every line is written, for at most [`LAST_LINES`].
    pub(crate) fn flush(&self) {
        let (flushed, is_flushed) = channel();
        if self.entries.send(Entry::Flush(flushed)).is_ok() {
            is_flushed.recv_timeout(LAST_LINES).ok();
        }
    }

    fn enqueue(&self, line: &[u8]) {
        let waiting = self.counts.waiting_bytes.fetch_add(line.len(), Ordering::Relaxed) + line.len();
        if waiting > MAX_WAITING || self.entries.send(Entry::Line(line.to_vec())).is_err() {
            self.counts.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
            self.counts.lost_lines.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Each call of `write` passes one whole line.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.enqueue(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(mut output: impl Write, entries: &Receiver<Entry>, counts: &Counts, report_lost: fn(u64)) {
    let mut reported = 0;
    for entry in entries {
        let line = match entry {
            Entry::Line(line) => line,
            Entry::Flush(flushed) => {
                flushed.send(()).ok();
                continue;
            }
        };
        let written = output.write_all(&line).is_ok();
        let waiting = counts.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed) - line.len();
        let lost = counts.lost_lines.fetch_add(u64::from(!written), Ordering::Relaxed);
        // The report is a line itself. It waits for an empty queue, or a slow reader would see
        // little else. It also waits for a successful write, as it would be lost too.
        if written && waiting == 0 && lost > reported {
            report_lost(lost - reported);
            reported = lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::SyncSender;

    /// Hands each line to the receiver when it reads, and fails once the receiver is gone.
    struct Slow(SyncSender<String>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let line = String::from_utf8_lossy(line).into_owned();
            let written = line.len();
            self.0.send(line).map(|()| written).map_err(|_| io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_finds_the_queue_full_is_lost_and_reported_when_the_queue_is_empty() {
        static REPORTED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
        let (lines, read) = std::sync::mpsc::sync_channel(0);
        let mut writer = LogWriter::start(Slow(lines), |lost| REPORTED.lock().unwrap().push(lost)).unwrap();
        let line = vec![b'x'; MAX_WAITING / 4];
        for _ in 0..7 {
            writer.write_all(&line).unwrap();
        }
        assert_eq!(writer.lost_lines(), 3, "four fit");
        for _ in 0..4 {
            assert_eq!(read.recv().unwrap().len(), line.len());
        }
        writer.flush();
        assert_eq!(*REPORTED.lock().unwrap(), [3]);
        writer.write_all(b"next").unwrap();
        assert_eq!(read.recv().unwrap(), "next");
        writer.flush();
        assert_eq!((writer.lost_lines(), &**REPORTED.lock().unwrap()), (3, &[3][..]), "once");
    }
}
