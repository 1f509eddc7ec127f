//! Faults of the endpoints besides the API.

/// An endpoint besides the API itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Gives access tokens.
    Token,
    /// Tells the policies.
    Contract,
    /// Tells the levels.
    TokenCounts,
}

/// What an endpoint does instead of its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The endpoint answers with this status, from 100 to 999, and no body.
    Status(u16),
    /// The endpoint takes the request and never answers.
    Hang,
    /// The endpoint answers 200 with this body.
    Body(String),
}
