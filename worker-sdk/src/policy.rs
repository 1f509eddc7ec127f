//! What the client does while no scheduler of a resource answers.

pub use rampmeter_worker_session::{Patience, PatienceError, SafeRate, SafeRateError, Unreachable};

use crate::Error;
use rampmeter_protocol::name::Name;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Policies {
    usual: Unreachable,
    by_name: BTreeMap<Name, Unreachable>,
}

impl Policies {
    /// Fails if a key of `own` is not a valid resource name.
    pub(crate) fn new(usual: Unreachable, own: Vec<(String, Unreachable)>) -> Result<Self, Error> {
        let by_name = own.into_iter().map(|(name, policy)| Ok((named(&name)?, policy)));
        Ok(Policies { usual, by_name: by_name.collect::<Result<_, Error>>()? })
    }

    pub(crate) fn of(&self, resource: &Name) -> Unreachable {
        self.by_name.get(resource).copied().unwrap_or(self.usual)
    }
}

pub(crate) fn named(name: &str) -> Result<Name, Error> {
    Name::new(name).map_err(|error| Error::invalid(format!("resource {name:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_resource_may_have_a_policy_of_its_own() {
        let fail = Unreachable::Fail { after: Patience::default() };
        let policies = Policies::new(Unreachable::Wait, vec![("hub".to_owned(), fail)]).unwrap();
        assert_eq!(policies.of(&Name::new("hub").unwrap()), fail);
        assert_eq!(policies.of(&Name::new("other").unwrap()), Unreachable::Wait);
        let error = Policies::new(fail, vec![("no hub".to_owned(), fail)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
