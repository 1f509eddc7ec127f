//! What a worker uses to call a rate-limited API without ever being told 429.
