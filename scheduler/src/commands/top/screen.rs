//! The terminal of the dashboard, which is restored when this is dropped.

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::Frame;

/// A terminal that the program uses alone. A panic restores it too, before the panic's message is
/// printed.
#[derive(Debug)]
pub struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If there is no terminal.
    pub fn open() -> anyhow::Result<Self> {
        let opened = ratatui::try_init();
        opened.map(Screen).inspect_err(|_| ratatui::restore()).context("the terminal can't be used")
    }

    /// Paints a picture. Only what differs from the one before is written.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn paint(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.0.draw(picture).map(drop).context("the terminal can't be written to")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors have no remedy: the terminal may be gone.
        self.0.show_cursor().ok();
        // After a panic, the terminal was restored already, and shows the message.
        if !std::thread::panicking() {
            ratatui::try_restore().ok();
        }
    }
}
