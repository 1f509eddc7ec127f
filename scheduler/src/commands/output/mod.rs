//! The output of commands. A reader that goes away, as `head` does, ends the command, which is no failure.

pub(crate) mod error_text;
pub(super) mod human;
pub(super) mod reasons;
pub(super) mod table;

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write, stdout};

#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
struct ReaderGone;

/// Returns whether a command ended because the reader of its output has gone.
#[must_use]
pub fn is_reader_gone(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<ReaderGone>())
}

/// Returns whether standard output is a terminal whose user wants colours.
pub(super) fn is_coloured() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Prints a text, and ends the line. Fails if the reader has gone, or standard output can't be written.
pub(super) fn line(text: impl Display) -> anyhow::Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints a text that ends its own lines. Fails if the reader has gone, or standard output can't be written.
pub(super) fn print(text: impl Display) -> anyhow::Result<()> {
    let mut output = stdout().lock();
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::Error::new(error).context("standard output takes nothing")),
    }
}

/// Prints a line, for a command that has other work if the reader has gone.
pub(super) fn line_if_read(text: impl Display) {
    print_if_read(format_args!("{text}\n"));
}

/// Prints a text that ends its own lines, like [`line_if_read`].
pub(super) fn print_if_read(text: impl Display) {
    print(text).ok();
}

/// Prints a value, as JSON or as a text that ends its own lines. Fails like [`print()`].
pub(super) fn show<T: serde::Serialize>(
    as_json: bool,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    if as_json { json(value) } else { print(text(value)) }
}

/// Prints a value as JSON. Fails like [`print()`].
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}
