//! Collects what a body lacks, so that one error lists all of it.

use crate::Error;

#[derive(Default)]
pub(super) struct Gaps(Vec<Error>);

impl Gaps {
    /// Returns the fact, `None` if the caller could pass it, or an error if the body is wrong.
    pub(super) fn known<T>(&mut self, fact: Result<T, Error>) -> Result<Option<T>, Error> {
        match fact {
            Ok(fact) => Ok(Some(fact)),
            Err(error) if error.is_gap() => {
                self.0.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns one error about everything missing. Each unknown fact must have a gap.
    pub(super) fn error(self) -> Error {
        self.0.into_iter().reduce(Error::and).expect("a fact is missing")
    }
}
