//! Processes whose clock of the day is wrong, as on hosts without time synchronisation.

use crate::patience::within;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::process::Command;

/// The source of the library that replaces the system's clock.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schedulers/wrong_clock.c");

/// A library that offsets the clock of the day in a process that loads it before all other
/// libraries.
pub struct WrongClock {
    folder: TempDir,
}

impl WrongClock {
    /// Compiles it.
    pub async fn build() -> Self {
        let clock = WrongClock { folder: tempfile::tempdir().unwrap() };
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.library()).arg(SOURCE);
        let status = within("the library is compiled", compiler.status()).await.unwrap();
        assert!(status.success(), "cc: {status}");
        clock
    }

    /// The environment of a process whose clock is fast by this many seconds; a negative number
    /// means slow.
    pub fn fast_by(&self, seconds: i64) -> [(&'static str, String); 2] {
        let library = self.library().into_os_string().into_string().unwrap();
        [("LD_PRELOAD", library), ("WRONG_CLOCK_SECONDS", seconds.to_string())]
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("wrong_clock.so")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::clock::unix_ms;

    #[tokio::test]
    async fn a_process_sees_the_wrong_time_of_the_day() {
        let clock = WrongClock::build().await;
        for off in [0, 3, -3600, 86_400] {
            let mut date = Command::new("date");
            let printed = within("date ends", date.arg("+%s").envs(clock.fast_by(off)).output()).await.unwrap().stdout;
            let seen: i64 = String::from_utf8(printed).unwrap().trim().parse().unwrap();
            let late = seen - off - i64::try_from(unix_ms() / 1000).unwrap();
            assert!((-2..=0).contains(&late), "{off}: {late}");
        }
    }
}
