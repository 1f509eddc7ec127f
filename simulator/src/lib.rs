//! Worlds in virtual time around the real scheduler core.
