//! An HTTP service that enforces rate limits for real, written without any code of the core.
