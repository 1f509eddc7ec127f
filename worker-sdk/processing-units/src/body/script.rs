//! An evalscript, which is evaluated only if needed.

use super::setup::Setup;
use crate::{Error, ErrorKind};
use std::cell::OnceCell;

/// The evalscript of a body.
pub(super) struct Script<'a> {
    source: Option<&'a str>,
    path: String,
    setup: OnceCell<Setup>,
}

impl<'a> Script<'a> {
    pub(super) fn new(source: Option<&'a str>, path: String) -> Self {
        Script { source, path, setup: OnceCell::new() }
    }

    /// Its place in the body.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The result of `setup()`, which is needed for `what` unless `--option` is passed.
    pub(super) fn setup(&self, what: &str, option: &str) -> Result<&Setup, Error> {
        if let Some(setup) = self.setup.get() {
            return Ok(setup);
        }
        let Some(source) = self.source else {
            let problem = format!("without an evalscript {what} can't be known");
            return Err(Error::unknowable(problem, what, &[option]).at(&self.path));
        };
        let answer = evaluate(source, what, option).map_err(|error| error.at(&self.path))?;
        Ok(self.setup.get_or_init(|| Setup::new(answer)))
    }
}

#[cfg(feature = "evalscript")]
fn evaluate(source: &str, what: &str, option: &str) -> Result<serde_json::Value, Error> {
    rampmeter_evalscript::setup(source).map_err(|error| {
        let remedy = crate::error::pass(what, &[option]);
        Error::new(ErrorKind::Script, error.to_string(), format!("correct the evalscript, or {remedy}"))
    })
}

#[cfg(not(feature = "evalscript"))]
fn evaluate(_: &str, what: &str, option: &str) -> Result<serde_json::Value, Error> {
    let remedy = format!("{}, or build with the feature `evalscript`", crate::error::pass(what, &[option]));
    Err(Error::new(ErrorKind::Unknowable, format!("only the evalscript tells {what}"), remedy))
}
