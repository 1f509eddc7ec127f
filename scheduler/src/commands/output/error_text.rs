//! Errors as text for people.

use std::error::Error;

/// Formats the error and its causes in one line, without a cause whose text is already included.
#[must_use]
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct ChainedError {
        text: &'static str,
        source: Option<Box<ChainedError>>,
    }

    #[test]
    fn every_cause_is_told_once() {
        let chain = |texts: &[&'static str]| {
            texts.iter().rev().fold(None, |source, text| Some(Box::new(ChainedError { text, source }))).unwrap()
        };
        #[rustfmt::skip]
        let table: [(&[&str], &str); 3] = [
            (&["no server", "IO error: refused", "refused"],    "no server: IO error: refused"),
            (&["a", "b", "c"],                                  "a: b: c"),
            (&["alone"],                                        "alone"),
        ];
        for (texts, expected) in table {
            assert_eq!(with_causes(&*chain(texts)), expected);
        }
    }
}
