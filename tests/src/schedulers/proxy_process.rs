//! `rampmeter proxy` in a process of its own.

use crate::process::{Process, Program};
use std::ops::{Deref, DerefMut};

/// A running `rampmeter proxy` that holds requests, used like any process. Dropping it kills it.
pub struct ProxyProcess {
    process: Process,
    url: String,
}

impl ProxyProcess {
    /// Starts it on a free port, with this configuration unless that is empty, and waits until it
    /// listens.
    ///
    /// # Panics
    /// If it does not; the message has its log.
    pub async fn start(
        program: Program,
        configuration: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut process = Process::begin_proxy(program, configuration, arguments, environment);
        let url = process.until_it_holds().await;
        ProxyProcess { process, url }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Deref for ProxyProcess {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for ProxyProcess {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}
