//! The evalscript of a body, which is read only if needed.

use super::setup::Setup;
use crate::error::Gap;
use crate::{Error, ErrorKind, evalscript};
use std::cell::OnceCell;

pub(super) struct Script<'a> {
    source: Option<&'a str>,
    path: String,
    setup: OnceCell<Result<Setup, Problem>>,
}

struct Problem {
    kind: ErrorKind,
    text: String,
    instead: &'static str,
}

impl<'a> Script<'a> {
    pub(super) fn new(source: Option<&'a str>, path: String) -> Self {
        Script { source, path, setup: OnceCell::new() }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the result of `setup()`, which is needed unless the caller closes this gap.
    pub(super) fn setup(&self, gap: Gap) -> Result<&Setup, Error> {
        let setup = self.setup.get_or_init(|| read(self.source).map(Setup::new));
        setup
            .as_ref()
            .map_err(|problem| Error::gap(problem.kind, problem.text.as_str(), gap.or(problem.instead)).at(&self.path))
    }
}

fn read(source: Option<&str>) -> Result<serde_json::Value, Problem> {
    let Some(source) = source else {
        return Err(Problem { kind: ErrorKind::Unknowable, text: "there is no evalscript".to_owned(), instead: "" });
    };
    let problem = |text| Problem { kind: ErrorKind::Script, text, instead: "correct the evalscript" };
    evalscript::setup(source).map_err(problem)
}
