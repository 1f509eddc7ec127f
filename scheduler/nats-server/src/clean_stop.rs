//! The mark of a clean stop in a store, by which the next server there keeps the name.
//!
//! The store may be copied and put back at any time. The mark counts only if none of that has happened: it is the same
//! file, written when it says, in the same boot of the machine, and nothing in the store has changed since. The system
//! sets the time of a file's change, which no program can set back.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, Metadata};
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const MARK: &str = "clean-stop";
/// Linux's id of the current boot. After another boot, unwritten data may be missing.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Longest time in which a mark is written, which reveals a copy made later.
const WRITTEN_WITHIN_SECS: i64 = 1;

/// Linux dates changes of files by a clock that ticks at least this often (with `CONFIG_HZ=100`).
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Leaves a mark that the server called `name` has stopped, and waits until every later change of a
/// file has a later date. Without a mark the next start is only more careful.
pub(crate) async fn leave(store: &Path, name: &str) -> io::Result<()> {
    let mut file = File::create(store.join(MARK))?;
    let (created, boot) = (file.metadata()?, fs::read_to_string(BOOT_ID)?);
    write!(file, "{name} {} {} {boot}", identity(&created), created.ctime())?;
    tokio::time::sleep(CLOCK_TICK).await;
    Ok(())
}

/// Identifies a file, even if another gets its inode later, where the file system keeps the time of creation.
fn identity(file: &Metadata) -> String {
    let born = file.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    format!("{}-{}", file.ino(), born.unwrap_or_default().as_nanos())
}

/// Returns the name of the server that left `store` as it is, or a new one. A mark counts once: starts change the lock.
pub(crate) fn name(store: &Path, prefix: &str) -> String {
    let drawn = || format!("{prefix}{:016x}", RandomState::new().hash_one(store));
    left_by(store).ok().flatten().unwrap_or_else(drawn)
}

fn left_by(store: &Path) -> io::Result<Option<String>> {
    let (text, mark) = (fs::read_to_string(store.join(MARK))?, fs::symlink_metadata(store.join(MARK))?);
    let boot = fs::read_to_string(BOOT_ID)?;
    let [name, file, created, of_boot] = *text.split_whitespace().collect::<Vec<_>>() else { return Ok(None) };
    let created: i64 = created.parse().unwrap_or(0);
    let is_itself = file == identity(&mark) && mark.ctime() - created <= WRITTEN_WITHIN_SECS;
    let is_whole = is_itself && of_boot == boot.trim() && unchanged_since(&mark, store)?;
    Ok(is_whole.then(|| name.to_owned()))
}

/// Returns whether nothing at `path` or below it has changed after `mark`.
fn unchanged_since(mark: &Metadata, path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    if changed(&found) > changed(mark) {
        return Ok(false);
    }
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            if !unchanged_since(mark, &entry?.path())? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// When a file was last changed, written, or moved here, in seconds and nanoseconds.
fn changed(file: &Metadata) -> (i64, i64) {
    (file.ctime(), file.ctime_nsec())
}
