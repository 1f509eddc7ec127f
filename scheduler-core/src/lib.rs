//! Decides when calls may start; does nothing else.
